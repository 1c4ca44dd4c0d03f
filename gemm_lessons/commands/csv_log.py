"""A CSV file to which a long command appends lines, so that it can continue after an interruption."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gemm_lessons.course import CommandError, ReadError, shown, writing


def append_lines(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Append rows to the file; a new file gets its header first. Raise ``WriteError``."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            file.seek(0, os.SEEK_END)
            if not file.tell():
                writer.writeheader()
            elif not _ends_with_newline(path):
                file.write("\n")  # the last line was incomplete when the command stopped
            writer.writerows(rows)


def read_lines(path: Path, command: str, headers: Sequence[tuple[str, ...]]) -> list[dict[str, str]]:
    """Return the complete lines of a file of ``command``. Raise ``CommandError`` if it has none of the ``headers``."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            header = tuple(next(rows, headers[0]))
            if header not in headers:
                raise CommandError(
                    f"{shown(path)} is not a file of gemm-lessons {command}; name another one with --csv"
                )
            return [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
    except (UnicodeDecodeError, csv.Error):
        raise CommandError(f"{shown(path)} is not a CSV file; name another one with --csv") from None
    except OSError as error:
        raise ReadError(path, error) from None


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
