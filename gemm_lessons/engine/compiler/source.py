"""Read CUDA C++ as text, without compiling it: kernels, includes, names and their positions; remove ``printf``.

Used for messages and for the cache key only; the compiler decides what the code means. A call of ``printf`` runs code
outside of the kernel, which cannot be followed. So a kernel that prints is compiled twice: as written, to run it for
its output, and without ``printf`` for counts, estimates and times. Lines keep their numbers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from gemm_lessons.engine.compiler.tokens import ANGLES, OPENING, Lexed, blanked, tokens_of, without_comments
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex

PTX_ENTRY = regex(r"\.entry\s+([\w$]+)")
PRINTF = regex(r"(?:\bstd\s*::\s*|::\s*)?\bprintf\s*(?=\()")
NO_PRINTF = "gemm_lessons_prints_nothing"
PRINTF_OPTIONS = (f"-D{NO_PRINTF}(...)=((void)0)",)
# The head of a PTX file.
PTX_HEAD = regex(r"^[ \t]*\.version\s+\d.*\n(?:[ \t\r]*(?://.*)?\n)*[ \t]*\.target\s+(\w+)", re.M)
# A file name in quotes or angle brackets.
INCLUDE = regex(r'^[ \t]*(?:#|%:)[ \t]*include(?:_next)?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)
# Computed includes, __has_include, an include after a comment, Microsoft's #import, #embed.
_MAY_INCLUDE = regex(r"include|(?:#|%:)\s*(?:import|embed)|__has_embed")
_MOST_FILES = 500
PASTED = regex(r"##|%:%:")
_WORD = regex(r"\w+")
_QUOTED_QUOTE = "'\"'"


@dataclass(frozen=True)
class GlobalFunction:
    """One ``__global__`` function of a file: ``parameters`` as written, ``template`` its parameter list or empty."""

    name: str
    parameters: tuple[str, ...]
    template: str
    line: int

    @property
    def has_defaults(self) -> bool:
        """Return whether every parameter of the template has a default."""
        return bool(self.template) and all("=" in it for it in re.split(r",(?![^<(]*[>)])", self.template))

    def __str__(self) -> str:
        head = f"template <{self.template}> " if self.template else ""
        return f"{head}{self.name}({', '.join(self.parameters)})"


def line_of(source: str, position: int) -> int:
    """Return the line, from 1, of a position."""
    return source.count("\n", 0, position) + 1


def kernels(source: str) -> tuple[GlobalFunction, ...]:
    """Return the ``__global__`` functions that the text defines or declares, without duplicates."""
    lexed = Lexed(source)
    marks = _marks(lexed)
    found: dict[tuple[str, tuple[str, ...]], GlobalFunction] = {}
    for at, token in enumerate(lexed.code):
        name, parameters = _last_call(lexed, at + 1) if token.text in marks else ("", ())
        if name:
            declared = GlobalFunction(name, parameters, _template_before(lexed, at), token.line)
            found.setdefault((name, parameters), declared)
    return tuple(found.values())


def _marks(lexed: Lexed) -> set[str]:
    """Return ``__global__`` and the file's own macros for it."""
    return {"__global__", *(macro.name for macro in lexed.macros if "__global__" in macro.body and not macro.call)}


def without_bodies(source: str) -> str:
    """Return ``source`` with the bodies of its kernels as spaces."""
    lexed = Lexed(source)
    marks, code, spans = _marks(lexed), lexed.code, []
    for at, token in enumerate(code):
        if token.text in marks:
            while lexed.text(at) not in ("{", ";", ""):
                at = lexed.after(at) if lexed.text(at) == "(" else at + 1
            if lexed.text(at) == "{" and (end := lexed.closing(at)) < len(code):
                spans.append((code[at].end, code[end].start))
    return blanked(source, spans)


def _last_call(lexed: Lexed, at: int) -> tuple[str, tuple[str, ...]]:
    """Return the last ``name(...)`` of a function's head: attributes such as ``__launch_bounds__(256)`` precede it."""
    code, name, parameters = lexed.code, "", tuple[str, ...]()
    while at < len(code) and code[at].text not in ("{", ";"):
        opening, at = at, at + 1
        if code[opening].text == "(":
            end = lexed.closing(opening)
            at = end + 1
            if end == len(code) or code[end].text != ")":  # the parenthesis is missing
                at = end = next((i for i in range(opening, end) if code[i].text in ("{", ";")), end)
            if code[opening - 1].kind == "name":
                name, parameters = code[opening - 1].text, tuple(_parameters(lexed, opening + 1, end))
    return name, parameters


def _parameters(lexed: Lexed, begin: int, end: int) -> Iterator[str]:
    ends, depth, at = [begin - 1], 0, begin
    while at < end:
        text = lexed.code[at].text
        if text == "," and depth <= 0:
            ends.append(at)
        depth += ANGLES.get(text, 0)
        at = lexed.after(at) if text in OPENING else at + 1
    for before, after in pairwise([*ends, end]):
        parameter = lexed.written(before + 1, after)
        if parameter not in ("", "void"):
            yield parameter


