"""Read the class list, a CSV file that identifies students and shows who submitted nothing.

id,name,email,group          folders are named by id; any further columns are kept unchanged
ana,Ana Lima,ana@uni.example,2
"""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from gemm_lessons.course import CommandError, shown
from gemm_lessons.engine.records import dataclass
from gemm_lessons.grading.archives import printable
from gemm_lessons.grading.tables import separator_of, table_text

COLUMNS = {  # column names of learning platforms
    "id": ("id", "student id", "student", "sis user id", "sid", "login", "username", "user"),
    "name": ("name", "full name", "student name"),
    "email": ("email", "e-mail", "email address", "mail"),
}


@dataclass(frozen=True)
class Enrolled:
    """A line of the class list. ``more`` holds the extra columns."""

    id: str
    name: str | None = None
    email: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Roster:
    """The class list in its original order."""

    students: tuple[Enrolled, ...] = ()

    def find(self, name: str, number: str = "") -> Enrolled | None:
        """Return the student that a folder or file name denotes, by id, email address, or name in any order of its
        words. Return None if no student or more than one fits."""
        said = [_plain(name), _plain(number)] if number else [_plain(name)]
        for keys in (_ids, _addresses, _names):
            fits = [student for student in self.students if set(said) & keys(student)]
            if fits:
                return fits[0] if len(fits) == 1 else None
        return None


def _ids(student: Enrolled) -> set[str]:
    return {_plain(student.id), *(_plain(value) for value in student.more.values() if value.isdigit())}


def _addresses(student: Enrolled) -> set[str]:
    email = (student.email or "").lower()
    return {_plain(email), _plain(email.partition("@")[0])} - {""}


def _names(student: Enrolled) -> set[str]:
    """Return the forms of a student's name: ``Ana Lima``, ``Lima, Ana``, and Canvas's ``limaana``."""
    words = _words(student.name or "")
    if not words:
        return set()
    rotated = [words[-1], *words[:-1]]
    return {" ".join(words), " ".join(rotated), "".join(rotated), "".join(words)}


def _plain(text: str) -> str:
    return " ".join(_words(text))


def _words(text: str) -> list[str]:
    """Split text into lower-case words without accents; every other character than a letter or digit separates."""
    split = unicodedata.normalize("NFKD", text).casefold()
    kept = "".join(it if it.isalnum() else " " for it in split if not unicodedata.combining(it))
    return kept.split()


def load_roster(path: Path) -> Roster:
    """Read a class list separated by commas, semicolons or tabs. Raises ``CommandError`` with file and line."""
    return Roster(tuple(_read(path, table_text(path, "a class list"))))


def _read(path: Path, text: str) -> list[Enrolled]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator_of(text), strict=True)
    found: dict[str, Enrolled] = {}
    lines: dict[str, int] = {}
    header: list[str] = []
    try:
        for fields in reader:
            line = reader.line_num
            if not any(value.strip() for value in fields):
                continue
            if not header:
                header = [printable(value.strip()) for value in fields]
                _check(path, line, header)
                continue
            if len(fields) != len(header):
                count = f"{len(fields)} field{'s'[: len(fields) != 1]}"
                raise CommandError(f"{shown(path)}:{line}: {count}, but the first line names {len(header)} columns")
            student = _student(header, [printable(value.strip()) for value in fields])
            if not student.id:
                raise CommandError(f"{shown(path)}:{line}: a student without an id; write one, or delete the line")
            if student.id in found:
                raise CommandError(f"{shown(path)}:{line}: the id {student.id!r} is also in line {lines[student.id]}")
            found[student.id], lines[student.id] = student, line
    except csv.Error as error:
        raise CommandError(f"{shown(path)}:{reader.line_num}: not valid CSV: {error}") from None
    if not header:
        raise CommandError(f"{shown(path)}:1: is empty; the first line names the columns, like id,name,email")
    return list(found.values())


def _check(path: Path, line: int, header: Sequence[str]) -> None:
    names = [name.lower() for name in header]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CommandError(f"{shown(path)}:{line}: two columns are named {twice!r}")
    if not any(name in COLUMNS["id"] for name in names):
        said = ", ".join(header) or "nothing"
        raise CommandError(f"{shown(path)}:{line}: no column is named id; the first line says: {said}")


def _student(header: Sequence[str], fields: Sequence[str]) -> Enrolled:
    values = dict(zip(header, fields, strict=True))
    known: dict[str, str] = {}
    for key, names in COLUMNS.items():
        column = next((column for name in names for column in header if column.lower() == name), None)
        if column is not None:
            known[key] = values.pop(column)
    return Enrolled(known["id"], known.get("name") or None, known.get("email") or None, values)
