"""``kernel.estimate``: by hand where a launch is simple, beside the model of matrix products, refused by the reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.course.kernel import Kernel
from checks.estimate.matrices import QUEUED_US
from checks.estimate.test_timeline import FREE, Line, ffma, trace
from checks.readings.estimate.adds import PLACES
from checks.simulator.phase_cases import PIPELINE
from gemm_lessons import engine
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.estimate import launch as estimating
from gemm_lessons.engine.estimate import timeline
from gemm_lessons.engine.estimate.chip import BETWEEN_US, LAUNCH_US
from gemm_lessons.engine.estimate.launch import BLOCK_US, PreparedLaunch, estimate_launch
from gemm_lessons.engine.estimate.timeline import play
from gemm_lessons.engine.estimate.traffic import BOTH, FLOATS, READS, WRITES
from gemm_lessons.engine.hardware.sheets import GPUS, pipes_of
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gemm.time_model import Estimator
from gemm_lessons.running.estimating import estimator_of

TOGETHER = True
pytestmark = pytest.mark.usefixtures("together")

H200 = GPUS["h200"]
READINGS = Path(__file__).parents[1] / "readings" / "estimate"
HEAD = 'extern "C" __global__ void k(const float *x, float *y, int n) { const int t = threadIdx.x; '
ADD = HEAD + "const int i = blockIdx.x * blockDim.x + t; if (i < n) y[i] += x[i]; }"


def arrays(n: int = 256) -> list[Any]:
    return [np.ones(n, np.float32), np.zeros(n, np.float32), n]


def test_memory_limits_an_addition_by_hand() -> None:
    """Three floats for each element: two are read, one is written, by far more than L2 holds."""
    n = 1 << 24
    x, y, _ = arrays(n)
    found = engine.compile(ADD, "k").estimate(n // 1024, 1024, [x, y, n])
    rate = READS - (READS - BOTH) * 2 / 3
    dram = 3 * 4 * n / (rate * H200.dram_bytes_per_s / 1e6)
    assert found.parts["dram"] == pytest.approx(dram, rel=0.001)
    assert found.time_us == pytest.approx(LAUNCH_US + max(dram, found.parts["latency"]), rel=0.001)
    assert (found.gpu, found.blocks_per_sm) == ("H200", 2)
    assert found.waves == -(-n // 1024 // 132) // 2 + 1
    assert not y.any(), "nothing is written"


def test_what_l2_holds_comes_from_there() -> None:
    """Launches repeat: the one before left 32 MiB in L2, but not 128."""
    kernel = engine.compile(ADD, "k")
    few, many = (kernel.estimate(n // 1024, 1024, arrays(n)) for n in (1 << 22, 1 << 24))
    assert few.parts["dram"] == 0 < many.parts["dram"]
    longer = (2 + 1.73) * 4 * (1 << 22)  # a store takes L2 longer than a load; a line's address half a clock
    assert few.parts["l2"] == pytest.approx(longer / (H200.l2_bytes_per_s / 1e6), rel=0.1)
    assert many.time_us - LAUNCH_US > 5 * (few.time_us - LAUNCH_US)


def test_bytes_count_once_and_only_where_they_are_touched() -> None:
    table = HEAD + "y[blockIdx.x * blockDim.x + t] = x[t]; }"
    (x, _, _), (_, y, n) = arrays(), arrays(1 << 24)
    found = engine.compile(table, "k").estimate(n // 256, 256, [x, y, n])
    assert found.parts["dram"] == pytest.approx(4 * n / (WRITES * 4.8e6), rel=0.001), "all blocks read the same"
    found = engine.compile(table, "k").estimate(2, 256, [np.ones(1 << 24, np.float32), y, n])
    assert found.parts["dram"] == 0, "two blocks touch little of large arrays"


def test_l1_holds_what_shared_memory_leaves() -> None:
    """A block reads its part of x twice: 128 KiB are in L1 the second time, 512 are not."""
    source = (
        HEAD
        + """float sum = 0; for (int again = 0; again < 2; again++)
        for (int i = t; i < n; i += 1024) sum += x[i]; y[t] = sum; }"""
    )
    kernel = engine.compile(source, "k")
    rates = []
    for kib, shared in ((128, 0), (512, 0), (128, 200_000)):
        n = kib * 256
        found = kernel.estimate(1, 1024, [np.ones(n, np.float32), *arrays(1024)[1:2], n], dynamic_shared=shared)
        rates.append(found.parts["l2"] / n)
    assert rates[1] == pytest.approx(2 * rates[0], rel=0.1)
    assert rates[2] > 1.5 * rates[0]


def test_atomics_wait_where_they_meet() -> None:
    source = HEAD + "if (t % 32 == 0) atomicAdd(y + WHERE, x[t]); }"
    given = [*arrays()[:1], *arrays(1 << 20)[1:]]
    one, own = (
        engine.compile(source, "k", defines={"WHERE": where}).estimate(4096, 256, given)
        for where in ("0", "blockIdx.x * 256 + t")
    )
    by_hand = 4096 * 8 * FLOATS / (H200.clock_hz / 1e6)
    assert one.parts["latency"] == pytest.approx(by_hand, rel=0.1)
    assert own.parts["latency"] < by_hand / 10


def test_blocks_begin_one_after_the_other() -> None:
    found = engine.compile(HEAD + "if (t == 0) y[blockIdx.x] = 1; }", "k").estimate(1 << 20, 32, arrays(1 << 20))
    assert found.limiter == "launch"
    assert found.time_us == pytest.approx(LAUNCH_US + BLOCK_US * (1 << 20))


def test_the_average_block_counts() -> None:
    """Blocks whose work grows with their number take half as long as if all had the work of the last one."""
    source = HEAD + "float s = t; for (int i = 0; i < ROUNDS; i++) s = s * s + n; y[blockIdx.x * 256 + t] = s; }"
    growing, full = (
        engine.compile(source, "k", defines={"ROUNDS": rounds}).estimate(4096, 256, [*arrays(1 << 20)[:2], 4096])
        for rounds in ("blockIdx.x", "n")
    )
    assert growing.parts["latency"] == pytest.approx(full.parts["latency"] / 2, rel=0.06)


def test_a_long_loop_is_cut_and_takes_what_it_takes_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = "s[t] = x[i]; __syncthreads(); sum += s[255 - t]; __syncthreads();"
    source = HEAD + f"__shared__ float s[256]; float sum = 0; for (int i = 0; i < n; i++) {{ {loop} }} y[t] = sum; }}"
    kernel = engine.compile(source, "k")
    found = []
    for most, longest in ((4000, 4000), (100_000, estimating.LONGEST)):  # so many instructions are refused uncut
        monkeypatch.setattr(estimating, "CUT", most)
        monkeypatch.setattr(estimating, "LONGEST", longest)
        found.append(kernel.estimate(132, 256, arrays(500)).parts)
    cut, full = found
    assert cut == {name: pytest.approx(us, rel=0.02, abs=0.01) for name, us in full.items()}
    monkeypatch.undo()
    n = 1 << 20
    assert kernel.estimate(132, 256, arrays(n)).parts["latency"] == pytest.approx(full["latency"] * n / 500, rel=0.1)


def test_it_says_that_it_is_an_estimate() -> None:
    found = engine.compile(ADD, "k").estimate(1, 256, arrays())
    assert repr(found).startswith("<estimate, not measured: ")
    assert repr(found).endswith(f"limited by {found.limiter}>")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (ADD, "starting it and its blocks takes longest"),
        (HEAD + "float s = t; for (int i = 0; i < n; i++) s = s * s + n; y[t] = s; }", "no unit is busy"),
        (
            HEAD + "float a = t, b = n, c = 2, d = 3; for (int i = 0; i < n; i++) {"
            " a = a * a + b; b = b * b + c; c = c * c + d; d = d * d + a; } y[t] = a + b + c + d; }",
            "schedulers issue instructions: they are busy for 1",
        ),
    ],
)
def test_the_limit_has_a_reason(source: str, says: str) -> None:
    found = engine.compile(source, "k").estimate(
        264, 1024 if "float a" in source else 32, [*arrays(1 << 16)[:2], 50000]
    )
    assert says in found.why


def test_another_gpu_gets_machine_code_of_its_own() -> None:
    kernel = engine.compile(ADD, "k")
    times = {gpu: kernel.estimate(4096, 256, arrays(1 << 20), gpu=gpu).time_us for gpu in ("h200", "a100", "t4")}
    assert times["h200"] < times["a100"] < times["t4"]
    assert kernel.arch == "sm_90"
    slow = replace(H200, name="slow", l2_bytes=H200.l2_bytes // 50)
    assert kernel.estimate(4096, 256, arrays(1 << 20), gpu=slow).time_us > times["h200"]
    with pytest.raises(KeyError, match="no data sheet for GPU 'abacus'"):
        kernel.estimate(1, 256, arrays(), gpu="abacus")


def test_values_that_decide_a_loop_are_followed() -> None:
    source = (
        "__device__ int rounds = 10;" + HEAD + "float s = 0; for (int i = 0; i < rounds; i++) s += x[i]; y[t] = s; }"
    )
    kernel = engine.compile(source, "k")
    few = kernel.estimate(132, 256, arrays(1024))
    many = kernel.estimate(132, 256, arrays(1024), symbols={"rounds": 1000})
    assert many.parts["latency"] > 10 * few.parts["latency"]


def test_warps_that_have_ended_count_as_arrived() -> None:
    early = HEAD + "__shared__ float s[64]; if (t >= 64) return; s[t] = x[t]; __syncthreads(); y[t] = s[63 - t]; }"
    assert engine.compile(early, "k").estimate(1, 256, arrays()).parts["latency"] < 1


def test_a_barrier_opens_when_the_last_other_warp_ends() -> None:
    """Two warps wait, and one still multiplies: by hand, in the timeline."""
    barrier: Line = ("BAR.SYNC.DEFER_BLOCKING 0x0", FREE, None)
    of = trace([barrier, *ffma(1000, stall=4), ("EXIT", FREE, None)], warps=3)
    through, alone = of.warps[0], tuple(step for step in of.warps[0] if step[0])
    mixed = replace(of, warps=(through, through, alone))
    played = play(mixed, 1, H200, ended_arrive=True)
    assert played.clocks == pytest.approx(2 * 4000, rel=0.02)


REFUSED = {
    "PTX": (None, "PTX comes without machine code"),
    "rates": (
        HEAD + "__shared__ alignas(16) float s[64]; asm volatile(\"cp.async.bulk.global.shared::cta.bulk_group [%0],"
        ' [%1], 256;" :: "l"(y), "r"((unsigned)__cvta_generic_to_shared(s)) : "memory"); }',
        "the model has no rates of U",
    ),
    "loops": (HEAD + "while (atomicAdd(y, 0.0f) == 0 && n < 0) ; y[t] = 1; }", "wait"),
    "barriers": (HEAD + 'if (t < 32) asm volatile("bar.sync 1, 64;"); y[t] = 1; }', "too few warps reach"),
    "addresses": (
        HEAD + "__shared__ float s[32]; s[t & 31] = t; const float *p = n ? s : x; y[(int)p[t & 31] & 31] = 1; }",
        "its machine code cannot be followed: ",
    ),
    "launches": (HEAD + "y[t] = 1; }", "a GPU refuses this launch: 2,048 threads along x"),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_what_the_model_does_not_know_is_refused_by_its_reason(reason: str) -> None:
    source, says = REFUSED[reason]
    kernel = engine.compile(source or must_compile(ADD).ptx, "k")
    with pytest.raises(engine.NotEstimated, match=says):
        kernel.estimate(2, 2048 if reason == "launches" else 256, arrays())


STORED_BEFORE = HEAD + "y[t] = x[t] + 1; __syncthreads(); float v = y[255 - t]; "


def test_a_division_of_what_the_kernel_stored_takes_its_fast_path() -> None:
    found, without = (
        engine.compile(STORED_BEFORE + last, "k").estimate(264, 256, arrays())
        for last in ("y[t] = v / x[t]; }", "y[t] = v * x[t]; }")
    )
    assert without.parts["latency"] < found.parts["latency"] < without.parts["latency"] + 0.3


def test_an_address_that_the_kernel_stored_is_refused_beside_a_division() -> None:
    kernel = engine.compile(STORED_BEFORE + "y[(int)v & 63] = v / x[t]; }", "k")
    with pytest.raises(engine.NotEstimated, match="data that the kernel itself stored"):
        kernel.estimate(2, 256, arrays())


def test_what_a_thread_has_itself_stored_may_decide() -> None:
    """As in attentions that keep a running sum in global memory and divide by it."""
    source = HEAD + "volatile float *v = y; for (int i = 0; i < n; i++) v[t] = 1.0f / (v[t] + x[t]); }"
    assert engine.compile(source, "k").estimate(1, 32, [*arrays(64)[:2], 8]).time_us > LAUNCH_US


def test_what_l1_returns_to_all_lanes_takes_as_long_as_its_registers() -> None:
    source = (
        HEAD
        + """float sum = 0; for (int i = 0; i < n; i++) {
        float4 v = *(const float4 *)&x[(i * 128 + AT) & 2047]; sum += v.x + v.y + v.z + v.w; } y[t] = sum; }"""
    )
    x, y, _ = arrays(4096)
    same, own = (
        engine.compile(source, "k", defines={"AT": at}).estimate(132, 256, [x, y, 400]).parts["l1"]
        for at in ("0", "4 * (t & 31)")
    )
    assert same == pytest.approx(own * 2.2 / 4, rel=0.1)


READ = json.loads((READINGS / "traffic_h200.json").read_text())["us"]
ROWS = {label: us for label, us in READ.items() if label.startswith("row_") and "528" not in label}


def half_of(labels: Iterable[str]) -> list[Any]:
    """Readings of one rule, the first and the last of each four; the others with the long tests."""
    return [pytest.param(it, marks=[pytest.mark.long] * (number % 4 in (1, 2))) for number, it in enumerate(labels)]


@pytest.mark.parametrize("label", half_of(ROWS))
def test_threads_that_own_rows(label: str) -> None:
    """Their loads meet in L1's banks unless the rows are padded, and wait for stores of parts of sectors."""
    name, *numbers = re.findall(r"row_\w+|\d+", label)
    floats, blocks, threads = map(int, numbers)
    kernel = engine.compile((READINGS / "traffic.cu").read_text(), name)
    own = np.zeros(blocks * threads * floats, np.float32)
    x, y = (own, own[:8]) if name == "row_loads" else (own[:512], own.copy())
    assert kernel.estimate(blocks, threads, [floats, x, y]).time_us == pytest.approx(ROWS[label], rel=0.2)


