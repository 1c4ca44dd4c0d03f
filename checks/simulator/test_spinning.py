"""Threads that wait for each other in loops make progress; if none can, the kernel is reported to hang."""

from __future__ import annotations

import numpy as np
import pytest

from gemm_lessons.engine.machine import machine

TOGETHER = True

GUARDED = "__threadfence(); D[0] += 1; __threadfence(); atomicExch(L, 0); O[g] = 1;"
LOCKS = {
    "every thread": "while (atomicCAS(L, 0, 1) != 0); " + GUARDED,
    "backing off": "unsigned ns = 8; while (atomicCAS(L, 0, 1)) { __nanosleep(ns); if (ns < 256) ns *= 2; } " + GUARDED,
    "counting rounds": f"int c = 1; while (atomicCAS(L, 0, 1)) c++; {GUARDED} O[g] = c;",
    "inside the loop": f"for (bool done = false; !done;) if (atomicCAS(L, 0, 1) == 0) {{ {GUARDED} done = true; }}",
    "one of each warp": f"if (t % 32 == 0) {{ while (atomicCAS(L, 0, 1)); {GUARDED} }} __syncthreads(); O[g] = 1;",
}
HEAD = """extern "C" __global__ void k(int *L, int *D, int *O, const int *A)
{
    const int t = threadIdx.x, g = blockIdx.x * blockDim.x + t, n = gridDim.x * blockDim.x;
    volatile int *F = L;
"""


def launch(run, body, blocks, threads, **options):
    a = np.arange(blocks * threads, dtype=np.int32) * 3 % 17
    a.setflags(write=False)
    lock, data, out = np.zeros(64, np.int32), np.zeros(512, np.int32), np.zeros(blocks * threads, np.int32)
    launched = run(f"{HEAD}{body}\n}}", blocks, threads, [lock, data, out, a], **options)
    return a, data, out, launched


