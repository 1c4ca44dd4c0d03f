"""Unwritten values that are copied before they decide anything: structs with padding or bit-fields, as ``-G`` copies
them, and cooperative groups, which are made of such structs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checks.disassembly import Groups, folder_of_session
from gemm_lessons import engine

X, Y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
HEAD = """struct Bits { unsigned kind : 8, rank : 24; int pad; };
__device__ __noinline__ Bits make(int i) { Bits b; b.rank = i; return b; }
extern "C" __global__ void k(const int *x, int *y) {
    const int t = threadIdx.x, odd = x[t] & 1;
    """
SHARED = "__shared__ Bits s[32]; Bits b; b.rank = x[t]; s[t] = b;"
FOUR = "int b[4]; b[odd] = 1;"
SHORT = "short b[4], c[4]; b[odd] = 1; for (int i = 0; i < 4; i++) c[i] = b[i];"
# body -> whether an unwritten value decides something: without optimisation, and with it (None: its code has no load)
COPIES = {
    "Bits b = make(x[t]), c = b; y[t] = c.rank;": (False, False),
    "Bits b = make(x[t]), c = b; y[t] = c.kind;": (True, None),
    "Bits b = make(x[t]), c = b; if (c.pad > 3) y[t] = 1;": (True, None),
    f"{SHARED} __syncthreads(); Bits c = s[31 - t]; y[t] = c.rank;": (False, False),
    f"{SHARED} __syncthreads(); Bits c = s[31 - t]; y[t] = c.rank + c.pad;": (True, True),
    f"{SHARED} s[t].pad = s[t].kind = 1; __syncthreads(); Bits c = s[31 - t]; y[t] = c.kind + c.pad;": (False, False),
    # The bytes that are written have the value by which a second run knows unwritten ones.
    f"{SHARED} s[t].rank = 0xE5E5E5; __syncthreads(); Bits c = s[31 - t]; y[t] = c.rank;": (False, False),
    f"{SHORT} y[t] = c[odd];": (False, False),
    f"{SHORT} y[t] = c[2 + odd];": (True, None),
    f"__shared__ int s[32]; {FOUR} s[t] = b[2]; __syncthreads(); atomicAdd(&s[t], 1); y[t] = 4;": (True, True),
    f"__shared__ int s[32]; {FOUR} s[t] = b[2]; s[t] = 3; __syncthreads(); y[t] = atomicAdd(&s[t], 1);": (False, False),
}  # fmt: skip


def copying(body, optimised):
    """A kernel with this body."""
    return engine.compile(HEAD + body + "}", "k", options=[] if optimised else ["-G"])


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    """The kernels of ``COPIES``, with and without optimisation."""
    kernels = {f"{optimised} {body}": (body, optimised) for body in COPIES for optimised in (False, True)}
    names = [name for name, (body, optimised) in kernels.items() if COPIES[body][optimised] is not None]
    place = folder_of_session(tmp_path_factory, "copied_values")
    return Groups(place, names, lambda name: [copying(*kernels[name])._compiled])


@pytest.mark.parametrize("body", COPIES)
@pytest.mark.parametrize("optimised", [False, True])
def test_a_copy_is_no_use(body, optimised, groups):
    decides = COPIES[body][optimised]
    if decides is None:
        pytest.skip("the compiler leaves the load out")
    groups.need(f"{optimised} {body}")
    kernel = copying(body, optimised)
    launched = kernel.launch(1, 32, [X.copy(), Y.copy()])
    assert launched.fault is None
    assert [(it.kind, it.line) for it in launched.findings] == [("uninitialised", it.line) for it in launched.findings]
    assert bool(launched.findings) == decides


# A struct of bit-fields that a function returns and another takes. Its last two bytes are padding.
PASSED = """struct Mixed { int low : 4, middle : 20; unsigned char flag : 1, mode : 3; short last; };
__device__ __noinline__ Mixed make(int i) {
    Mixed m; m.low = i; m.middle = i - 8; m.flag = i; m.mode = i % 5; short last = 2; LAST; m.last = last; return m; }
__device__ __noinline__ int use(Mixed m) { return m.low + m.middle * 5 + m.flag + m.mode USED; }
extern "C" __global__ void k(int *y) { y[threadIdx.x] = use(make(threadIdx.x)); }"""


@pytest.mark.parametrize(("written", "used", "told"), [(True, True, False), (False, False, False), (False, True, True)])
def test_a_struct_passed_by_value_is_no_use(written, used, told):
    names = {"LAST": "" if written else 'asm("" : "=h"(last))', "USED": "+ m.last" if used else ""}
    launched = engine.compile(PASSED, "k", defines=names).launch(1, 8, [y := np.zeros(8, np.int32)])
    i = np.arange(8)
    assert told or (y == i + 5 * (i - 8) + i % 2 + i % 5 + 2 * used).all()
    assert [(it.kind, it.line) for it in launched.findings] == [("unset", 4)] * told


GROUPS = (Path(__file__).parent / "sources" / "cooperative_groups.cu").read_text()
INPUT = np.random.default_rng(0).integers(0, 255, 512).astype(np.int32)


def _ranks(labels: np.ndarray) -> np.ndarray:
    """100 * size + rank of each thread in the group of its warp that has its label."""
    rows = labels.reshape(-1, 32)
    same = rows[:, :, None] == rows[:, None, :]
    return (100 * same.sum(2) + np.tril(same, -1).sum(2)).reshape(-1)


WANTED = {
    "block_sum": INPUT.reshape(2, 256).sum(1),
    "coalesced": np.where(INPUT[:256] % 3, 0, _ranks(INPUT[:256] % 3 == 0)),
    "labelled": _ranks(INPUT[:256] % 4),
    "whole_grid": np.arange(512)[::-1],
    "large_tiles": INPUT[:256].reshape(2, 128).sum(1).repeat(128),
}  # fmt: skip


@pytest.mark.parametrize("options", [(), ("-G",)], ids=["optimised", "as written"])
@pytest.mark.parametrize("name", WANTED)
def test_cooperative_groups_are_right(name, options):
    wanted = WANTED[name]
    grid = 1 if wanted.size == 256 else 2
    y = np.zeros(wanted.size, np.int32)
    kernel = engine.compile(GROUPS, name, options=options, defines={"SYNC": "block.sync()"})
    launched = kernel.launch(grid, 256, [INPUT.copy(), y])
    assert launched.fault is None
    assert (y == wanted).all()
    assert not [it for it in launched.findings if it.severity != "note"]


@pytest.mark.parametrize("options", [(), ("-G",)], ids=["optimised", "as written"])
def test_a_group_that_does_not_wait_races(options):
    kernel = engine.compile(GROUPS, "block_sum", options=options, defines={"SYNC": "warp.sync()"})
    launched = kernel.launch(2, 256, [INPUT.copy(), np.zeros(2, np.int32)])
    assert {"race", "uninitialised"} & {it.kind for it in launched.findings}
