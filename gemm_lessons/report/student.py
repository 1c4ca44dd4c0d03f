"""Write a student's report as JSON, Markdown and HTML: points, passed and failed parts with reasons, and hints.

    GradebookRow --student_report--> a record --> report.json, report.md, report.html

The record is built key by key from what a student may know: no seeds, no shapes, no counters of a run on hidden
inputs. A hint with a number that could reveal the hidden inputs is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gemm_lessons.grading import Grade, Gradebook, GradebookRow, amount, markdown, one_line
from gemm_lessons.report.template import asset, policy, rendered

SCHEMA = "gemm-lessons/report/1"
MOST = 8  # maximum diagnostics or findings of one lesson
SMALL = 8  # smaller numbers reveal nothing about a shape
HEADLINES = {
    "passed": "passed",
    "compile_failed": "does not compile",
    "faulted": "faulted",
    "wrong_answer": "wrong answer",
    "timed_out": "did not end in time",
    "gate_missed": "right answer, gate missed",
    "missing": "not handed in",
    "unreadable": "could not be read",
    "refused": "refused",
    "unsupported": "could not be judged",
    "kit_error": "could not be judged",
}
NOT_YET = "not judged yet"
NO_FAULT = "This is not your fault, and has cost you no points so far: your teacher can see it."


def student_report(book: Gradebook, row: GradebookRow) -> dict[str, Any]:
    """Return everything that a student may know, each text as one printable line."""
    pairs = zip(book.lessons, book.out_of, row.grades, strict=True)
    return {
        "schema": SCHEMA,
        "student": one_line(row.student.id),
        "name": one_line(row.student.name) if row.student.name else None,
        "points": round(row.points, 2),
        "out_of": round(book.total, 2),
        "remarks": [one_line(remark) for remark in row.student.remarks],
        "lessons": [_lesson(lesson, worth, grade) for lesson, worth, grade in pairs],
        "versions": {name: one_line(str(version)) for name, version in book.grading.versions.items()},
    }


def _lesson(lesson: str, worth: float, grade: Grade | None) -> dict[str, Any]:
    number, _, name = lesson.partition("_")
    title = f"{number} {name.replace('_', ' ')}"
    if grade is None:
        grade = Grade("", lesson, "missing", 0.0, worth, NOT_YET)
        headline = NOT_YET
    else:
        headline = HEADLINES.get(grade.verdict or grade.status, one_line(grade.verdict or grade.status))
    outcome = grade.outcome or {}
    return {
        "lesson": lesson,
        "title": title,
        "status": grade.status,
        "headline": headline,
        "passed": grade.judged and grade.points >= grade.out_of,
        "points": round(grade.points, 2),
        "out_of": round(grade.out_of, 2),
        "message": one_line(grade.message if grade.judged else f"{NO_FAULT} {grade.message}"),
        "file": one_line(grade.file) if grade.file else None,
        "sha256": grade.sha256,
        "parts": [
            {
                "name": one_line(it.name), "points": round(it.points, 2), "out_of": round(it.out_of, 2),
                "passed": it.passed, "why": one_line(it.why),
            }
            for it in grade.parts
        ],
        "compiler": [
            {"line": it.get("line"), "message": one_line(str(it.get("message", "")))}
            for it in _of(_of(outcome, "compile", {}), "diagnostics", [])[:MOST]
        ],
        "findings": [
            {"line": it.get("line"), "kind": one_line(str(it.get("kind", "")).replace("_", " "))}
            for it in _of(outcome, "findings", [])[:MOST]
        ],
        "gates": [
            {"name": one_line(str(it["name"])), "value": it["value"], "limit": it["limit"], "passed": it["passed"]}
            for it in _of(outcome, "gates", [])
        ],
        "hints": [one_line(hint) for hint in _of(outcome, "hints", []) if not _tells(hint, grade)],
    }  # fmt: skip


def _of(record: Mapping[str, Any], key: str, default: Any) -> Any:
    return record.get(key) or default


def _tells(text: str, grade: Grade) -> bool:
    """Return whether a text has a number that could reveal the hidden inputs."""
    shown = {(it["m"], it["n"], it["k"]) for it in _of(grade.outcome or {}, "shapes", []) if not it.get("hidden")}
    hidden = {*grade.case.count_shapes, *grade.case.check_shapes} - shown
    revealing = {grade.case.seed, *_sizes(hidden)} - set(_sizes(shown))
    numbers = {int(digits.replace(",", "")) for digits in re.findall(r"\d[\d,]*", text)}
    return any(it >= SMALL and it & (it - 1) and it in revealing for it in numbers)  # tile sizes are powers of two


def _sizes(shapes: Iterable[tuple[int, int, int]]) -> Iterator[int]:
    for m, n, k in shapes:
        yield from (size + by for size in (m, n, k, m * n, m * k, k * n) for by in (-1, 0, 1))


# -- Markdown ----------------------------------------------------------------------------------------------------------


def as_markdown(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown; text of the submission is escaped."""
    return "\n".join(_markdown(report)) + "\n"


