"""Merge the grades of several shards into one folder, if they share class, rubric and versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gemm_lessons.course import CommandError, shown
from gemm_lessons.grading.results import (
    Grade,
    GradedStudent,
    Grading,
    load_grade,
    load_grades,
    load_grading,
    save_grade,
    save_grading,
)
from gemm_lessons.grading.sources import keep_source, load_source

ALIKE = {  # what shards must agree on, in the words of the error message
    "lessons": "other lessons",
    "rubric": "another grading.toml",
    "seed": "another seed",
    "versions": "other versions of the kit, the compiler or NumPy",
    "lesson_hashes": "lessons that differ",
}


def merge_shards(folders: Sequence[Path], out: Path) -> tuple[str, ...]:
    """Copy all grades to ``out``; return a sentence per missing part. Raises ``CommandError`` if shards differ."""
    gradings = [load_grading(folder) for folder in folders]
    first = gradings[0]
    for folder, grading in zip(folders, gradings, strict=True):
        for key, words in ALIKE.items():
            if _compared(grading, key) != _compared(first, key):
                raise CommandError(f"{shown(folder)} was graded with {words} than {shown(folders[0])}; grade it again")
        if [it.id for it in grading.students] != [it.id for it in first.students]:
            raise CommandError(f"{shown(folder)} has other students than {shown(folders[0])}; grade it again")
    found: dict[tuple[str, str], tuple[Path, Grade]] = {}
    for folder, grading in zip(folders, gradings, strict=True):
        for grade in load_grades(folder, grading):
            other = found.setdefault((grade.student, grade.lesson), (folder, grade))
            if replace(grade, seconds=0, versions={}) != replace(other[1], seconds=0, versions={}):
                raise CommandError(
                    f"{shown(other[0])} and {shown(folder)} have different grades for {grade.student}, lesson "
                    f"{grade.lesson}; merge only one of them"
                )
    save_grading(out, replace(first, shard=None, students=tuple(map(_student, zip(*(it.students for it in gradings),
                                                                                  strict=True)))))  # fmt: skip
    for folder, grade in found.values():
        if load_grade(out, grade.student, grade.lesson) != grade:
            save_grade(out, grade)
        if (data := load_source(folder, grade)) is not None:
            keep_source(out, grade.student, grade.lesson, data)
    return _missing(gradings, set(found))


def _compared(grading: Grading, key: str) -> object:
    value = getattr(grading, key)
    return {name: it for name, it in value.items() if name != "python"} if key == "versions" else value


def _student(records: Sequence[GradedStudent]) -> GradedStudent:
    """Merge the records of one student, with the remarks of all shards."""
    said = dict.fromkeys(remark for record in records for remark in record.remarks)
    return replace(records[0], remarks=tuple(said))


def _missing(gradings: Sequence[Grading], found: set[tuple[str, str]]) -> tuple[str, ...]:
    first = gradings[0]
    absent = sum((student.id, lesson) not in found for student in first.students for lesson in first.lessons)
    if not absent:
        return ()
    total = len(first.students) * len(first.lessons)
    parts = {grading.shard for grading in gradings if grading.shard}
    whole = {number for _, number in parts}
    of = max(whole, default=0)
    lost = [f"{number}/{of}" for number in range(1, of + 1) if (number, of) not in parts] if len(whole) == 1 else []
    which = f"; shard {', '.join(lost)} is not among the folders" if lost else "; a shard was not graded to its end"
    return (f"{absent} of {total} grades are missing{which}",)
