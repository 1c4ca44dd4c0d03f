"""Compute points from an outcome and a rubric, in parts, each with a reason that a student may read.

This is a pure function: the same outcome always gives the same points, and a change of points needs no new run. The
reasons name lines of the student's own file, shapes that the lesson's text names, and gates. They never name a hidden
shape or its values, or anything of the solution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from gemm_lessons.course import Gate, Lesson, id_of
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Shape
from gemm_lessons.grading.escaping import one_line
from gemm_lessons.grading.results import GradePart
from gemm_lessons.grading.rubric import LessonRubric, NearMiss

DIGITS = 4  # decimals of points; thirds of a point still add up
ELSEWHERE = "a shape that the lesson does not name"
LONGEST = 300  # maximum characters of a message


@dataclass(frozen=True)
class Scored:
    """The points of an outcome, with their parts and a message. ``look_at``: what the teacher should judge."""

    points: float
    parts: tuple[GradePart, ...]
    message: str
    look_at: tuple[str, ...] = ()


def score(outcome: Mapping[str, Any], lesson: Lesson, rubric: LessonRubric, near_miss: NearMiss) -> Scored:
    """Return the points for each stage that the kernel reached and for each of the lesson's gates."""
    verdict, points = outcome["verdict"], rubric.points
    compiled = verdict != "compile_failed"
    ran = compiled and verdict not in ("faulted", "timed_out")
    right = ran and verdict != "wrong_answer"
    why = _why(outcome, lesson)
    values = points.right_values + (0 if lesson.gates else points.gates)
    worth = points.of_gates(lesson)
    compiles, runs, values, *of_gates = _rounded(
        [points.compiles, points.runs, values, *(worth[gate.id] for gate in lesson.gates)]
    )
    parts = [
        _part("compiles", compiles, compiled, "it compiles" if compiled else why),
        _part("runs", runs, ran, "it finishes without a fault" if ran else _after(compiled, why)),
        _part("right values", values, right, f"right on {_shapes(outcome)}" if right else _after(ran, why)),
    ]
    judged = {gate.get("id") or id_of(gate["name"]): gate for gate in outcome["gates"]} if right else {}
    parts += [
        _gate(gate, most, judged.get(gate.id), near_miss, right)
        for gate, most in zip(lesson.gates, of_gates, strict=True)
    ]
    total = round(sum(part.points for part in parts), DIGITS)
    return Scored(total, tuple(parts), one_line(why)[:LONGEST], tuple(_unjudged(outcome)))


def out_of(lesson: Lesson, rubric: LessonRubric) -> float:
    """Return the maximum points of a lesson."""
    return round(rubric.points.out_of, DIGITS)


def _rounded(shares: Sequence[float]) -> list[float]:
    """Round shares so that they still add up to the same sum: seven sevenths of a point remain one point."""
    sums = [0.0, *(round(total, DIGITS) for total in accumulate(shares))]
    return [round(after - before, DIGITS) for before, after in pairwise(sums)]


def _part(name: str, most: float, passed: bool, why: str) -> GradePart:
    return GradePart(name, most if passed else 0.0, most, passed, one_line(why)[:LONGEST])


def _after(got_here: bool, why: str) -> str:
    return why if got_here else "it did not get that far"


def _gate(gate: Gate, most: float, judged: Mapping[str, Any] | None, near_miss: NearMiss, right: bool) -> GradePart:
    if judged is None:
        why = "it was not judged" if right else "counted for right values only"
        return GradePart(gate.name, 0.0, most, False, why)
    value = judged["value"]
    if judged["passed"] is None:
        why = f"all points, not judged: {judged.get('note') or 'it has no value'}. Your teacher sees this."
        return GradePart(gate.name, most, most, True, one_line(why)[:LONGEST])
    limit = gate.limit.replace("<=", "at most").replace(">=", "at least")
    if judged["passed"]:
        return GradePart(gate.name, most, most, True, f"{_number(value)}; it must be {limit}")
    where = f"on {ELSEWHERE} it is" if judged.get("hidden") else "it is"
    said = f"{where} {_number(value)}; it must be {limit}. {gate.why}"
    if near_miss.worth and value is not None and _near(float(value), gate, near_miss.within):
        return GradePart(gate.name, round(most * near_miss.worth, DIGITS), most, False, f"nearly: {said}")
    return GradePart(gate.name, 0.0, most, False, said)


