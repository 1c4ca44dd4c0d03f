"""The list of public kernels and their launches. Nothing of their source is stored here.

The manifest is a JSON file of the user's: ``repositories`` (owner/name -> commit) and ``kernels``, one row each:
``[repository, file, entry, grid, block, dynamic shared bytes, arguments, constants]`` with
arguments as ``inputs.py`` reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks.foreign import inputs
from gemm_lessons.engine.records.launch import Grid


@dataclass(frozen=True)
class Case:
    """One kernel and its launch. ``entry`` as NVRTC takes it: a name or an instance of a template."""

    repository: str
    file: str
    entry: str
    shape: Grid
    arguments: tuple[inputs.Argument, ...]
    defines: Mapping[str, str] = field(default_factory=dict)
    """Constants of the file that mean another value, so that a launch is small."""

    @property
    def name(self) -> str:
        return f"{self.repository}/{self.file}:{self.entry}"

    @property
    def kernel(self) -> str:
        """The name without namespace and template arguments."""
        return self.entry.partition("<")[0].rpartition("::")[2].strip()

    def row(self) -> list[object]:
        """The row of the manifest file."""
        shape = self.shape
        row: list[object] = [self.repository, self.file, self.entry, shape.grid, shape.block, shape.dynamic_shared]
        row.append([str(argument) for argument in self.arguments])
        return [*row, dict(self.defines)] if self.defines else row


@dataclass(frozen=True)
class Manifest:
    repositories: Mapping[str, str]
    cases: tuple[Case, ...]


def load(path: Path) -> Manifest:
    """Read a manifest."""
    data = json.loads(path.read_text())
    return Manifest(data["repositories"], tuple(map(read, data["kernels"])))


def read(row: Sequence[Any]) -> Case:
    """The reverse of ``Case.row``."""
    repository, file, entry, grid, block, shared, arguments, *defines = row
    shape = Grid(three(grid), three(block), shared)
    return Case(repository, file, entry, shape, tuple(map(inputs.parse, arguments)), *defines)


def save(path: Path, manifest: Manifest) -> None:
    """Write a manifest, one kernel a line."""
    rows = ",\n".join(json.dumps(case.row(), separators=(",", ":")) for case in manifest.cases)
    repositories = json.dumps(dict(manifest.repositories), indent=0)
    path.write_text(f'{{"repositories": {repositories},\n"kernels": [\n{rows}\n]}}\n')


def three(values: Sequence[int]) -> tuple[int, int, int]:
    """A size along x, y and z; missing ones are 1."""
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def folder_of(sources: Path, repository: str) -> Path:
    """The folder of the checkout of ``owner/name``."""
    return sources / repository.replace("/", "+")
