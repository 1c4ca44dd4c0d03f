"""``grades.csv``: one row a student, for a spreadsheet.

It begins with the mark by which Excel knows UTF-8, and no cell begins as a formula does; a student called ``=cmd`` has
an apostrophe before the name.
"""

from __future__ import annotations

from collections.abc import Sequence

from gemm_lessons.grading.escaping import cell, csv_text
from gemm_lessons.grading.gradebook import Gradebook

MARK = "\ufeff"


def grades_csv(book: Gradebook) -> str:
    """Return the whole file. Names are quoted, points are numbers."""
    extra = list(dict.fromkeys(key for row in book.rows for key in row.student.roster))
    head = ["student", "name", "email", *extra, *book.lessons, "total", "out_of", "status"]
    rows: list[Sequence[object]] = [[cell(name) for name in head]]
    for row in book.rows:
        student = row.student
        known = [student.id, student.name or "", student.email or "", *(student.roster.get(key, "") for key in extra)]
        points = [round(grade.points, 2) if grade else "" for grade in row.grades]
        total = [round(row.points, 2), round(book.total, 2)]
        rows.append([*map(cell, known), *points, *total, cell(book.status(row))])
    return MARK + csv_text(rows, quoted=True, end="\r\n")
