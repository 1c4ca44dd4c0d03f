"""Rows beside a kernel, kept on disk between runs: they do not depend on the learner's file or on the inputs.

    facts of a row_job, the kit's own code, the compiler  --key_for-->  key  --load, store-->  Row, in the compile cache

A row takes about as long as the kernel's own counted launch. The key covers everything that the row depends on, down to
the sizes and times of the kit's files, so an entry is never out of date. An entry holds records of the kit, and reading
one calls nothing else.
"""

from __future__ import annotations

import ast
import dataclasses
import io
import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path

import numpy as np

from gemm_lessons import __version__
from gemm_lessons.engine.compiler import cache as compile_cache
from gemm_lessons.engine.compiler import nvrtc
from gemm_lessons.running.outcome import Row

ROOT = Path(__file__).resolve().parents[1]
FORMAT = "gemm-lessons/row/1"
OTHERS = {
    ("gemm_lessons.engine.compiler.compile", "_BackgroundSass"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("pathlib", "PosixPath"),
    ("pathlib", "PurePosixPath"),
}
DAMAGED = (pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, TypeError, ValueError)


class Unknown(TypeError):
    """A value without a stable text form, which a key therefore cannot cover."""


def key_for(facts: object, architectures: Sequence[str]) -> str | None:
    """Return the key of a row with these facts, whose kernel is compiled for ``architectures``; None without a cache,
    and where something has no written form."""
    if facts is None or compile_cache.folder() is None:
        return None
    try:
        parts = [*_written(facts), *(it for arch in dict.fromkeys(architectures) for it in _compiler(arch))]
    except (Unknown, OSError):
        return None
    versions = (FORMAT, __version__, np.__version__, sys.version)
    return compile_cache.key_of(*versions, *_own_code(), *parts)


def load(key: str | None) -> Row | None:
    """Return the row that is stored under a key, if there is one."""
    data = compile_cache.get(key) if key else None
    if data is None:
        return None
    try:
        found = _Records(io.BytesIO(data)).load()
    except DAMAGED:
        return None
    return found if isinstance(found, Row) else None


def store(key: str | None, row: Row) -> None:
    """Store the row of a right kernel. A run that lacked time or memory, or that the simulator does not support, may
    end differently next time."""
    if key and row.built is not None and row.checked.right and not row.unsupported:
        compile_cache.put(key, pickle.dumps(row, pickle.HIGHEST_PROTOCOL))


def _written(value: object) -> Iterator[str | bytes]:
    """Yield the parts of a value, each with its type. Sets are sorted. Raise ``Unknown``."""
    if isinstance(value, bytes):
        yield value
    elif value is None or isinstance(value, str | bool | int | float | np.generic | Path):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}"
        for key, its in value.items():
            yield from _written(key)
            yield from _written(its)
    elif isinstance(value, tuple | list):
        yield f"sequence {len(value)}"
        for it in value:
            yield from _written(it)
    elif isinstance(value, Set):
        yield f"set {len(value)}"
        yield from sorted(compile_cache.key_of(*_written(it)) for it in value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield f"record {type(value).__qualname__}"
        for field in dataclasses.fields(value):
            yield from _written(getattr(value, field.name))
    else:
        raise Unknown(type(value).__qualname__)


@cache
def _own_code() -> tuple[str, ...]:
    """Return the name, size and time of change of every file of the kit."""
    found: list[str] = []
    folders = [str(ROOT)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        folders.append(entry.path)
                    continue
                state = entry.stat()
                found.append(f"{entry.path[len(str(ROOT)) :]} {state.st_size} {state.st_mtime_ns}")
    return tuple(sorted(found))


def _compiler(arch: str) -> Iterator[str]:
    """Yield what identifies the compiler for an architecture, its headers' folders, and the disassembler. Raise
    ``OSError``."""
    major = nvrtc.choose_major(arch)
    library, disassembler = nvrtc.library(major), nvrtc.disassembler()
    files = [*(nvrtc.library_files(library) if library else ()), *([disassembler] if disassembler else ())]
    yield f"compiler {major} {len(files)}"
    yield from map(compile_cache.identity, files)
    for folder in nvrtc.include_folders(major):
        yield f"{folder} {folder.stat().st_mtime_ns}"


class _Records(pickle.Unpickler):
    """Unpickles records of the kit, syntax trees and the types in ``OTHERS``; refuses every other class or function."""

    def find_class(self, module: str, name: str) -> object:
        """Return an allowed class or function. Raise ``UnpicklingError`` for any other."""
        if (module, name) in OTHERS:
            return super().find_class(module, name)
        if module == "ast" or module.startswith("gemm_lessons."):
            found = super().find_class(module, name)
            if isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, ast.AST)):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no record of the kit")
