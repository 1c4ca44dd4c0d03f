"""Read a lesson's files in TOML; report every wrong value by file, line and key, with what to do about it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from gemm_lessons.course.lesson import LessonError
from gemm_lessons.engine.arguments.expression import Expression, ExpressionError, closest

ARCHITECTURE = "sm_90"  # the architecture of a course that names none

Where = tuple[str | int, ...]  # a key's path in the file, such as ("gates", 0, "value")


def read_toml(path: Path, without: str) -> tuple[str, dict[str, Any]]:
    """Return a TOML file as text and parsed; ``without``: what to do when it is missing. Raise ``LessonError``."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe may never end
            raise LessonError(f"{path}: cannot be read: it is not a file; restore it")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LessonError(f"{path}: not found; {without}") from None
    except OSError as error:
        raise LessonError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise LessonError(f"{path}: not UTF-8 text (byte {error.start}); restore the file") from None
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else max(1, len(text.splitlines()))  # otherwise "at end of document"
        what = re.sub(r" \(at .*", "", str(error))
        raise LessonError(f"{path}:{line}: not valid TOML: {what}; correct the line or restore the file") from None
    except RecursionError:
        raise LessonError(f"{path}: is nested too deeply; restore the file") from None


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


class TomlReader:
    """Checked values of one file; it finds the line of every key, for messages. Its methods raise ``LessonError``."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()

    def present(self, where: Where, raw: dict[str, Any], key: str) -> Any:
        """Return a key's value of any type; the key must be present."""
        if key not in raw:
            raise self.wrong((*where, key), "is missing; add it")
        return raw[key]

    def string(self, where: Where, raw: dict[str, Any], key: str) -> str:
        """Return text that is not blank."""
        value = self.present(where, raw, key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong((*where, key), f"must be text, not {value!r}")
        return value.strip()

    def integer(self, where: Where, raw: dict[str, Any], key: str, default: int | None = None) -> int:
        """Return a whole number above 0."""
        value = raw.get(key, default) if default is not None else self.present(where, raw, key)
        if type(value) is not int or value < 1:
            raise self.wrong((*where, key), f"must be a whole number above 0, not {value!r}")
        return value

    def architecture(self, raw: dict[str, Any]) -> str:
        """Return the architecture that kernels are compiled for, such as ``sm_90``."""
        from gemm_lessons.engine.hardware.sheets import OLDEST_ARCH  # imported late: only compiling needs it

        name = self.string((), raw, "architecture")
        number = re.fullmatch(r"sm_(\d{2,3})[af]?", name)
        if number is None or int(number[1]) < OLDEST_ARCH:
            raise self.wrong(
                ("architecture",),
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

    def table(self, where: Where, raw: dict[str, Any], key: str, required: bool = True) -> dict[str, Any]:
        """Return the table ``[key]``; empty where it is missing and not required."""
        value = self.present(where, raw, key) if required else raw.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong((key,), f"must be a table: write [{key}] on a line of its own")
        return value

    def tables(self, raw: dict[str, Any], key: str) -> list[dict[str, Any]]:
        """Return all tables ``[[key]]``."""
        value = raw.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.wrong((key,), f"must be tables: write [[{key}]] above each")
        return value

    def known(self, where: Where, raw: Mapping[str, object], keys: Sequence[str]) -> None:
        """Check that there are no other keys."""
        for key in raw:
            if key not in keys:
                hint = closest(key, keys)
                raise self.wrong((*where, key), f"unknown key{f'; did you mean {hint}?' if hint else ''} "
                                                f"Known: {', '.join(keys)}")  # fmt: skip

    # Lines of keys.

    def wrong(self, where: Where, message: str) -> LessonError:
        """Return the error to raise about a key."""
        line = self.line(where)
        at = f"{self.path}:{line}" if line else f"{self.path}"
        return LessonError(f"{at}: {_key(where)}{message}")

    def line(self, where: Where) -> int | None:
        """Return the line of a key: find its table's header, then the first ``key =`` below it."""
        if not where:
            return None
        table, *rest = where
        index = rest.pop(0) if rest and isinstance(rest[0], int) else 0
        headers = [i for i, line in enumerate(self.lines) if re.match(rf"\s*\[+\s*{re.escape(str(table))}\s*\]", line)]
        if not headers:  # a key above the first table, or `table = { ... }`
            return self.find(str(table), 0)
        start = headers[min(int(index), len(headers) - 1)]
        for key in rest:
            found = self.find(str(key), start + 1)
            if found is None:
                break
            start = found - 1
        return start + 1

    def find(self, key: str, start: int) -> int | None:
        """Return the line of the first ``key =`` from index ``start`` on."""
        for i in range(start, len(self.lines)):
            if re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", self.lines[i]):
                return i + 1
        return None


def _key(where: Where) -> str:
    if not where:
        return ""
    table, *rest = where
    if rest and isinstance(rest[0], int):
        return f"[[{table}]] number {rest[0] + 1}: " + "".join(f"{key}: " for key in rest[1:])
    return f"[{table}] " + "".join(f"{key}: " for key in rest) if rest else f"{table}: "
