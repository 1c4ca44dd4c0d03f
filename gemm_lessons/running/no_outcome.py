"""The outcome of a run without a result of its own: it crashed, was stopped from outside, or did not start."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from gemm_lessons.course import Lesson, shown
from gemm_lessons.engine import Diagnostic, Finding
from gemm_lessons.engine.records import Quoted
from gemm_lessons.judging import Checked, CompileFailed, stopped
from gemm_lessons.running.outcome import Row, RunOutcome


def ended_early(lesson: Lesson, path: Path, kind: str, message: str, device: str = "sim", gpu: str = "") -> RunOutcome:
    """Return the outcome of a run that ended without an answer: ``kind`` is ``timeout``, ``memory`` or ``crash``."""
    return ended_by(Finding(kind, "error", "bounds", facts=Quoted(message)), lesson, path, device, gpu)


def ended_by(finding: Finding, lesson: Lesson, path: Path, device: str = "sim", gpu: str = "") -> RunOutcome:
    """Return the outcome of a run that ``finding`` ended: its kind is one of those of ``ended_early``."""
    checked = Checked(stopped(lesson.shapes.count, finding), findings=(finding,))
    return _outcome(lesson, path, checked, device, gpu)


def refused(lesson: Lesson, path: Path, message: str, line: int, device: str = "sim", gpu: str = "") -> RunOutcome:
    """Return the outcome for a file that is not passed to a compiler."""
    failed = CompileFailed(message, (Diagnostic(shown(path), line, None, "error", message),))
    return _outcome(lesson, path, Checked(failed), device, gpu)


def _outcome(lesson: Lesson, path: Path, checked: Checked, device: str, gpu: str) -> RunOutcome:
    count = lesson.shapes.count
    kind: Literal["simulator", "gpu"] = "gpu" if device == "gpu" else "simulator"
    row = Row("kernel", "your kernel", shown(path), "", checked)
    return RunOutcome(lesson, kind, "", gpu, 0, count, count, (row,))
