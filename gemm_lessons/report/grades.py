"""Write the results of grading: a page for the teacher, and a report for each student.

    Gradebook, pairs --write_pages--> OUT/index.html, OUT/reports/STUDENT/report.{html,md,json}

The teacher's page is one self-contained file: no network, and only an inline script that sorts tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gemm_lessons.grading import (
    REACHED,
    REFERENCE,
    Gradebook,
    GradebookRow,
    SimilarPair,
    amount,
    middle,
    one_line,
    reached,
    slowest,
    spread,
    stumbles,
    write_text,
)
from gemm_lessons.report.student import HEADLINES, as_markdown, as_page, as_text, student_report
from gemm_lessons.report.template import asset, policy, rendered

KEYS = {
    "full": "all points",
    "some": "some points",
    "none": "no points",
    "gone": "not handed in",
    "open": "not judged",
}
SHOWN = {"gone": "-", "open": "?"}
MOST_PAIRS = 50
WIDE, HIGH = 420, 170
LEFT, TOP, BOTTOM = 30, 16, 34
GAP = 4


def write_pages(book: Gradebook, out: Path, pairs: Sequence[SimilarPair] | None = None) -> list[Path]:
    """Write all pages, the teacher's first. ``pairs`` is None without a comparison. Raises ``WriteError``."""
    made = [write_text(out / "index.html", class_page(book, pairs))]
    for row in book.rows:
        report, folder = student_report(book, row), out / "reports" / row.student.folder
        made += [
            write_text(folder / f"report.{kind}", text(report))
            for kind, text in (("html", as_page), ("md", as_markdown), ("json", as_text))
        ]
    return made


def class_page(book: Gradebook, pairs: Sequence[SimilarPair] | None = None) -> str:
    """Return the teacher's page."""
    style, script = asset("site.css") + asset("grades.css"), asset("sort.js")
    titles = {lesson: _title(lesson) for lesson in book.lessons}
    return rendered(
        "class.html.jinja",
        book=book,
        titles=titles,
        figures=_figures(book),
        troubles=list(_troubles(book)),
        histogram=histogram(spread(book), "part of all points"),
        lessons=list(_lessons(book)),
        keys=list(KEYS.items()),
        stumbles=stumbles(book),
        rows=[_row(book, row) for row in book.rows],
        slow=[
            (one_line(it.student), titles[it.lesson], f"{it.seconds:.1f}", HEADLINES.get(ended, one_line(ended)))
            for it in slowest(book)
            for ended in (it.verdict or it.status,)
        ],
        reference=REFERENCE,
        pairs=pairs if pairs is None else [_pair(it) for it in pairs[:MOST_PAIRS]],
        more_pairs=len(pairs or ()) - MOST_PAIRS,
        versions=[(name, one_line(str(version))) for name, version in book.grading.versions.items()],
        remarks=[one_line(it) for it in book.grading.remarks],
        style=style,
        script=script,
        policy=policy(style=style, script=script),
    )


def _title(lesson: str) -> str:
    number, _, name = lesson.partition("_")
    return f"{number} {name.replace('_', ' ')}"


def _figures(book: Gradebook) -> Sequence[tuple[str, str]]:
    totals = [row.points for row in book.rows]
    mean = sum(totals) / len(totals) if totals else 0.0
    judged = sum(reached(grade) not in SHOWN for row in book.rows for grade in row.grades)
    return [
        (str(len(totals)), "students"),
        (str(judged), "submissions judged"),
        (amount(mean), f"mean of {amount(book.total)} points"),
        (amount(middle(totals)), "median"),
        (str(sum(total >= book.total > 0 for total in totals)), "with all points"),
    ]


def _troubles(book: Gradebook) -> Iterator[tuple[str, str, str, str]]:
    """Yield the cases for manual review: student, lesson, status, reason."""
    for row in book.rows:
        who = one_line(row.student.id)
        for remark in row.student.remarks:
            yield who, "", "remark", one_line(remark)
        for lesson, grade in zip(book.lessons, row.grades, strict=True):
            if grade is None:
                yield who, _title(lesson), "not judged yet", ""
            elif grade.status not in ("graded", "missing"):
                yield who, _title(lesson), grade.status.replace("_", " "), one_line(grade.message)
            else:
                for remark in grade.look_at:
                    yield who, _title(lesson), "look at it", one_line(remark)


