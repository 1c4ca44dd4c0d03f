"""Classroom 50's ``result.json`` (``classroom50/result/v1``): what an autograder leaves in the student's checkout.

By https://github.com/foundation50/classroom50, ``schemas/result-v1.schema.json`` and the wiki's "Advanced Autograding".
Its runner sets ``NEEDED``, and overwrites the fields that it calls authoritative (owner, type, dates). Points are whole
numbers there, and those of a lesson's parts need not be, so a lesson is one test: its points are rounded, halves up,
but only a kernel with all points gets the maximum.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from gemm_lessons.course import CommandError
from gemm_lessons.grading.escaping import amount, one_line
from gemm_lessons.grading.formats.lines import TestLine, lines_of
from gemm_lessons.grading.gradebook import Gradebook, GradebookRow

ROUNDOFF = 1e-9
NEEDED = ("CLASSROOM", "ASSIGNMENT", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL")


def files(book: Gradebook, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``STUDENT/result.json``. Raises ``CommandError`` for more than one student: a runner has one."""
    if len(book.rows) != 1:
        raise CommandError(f"the format classroom50 is for one submission, here are {len(book.rows)}")
    row = book.rows[0]
    text = json.dumps(result(book, row, environment), indent=2, ensure_ascii=False) + "\n"
    return {f"{row.student.folder}/result.json": text}


def result(book: Gradebook, row: GradebookRow, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the object of ``result.json``."""
    tests = [_test(lesson, list(lines)) for lesson, lines in groupby(lines_of(book, row), lambda line: line.lesson)]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "schema": "classroom50/result/v1",
        "classroom": environment["CLASSROOM"],
        "assignment": environment["ASSIGNMENT"],
        "assignment_type": environment.get("ASSIGNMENT_TYPE") or "individual",
        "owner": environment.get("OWNER") or environment.get("USERNAME") or one_line(row.student.id),
        "submission": environment["SUBMISSION_TAG"],
        "commit": environment["COMMIT_URL"],
        "release": environment["RELEASE_URL"],
        "review": environment.get("REVIEW_URL") or environment["COMMIT_URL"],
        "datetime": now,
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }


def _test(lesson: str, lines: Sequence[TestLine]) -> dict[str, Any]:
    points, out_of = sum(line.points for line in lines), sum(line.out_of for line in lines)
    full, most = points >= out_of - ROUNDOFF, math.floor(out_of + 0.5 + ROUNDOFF)
    number, _, name = lesson.partition("_")
    return {
        "test-name": f"{number} {name}",
        "passed": all(line.kind == "passed" for line in lines),
        "score": most if full else min(math.floor(points + 0.5 + ROUNDOFF), max(0, most - 1)),
        "max-score": most,
        "message": "\n".join(
            f"{line.name}, {amount(line.points)} of {amount(line.out_of)}: {line.output}" for line in lines
        ),
    }
