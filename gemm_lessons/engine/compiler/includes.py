"""The files that a source may read: its own folder, its include folders, the kit's and CUDA's headers.

``forbidden`` reads the text, with its own headers, and returns the first line that names another file: by ``..``, by an
absolute path, by a link that leads out, or through a device or a pipe, which would never end. A name must be written in
the text or follow from macros that the text defines, for every definition of each. Branches that the preprocessor skips
count, too. ``process.landlock`` is the second line of defence.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from gemm_lessons.engine.compiler.diagnostics import Diagnostic
from gemm_lessons.engine.process.files import SYSTEM
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex

MOST_BYTES = 16 << 20  # of one header
MOST_FILES = 5000
MOST_NAMES = 500  # of one include, over all definitions of the macros in it
PIECES = 'the name of an included file must be written out here: "name" or <name>'
INCBIN = ".incbin reads a file into the program, which is not allowed"

_HEAD = r"^[ \t\x01]*(?:#|%:)[ \t\x01]*"
_WORD = regex(r"include(?:_next)?\b|import\b|embed\b|__has_|\.incbin\b")  # fast: no \b in front
_DIRECTIVE = regex(rf"{_HEAD}(?:include|include_next|import|embed)\b[ \t]*(?P<name>[^\n]*)", re.M)
_WRITTEN = regex(r'"([^"\n]+)"|<([^>\n]+)>')
_UNUSUAL = regex(r"\r(?!\n)|\?\?|[\f\v\x01]|\\[ \t\r]*\n")
# Compiled only for a closer look. Words and numbers are matched as a whole: FOOR"(" does not begin a raw string, and
# 1'000 does not begin a character.
_HAS = r"\b__has_(?:include|include_next|embed)\b(?P<call>[ \t]*\([ \t]*)?(?=(?P<name>[^\n]*))"
_ASKED_FOR = r"(?:\bdefined[ \t]*\(?|#[ \t]*(?:ifn?|elifn?)def)[ \t]*$"
_DEFINED = rf"(?m){_HEAD}define[ \t]+(\w+)(\([^()\n]*\))?[ \t]*([^\n]*)"
# An include through macros. The pattern admits only arguments that cannot lead outside, whatever a macro does to them.
_ARGUMENT = r"[ \t]*(?:\w+(?:[./-]\w+)*[ \t]*)?"
_MACRO = rf"\b([A-Za-z_]\w*)\b(?:[ \t]*(\({_ARGUMENT}(?:,{_ARGUMENT})*\)))?"
_RENAMED = rf'(?m){_HEAD}(?:line\b|\d+[ \t]+")'
_TOKEN = (
    r'(?sm)//[^\n]*|/\*.*?(?:\*/|\Z)|(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")'
    rf"|{_HEAD}(?:include\w*|import|embed)[ \t]*<[^>\n]*>|[A-Za-z_$][\w$]*|\.?\d(?:'?\w|[eEpP][+-]|\.)*"
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
)
_JOINT = "\x01"  # marks a joined line end; keeps the count of lines


@dataclass(frozen=True)
class Places:
    """``name`` is the source's absolute name, ``path`` as it is shown; ``folders`` are searched, ``system`` trusted.

    ``withheld`` files may not be included although they are in an allowed folder, such as a solution.
    """

    name: str
    path: str
    folders: Sequence[Path]
    system: Sequence[Path]
    withheld: Sequence[Path] = ()

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """Return the folders that contain every readable file, after resolving links."""
        folders: list[str | Path] = [os.path.dirname(self.name), *self.folders, *self.system]
        return tuple(os.path.realpath(folder) for folder in folders)

    def hold(self, place: str | Path) -> bool:
        """Return whether a file, after resolving links, is in one of the folders."""
        return _within(os.path.realpath(place), self.roots)


def forbidden(source: str, places: Places, defines: Mapping[str, str | int] | None = None) -> Diagnostic | None:
    """Return the first line that would read a forbidden file; None if there is none."""
    macros: dict[str, set[_Macro]] = {}
    for define, value in (defines or {}).items():  # a key may be NAME(x)
        name, opening, parameters = define.partition("(")
        macros.setdefault(name.strip(), set()).add(_Macro(opening + parameters, str(value)))
    reader = _Reader(places, macros)
    return reader.look(source)


@dataclass(frozen=True)
class _Wanted:
    """A file name as written, and its line in the text."""

    text: str
    line: int
    file: str


@dataclass(frozen=True)
class _Macro:
    """One definition: its parameters in parentheses, or nothing, and its value."""

    parameters: str | None
    value: str

    def expanded(self, arguments: str | None) -> str:
        """Return the value for arguments in parentheses; "()", which names no file, if their number does not fit."""
        names, given = (_listed(it or "") for it in (self.parameters, arguments))
        if not self.parameters:
            return self.value
        if len(names) != len(given) or not all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in names):
            return "()"
        values = dict(zip(names, given, strict=True))

        def put(match: re.Match[str]) -> str:
            value = values.get(match[2], match[2])
            return f'"{value}"' if match[1] and match[2] in values else (match[1] or "") + value

        return re.sub(r"[ \t]*##[ \t]*", "", re.sub(r"((?<!#)#(?!#)[ \t]*)?\b([A-Za-z_]\w*)\b", put, self.value))


def _listed(arguments: str) -> list[str]:
    """Return what is between the commas of ``(a, b)``."""
    inside = arguments.strip("()").strip()
    return [it.strip() for it in inside.split(",")] if inside else []


class _Refused(Exception):
    """A name is refused: its position, and the message."""

    def __init__(self, wanted: _Wanted, message: str) -> None:
        super().__init__(message)
        self.wanted, self.message = wanted, message


class _Reader:
    """One check of a source and of everything it includes from its own folders."""

    def __init__(self, places: Places, macros: dict[str, set[_Macro]]) -> None:
        self._places = places
        self._main = os.path.dirname(places.name)
        self._macros = macros
        self._texts: list[str] = []
        self._tried: set[tuple[str, str]] = set()
        self._waiting: list[tuple[str, str]] = []

    def look(self, source: str) -> Diagnostic | None:
        self._waiting = [(source, self._places.name)]
        texts = self._texts
        known = 0  # texts whose macros are known
        computed: list[_Wanted] = []
        try:
            while self._waiting:
                text, file = self._waiting.pop()
                texts.append(text)
                if len(texts) > MOST_FILES:
                    raise _Refused(_Wanted("", 1, file), f"includes more than {MOST_FILES:,} files")
                computed += self._written(text, file)
                if computed and not self._waiting:  # the macros of all texts are known now
                    self._computed(computed, texts[known:])
                    known = len(texts)
        except _Refused as found:
            file = found.wanted.file
            shown = self._places.path if file == self._places.name else file
            return Diagnostic(shown, found.wanted.line, None, "error", found.message)
        return None

    def _written(self, text: str, file: str) -> list[_Wanted]:
        """Follow the names that are written out; return the others."""
        before = set(self._tried)
        if (plain := _plain_names(text, file)) is not None:
            try:
                for wanted in plain:
                    self._follow(wanted, wanted.text)
            except _Refused:  # it may be in a comment
                self._tried = before
            else:
                return []
        others = []
        for variant in _variants(text):
            if not _WORD.search(variant.replace(_JOINT, "")):
                continue
            for wanted in _names(_without_comments(variant), file):
                if _WRITTEN.match(wanted.text):
                    self._follow(wanted, wanted.text)
                else:
                    others.append(wanted)
        return others

    def _computed(self, computed: Sequence[_Wanted], texts: Sequence[str]) -> None:
        """Follow the names that macros may expand to, given all texts' macros so far; ``texts`` are the new ones."""
        for text in texts:
            for match in itertools.chain.from_iterable(map(_definitions, _variants(text))):
                self._macros.setdefault(match[1], set()).add(_Macro(match[2], match[3].replace(_JOINT, "").strip()))
        for wanted in computed:
            for value in self._values(wanted.text):
                if value is None:
                    raise _Refused(wanted, PIECES)
                self._follow(wanted, value)

    def _values(self, text: str) -> Iterator[str | None]:
        """Yield what a macro may expand to, in quotes or angle brackets; None for what the text does not show."""
        waiting, known = [text], set[str]()
        while waiting:
            words = waiting.pop().strip()
            if words in known:
                continue
            known.add(words)
            if words == "__FILE__" and not self._renamed():
                continue
            if re.fullmatch(r'"[^"]+"', words):
                yield words
                continue
            named = re.fullmatch(r'<[^<>"]+>', words)
            calls = [call[1] for call in re.finditer(_MACRO, words) if call[2]]
            whole = named or re.fullmatch(_MACRO, words)
            if not whole or words == "__FILE__" or words.count("(") > len(calls) or not self._macros.keys() >= {*calls}:
                yield None  # otherwise, a word that is no macro of these texts is CUDA's, or unknown
                return
            if named and not calls:
                yield words
                yield re.sub(r"[ \t]", "", words)
            waiting += self._replaced(words)
            if len(known) > MOST_NAMES:
                yield None
                return

    def _renamed(self) -> bool:
        """Return whether a text may give itself another name."""
        return any(re.search(_RENAMED, _without_comments(it)) for text in self._texts for it in _variants(text))

    def _replaced(self, words: str) -> Iterator[str]:
        """Yield the text with one of its macros replaced, for each macro and each of its definitions."""
        for match in re.finditer(rf"(?={_MACRO})", words):  # also those within others
            for macro in self._macros.get(match[1], ()):
                if macro.parameters and not match[2]:
                    continue  # without parentheses, it is not expanded
                end = match.end(2 if macro.parameters else 1)
                yield words[: match.start()] + macro.expanded(match[2]) + words[end:]

    def _follow(self, wanted: _Wanted, text: str) -> None:
        """Raise ``_Refused`` if a name leads out. Queue a file of the user's for a check."""
        match = _WRITTEN.match(text)
        if match is None:
            raise _Refused(wanted, PIECES)
        name = match[1] or match[2]
        leaves = name.startswith("/") or ".." in name.split("/")
        folders = dict.fromkeys((os.path.dirname(wanted.file), self._main, *map(str, self._places.folders)))
        for folder in folders:
            if (folder, name) not in self._tried:
                self._tried.add((folder, name))
                self._try(wanted, name, os.path.join(folder, name), leaves)
        for system in self._places.system if leaves else ():
            place = os.path.join(system, name)
            if self._leads_out(place, name, os.path.exists(place)):
                raise _Refused(wanted, _outside(name, False))

    def _try(self, wanted: _Wanted, name: str, place: str, leaves: bool) -> None:
        try:
            found = os.lstat(place) if "/" not in name else None
            if found is None or stat.S_ISLNK(found.st_mode):
                found, plain = os.stat(place), False
            else:
                plain = name != ".."
        except (OSError, ValueError):  # it does not exist, or the name is invalid
            if leaves and self._leads_out(place, name, False):
                raise _Refused(wanted, _outside(name, False)) from None
            return
        if not plain and self._leads_out(place, name, True):
            raise _Refused(wanted, _outside(name, not leaves))
        if stat.S_ISDIR(found.st_mode):
            return
        if not stat.S_ISREG(found.st_mode):
            raise _Refused(wanted, f"includes {name}, which is not a file but a device or a pipe")
        if found.st_size > MOST_BYTES:
            raise _Refused(wanted, f"includes {name}, which is larger than {MOST_BYTES >> 20} MB")
        if any(_is(found, other) for other in self._places.withheld) and place != self._places.name:
            raise _Refused(wanted, f"includes {name}, which is the lesson's solution")
        if ".." in name.split("/"):  # one name for the folder, however often files lead up and down again
            place = os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))
        try:
            self._waiting.append((Path(place).read_bytes().decode(errors="replace"), place))
        except OSError:
            return  # the compiler will say so

    def _leads_out(self, place: str, name: str, exists: bool) -> bool:
        try:
            real = os.path.realpath(place)
        except ValueError:
            return False
        suspicious = exists or name.startswith("/") or _within(real, SYSTEM)
        return suspicious and not _within(real, self._places.roots)


