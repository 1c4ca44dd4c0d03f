"""Kernels that hang at mbarriers and barriers: the report names the likely cause first, then who waits for what."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from checks.simulator.cluster_cases import PULL, SHARE, changed
from checks.simulator.conftest import Run
from checks.simulator.phase_cases import HEAD, MIRROR, PIPELINE

TOGETHER = True
ARCH = "sm_90"

FIRST, FULL, FILL = (
    "wait(&empty[i % 2], (i / 2 + 1) & 1);",
    "wait(&full[i % 2], i / 2 & 1);",
    "expect(&full[i % 2], 1024);",
)
READ = "cluster_sync(); // both have read"
PRODUCER = "if (t == 0)\n            for (int i = 0; i < tiles"
LOAD = "bulk_load(stage[i % 2], from + i * 256, 1024, &full[i % 2]);"
# One warp has no tile and returns; the others meet without it.
TILES = """
extern "C" __global__ void k(const float *x, float *y)
{
    const int t = threadIdx.x;
    if (t >= 64) return; // no tile
    asm volatile("bar.sync 1, 96;" ::: "memory");
    y[t] = x[t];
}
"""
# Two warps meet, twice; the third has a barrier of its own.
ROLES = (
    HEAD
    + """
#define BAR(number, threads) asm volatile("bar.sync %0, %1;" :: "n"(number), "n"(threads) : "memory")
extern "C" __global__ void k(const float *x, float *y)
{
    __shared__ u64 one;
    const int t = threadIdx.x;
    if (t == 0) { init(&one, 1); made(); }
    __syncthreads();
    for (int i = 0; i < 2; i++)
        if (t < 64)
            BAR(1, 64);
    if (t >= 64)
        BAR(2, 32);
    y[t] = x[t];
}
"""
)

# Two roles in turn: each waits for a barrier of its own, whose number is in a register.
IN_TURN = (
    HEAD
    + """
__device__ void meet(int number) { asm volatile("bar.sync %0, 64;" :: "r"(number) : "memory"); }
__device__ void pass_on(int number) { asm volatile("bar.arrive %0, 64;" :: "r"(number) : "memory"); }
extern "C" __global__ void k(const float *x, float *y)
{
    const int t = threadIdx.x, role = t / 32;
    if (role > 1)
        return;
    if (role == 1)
        pass_on(1);
    for (int i = 0; i < 3; i++) {
        meet(1 + role);
        y[t] += x[t];
        pass_on(2 - role);
    }
}
"""
)


# Each warp waits at a barrier of its own for the warp before it, and later at another one. The register that holds the
# number of the latter has no value yet.
CHAIN = """
__device__ void meet(int number, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(threads)); }
__device__ void signal(int number) { asm volatile("bar.arrive %0, 64;" :: "r"(number) : "memory"); }
extern "C" __global__ void k(const float *x, float *y)
{
    const int t = threadIdx.x, role = t / 32;
    if (role > 0)
        meet(role, 64);
    y[t] = x[t];
    meet(4 + role, 32);
    if (role < 2)
        signal(role + 1);
}
"""


# Two warps that wait for each other; the first of them lets the second one start.
STARTED = (
    HEAD
    + """
