"""The checkers one by one: each condition with a kernel that meets it and a twin that does not."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from checks.checkers.manifest import KERNELS
from gemm_lessons.engine.checkers.epochs import Epochs
from gemm_lessons.engine.checkers.global_memory import GlobalRaces
from gemm_lessons.engine.records.launch import Buffer

TOGETHER = True


def floats(count: int, *, output: bool = False) -> np.ndarray:
    values = np.arange(count, dtype=np.float32)
    values.setflags(write=output)
    return values


def said_by(check):
    """``said(body, threads, blocks=1)``: (kind, severity) of each finding of a kernel over A and C."""

    def run(body, threads=64, blocks=1, size=None, **options):
        size = size or threads * blocks
        found = check(body, blocks, threads, [floats(size), floats(size, output=True)], **options)
        return [(f.kind, f.severity) for f in found]

    return run


@pytest.fixture
def said(check):
    return said_by(check)


MEET = 'asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");'
EXCHANGED = {
    "a barrier of the cluster": ("C[b * 64 + t] = A[t]; {barrier} C[(b ^ 1) * 64 + t] += 1;", 2, []),
    "no barrier": ("C[b * 64 + t] = A[t]; C[(b ^ 1) * 64 + t] += 1;", 2, ["block_order", "race"]),
    "read before": ("float x = C[(b ^ 1) * 64 + t]; {barrier} C[b * 64 + t] = x;", 2, []),
    "another cluster": ("C[b * 64 + t] = A[t]; {barrier} C[(b ^ 2) * 64 + t] += 1;", 4, ["block_order", "race"]),
    "another cluster reads before": ("float x = C[(b ^ 2) * 64 + t]; {barrier} C[b * 64 + t] = x;", 4, ["block_order"]),
}


@pytest.mark.parametrize(("body", "blocks", "expected"), EXCHANGED.values(), ids=EXCHANGED.keys())
def test_blocks_of_a_cluster_exchange_data_in_global_memory(check, body, blocks, expected):
    args = [floats(64), floats(64 * blocks, output=True)]
    text = f"const int b = blockIdx.x; {body.format(barrier=MEET)}"
    assert sorted({it.kind for it in check(text, blocks, 64, args, arch="sm_90", cluster=2)}) == expected


def test_a_finding_in_a_helper_names_the_call_too(check):
    """A lambda is a part of the kernel."""
    put = "__device__ void put(float *s, int t, float x)\n{\n    s[t] = x;\n}\n"
    race = ["__shared__ float s[64];", "{call}(s, t, A[t]);", "C[t] = s[63 - t];"]
    args = [floats(64), floats(64, output=True)]
    (found,) = check("\n".join(race).format(call="put"), 1, 64, args, before=put)
    write = found.line
    assert found.called_in == ((write, ("", found.other_line - 1)),)
    assert f"line {write} is called in line {found.other_line - 1}" in found.message
    inside = ["const auto put = [](float *s, int t, float x) {{ s[t] = x; }};", *race]
    (found,) = check("\n".join(inside).format(call="put"), 1, 64, args)
    assert found.called_in == ()


S = "__shared__ float s[256]; "
ZERO = "if (t == 0) s[0] = 0; __syncthreads();"
ERROR, WARNING, NOTE = ("race", "error"), ("race", "warning"), ("race", "note")

# -- shared memory: what orders threads, and what does not -------------------------------------------------------------

ORDER = {
    "own element": ("s[t] = A[t]; C[t] = s[t];", []),
    "other warp": ("s[t] = A[t]; C[t] = s[63 - t];", [ERROR]),
    "barrier": ("s[t] = A[t]; __syncthreads(); C[t] = s[63 - t];", []),
    "same warp": ("s[t] = A[t]; C[t] = s[t ^ 1];", [WARNING]),
    "syncwarp": ("s[t] = A[t]; __syncwarp(); C[t] = s[t ^ 1];", []),
    "syncwarp across warps": ("s[t] = A[t]; __syncwarp(); C[t] = s[t ^ 32];", [ERROR]),
    "syncwarp twice": ("s[t] = A[t]; __syncwarp(); float v = s[t ^ 1]; __syncwarp(); s[t] = 2 * v; C[t] = v;", []),
    "syncwarp once": ("s[t] = A[t]; __syncwarp(); float v = s[t ^ 1]; s[t] = 2 * v; C[t] = v;", [WARNING]),
    "shuffle is no barrier": ("s[t] = A[t]; float v = __shfl_xor_sync(~0u, A[t], 1); C[t] = v + s[t ^ 1];", [WARNING]),
    "two readers": ("if (t == 0) s[0] = A[0]; __syncthreads(); C[t] = s[0];", []),
    "read, then write": ("s[t] = A[t]; __syncthreads(); float v = s[63 - t]; s[t] = v; C[t] = v;", [ERROR]),
    "read, barrier, write": (
        "s[t] = A[t]; __syncthreads(); float v = s[63 - t]; __syncthreads(); s[t] = v; C[t] = v;", []),
    "barrier in a loop": (
        "for (int i = 0; i < 3; ++i) { s[t] = A[t] + i; __syncthreads(); C[t] = s[63 - t]; __syncthreads(); }", []),
    "next round": ("for (int i = 0; i < 3; ++i) { s[t] = A[t] + i; __syncthreads(); C[t] = s[63 - t]; }", [ERROR]),
    "one round only": ("for (int i = 0; i < (int)A[1]; ++i) { s[t] = A[t]; __syncthreads(); C[t] = s[63 - t]; }", []),
    "atomics meet": ("if (t == 0) s[0] = 0; __syncthreads(); atomicAdd(s, A[t]); __syncthreads(); C[t] = s[0];", []),
    "atomic and read": ("if (t == 0) s[0] = 0; __syncthreads(); atomicAdd(s, A[t]); C[t] = s[1 + t] = s[0];", [ERROR]),
    "atomic and write": (
        "if (t == 0) s[0] = 0; __syncthreads(); if (t < 32) atomicAdd(s, A[t]); else if (t == 40) s[0] = 1;"
        " __syncthreads(); C[t] = s[0];", [ERROR]),
    # Whoever updated last meets the others all the same, as the last of an instruction's threads and by itself.
    "atomic, and the last reads": (f"{ZERO} atomicAdd(s, A[t]); if (t == 63) C[0] = s[0];", [ERROR]),
    "atomic, and the last writes": (f"{ZERO} atomicAdd(s, A[t]); if (t == 63) s[0] = 1;", [ERROR]),
    "atomic, barrier, and the last reads": (
        f"{ZERO} atomicAdd(s, A[t]); __syncthreads(); if (t == 63) C[0] = s[0];", []),
    "atomic twice, and the last reads": (
        f"{ZERO} if (t == 0) atomicAdd(s, 2.0f); if (t == 63) {{ atomicAdd(s, 1.0f); C[0] = s[0]; }}", [ERROR]),
    "atomic of one, who reads": (f"{ZERO} if (t == 63) {{ atomicAdd(s, 1.0f); atomicAdd(s, 2.0f); C[0] = s[0]; }}", []),
    "atomic, syncwarp, and the last reads": (
        f"{ZERO} atomicAdd(s, A[t]); __syncwarp(); if (t == 63) C[0] = s[0];", [ERROR]),
    "atomic of a warp, syncwarp, and its last reads": (
        f"{ZERO} if (t < 32) {{ atomicAdd(s, A[t]); __syncwarp(); if (t == 31) C[0] = s[0]; }}", []),
    "exchanged in, read by adding": ("atomicExch(s + t, A[t]); C[t] = atomicAdd(s + 63 - t, 0.0f);", [ERROR]),
    "exchanged in, barrier, read by adding": (
        "atomicExch(s + t, A[t]); __syncthreads(); C[t] = atomicAdd(s + 63 - t, 0.0f);", []),
    "exchanged in, read by comparing": (
        "int *n = (int *)s; atomicExch(n + t, t); C[t] = atomicCAS(n + 63 - t, -1, 0);", [ERROR]),
    "exchanged in, exchanged out": ("atomicExch(s + t, A[t]);\n C[t] = atomicExch(s + 63 - t, 0.0f);", [ERROR]),
    "read by adding, exchanged in": (
        f"{ZERO} for (int i = 0; i < 2; ++i) {{ C[t] = atomicAdd(s, 0.0f); if (t == 0) atomicExch(s, 1.0f); }}",
        [ERROR]),
    "every thread a place": (f"{ZERO} C[t] = atomicAdd((int *)s, 1);\n C[t] = atomicAdd((int *)s, 1);", []),
    "the largest of all": (f"{ZERO} atomicMax((int *)s, t);\n atomicMax((int *)s, 2 * t);", []),
    "one marks it": (f"{ZERO} atomicExch((int *)s, 1);", []),
    "vote is a barrier": ("s[t] = A[t]; if (__syncthreads_or(t == 3)) C[t] = s[63 - t];", []),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), ORDER.values(), ids=ORDER)
def test_what_orders_threads(said, body, expected):
    assert [f for f in said(S + body) if f[0] == "race"] == expected


NAMED = """__device__ void sync(int b, int n) { asm volatile("bar.sync %0, %1;" : : "r"(b), "r"(n) : "memory"); }
__device__ void signal(int b, int n) { asm volatile("bar.arrive %0, %1;" : : "r"(b), "r"(n) : "memory"); }"""
CHAINS = {
    # Warp 0 -> warp 1 -> warp 2 by two named barriers: warp 2 may read what warp 0 wrote, and warp 3 may not.
    "chain": ("if (w == 0) s[l] = A[l]; if (w < 2) sync(1, 64); if (w == 1 || w == 2) sync(2, 64);"
              " if (w == 2) C[l] = s[31 - l];", []),
    "no chain": ("if (w == 0) s[l] = A[l]; if (w == 1 || w == 2) sync(2, 64); if (w < 2) sync(1, 64);"
                 " if (w == 2) C[l] = s[31 - l];", [ERROR]),
    "left out": ("if (w == 0) s[l] = A[l]; if (w < 2) sync(1, 64); if (w == 3) C[l] = s[31 - l];", [ERROR]),
    "signal": ("if (w == 0) { s[l] = A[l]; signal(1, 64); } if (w == 1) { sync(1, 64); C[l] = s[31 - l]; }", []),
    "signal too early": (
        "if (w == 0) { signal(1, 64); s[l] = A[l]; } if (w == 1) { sync(1, 64); C[l] = s[31 - l]; }", [ERROR]),
    "signal says nothing back": (
        "if (w == 1) { s[l] = 0; sync(1, 64); C[l] = s[l]; } if (w == 0) { signal(1, 64); s[31 - l] = A[l]; }",
        [ERROR]),
    "full and empty": (
        "for (int i = 0; i < 3; ++i) { if (w == 0) { if (i) sync(2, 64); s[l] = A[l] + i; signal(1, 64); }"
        " if (w == 1) { sync(1, 64); C[l] = s[31 - l]; if (i < 2) signal(2, 64); } }", []),
    "never empty": (
        "for (int i = 0; i < 3; ++i) { if (w == 0) { s[l] = A[l] + i; signal(1, 64); }"
        " if (w == 1) { sync(1, 64); C[l] = s[31 - l]; } }", [ERROR]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize("blocks", [1, 3])
def test_named_barriers_order_the_warps_that_meet(check, body, expected, blocks):
    """Three blocks in one batch write their own part of C, so that only shared memory is looked at."""
    body = f"{S} const int w = t / 32, l = t % 32; C += 128 * blockIdx.x; {body}"
    found = check(body, blocks, 128, [floats(128), floats(128 * blocks, output=True)], before=NAMED)
    assert {(f.kind, f.severity) for f in found} == set(expected), found


SHARED = {
    # Warps 0 and 1 meet at barrier 1, then warps 2 and 3: what makes 2 and 3 wait until 0 and 1 have met?
    "nothing": ("if (w < 2) sync(1, 64); else sync(1, 64);", [("barrier_count", "error")]),
    "in one line": ("sync(1, 64);", [("barrier_count", "error")]),
    "two numbers": ("sync(1 + w / 2, 64);", []),
    "the block": ("if (w < 2) sync(1, 64); __syncthreads(); if (w > 1) sync(1, 64);", []),
    "another barrier": ("if (w < 2) sync(1, 64); if (w > 0) sync(2, 96); if (w > 1) sync(1, 64);", []),
    "another barrier for one": (
        "if (w < 2) sync(1, 64); if (w == 1 || w == 2) sync(2, 64); if (w > 1) sync(1, 64);",
        [("barrier_count", "error")]),
    "a signal": ("if (w < 2) sync(1, 64); if (w == 1) signal(2, 96); if (w > 1) { sync(2, 96); sync(1, 64); }", []),
    "again": ("for (int i = 0; i < 3; ++i) if (w < 2) sync(1, 64);", []),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), SHARED.values(), ids=SHARED)
@pytest.mark.parametrize("blocks", [1, 3])
def test_two_roles_do_not_share_a_named_barrier(check, body, expected, blocks):
    body = f"{S} const int w = t / 32; s[t] = A[t]; {body} if (t == 0) C[blockIdx.x] = s[0];"
    found = check(body, blocks, 128, [floats(128), floats(128 * blocks, output=True)], before=NAMED)
    assert {(f.kind, f.severity) for f in found} == set(expected), found


def test_bytes_of_one_word_do_not_race(said):
    bytes_ = "__shared__ unsigned char b[128]; const int i = t % 32 * 4 + t / 32;"
    assert said(f"{bytes_} b[i] = A[t]; C[t] = b[i];", 128) == []
    assert said(f"{bytes_} b[i] = A[t]; C[t] = b[i ^ 1];", 128) == [ERROR]


def test_vector_stores_race_with_scalar_reads_of_their_bytes(said):
    store = "__shared__ __align__(16) float4 v[64]; v[t] = make_float4(A[t], 1, 2, 3);"
    assert said(f"{store} C[t] = ((float *)v)[4 * t + 3];") == []
    assert said(f"{store} C[t] = ((float *)v)[(4 * t + 7) % 256];") == [ERROR]


def test_the_missing_barrier_is_told_once(said):
    """Between warps and within one: the same __syncthreads() cures both, so the warp's own race is left out."""
    both = S + "__shared__ float w[64];\nw[t] = A[t];\ns[t] = A[t];\n{} C[t] = s[63 - t] + w[t ^ 1];"
    assert said(both.format("")) == [ERROR]
    assert said(both.format("__syncthreads();")) == []
    apart = both.replace("C[t] = s[63 - t] + w[t ^ 1];", "float v = s[63 - t];\nC[t] = v + w[t ^ 1];")
    assert said(apart.format("")) == [ERROR, WARNING]


