"""Gradescope's ``results.json``, by https://gradescope-autograders.readthedocs.io/en/latest/specs/ (output format).

All texts have the format ``text``, so that neither HTML nor Markdown nor ANSI in them is rendered. What the autograder
prints is for instructors alone: ``stdout_visibility`` is ``hidden``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gemm_lessons.grading.escaping import amount, one_line
from gemm_lessons.grading.formats.lines import lines_of
from gemm_lessons.grading.gradebook import Gradebook, GradebookRow


def files(book: Gradebook, _environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``STUDENT/results.json`` of every student."""
    return {f"{row.student.folder}/results.json": _text(results(book, row)) for row in book.rows}


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def results(book: Gradebook, row: GradebookRow) -> dict[str, Any]:
    """Return the object of ``results.json``."""
    remarks = [one_line(remark) for remark in row.student.remarks]
    return {
        "score": round(row.points, 2),
        "execution_time": round(row.seconds, 1),
        "output": "\n".join([f"{amount(row.points)} of {amount(book.total)} points", *remarks]),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [
            {
                "score": round(line.points, 2),
                "max_score": round(line.out_of, 2),
                "status": "passed" if line.kind == "passed" else "failed",
                "name": line.title,
                "name_format": "text",
                "number": f"{int(line.lesson[:2])}.{number}",
                "output": line.output,
                "output_format": "text",
                "tags": [line.lesson],
                "visibility": "visible",
            }
            for line, number in _numbered(book, row)
        ],
    }


def _numbered(book: Gradebook, row: GradebookRow) -> Any:
    number, before = 0, ""
    for line in lines_of(book, row):
        number = number + 1 if line.lesson == before else 1
        before = line.lesson
        yield line, number
