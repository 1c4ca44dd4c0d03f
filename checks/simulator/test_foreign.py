"""What kernels of other people use: it runs, or is refused by name and line and hinders no other kernel."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from checks.compiling import must_compile
from gemm_lessons.engine.api import arguments, simulate
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.counters.cross_check import Disagreement
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.simulator import Setting, Simulator

FILE = (Path(__file__).parent / "sources" / "foreign_constructs.cu").read_text()


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return must_compile(FILE, path="kernels.cu", entry="warp_size")


def launch(compiled: Compiled, name: str, *values: object, blocks: int = 1) -> None:
    entry = next(word for word in compiled.ptx.split() if word.startswith(f"_Z{len(name)}{name}"))
    one = dataclasses.replace(compiled, entry=entry.rstrip("(,"))
    device = Simulator(Setting(counting=False))
    device.launch(one, Grid((blocks, 1, 1), (32, 1, 1), 0), arguments(device.kernel(one), values))


TABLE = np.array([3, 1, 4, 1, 5, 9, 2, 6, 8], np.int32)


@pytest.mark.parametrize(
    ("name", "more", "want"),
    [
        ("warp_size", [], lambda i: 32 + 0 * i),
        ("aligned", [], lambda i: i + 1),
        ("indexed", [TABLE.tobytes()], lambda i: TABLE[i & 7]),
        ("pointed", [TABLE.tobytes()], lambda i: TABLE[i & 7] + 800),
        (
            "pointers",
            [],
            lambda i: np.array(
                [20 + (10, 60)[n & 1] + b"ab"[n & 1] + (b"alpha"[n % 5], b"beta"[n % 4])[n & 1] for n in i.tolist()]
            ),
        ),
        ("strings", [], lambda i: np.frombuffer(b"text", np.uint8)[i & 3]),
    ],
)
def test_it_runs(compiled, name, more, want):
    x = np.arange(32, dtype=np.int32)
    launch(compiled, name, x, *more)
    assert x.tolist() == want(np.arange(32)).tolist()


def test_registers_of_128_bits(compiled):
    x = np.arange(6, dtype=np.int64)
    launch(compiled, "wide", x)
    assert x.tolist() == [5, 7, 7, 3, 5, 7]


def test_a_launch_without_clusters_is_one_of_single_blocks(compiled):
    x = np.zeros(64, np.int32)
    launch(compiled, "clusters", x, blocks=2)
    assert x.tolist() == [2010] * 32 + [2110] * 32


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("environment", "%%envreg5", "special register"),
    ],
)
def test_it_is_refused_by_name_and_line(compiled, name, line, words):
    with pytest.raises(UnsupportedKernel, match=words) as refused:
        launch(compiled, name, np.arange(32, dtype=np.int64))
    number = refused.value.line
    assert number is not None
    assert line in FILE.split("\n")[number - 1]


def test_arrays_out_of_hand_are_refused_by_name_and_line():
    """The kernels have a separate file: disassembling others beside them would take as much memory as they do."""
    source = """__device__ char huge[3ull << 30], large[1 << 29];
    extern "C" __global__ void k(char *x) { huge[x[0]] = large[x[1]]; }
    """
    with pytest.raises(UnsupportedKernel, match="3,221,225,472 bytes") as refused:
        simulate(source, "k", 1, 32, [np.zeros(32, np.uint8)])
    assert refused.value.line == 2


TOKEN = re.compile(r"[%\w.$]+|\s+|.", re.S)
JUNK = """{ } [ ] ( ) , ; @ ! | 0x 0f - + % . 08 99999999999999999999 -1 1e400 0f3F80000 %tid.x %r1 %rd1 %p1 %envreg5
    .u64 .b128 .v4 .f16x2 .shared .param .reg .loc .file ret bra call bar.sync ld st mov _ WARP_SZ \0 é < : .align .b8
    {%r1,%r2} [%rd1+8] p|q !p generic( /* // .extern .func tex mma.sync""".split()


@pytest.mark.parametrize("seed", range(3))
def test_junk_is_refused_without_a_traceback(compiled, seed):
    """Tokens deleted, doubled, replaced: it runs, or it is unsupported, or fails as the machine code does not."""
    random = Random(seed)
    names = re.findall(r"\.entry\s+(\w+)\(", compiled.ptx)
    outcomes: Counter[str] = Counter()
    for _ in range(100):
        name = random.choice(names)
        start = compiled.ptx.index(f".entry {name}")
        stop = compiled.ptx.index("\n}", start) + 2
        tokens = TOKEN.findall(compiled.ptx[start:stop])
        for _ in range(random.choice((1, 1, 2))):
            at = random.choice([i for i, token in enumerate(tokens) if not token.isspace()])
            tokens[at : at + random.randrange(2)] = random.choice(([], [tokens[at]], [random.choice(JUNK), " "]))
        text = compiled.ptx[:start] + "".join(tokens) + compiled.ptx[stop:]
        one = dataclasses.replace(compiled, entry=name, ptx=text)
        device = Simulator(Setting(counting=False, budget=1000))
        try:
            kernel = device.kernel(one)
            values = [np.zeros(64, np.int64) if p.size == 8 else bytes(p.size) for p in kernel.parameters]
            device.launch(one, Grid((1, 1, 1), (32, 1, 1), 0), arguments(kernel, values))
            outcomes["ran"] += 1
        except UnsupportedKernel:
            outcomes["refused"] += 1
        except Disagreement:  # the machine code is what it was, and would not have failed so
            outcomes["told"] += 1
    assert min(outcomes["ran"], outcomes["refused"]) > 5


def test_assertions_that_hold_and_fences_hide_no_count():
    source = """
    #include <assert.h>
    __global__ void k(float *x, int n)
    {
        CHECK(n == 32);
        float v = x[2 * threadIdx.x];
        CHECK(v >= 0);
        x[threadIdx.x] = v + 1;
        FENCE;
    }"""
    counted = []
    for check, fence in (("assert", "__threadfence()"), ("(void)", "(void)0")):
        x = np.arange(64, dtype=np.float32)
        launched = simulate(source, "k", 1, 32, [x, 32], defines={"CHECK": check, "FENCE": fence})
        assert not launched.counters.inexact
        counted.append(dict(launched.counters.totals))
        assert x[:32].tolist() == (2 * np.arange(32.0) + 1).tolist()
    same = [name for name in counted[0] if "inst_executed" not in name]
    assert [counted[0][name] for name in same] == [counted[1][name] for name in same]
    launched = simulate(source, "k", 1, 32, [-np.ones(64, np.float32), 32], defines={"CHECK": "assert", "FENCE": ""})
    assert "assertion failed" in launched.fault.message


@pytest.mark.parametrize("together", [True, False])
def test_blocks_meet_at_the_barrier_of_the_grid(together):
    source = """
    #include <cooperative_groups.h>
    __global__ void k(int *x, int *sums)
    {
        auto grid = cooperative_groups::this_grid();
        for (int round = 0; round < 2; round++) {
            sums[grid.thread_rank()] = x[grid.thread_rank()] + 1;
            MEET;
            x[grid.thread_rank()] = sums[grid.size() - 1 - grid.thread_rank()];
            MEET;
        }
    }"""
    x, sums = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    meet = {"MEET": "grid.sync()" if together else "(void)0"}
    launched = simulate(source, "k", 4, 32, [x, sums], defines=meet, device=Simulator(Setting(block_limit=1)))
    assert launched.fault is None
    kinds = {finding.kind for finding in launched.findings}
    if together:
        assert kinds == set()
        assert x.tolist() == list(range(2, 130))
    else:
        assert "block_order" in kinds