def test_a_race_is_found_also_when_the_trace_comes_in_parts(check, monkeypatch):
    """The machine passes a long epoch in parts: the store is in the first part, the load in the last."""
    monkeypatch.setattr("gemm_lessons.engine.machine.machine.TRACE_LIMIT", 16)
    body = f"{S} s[t] = A[t]; float v = 0; for (int i = 0; i < 200; ++i) v += s[t] * i; {{}} C[t] = v + s[63 - t];"
    args = [floats(64), floats(64, output=True)]
    assert [f.kind for f in check(body.replace("{}", ""), 1, 64, args)] == ["race"]
    assert check(body.replace("{}", "__syncthreads();"), 1, 64, args) == []


def test_blocks_that_do_different_things_are_all_looked_at(said):
    """Only the last block has a race: the checkers analyse all blocks, not only the first."""
    body = S + "s[t] = A[t]; C[blockIdx.x * 64 + t] = s[blockIdx.x == 3 ? 63 - t : t];"
    assert said(body, 64, 4) == [ERROR]
    assert said(S + "s[t] = A[t]; C[blockIdx.x * 64 + t] = s[blockIdx.x == 9 ? 63 - t : t];", 64, 4) == []


def test_a_finding_counts_all_blocks_and_names_one(check):
    body = S + "s[t] = A[t];\nC[blockIdx.y * 64 + t] = s[63 - t];"
    together = check(body, (1, 4), 64, [floats(64), floats(256, output=True)])
    alone = check(body, (1, 4), 64, [floats(64), floats(256, output=True)], block_limit=1)
    assert together == alone
    (found,) = together
    assert (found.line, found.other_line, found.count) == (4, 5, 4 * 64)
    assert found.message.startswith("s, byte ")
    assert "of block (0, 0)" in found.message


