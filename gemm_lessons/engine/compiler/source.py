"""Reading CUDA C++ as text, without compiling it: kernels, includes, where a name stands.

For messages and for the cache key only; what the code means is the compiler's business.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from gemm_lessons.engine.records.frozen import dataclass

# The head of a PTX file, and what it is for.
PTX_HEAD = re.compile(r"^[ \t]*\.version\s+\d.*\n(?:[ \t\r]*(?://.*)?\n)*[ \t]*\.target\s+(\w+)", re.M)
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|("(?:\\.|[^"\\\n])*")|(\'(?:\\.|[^\'\\\n])*\')', re.S)
_INCLUDE = re.compile(r'^[ \t]*(?:#|%:)[ \t]*include(?:_next)?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)
_MOST_FILES = 500
_TEMPLATE = re.compile(r"\btemplate\s*<")
_NAME_AND_PARENTHESIS = re.compile(r"([A-Za-z_]\w*)\s*\(")


@dataclass(frozen=True)
class GlobalFunction:
    """One ``__global__`` function of a file: ``parameters`` as written, ``template`` its parameter list or empty."""

    name: str
    parameters: tuple[str, ...]
    template: str
    line: int

    def __str__(self) -> str:
        head = f"template <{self.template}> " if self.template else ""
        return f"{head}{self.name}({', '.join(self.parameters)})"


def without_comments(source: str) -> str:
    """``source`` with comments as spaces: every other character keeps its place."""
    return _COMMENT_OR_STRING.sub(
        lambda m: m[0] if m[1] or m[2] else re.sub(r"[^\n]", " ", m[0]),
        source,
    )


def line_of(source: str, position: int) -> int:
    """The line, from 1, of a position."""
    return source.count("\n", 0, position) + 1


def kernels(source: str) -> tuple[GlobalFunction, ...]:
    """The ``__global__`` functions that the text defines or declares, each name and parameter list once."""
    text = without_comments(source)
    found: dict[tuple[str, tuple[str, ...]], GlobalFunction] = {}
    for match in re.finditer(r"\b__global__\b", text):
        end = next((m.start() for m in re.finditer(r"[{;]", text[match.end() :])), None)
        head = text[match.end() : match.end() + end] if end is not None else text[match.end() :]
        name, parameters = _last_call(head)
        if name:
            before = text[: match.start()]
            start = max(before.rfind("}"), before.rfind(";"), 0)
            template = _TEMPLATE.search(before, start)
            inner = " ".join(before[template.end() :].rpartition(">")[0].split()) if template else ""
            declared = GlobalFunction(name, parameters, inner, line_of(text, match.start()))
            found.setdefault((name, parameters), declared)
    return tuple(found.values())


def condition_around(source: str, line: int) -> tuple[int, str] | None:
    """Line and text of the innermost ``#if``, ``#else`` ... in which a line stands."""
    around: list[tuple[int, str]] = []
    for number, text in enumerate(without_comments(source).split("\n")[: line - 1], 1):
        directive = re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b", text)
        if directive is None:
            continue
        if around and not directive[1].startswith("if"):
            around.pop()
        if directive[1] != "endif":
            around.append((number, " ".join(text.split())))
    return around[-1] if around else None


def is_in_namespace(source: str, line: int) -> bool:
    """Whether a line stands between the braces of a ``namespace``."""
    open_braces: list[bool] = []
    before = "\n".join(without_comments(source).split("\n")[: line - 1])
    for match in re.finditer(r"(\bnamespace\b[\w\s:]*)?\{|\}", before):
        if match[0] != "}":
            open_braces.append(match[1] is not None)
        elif open_braces:
            open_braces.pop()
    return any(open_braces)


def _last_call(head: str) -> tuple[str, tuple[str, ...]]:
    """The last ``name(...)`` on the outermost level: attributes such as ``__launch_bounds__(256)`` come before it."""
    name, inside, position = "", "", 0
    while match := _NAME_AND_PARENTHESIS.search(head, position):
        depth, position = 1, match.end()
        while position < len(head) and depth:
            depth += {"(": 1, ")": -1}.get(head[position], 0)
            position += 1
        name, inside = match[1], head[match.end() : position - 1 if depth == 0 else position]
    return name, tuple(_split_parameters(inside))


