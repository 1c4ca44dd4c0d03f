"""The pipeline on a GPU, tested without one: what the simulator adds, and how measurements are judged.

The GPU here stands in for a real one: right answers, a fault without a line, no counters, made-up times.
checks/gpu/test_real_gpu.py runs the same pipeline on a real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gemm_lessons.course.folder import any_course
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.gpu.records import Entrant, GpuFacts, Measurement, Timed
from gemm_lessons.devices.gpu.timing import Spread
from gemm_lessons.devices.shadowed_gpu import ShadowedGpu
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.records.facts import Misuse
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.launch import Argument, Grid
from gemm_lessons.engine.records.results import Counters, Launched
from gemm_lessons.engine.simulator import Simulator
from gemm_lessons.gemm.data import DataSpec
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.evidence import Checked
from gemm_lessons.judging.verdict import Faulted, Kind, Passed, TimedOut, WrongAnswer
from gemm_lessons.running.measuring import with_times
from gemm_lessons.running.outcome import Row
from gemm_lessons.running.pipeline import RunRequest, run_lesson

SHAPE = Shape(64, 64, 64)
FAULT = Finding("illegal_access", "error", "constant store", facts=Misuse(name="table"))


class Silent(Gpu):
    """Runs kernels on the simulator and returns only what a GPU would."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @property
    def facts(self) -> GpuFacts:
        return GpuFacts("stand-in", "sm_90", memory=1 << 30, sms=132, l2=1 << 20, driver=13000, count=1, cupy="")

    def launch(self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument]) -> Launched:
        self.asked.append("launch")
        launched = Simulator().launch(compiled, grid, arguments)
        return Launched(Counters(), fault=FAULT if launched.fault else None)

    def prepare(self, data: DataSpec, shape: Shape, seed: int) -> None:
        self.asked.append(f"prepare {shape}")

    def measure(self, data: DataSpec, shape: Shape, entrants: Sequence[Entrant], **_: Any) -> Measurement:
        self.asked.append("measure")
        return Measurement(shape, self.name, tuple(timed(it.label, 8.0) for it in entrants), timed("cuBLAS", 2.0))


def request(lesson: str, path: Path | None = None, gpu: Gpu | None = None) -> RunRequest:
    course = any_course()
    found = course.lesson(lesson)
    device = ShadowedGpu(gpu or Silent())
    return RunRequest(course, found, path or found.solution_path, device, GPUS["h200"], beside=False)


def test_the_simulator_supplies_counters_gates_and_estimate() -> None:
    gpu = Silent()
    outcome = run_lesson(request("02", gpu=gpu))
    assert (outcome.device_kind, outcome.device_name) == ("gpu", "stand-in")
    assert outcome.verdict == Passed()
    row = outcome.kernel
    counters = row.checked.counters
    assert counters is not None
    assert counters["global_load_sectors"] / counters["global_load_requests"] == 2.5
    assert len(row.checked.gates) == 3
    assert row.speed.estimate is not None
    assert row.speed.measured == timed("reference", 8.0)
    launches = ["launch"] * len(row.checked.shapes)
    assert gpu.asked == [*launches, f"prepare {outcome.estimate_shape}", "measure"], "it prepares while we count"


def test_the_simulator_finds_the_line_of_a_fault(tmp_path: Path) -> None:
    solution = any_course().lesson("01").solution_path.read_text()
    path = tmp_path / "kernel.cu"
    path.write_text(solution.replace("c(row, col) = acc;", "C[row * N + col + M * N] = acc;"))
    row = run_lesson(request("01", path)).kernel
    assert isinstance(row.verdict, Faulted)
    assert row.verdict.finding.kind == "out_of_bounds"
    assert row.source_line(row.verdict.finding.line) == "C[row * N + col + M * N] = acc;"
    assert FAULT in row.checked.findings


def test_large_faults_are_not_simulated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemm_lessons.devices.shadowed_gpu.SIMULATED", 8)
    path = tmp_path / "kernel.cu"
    solution = any_course().lesson("01").solution_path.read_text()
    path.write_text(solution.replace("c(row, col) = acc;", "C[row * N + col + M * N] = acc;"))
    verdict = run_lesson(request("01", path)).verdict
    assert isinstance(verdict, Faulted)
    assert verdict.finding == FAULT


def timed(label: str, median: float, **changes: Any) -> Timed:
    spread = Spread(median, median, median, (median,))
    return replace(Timed(label, "kernel", spread, flop=2 * 64**3), **changes)


ROW = Row("kernel", "your kernel", "kernel.cu", "", Checked(Passed()))


def test_a_measured_row_has_time_speed_and_share_of_cublas() -> None:
    measured = Measurement(SHAPE, "H200", (timed("your kernel", 8.0, of_cublas=0.25),), timed("cuBLAS", 2.0))
    row = with_times(ROW, measured)
    assert (row.speed.measured.time_us, row.speed.measured.gflops) == (8.0, 2 * 64**3 / 8.0 / 1e3)
    assert row.speed.fraction_of_cublas == 0.25
    assert row.verdict == Passed()
    assert with_times(replace(ROW, label="01 naive"), measured).speed.measured is None, "it took no part"


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"wrong": 3, "max_error": 1.0, "tolerance": 0.1}, "wrong_answer"),
        ({"overran": "C"}, "faulted"),
    ],
)
def test_what_shows_only_at_full_size_is_a_verdict(changes: dict[str, Any], kind: Kind) -> None:
    row = with_times(ROW, Measurement(SHAPE, "H200", (timed("your kernel", 8.0, **changes),), timed("cuBLAS", 2.0)))
    assert row.verdict.kind == kind
    assert row.speed.measured is None
    if isinstance(row.verdict, WrongAnswer):
        assert (row.verdict.judgement.wrong, row.verdict.judgement.total) == (3, 4096)
    else:
        assert "C" in row.checked.findings[0].message


@pytest.mark.parametrize(("finding", "verdict"), [("illegal_access", Faulted), ("timeout", TimedOut)])
def test_a_fault_while_measuring_blames_its_kernel_only(finding: str, verdict: type) -> None:
    fault = replace(FAULT, kind=finding)
    measured = Measurement(SHAPE, "H200", fault=fault, culprit="your kernel")
    row = with_times(ROW, measured)
    assert row.verdict == verdict(SHAPE, fault)
    assert fault in row.checked.findings
    other = with_times(replace(ROW, label="reference"), measured)
    assert other.verdict == Passed()
