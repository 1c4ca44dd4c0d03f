"""Read a TOML file; name the file, the line and the key of every wrong value."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gemm_lessons.engine.records.errors import KitError

Where = tuple[str | int, ...]  # a key's path in the file, such as ("gates", 0, "value")


def read_toml(
    path: Path, without: str, error: type[Exception] = KitError, command: str = ""
) -> tuple[str, dict[str, Any]]:
    """Return a TOML file as text and parsed; ``without``: what to do when it is missing; ``command``: what restores the
    file, if there is such a command. Raise ``error``."""
    restore = f"restore the file: {command}" if command else "restore the file"
    try:
        if path.exists() and not path.is_file():  # reading a pipe may never end
            raise error(f"{path}: cannot be read: it is not a file; restore it")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise error(f"{path}: not found; {without}") from None
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        raise error(f"{path}: not UTF-8 text (byte {problem.start}); {restore}") from None
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        found = re.search(r"\(at line (\d+), column \d+\)", str(problem))
        line = int(found[1]) if found else max(1, len(text.splitlines()))  # otherwise "at end of document"
        what = re.sub(r" \(at .*", "", str(problem))
        raise error(f"{path}:{line}: not valid TOML: {what}; correct the line or {restore}") from None
    except RecursionError:
        raise error(f"{path}: is nested too deeply; {restore}") from None


class TomlFile:
    """The text of one file; it finds the line of every key, for messages. Its methods raise ``error``."""

    error: type[Exception] = KitError

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()

    def present(self, where: Where, raw: Mapping[str, Any], key: str) -> Any:
        """Return a key's value of any type; the key must be present."""
        if key not in raw:
            raise self.wrong((*where, key), "is missing; add it")
        return raw[key]

    def string(self, where: Where, raw: Mapping[str, Any], key: str, required: bool = True) -> str:
        """Return text that is not blank; "" where it is missing and not required."""
        if not required and key not in raw:
            return ""
        value = self.present(where, raw, key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong((*where, key), f"must be text, not {value!r}")
        return value.strip()

    def table(self, where: Where, raw: Mapping[str, Any], key: str, required: bool = True) -> dict[str, Any]:
        """Return the table ``[key]``; empty where it is missing and not required."""
        value = self.present(where, raw, key) if required else raw.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong((key,), f"must be a table: write [{key}] on a line of its own")
        return value

    def known(self, where: Where, raw: Mapping[str, object], keys: Sequence[str]) -> None:
        """Check that there are no other keys."""
        for key in raw:
            if key not in keys:
                from gemm_lessons.engine.records.words import closest  # imported late: only for mistakes

                hint = closest(key, keys)
                raise self.wrong((*where, key), f"unknown key{f'; did you mean {hint}?' if hint else '.'} "
                                                f"Known: {', '.join(keys)}")  # fmt: skip

    def wrong(self, where: Where, message: str) -> Exception:
        """Return the error to raise about a key."""
        line = self.line(where)
        at = f"{self.path}:{line}" if line else f"{self.path}"
        return self.error(f"{at}: {_key(where)}{message}")

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
