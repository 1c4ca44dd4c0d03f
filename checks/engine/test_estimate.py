"""``kernel.estimate``: by hand where a launch is simple, beside the model of matrix products, refused by the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checks.course.kernel import Kernel
from checks.estimate.test_timeline import FREE, Line, ffma, trace
from checks.simulator.phase_cases import PIPELINE
from gemm_lessons import engine
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.estimate import launch as estimating
from gemm_lessons.engine.estimate.chip import LAUNCH_US
from gemm_lessons.engine.estimate.launch import estimate_launch
from gemm_lessons.engine.estimate.timeline import play
from gemm_lessons.engine.hardware.sheets import GPUS, pipes_of
from gemm_lessons.engine.machine.memory import GlobalMemory
from gemm_lessons.engine.records.launch import buffers_of
from gemm_lessons.engine.simulator import Simulator
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gemm.time_model import Estimator
from gemm_lessons.running.estimating import estimator_of

H200 = GPUS["h200"]
HEAD = 'extern "C" __global__ void k(const float *x, float *y, int n) { const int t = threadIdx.x; '
ADD = HEAD + "const int i = blockIdx.x * blockDim.x + t; if (i < n) y[i] += x[i]; }"


def arrays(n: int = 256) -> list[Any]:
    return [np.ones(n, np.float32), np.zeros(n, np.float32), n]


def test_memory_limits_an_addition_by_hand() -> None:
    """Three floats for each element: two are read, one is written."""
    n = 1 << 22
    x, y, _ = arrays(n)
    found = engine.compile(ADD, "k").estimate(n // 256, 256, [x, y, n])
    dram = 3 * 4 * n / (H200.dram_bytes_per_s / 1e6)
    assert found.parts["dram"] == pytest.approx(dram, rel=0.001)
    assert found.time_us == pytest.approx(LAUNCH_US + dram, rel=0.001)
    assert (found.gpu, found.limiter, found.blocks_per_sm) == ("H200", "dram", 8)
    assert found.waves == -(-n // 256 // 132) // 8 + 1 == 16
    stored_twice = 4 * 4 * n  # a store takes L2 as long as two loads
    assert found.parts["l2"] == pytest.approx(stored_twice / (H200.l2_bytes_per_s / 1e6), rel=0.02)
    assert not y.any(), "nothing is written"


def test_bytes_count_once_and_only_where_they_are_touched() -> None:
    table = HEAD + "y[blockIdx.x * blockDim.x + t] = x[t]; }"
    (x, _, _), (_, y, n) = arrays(), arrays(1 << 20)
    found = engine.compile(table, "k").estimate(n // 256, 256, [x, y, n])
    assert found.parts["dram"] == pytest.approx((4 * 256 + 4 * n) / 4.8e6, rel=0.001), "all blocks read the same"
    x = np.ones(1 << 20, np.float32)
    found = engine.compile(table, "k").estimate(2, 256, [x, y, n])
    assert found.parts["dram"] == pytest.approx(2 * (2 * 256 * 4) / 4.8e6, rel=0.001)


def test_it_says_that_it_is_an_estimate_and_what_it_leaves_out() -> None:
    found = engine.compile(HEAD + "atomicAdd(y, x[t]); }", "k").estimate(1, 256, arrays())
    assert found.limiter == "launch"
    assert repr(found).startswith("<estimate, not measured: 6.")
    assert repr(found).endswith(f"limited by launch, without {found.left_out[0]}>")
    assert found.left_out == ("waiting for other threads' atomics at the same address",)
    assert engine.compile(ADD, "k").estimate(1, 256, arrays()).left_out == ()


def test_another_gpu_gets_machine_code_of_its_own() -> None:
    kernel = engine.compile(ADD, "k")
    times = {gpu: kernel.estimate(4096, 256, arrays(1 << 20), gpu=gpu).time_us for gpu in ("h200", "a100", "t4")}
    assert times["h200"] < times["a100"] < times["t4"]
    assert kernel.arch == "sm_90"
    slow = replace(H200, name="slow", dram_bytes_per_s=H200.dram_bytes_per_s / 10)
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
    "PTX": (None, "PTX of another compiler comes without machine code"),
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
    "length": (HEAD + "float s = 0; for (int i = 0; i < 200000; i++) s = s * s + n; y[t] = s; }", "more than 500,000"),
    "launches": (HEAD + "y[t] = 1; }", "a GPU refuses this launch: 2,048 threads along x"),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_what_the_model_does_not_know_is_refused_by_its_reason(reason: str) -> None:
    source, says = REFUSED[reason]
    kernel = engine.compile(source or engine.compile(ADD, "k").ptx, "k")
    with pytest.raises(engine.NotEstimated, match=says):
        kernel.estimate(2, 2048 if reason == "launches" else 256, arrays())


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
def test_matrix_products_take_what_their_own_model_says(lesson: str, size: int) -> None:
    """That model reads the time off a line in K through two short traces; this one plays the launch as it is."""
    shape = Shape(size, size, size)
    found = packaged_course().lesson(lesson).at(shape)
    compiled = Kernel.solution(found).compiled()
    estimator = estimator_of(found, [compiled], H200, shape)
    assert isinstance(estimator, Estimator)
    arguments = Problem(found.data, shape, 1).trial().arguments(found.launches[0].parameters)
    kernel, grid = Simulator().kernel(compiled), found.grids(shape)[0]
    mine = estimate_launch(
        compiled, kernel, grid, arguments, lambda: GlobalMemory(buffers_of(arguments), []), H200
    )  # fmt: skip
    theirs = estimator.at(shape, H200)
    assert mine.time_us == pytest.approx(theirs.time_us, rel=0.025)
    assert mine.limiter == theirs.limiter


def test_the_bound_that_the_documentation_states_is_the_bound() -> None:
    assert f"{estimating.LONGEST:,} warp instructions" in (engine.CompiledKernel.estimate.__doc__ or "")
