"""The results of a search in a CSV file that a later search can continue: ``tune --csv``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any

from gemm_lessons.commands.csv_log import append_lines, read_lines
from gemm_lessons.engine.records import dataclass


@dataclass(frozen=True)
class Tuned:
    """The result for a candidate; times in us, speeds in 10^9 operations/s. ``why_not``: why it is omitted."""

    why_not: str = ""
    registers: int | None = None
    blocks_per_sm: int | None = None
    estimate_us: float | None = None
    estimate_gflops: float | None = None
    limiter: str = ""
    time_us: float | None = None  # measured: the median
    gflops: float | None = None
    of_cublas: float | None = None


@dataclass(frozen=True)
class TileCandidate:
    """Tile sizes, their compiled kernel (``kernel``: the fingerprint of source and sizes), and the result."""

    sizes: Mapping[str, int]
    kernel: str
    gpu: str
    shape: str
    tuned: Tuned = field(default=Tuned())

    @property
    def text(self) -> str:
        """Return ``BM=64 BN=128``."""
        return " ".join(f"{name}={size}" for name, size in self.sizes.items())

    @property
    def key(self) -> tuple[str, ...]:
        """Return the fields that identify a candidate."""
        return self.kernel, self.gpu, self.shape


KEY = ("kernel", "gpu", "shape")
COLUMNS = (*KEY, "tile", *(it.name for it in fields(Tuned)))
_NUMBERS: Mapping[str, type] = {
    "registers": int, "blocks_per_sm": int, "estimate_us": float, "estimate_gflops": float, "time_us": float,
    "gflops": float, "of_cublas": float,
}  # fmt: skip


class TuningBook:
    """The results so far, and the file that stores them; a later line of the same candidate replaces earlier ones."""

    def __init__(self, path: Path | None, rows: Mapping[tuple[str, ...], Tuned]) -> None:
        self._path = path
        self._rows = dict(rows)

    @classmethod
    def of(cls, path: Path | None) -> TuningBook:
        """Read the file. Raise ``CommandError`` for a file of another kind."""
        if path is None or not path.exists():
            return cls(path, {})
        rows = read_lines(path, "tune", (COLUMNS,))
        found = [(tuple(row[name] for name in KEY), _tuned(row)) for row in rows]
        return cls(path, {key: tuned for key, tuned in found if tuned is not None})

    def known(self, candidate: TileCandidate) -> Tuned | None:
        """Return the candidate's result, if there is one."""
        return self._rows.get(candidate.key)

    def add(self, candidate: TileCandidate) -> None:
        """Store a candidate, in the file first. Raise ``WriteError``."""
        if self._path is not None:
            self._append(self._path, candidate)
        self._rows[candidate.key] = candidate.tuned

    def _append(self, path: Path, candidate: TileCandidate) -> None:
        row = {**dict(zip(KEY, candidate.key, strict=True)), "tile": candidate.text, **asdict(candidate.tuned)}
        append_lines(path, COLUMNS, [{name: "" if value is None else value for name, value in row.items()}])


def _tuned(row: Mapping[str, Any]) -> Tuned | None:
    """Return a line of the file; None for an incomplete line."""
    try:
        numbers = {name: kind(row[name]) if row[name] else None for name, kind in _NUMBERS.items()}
    except ValueError:
        return None
    return Tuned(why_not=row["why_not"], limiter=row["limiter"], **numbers)
