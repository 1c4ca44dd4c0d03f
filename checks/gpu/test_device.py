"""The GPU device end to end, parent and server in their two processes, on the stand-in for CuPy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.gpu.errors import GpuUnavailable, WrongGpuIndex
from gemm_lessons.devices.gpu.records import Entrant, Measurement, Step
from gemm_lessons.devices.gpu.timing import ratio_within_rounds
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.engine.compiler.compile import Compiled, Resources
from gemm_lessons.engine.records.elements import ELEMENTS
from gemm_lessons.engine.records.errors import KitError, UnsupportedKernel
from gemm_lessons.engine.records.launch import Buffer, Grid, Scalar, StructWithBuffers
from gemm_lessons.engine.records.results import Launched
from gemm_lessons.gemm.data import BufferSpec, DataSpec
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape

COURSE = packaged_course()
PARAMETERS = ("A", "B", "C", "M", "N", "K")
DATA = DataSpec.plain(PARAMETERS)
ONE = Grid((1, 1, 1), (32, 1, 1))
SHAPE = Shape(48, 40, 32)


def compiled(kernel: str) -> Compiled:
    """A "cubin" that the stand-in knows how to run."""
    return Compiled("", "kernel.cu", "gemm", "sm_90", "", kernel.encode(), Resources(8, 0, 0, 0), (), "none")


def launch(gpu: Gpu, kernel: str, grid: Grid = ONE) -> tuple[Launched, Any, Problem]:
    problem = Problem(DATA, SHAPE, seed=1)
    trial = problem.trial()
    return gpu.launch(compiled(kernel), grid, trial.arguments(PARAMETERS)), trial, problem


def measure(gpu: Gpu, *kernels: str, **options: Any) -> Measurement:
    return gpu.measure(DATA, SHAPE, entrants(*kernels), seed=3, seconds=0.01, warm_up_s=0.0, **options)


def entrants(*kernels: str) -> list[Entrant]:
    return [
        Entrant(f"{number} {name}", "kernel", (Step(compiled(name), ONE, PARAMETERS),))
        for number, name in enumerate(kernels)
    ]


def test_it_says_what_it_is(fake_gpu: Gpu) -> None:
    assert (fake_gpu.kind, fake_gpu.name, fake_gpu.arch, fake_gpu.driver_major) == ("gpu", "Fake GPU 0", "sm_90", 13)


def test_a_launch_hands_the_answer_back(fake_gpu: Gpu) -> None:
    launched, trial, problem = launch(fake_gpu, "gemm")
    assert launched.fault is None
    assert not launched.findings
    assert launched.time_us is None
    assert (np.abs(trial.answer - problem.reference) <= problem.tolerance).all()
    assert not trial.damage()


def test_what_a_kernel_does_not_write_stays_poisoned(fake_gpu: Gpu) -> None:
    _, trial, _ = launch(fake_gpu, "stub")
    assert np.isnan(trial.answer).all()


def test_writing_beyond_the_end_is_found_in_the_guard_zone(fake_gpu: Gpu) -> None:
    launched, _, _ = launch(fake_gpu, "overrun")
    (finding,) = launched.findings
    assert (finding.kind, finding.severity, finding.count) == ("out_of_bounds", "error", 4)
    assert finding.message.startswith("C: written out of bounds, 0 bytes after its end")


@pytest.mark.parametrize(
    ("code", "kind"), [(700, "out_of_bounds"), (716, "misaligned"), (710, "trap"), (702, "timeout")]
)
def test_a_fault_is_a_value_and_the_next_launch_works(fake_gpu: Gpu, code: int, kind: str) -> None:
    launched, _, _ = launch(fake_gpu, f"fault {code}")
    assert (launched.fault.kind, launched.fault.severity) == (kind, "error")
    assert f"CUDA error {code}" in launched.fault.message
    again, trial, problem = launch(fake_gpu, "gemm")
    assert again.fault is None
    assert (np.abs(trial.answer - problem.reference) <= problem.tolerance).all()


def test_an_endless_kernel_is_stopped_and_the_next_launch_works(fake_gpu: Gpu) -> None:
    fake_gpu.limit_s = 0.3
    started = time.monotonic()
    launched, _, _ = launch(fake_gpu, "hang")
    assert time.monotonic() - started < 5
    assert launched.fault.kind == "timeout"
    fake_gpu.limit_s = 5
    assert launch(fake_gpu, "gemm")[0].fault is None


def test_a_refused_launch_is_a_value_and_keeps_the_context(fake_gpu: Gpu) -> None:
    pid = fake_gpu._child.pid
    launched, _, _ = launch(fake_gpu, "gemm", Grid((1, 1, 1), (2048, 1, 1), 4096))
    assert launched.fault.kind == "launch_refused"
    assert "(2048, 1, 1) threads with 4,096 bytes" in launched.fault.message
    assert launch(fake_gpu, "gemm", Grid((1, 1, 1), (32, 1, 1), 100_000))[0].fault is None
    assert fake_gpu._child.pid == pid


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("fault 999", "the GPU does not work"),
        ("unknown", "no machine code for Fake GPU 0 .sm_90."),
        ("crash", "ended unexpectedly: .*SIGSEGV"),
    ],
)
def test_what_is_not_the_kernels_fault_is_the_kits(fake_gpu: Gpu, kernel: str, said: str) -> None:
    with pytest.raises(KitError, match=said):
        launch(fake_gpu, kernel)
    assert launch(fake_gpu, "gemm")[0].fault is None


def test_module_variables_start_anew(fake_gpu: Gpu) -> None:
    for _ in range(2):
        array = np.zeros((1, 1), np.float32)
        fake_gpu.launch(compiled("counter"), ONE, [Buffer("A", array, output=True)])
        assert array[0, 0] == 1


def test_structs_with_pointers_and_scalars(fake_gpu: Gpu) -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    raw = bytes(8) + np.array([2, 3], np.int32).tobytes()
    matrix = StructWithBuffers("m", raw, {0: Buffer("data", data, output=True)})
    fake_gpu.launch(compiled("struct"), ONE, [matrix, Scalar("x", np.int32(1))])
    np.testing.assert_array_equal(data, [[0, 2, 4], [6, 8, 10]])


def test_ctrl_c_leaves_no_answer_behind(interrupted: Any, fake_gpu: Gpu) -> None:
    launch(fake_gpu, "gemm")  # its server is up, however slow this machine
    interrupted(0.5, lambda: launch(fake_gpu, "hang"))
    launched, trial, _ = launch(fake_gpu, "gemm")
    assert launched.fault is None
    assert not np.isnan(trial.answer).any()


def test_measuring_times_everyone_beside_cublas(fake_gpu: Gpu) -> None:
    seen: list[str] = []
    result = measure(fake_gpu, "gemm", "gemm", progress=seen.append)
    assert result.fault is None
    assert [kernel.label for kernel in result.kernels] == ["0 gemm", "1 gemm"]
    assert result.cublas is not None
    for kernel in (*result.kernels, result.cublas):
        assert (kernel.wrong, kernel.overran) == (0, "")
        assert 0 <= kernel.max_error <= kernel.tolerance
        assert len(kernel.spread.times) >= 3
        assert kernel.time_us == pytest.approx(kernel.flop / kernel.gflops / 1e3)
        assert kernel.flop == 2 * 48 * 40 * 32
    assert result.held
    first, base = result.kernels[0], result.cublas
    assert len(first.rounds) == len(first.spread.times)
    assert base.of_cublas == 1
    times, rounds = first.spread.times, first.rounds
    assert first.of_cublas == ratio_within_rounds(base.spread.times, base.rounds, times, rounds)
    assert {"0 gemm", "1 gemm", "cuBLAS"} <= set(seen)
    assert result.cublas_version == 130200


@pytest.mark.parametrize(
    ("kernel", "least"),
    [("stub", 48 * 40), ("lazy", 40)],  # a stub leaves poison; a lazy one is caught by new inputs
)
def test_measuring_catches_wrong_answers(fake_gpu: Gpu, kernel: str, least: int) -> None:
    wrong, right = measure(fake_gpu, kernel, "gemm").kernels
    assert wrong.wrong >= least
    assert not wrong.max_error <= wrong.tolerance
    assert right.wrong == 0


def test_measuring_checks_the_guard_zones(fake_gpu: Gpu) -> None:
    right, wrong = measure(fake_gpu, "gemm", "overrun").kernels
    assert (right.overran, wrong.overran) == ("", "C")


@pytest.mark.parametrize(("kernel", "kind"), [("fault 700", "out_of_bounds"), ("hang", "timeout")])
def test_measuring_names_the_culprit(fake_gpu: Gpu, kernel: str, kind: str) -> None:
    fake_gpu.limit_s = 1.0
    result = measure(fake_gpu, "gemm", kernel)
    assert result.culprit == f"1 {kernel}"
    assert result.fault.kind == kind
    assert not result.kernels
    assert measure(fake_gpu, "gemm").fault is None


def test_formulas_that_cublas_cannot_check_are_not_timed(fake_gpu: Gpu) -> None:
    for formula, why in (("C = tanh(A @ B)", "of products and sums"), ("C = exp(A)", "with one product")):
        with pytest.raises(UnsupportedKernel, match=why):
            fake_gpu.measure(DataSpec.plain(PARAMETERS, formula=formula), SHAPE, entrants("gemm"), seed=1)


def test_factors_with_scales_are_timed_without_a_rival(fake_gpu: Gpu) -> None:
    data = scaled_data()
    given = ("A", "B", "C", "scale", "M", "N", "K")
    kernels = [
        Entrant(kernel, "kernel", (Step(compiled(kernel), ONE, given),)) for kernel in ("scaled 16", "scaled 8", "stub")
    ]
    fake_gpu.prepare(data, SHAPE, 3)
    result = fake_gpu.measure(data, SHAPE, kernels, seed=3, seconds=0.01, warm_up_s=0.0)
    right, wrong, stub = result.kernels
    assert result.cublas is None
    assert right.of_cublas is None
    assert (right.wrong, right.flop) == (0, 2 * 48 * 40 * 32)
    assert len(right.spread.times) >= 3
    assert wrong.wrong > 0
    assert stub.wrong >= 48 * 40
    assert 0 <= right.max_error <= right.tolerance


def scaled_data() -> DataSpec:
    extents = tuple(Expression.parse(text, ("M", "N", "K")) for text in ("M", "K // 16"))
    scale = BufferSpec("scale", ELEMENTS["float32"], extents, order="column", range=(0.5, 2.0))
    formula = "C = (A * repeat(scale, 16, axis=1)) @ B"
    return DataSpec.plain((*PARAMETERS, "scale"), formula=formula, buffers=[scale])


@pytest.mark.parametrize("name", COURSE.names)
def test_every_product_of_the_course_is_timed(name: str) -> None:
    data = COURSE.lesson(name).data
    assert bool(data.untimed) != data.multiplies


def test_too_little_memory_says_what_was_asked(fake_cupy: pytest.MonkeyPatch) -> None:
    fake_cupy.setenv("FAKE_GPU", f"memory={200 << 20}")
    with Gpu() as gpu:
        with pytest.raises(KitError, match=r"0\.\d+ GiB were requested \(A, B and C of 4096x4096x64 .*0\.20 of 0\.20"):
            gpu.measure(DATA, Shape(4096, 4096, 64), entrants("gemm"), seed=1)
        with pytest.raises(KitError, match=r"0\.25 GiB were requested \(the kernel's arguments\)"):
            gpu.launch(compiled("gemm"), ONE, [Buffer("A", np.zeros(1 << 28, np.uint8))])
        assert launch(gpu, "gemm")[0].fault is None


@pytest.mark.parametrize(
    ("scene", "index", "error", "said"),
    [
        ("broken", 0, GpuUnavailable, r"libcudart.*cupy-cuda13x"),
        ("driver=12040", 0, GpuUnavailable, r"supports CUDA 12\.4, .* for CUDA 13\.0\. Update.*cupy-cuda12x"),
        ("driver=11080", 0, GpuUnavailable, r"supports CUDA 11\.8, .* 525 or newer\)$"),
        ("driver=0", 0, GpuUnavailable, "no NVIDIA driver"),
        ("count=0", 0, GpuUnavailable, r"sees no CUDA GPU \(CUDA_VISIBLE_DEVICES='5'\)"),
        ("count=2", 2, WrongGpuIndex, r"no GPU 2: 2 are visible, counted from 0 \(CUDA_VISIBLE_DEVICES='5'\)"),
    ],
)
def test_why_there_is_no_gpu(
    fake_cupy: pytest.MonkeyPatch, scene: str, index: int, error: type[KitError], said: str
) -> None:
    fake_cupy.setenv("FAKE_GPU", scene)
    fake_cupy.setenv("CUDA_VISIBLE_DEVICES", "5")
    with Gpu(index) as gpu, pytest.raises(error, match=said):
        _ = gpu.facts


def test_a_second_gpu(fake_cupy: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is the only one that is touched: others may be full, or somebody's own."""
    used = tmp_path / "contexts"
    fake_cupy.setenv("FAKE_GPU", f"count=2 contexts={used}")
    with Gpu(1) as gpu:
        assert gpu.name == "Fake GPU 1"
        gpu.smallest_flush = 0
        assert launch(gpu, "gemm")[0].fault is None
        assert measure(gpu, "gemm").cublas is not None
    assert set(used.read_text().split()) == {"1"}


