"""Read a lesson's files in TOML; report every wrong value by file, line and key, with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from gemm_lessons.course.lesson import LessonError
from gemm_lessons.engine.arguments import Expression, ExpressionError
from gemm_lessons.engine.records import TomlFile, Where, toml_file

ARCHITECTURE = "sm_90"  # the architecture of a course that names none


def read_toml(path: Path, without: str, command: str = "") -> tuple[str, dict[str, Any]]:
    """Return a TOML file as text and parsed; ``without``: what to do when it is missing; ``command``: what restores the
    file. Raise ``LessonError``."""
    return toml_file.read_toml(path, without, LessonError, command)


def read_course(lessons: Path) -> tuple[Path, str, dict[str, Any]] | None:
    """Return path, text and contents of ``course.toml`` in a course's folder of lessons; None where there is none. It
    is parsed once for all lessons, until it changes. Raise ``LessonError``."""
    path = lessons / "course.toml"
    if not path.exists():
        return None
    try:
        stat = path.stat()
    except OSError as error:
        raise LessonError(f"{path}: cannot be read: {error.strerror}") from None
    return path, *_unchanged(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _unchanged(path: Path, _time: int, _size: int) -> tuple[str, dict[str, Any]]:
    return read_toml(path, "restore it")


def is_text(value: object) -> bool:
    """Tell whether a value of TOML is a string."""
    return isinstance(value, str)


class TomlReader(TomlFile):
    """Checked values of one file of a course. Its methods raise ``LessonError``."""

    error = LessonError

    @contextmanager
    def naming(self, where: Where, about: str = "") -> Iterator[None]:
        """Raise an ``ExpressionError`` of this block as an error at a key; its message follows ``about``."""
        try:
            yield
        except ExpressionError as error:
            raise self.wrong(where, f"{about}{error}") from None

    def items(self, where: Where, value: object, fit: Callable[[Any], bool], said: str, least: int = 0) -> list[Any]:
        """Return a list of at least so many items, which all ``fit``; ``said``: what it must be."""
        if not isinstance(value, list) or len(value) < least or not all(map(fit, value)):
            raise self.wrong(where, said)
        return value

    def integer(self, where: Where, raw: dict[str, Any], key: str, default: int | None = None) -> int:
        """Return a whole number above 0."""
        value = raw.get(key, default) if default is not None else self.present(where, raw, key)
        if type(value) is not int or value < 1:
            raise self.wrong((*where, key), f"must be a whole number above 0, not {value!r}")
        return value

    def architecture(self, raw: dict[str, Any], key: str = "architecture") -> str:
        """Return an architecture that the compiler knows, such as ``sm_90``."""
        from gemm_lessons.engine.hardware import OLDEST_ARCH

        name = self.string((), raw, key)
        number = re.fullmatch(r"sm_(\d{2,3})[af]?", name)
        if number is None or int(number[1]) < OLDEST_ARCH:
            raise self.wrong(
                (key,),
                f"{name!r} is not a target that the compiler knows; write sm_{OLDEST_ARCH} or a later one, like "
                f"{ARCHITECTURE}",
            )
        return name

    def expression(self, where: Where, value: object, names: Sequence[str]) -> Expression:
        """Return arithmetic over ``names``, in quotes; a whole number needs none."""
        if type(value) is int:
            value = str(value)
        if not isinstance(value, str):
            raise self.wrong(where, f'must be an expression in quotes, like "ceil_div(N, BN)", not {value!r}')
        try:
            return Expression.parse(value, names)
        except ExpressionError as error:
            raise self.wrong(where, str(error)) from None

    def tables(self, raw: dict[str, Any], key: str) -> list[dict[str, Any]]:
        """Return all tables ``[[key]]``."""
        said = f"must be tables: write [[{key}]] above each"
        return self.items((key,), raw.get(key, []), lambda it: isinstance(it, dict), said)