def test_arrays_are_told_apart(check):
    body = "__shared__ float As[64]; __shared__ float Bs[64];\nAs[t] = A[t]; Bs[t] = A[t]; __syncthreads();\n"
    found = check(body + "As[t] = 1; C[t] = As[t] + Bs[63 - t];", 1, 64, [floats(64), floats(64, output=True)])
    assert found == []
    found = check(body + "Bs[t] = 1; C[t] = As[t] + Bs[63 - t];", 1, 64, [floats(64), floats(64, output=True)])
    assert [f.message.split(",")[0] for f in found] == ["Bs"]


# -- the same value ----------------------------------------------------------------------------------------------------

VALUES = {
    "one value": ("s[0] = 7;", [NOTE]),
    "two values": ("s[0] = t / 32;", [ERROR]),
    "mostly one value": ("s[0] = t == 63 ? 8 : 7;", [ERROR]),
    "one value a round": ("for (int i = 0; i < 3; ++i) { s[i] = i; __syncthreads(); }", [NOTE]),
    "two places": ("if (t < 32) s[t] = 1; else s[t - 32] = 1;", [NOTE]),
    "two places, two values": ("if (t < 32) s[t] = 1; else s[t - 32] = 2;", [ERROR]),
}


ROUNDED = {
    "a sum in two orders": (
        "float x = 0.1f * A[1], y = 0.1f * A[2], z = 0.7f * A[3]; C[0] = t < 32 ? x + (y + z) : (x + y) + z;",
        [WARNING],
    ),
    "of many threads": ("C[0] = 1 + 1e-7f * (t / 32);", [WARNING]),
    "in shared memory": (f"{S} s[1] = 1 + 1e-7f * (t / 32); __syncthreads(); C[t] = s[1];", [WARNING]),
    "of two stores": ("if (t < 32) C[0] = 3.0000002f;\nelse C[0] = 3;", [WARNING]),
    "as bits": ('asm volatile("st.global.b32 [%0], %1;" :: "l"(C), "f"(1 + 1e-7f * (t / 32)));', [WARNING]),
    "vectors": ("*(float2 *)C = {1 + 1e-7f * (t / 32), 5.0f};", [WARNING]),
    "one element of a vector is another number": ("*(float2 *)C = {1 + 1e-7f * (t / 32), 5.0f + t / 32};", [ERROR]),
    "mostly": ("C[0] = t == 63 ? 1.1f : 1 + 1e-7f * (t / 32);", [ERROR]),
    "other signs": ("C[0] = t < 32 ? 1e-40f : -1e-40f;", [ERROR]),
    "integers": ("((int *)C)[0] = 1000000000 + t / 32;", [ERROR]),
    "small integers as bits": ('asm volatile("st.global.b32 [%0], %1;" :: "l"(C), "r"(5 + t / 32));', [ERROR]),
    "numbers": ("C[0] = 16777216.0f + 20 * (t / 32);", [ERROR]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), ROUNDED.values(), ids=ROUNDED)