def test_a_gpu_that_gives_no_context(fake_cupy: pytest.MonkeyPatch) -> None:
    fake_cupy.setenv("FAKE_GPU", "context=46")
    with Gpu() as gpu, pytest.raises(KitError, match="the GPU does not work: CUDA error 46"):
        launch(gpu, "gemm")


def test_without_cublas_launches_work_and_measuring_says_what_to_install(fake_cupy: pytest.MonkeyPatch) -> None:
    fake_cupy.setenv("FAKE_GPU", "nocublas")
    with Gpu() as gpu:
        assert launch(gpu, "gemm")[0].fault is None
        with pytest.raises(KitError, match=r"cuBLAS is missing .*cupy-cuda13x"):
            gpu.measure(DATA, SHAPE, entrants("gemm"), seed=1)


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        ("", ()),
        ("nonvml", ()),
        ("busy=43", ("43% busy",)),
        ("other=17", ("process 17",)),
        ("slowed=4 mhz=1410", ("power limit: 1410 of 1980 MHz",)),
    ],
)
def test_a_disturbed_gpu_is_told(fake_cupy: pytest.MonkeyPatch, scene: str, said: tuple[str, ...]) -> None:
    fake_cupy.setenv("FAKE_GPU", scene)
    with Gpu() as gpu:
        gpu.smallest_flush = 0
        result = measure(gpu, "gemm")
    # Python's times scatter by themselves, so only what the monitor saw counts here.
    notes = [note for note in result.notes if "The times of" not in note]
    assert len(notes) == len(said)
    assert all(words in note for words, note in zip(said, notes, strict=True))
    assert result.driver == ("" if scene == "nonvml" else "580.95.05")
    assert result.health.temperature is None


