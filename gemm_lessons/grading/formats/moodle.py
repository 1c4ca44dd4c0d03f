"""The CSV file that Moodle imports under Grades > Import > CSV file: a row for each student, a column for each lesson.

User columns are named as Moodle's own export names them, so that "Map from" and "Map to" find them. A column of a
lesson can be mapped to a grade item or make a new one; that of its feedback belongs to "Feedback for ...". An empty
cell changes nothing. Sources: https://docs.moodle.org/en/Grade_import, grade/import/csv of
https://github.com/moodle/moodle.
"""

from __future__ import annotations

from collections.abc import Mapping

from gemm_lessons.grading.escaping import cell, csv_text
from gemm_lessons.grading.formats.lines import lines_of
from gemm_lessons.grading.gradebook import Gradebook, GradebookRow

USER = ("First name", "Last name", "ID number", "Username", "Email address")
KEYS = ("first_name", "last_name", "id_number", "username")  # columns of the class list, if it has them


def files(book: Gradebook, _environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``grades.csv`` of the whole class."""
    rows = [[*USER, *(name for lesson in book.lessons for name in (lesson, f"Feedback: {lesson}"))]]
    for row in book.rows:
        feedback = _feedback(book, row)
        grades = zip(book.lessons, row.grades, strict=True)
        cells = [it for lesson, grade in grades for it in (
            f"{grade.points:.2f}" if grade and grade.judged else "", cell(feedback.get(lesson, "")))]  # fmt: skip
        rows.append([*map(cell, _user(row)), *cells])
    return {"grades.csv": csv_text(rows)}


def _user(row: GradebookRow) -> list[str]:
    """Return name, id and address; the id is also the user name if it is not a number."""
    student, roster = row.student, {key.lower().replace(" ", "_"): it for key, it in row.student.roster.items()}
    first, last, number, user = (roster.get(key, "") for key in KEYS)
    if not (first or last):
        first, _, last = (student.name or "").rpartition(" ")
    return [
        first,
        last,
        number or student.id,
        user or ("" if student.id.isdigit() else student.id),
        student.email or "",
    ]


def _feedback(book: Gradebook, row: GradebookRow) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for line in lines_of(book, row):
        if line.kind != "passed" or line.out_of == 0:
            found.setdefault(line.lesson, []).append(line.output)
    return {lesson: " ".join(dict.fromkeys(texts)) for lesson, texts in found.items()}