def test_stores_of_values_that_differ_by_rounding_are_a_warning(said, body, expected):
    """All lanes of a Triton kernel store the sum that each of them has added up in its own order."""
    assert said(body) == expected


@pytest.mark.parametrize(("body", "expected"), VALUES.values(), ids=VALUES)
def test_stores_of_the_same_value_are_a_note(said, body, expected):
    found = said(f"{S} {body} __syncthreads(); C[t] = s[0] + s[t % 2];")
    assert [f for f in found if f[0] == "race"] == expected


def test_the_second_look_leaves_the_results_alone(check):
    """Racing stores make the launch run twice; what it adds to C must arrive once."""
    out = np.full(64, 5, np.float32)
    found = check(f"{S} s[0] = A[7]; __syncthreads(); C[t] += s[0];", 1, 64, [floats(64), out])
    assert [(f.kind, f.severity) for f in found] == [NOTE]
    assert out.tolist() == [12.0] * 64


@pytest.mark.parametrize(("value", "severity"), [("1", "note"), ("blockIdx.x", "error")])
def test_blocks_that_store_the_same_to_global_memory(said, value, severity):
    assert said(f"C[t] = {value};", 64, 3) == [("race", severity)]


# -- uninitialised memory ----------------------------------------------------------------------------------------------

BLANK = ("uninitialised", "warning")
INITIAL = {
    "written by another": ("s[t] = A[t]; __syncthreads(); C[t] = s[63 - t];", []),
    "one too many": ("s[t] = A[t]; __syncthreads(); C[t] = s[t + 1];", [BLANK]),
    "half a float": (
        "((short *)s)[2 * t] = 1; __syncthreads(); C[t] = s[t];", [BLANK]),
    "two halves": ("((short *)s)[2 * t] = 1; ((short *)s)[2 * t + 1] = 1; __syncthreads(); C[t] = s[t];", []),
    "atomic on nothing": ("atomicAdd(s + t, 1.0f); __syncthreads(); C[t] = s[t];", [BLANK]),
    "some threads": ("if (t % 2) s[t] = 1; __syncthreads(); C[t] = s[t];", [BLANK]),
    "later round": ("for (int i = 0; i < 4; ++i) { if (i < 3) s[i * 64 + t] = 1; __syncthreads();"
                    " C[t] = s[i * 64 + t]; }", [BLANK]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), INITIAL.values(), ids=INITIAL)
@pytest.mark.parametrize("block_limit", [None, 1])
def test_shared_memory_is_read_after_it_is_written(said, body, expected, block_limit):
    body = f"{S} C += 64 * blockIdx.x; {body}"
    assert [f for f in said(body, 64, 3, block_limit=block_limit) if f[0] == "uninitialised"] == expected


V = "((volatile float *)s)"
INT = "((volatile int *)s)"
B = "((volatile signed char *)s)"
DECIDES = {
    "a result": (f"C[t] = {V}[t + 64];", True),
    "a result of another thread": (f"C[t] = __shfl_xor_sync(~0u, {V}[t + 64], 1);", True),
    "nothing: fetched in advance": (
        f"float next = s[t]; for (int i = 0; i < 3; ++i) {{ if (i == 0) C[t] = next; next = {V}[64 * i + 64 + t]; }}",
        False),
    "a branch": (f"if ({INT}[t + 64] == 1) C[t] = 3;", True),
    "a branch that takes the same way anyhow": (f"if ({INT}[t + 64] == 12345) C[t] = 3; else C[t] = 4;", True),
    "a vote": (f"C[t] = __syncthreads_or({INT}[t + 64]);", True),
    "the length of a loop": (f"int n = {INT}[t + 64] & 1; for (int i = 0; i < n; ++i) C[t] += 1;", True),
    "an address": (f"C[t] = A[{INT}[t + 64] & 1];", True),
    "nothing: masked": (f"C[t] = A[{INT}[t + 64] & 0];", False),
    "nothing: copied": (f"{V}[t + 128] = {V}[t + 64]; __syncthreads(); C[t] = s[t];", False),
    "a result: copied, then read": (
        f"{V}[t + 128] = {V}[t + 64]; __syncthreads(); C[t] = {V}[t + 128];", True),
    "a result: copied, then read in parts": (
        f"{V}[t + 128] = {V}[t + 64]; __syncthreads(); C[t] = {B}[4 * t + 512];", True),
    "a result: a byte, copied": (f"{B}[t + 512] = {B}[t + 256]; __syncthreads(); C[t] = {B}[t + 512];", True),
    "a sign": (f"C[t] = {B}[t + 256] < 0;", True),
    "nothing: the half that was written": (
        f"((short *)s)[2 * t + 128] = 1; __syncthreads(); C[t] = {INT}[t + 64] & 0xffff;", False),
    "what is printed": (f'if (t == 0) printf("%d", {INT}[t + 64]);', True),
    "an atomic": ("atomicAdd(s + t + 64, 1.0f);", True),
    "nothing: another load on other lines": (f"float v = {V}[t + 64];\nif (t > 99) C[t] = v;", False),
}  # fmt: skip