def _split_parameters(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for position, character in enumerate(text + ","):
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(character, 0)
        if character == "," and depth <= 0:
            parameter = " ".join(text[start:position].split())
            if parameter and parameter != "void":
                yield parameter
            start = position + 1


def shared_array_line(source: str, name: str) -> int | None:
    """The line that declares the ``__shared__`` array ``name``; None when it is not in this text."""
    text = without_comments(source)
    for match in re.finditer(r"\b__shared__\b[^;]*;", text, re.S):
        if word := re.search(rf"\b{re.escape(name)}\b", match[0]):
            return line_of(text, match.start() + word.start())
    return None


def included_names(source: str) -> tuple[tuple[str, bool], ...] | None:
    """(name, in quotes) of every ``#include``; None when there may be more than can be read off the text."""
    spliced = re.sub(r"\r\n?", "\n", source).replace("\\\n", "")  # a lone carriage return ends a line, too
    names = tuple((m[1] or m[2], m[1] is not None) for m in _INCLUDE.finditer(spliced))
    rest = without_comments(_INCLUDE.sub("", spliced))
    # Computed includes, __has_include, an include behind a comment, Microsoft's #import, #embed.
    return None if re.search(r"include|(?:#|%:)\s*(?:import|embed)|__has_embed", rest) else names


def include_closure(
    source: str, folder: Path, folders: Sequence[Path], system: Sequence[Path]
) -> dict[Path, bytes] | None:
    """Every file that ``source`` may include, with its content: all candidates when a name is in several folders.

    ``folder`` is the including file's own, ``folders`` the searched ones, ``system`` those whose files belong to the
    compiler, searched last. None when the text does not tell which files it includes.
    """
    found: dict[Path, bytes] = {}
    theirs: set[str] = set()
    waiting = [(source, folder)]
    while waiting:
        text, here = waiting.pop()
        names = included_names(text)
        if names is None or len(found) > _MOST_FILES:
            return None
        for name, quoted in names:
            for place in [here, *folders] if quoted else folders:
                path = place / name
                if path not in found and (content := content_of(path)) is not None:
                    found[path] = content
                    waiting.append((content.decode(errors="replace"), path.parent))
            theirs.add(name)
    return found | _headers_of(theirs, folders, system)


def _headers_of(names: Iterable[str], folders: Sequence[Path], system: Sequence[Path]) -> dict[Path, bytes]:
    """A hash of each header of ``system`` with one of these names, and of all that those include in turn. Of more than
    ``_MOST_FILES`` only the first ones, by path, size and time."""
    first = [os.path.join(place, name) for place in system for name in sorted(names)]
    found: dict[Path, bytes] = {}
    tried: set[str] = set()
    waiting = first[::-1]
    places = [*map(str, folders), *map(str, system)]
    while waiting:
        path = os.path.normpath(waiting.pop())
        if path in tried or (status := _regular(path)) is None:
            continue
        tried.add(path)
        if len(tried) > _MOST_FILES:
            them = [(it, status) for it in first if (status := _regular(it))]
            return {Path(it): f"{it} {status.st_size} {status.st_mtime_ns}".encode() for it, status in them}
        found[Path(path)], inner = _header(path, status.st_size, status.st_mtime_ns)
        waiting += [os.path.join(place, name) for name in inner for place in (os.path.dirname(path), *places)]
    return found


def _regular(path: str) -> os.stat_result | None:
    with contextlib.suppress(OSError, ValueError):
        result = os.stat(path)
        return result if stat.S_ISREG(result.st_mode) else None
    return None


@lru_cache(maxsize=4 * _MOST_FILES)
def _header(path: str, size: int, changed: int) -> tuple[bytes, tuple[str, ...]]:
    """The hash of a header as it was then, and the names that it includes."""
    data = content_of(Path(path)) or b""
    names = (m[1] or m[2] for m in _INCLUDE.finditer(data.decode(errors="replace")))
    return hashlib.sha256(data).digest(), tuple(dict.fromkeys(names))


def content_of(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none that can be read."""
    try:
        return path.read_bytes() if path.is_file() else None  # a pipe or a device would never end
    except OSError:
        return None
