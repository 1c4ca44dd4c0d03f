"""Both engines run a counted launch, and a mistake in either of them is reported as a fault of the kit."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from checks.simulator import planted
from gemm_lessons import simulate
from gemm_lessons.engine import sass as machinecode
from gemm_lessons.engine.counters import cross_check
from gemm_lessons.engine.machine import access
from gemm_lessons.engine.ptx import cfg, parser
from gemm_lessons.engine.second_opinion import agreement
from gemm_lessons.engine.simulator import Disagreement, Setting, Simulator

TOGETHER = True
pytestmark = pytest.mark.counted


@pytest.mark.parametrize("entry", ["walk", "mixed"])
def test_nothing_is_said_of_engines_that_agree(entry):
    launched = planted.launch(entry)
    assert launched.fault is None
    assert not launched.findings
    assert not launched.counters.inexact


@pytest.mark.parametrize("one", planted.ALL, ids=[one.name for one in planted.ALL])
def test_a_planted_mistake_is_told_of(one):
    told = one.verdict()
    assert "this is a fault of gemm-lessons, not of the kernel" in told.lower(), told
    assert "no verdict" in told


LEFT_OUT = {
    "a store that another one of the same thread replaces": """
extern "C" __global__ void k(long long *x, int *y, int n)
{
    __shared__ int s[128];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = 0;
    if (i < n) s[t] = y[i];
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        int at = 2 * step * t;
        if (at < blockDim.x) s[at] += s[at + step];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}
""",
    "the half of a load that nobody uses": """
extern "C" __global__ void k(const long long *x, volatile int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (int)x[i];
}
""",
    "a multiply-add that has been made before": """