@pytest.mark.parametrize(("body", "decides"), DECIDES.values(), ids=DECIDES)
def test_unwritten_memory_is_told_of_where_it_decides_something(said, body, decides):
    found = said(f"{S} s[t] = A[t]; __syncthreads(); {body}")
    assert found == [BLANK] * decides


@pytest.mark.parametrize(("first", "lines"), [(99, [4]), (-1, [3, 4])])
def test_only_the_line_whose_value_decides_is_named(check, first, lines):
    body = f"{S} s[t] = A[t]; __syncthreads();\nfloat v = {V}[t + 64];\nC[t] = {V}[t + 128];\n"
    body += f"if (t > {first}) C[t + 64] = v;"
    found = check(body, 1, 64, [floats(64), floats(128, output=True)])
    assert [f.line - found[-1].line + 4 for f in found] == lines


def test_each_block_starts_with_nothing(said):
    """Block 0 writes its shared memory; that of block 1 is uninitialised."""
    body = S + "if (blockIdx.x == 0) s[t] = A[t]; __syncthreads(); C[64 * blockIdx.x + t] = s[t];"
    assert said(body, 64, 2) == said(body, 64, 2, block_limit=1) == [BLANK]


@pytest.mark.parametrize("block_limit", [None, 1, 2])
def test_every_block_counts_once_also_after_one_did_something_else(check, block_limit):
    body = S + "if (blockIdx.x == 0) s[t] = A[t]; __syncthreads(); C[64 * blockIdx.x + t] = s[64 + t];"
    found = check(body, 3, 64, [floats(192), floats(192, output=True)], block_limit=block_limit)
    assert [(f.kind, f.count) for f in found] == [("uninitialised", 192)]


@pytest.mark.parametrize(("initialised", "expected"), [(True, []), (False, [("uninitialised", "error")])])
def test_a_fresh_buffer_is_written_before_it_is_read(check, initialised, expected):
    def run(body):
        fresh = Buffer("C", floats(64, output=True), output=True, initialised=initialised)
        return [(f.kind, f.severity) for f in check(body, 1, 64, [floats(64), fresh])]

    assert run("C[t] += A[t];") == expected
    assert run("C[t] = A[t]; C[t] += A[t ^ 1];") == []


# -- cp.async ----------------------------------------------------------------------------------------------------------

COPY = """__device__ __forceinline__ void copy(float *to, const float *from) {
    unsigned p = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"(p), "l"(from) : "memory"); }
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group " #n ";" ::: "memory")
#define WAIT_ALL asm volatile("cp.async.wait_all;" ::: "memory")
"""
FLYING = ("async_in_flight", "error")
ASYNC = {
    "waited": ("copy(s + t, A + t); COMMIT; WAIT(0); C[t] = s[t];", []),
    "not waited": ("copy(s + t, A + t); COMMIT; C[t] = s[t];", [FLYING]),
    "barrier is no wait": ("copy(s + t, A + t); COMMIT; __syncthreads(); C[t] = s[t];", [FLYING]),
    "not committed": ("copy(s + t, A + t); WAIT(0); C[t] = s[t];", [FLYING]),
    "wait_all commits too": ("copy(s + t, A + t); WAIT_ALL; C[t] = s[t];", []),
    "older group": ("copy(s + t, A + t); COMMIT; copy(s + 64 + t, A + t); COMMIT; WAIT(1); C[t] = s[t];", []),
    "newer group": (
        "copy(s + t, A + t); COMMIT; copy(s + 64 + t, A + t); COMMIT; WAIT(1); C[t] = s[64 + t];", [FLYING]),
    "other thread": ("copy(s + t, A + t); COMMIT; WAIT(0); C[t] = s[63 - t];", [ERROR]),
    "other thread, barrier": ("copy(s + t, A + t); COMMIT; WAIT(0); __syncthreads(); C[t] = s[63 - t];", []),
    "barrier before wait": ("copy(s + t, A + t); COMMIT; __syncthreads(); WAIT(0); C[t] = s[63 - t];", [ERROR]),
    "other lane, syncwarp": ("copy(s + t, A + t); COMMIT; WAIT(0); __syncwarp(); C[t] = s[t ^ 1];", []),
    "other warp, syncwarp": ("copy(s + t, A + t); COMMIT; WAIT(0); __syncwarp(); C[t] = s[t ^ 32];", [ERROR]),
    "half the threads wait": ("copy(s + t, A + t); COMMIT; if (t < 32) { WAIT(0); } C[t] = s[t];", [FLYING]),
    "into what is read": (
        "s[t] = A[t]; __syncthreads(); C[t] = s[63 - t]; copy(s + t, A + t); COMMIT; WAIT(0);", [ERROR]),
    "overwritten in flight": ("copy(s + t, A + t); COMMIT; s[t] = 1; WAIT(0); C[t] = s[t];", [FLYING]),
}  # fmt: skip


@pytest.mark.parametrize(("source", "severity"), [("min(t, 7)", "note"), ("t", "error")])
def test_copies_of_the_same_value_are_a_note(said, source, severity):
    """Lanes that have nothing left to copy repeat the last copy in cooperative_groups::memcpy_async."""
    body = f"copy(s + min(t, 7), A + {source}); WAIT_ALL; __syncthreads(); C[t] = s[t % 8];"
    assert said(f"{S} {body}", before=COPY) == [("race", severity)]


@pytest.mark.parametrize(("body", "expected"), ASYNC.values(), ids=ASYNC)
@pytest.mark.parametrize("blocks", [1, 3])
def test_copies_are_waited_for(said, body, expected, blocks):
    assert said(f"{S} C += 64 * blockIdx.x; {body}", 64, blocks, before=COPY) == expected


