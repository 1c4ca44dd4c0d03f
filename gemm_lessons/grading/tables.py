"""The text of a table that a teacher wrote: CSV in UTF-8, separated by commas, semicolons or tabs."""

from __future__ import annotations

from pathlib import Path

from gemm_lessons.course import CommandError, reading, shown
from gemm_lessons.grading.archives import MIB

LARGEST = 8 * MIB


def table_text(path: Path, what: str) -> str:
    """Return the text of ``what`` ("a class list"). Raise ``CommandError`` with file and line, or ``ReadError``."""
    with reading(path), path.open("rb") as file:
        raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise CommandError(f"{shown(path)}: larger than {LARGEST // MIB} MB; is it {what}?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise CommandError(f"{shown(path)}:{line}: not UTF-8 text; save it as CSV UTF-8") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise CommandError(f"{shown(path)}:{line}: holds a zero byte; is it a CSV file?")
    return text


def separator_of(text: str) -> str:
    """Return the character that separates the fields of the first line."""
    return max(",;\t", key=text.partition("\n")[0].count)
