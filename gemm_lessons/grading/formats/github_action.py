"""What GitHub's autograding reporter reads, and a summary for the page of the workflow's run.

The reporter (https://github.com/classroom-resources/autograding-grading-reporter) takes the result of a step from
``ID_RESULTS``: an object with ``max_score``, ``status`` and ``tests``, in base64, as autograding-command-grader has it.
It sums up the ``score`` of the tests for Classroom; the table that it prints counts passed tests instead, which is the
same where a lesson has one part. It prints messages as they are, so each is one line: a second one could begin with
``::`` and be a command to the runner.

In a workflow, the result is also the step's output ``result``, and the summary is added to the run's page.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemm_lessons.course import writing
from gemm_lessons.grading.escaping import amount, markdown, one_line
from gemm_lessons.grading.formats.lines import TestLine, lines_of
from gemm_lessons.grading.gradebook import Gradebook, GradebookRow

STATUS = {"passed": "pass", "failed": "fail", "missing": "fail", "broken": "error"}
MARK = {"passed": "✅", "failed": "❌", "missing": "❌", "broken": "⚠️"}


def files(book: Gradebook, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``STUDENT/result.json``, the same as ``result.base64``, and ``summary.md``. For a single student, also add
    them to the workflow's output and summary."""
    made: dict[str, str] = {}
    for row in book.rows:
        text = json.dumps(result(book, row), ensure_ascii=False, allow_nan=False)
        coded, summary = base64.b64encode(text.encode()).decode(), summary_of(book, row)
        made |= {
            f"{row.student.folder}/{name}": content
            for name, content in (("result.json", text + "\n"), ("result.base64", coded), ("summary.md", summary))
        }
        if len(book.rows) == 1:
            _add(environment, "GITHUB_OUTPUT", f"result={coded}\n")
            _add(environment, "GITHUB_STEP_SUMMARY", summary)
    return made


def _add(environment: Mapping[str, str], name: str, text: str) -> None:
    if not (path := environment.get(name)):
        return
    with writing(Path(path)), Path(path).open("a", encoding="utf-8") as file:
        file.write(text)


def result(book: Gradebook, row: GradebookRow) -> dict[str, Any]:
    """Return the object that the reporter reads."""
    tests = [_test(line) for line in lines_of(book, row)]
    found = {test["status"] for test in tests}
    return {
        "version": 1,
        "status": next((status for status in ("error", "fail") if status in found), "pass"),
        "max_score": round(book.total, 2),
        "tests": tests,
    }


def _test(line: TestLine) -> dict[str, Any]:
    return {
        "name": line.title,
        "status": STATUS[line.kind],
        "score": round(line.points, 2),
        "message": one_line(line.output.replace("\n", "; ")),
        "test_code": "",
        "filename": "",
        "line_no": 0,
        "duration": round(1000 * line.seconds),  # milliseconds
    }


def summary_of(book: Gradebook, row: GradebookRow) -> str:
    """Return a table in Markdown: each part with its points."""
    head = f"## {markdown(row.student.id)}: {amount(row.points)} of {amount(book.total)} points"
    lines = []
    for it in lines_of(book, row):
        why = markdown(it.output.replace("\n", "; "))
        lines.append(f"| {MARK[it.kind]} {markdown(it.title)} | {amount(it.points)} / {amount(it.out_of)} | {why} |")
    return "\n".join([head, "", "| part | points | why |", "|---|---|---|", *lines, ""])