FEW = json.loads((READINGS / "few_h200.json").read_text())["read"]
ACCESSES = {"store16": ("float4", 1, 16), "store 4 of 128": ("float", 1, 128), "red 4 of 32": ("int", 2, 32)}


def few(kernel: str) -> engine.CompiledKernel:
    return engine.compile((READINGS / "few.cu").read_text().partition("char *data;")[0], kernel)


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("store16", 8),
        *(("store 4 of 128", blocks) for blocks in (1, 48, 132)),
        *(("red 4 of 32", it) for it in (1, 48)),
    ],
)
def test_few_multiprocessors_share_l2(name: str, blocks: int) -> None:
    """Each has its own port to L2; where more work, they have less than that."""
    kind, effect, stride = ACCESSES[name]
    turns, own = max(32, (1 << 21) // (32 * stride * 32)), 256 << 10
    data, took = np.zeros(blocks * own, np.int8), np.zeros(132, np.int64)
    estimate = few(f"few<{kind}, {effect}, {stride}>").estimate(
        blocks, 1024, [data, took, own, own, turns], dynamic_shared=160 << 10
    )
    clocks = estimate.parts["latency"] * H200.clock_hz / 1e6 / turns / 32
    assert clocks == pytest.approx(FEW[f"{name}, L2, {blocks} blocks"], rel=0.2)


@pytest.mark.parametrize(("size", "blocks"), [(24, 12), (36, 12), (16, 2)])
def test_few_blocks_have_one_side_of_l2(size: int, blocks: int) -> None:
    pitch = 256 * blocks
    count = (size << 18) // pitch
    data, sums = np.zeros(count * pitch, np.float32), np.zeros(pitch, np.float32)
    us = few("rows").estimate(blocks, 256, [data, count, pitch, sums]).time_us - LAUNCH_US
    assert us == pytest.approx(FEW[f"rows, {size} MB, {blocks} blocks"] * count / 1e3, rel=0.25)


SCATTERED = json.loads((READINGS / "scatter_h200.json").read_text())["us"]
WAYS = {"back": ("BACK", 1), "part": ("PART", 4), "near": ("NEAR", 4), "read": ("READ", 1), "copy": ("COPY", 1)}


@pytest.mark.parametrize("label", [f"{way} 8, {size} MB" for way in WAYS for size in (32, 64)])
def test_dram_completes_scattered_sectors(label: str) -> None:
    """Where L2 lets sectors go before all of them is stored, DRAM reads the rest, and a place of its own for each."""
    way, size = label.partition(" ")[0], int(label.split()[2])
    source = (READINGS / "scatter.cu").read_text().partition("char *to")[0]
    name, each = WAYS[way]
    count = (size << 20) // 8 // each
    out, given = (np.zeros(size << 17, np.dtype("f4,f4")) for _ in range(2))
    kernel = engine.compile(source, f"go<float2, {name}>")
    us = kernel.estimate(count // 256, 256, [out, given, count.bit_length() - 1]).time_us - LAUNCH_US
    assert us + BETWEEN_US == pytest.approx(SCATTERED[label], rel=0.3)


ADDS = json.loads((READINGS / "adds_h200.json").read_text())["us"]


@pytest.mark.parametrize("label", half_of(label for label in ADDS if re.search(r" (1 x \d+|4 x 32)$", label)))
def test_atomics_meet_in_slices_and_sectors(label: str) -> None:
    """A round for each lane at one address, and a sum of floats in a sector waits for the one before."""
    kind, *middle, of = label.split(", ")
    lines, step = map(int, of.split(" x "))
    kernel = engine.compile((READINGS / "adds.cu").read_text(), kind)
    sums = np.zeros(lines * step, np.int32 if kind == "integers" else np.float32)
    places = np.array(PLACES[", ".join(middle)], np.int32)
    found = kernel.estimate(1024, 512, [lines, step, places, sums])
    assert found.time_us == pytest.approx(ADDS[label], rel=0.3)


HALVES = """#include <cuda_fp16.h>
__global__ void sums(half2 *out, const half2 *in) {{
    {array}
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {to}[i % 32] = in[0];
    __syncthreads();
    atomicAdd(&{to}[i % 32], in[i]);
    out[100 + i] = in[i];
}}"""


def test_atomics_of_two_halves_are_followed_where_all_addresses_are_global() -> None:
    """Machine code asks which memory an address is in; only code that makes a generic shared one can pass one."""
    x, out = np.ones((256, 2), np.float16), np.zeros((400, 2), np.float16)
    of_global = engine.compile(HALVES.format(array="", to="out"), "sums")
    assert not of_global.launch(8, 32, [out, x]).counters.obstacle
    assert of_global.estimate(8, 32, [out, x]).time_us < 10
    of_shared = engine.compile(HALVES.format(array="__shared__ half2 s[32];", to="s"), "sums")
    assert "LD.E" in of_shared.launch(8, 32, [out, x]).counters.obstacle


ROW_SUMS = """extern "C" __global__ void row_sums(const float *x, float *sums, int columns) {
    atomicAdd(&sums[blockIdx.y], x[(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x]);
}"""


def test_blocks_meet_at_the_rows_that_they_share() -> None:
    """Neighbours add to one row, blocks far away to another one: not all of a launch meet where its traced ones do."""
    kernel = engine.compile(ROW_SUMS, "row_sums")
    us = []
    for rows in (1, 32, 1024):  # as many blocks, and sums in 1, 4 and 128 sectors
        grid = 4096 // rows if rows < 1024 else 4, rows
        us.append(kernel.estimate(grid, 128, [np.zeros(4096 * 128, np.float32), np.zeros(rows, np.float32), 1]).time_us)
    assert us[0] > 2 * us[1] > 8 * us[2]


TRIANGLE = """extern "C" __global__ void triangle(const float *x, float *y, int least) {
    float sum = 0;
    for (int i = 0; i < 64 * max(blockIdx.x, least); ++i)
        sum += x[i];
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}"""


def test_one_wave_takes_as_long_as_its_longest_block() -> None:
    kernel = engine.compile(TRIANGLE, "triangle")
    x, y = np.zeros(64 * 64, np.float32), np.zeros(64 * 64, np.float32)
    growing, equal = (kernel.estimate(64, 64, [x, y, least]).parts["latency"] for least in (0, 63))
    assert growing == pytest.approx(equal, rel=0.05)


@pytest.mark.parametrize(("name", "mib"), [("copies", 24), ("in_place", 40), ("reads", 56), ("quarters", 52)])
def test_what_is_stored_needs_more_of_l2(name: str, mib: int) -> None:
    """Repeated launches that touch about what L2 holds: a part comes from DRAM, more where they store."""
    kernel = engine.compile((READINGS / "traffic.cu").read_text(), name)
    arrays = {"copies": 2, "in_place": 1, "reads": 1, "quarters": 4}[name]
    each = mib * (1 << 20) // (1 if name == "copies" else arrays) // 4
    x, y = np.zeros(3 * each if name == "quarters" else each, np.float32), np.zeros(each, np.float32)
    found = kernel.estimate(264, 1024, [each // 4, x.reshape(-1, 4), y.reshape(-1, 4)])
    hidden = found.time_us - LAUNCH_US + QUEUED_US
    assert hidden == pytest.approx(READ[f"{name}, {mib} MiB"], rel=0.2)


STREAMS = json.loads((READINGS / "streams_h200.json").read_text())["us"]


@pytest.mark.parametrize(("name", "warps"), [("read1", 64), ("read2", 32), ("copy1", 48), ("copy1", 64), ("copy2", 32)])
def test_a_sector_waits_for_those_in_flight_from_dram(name: str, warps: int) -> None:
    """Where one load of each thread is in flight, the latency grows with the load of DRAM, most with stores."""
    kernel = engine.compile((READINGS / "streams.cu").read_text(), name)
    small, blocks = replace(H200, l2_bytes=1 << 20), 132 * warps // 8

    def us(turns: int) -> float:
        x = np.zeros(blocks * 256 * turns * int(name[-1]), np.float32)
        return kernel.estimate(blocks, 256, [turns, x, x.copy()], gpu=small).time_us

    short, long = (STREAMS[f"{name}, {warps} warps, {turns} turns"] for turns in (128, 256))
    assert (us(24) - us(8)) / 16 == pytest.approx((long - short) / 128, rel=0.15)


BURSTS = json.loads((READINGS / "bursts_h200.json").read_text())["sectors"]


@pytest.mark.parametrize(
    "label", [it for it in BURSTS if re.search(r"^[48] .* (32|64) bytes apart, (1|16) warps, gap 0$", it)]
)
def test_l1_sends_stores_to_its_last_lines_together(label: str) -> None:
    """L2 counts half of the sectors twice. Of two stores by 16 warps, an H200 combines less than the model."""
    count, pitch, warps, _ = map(int, re.findall(r"\d+", label))

    def l2(pitch: int, count: int, warps: int) -> float:
        source = "#define clock64() 0LL\n" + (READINGS / "streams.cu").read_text()
        data = np.zeros(warps * 8 * pitch * 8, np.float32)
        found = engine.compile(source, f"burst{count}").estimate(1, 32 * warps, [pitch, 8, 0, data])
        return found.parts["l2"] / (8 * warps * count)

    of_a_sector = l2(32, 8, 16) / 32
    assert l2(pitch, count, warps) / of_a_sector == pytest.approx(BURSTS[label] / 1.5, rel=0.35)


def test_loads_across_two_lines_meet_in_no_bank() -> None:
    source = (
        HEAD
        + "float sum = 0; for (int i = 0; i < n; i++) sum += x[((i * 64) & 2047) + t % 32 * EACH + OFF]; y[t] = sum; }"
    )
    x, y, _ = arrays(8192)

    def l1(each: int, off: int) -> float:
        kernel = engine.compile(source, "k", defines={"EACH": str(each), "OFF": str(off)})
        return kernel.estimate(132, 256, [x, y, 400]).parts["l1"]

    assert l1(1, 3) == pytest.approx(l1(1, 0), rel=0.02)
    assert l1(32, 0) > 1.8 * l1(33, 0) > 6 * l1(1, 0), "32 lanes in a bank, 32 lines in 32 banks, a line"


@pytest.mark.parametrize(("index", "wait"), [("t + i % 2 * 256", False), ("t * 8 + i % 2", True)])
def test_loads_wait_for_stores_of_parts_of_sectors(monkeypatch: pytest.MonkeyPatch, index: str, wait: bool) -> None:
    kernel = engine.compile(HEAD + f"for (int i = 0; i < n; i++) y[{index}] += x[i]; }}", "k")
    arguments = [np.ones(512, np.float32), np.zeros(4096, np.float32), 200]
    before = kernel.estimate(1, 256, arguments).time_us
    monkeypatch.setattr(timeline, "BEHIND", timeline.BEHIND + 1000)
    assert (kernel.estimate(1, 256, arguments).time_us > 2 * before) is wait


def test_a_long_trace_without_a_loop_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = engine.compile(HEAD + f"float s = 0; {'s = s * s + n; ' * 200} y[t] = s; }}", "k")
    assert kernel.estimate(2, 256, arrays())
    monkeypatch.setattr(estimating, "CUT", 1000)
    monkeypatch.setattr(estimating, "LONGEST", 1500)
    with pytest.raises(engine.NotEstimated, match="execute more than 1,500 warp instructions"):
        kernel.estimate(2, 256, arrays())


PAIRS = HEAD.replace("void k", "void __cluster_dims__(2) k") + """
    __shared__ float s[256]; s[t] = x[t];
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    unsigned at = (unsigned)__cvta_generic_to_shared(s + t); float found = 0;
    asm("mapa.shared::cluster.u32 %0, %0, 1;" : "+r"(at));
    for (int i = 0; i < COUNT; i++) {
        float more;
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(more) : "r"(at));
        found += more;
    }
    y[blockIdx.x * blockDim.x + t] = found;
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory"); }"""  # fmt: skip


def test_a_load_from_another_block_of_the_cluster_takes_its_latency() -> None:
    none, one = (engine.compile(PAIRS, "k", defines={"COUNT": n}).estimate(2, 256, arrays(512)) for n in (0, 1))
    clocks = (one.parts["latency"] - none.parts["latency"]) * H200.clock_hz / 1e6
    assert clocks == pytest.approx(pipes_of(H200).remote, rel=0.2)


def test_a_block_that_does_not_fit_is_refused() -> None:
    kernel = engine.compile(
        HEAD + "extern __shared__ float s[]; s[t] = x[t]; __syncthreads(); y[t] = s[255 - t]; }", "k"
    )
    assert kernel.estimate(1, 256, arrays(), gpu="h200", dynamic_shared=150_000).blocks_per_sm == 1
    with pytest.raises(engine.NotEstimated, match="150,000 bytes of shared memory per block"):
        kernel.estimate(1, 256, arrays(), gpu="rtx4090", dynamic_shared=150_000)


SHIFTED = "__shared__ float s[64]; s[t BY] = x[t]; __syncthreads(); y[blockIdx.x * 64 + t] = s[t BY]; }"


@pytest.mark.parametrize(("by", "size", "says"), [
    ("", 64 * 300, ""), ("", 64, "accesses global memory out of bounds; gemm-lessons inspect says where"),
    ("+ 1", 64 * 300, "accesses shared memory out of bounds"),
])  # fmt: skip
def test_a_launch_that_would_fault_has_no_time(by: str, size: int, says: str) -> None:
    """It had one: addresses were turned into sectors and wavefronts, whatever they led to."""
    kernel = engine.compile(HEAD + SHIFTED.replace("BY", by), "k", arch="sm_90")
    arguments = [np.zeros(64, np.float32), np.zeros(size, np.float32), 0]
    if not says:
        assert kernel.estimate(300, 64, arguments).time_us > LAUNCH_US
        return
    with pytest.raises(engine.NotEstimated, match=says):
        kernel.estimate(300, 64, arguments)


def test_mbarriers_are_estimated_or_refused_but_never_hang() -> None:
    kernel = engine.compile(PIPELINE, "k")
    with pytest.raises(engine.NotEstimated):
        kernel.estimate(1, 96, [np.zeros(1024, np.float32), np.zeros(1024, np.float32)])


@pytest.mark.parametrize(
    ("lesson", "size"),
    [("block_tile", 512), ("double_buffer", 512), ("dp4a", 512), ("async_copy", 512),
     *(pytest.param(*it, marks=pytest.mark.slow)
       for it in (("block_tile", 768), ("thread_tile", 512), ("tensor_cores", 512)))],
)  # fmt: skip
def test_matrix_products_take_what_their_own_model_says(
    lesson: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That model extrapolates linearly in K from two short traces; this one simulates the whole launch. It gives few
    blocks more of L2."""
    monkeypatch.setattr(estimating, "with_few", lambda gpu, blocks: gpu)
    shape = Shape(size, size, size)
    found = packaged_course().lesson(lesson).at(shape)
    compiled = Kernel.solution(found).compiled()
    estimator = estimator_of(found, [compiled], H200, shape)
    assert isinstance(estimator, Estimator)
    arguments = Problem(found.data, shape, 1).trial().arguments(found.launches[0].parameters)
    mine = estimate_launch(PreparedLaunch.of(compiled, found.grids(shape)[0], arguments, H200))
    theirs = estimator.at(shape, H200)
    assert mine.time_us == pytest.approx(theirs.time_us, rel=0.025)
    assert mine.limiter == theirs.limiter


def test_the_bound_that_the_documentation_states_is_the_bound() -> None:
    assert f"{estimating.LONGEST:,} warp instructions" in (engine.CompiledKernel.estimate.__doc__ or "")
