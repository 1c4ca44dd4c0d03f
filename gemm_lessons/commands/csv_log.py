"""Lines of a CSV file that a long command appends, and continues after an interruption."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gemm_lessons.course.folder import writing


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


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