# Warp 0 copies and warp 1 reads. They meet at an mbarrier or at a numbered barrier.
BY_ROLES = """__shared__ float s[64]; __shared__ unsigned long long full; C += 64 * blockIdx.x;
if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"((unsigned)__cvta_generic_to_shared(&full)));
__syncthreads();
if (t < 32) {{ copy(s + t, A + t); COMMIT; copy(s + 32 + t, A + t); COMMIT; {} }} else {{ {} }}"""
COPY_AND_MEET = (
    COPY
    + """__device__ __forceinline__ void arrive(unsigned long long *b) { asm volatile(
    "{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" :: "r"((unsigned)__cvta_generic_to_shared(b)) : "memory"); }
__device__ __forceinline__ void await(unsigned long long *b) { asm volatile(
    "{ .reg .pred p; L%=: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra L%=; }"
    :: "r"((unsigned)__cvta_generic_to_shared(b)) : "memory"); }
#define SIGNAL asm volatile("bar.arrive 1, 64;" ::: "memory")
#define MEET asm volatile("bar.sync 1, 64;" ::: "memory")
"""
)
UNWRITTEN = ("uninitialised", "warning")
READ_OLD, READ_NEW = "C[t] = s[t - 32];", "C[t] = s[95 - t];"
HANDED = {
    "mbarrier": ("WAIT(0); arrive(&full);", "await(&full); " + READ_NEW, []),
    "mbarrier, the older group": ("WAIT(1); arrive(&full);", "await(&full); " + READ_OLD, []),
    "mbarrier, the newer group": ("WAIT(1); arrive(&full);", "await(&full); " + READ_NEW, [FLYING]),
    "mbarrier, arrived too early": ("arrive(&full); WAIT(0);", "await(&full); " + READ_NEW, [ERROR]),
    "mbarrier, not waited for": ("WAIT(0); arrive(&full);", READ_NEW + " await(&full);", [ERROR, UNWRITTEN]),
    "mbarrier, the copying warp reads": ("WAIT(0); arrive(&full); C[t] = s[t];", "await(&full);", []),
    "mbarrier, another lane reads": ("WAIT(0); C[t] = s[t ^ 1]; arrive(&full);", "await(&full);", [ERROR]),
    "bar.arrive": ("WAIT(0); SIGNAL;", "MEET; " + READ_NEW, []),
    "bar.arrive, too early": ("SIGNAL; WAIT(0);", "MEET; " + READ_NEW, [ERROR]),
    "bar.sync": ("WAIT(0); MEET;", "MEET; " + READ_NEW, []),
    "two steps": ("WAIT(0); arrive(&full); MEET;", "if (t < 0) await(&full); MEET; " + READ_NEW, []),
}  # fmt: skip


@pytest.mark.parametrize(("copies", "reads", "expected"), HANDED.values(), ids=HANDED)
@pytest.mark.parametrize("blocks", [1, 3])
def test_copies_are_handed_over_to_another_role(said, copies, reads, expected, blocks):
    assert said(BY_ROLES.format(copies, reads), 64, blocks, before=COPY_AND_MEET, arch="sm_90") == expected


SOURCES = """__device__ void copy(float *to, const float *from, int bytes) {
    unsigned p = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(p), "l"(from), "r"(bytes) : "memory"); }
__device__ void copy_unless(float *to, const float *from, int ignore) {
    unsigned p = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, q; }"
                 : : "r"(p), "l"(from), "r"(ignore) : "memory"); }"""
READ_PART = {
    "all inside": ("copy(v, A + 4 * t, max(0, min(16, 404 - 16 * t)));", []),
    "one byte too many": ("copy(v, A + 4 * t, t == 25 ? 5 : 0);", ["out_of_bounds"]),
    "the whole width": ("copy(v, A + 4 * t, t <= 25 ? 16 : 0);", ["out_of_bounds"]),
    "more than the width": ("copy(v, A, t == 3 ? 20 : 16);", ["illegal_access"]),
    "misaligned though short": ("copy(v, A + t, 4);", ["misaligned"]),
    "ignored": ("copy_unless(v, A + 4 * t, t >= 25);", []),
    "not ignored": ("copy_unless(v, A + 4 * t, t > 25);", ["out_of_bounds"]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), READ_PART.values(), ids=READ_PART)
def test_a_copy_reads_what_its_source_size_says(check, body, expected):
    """101 floats: the copy of the last one reads 4 bytes, later copies none; the rest of the target becomes zeros."""
    out = np.full(256, -1, np.float32)
    body = f"""__shared__ __align__(16) float s[256]; float *v = s + 4 * t; {body}
        asm volatile("cp.async.wait_all;" ::: "memory"); for (int i = 0; i < 4; ++i) C[4 * t + i] = v[i];"""
    assert [f.kind for f in check(body, 1, 64, [floats(101), out], before=SOURCES)] == expected
    if not expected:
        last = 101 if "404" in body else 100
        assert out.tolist() == [*range(last), *[0] * (256 - last)]


# -- global memory -----------------------------------------------------------------------------------------------------

ORDERED, APART = ("race", "error"), ("block_order", "error")
GLOBAL = {
    "own element": ("C[g] = A[g];", []),
    "neighbour in the block": ("C[g] = A[g]; float v = C[g ^ 32]; C[128 + g] = v;", [ORDERED]),
    "neighbour in the warp": ("C[g] = A[g]; float v = C[g ^ 1]; C[128 + g] = v;", [("race", "warning")]),
    "neighbour, barrier": ("C[g] = A[g]; __syncthreads(); C[128 + g] = C[g ^ 32];", []),
    "neighbour, syncwarp": ("C[g] = A[g]; __syncwarp(); C[128 + g] = C[g ^ 1];", []),
    "other block": ("C[g] = A[g]; __syncthreads(); C[128 + g] = C[g ^ 64];", [APART]),
    "read before other block writes": ("float v = C[g ^ 64]; __syncthreads(); C[g] = v;", [APART]),
    "both blocks write": ("C[t] = g;", [ORDERED]),
    "both blocks add": ("atomicAdd(C + t, A[g]);", []),
    "add and write": ("if (blockIdx.x) atomicAdd(C + t, A[g]); else C[t] = 0;", [ORDERED]),
    "add and read": ("atomicAdd(C + t, A[g]); C[128 + g] = C[t];", [APART]),
    "all read": ("C[128 + g] = C[0] + C[t];", []),
    "vectors of two": ("((float2 *)C)[g] = make_float2(1, 2);", []),
    "vectors overlap": ("((float2 *)C)[g] = make_float2(g, 2); C[2 * g + 2] = 1;", [ORDERED]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), GLOBAL.values(), ids=GLOBAL)