def _outside(name: str, link: bool) -> str:
    how = "which is a link to a file outside of" if link else "which is outside of"
    return f"includes {name}, {how} the kernel's folder and the folders of headers"


def _within(place: str, roots: Sequence[str]) -> bool:
    return any(place == root or place.startswith(root.rstrip("/") + "/") for root in roots)


def _is(found: os.stat_result, other: Path) -> bool:
    try:
        theirs = other.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (theirs.st_dev, theirs.st_ino)


# --- names in a text ------------------------------------------------------------------------------------------------


def _plain_names(text: str, file: str) -> list[_Wanted] | None:
    """Return the names of a text in which only plain lines can include a file; None if it needs a closer look."""
    if _UNUSUAL.search(text):
        return None
    found = [
        _Wanted(match["name"], text.count("\n", 0, match.start()) + 1, file) for match in _DIRECTIVE.finditer(text)
    ]
    plain = len(_WORD.findall(text)) == len(found) and all(_WRITTEN.match(wanted.text) for wanted in found)
    return found if plain else None


def _variants(text: str) -> Iterator[str]:
    """Yield the text with its lines joined; once per way, if compilers differ about the join."""
    text = re.sub(r"[\f\v]", " ", re.sub(r"\r\n?", "\n", text.replace(_JOINT, " ")))
    yield text.replace("\\\n", _JOINT)
    if re.search(r"\\[ \t]+\n", text):
        yield re.sub(r"\\[ \t]*\n", _JOINT, text)
    if "??" in text:
        yield text.replace("??=", "#").replace("??/", "\\").replace("\\\n", _JOINT)


