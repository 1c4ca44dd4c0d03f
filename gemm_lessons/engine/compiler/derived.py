"""Records derived from a kernel's code, on disk for the next run of the same kernel: its prepared PTX, its planned
machine code, the counts of a launch.

    with kept_between_runs():    load(key, kind), or else: derive the record, note(key, record)    stored at the end

Reading an entry takes a fifth of the time of deriving it. Most kernels are edited before they run again, so a record is
stored when it is derived for the second time: the first time leaves an empty entry. Outside of ``kept_between_runs``
every record is derived. The key of an entry covers everything that the record depends on, down to the sizes and times
of the engine's files. An entry holds records of the kit, and reading one calls nothing else.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import io
import pickle
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from gemm_lessons.engine.compiler import cache as compile_cache

T = TypeVar("T")
ENGINE = Path(__file__).resolve().parents[1]
FORMAT = "gemm-lessons/derived/1"
OTHERS = {
    ("builtins", "range"),
    ("collections", "Counter"),
    ("gemm_lessons.engine.compiler.compile", "_BackgroundSass"),
    ("gemm_lessons.engine.ptx.opcodes", "row_of"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy.core.numeric", "_frombuffer"),
    ("pathlib", "PosixPath"),
    ("pathlib", "PurePosixPath"),
}
DAMAGED = (pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, TypeError, ValueError)

_noted: dict[str, object] | None = None  # key -> record, of this process; None outside of ``kept_between_runs``
_seen: set[str] = set()  # keys of records that an earlier run has derived


@contextlib.contextmanager
def kept_between_runs() -> Iterator[None]:
    """Load what earlier runs stored, and store what the body derives. A process forked there calls ``store_noted``."""
    global _noted
    _noted = {}
    try:
        yield
        store_noted()
    finally:
        _noted = None
        _seen.clear()


def key_of(*parts: bytes | str) -> str | None:
    """Return the key of a record that depends on these parts; None if no records are kept."""
    if _noted is None or compile_cache.folder() is None:
        return None
    return compile_cache.key_of(_versions(ENGINE), *parts)


@cache
def _versions(engine: Path) -> str:
    """Return the hash of everything but the parts that every record depends on."""
    return compile_cache.key_of(FORMAT, np.__version__, sys.version, *compile_cache.files_of(engine))


def load(key: str | None, kind: type[T]) -> T | None:
    """Return the record of this kind that is stored under a key, if there is one."""
    data = compile_cache.get(key) if key else None
    if data is None:
        return None
    assert key is not None
    _seen.add(key)
    found = read(data) if data else None
    return found if isinstance(found, kind) else None


def note(key: str | None, record: object) -> None:
    """Note a derived record, to be stored at the end. Do nothing if no records are kept."""
    if key is not None and _noted is not None:
        _noted[key] = record


def store_noted() -> None:
    """Store the records that were derived for the second time, and mark the others as derived once."""
    while _noted:
        key, record = _noted.popitem()
        if not compile_cache.get(key):  # the other process of a run may have stored it
            compile_cache.put(key, pickle.dumps(record, pickle.HIGHEST_PROTOCOL) if key in _seen else b"")


def read(data: bytes) -> object | None:
    """Return a pickled record; None if it is damaged or has anything but records of the kit."""
    try:
        found: object = _Records(io.BytesIO(data)).load()
    except DAMAGED:
        return None
    return found


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
