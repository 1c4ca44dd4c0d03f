"""Special registers: one table for both engines; values that only a GPU decides are marked as guesses."""

from __future__ import annotations

import numpy as np
import pytest

from gemm_lessons.engine.machine import special
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.ptx import records as ptx
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.sass.lanes import UNKNOWN, Geometry, launch_constants

TOGETHER = True

GRID = Grid((7, 3, 2), (9, 4, 2), 640)
CLUSTERS = Grid((8, 3, 2), (9, 4, 2), 640, (2, 3, 1))
STORES = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"


def state(target: str = "sm_90", shared: int = 1000, grid: Grid = GRID) -> State:
    kernel = ptx.Kernel("k", (), (), {}, {}, (), target)
    made = State(kernel, grid, 5, shared, 0, {})
    made.begin(special.cluster_order(grid)[20:25].tolist(), 0, 20)
    return made


@pytest.mark.parametrize("grid", [GRID, CLUSTERS], ids=["plain", "clusters"])
@pytest.mark.parametrize("name", special.NAMES)
def test_both_engines_read_the_same_register(name, grid):
    made = state(grid=grid)
    lanes = np.broadcast_to(Geometry(grid, 20, 5).special(name), (made.lanes,))
    assert np.array_equal(lanes, np.broadcast_to(made.special[special.NAMES[name]], (made.lanes,)))


@pytest.mark.parametrize("grid", [GRID, CLUSTERS], ids=["plain", "clusters"])
@pytest.mark.parametrize("name", special.NAMES)
def test_blocks_that_are_not_neighbours_read_each_their_own(name, grid):
    both, *alone = (Geometry(grid, 5, 2, chosen=(5, 17)), Geometry(grid, 5, 1), Geometry(grid, 17, 1))
    found, *expected = (np.broadcast_to(it.special(name), (it.lanes,)) for it in (both, *alone))
    assert found.tolist() == np.concatenate(expected).tolist()


@pytest.mark.parametrize("grid", [GRID, CLUSTERS], ids=["plain", "clusters"])
@pytest.mark.parametrize("name", [*special.PLACES, *special.PLACES_90])
def test_both_engines_read_the_same_constant(name, grid):
    place = {**special.PLACES, **special.PLACES_90}[name]
    banks = launch_constants(grid, 0x210, bytes(16), "sm_90")
    assert int.from_bytes(banks[0][place : place + 4], "little") == int(state(grid=grid).special[name])
    assert not any(banks[UNKNOWN][place : place + 4])
    assert any(banks[UNKNOWN][0x30:0x38])  # %gridid


@pytest.mark.parametrize("name", special.PLACES_100)
def test_constants_of_compute_capability_10(name):
    place = special.PLACES_100[name]
    banks = launch_constants(GRID, 0x380, bytes(16), "sm_120")
    assert int.from_bytes(banks[0][place : place + 4], "little") == int(state().special[name])
    assert not any(banks[UNKNOWN][place : place + 4])
    assert any(banks[UNKNOWN][:0x28])


def test_shared_memory_is_handed_out_in_units():
    assert int(state(shared=1000).special["%total_smem_size"]) == 1024
    assert int(state("sm_75", 1000).special["%total_smem_size"]) == 1024
    assert int(state(shared=1025).special["%total_smem_size"]) == 1152
    assert int(state("sm_75", 1025).special["%total_smem_size"]) == 1280