def _definitions(text: str) -> Iterator[re.Match[str]]:
    """Yield the macros that a joined text may define."""
    lines = [line for line in text.replace(_JOINT, "").split("\n") if "define" in line]
    if any("/*" in line or "*/" in line for line in lines):
        lines = [_without_comments(text).replace(_JOINT, "")]
    else:  # each line is code from its start, or not code at all
        lines = [_without_comments(line) for line in lines]
    for line in lines:
        yield from re.finditer(_DEFINED, line)


def _without_comments(text: str) -> str:
    """Return the text with joined lines made whole, a blank for each comment, raw strings on one line."""

    def blank(match: re.Match[str]) -> str:
        if match[0].startswith(("//", "/*")):
            return " " + _JOINT * match[0].count("\n") + _JOINT * match[0].count(_JOINT)
        return match[0].replace("\n", _JOINT) if match["raw"] else match[0]

    if _JOINT in text:  # inc\<newline>lude: the joint moves to the end of the line
        lines = text.split("\n")
        text = "\n".join(line.replace(_JOINT, "") + _JOINT * line.count(_JOINT) for line in lines)
    return re.sub(_TOKEN, blank, text)


def _names(text: str, file: str) -> Iterator[_Wanted]:
    """Yield every file name in a text without comments, as written. Raise ``_Refused``."""

    def wanted(match: re.Match[str], name: str = "") -> _Wanted:
        before = text[: match.end() - len(match[0].lstrip(f" \t{_JOINT}"))]
        return _Wanted(name.replace(_JOINT, "").strip(), 1 + before.count("\n") + before.count(_JOINT), file)

    for match in re.finditer(r"\.incbin\b", text):
        raise _Refused(wanted(match), INCBIN)
    for match in _DIRECTIVE.finditer(text):
        yield wanted(match, match["name"])
    for match in re.finditer(_HAS, text):
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if re.search(_ASKED_FOR, line):
            continue
        through_macro = re.match(rf"{_HEAD}define\b", line) and not _WRITTEN.match(match["name"])
        if match["call"] is None or through_macro:
            raise _Refused(wanted(match), PIECES)
        yield wanted(match, match["name"] if _WRITTEN.match(match["name"]) else _inside(match["name"]))


def _inside(text: str) -> str:
    """Return the text up to the parenthesis that closes one before it."""
    depth = 0
    for at, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return text[:at]
    return text
