"""Tokens of CUDA C++ and matching brackets, the basis of every reader of a kernel's source.

This is a lexer, not a grammar, because learners' files are unfinished and tutorials hide declarations in macros. We
tried tree-sitter-cuda 0.21.2. It found errors in 229 of the 484 sources here (``__shared__ __align__(16) float``), in
753 of CUTLASS's 1,092 and in 72 of LeetCUDA's 79 (a macro call without a semicolon). In 18% of 4,851 cases, deleting a
single bracket or semicolon changed how many functions it found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from gemm_lessons.engine.records.regex import regex

# An unclosed string ends with its line, as in compilers; an unclosed raw string or comment with the file.
_STRING = r'(?:u8|[uUL])?"(?:\\.|[^"\\\n])*(?:"|$|\\\Z)'
_BLOCK_COMMENT = r"/\*.*?(?:\*/|\Z)"
TOKEN = regex(
    # A preprocessor line with its continuation lines, up to a comment after it.
    r"^[^\S\n]*(?P<directive>(?:\#|%:)(?:[^\S\n]*(?:include(?:_next)?|import|embed)[^\S\n]*<[^>\n]*>)?"
    rf"(?:{_STRING}|{_BLOCK_COMMENT}|\\\r?\n|(?!//)[^\n])*)"
    rf"|(?P<comment>//(?:\\\r?\n|[^\n])*|{_BLOCK_COMMENT})"
    rf'|(?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{{0,16}})\(.*?(?:\)(?P=mark)"|\Z)|{_STRING})'
    r"|(?P<character>(?:u8|[uUL])?'(?:\\.|[^'\\\n])*(?:'|$|\\\Z))"
    r"|(?P<name>[A-Za-z_$][\w$]*)"
    r"|(?P<number>\.?\d(?:[eEpP][+-]|'?\w|\.)*)"
    r"|\\\r?\n"
    r"|(?P<punctuator><<=|>>=|->|\+\+|--|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||::|\S)",
    re.M | re.S,
)

_DEFINITION = regex(r"(?:#|%:)\s*define\s+(\w+)(\([^)]*\))?(.*)", re.S)
OPENING = frozenset("([{")
ANGLES = {"<": 1, ">": -1, ">>": -2}  # change of the nesting depth of template arguments
MOST_MISSING = 20  # brackets that a closing bracket skips to find its opening one
_CLOSES = {")": "(", "]": "[", "}": "{"}


class Macro(NamedTuple):
    """One ``#define``. ``call``: its parameters in parentheses as written; empty without parameters."""

    name: str
    call: str
    body: str


class Token(NamedTuple):
    """``start``: position in the source; ``line``: from 1.

    A preprocessor line is one token, with its comments blanked.
    """

    kind: str
    text: str
    start: int
    line: int

    @property
    def end(self) -> int:
        """The position after the token."""
        return self.start + len(self.text)

    @property
    def directive(self) -> str:
        """Return ``include`` of a preprocessor line; empty for any other token."""
        match = re.match(r"(?:#|%:)\s*(\w*)", self.text) if self.kind == "directive" else None
        return match[1] if match else ""

    @property
    def macro(self) -> Macro | None:
        """The macro that a preprocessor line defines, or None."""
        match = _DEFINITION.match(self.text) if self.kind == "directive" else None
        return Macro(match[1], match[2] or "", match[3]) if match else None


def tokens_of(source: str, wanted: str = "") -> Iterator[Token]:
    """Yield every token in order, or those of one kind."""
    line = counted = 0
    for match in TOKEN.finditer(source):
        kind = match.lastgroup
        if kind is None or (wanted and kind not in (wanted, "directive")):  # None: a backslash that joins two lines
            continue
        text, start = match[kind], match.start(kind)
        line, counted = line + source.count("\n", counted, start), start
        if kind == "directive" and "/*" in text:
            inside = [it for it in TOKEN.finditer(source, start + 1, match.end()) if it.lastgroup == "comment"]
            if wanted in ("", "comment"):
                yield from (Token("comment", it[0], it.start(), line + 1) for it in inside)
            text = blanked(text, ((it.start() - start, it.end() - start) for it in inside))
        if wanted in ("", kind):
            yield Token(kind, text, start, line + 1)


def blanked(source: str, spans: Iterable[tuple[int, int]]) -> str:
    """Replace the text within ``spans`` (in order) by spaces: every other character keeps its position."""
    pieces: list[str] = []
    position = 0
    for start, end in spans:
        pieces += source[position:start], re.sub(r"[^\n]", " ", source[start:end])
        position = end
    return "".join(pieces) + source[position:]


