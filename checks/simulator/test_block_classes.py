"""Blocks that a kernel treats differently from most: found in its code, and compared with what all blocks store."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.simulator.conftest import PLAIN_ARCH, Run
from gemm_lessons.engine.machine.block_classes import CodeDecisions
from gemm_lessons.engine.records.launch import Buffer, Grid, Scalar
from gemm_lessons.engine.records.results import RareBlocks
from gemm_lessons.engine.simulator import Simulator

GRID, THREADS, N = (9, 7, 1), 32, 40
HEAD = """__constant__ int table[4] = {0, 0, 5, 0};
__constant__ float far[64] = {0, 0, 7};
extern "C" __global__ void k(const float *a, int *c, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y, t = threadIdx.x, row = by * 32 + t;
    int value = 0;
    BODY
    c[(by * gridDim.x + bx) * 32 + t] = value;
}
"""
# What some blocks do in another way than most; how many blocks there are of the smallest class.
DECISIONS = {
    "one block": ("if (bx == 3 && by == 2) value = 1;", 1),
    "the last block": ("if (bx == gridDim.x - 1 && by == gridDim.y - 1) value = 1;", 1),
    "a block by its number": ("if (by * gridDim.x + bx == 40) value = 1;", 1),
    "one row of the matrix": ("if (row == 77) value = 1;", 9),
    "one row of 256": ("if ((row & 255) == 77) value = 1;", 9),
    "one column of 300": ("if ((bx * 32 + t) % 300 == 199) value = 1;", 7),
    "one element": ("if (row == 77 && bx * 32 + t == 77) value = 1;", 1),
    "a place by the sizes": ("if (bx == n % 7 && by == n / 8) value = 1;", 1),
    "exclusive or": ("if ((bx ^ by) == 10) value = 1;", 1),
    "a diagonal": ("if ((bx + by) % 11 == 9) value = 1;", 6),
    "by a thread's number": ("if (bx * 40 + by * 400 + t == 830) value = 1;", 1),
    "selected without a branch": ("value = (bx == 8) * 3;", 7),
    "a long table": ("value = far[by * 9 + bx];", 1),
    "a table": ("value = table[bx >> 1 & 3] + 1;", 14),
    "fewer turns of a loop": ("for (int i = 0; i < n - bx / 8; i++) value += a[i] > 2;", 7),
    "a factor": ("value = (int)(a[t] * (float)((bx + 1) / 9));", 7),
    "shared memory": (
        "__shared__ int here; if (t == 0) here = by * 9 + bx; __syncthreads(); if (here == 40) value = 1;", 1
    ),
    "a shuffle": ("if (__shfl_sync(~0u, by * 9 + bx, n & 7) == 40) value = 1;", 1),
    "a root in floats": ("float root = sqrtf(by * 9 + bx); if (root == truncf(root)) value = 1;", 8),
    "the bits of a float": ("if (__int_as_float(by * 9 + bx) == __int_as_float(40)) value = 1;", 1),
    "the number of bits": ("if (__popc(by * 9 + bx) == 5) value = 1;", 3),
    "local memory": ("volatile int here = by * 9 + bx; if (here == 40) value = 1;", 1),
    "bits": ("if ((bx & 8) >> 1 | by >> 2) value = 1;", 12),
}  # fmt: skip
# What depends on no block, or is where a matrix ends.
ALIKE = {
    "guards that always hold": "if (row < 4096 && bx * 32 + t < 4096) value = 1;",
    "threads": "if (t == 5) value = 1;",
    "numbers from memory": "if (a[row] > 2) value = 1;",
    "sizes": "if (n % 8 == 0) value = 1;",
    "addresses": "for (int i = 0; i < n; i++) value += a[row * 4 + bx + i] > 2;",
}
EDGES = {
    "the last rows": "if (row < 200) value = 1;",
    "the last columns": "if (bx * 32 + t < 270) value = 1;",
    "both": "if (row < 200 && bx * 32 + t < 270) value = 1;",
}


def decisions(body: str) -> CodeDecisions:
    """Those in the code of a kernel, which needs no machine code."""
    return Simulator().decisions(must_compile(HEAD.replace("BODY", body), arch=PLAIN_ARCH, assembled=False))


def rare(body: str, seed: int = 1) -> RareBlocks:
    """The blocks that the analysis of the code finds."""
    a, c = np.zeros(4096, np.float32), np.zeros(GRID[0] * GRID[1] * THREADS, np.int32)
    arguments = (Buffer("a", a), Buffer("c", c, output=True), Scalar("n", np.int32(N)))
    return decisions(body).rare_blocks(Grid(GRID, (THREADS, 1, 1)), arguments, seed)


def stored(run: Run, body: str) -> list[bytes]:
    """The values that each block stores."""
    c = np.zeros((GRID[0] * GRID[1], THREADS), np.int32)
    run(HEAD.replace("BODY", body), GRID, THREADS, [np.full(4096, 3, np.float32), c, N])
    return [row.tobytes() for row in c]


@pytest.mark.parametrize("name", DECISIONS)
def test_every_block_that_stores_something_else_has_a_class(name: str, run: Run) -> None:
    body, _ = DECISIONS[name]
    outcome = stored(run, body)
    commonest = max(set(outcome), key=outcome.count)
    assert len(set(outcome)) > 1  # the case says something
    found = rare(body)
    assert {outcome[it] for it in found.odd} | {commonest} == set(outcome)
    assert {outcome[it] for it in (*found.every, *found.usual)} == set(outcome)


@pytest.mark.parametrize("name", [name for name, (_, count) in DECISIONS.items() if count == 1])
def test_a_single_block_is_first(name: str, run: Run) -> None:
    outcome = stored(run, DECISIONS[name][0])
    assert outcome.count(outcome[rare(DECISIONS[name][0]).every[0]]) == 1


@pytest.mark.parametrize("name", ALIKE)
def test_blocks_that_do_the_same_have_one_class(name: str) -> None:
    assert rare(ALIKE[name]) == RareBlocks()


@pytest.mark.parametrize("name", EDGES)
def test_an_edge_is_not_odd(name: str, run: Run) -> None:
    found, outcome = rare(EDGES[name]), stored(run, EDGES[name])
    assert found.odd == ()
    assert len({outcome[it] for it in found.every}) == len(set(outcome)) - 1


SIZES_SEEN, SIZES = 4, [3, 17, 40, 64, 2000, 1000, 97, 40, 24]
BY_SIZES = {  # what a size decides; which of ``SIZES`` has an outcome that the first four have not
    "n % 1000 == 0": (4,),
    "n == 97": (6,),
    "n > 100": (4,),
    "n % 8 == 0": (),
    "n < 20": (),
    "n % 8 == 0 && n / 16 == 1": (8,),
    "n % 8 == 1 && n > 90": (6, 4),  # both, then the second alone
    "max(n, 90) > 90 && n % 3 == 1": (4, 5),
    "bx < n": (),
    "a[t] > n": (),
    "__shfl_sync(~0u, n, t) == 97": (6,),
    "__reduce_max_sync(~0u, n) == 97": (6,),
    "(double)n / 7 > 250.5": (4,),
    "__popc(n) == 6 && n > 50": (4,),
    "__shfl_sync(~0u, n + t, 3) == 97": (),
}


@pytest.mark.parametrize("condition", BY_SIZES)
def test_sizes_that_decide_something_new(condition: str) -> None:
    code = decisions(f"if ({condition}) value = 1;")
    assert code.rare_sizes({2: SIZES}, known=SIZES_SEEN) == BY_SIZES[condition]


def test_numbers_from_which_comparisons_of_sizes_are_computed() -> None:
    code = decisions("if (n % 37 > 30 || (n & 255) == 77 || n / 11 == 5) value = 1;")
    found = set(code.numbers_compared())
    assert {37, 256, 77, 30} <= found
    assert found & {11, 55}, "the divisor, or the product that the compiler compares with"
    assert decisions("if (bx % 37 > 30) value = 1;").numbers_compared() == ()


def test_sizes_through_shared_memory() -> None:
    code = decisions("__shared__ int here; here = n; __syncthreads(); if (here == 97) value = 1;")
    assert code.rare_sizes({2: SIZES}, known=SIZES_SEEN) == (6,)
    assert 97 in code.numbers_compared()


@pytest.mark.parametrize("what", ["__shared__", "static __device__"])
def test_sizes_through_an_atomic(what: str) -> None:
    body = f"{what} int here; here = 0; __syncthreads(); atomicMax(&here, n); if (atomicMax(&here, 0) == 97) value = 1;"
    assert 6 in decisions(body).rare_sizes({2: SIZES}, known=SIZES_SEEN)


def test_sizes_that_choose_a_function() -> None:
    """Calls by a pointer become a branch for each function, with the same registers again."""
    functions = "".join(f"__device__ __noinline__ int f{i}(int x) {{ return x * {i}; }}\n" for i in (2, 3))
    source = functions + HEAD.replace("BODY", "int (*call)(int) = n % 50 == 47 ? f2 : f3; value = call(call(t));")
    code = Simulator().decisions(must_compile(source, arch=PLAIN_ARCH, assembled=False))
    assert code.rare_sizes({2: SIZES}, known=SIZES_SEEN) == (6,)


BY_RUNNING = {  # what only a run shows; 97 alone is a prime above 90, and the one whose digits add up to 16
    "a loop": "int prime = n > 90; for (int d = 2; d * d <= n; d++) if (n % d == 0) prime = 0; if (prime) value = 1;",
    "a loop on digits": "int digits = 0; for (int i = n; i > 0; i /= 10) digits += i % 10; value += digits == 16;",
    "a table that a loop fills": """volatile int here[128]; for (int i = 0; i < 128; i++) here[i] = i * i % 131;
        if (here[n & 127] == 108) value = 1;""",
    "a carry": """unsigned less, more, rest;
        asm("sub.cc.u32 %1, %2, 97; subc.u32 %0, 0, 0;" : "=r"(less), "=r"(rest) : "r"(n));
        asm("sub.cc.u32 %1, 97, %2; subc.u32 %0, 0, 0;" : "=r"(more), "=r"(rest) : "r"(n));
        value = a[t] * (float)(1 - ((more | less) & 1));""",
    "a factor without a comparison": "value = a[t] * (float)((unsigned)((n ^ 97) - 1) >> 31);",
    "a loop and a shuffle": """int x = 1; for (int i = 0; i < n; i++) x = x * 5 % 97;
        if (__shfl_sync(~0u, x, 1) == 5) value = 1;""",
}  # fmt: skip


@pytest.mark.parametrize("name", BY_RUNNING)
def test_sizes_whose_outcome_only_a_run_shows(name: str) -> None:
    compiled = must_compile(HEAD.replace("BODY", BY_RUNNING[name]), arch=PLAIN_ARCH, assembled=False)
    run = partial(Simulator.of_sizes, compiled)
    sizes = [3, 17, 40, 64, 80, 64, 97, 40, 24]
    assert Simulator.decisions(compiled).rare_sizes({2: sizes}, known=SIZES_SEEN, run=run)[:1] == (6,)


BLOCKS_BY_RUNNING = {  # what some blocks do in another way than most
    "a loop": """int number = by * 9 + bx, prime = number > 55;
        for (int d = 2; d * d <= number; d++) prime &= number % d != 0;
        if (prime) value = t + 1;""",
    "a table": """volatile int here[64]; for (int i = 0; i < 64; i++) here[i] = i * 7 % 64;
        if (here[by * 9 + bx] == 33) value = 1;""",
    "a carry": """unsigned less, rest;
        asm("sub.cc.u32 %1, %2, 62; subc.u32 %0, 0, 0;" : "=r"(less), "=r"(rest) : "r"(by * 9 + bx));
        value = a[t] * (float)(1 + (int)less);""",
    "a loop and a size": "int rest = n * 100 + by * 9 + bx; while (rest > 70) rest -= 71; value += rest == 5;",
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS_BY_RUNNING)
def test_blocks_whose_outcome_only_a_run_shows(name: str, run: Run) -> None:
    body, a = BLOCKS_BY_RUNNING[name], np.zeros(4096, np.float32)
    compiled = must_compile(HEAD.replace("BODY", body), arch=PLAIN_ARCH, assembled=False)
    arguments = (Buffer("a", a), Buffer("c", a, output=True), Scalar("n", np.int32(N)))
    grid, alone = Grid(GRID, (THREADS, 1, 1)), partial(Simulator.of_sizes, compiled)
    found, outcome = Simulator.decisions(compiled).rare_blocks(grid, arguments, 1, alone), stored(run, body)
    assert {outcome[it] for it in (*found.odd, *found.usual)} == set(outcome)


def test_what_threads_and_numbers_decide_is_not_run() -> None:
    compiled = must_compile(HEAD.replace("BODY", "for (int i = t; i < n; i++) value += a[i] > 2;"), arch=PLAIN_ARCH)
    run = partial(Simulator.of_sizes, compiled)
    assert Simulator.decisions(compiled).rare_sizes({2: SIZES}, known=SIZES_SEEN, run=run) == ()


def test_huge_sizes_are_tried_one_test_at_a_time() -> None:
    code = decisions("if (n % 8 == 1 && n > 90) value = 1;")
    assert code.rare_sizes({2: SIZES}, known=SIZES_SEEN, together=1) == (6,)


def test_numbers_from_which_on_an_index_is_cut_off() -> None:
    for cut, number in (("by & 32767", 32768), ("(short)by", 32768), ("(unsigned short)(by * 3)", 65536)):
        assert number in decisions(f"value = a[{cut}];").bounds_of_integers()


def test_sizes_looked_up_in_a_table() -> None:
    code = decisions("value = table[n & 3];")  # 5 for 2 alone; of the sizes seen, none leaves 2
    sizes = [3, 17, 40, 64, 2000, 1001, 98, 40, 24]
    assert code.rare_sizes({2: sizes}, known=SIZES_SEEN) == (6,)
    assert 2 in code.numbers_compared()


def test_the_number_of_blocks_is_a_size() -> None:
    code = decisions("if (gridDim.x == 7 && n > 50) value = 1;")
    assert code.reads_grid
    grids = [Grid((x, 1, 1), (THREADS, 1, 1)) for x in (3, 7, 5, 7, 9)]
    sizes = {2: [60, 40, 60, 60, 60]}
    assert code.rare_sizes(sizes, grids, known=3) == (3,)
    assert code.rare_sizes(sizes, grids, known=4) == ()
    assert code.rare_sizes(sizes, grids, known=3, allowed=lambda number: number > 3) == ()


def test_the_seed_chooses_a_block_of_a_class() -> None:
    body, _ = DECISIONS["a table"]
    assert len({rare(body, seed).every[0] for seed in range(8)}) > 1
    assert rare(body, 3) == rare(body, 3)
