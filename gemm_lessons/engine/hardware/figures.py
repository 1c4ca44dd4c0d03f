"""Figures of data sheets: tables of ``name = [value, "source"]`` in TOML files that complete each other.

    every.toml, sm_90.toml, h200.toml  --merged, checked-->  the fields of a record

A later file has precedence. Each figure names a source, and each source says of what kind it is: published by NVIDIA,
measured, fitted, assumed, or a constant of the model. Everything wrong is reported by file, line and key.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.toml_file import TomlFile, read_toml

KINDS = "published", "measured", "fitted", "assumed", "model"
KIB, GIGA = 1024, 1e9
# Fields that a sheet gives in another unit: field -> name in the sheet, and factor.
UNITS: Mapping[str, tuple[str, float]] = {
    "clock_hz": ("clock_ghz", GIGA),
    "tensor_clock_hz": ("tensor_clock_ghz", GIGA),
    "dram_bytes_per_s": ("dram_gb_per_s", GIGA),
    "l2_bytes_per_s": ("l2_gb_per_s", GIGA),
    "l2_bytes": ("l2_mib", KIB * KIB),
    "shared_bytes_per_sm": ("shared_kib_per_sm", KIB),
    "shared_bytes_per_block": ("shared_kib_per_block", KIB),
}


class SheetError(ValueError):
    """A data sheet is wrong. The message names file, line and key."""


@dataclass(frozen=True)
class SheetFigure:
    """A value as its file gives it, and the kind of its source."""

    value: Any
    kind: str
    file: FigureFile


class FigureFile(TomlFile):
    """One file of figures. ``shared``: kinds of the sources that other files define."""

    error = SheetError

    def __init__(self, path: Path, shared: Mapping[str, str], keys: Sequence[str]) -> None:
        text, self.raw = read_toml(path, "--gpu takes a name or a data sheet", SheetError)
        super().__init__(path, text)
        self.known((), self.raw, keys)
        self.kinds = {**shared, **self._kinds()}

    def _kinds(self) -> dict[str, str]:
        kinds = {}
        for name, source in self.table((), self.raw, "sources", required=False).items():
            where = ("sources", name)
            if not isinstance(source, dict) or source.get("kind") not in KINDS or source.keys() != {"kind", "text"}:
                raise self.wrong(where, f'must be {{ kind = "...", text = "..." }}, of a kind of {", ".join(KINDS)}')
            kinds[name] = source["kind"]
        return kinds

    def figures(self, table: str) -> dict[str, SheetFigure]:
        """Return the figures of a table, as the file gives them."""
        found = {}
        for name, value in self.table((), self.raw, table, required=False).items():
            if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], str):
                raise self.wrong((table, name), f'must be [value, "source"], not {value!r}')
            if value[1] not in self.kinds:
                raise self.wrong((table, name), f"no such source: {value[1]!r}; known: {', '.join(self.kinds)}")
            found[name] = SheetFigure(value[0], self.kinds[value[1]], self)
        return found

    def number(self, table: str, name: str, value: object, kind: str, *, zero: bool) -> Any:
        """Return ``value`` if it is of this ``kind``: bool, int or float. Raise ``SheetError``."""
        if kind == "bool":
            right, wanted = isinstance(value, bool), "true or false"
        else:
            right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            right = right and (value > 0 or (zero and value == 0))  # type: ignore[operator]
            wanted = "a number " + ("of at least 0" if zero else "above 0")
            if kind == "int":
                right = right and value == int(value)  # type: ignore[call-overload]
                wanted = wanted.replace("a number", "a whole number")
        if not right:
            raise self.wrong((table, name), f"must be {wanted}, not {value!r}")
        return value


def fields_from(
    record: type, files: Sequence[FigureFile], table: str, names: Collection[str], may_be_zero: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields ``names`` of ``record`` from a table of the files, in the record's units; and the names of the
    figures that are assumed. The last file has precedence. Raise ``SheetError``."""
    figures: dict[str, SheetFigure] = {}
    fields = [it for it in dataclasses.fields(record) if it.name in names]
    keys = [UNITS.get(it.name, (it.name, 1))[0] for it in fields]
    for file in files:
        file.known((table,), file.table((), file.raw, table, required=False), keys)
        figures |= file.figures(table)
    found: dict[str, Any] = {}
    for field, key in zip(fields, keys, strict=True):
        if key not in figures:
            if field.default is dataclasses.MISSING:
                raise files[-1].wrong((table, key), f'is missing; add it under [{table}]: {key} = [value, "source"]')
            continue
        figure, kind = figures[key], str(field.type).partition(" ")[0]
        scale = UNITS[field.name][1] if field.name in UNITS else 1
        plain = "float" if scale != 1 else kind
        value = figure.file.number(table, key, figure.value, plain, zero=field.name in may_be_zero)
        if kind == "int":
            value = figure.file.number(table, key, value * scale, "int", zero=field.name in may_be_zero)
            found[field.name] = int(value)
        else:
            found[field.name] = value if kind == "bool" else float(value) * scale
    return found, [name for name, it in figures.items() if it.kind == "assumed"]