@pytest.mark.parametrize("block_limit", [None, 1])
def test_who_shares_global_memory(check, body, expected, block_limit):
    body = f"const int g = blockIdx.x * 64 + t; {body}"
    found = check(body, 2, 64, [floats(128), floats(300, output=True)], block_limit=block_limit)
    assert {(f.kind, f.severity) for f in found} == set(expected), found


HAND_OVER = """__shared__ bool last; C[g] = A[g]; {fence} __syncthreads();
    if (t == 0) last = atomicAdd((int *)C + 256, 1) == 1; __syncthreads();
    if (last) C[128 + t] = C[t] + C[64 + t];"""


@pytest.mark.parametrize("block_limit", [None, 1])
@pytest.mark.parametrize(("fence", "expected"), [("__threadfence();", set()), ("", {APART})])
def test_blocks_hand_over_by_fence_and_atomic(check, fence, expected, block_limit):
    body = "const int g = blockIdx.x * 64 + t;" + HAND_OVER.format(fence=fence)
    out = np.zeros(257, np.float32)
    found = check(body, 2, 64, [floats(128), out], block_limit=block_limit)
    assert {(f.kind, f.severity) for f in found} == expected, found


def test_a_signal_before_the_write_orders_nothing(check):
    body = """const int g = blockIdx.x * 64 + t; if (t == 0) atomicAdd((int *)C + 256, 1); __threadfence(); C[g] = A[g];
        if (blockIdx.x == 1) { atomicAdd((int *)C + 256, 1); C[128 + t] = C[t]; }"""
    found = check(body, 2, 64, [floats(128), np.zeros(257, np.float32)])
    assert {(f.kind, f.severity) for f in found} == {APART}


# -- the end of an array -----------------------------------------------------------------------------------------------

TWO = "__shared__ float As[64]; __shared__ float Bs[64]; As[t] = A[t]; Bs[t] = A[t]; __syncthreads(); "
OUT = ("out_of_array", "warning")
ENDS = {
    "inside": ("C[t] = As[63 - t] + Bs[t];", []),
    "first behind": ("C[t] = As[t + 1] + Bs[t];", [OUT]),
    "a choice of arrays": ("const float *p = A[0] > 0 ? As : Bs; C[t] = p[t ^ 1];", []),
    "a pointer that walks": ("const float *p = As + 63; for (int i = 0; i < 64; ++i) C[t] = *p--;", []),
}


@pytest.mark.parametrize(("body", "expected"), ENDS.values(), ids=ENDS)
def test_reads_stay_in_the_array_that_is_named(said, body, expected):
    assert said(TWO + body) == expected


OWN = """float v[8], w[8]; for (int i = 0; i < 8; ++i) { v[i] = A[i]; w[i] = A[i + 8]; }
    const int n = A[NINE]; float s = 0; """
OWN_ENDS = {
    "inside": ("for (int i = 0; i < n; ++i) s += v[i - 1 & 7] * w[i * n & 7]; C[t] = s;", []),
    "into the next": ("for (int i = 0; i < n; ++i) s += v[i] * w[i * n & 7]; C[t] = s;", [OUT]),
    "before the start": ("for (int i = 0; i < n; ++i) s += v[i * n & 7] * w[i - 1]; C[t] = s;", [OUT]),
    "written": ("for (int i = 0; i < n; ++i) v[i] = i; for (int i = 0; i < n; ++i) C[t] = v[i & 7] + w[i & 7];", [OUT]),
    "backwards from the end": (
        "float *p = w + 7, *q = v + 7; for (int i = 1; i < n; ++i) s = s * 3 + *p-- + *q--; C[t] = s;", []),
    "a choice of arrays": ("float *p = n > 3 ? w : v; for (int i = 1; i < n; ++i) s += p[i - 1] + v[i & 3];"
                           " C[t] = s;", []),
    "one struct": (
        "struct S { float x[8], y[8]; } u; for (int i = 0; i < 8; ++i) { u.x[i] = A[i] * n; u.y[i] = A[i]; }"
        " for (int i = 0; i < n; ++i) s += u.x[i * n & 7] + (&u.x[0])[i]; C[t] = s;", []),
    "rows": ("float r[4][8]; for (int i = 0; i < 32; ++i) r[i / 8][i % 8] = A[i] * n;"
             " for (int i = 0; i < n; ++i) s += r[i & 1][n] + v[i & 7] + w[i & 7]; C[t] = s;", []),
    "through a function": (
        "fill(v, n - 1); fill(w, n - 1); for (int i = 0; i < n; ++i) s += v[i & 7] + w[i * n & 7]; C[t] = s;", []),
    "through a function, too far": (
        "fill(v, n); fill(w, n - 1); for (int i = 0; i < n; ++i) s += v[i & 7] + w[i * n & 7]; C[t] = s;", [OUT]),
}  # fmt: skip
FILL = "__device__ __noinline__ void fill(float *p, int n) { for (int i = 0; i < n; ++i) p[i] = i * n; }"


@pytest.mark.parametrize(("body", "expected"), OWN_ENDS.values(), ids=OWN_ENDS)
def test_a_threads_own_arrays_do_not_run_into_each_other(said, body, expected):
    """n is 9, which the compiler does not know; the arrays have 8 elements."""
    assert said(OWN.replace("NINE", "9") + body, before=FILL) == expected


# -- barriers ----------------------------------------------------------------------------------------------------------