@pytest.mark.parametrize("body", LOCKS.values(), ids=LOCKS)
@pytest.mark.parametrize(("blocks", "threads", "block_limit"), [(1, 32, None), (3, 64, 1)])
def test_a_lock_goes_round(run, body, blocks, threads, block_limit):
    if "t % 32" not in body:
        threads = threads // 8
    _, data, out, launched = launch(run, body, blocks, threads, block_limit=block_limit)
    assert data[0] == blocks * (threads // 32 if "t % 32" in body else threads)
    assert (out > 0).all()
    assert launched.findings == ()


# Block i waits for what block ORDER has summed up; every block adds its own part.
LOOK_BACK = """
    __shared__ int s[32], before;
    const int b = ORDER;
    s[t] = A[b * 32 + t];
    __syncthreads();
    for (int o = 1; o < 32; o *= 2) {
        int x = t >= o ? s[t - o] : 0;
        __syncthreads();
        s[t] += x;
        __syncthreads();
    }
    if (t == 0) {
        int p = 0;
        if (b > 0) { while (F[b - 1] == 0); __threadfence(); p = D[b - 1]; }
        D[b] = p + s[31];
        __threadfence();
        F[b] = 1;
        before = p;
    }
    __syncthreads();
    O[b * 32 + t] = before + s[t];
"""


@pytest.mark.parametrize("order", ["blockIdx.x", "gridDim.x - 1 - blockIdx.x"])
@pytest.mark.parametrize("block_limit", [None, 1, 3])
def test_blocks_wait_for_others_whatever_their_order(run, order, block_limit):
    a, _, out, launched = launch(run, LOOK_BACK.replace("ORDER", order), 8, 32, block_limit=block_limit)
    assert out.tolist() == np.cumsum(a).tolist()
    assert launched.findings == ()


GRID_BARRIER = """
    D[g] = A[g];
    __threadfence();
    __syncthreads();
    if (t == 0) { atomicAdd(L, 1); while (F[0] < gridDim.x); __threadfence(); }
    __syncthreads();
    O[g] = D[n - 1 - g];
"""


@pytest.mark.parametrize("block_limit", [None, 1])
def test_all_blocks_meet(run, block_limit):
    a, _, out, launched = launch(run, GRID_BARRIER, 6, 64, block_limit=block_limit)
    assert out.tolist() == a[::-1].tolist()
    assert launched.findings == ()


RING = """
    if (t) return;
    volatile int *head = L, *tail = L + 1;
    if (blockIdx.x == 0)
        for (int i = 0; i < 20; i++) {
            while (i - *tail >= 4);
            __threadfence(); D[i % 4] = i * i + 1; __threadfence(); *head = i + 1;
        }
    else
        for (int i = 0; i < 20; i++) {
            while (*head <= i);
            __threadfence(); O[i] = D[i % 4]; __threadfence(); *tail = i + 1;
        }
"""


@pytest.mark.parametrize("block_limit", [None, 1])
def test_two_blocks_wait_for_each_other_in_turn(run, block_limit):
    _, _, out, launched = launch(run, RING, 2, 32, block_limit=block_limit)
    assert out[:20].tolist() == [i * i + 1 for i in range(20)]
    assert launched.findings == ()


def test_more_blocks_than_a_gpu_holds_never_meet(run, monkeypatch):
    monkeypatch.setattr("gemm_lessons.engine.machine.spin_waits.RESIDENT_BLOCKS", 4)
    _, _, _, launched = launch(run, GRID_BARRIER, 6, 64, block_limit=1, fault="timeout")
    assert "4 blocks" not in launched.fault.message
    assert launched.fault.line == 9


@pytest.mark.parametrize("first", [True, False], ids=["writer first", "reader first"])
def test_a_warp_waits_for_another(run, first):
    body = f"if ((t < 32) == {int(first)}) {{ D[t % 32] = A[t]; __threadfence(); __syncwarp(); if (t % 32 == 0)"
    body += " F[0] = 1; } else { while (F[0] == 0); __threadfence(); O[t % 32] = D[31 - t % 32]; }"
    a, _, out, launched = launch(run, body, 1, 64)
    assert out[:32].tolist() == (a[:32] if first else a[32:])[::-1].tolist()
    assert launched.findings == ()


HANGS = {
    "a flag that nobody sets": "O[g] = 1;\\nwhile (F[1] == 0);",
    "a lock that is not released": "O[g] = 1;\\nwhile (atomicCAS(L, 0, 1));\\nD[0]++;",
    "two locks in two orders": (
        "if (t > 1) return; volatile int *G = F + 8;\\natomicExch(L + t, 1); while (F[0] + F[1] < 2);"
        "\\nwhile (atomicCAS(L + 1 - t, 0, 1)); G[0] = 1;"),
}  # fmt: skip


@pytest.mark.parametrize("body", HANGS.values(), ids=HANGS)
def test_a_hang_is_told_with_its_line_and_soon(run, body, monkeypatch):
    executed = []
    real = machine.Machine._used_up

    def used_up(self, number, active):
        executed.append(1)
        return real(self, number, active)

    monkeypatch.setattr(machine.Machine, "_used_up", used_up)
    _, _, _, launched = launch(run, body.replace("\\n", "\n"), 2, 32, fault="timeout")
    assert launched.fault.line in (6, 7), launched.fault
    assert "in a loop for something that no thread will do" in launched.fault.message
    assert len(executed) < 1000


def test_a_loop_without_end_that_waits_for_nobody_uses_up_its_budget(run):
    body = "unsigned x = t; while (x != 7) { x = x * 5 + 4; atomicAdd(L, x & 1); } O[g] = x;"
    _, _, _, launched = launch(run, body, 1, 32, fault="timeout", budget=20_000)
    assert "20,000 instructions" in launched.fault.message


@pytest.mark.counted
@pytest.mark.parametrize("waits", [True, False])
def test_what_depends_on_time_is_not_called_exact(run, waits):
    """A warp waits for a flag in shared memory; a sum over volatile memory in a loop waits for nobody."""
    body = (
        "__shared__ volatile int f; if (t == 0) f = 0; __syncthreads();"
        " if (t < 32) while (f == 0); else f = 1; O[g] = 1;"
        if waits
        else "__shared__ volatile int f[64]; f[t] = A[g]; __syncthreads();"
        " for (int i = 32; i > 0; i /= 2) { if (t < i) f[t] += f[t + i]; __syncthreads(); } O[g] = f[0];"
    )
    launched = launch(run, body, 1, 64)[-1]
    assert bool(launched.counters.inexact) == waits


@pytest.mark.counted
def test_a_wait_after_a_long_loop_is_found_soon(run):
    """Three warps wait for the last one, whose code is numbered after their loop."""
    body = (
        "unsigned x = t; for (int i = 0; i < 4000; i++) x = x * 5 + i; O[g] = x; if (t % 32) return;"
        " if (t == 96) { for (int i = 0; i < 9; i++) D[i] = i; } while (t < 96 && F[0] == 0); D[t] = 1; L[0] = 1;"
    )
    _, data, _, launched = launch(run, body, 1, 128)
    assert data[:128:32].tolist() == [1, 1, 1, 1]
    assert 3 < launched.counters.totals["smsp__inst_executed_op_global_ld.sum"] < 60
