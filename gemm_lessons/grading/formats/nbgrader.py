"""The CSV file that ``nbgrader export`` writes: a row for each assignment and student, assignments outermost.

Columns and values as in ``CsvExportPlugin`` of
https://github.com/jupyter/nbgrader/blob/main/nbgrader/plugins/export.py; a submission that is not there has no
timestamp and 0.0 points. A lesson is an assignment. Unlike there, a cell with a comma is quoted, and none begins a
formula.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gemm_lessons.grading.escaping import cell, csv_text
from gemm_lessons.grading.gradebook import Gradebook

COLUMNS = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score",
    "late_submission_penalty", "score", "max_score",
)  # fmt: skip


def files(book: Gradebook, _environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``grades.csv`` of the whole class."""
    rows: list[Sequence[object]] = [COLUMNS]
    for i, (lesson, worth) in enumerate(zip(book.lessons, book.out_of, strict=True)):
        for row in book.rows:
            student, grade = row.student, row.grades[i]
            points, late = (round(grade.points, 2), round(grade.penalty, 2)) if grade else (0.0, 0.0)
            # A roster may know which part of a name is which; the kit does not.
            last, first = student.roster.get("last_name", ""), student.roster.get("first_name", "")
            if not (last or first):
                first = student.name or ""
            who = map(cell, (student.id, last, first, student.email or ""))
            rows.append([lesson, "", "", *who, round(points + late, 2), late, points, round(worth, 2)])
    return {"grades.csv": csv_text(rows)}