def _unjudged(outcome: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on gates that could not be judged, lanes that a GPU may group otherwise, and shapes not checked. None
    costs points: the kit's limits."""
    for gate in outcome["gates"]:
        if gate["passed"] is None:
            yield one_line(f"gate not judged, look at it: {gate['name']}: {gate.get('note') or 'no reason'}")[:LONGEST]
    if (asks := next((it for it in outcome.get("findings", ()) if it.get("kind") == "active_lanes"), None)) is not None:
        yield f"line {asks['line']}: which lanes run together (__activemask) decides what the kernel does, look at it"
    if not _is_finished(outcome):
        yield "right values, look at them: the kernel was too slow, or needed too much memory, for the largest shapes"


def _is_finished(outcome: Mapping[str, Any]) -> bool:
    return not any(it.get("kind") == "not_finished" for it in outcome.get("findings", ()))


def _shapes(outcome: Mapping[str, Any]) -> str:
    """Return the shapes on which a right kernel was checked, in words."""
    return "every shape" if _is_finished(outcome) else "every shape that it finished within the limits"


def _near(value: float, gate: Gate, within: float) -> bool:
    if gate.at_most is not None:
        return value <= gate.at_most * (1 + within)
    return gate.at_least is not None and value >= gate.at_least * (1 - within)


def _number(value: float | None) -> str:
    return "no number" if value is None else f"{value:.4g}"


def _why(outcome: Mapping[str, Any], lesson: Lesson) -> str:
    """Return one line about the result of the kernel."""
    verdict = outcome["verdict"]
    if verdict == "passed":
        if any(gate["passed"] is None for gate in outcome["gates"]):
            return "right on every shape; not every gate could be judged"
        return "right on every shape" + (", and every gate is met" if lesson.gates else "")
    if verdict == "gate_missed":
        names = [gate["name"] for gate in outcome["gates"] if gate["passed"] is False]
        return f"right on {_shapes(outcome)}, but not by the lesson's method: {', '.join(names)}"
    if verdict == "compile_failed":
        found = next(iter(outcome["compile"]["diagnostics"]), None)
        return f"it does not compile{f': {_at(found)}' if found else ''}"
    if verdict == "wrong_answer":
        return _wrong(outcome["shapes"], lesson)
    found = next((it for it in outcome["findings"] if it["severity"] == "error"), None)
    what = "it does not finish" if verdict == "timed_out" else "it was stopped by a fault"
    if outcome["shapes"] and not _named(outcome["shapes"], lesson):  # its numbers would reveal the shape
        line = found and found.get("line")
        return f"{what} on {ELSEWHERE}" + (f": line {line}" if line else "")
    return f"{what}: {_at(found)}" if found else what


def _at(found: Mapping[str, Any]) -> str:
    line = found.get("line")
    text = found["message"]
    return f"line {line}: {text}" if line else text


def _wrong(shapes: Sequence[Mapping[str, Any]], lesson: Lesson) -> str:
    named = _named(shapes, lesson)
    right = sum(it["verdict"] == "passed" for it in shapes)
    if not named:
        return f"it answers wrongly on {ELSEWHERE}" if right < len(shapes) else "it answers wrongly"
    some = f"; right on {right} of {len(shapes)} shapes" if right else ""
    return f"it answers wrongly at M x N x K = {', '.join(named)}{some}"


def _named(shapes: Sequence[Mapping[str, Any]], lesson: Lesson) -> list[str]:
    """Return the failed shapes that the lesson's text names."""
    known = {*lesson.shapes.check, lesson.shapes.count}
    failed = (Shape(it["m"], it["n"], it["k"]) for it in shapes if it["verdict"] != "passed" and not it.get("hidden"))
    return [str(shape) for shape in failed if shape in known]