def test_a_turn_that_began_before_all_was_queued_is_thrown_away(fake_cupy: pytest.MonkeyPatch) -> None:
    fake_cupy.setenv("FAKE_GPU", "hasty=2")
    with Gpu() as gpu:
        gpu.smallest_flush = 0
        result = measure(gpu, "gemm")
    assert result.held
    assert result.kernels[0].wrong == 0, "a row of A that a thrown-away turn replaced is restored"


def test_a_gpu_that_runs_one_launch_at_a_time_is_told(fake_cupy: pytest.MonkeyPatch) -> None:
    fake_cupy.setenv("FAKE_GPU", "hasty=1000")
    with Gpu() as gpu:
        gpu.smallest_flush = 0
        result = measure(gpu, "gemm")
    assert not result.held
    assert len(result.kernels[0].spread.times) >= 3
    assert any("one at a time" in note for note in result.notes)


def test_a_prepared_measurement_is_the_same(fake_gpu: Gpu) -> None:
    fake_gpu.prepare(DATA, SHAPE, 3)
    assert launch(fake_gpu, "gemm")[0].fault is None, "launches come in between"
    assert measure(fake_gpu, "gemm").kernels[0].wrong == 0
    fake_gpu.prepare(DATA, Shape(16, 16, 16), 3)
    assert measure(fake_gpu, "gemm").shape == SHAPE, "another problem is made anew"
    fake_gpu.prepare(DATA, SHAPE, 3)
    assert launch(fake_gpu, "fault 700")[0].fault is not None
    assert measure(fake_gpu, "gemm").kernels[0].wrong == 0, "what was prepared has gone with the process"


def test_preparing_too_much_is_told_when_it_is_measured(fake_cupy: pytest.MonkeyPatch) -> None:
    fake_cupy.setenv("FAKE_GPU", f"memory={200 << 20}")
    large = Shape(4096, 4096, 64)
    with Gpu() as gpu:
        _ = gpu.facts
        gpu.prepare(DATA, large, 1)
        assert launch(gpu, "gemm")[0].fault is None
        with pytest.raises(KitError, match="GiB were requested"):
            gpu.measure(DATA, large, entrants("gemm"), seed=1)
