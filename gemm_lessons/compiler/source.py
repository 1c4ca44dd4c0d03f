"""Reading CUDA C++ as text, without compiling it: kernels, includes, where a name stands.

For messages and for the cache key only; what the code means is the compiler's business.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from gemm_lessons.compiler.tokens import ANGLES, OPENING, Lexed, tokens
from gemm_lessons.compiler.tokens import without_comments as without_comments
from gemm_lessons.frozen import dataclass

# The head of a PTX file, and what it is for.
PTX_HEAD = re.compile(r"^[ \t]*\.version\s+\d.*\n(?:[ \t\r]*(?://.*)?\n)*[ \t]*\.target\s+(\w+)", re.M)
# Its name in quotes or angle brackets.
INCLUDE = re.compile(r'^[ \t]*(?:#|%:)[ \t]*include(?:_next)?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)
# Computed includes, __has_include, an include behind a comment, Microsoft's #import, #embed.
_MAY_INCLUDE = re.compile(r"include|(?:#|%:)\s*(?:import|embed)|__has_embed")
_MOST_FILES = 500


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


def line_of(source: str, position: int) -> int:
    """The line, from 1, of a position."""
    return source.count("\n", 0, position) + 1


def kernels(source: str) -> tuple[GlobalFunction, ...]:
    """The ``__global__`` functions that the text defines or declares, each name and parameter list once."""
    lexed = Lexed(source)
    marks = {"__global__", *(macro.name for macro in lexed.macros if "__global__" in macro.body and not macro.call)}
    found: dict[tuple[str, tuple[str, ...]], GlobalFunction] = {}
    for at, token in enumerate(lexed.code):
        name, parameters = _last_call(lexed, at + 1) if token.text in marks else ("", ())
        if name:
            declared = GlobalFunction(name, parameters, _template_before(lexed, at), token.line)
            found.setdefault((name, parameters), declared)
    return tuple(found.values())


def _last_call(lexed: Lexed, at: int) -> tuple[str, tuple[str, ...]]:
    """The last ``name(...)`` of a function's head: attributes such as ``__launch_bounds__(256)`` come before it."""
    code, name, parameters = lexed.code, "", tuple[str, ...]()
    while at < len(code) and code[at].text not in ("{", ";"):
        opening, at = at, at + 1
        if code[opening].text == "(":
            end = lexed.closing(opening)
            at = end + 1
            if end == len(code) or code[end].text != ")":  # it is missing
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
    """What stands between ``template <`` and ``>`` in the declaration that reaches up to a token."""
    start = next((i for i in range(at, 0, -1) if lexed.code[i - 1].text in (";", "}")), 0)
    for i in range(start, at - 1):
        if lexed.code[i].text == "template" and lexed.code[i + 1].text == "<":
            return lexed.written(i + 2, lexed.after_angle(i + 1)).removesuffix(">").rstrip()
    return ""


def condition_around(source: str, line: int) -> tuple[int, str] | None:
    """Line and text of the innermost ``#if``, ``#else`` ... in which a line stands."""
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
    """Whether a line stands between the braces of a ``namespace``."""
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
    """The line that declares the ``__shared__`` array ``name``; None when it is not in this text."""
    shared = False
    for token in tokens(source.replace("#", " ")):  # also in the bodies of macros
        shared = token.text == "__shared__" or (shared and token.text != ";")
        if shared and token.text == name:
            return token.line
    return None


def included_names(source: str) -> tuple[tuple[str, bool], ...] | None:
    """(name, in quotes) of every ``#include``; None when there may be more than can be read off the text."""
    spliced = re.sub(r"\r\n?", "\n", source).replace("\\\n", "")  # a lone carriage return ends a line, too
    names = tuple((m[1] or m[2], m[1] is not None) for m in INCLUDE.finditer(spliced))
    rest = INCLUDE.sub("", spliced)
    return None if _MAY_INCLUDE.search(rest) and _MAY_INCLUDE.search(without_comments(rest)) else names


def include_closure(
    source: str, folder: Path, folders: Sequence[Path], system: Sequence[Path]
) -> dict[Path, bytes] | None:
    """Every file that ``source`` may include, with its content: all candidates when a name is in several folders.

    ``folder`` is the including file's own, ``folders`` the searched ones, ``system`` those whose files belong to the
    compiler (searched last; size and time stand for their content, and they are not read). None when the text does
    not tell which files it includes.
    """
    found: dict[Path, bytes] = {}
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
            for place in system:
                with contextlib.suppress(OSError):
                    stat = (place / name).stat()
                    found[place / name] = f"{stat.st_size} {stat.st_mtime_ns}".encode()
    return found


def content_of(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none that can be read."""
    try:
        return path.read_bytes() if path.is_file() else None  # a pipe or a device would never end
    except OSError:
        return None