@lru_cache(maxsize=16)
def without_comments(source: str) -> str:
    """Return ``source`` with comments as spaces: every other character keeps its position."""
    return blanked(source, ((comment.start, comment.end) for comment in tokens_of(source, "comment")))


class Lexed:
    """A source's ``code`` as tokens, separately its ``comments`` and ``directives``, and its matching brackets."""

    def __init__(self, source: str) -> None:
        self.code: list[Token] = []
        self.comments: list[Token] = []
        self.directives: list[Token] = []
        brackets = _Brackets()
        for token in tokens_of(source):
            if token.kind == "comment":
                self.comments.append(token)
            elif token.kind == "directive":
                self.directives.append(token)
                brackets.branch(token)
            else:
                if token.kind == "punctuator":
                    brackets.add(token.text, len(self.code))
                self.code.append(token)
        self._closing = brackets.closing

    @property
    def macros(self) -> list[Macro]:
        """Return the macros in order, with all definitions of a name."""
        return [macro for line in self.directives if (macro := line.macro)]

    def text(self, at: int) -> str:
        """Return the token at an index; empty past the last."""
        return self.code[at].text if at < len(self.code) else ""

    def closing(self, opening: int) -> int:
        """Return the index of the bracket that closes the one at ``opening``; past the last token if there is none."""
        return self._closing.get(opening, len(self.code))

    def after(self, opening: int) -> int:
        """Return the index after the bracket that closes the one at ``opening``."""
        return min(self.closing(opening) + 1, len(self.code))

    def after_angle(self, opening: int) -> int:
        """Return the index after the ``>`` that closes the ``<`` at ``opening``, as of ``template <...>``."""
        depth, at = 0, opening
        while at < len(self.code):
            text = self.code[at].text
            depth += ANGLES.get(text, 0)
            at = self.after(at) if text in OPENING else at + 1
            if depth <= 0:
                break
        return at

    def written(self, begin: int, end: int) -> str:
        """Return the code between two indices as written, in one line and without comments."""
        text, last = "", 0
        for token in self.code[begin:end]:
            text += " " * (text != "" and token.start > last) + token.text
            last = token.end
        return text


_Open = list[tuple[str, list[int]]]  # brackets, each with its index and those of its twins in other branches


class _Conditional:
    """An ``#if``. One branch counts: the first that is not ``#if 0``. Others may open the same brackets again."""

    def __init__(self, before: _Open, counts: bool) -> None:
        self.before = before
        self.counts = counts  # the current branch is the one that counts
        self.after: _Open | None = None  # brackets that the branch that counts leaves open
        self.others: list[_Open] = []


class _Brackets:
    """Matches brackets as they are read. A missing one is assumed where the bracket around it closes."""

    def __init__(self) -> None:
        self.closing: dict[int, int] = {}
        self._open: _Open = []
        self._conditionals: list[_Conditional] = []

    def add(self, text: str, index: int) -> None:
        """Process the next punctuator."""
        if text in OPENING:
            self._open.append((text, [index]))
        elif opening := _CLOSES.get(text):
            at = len(self._open) - 1
            nearest = 0 if opening == "{" else at - MOST_MISSING
            while at >= max(nearest, 0) and self._open[at][0] not in (opening, "{"):
                at -= 1
            if opening == "{" or (at >= 0 and self._open[at][0] == opening):
                self.closing.update((place, index) for _, places in self._open[max(at, 0) :] for place in places)
                del self._open[max(at, 0) :]

    def branch(self, line: Token) -> None:
        """Process the next preprocessor line."""
        word = line.directive
        if word.startswith("if"):
            counts = re.search(r"if\s+0\b", line.text) is None
            self._conditionals.append(_Conditional(self._open, counts))
            self._open = list(self._open) if counts else []
        elif self._conditionals and word.startswith("el"):
            this = self._ended()
            this.counts = this.after is None
            self._open = list(this.before) if this.counts else []
        elif self._conditionals and word == "endif":
            this = self._ended()
            self._conditionals.pop()
            self._open = this.before if this.after is None else this.after
            for other in this.others:
                for (_, places), (_, twins) in zip(self._open[len(this.before) :], other, strict=False):
                    places += twins

    def _ended(self) -> _Conditional:
        this = self._conditionals[-1]
        if this.counts:
            this.after = self._open
        else:
            this.others.append(self._open)
        return this