__device__ float square(float a)
{
    float b;
    asm volatile("fma.rn.f32 %0, %1, %1, %1;" : "=f"(b) : "f"(a));
    return b;
}
extern "C" __global__ void k(long long *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = y[i], once = square(a);
    y[i] = once;
    if (n > 3) x[i] = once;
    ((volatile float *)y)[i] = square(a) + 2.0f;
}
""",
}


CHOICES = {
    "selp": '"{ .reg .pred p; setp.gt.s32 p, %3, 0; selp.s32 %0, %1, %2, p; }"',
    "slct": '"slct.s32.s32 %0, %1, %2, %3;"',
}
CHOICE = """
extern "C" __global__ void k(volatile long long *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, chosen;
    asm volatile(CHOOSE : "=r"(chosen) : "r"((int)x[i]), "r"((int)x[255 - i]), "r"(y[i] - n));
    y[i] = chosen;
}
"""


@pytest.mark.parametrize("choose", CHOICES.values(), ids=CHOICES)
def test_volatile_loads_of_which_one_is_chosen_may_be_predicated(choose):
    x, y = np.arange(256, dtype=np.int64), np.arange(256, dtype=np.int32)
    assert not simulate(CHOICE.replace("CHOOSE", choose), "k", 2, 128, [x, y, 100]).counters.inexact
    i = np.arange(256)
    assert (y == np.where(i > 100 if "selp" in choose else i >= 100, i, 255 - i)).all()


@pytest.mark.parametrize("source", LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_ptxas_leaves_out_is_no_disagreement(source):
    x, y = np.arange(256, dtype=np.int64), np.arange(256, dtype=np.float32 if "float *y" in source else np.int32)
    assert not simulate(source, "k", 2, 128, [x, y, 200]).counters.inexact


REPLACED = """
struct Bits { unsigned kind : 8, rank : 24; int pad; };
extern "C" __global__ void k(const int *x, int *y)
{
    __shared__ Bits s[32];
    Bits b;
    b.rank = x[threadIdx.x];
    s[threadIdx.x] = b;
    s[threadIdx.x].rank = 12345;
    __syncthreads();
    y[threadIdx.x] = s[31 - threadIdx.x].rank;
}
"""


def test_a_load_for_a_store_that_another_one_replaces_is_left_out():
    y = np.zeros(32, np.int32)
    counters = simulate(REPLACED, "k", 1, 32, [np.arange(32, dtype=np.int32), y]).counters
    assert (y == 12345).all()
    assert (counters["global_load_instructions"], counters["shared_store_instructions"]) == (0, 1)


GUARDED = """
extern "C" __global__ void k(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 1.0f;
    for (int j = 0; j < 4; ++j) {
        const int odd = i & 1;
        asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; ARITHMETIC }" : "+f"(sum) : "f"(x[i + j * 32]), "r"(odd));
    }
    y[i] = sum;
}
"""
ARITHMETIC = {
    "fma": ("@p fma.rn.f32 %0, %1, %1, %0;", 0.25),
    "fma on both sides": ("@p fma.rn.f32 %0, %1, %1, %0; @!p fma.rn.f32 %0, %1, %1, 1.0;", 0.25),
    "add to a product": ("{ .reg .f32 t; mul.f32 t, %1, %1; @p add.f32 %0, t, %0; }", 0.25),
    "a whole program": ("@p div.rn.f32 %0, %1, 0f40000000;", None),
}


@pytest.mark.parametrize(("text", "added"), ARITHMETIC.values(), ids=ARITHMETIC)
def test_guarded_arithmetic_may_be_executed_without_its_guard(text, added):
    x, y = np.full(512, 0.5, np.float32), np.zeros(128, np.float32)
    launched = simulate(GUARDED.replace("ARITHMETIC", text), "k", 2, 64, [x, y, 0])
    assert not launched.counters.inexact
    odd = np.arange(128) & 1 == 1
    assert (y[odd] == (0.25 if added is None else 1 + 4 * added)).all()
    assert (y[~odd] == (1.25 if "!" in text else 1.0)).all()


@pytest.mark.parametrize("more", [0, 1])
def test_more_multiply_adds_than_threads_of_a_guarded_one_are_reported(more):
    kernel = parser.parse(
        ".version 8.8 .target sm_90 .address_size 64 .visible .entry k() { .reg .f32 %f<2>; .reg .pred %p<2>;\n"
        "setp.lt.f32 %p1, %f1, %f0; @%p1 fma.rn.f32 %f1, %f0, %f0, %f1; ret; }"
    ).kernels["k"]
    lanes, blocks = np.array([64, 8, 64]), cfg.build(kernel)
    with pytest.raises(Disagreement, match="counts 8 multiply-adds") if more else contextlib.nullcontext():
        cross_check.check_fused(cross_check.Account(fused=8), cross_check.Account(fused=64 + more), blocks, lanes)


VOTES = """
extern "C" __global__ void k(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, rounds = 0;
    while (SAYS(x[i] > rounds) WHEN)
        y[i] = ++rounds;
}
"""


@pytest.mark.parametrize(
    ("says", "when", "rounds"),
    [("__syncthreads_or", "", 97), ("__syncthreads_and", "", 2), ("__syncthreads_count", "> 7", 90)],
)
def test_a_vote_of_the_block_is_followed(says, when, rounds):
    x, y = np.arange(2, 98, dtype=np.int32), np.zeros(96, np.int32)
    launched = simulate(VOTES.replace("SAYS", says).replace("WHEN", when), "k", 1, 96, [x, y, 96])
    assert launched.fault is None
    assert y[0] == y[95] == rounds
    assert not launched.counters.inexact
    assert launched.counters["barriers"] == rounds + 1


SOMETIMES = """
extern "C" __global__ void k(const int *x, int *y, int n)
{
    __shared__ int s[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned to = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
    const int *from = x + (i < n ? i : 0);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(i < n ? 4 : 0));
    asm volatile("cp.async.wait_all;");
    y[i] = s[threadIdx.x];
}
"""


def test_a_copy_that_only_some_lanes_read_for_is_counted():
    x, y = np.arange(256, dtype=np.int32), np.full(256, -1, np.int32)
    launched = simulate(SOMETIMES, "k", 2, 128, [x, y, 200])
    assert np.array_equal(y, np.where(np.arange(256) < 200, x, 0))
    assert {"writes zeros" in why for why in launched.counters.inexact.values()} == {True}
    assert launched.counters["global_load_sectors"] == 25


PARTS = """
extern "C" __global__ void k(const int4 *x, int4 *y, int n)
{
    __shared__ int4 s[128];
    int i = threadIdx.x;
    unsigned to = (unsigned)__cvta_generic_to_shared(&s[i]);
    int bytes = max(0, min(16, 4 * (n - 4 * i)));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(x + i), "r"(bytes));
    asm volatile("cp.async.wait_all;");
    y[i] = s[i];
}
"""


@pytest.mark.parametrize("n", [512, 201, 202, 203])
def test_a_copy_of_a_part_needs_no_second_run(n, monkeypatch):
    """Machine code has its full width, in which both engines agree."""
    monkeypatch.setattr(agreement, "WordComparison", lambda kinds, *_: pytest.fail(f"{kinds} in doubt"))
    x, y = np.arange(1, 513, dtype=np.int32), np.full(512, -1, np.int32)
    launched = simulate(PARTS, "k", 1, 128, [x, y, n])
    assert np.array_equal(y, np.where(np.arange(512) < n, x, 0))
    assert launched.fault is None


@pytest.mark.parametrize("n", [201, 512])
def test_a_copy_of_a_part_elsewhere_is_told_of(n, monkeypatch):
    """The PTX interpreter reads 16 bytes further on."""
    real = access.SpaceAccess.place_global
    monkeypatch.setattr(
        access.SpaceAccess, "place_global",
        lambda self, addresses, lanes: real(self, addresses + 16 * (self.access.effect == "copy"), lanes),
    )  # fmt: skip
    x, y = np.arange(1, 1025, dtype=np.int32), np.full(512, -1, np.int32)
    with pytest.raises(Disagreement, match="copies"):
        simulate(PARTS, "k", 1, 128, [x, y, n])


TABLE = """
extern "C" __global__ void k(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, left = x[i], sum = 0;
    do
        switch (left % 6) {
        case 0: sum += x[i ^ 1]; break;
        case 1: sum *= 3;
        case 2: y[n + i] = sum; break;
        case 3: sum -= x[i ^ 32]; left--; break;
        case 4: sum += __popc(left); break;
        case 5: sum ^= x[(i * 5) % n]; break;
        }
    while (--left > 0);
    y[i] = sum;
}
"""


def test_a_switch_that_jumps_by_a_table_is_followed():
    x, y = np.arange(128, dtype=np.int32) * 7 % 23, np.zeros(256, np.int32)
    launched = simulate(TABLE, "k", 2, 64, [x, y, 128])
    assert launched.fault is None
    assert not launched.counters.inexact


@pytest.mark.parametrize(
    ("body", "kind", "asked"),
    [
        ("x[1 << 20] = 1;", "out_of_bounds", 1),
        ("int own[4] = {}; own[x[0] + 99] = 1; x[1] = own[x[2]];", "out_of_bounds", 0),  # registers in machine code
        ("__trap();", "trap", 0),
    ],
)
def test_machine_code_is_read_where_it_can_say_something_of_a_fault(body, kind, asked, monkeypatch):
    """It is asked about addresses; to disassemble takes longer than most launches that fault."""
    read, real = [], machinecode.prepare

    def prepare(compiled):
        read.append(compiled.entry)
        return real(compiled)

    monkeypatch.setattr(machinecode, "prepare", prepare)
    source = f'extern "C" __global__ void k(int *x) {{ {body} x[threadIdx.x] = 2; }}'
    device = Simulator(Setting(counting=False))
    launched = simulate(source, "k", 1, 64, [np.zeros(64, np.int32)], device=device)
    assert (launched.fault.kind, len(read)) == (kind, asked)