READS = {  # register -> its value for thread t of block b of 8 blocks of 48 threads; whether a GPU decides it
    "%lanemask_lt": (lambda b, t: (1 << t % 32) - 1, False),
    "%lanemask_ge": (lambda b, t: (0xFFFFFFFF << t % 32) & 0xFFFFFFFF, False),
    "%smid": (lambda b, t: b, True),
    "%nsmid": (lambda b, t: 132, True),
    "%warpid": (lambda b, t: t // 32, True),
    "%nwarpid": (lambda b, t: 64, True),
    "%dynamic_smem_size": (lambda b, t: 192, False),
    "%total_smem_size": (lambda b, t: 256, False),
    "%nclusterid.x": (lambda b, t: 8, False),
    "%clusterid.x": (lambda b, t: b, False),
    "%cluster_ctarank": (lambda b, t: 0, False),
    "%cluster_nctarank": (lambda b, t: 1, False),
}


# All of them in one program: to compile and to disassemble it takes as long as one of them alone.
READERS = "extern __shared__ int s[];" + "".join(
    f"""extern "C" __global__ void k{number}(unsigned *o, int *p) {{
        unsigned v; asm volatile("mov.u32 %0, %{name};" : "=r"(v)); const int i = blockIdx.x * 48 + threadIdx.x;
        o[i] = v; s[threadIdx.x] = v; p[(v * 37 + threadIdx.x * (v & 7)) & 1023] = s[threadIdx.x]; }}"""
    for number, name in enumerate(READS)
)


@pytest.mark.counted
@pytest.mark.parametrize("name", READS)
def test_a_register_that_decides_addresses_is_the_same_in_both_engines(run, name):
    """Counters of the machine code are those of the values that PTX gave; or they are marked."""
    value, guessed = READS[name]
    out, places = np.zeros(8 * 48, np.uint32), np.zeros(1024, np.int32)
    launched = run(READERS, 8, 48, [out, places], f"k{[*READS].index(name)}", dynamic_shared=192)
    expected = [value(i // 48, i % 48) for i in range(8 * 48)]
    assert out.tolist() == expected
    assert [f.kind for f in launched.findings if f.severity == "note" and f.kind == "guessed"] == ["guessed"] * guessed
    sectors = 0
    for block in range(8):
        for first in (0, 32):
            lanes = [block * 48 + t for t in range(first, min(first + 32, 48))]
            sectors += len({lane // 8 for lane in lanes})
            sectors += len({(expected[i] * 37 + i % 48 * (expected[i] & 7) & 1023) // 8 for i in lanes})
    assert launched.counters.totals[STORES] == sectors
    unknown = ("%warpid", "%nwarpid", "%total_smem_size", "%nclusterid.x", "%clusterid.x", "%cluster_nctarank")
    assert STORES not in launched.counters.inexact or name in unknown


def test_clocks_count_instructions(run):
    source = """extern "C" __global__ void k(long long *o, int n) { const long long start = clock64();
        int spins = 0; while (clock64() - start < n) spins++; o[0] = spins; o[1] = clock64() - start;
        unsigned lo, hi; unsigned long long now; asm volatile("mov.u32 %0, %%clock_hi;" : "=r"(hi));
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); asm volatile("mov.u32 %0, %%clock;" : "=r"(lo));
        o[2] = hi; o[3] = now >= o[1] && lo >= now; }"""
    out = np.zeros(4, np.int64)
    launched = run(source, 1, 1, [out, 1000])
    assert 1 < out[0] < 1000 <= out[1] < 2000
    assert out[2:].tolist() == [0, 1]
    assert [f.kind for f in launched.findings] == ["clock"]


def test_a_clock_goes_on_between_two_reads(run):
    source = """extern "C" __global__ void k(long long *o) { const long long start = clock64();
        const unsigned early = clock(); o[1] = clock64() - start; o[0] = clock() - early; }"""
    out = np.zeros(2, np.int64)
    run(source, 1, 1, [out])
    assert (out > 0).all()


def test_a_clock_never_goes_back(run):
    """Loops that may wait get their instructions in parts."""
    source = """extern "C" __global__ void k(volatile int *flag, int *back) {
        long long last = clock64();
        for (int i = 0; i < 2000 && !*flag; i++) {
            const long long now = clock64(); *back += now <= last; last = now; } }"""
    flag, back = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(source, 1, 1, [flag, back])
    assert back[0] == 0


def test_a_clock_gives_a_variable_its_value(run):
    source = """extern "C" __global__ void k(long long *o) { long long now;
        asm volatile("{ .reg .u64 t, nothing; mov.u64 t, nothing; mov.u64 t, %%clock64; mov.u64 %0, t; }" : "=l"(now));
        if (now >= 0) o[threadIdx.x] = 7; }"""
    out = np.zeros(32, np.int64)
    assert [f.kind for f in run(source, 1, 32, [out]).findings] == ["clock"]
    assert (out == 7).all()


@pytest.mark.counted
@pytest.mark.parametrize("asked", ["__cluster_dims__", "the launch"])
def test_clusters_number_their_blocks(run, asked):
    """Rank within the cluster is x first, then y (PTX ISA, %cluster_ctarank)."""
    names = (
        "cluster_ctarank cluster_nctarank cluster_ctaid.x cluster_ctaid.y clusterid.x clusterid.y nclusterid.x".split()
    )
    reads = " ".join(f'asm("mov.u32 %0, %{name};" : "=r"(r[{i}]));' for i, name in enumerate(names))
    words = "__cluster_dims__(2, 3, 1)" if asked == "__cluster_dims__" else ""
    source = f"""extern "C" __global__ void {words} k(unsigned *o, unsigned *p) {{ unsigned r[{len(names)}]; {reads}
        __shared__ unsigned s[32]; s[threadIdx.x] = r[0]; __syncthreads();
        const int block = blockIdx.y * gridDim.x + blockIdx.x; p[32 * block + threadIdx.x] = s[31 - threadIdx.x];
        if (threadIdx.x == 0) for (int i = 0; i < {len(names)}; i++) o[block * {len(names)} + i] = r[i]; }}"""
    out, ranks = np.zeros((6, 4, len(names)), np.uint32), np.zeros((6, 4, 32), np.uint32)
    launched = run(source, (4, 6), 32, [out, ranks], cluster=(2, 3) if asked == "the launch" else None)
    for y in range(6):
        for x in range(4):
            assert out[y, x].tolist() == [y % 3 * 2 + x % 2, 6, x % 2, y % 3, x // 2, y // 3, 2]
            assert set(ranks[y, x].tolist()) == {y % 3 * 2 + x % 2}
    assert not launched.findings
    assert launched.counters.totals["memory_l1_wavefronts_shared"] == 6 * 4 * 2