PIECES, ENDED, PARTLY = (
    ("divergent_barrier", "error"),
    ("exited_before_barrier", "warning"),
    ("divergent_warp", "warning"),
)
MEETINGS = {
    "together": ("if (t % 3) C[t] = 1; __syncthreads(); C[t] = 2;", []),
    "loop of one length": ("for (int i = 0; i < (int)A[3]; ++i) { if (t % 3 == i) C[t] = 1; __syncthreads(); }", []),
    "half a warp": (
        "if (t % 2) { C[t] = 1; __syncthreads(); C[t] = 3; } else { C[t] = 2; __syncthreads(); }", [PIECES]),
    "whole warps, two places": (
        "if (t < 32) { C[t] = 1; __syncthreads(); C[t] = 3; } else { C[t] = 2; __syncthreads(); C[t] = 5; }", [PIECES]),
    "roles meet at a number": (
        'if (t < 32) { C[t] = 1; asm volatile("bar.sync 1;" ::: "memory"); C[t] = 3; }'
        ' else { C[t] = 2; asm volatile("bar.sync 1;" ::: "memory"); C[t] = 5; }', []),
    "left early": ("if (t > 50) return; __syncthreads(); C[t] = 1;", [ENDED]),
    "left after": ("__syncthreads(); if (t > 50) return; C[t] = 1;", []),
    "whole blocks left": ("if (blockIdx.x == 0) return; __syncthreads(); C[t] = 1;", []),
    "ragged last warp": ("__syncthreads(); C[t] = 1;", []),
    "votes apart": ("if (t % 32 < 8) C[t] = __ballot_sync(~0u, t > 4); else C[t] = A[t];", [PARTLY]),
    "votes of those who stayed": ("if (t >= 40) return; C[t] = __ballot_sync(__activemask(), t > 4);", []),
    "votes after others left": ("if (t >= 40) return; C[t] = __ballot_sync(~0u, t > 4);", []),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), MEETINGS.values(), ids=MEETINGS)
def test_threads_meet_as_they_must(said, body, expected):
    assert (
        said(f"C += 64 * blockIdx.x; {body}", 50 if body.startswith("__syncthreads(); C") else 64, 2, 128) == expected
    )


def test_a_lane_may_wait_for_another_warp_before_its_own_warp_meets(check):
    """ptxas lets the warp meet (WARPSYNC.ALL) before a barrier that lanes reach at different times."""
    body = """__shared__ mbarrier full, empty; __shared__ __align__(128) float tile[32];
    if (t == 0) { MAKE(&full, 1); MAKE(&empty, 1); FENCE(); }
    __syncthreads();
    if (t == 32) {
        for (int i = 0; i < n; i++) {
            WAIT(&empty, i % 2 ^ 1); EXPECT(&full, 128); LOAD(tile, A + 32 * i, 128, &full);
        }
    } else if (t < 32) {
        for (int i = 0; i < n; i++) {
            WAIT(&full, i % 2); C[32 * i + t] = tile[t]; __syncwarp();
            if (t == 0) ARRIVE(&empty);
        }
    }
    __syncthreads(); C[32 * n + t] = 1;"""
    args = [floats(128), floats(192, output=True), 4]
    macros = (KERNELS / "phases.cuh").read_text()
    assert check(body, 1, 64, args, "const float *A, float *C, int n", before=macros, arch="sm_90") == []


def test_threads_that_left_are_counted_in_their_block(check):
    body = "if (t > 50) return; __syncthreads(); C[t] = 1;"
    found = check(body, 3, 64, [floats(192), floats(192, output=True)])[0]
    assert "13 threads of block 0 (thread 51 first) returned before" in found.message


def test_threads_that_expect_different_counts(check):
    body = 'asm volatile("bar.sync 1, %0;" : : "r"(t < 32 ? 64 : 96) : "memory"); C[t] = 1;'
    found = check(body, 1, 64, [floats(64), floats(64, output=True)])
    assert "barrier_count" in {f.kind for f in found}


# -- economy -----------------------------------------------------------------------------------------------------------


def test_an_epoch_that_repeats_is_analysed_once(check, monkeypatch):
    from gemm_lessons.engine.checkers import shared_races

    made = []
    real = shared_races.Analysis.feed

    def feed(self, epoch):
        made.append(epoch)
        real(self, epoch)

    monkeypatch.setattr(shared_races.Analysis, "feed", feed)
    loop = '_Pragma("unroll 1") for (int i = 0; i < 500; ++i)'
    body = f"{S} {loop} {{ s[t] = A[t] + i; __syncthreads(); C[t] = s[63 - t]; __syncthreads(); }}"
    assert check(f"C += 64 * blockIdx.x; {body}", 8, 64, [floats(64), floats(512, output=True)], block_limit=2) == []
    assert len(made) <= 3


def test_what_is_remembered_is_bounded(check, monkeypatch):
    """With almost no room for records, everything is forgotten all the time, and the findings are the same."""
    body = (
        S + "C += 64 * blockIdx.x; for (int i = 0; i < 9; ++i) { s[t] = A[t] + i; __syncthreads(); C[t] = s[i ^ t]; }"
    )
    args = [floats(64), floats(256, output=True)]
    expected = check(body, 4, 64, args, block_limit=2)
    monkeypatch.setattr("gemm_lessons.engine.checkers.epochs.HELD_BYTES", 1000)
    assert check(body, 4, 64, args, block_limit=2) == expected
    assert {f.kind for f in expected} == {"race"}


# -- one warp alone: what the checkers save is never a finding ---------------------------------------------------------

ROUNDS = {
    "race in every round": "s[t] = A[t] + n; sum += s[t ^ 1]; __syncwarp();",
    "race in one round": "s[t] = A[t] + n; if (n != 5) __syncwarp(); sum += s[t ^ 1]; __syncwarp();",
    "race between halves": "s[t] = n; __syncwarp(t < 16 ? 0xffffu : ~0xffffu); sum += s[31 - t];",
    "race in global memory": "C[t] = n; sum += A[n] + A[t] + C[(t + n) % 32];",
    "unset": "s[t + n] = n; __syncwarp(); sum += s[t + n] + s[t + n + 1]; __syncwarp();",
    "nothing": "s[t] = n; __syncwarp(); sum += s[t ^ n] + A[t ^ n] + A[n]; __syncwarp();",
}


@pytest.mark.parametrize("body", ROUNDS.values(), ids=ROUNDS)
def test_a_warp_alone_is_told_what_each_of_its_accesses_alone_would_be(check, body):
    def findings():
        loop = f"{S} float sum = 0; for (int n = 0; n < 9; n++) {{ {body} }} C[t] += sum;"
        return check(loop, 1, 32, [floats(32), floats(32, output=True)])

    at_once = findings()
    with (
        mock.patch.object(Epochs, "_rounds", lambda self, records: (self._structured(records),)),
        mock.patch.object(GlobalRaces, "_loaded_quietly", return_value=False),
    ):
        assert findings() == at_once
    assert bool(at_once) == (body != ROUNDS["nothing"])