extern "C" __global__ void k(const float *x, float *y)
{
    __shared__ u64 order, full, empty;
    const int t = threadIdx.x;
    if (t == 0) { init(&order, 32); init(&full, 32); init(&empty, 32); made(); }
    __syncthreads();
    if (t < 32) {
        arrive(&order); // of the first warp
        wait(&full, 0);
        arrive(&empty); // once full
    } else if (t < 64) {
        wait(&order, 0);
        wait(&empty, 0);
        arrive(&full);
    }
    y[t] = x[t];
}
"""
)


def line_of(source: str, text: str) -> int:
    """Return the line, from 1, in which ``text`` is."""
    return source[: source.index(text)].count("\n") + 1


@pytest.mark.parametrize(
    ("source", "edits", "cause", "waiting"),
    [
        # The parity of the first wait for an empty stage.
        (PIPELINE, [(FIRST, "wait(&empty[i % 2], i / 2 & 1);")],
         "the first wait for the mbarrier empty[0], in line 42, blocks although its stage is still empty",
         ["Threads in line 42 wait for those in line 48, and threads in line 48 wait for those in line 42: a cycle. ",
          "Thread 0 of block 0 waits in line 42 for the end of phase 0 of the mbarrier empty[0], which still",
          "threads 32 to 95 of block 0 wait in line 48 for the end of phase 0 of the mbarrier full[0]"]),
        # A parity that never changes.
        (PIPELINE, [(FULL, "wait(&full[i % 2], 0);")],
         "in line 48, thread 32 of block 0 passes phase 0 of the mbarrier full[0] twice", []),
        (PIPELINE, [(FILL, "")],
         "no mbarrier.expect_tx announces the copies for the mbarrier full[0] (1,024 arrived by copies of line"
         " 44)", []),
        (PIPELINE, [(FILL, "expect(&full[i % 2], 2048);")],
         "the copies for the mbarrier full[0] of block 0 bring fewer bytes than mbarrier.expect_tx announces (2,048"
         " announced in line 43, 1,024 arrived by copies of line 44)", ["which still needs 1,024 bytes"]),
        (PIPELINE, [(FILL, "expect(&full[i % 2], 512);")],
         "the copies for the mbarrier full[0] of block 0 bring more bytes than mbarrier.expect_tx announces (512"
         " announced in line 43, 1,024 arrived by copies of line 44)", ["mbarrier.expect_tx for 512 bytes"]),
        (PIPELINE, [(LOAD, "")],
         "no copy brings the bytes that the mbarrier full[0] of block 0 expects (1,024 announced in line 43)", []),
        # One arrival of each thread, where one of the block was to be.
        (PIPELINE, [("init(&empty[s], 64);", "init(&empty[s], 1);")],
         "in line 51, threads 32 to 63 of block 0 arrive together at the mbarrier empty[0], to which mbarrier.init"
         " gives 1 arrival a phase: they end several phases at once", []),
        (PIPELINE, [("init(&empty[s], 64);", "init(&empty[s], 96);")],
         "mbarrier.init gives the mbarrier empty[0] 96 arrivals a phase, but only 64 came in line 51",
         ["still needs 32 of 96 arrivals (64 came in line 51)"]),
        # One thread of one warp arrives; those of the other warps have passed that line and wait as it does.
        (PIPELINE, [("init(&empty[s], 64);", "init(&empty[s], 2);"),
                    ("arrive(&empty[i % 2]);", "if (t == 32) arrive(&empty[i % 2]);")],
         "mbarrier.init gives the mbarrier empty[0] 2 arrivals a phase, but only 1 came in line 51",
         ["still needs 1 of 2 arrivals (1 came in line 51)"]),
        # Two warps read a stage, and one arrival is counted: they end two phases.
        (PIPELINE, [("init(&empty[s], 64);", "init(&empty[s], 1);"),
                    ("arrive(&empty[i % 2]);", "if (t % 32 == 0) arrive(&empty[i % 2]);")],
         "mbarrier.init gives the mbarrier empty[0] 1 arrival a phase, but 2 came in line 51 before the wait in line"
         " 42, so more than one phase had ended", []),
        (PIPELINE, [("init(&empty[s], 64);", "init(&empty[s], 1);"),
                    ("arrive(&empty[i % 2]);", "if (t == 32) { arrive(&empty[i % 2]);\n arrive(&empty[i % 2]); }")],
         "mbarrier.init gives the mbarrier empty[0] 1 arrival a phase, but 1 came in line 51, 1 came in line 52 before"
         " the wait in line 42: the same threads arrived again", []),
        # Half of the consumers wait for something else, so the count may be right.
        (PIPELINE, [("u64 full[2], empty[2];", "u64 full[2], empty[2], other;"),
                    ("init(&empty[s], 64); }", "init(&empty[s], 64); } init(&other, 1); if (x == y) arrive(&other);"),
                    ("arrive(&empty[i % 2]);", "if (t >= 64) wait(&other, 0); arrive(&empty[i % 2]);")],
         "thread", ["threads 64 to 95 of block 0 wait in line 51 for the end of phase 0 of the mbarrier other"]),
        (PIPELINE, [("arrive(&empty[i % 2]);", "")],
         "no line of the kernel arrives at the mbarrier empty[0]", []),
        # The producer is one tile short.
        (PIPELINE, [(PRODUCER, PRODUCER + " - 1")],
         "thread 0 of block 0 arrived in the phase before (1 came in line 43) and then ended",
         ["Threads 32 to 95 of block 0 wait in line 48 for the end of phase 1 of the mbarrier full[1]"]),
        (TILES, [], "barrier 1, in line 6, expects 96 threads, but only 64 came: threads 64 to 95 of block 0 ended"
         " without it", ["64 of 96 threads wait at barrier 1 in line 6, which expects 96", "32 have ended"]),
        # Another role has the same number. It met twice, and ended.
        (ROLES, [("BAR(2, 32)", "BAR(1, 64)")],
         "barrier 1, in line 42, expects 64 threads, but only 32 came: threads 0 to 63 of block 0 met there before"
         " and then ended", []),
        # The third warp waits elsewhere, and never comes.
        (ROLES, [("BAR(1, 64)", "BAR(1, 96)"), ("BAR(2, 32);", "wait(&one, 0);")],
         "barrier 1, in line 40, expects 96 threads, but only 64 came, and no other thread can arrive there", []),
        (CHAIN, [("if (role < 2)\n        signal(role + 1);", "")],
         "barrier 1, in line 8, expects 64 threads, but only 32 came: threads 0 to 31 of block 0 ended without it",
         ["32 of 96 threads wait at barrier 1", "32 of 96 threads wait at barrier 2"]),
        # Two places of one number, and too few threads for either.
        (ROLES, [("BAR(1, 64)", "BAR(1, 128)"), ("BAR(2, 32)", "BAR(1, 128)")],
         "threads wait at barrier 1 in line 40 and in line 42: threads of one role count", []),
        # Each role waits for the other one first.
        (ROLES, [("BAR(1, 64)", "BAR(1, 96)"), ("BAR(2, 32);", "{ wait(&one, 0); BAR(1, 96); }"),
                 ("y[t]", "if (t == 0) arrive(&one); y[t]")],
         "threads in line 42 wait for those in line 40, and threads in line 40 wait for those in line 42: a cycle", []),
        (IN_TURN, [("        pass_on(1);", "        ;")],
         "in line 41, threads 0 to 31 of block 0 wait for threads 32 to 63 of block 0, and in line 41, threads 32 to 63"
         " of block 0 wait for threads 0 to 31 of block 0: a cycle. ",
         ["32 of 96 threads wait at barrier 1 in line 41", "32 of 96 threads wait at barrier 2 in line 41"]),
        (IN_TURN, [("pass_on(2 - role);", "")],
         "barrier 1, in line 41, expects 64 threads, but only 32 came: threads 32 to 63 of block 0, which arrived there"
         " before, wait in line 41 and can no longer arrive; is an arrival missing?", []),
        # A barrier of the whole block that one role alone reaches.
        (PIPELINE, [("arrive(&empty[i % 2]);", "__syncthreads(); arrive(&empty[i % 2]);")],
         "barrier 0, in line 51, waits for the whole block, but thread 0 of block 0 waits in line 42 and cannot arrive"
         " there: give this role a barrier of its own", []),
        # The others wait for a barrier first, but no arrival follows it.
        (MIRROR, [("init(&bar, 1);", "init(&bar, 96);"),
                  ("    wait(&bar, 0);", "    if (t == 0) wait(&bar, 0);\n    __syncthreads();")],
         "mbarrier.init gives the mbarrier bar 96 arrivals a phase, but only 1 came in line 38", []),
        # One block waits for an arrival of another one, which waits for the barrier of the cluster first.
        (PULL, [("const int t", "__shared__ u64 late; const int t"),
                ("box[t] =", "if (t == 0) init(&late, 1); box[t] ="),
                (READ, "if (rank() == 0)\n        wait(&late, 0);\n    cluster_sync();\n    if (t == 0 && rank())\n"
                       "        arrive_at(at(&late, 0));")],
         "threads in line 63 wait for those in line 64, and threads in line 64 wait for those in line 63: a cycle", []),
        # Consumers free the stage of their own block only.
        (SHARE, [("if (t < 34)", "if (t == 32 + rank())")],
         "mbarrier.init gives the mbarrier empty[0] 2 arrivals a phase, but only 1 came in line",
         ["all from block 0: a thread of every block of the cluster must arrive there (mapa)"]),
        # All consumers free the stage of block 0, and none that of block 1, whose copies block 0 lacks.
        (SHARE, [("if (t < 34)", "if (t == 32)")],
         "threads arrive at the mbarrier empty[0] of another block of the cluster, but none at that of block 1: a"
         " thread must arrive at the mbarrier of each block whose threads wait (mapa)", []),
        (SHARE, [("&full[s], 3)", "&full[s], 1)")],
         "no copy brings the bytes that the mbarrier full[0] of block 1 expects (1,024 announced in line", []),
        (PULL, [(READ, 'if (rank()) cluster_sync(); else asm volatile("bar.sync 1, 96;");')],
         "", ["64 of 64 threads of block 0 wait at barrier 1 in line",
              "64 of 64 threads of block 1 wait in line", "for the barrier of the cluster"]),
    ],
)  # fmt: skip
def test_hangs(run: Run, source: str, edits: Any, cause: str, waiting: list[str]) -> None:
    broken = changed(source, *edits)
    x, y = np.arange(2048, dtype=np.float32), np.zeros(4096, np.float32)
    launched = run(broken, 2, 64 if "__cluster_dims__" in source else 96, [x, y], fault="deadlock")
    message = launched.fault.message
    assert message.startswith(cause), message
    for part in waiting:
        assert part in message, message
    assert message.endswith("no running thread can arrive")
    assert launched.fault.line
    assert not re.search(r"None|\(\)", message)


@pytest.mark.parametrize("source", [ROLES, CHAIN])
def test_roles_with_numbers_of_their_own_do_not_hang(run: Run, source: str) -> None:
    run(source, 1, 96, [np.arange(96, dtype=np.float32), np.zeros(96, np.float32)])


def test_an_mbarrier_that_no_line_waits_for_is_the_cause_if_nothing_else_is(run: Run) -> None:
    """The lines that arrive at the others are named, for they come too late."""
    x = np.ones(96, np.float32)
    waited, unwaited = STARTED, STARTED.replace("wait(&order, 0);", "")
    cause = "no line of the kernel waits for the mbarrier order, at which threads arrive in line {}, so a wait may be"
    for source, begins in ((waited, "threads in line"), (unwaited, cause.format(line_of(unwaited, "// of the first")))):
        fault = run(source, 1, 96, [x, np.zeros_like(x)], fault="deadlock").fault
        assert fault.message.startswith(begins), fault.message
        there = f"which still needs 32 of 32 arrivals (arrivals at empty are in line {line_of(source, '// once full')})"
        assert there in fault.message, fault.message


# One warp waits for the signals of two others, of which each has a line of its own.
SIGNALS = """
#define ARRIVE asm volatile("bar.arrive 1, 96;" ::: "memory")
extern "C" __global__ void k(const float *x, float *y)
{
    const int t = threadIdx.x;
    if (t < 32)
        asm volatile("bar.sync 1, 96;" ::: "memory");
    else if (t < 64)
        ARRIVE; // of the second warp
    else
        ARRIVE; // of the third warp
    y[t] = x[t];
}
"""


@pytest.mark.parametrize(("dropped", "left"), [("second", "third"), ("third", "second")])
def test_where_a_signal_is_missing_the_other_ones_line_is_named(run: Run, dropped: str, left: str) -> None:
    source = changed(SIGNALS, (f"ARRIVE; // of the {dropped} warp", ";"))
    fault = run(source, 1, 96, [np.ones(96, np.float32), np.zeros(96, np.float32)], fault="deadlock").fault
    first = 32 if dropped == "second" else 64
    said = (
        f"barrier 1, in line 7, expects 96 threads, but only 64 came: threads {first} to {first + 31} of block 0 ended"
        f" without it (line {line_of(source, f'of the {left} warp')} arrives there, too); let every warp arrive there"
    )
    assert fault.message.startswith(said), fault.message


# Too few arrivals: the last thread waits for the phase after. The kernel also has a loop around a flag.
FLAG_AND_PHASE = (
    HEAD
    + """
extern "C" __global__ void k(volatile unsigned *y)
{
    __shared__ u64 bar[1];
    const int t = threadIdx.x;
    while (y[0] == 7) {}
    if (t == 0) { init(bar, 63); made(); }
    __syncthreads();
    u64 s;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(s) : "r"(AT(bar)) : "memory");
    unsigned yes, x = t;
    do {
        for (int i = 0; i < 4; i++) x = x * x + (x >> 3);
        asm volatile("{ .reg .pred p; mbarrier.try_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(yes) : "r"(AT(bar)), "l"(s) : "memory");
    } while (!yes);
    __syncthreads();
    y[t] = x;
}
"""
)


def test_a_thread_at_an_mbarrier_is_not_taken_for_one_at_a_flag(run: Run) -> None:
    """However often it looks, and however much it computes between two looks."""
    fault = run(FLAG_AND_PHASE, 2, 64, [np.zeros(64, np.uint32)], fault="deadlock").fault
    line = line_of(FLAG_AND_PHASE, "mbarrier.arrive.shared.b64 %0")
    assert fault.message.startswith(f"in line {line}, threads 32 to 63 of block 0 arrive together at the mbarrier bar")
