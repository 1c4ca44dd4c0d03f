"""Rows beside a kernel, kept on disk between runs: they do not depend on the learner's file or on the inputs.

    facts of a row_job, the kit's own code, the compiler  --key_for-->  key  --load, store-->  Row, in the compile cache

A row takes about as long as the kernel's own counted launch. The key covers everything that the row depends on, down to
the sizes and times of the kit's files, so an entry is never out of date.
"""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

import numpy as np

from gemm_lessons import __version__
from gemm_lessons.engine.compiler import cache as compile_cache
from gemm_lessons.engine.compiler import derived, nvrtc
from gemm_lessons.running.outcome import Row

ROOT = Path(__file__).resolve().parents[1]
FORMAT = "gemm-lessons/row/1"


class Unknown(TypeError):
    """A value without a stable text form, which a key therefore cannot cover."""


def key_for(facts: object, architectures: Sequence[str]) -> str | None:
    """Return the key of a row with these facts; None without a cache or where something has no written form."""
    if facts is None or compile_cache.folder() is None:
        return None
    try:
        parts = [*_written(facts), *(it for arch in dict.fromkeys(architectures) for it in _compiler(arch))]
    except (Unknown, OSError):
        return None
    versions = (FORMAT, __version__, np.__version__, sys.version)
    return compile_cache.key_of(*versions, *compile_cache.files_of(ROOT), *parts)


def load(key: str | None) -> Row | None:
    """Return the row that is stored under a key, if there is one."""
    data = compile_cache.get(key) if key else None
    if data is None:
        return None
    found = derived.read(data)
    return found if isinstance(found, Row) else None


def store(key: str | None, row: Row) -> None:
    """Store the row of a right kernel only: a run that lacked time, memory or support may end differently next time."""
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


def _compiler(arch: str) -> Iterator[str]:
    """Yield what identifies an architecture's compiler, header folders, and the disassembler. Raise ``OSError``."""
    major = nvrtc.choose_major(arch)
    library, disassembler = nvrtc.library(major), nvrtc.disassembler()
    files = [*(nvrtc.library_files(library) if library else ()), *([disassembler] if disassembler else ())]
    yield f"compiler {major} {len(files)}"
    yield from map(compile_cache.identity, files)
    for folder in nvrtc.include_folders(major):
        yield f"{folder} {folder.stat().st_mtime_ns}"