def _lessons(book: Gradebook) -> Iterator[tuple[str, str, str, str]]:
    """Yield for each lesson: title, bar, mean, maximum points."""
    for i, (lesson, worth) in enumerate(zip(book.lessons, book.out_of, strict=True)):
        grades = [row.grades[i] for row in book.rows]
        states = [reached(grade) for grade in grades]
        points = [grade.points for grade in grades if grade and grade.judged]
        mean = amount(sum(points) / len(points)) if points else "-"
        yield _title(lesson), bar({name: states.count(name) for name in REACHED}, len(states)), mean, amount(worth)


def _row(book: Gradebook, row: GradebookRow) -> dict[str, Any]:
    cells = []
    for grade in row.grades:
        state = reached(grade)
        points = round(grade.points, 2) if grade else 0.0
        cells.append((state, points if state not in SHOWN else -1, SHOWN.get(state) or amount(points)))
    return {
        "id": one_line(row.student.id),
        "name": one_line(row.student.name) if row.student.name else "",
        "link": f"reports/{quote(row.student.folder)}/report.html",
        "cells": cells,
        "total": amount(row.points),
        "status": one_line(book.status(row)),
    }


def _pair(pair: SimilarPair) -> dict[str, Any]:
    def shown(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        return [(number, _code(text)) for number, text in lines]

    return {
        "lesson": pair.lesson,
        "first": one_line(pair.first),
        "second": one_line(pair.second),
        "share": pair.share,
        "first_lines": shown(pair.first_lines),
        "second_lines": shown(pair.second_lines),
    }


def _code(text: str) -> str:
    """Return a line of code as HTML that keeps its indentation."""
    inside = text.lstrip(" \t")
    return " " * min(40, len(text.expandtabs(4)) - len(inside.expandtabs(4))) + one_line(inside)


def histogram(counts: Sequence[int], unit: str) -> str:
    """Draw a histogram of 0 to 100% with equal bins, each with its count above."""
    most = max([*counts, 1])
    step = (WIDE - LEFT) / len(counts)
    floor = HIGH - BOTTOM
    parts = [f'<line class="grid" x1="{LEFT}" x2="{WIDE}" y1="{floor}" y2="{floor}"/>']
    for i, count in enumerate(counts):
        x, high = LEFT + i * step, (floor - TOP) * count / most
        if count:
            parts.append(
                f'<rect class="column" x="{x + GAP / 2:.1f}" y="{floor - high:.1f}" width="{step - GAP:.1f}" '
                f'height="{high:.1f}"/>'
            )
            parts.append(f'<text x="{x + step / 2:.1f}" y="{floor - high - 4:.1f}" text-anchor="middle">{count}</text>')
        if i % 2 == 0:
            parts.append(f'<text x="{x:.1f}" y="{floor + 14}" text-anchor="middle">{100 * i // len(counts)}%</text>')
    parts.append(f'<text x="{WIDE}" y="{floor + 14}" text-anchor="end">100%</text>')
    parts.append(f'<text x="{(LEFT + WIDE) / 2}" y="{HIGH - 4}" text-anchor="middle">{unit}</text>')
    told = ", ".join(f"{100 * i // len(counts)}%: {count}" for i, count in enumerate(counts) if count)
    label = f"How many students have what part of all points, from {told}"
    return f'<svg class="histogram" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def bar(parts: Mapping[str, int], of: int) -> str:
    """Draw one stacked bar; the name of a part is its CSS class."""
    x, made = 0.0, []
    for name, count in parts.items():
        wide = 100 * count / of if of else 0
        if count:
            made.append(f'<rect class="{name}" x="{x:.2f}" y="0" width="{wide:.2f}" height="10"/>')
        x += wide
    label = ", ".join(f"{name} {count}" for name, count in parts.items() if count)
    return (
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"{''.join(made)}</svg>"
    )
