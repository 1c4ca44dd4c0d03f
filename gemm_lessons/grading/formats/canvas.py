"""The CSV file that Canvas imports in its gradebook: a row for each student, a column for each lesson.

Students are found by ID, SIS User ID or SIS Login ID. A column whose name no assignment has makes a new assignment, of
as many points as the second row says. Source: "How do I import grades in the Gradebook?" in the Canvas Instructor
Guide, and app/models/gradebook_importer.rb of https://github.com/instructure/canvas-lms.
"""

from __future__ import annotations

from collections.abc import Mapping

from gemm_lessons.grading.escaping import amount, cell, csv_text
from gemm_lessons.grading.gradebook import Gradebook, GradebookRow

COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
POSSIBLE = "    Points Possible"  # as Canvas writes it


def files(book: Gradebook, _environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``grades.csv`` of the whole class."""
    rows = [[*COLUMNS, *book.lessons], [POSSIBLE, "", "", "", "", *map(amount, book.out_of)]]
    for row in book.rows:
        points = [amount(grade.points) if grade and grade.judged else "" for grade in row.grades]
        rows.append([*map(cell, _student(row)), *points])
    return {"grades.csv": csv_text(rows)}


def _student(row: GradebookRow) -> list[str]:
    """Return the student's columns: Canvas's own where the class list has them, as its export of the gradebook does."""
    student, roster = row.student, {key.lower(): it for key, it in row.student.roster.items()}
    its = [roster.get(name.lower(), "") for name in COLUMNS[1:]]
    if not any(its[:3]):
        its[1 if student.id.isdigit() else 2] = student.id
    return [student.name or student.id, *its]
