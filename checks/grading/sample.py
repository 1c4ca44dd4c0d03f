"""A graded class: honest students, every status, and a student whose name and files try to inject code into reports."""

from __future__ import annotations

from typing import Any

from gemm_lessons.grading.gradebook import Gradebook, gradebook_of
from gemm_lessons.grading.results import Case, Grade, GradedStudent, GradePart, Grading

LESSONS = ("02_coalesced", "03_block_tile")
SEED = 918273645  # must not appear in anything that a student gets
HIDDEN = (1031, 1033, 1039)  # nor must these
SHOWN = (33, 31, 29)  # a shape in the lesson's text
TWO = "Two barriers per tile are enough."
ATTACK = '=HYPERLINK("http://evil.example","x")<script>alert(1)</script>\x1b[31m|\u202e*b*\n::notice title=T::1'


def outcome(verdict: str, **more: Any) -> dict[str, Any]:
    """The parts of ``run --json`` that reports read."""
    made: dict[str, Any] = {
        "schema": "gemm-lessons/run/1", "verdict": verdict, "kernel": "/srv/private/ana/03.cu",
        "device": {"kind": "simulator", "name": "simulator"},
        "shapes": [
            dict(zip("mnk", shape, strict=True), verdict=verdict, max_error=0.5, tolerance=0.1) | hidden
            for shape, hidden in ((SHOWN, {}), (HIDDEN, {"hidden": True}))
        ],
        "compile": {"arch": "sm_90", "diagnostics": []}, "findings": [], "hints": [], "lines": [], "counters": {},
        "gates": [{"name": "barriers per K tile", "limit": 2.0, "value": 2.0, "passed": True}],
        "estimate": {"gpu": "H200", "time_us": 14391.6, "gflops": 9549.9, "limiter": "shared"},
    }  # fmt: skip
    return made | more


def grade(student: str, lesson: str, **more: Any) -> Grade:
    """A passed grade, with the fields in ``more`` replaced."""
    given: dict[str, Any] = {
        "status": "graded", "points": 10.0, "out_of": 10.0, "verdict": "passed", "message": "Passed.",
        "file": f"{lesson[:2]}.cu", "sha256": "ab" * 32, "outcome": outcome("passed"), "seconds": 2.5,
        "parts": (GradePart("right values", 6.0, 6.0, True, "5 of 5 shapes"), GradePart("gates", 4.0, 4.0, True, "")),
        "case": Case(SEED, (HIDDEN,), (SHOWN, HIDDEN)), "versions": {"gemm_lessons": "0.1.0", "nvrtc": "13.5"},
        "lesson_hash": "cd" * 32,
    }  # fmt: skip
    return Grade(student=student, lesson=lesson, **(given | more))


def _missed() -> dict[str, Any]:
    parts = (
        GradePart("right values", 6.0, 6.0, True, "5 of 5 shapes"),
        GradePart("gates", 1.5, 4.0, False, "barriers per K tile: 3, at most 2"),
    )
    gates = [{"name": "barriers per K tile", "limit": 2.0, "value": 3.0, "passed": False}]
    hint = f"{TWO} At {'x'.join(map(str, HIDDEN))} they cost time."
    return {
        "points": 7.5, "parts": parts, "verdict": "gate_missed", "seconds": 4.0,
        "message": "Right, by another method than the lesson's.",
        "outcome": outcome("gate_missed", gates=gates, hints=[TWO, hint, "At 33x31x29."]),
    }  # fmt: skip


def _faulted(text: str) -> dict[str, Any]:
    finding = {"kind": "race", "severity": "error", "line": 31, "message": f"As[{SEED}]: {text}", "count": 3}
    parts = (GradePart("right values", 0.0, 6.0, False, text), GradePart("gates", 0.0, 4.0, False, "not judged"))
    found = outcome(
        "faulted", findings=[finding], compile={"arch": "sm_90", "diagnostics": [{"line": 7, "message": text}]}
    )
    return {"points": 0.0, "parts": parts, "verdict": "faulted", "message": text, "outcome": found, "seconds": 9.0}


def _without(status: str, message: str) -> dict[str, Any]:
    return {
        "status": status, "points": 0.0, "parts": (), "verdict": None, "outcome": None, "file": None, "sha256": None,
        "message": message, "seconds": 0.0,
    }  # fmt: skip


def sample() -> Gradebook:
    """Five students, two lessons; the last student's second kernel is not graded yet."""
    students = (
        GradedStudent("ana", "Ana Lima", "ana@example.org", {"group": "A"}),
        GradedStudent("bo", "Bo, Jr.", None, {"group": "=1+1"}, ("notes.zip: holds a link, left out",)),
        GradedStudent(ATTACK, ATTACK, ATTACK, {"group": "B"}),
        GradedStudent("zoë"),
        GradedStudent("late"),
    )
    first, second = LESSONS
    grades = (
        grade("ana", first),
        grade("ana", second, **_missed()),
        grade("bo", first, **_missed()),
        grade("bo", second, **_without("missing", "no file for this lesson")),
        grade(ATTACK, first, **_faulted(ATTACK)),
        grade(ATTACK, second, file=ATTACK),
        grade("zoë", first, **_without("unsupported", "the simulator does not know tex.2d")),
        grade("zoë", second, **_without("refused", "03.cu is a link to another file")),
        grade("late", first),
    )
    grading = Grading(LESSONS, students, {}, SEED, {"gemm_lessons": "0.1.0"}, dict.fromkeys(LESSONS, "cd" * 32))
    return gradebook_of(grading, grades)
