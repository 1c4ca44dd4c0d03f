"""The estimated time of ``inspect``: beside the counters, refused by its reason, within the limits of the command."""

from __future__ import annotations

from typing import Any

import pytest

from gemm_lessons.engine import inspection
from gemm_lessons.engine.estimate.chip import LAUNCH_US
from gemm_lessons.engine.estimate.launch import LaunchEstimate, PreparedLaunch
from gemm_lessons.engine.estimate.recording import Recording
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.inspection import Inspection, InspectRequest, as_json, inspect
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.sass.trace import Trace, _Launch
from gemm_lessons.report.console import make_console
from gemm_lessons.report.inspect import show_inspection

SOURCE = """
__global__ void add(const float *x, float *y) { y[blockIdx.x * 256 + threadIdx.x] += x[threadIdx.x]; }
__global__ void wait(const float *x, volatile float *y) { while (threadIdx.x > 300 && y[0] == 0) ; y[threadIdx.x] = 1; }
__global__ void past(const float *x, float *y) { y[1 << 20] = x[0]; }
"""


def inspected(entry: str, **changes: Any) -> Inspection:
    grid = Grid((32, 1, 1), (256, 1, 1))
    return inspect(InspectRequest(SOURCE, "k.cu", entry, grid, "x=f32[256], y=inout zeros f32[8192]", **changes))


def text_of(result: Inspection) -> str:
    console = make_console()
    console.width = 200
    with console.capture() as capture:
        show_inspection(console, result)
    return capture.get()


def test_time_and_limit_are_shown_as_an_estimate() -> None:
    found = inspected("add")
    assert isinstance(found.estimate, LaunchEstimate)
    assert found.estimate.time_us > LAUNCH_US
    assert f"est. time on H200: {found.estimate.time_us:.4g} us, limited by launch (starting it" in text_of(found)
    assert as_json(found)["estimate"]["limiter"] == "launch"


def test_another_gpu_is_estimated_by_its_own_machine_code() -> None:
    found = inspected("add", gpu=GPUS["rtx3090"])
    assert isinstance(found.estimate, LaunchEstimate)
    assert (found.estimate.gpu, found.compiled.arch) == ("RTX 3090", "sm_90")
    assert "est. time on RTX 3090 (from a data sheet, never measured)" in text_of(found)


def test_a_reason_stands_in_for_a_time() -> None:
    found = inspected("wait")
    assert found.clean
    assert "no estimated time on H200: its threads wait for other threads in a loop" in text_of(found)
    assert as_json(found)["estimate"].keys() == {"gpu", "refused"}


def test_a_kernel_that_was_stopped_has_no_time() -> None:
    found = inspected("past")
    assert found.estimate is None
    assert "est. time" not in text_of(found)


def test_a_launch_that_used_up_its_memory_is_still_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(inspection, "estimate_launch", too_much)
    found = inspected("add")
    assert found.clean
    assert "no estimated time on H200: the launch left too little" in text_of(found)


def test_the_estimate_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PreparedLaunch, "of", None)  # nothing may prepare one
    found = inspected("add", estimating=False)
    assert found.clean
    assert found.estimate is None
    assert "est. time" not in text_of(found)
    assert as_json(found)["estimate"] is None


def test_one_trace_serves_estimate_and_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[int] = []
    trace = _Launch.trace

    def counted(self: _Launch, *given: Any) -> Trace:
        traced.append(1)
        return trace(self, *given)

    monkeypatch.setattr(_Launch, "trace", counted)
    found = inspected("add", recording=True)
    assert isinstance(found.estimate, LaunchEstimate)
    assert isinstance(found.recording, Recording)
    assert len(traced) == 1


def test_a_recording_has_the_estimate_s_reason() -> None:
    found = inspected("wait", recording=True)
    assert found.recording == found.estimate
    assert "its threads wait for other threads" in str(found.recording)
