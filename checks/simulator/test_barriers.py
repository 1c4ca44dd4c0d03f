"""Barriers: reductions, signals, numbers and counts in registers, ended threads, what can never complete."""

from __future__ import annotations

import numpy as np
import pytest

TOGETHER = True

HEAD = 'extern "C" __global__ void k(const int *a, int *o, int x) { const int t = threadIdx.x; __shared__ int s[128];'


def launch(run, body, threads=128, x=0, blocks=1, **options):
    a = np.arange(threads, dtype=np.int32)
    out = np.full(blocks * threads, -1, np.int32)
    a.setflags(write=False)
    launched = run(f"{HEAD} s[t] = a[t]; {body} }}", blocks, threads, [a, out, x], **options)
    return out, launched


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("__syncthreads_count(a[t] % 3 == x)", 43),
        ("__syncthreads_and(a[t] >= x)", 1),
        ("__syncthreads_and(a[t] > x)", 0),
        ("__syncthreads_or(a[t] == 77 + x)", 1),
        ("__syncthreads_or(a[t] == 300 + x)", 0),
    ],
)
def test_a_barrier_combines_the_votes_of_its_block(run, call, expected):
    out, _ = launch(run, f"const int r = {call}; o[t] = r > 1 ? r : r != 0;")
    assert set(out.tolist()) == {expected}


def test_each_block_has_its_own_vote(run):
    out, _ = launch(run, "o[blockIdx.x * 128 + t] = __syncthreads_count(t < 10 * (int)blockIdx.x);", blocks=4)
    assert out.reshape(4, 128).tolist() == [[10 * block] * 128 for block in range(4)]


def test_ended_threads_do_not_vote_and_do_not_hold_up(run):
    out, _ = launch(run, "if (t >= 100) return; o[t] = __syncthreads_count(1);")
    assert out.tolist() == [100] * 100 + [-1] * 28


def test_numbers_and_counts_come_from_registers(run):
    body = 'asm volatile("bar.sync %0, %1;" : : "r"(1 + t / 64), "r"(64 + x) : "memory"); o[t] = s[t ^ 63];'
    out, _ = launch(run, body)
    assert out.tolist() == [t ^ 63 for t in range(128)]


def test_who_only_signals_goes_on(run):
    """Warps 0 to 2 signal and end; warp 3 waits for all of them and reads what they wrote."""
    body = """if (t < 96) { asm volatile("bar.arrive 3, 128;" ::: "memory"); return; }
        asm volatile("bar.sync 3, 128;" ::: "memory"); o[t] = s[t - 96] + s[t - 64];"""
    out, _ = launch(run, body)
    assert out[96:].tolist() == [(t - 96) + (t - 64) for t in range(96, 128)]


def test_a_signal_counts_for_one_round_only(run):
    body = """if (t < 64) { asm volatile("bar.arrive 1, 128;" ::: "memory"); return; }
        asm volatile("bar.sync 1, 128;" ::: "memory"); asm volatile("bar.sync 1, 128;" ::: "memory"); o[t] = 1;"""
    _, launched = launch(run, body, fault="deadlock")
    assert "64 of 128 threads wait at barrier 1" in launched.fault.message
    assert "64 have ended" in launched.fault.message


@pytest.mark.parametrize(("number", "count"), [(16, 64), (1, 48), (99, 32)])
def test_impossible_numbers_and_counts_are_faults(run, number, count):
    """An H200 answers with an illegal instruction."""
    body = f'asm volatile("bar.sync %0, %1;" : : "r"({number} + x), "r"({count} + x)); o[t] = 1;'
    _, launched = launch(run, body, fault="barrier_count")
    assert f"barrier {number} for {count} threads" in launched.fault.message


def test_a_deadlock_says_who_waits_where(run):
    body = """if (t < 64) asm volatile("bar.sync 1, 96;" ::: "memory");
        else asm volatile("bar.sync 2, 128;" ::: "memory"); o[t] = 1;"""
    _, launched = launch(run, body, fault="deadlock")
    for part in (
        "64 of 128 threads wait at barrier 1",
        "expects 96",
        "barrier 2",
        "expects 128",
        "no running thread can arrive",
    ):
        assert part in launched.fault.message, launched.fault


@pytest.mark.parametrize("block_limit", [1, None])
def test_a_barrier_that_only_some_blocks_reach_releases_them(run, block_limit):
    body = """if (blockIdx.x % 2) { __syncthreads(); o[blockIdx.x * 64 + t] = s[63 - t]; }
        else { asm volatile("bar.sync 1;" ::: "memory"); o[blockIdx.x * 64 + t] = s[t ^ 1]; }"""
    out, _ = launch(run, body, threads=64, blocks=4, block_limit=block_limit)
    rows = out.reshape(4, 64)
    assert rows[1].tolist() == rows[3].tolist() == list(range(63, -1, -1))
    assert rows[0].tolist() == rows[2].tolist() == [t ^ 1 for t in range(64)]
