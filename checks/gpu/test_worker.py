"""One submission, one outcome: good and bad kernels, limits, and attempts to forge the outcome."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from gemm_lessons.course.folder import CommandError, packaged_course
from gemm_lessons.engine.process.bounds import GIB
from gemm_lessons.engine.records.errors import KitError, UnsupportedKernel
from gemm_lessons.grading import worker
from gemm_lessons.grading.worker import Limits, Submission, judge_submission
from gemm_lessons.running.contract import JSON

COURSE = packaged_course()
HEAD = 'extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K) {'


def submit(
    path: Path, source: str | None = None, limits: Limits | None = None, lesson: str = "01_naive"
) -> dict[str, JSON]:
    if source is not None:
        path.write_text(source)
    return dict(judge_submission(Submission(COURSE.root, lesson, path, seed=1), limits))


def finding(outcome: dict[str, JSON]) -> str:
    findings = outcome["findings"]
    assert isinstance(findings, list)
    assert isinstance(findings[0], dict)
    return str(findings[0]["message"])


def test_a_reference_passes() -> None:
    lesson = COURSE.lesson("01")
    outcome = submit(lesson.solution_path)
    assert (outcome["schema"], outcome["verdict"]) == ("gemm-lessons/run/1", "passed")
    assert outcome["counters"]


def test_a_stub_fails() -> None:
    assert submit(COURSE.lesson("01").stub_path)["verdict"] == "wrong_answer"


def test_printing_and_including_forge_nothing(tmp_path: Path) -> None:
    forged = '{\\"header\\": {\\"outcome\\": {\\"verdict\\": \\"passed\\"}}, \\"blobs\\": 0}'
    source = f'#include <cstdio>\n{HEAD} printf("{forged}\\n"); }}'
    assert submit(tmp_path / "kernel.cu", source)["verdict"] == "wrong_answer"
    for number in range(3, 7):  # the question's pipe is closed, the answer's cannot be read
        source = f'#include "/proc/self/fd/{number}"\n{HEAD} }}'
        outcome = submit(tmp_path / "kernel.cu", source, Limits(20))
        assert outcome["verdict"] in ("compile_failed", "timed_out", "wrong_answer")


def test_too_long_is_stopped(tmp_path: Path) -> None:
    # It counts, so that it never comes back to the same state, which the simulator would call a hang by itself.
    source = HEAD + " volatile float *c = C; for (int n = 0; c[0] != 7; n++) c[1] = n; }"
    started = time.monotonic()
    outcome = submit(tmp_path / "kernel.cu", source, Limits(seconds=1.5))
    assert time.monotonic() - started < 8
    assert outcome["verdict"] == "timed_out"
    own = "the run took longer than 1.5 s and was stopped"
    busy = r"the run was stopped after [67]\.\d s: the machine is busy, and gave it [01]\.\d s of processor time"
    assert re.fullmatch(f"({own}|{busy}), in line 1", finding(outcome))


def test_too_much_memory_is_a_verdict(tmp_path: Path) -> None:
    lesson = COURSE.lesson("01")
    submission = Submission(COURSE.root, lesson.name, lesson.solution_path, shape=(4096, 16384, 16), seed=1)
    outcome = dict(judge_submission(submission, Limits(60, memory_bytes=GIB // 2)))
    assert outcome["verdict"] == "faulted"
    assert finding(outcome).startswith("the run needed more than 0.5 GiB of memory and was stopped")


def test_what_is_not_the_submissions_fault_is_raised(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no such file"):
        submit(tmp_path / "missing.cu")
    with pytest.raises(CommandError, match="no lesson"):
        submit(tmp_path / "kernel.cu", "x", lesson="99")
    with pytest.raises(CommandError, match="cannot take"):
        judge_submission(
            Submission(COURSE.root, "thread_tile", COURSE.lesson("thread_tile").solution_path, shape=(1, 1, 1))
        )


def test_an_unsupported_kernel_says_so(tmp_path: Path) -> None:
    source = HEAD + '\n asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], 1;" :: "l"(C)); C[0] = 1; }'
    with pytest.raises(UnsupportedKernel, match=r"multimem\.red") as caught:
        submit(tmp_path / "kernel.cu", source)
    assert caught.value.line == 2


def test_on_a_gpu(fake_cupy: pytest.MonkeyPatch) -> None:
    lesson = COURSE.lesson("01")
    fake_cupy.setenv("FAKE_GPU", "count=0")
    fake_cupy.setattr(worker, "KEPT", (*worker.KEPT, "FAKE_GPU"))
    worker.close()  # the next has the stand-in
    from gemm_lessons.engine.records.errors import KitError

    with pytest.raises(KitError, match="sees no CUDA GPU"):
        judge_submission(Submission(COURSE.root, lesson.name, lesson.solution_path, device="gpu"))
    worker.close()


def test_a_compiler_that_cannot_be_loaded_is_nobody_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A student loses no points for the teacher's missing library."""
    broken = tmp_path / "broken"
    (broken / "cuda").mkdir(parents=True)
    (broken / "cuda" / "__init__.py").write_text('raise ImportError("no such library")')
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(broken), *filter(None, [os.environ.get("PYTHONPATH")])]))
    worker.close()  # the next process looks for its libraries anew
    request.addfinalizer(worker.close)
    with pytest.raises(KitError, match="NVRTC"):
        submit(COURSE.lesson("01").solution_path)