def _markdown(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {markdown(report['name'] or report['student'])}: {_points(report)}"
    yield ""
    yield "| lesson | points | |"
    yield "|---|---|---|"
    for it in report["lessons"]:
        points = f"{amount(it['points'])} / {amount(it['out_of'])}"
        yield f"| {markdown(it['title'])} | {points} | {markdown(it['headline'])} |"
    for remark in report["remarks"]:
        yield f"\n{markdown(remark)}"
    for it in report["lessons"]:
        yield f"\n## {markdown(it['title'])}: {markdown(it['headline'])}, {_points(it)}"
        if it["message"]:
            yield f"\n{markdown(it['message'])}"
        if it["parts"]:
            yield "\n| part | points | |\n|---|---|---|"
            for part in it["parts"]:
                points = f"{amount(part['points'])} / {amount(part['out_of'])}"
                mark = "✓" if part["passed"] else "✗"
                yield f"| {mark} {markdown(part['name'])} | {points} | {markdown(part['why'])} |"
        for heading, lines in _details(it):
            yield f"\n{heading}:\n"
            yield from (f"- {markdown(line)}" for line in lines)
        if it["file"] and it["sha256"]:
            yield f"\nJudged: {markdown(it['file'])}, SHA-256 {it['sha256']}"
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    if versions:
        yield f"\nBy: {markdown(versions)}"


def _points(it: Mapping[str, Any]) -> str:
    return f"{amount(it['points'])} of {amount(it['out_of'])} points"


def _details(it: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the non-empty lists below a lesson's parts, each with its heading."""
    parts = {part["name"] for part in it["parts"]}  # gates with points are listed among the parts
    lists = {
        "The compiler says": [_at(found["line"], found["message"]) for found in it["compiler"]],
        "Found": [_at(found["line"], found["kind"]) for found in it["findings"]],
        "Gates": [gate_line(gate) for gate in it["gates"] if gate["name"] not in parts],
        "Hints": list(it["hints"]),
    }
    yield from ((heading, lines) for heading, lines in lists.items() if lines)


def _at(line: int | None, text: str) -> str:
    return f"line {line}: {text}" if line else text


def gate_line(gate: Mapping[str, Any]) -> str:
    """Format a gate: ``barriers per K tile: 3, limit 2 (missed)``."""
    value = "not known" if gate["value"] is None else f"{gate['value']:.4g}"
    word = {True: "met", False: "missed", None: "not judged"}[gate["passed"]]
    return f"{gate['name']}: {value}, limit {gate['limit']:.4g} ({word})"


# -- a page, JSON ------------------------------------------------------------------------------------------------------


def as_page(report: Mapping[str, Any]) -> str:
    """Return the report as a self-contained HTML page without scripts."""
    style = asset("site.css") + asset("grades.css")
    return rendered(
        "student.html.jinja",
        report=report,
        details={it["lesson"]: list(_details(it)) for it in report["lessons"]},
        amount=amount,
        style=style,
        policy=policy(style=style),
    )


def as_text(report: Mapping[str, Any]) -> str:
    """Return the record as JSON text."""
    return json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