def _template_before(lexed: Lexed, at: int) -> str:
    """Return the parameters in ``template < >`` of the declaration that reaches up to a token."""
    start = next((i for i in range(at, 0, -1) if lexed.code[i - 1].text in (";", "}")), 0)
    for i in range(start, at - 1):
        if lexed.code[i].text == "template" and lexed.code[i + 1].text == "<":
            return lexed.written(i + 2, lexed.after_angle(i + 1)).removesuffix(">").rstrip()
    return ""


def condition_around(source: str, line: int) -> tuple[int, str] | None:
    """Return line and text of the innermost ``#if``, ``#else`` ... around a line."""
    around: list[tuple[int, str]] = []
    for token in Lexed(source).directives:
        if token.line >= line:
            break
        if around and token.directive in ("elif", "else", "endif"):
            around.pop()
        if token.directive in ("if", "ifdef", "ifndef", "elif", "else"):
            around.append((token.line, " ".join(token.text.replace("\\\n", " ").split())))
    return around[-1] if around else None


def is_in_namespace(source: str, line: int) -> bool:
    """Return whether a line is between the braces of a ``namespace``."""
    open_braces: list[bool] = []
    begun = False
    for token in Lexed(source).code:
        if token.line >= line:
            break
        if token.text == "{":
            open_braces.append(begun)
        elif token.text == "}" and open_braces:
            open_braces.pop()
        begun = token.text == "namespace" or (begun and token.text not in ("{", ";"))
    return any(open_braces)


def shared_array_line(source: str, name: str) -> int | None:
    """Return the line that declares the ``__shared__`` array ``name``; None if it is not in this text."""
    shared = False
    for token in tokens_of(source.replace("#", " ")):  # also in the bodies of macros
        shared = token.text == "__shared__" or (shared and token.text != ";")
        if shared and token.text == name:
            return token.line
    return None


def included_names(source: str) -> tuple[tuple[str, bool], ...] | None:
    """Return (name, in quotes) of every ``#include``; None if there may be others that the text does not show."""
    spliced = re.sub(r"\r\n?", "\n", source).replace("\\\n", "")  # a lone carriage return ends a line, too
    names = tuple((m[1] or m[2], m[1] is not None) for m in INCLUDE.finditer(spliced))
    rest = INCLUDE.sub("", spliced)
    return None if _MAY_INCLUDE.search(rest) and _MAY_INCLUDE.search(without_comments(rest)) else names


def include_closure(
    source: str, folder: Path, folders: Sequence[Path], system: Sequence[Path]
) -> dict[Path, bytes] | None:
    """Return every file that ``source`` may include, with its content: all candidates if a name is in several folders.

    ``folder`` is the including file's own, ``folders`` the searched ones, ``system`` the compiler's own, searched last.
    None if the text does not show which files it includes.
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


def names_in(source: str, path: Path, folders: Sequence[Path]) -> frozenset[str] | None:
    """Return all words in the code of a file and of those that it includes, without comments; None if it may use other
    names, too: it pastes tokens, or does not show what it includes."""
    included = include_closure(source, path.parent, folders, ())
    if included is None:
        return None
    texts = (source, *(it.decode(errors="replace") for it in included.values()))
    code = [re.sub(r"\r\n?", "\n", text).replace("\\\n", "") for text in texts]
    # A quote between apostrophes may hide the start of a string.
    code = [text if _QUOTED_QUOTE in text else without_comments(text) for text in code]
    if any(PASTED.search(text) for text in code):
        return None
    return frozenset(word for text in code for word in _WORD.findall(text))


def _headers_of(names: Iterable[str], folders: Sequence[Path], system: Sequence[Path]) -> dict[Path, bytes]:
    """Return a hash of each header of ``system`` with one of these names, and of all headers it includes in turn.

    With more than ``_MOST_FILES`` headers, return only path, size and time of the named ones.
    """
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
    """Return the hash of a header at that time, and the names that it includes."""
    data = content_of(Path(path)) or b""
    names = (m[1] or m[2] for m in INCLUDE.finditer(data.decode(errors="replace")))
    return hashlib.sha256(data).digest(), tuple(dict.fromkeys(names))


def content_of(path: Path) -> bytes | None:
    """Return the bytes of a file; None if it cannot be read, or if it is a pipe, a device or a file that the operating
    system writes as it is read: those might never end."""
    if (status := _regular(str(path))) is None:
        return None
    try:
        if status.st_size:
            return path.read_bytes()
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return None if os.read(file, 1) else b""
        finally:
            os.close(file)
    except OSError:
        return None


def entries(ptx: str) -> list[str]:
    """Return the names of the kernels of a PTX file."""
    return PTX_ENTRY.findall(without_comments(ptx))


def without_printf(source: str) -> str:
    """Return the source with every call of ``printf`` replaced by the macro that ``PRINTF_OPTIONS`` define."""
    return PRINTF.sub(NO_PRINTF, source)
