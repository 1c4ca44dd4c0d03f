"""Reduce a ``.cu`` file for nvcc to what NVRTC accepts: kernels and device code, without host code.

Tutorials keep ``main``, launches and helper functions beside their kernels. NVRTC compiles for the GPU only and rejects
them, so they are blanked out: every other character keeps its line, and so messages and line tables stay right.
Preprocessor lines are kept. ``kernels_only`` classifies declarations by their brackets and words, as text. Where that
is not enough, the compiler's errors show what else is host code (``without``).
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gemm_lessons.engine.compiler.includes import Places
from gemm_lessons.engine.compiler.source import INCLUDE
from gemm_lessons.engine.compiler.tokens import Lexed, Token, blanked, tokens_of
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex

_ATTRIBUTES = frozenset("__launch_bounds__ __align__ alignas __attribute__ __declspec noexcept".split())
_CONSTANT = frozenset("constexpr consteval".split())
_ACCESS = ("public", "private", "protected")
_FOR_GPU = frozenset("__device__ __global__ __constant__ __shared__ __managed__ __grid_constant__".split())
# Patterns for a head, as ``_Scanner._head`` writes it.
_TYPE_HEAD = regex(r"(?:typedef |static |const )*(class|struct|union|enum)\b[^()=]*$")
_BEGINS = frozenset("( class struct union enum namespace".split())  # one of them precedes a body
_BEGINS_STATEMENT = frozenset("template constexpr using typedef static_assert".split())
_NAMESPACE_HEAD = regex(r"(?:inline )?namespace\b[^()=;]*$|extern$")
_KEPT_STATEMENT = regex(
    r"(?:using|typedef|static_assert|namespace|friend|asm|_Static_assert|concept)\b|texture <|surface <"
    r"|(?:explicit (?:\(\) )?)?\w+ \(\) ->"  # a deduction guide
    r"|(?:enum|class|struct|union)\b[^()=;]*$"
)
_DECLARED_NAME = regex(r"([A-Za-z_]\w*)(?: \(| =| \[|$)")
_MACRO_CALL = regex(r"([A-Z_][A-Z0-9_]*)\s*\(")
# Host files that folders of CUDA examples share, or that their libraries include.
_OF_THE_HOST = regex(
    r"(?:helper_\w+|exception|cublas\w*|curand|cufft\w*|cusparse\w*|cusolver\w*|cudnn|nccl|nvml|cupti\w*|npp\w*|nvrtc|mpi"
    r"|omp|cuda_profiler_api|nvToolsExt\w*|cuda|cuda_runtime|cuda_runtime_api|device_launch_parameters|timer|timing"
    r"|opencv\w*|glut|glew|freeglut|getopt|windows|unistd)\.(?:h|hpp|cuh)"
)
# Headers of CCCL with functions and containers of the host; the others are for kernels, too.
_FOR_LAUNCHES = regex(
    r"cub/device/|thrust/(?!(?:addressof|advance|complex|distance|functional|pair|tuple|version|zip_function)\.h|iterator/)"
)
MOST_TEXT = 8 << 20
DEEPEST = 40
GRAPHICS = "GL/"  # host headers for windows


@dataclass(frozen=True)
class Part:
    """One declaration at namespace scope, or a member function: ``start`` to ``end`` in the text."""

    start: int
    end: int
    for_gpu: bool


@dataclass(frozen=True)
class WholeFile:
    """A file and its includes as one text. ``origins``: per line its file and line there.

    ``missing`` are the included files that do not exist, ``removed`` the functions and variables taken out.
    """

    text: str
    origins: tuple[tuple[str, int], ...]
    missing: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    removed: frozenset[str] = frozenset()


def gather(source: str, places: Places) -> WholeFile:
    """Return ``source`` with the text of the user's own included files in place of the ``#include`` lines.

    Files of the compiler's own folders stay included. Files outside of all folders count as missing.
    """
    text = _Gathered(places)
    text.add(source, places.name)
    return WholeFile("\n".join(text.lines), tuple(text.origins), tuple(dict.fromkeys(text.missing)))


class _Gathered:
    """The text that ``gather`` has assembled so far."""

    def __init__(self, places: Places) -> None:
        self.lines: list[str] = []
        self.origins: list[tuple[str, int]] = []
        self.missing: list[str] = []
        self._places = places
        self._guards: dict[Path, str] = {}  # of files with #pragma once
        # Files that are empty when included again, by the #if around their first inclusion: outermost first.
        self._once: list[set[Path]] = [set()]
        self._size = 0

    def add(self, text: str, file: str, depth: int = 0) -> None:
        """Append the lines of a file and of its includes."""
        self._size += len(text)
        expanded: list[bool] = []  # of each #if around a line: whether a file was included in it
        # The host's preprocessor splices lines also where blanks follow the backslash.
        text = re.sub(r"\\[ \t\r]+$", r"\\", text, flags=re.M)
        directives = {token.line: token for token in tokens_of(text, "directive")}
        guard = min(directives, default=0) if _is_guarded(text) else 0  # its line
        around = len(self._once)
        for number, line in enumerate(text.split("\n"), 1):
            directive = directives.get(number)
            word = directive.directive if directive else ""
            match = INCLUDE.match(line) if word == "include" and self._size < MOST_TEXT and depth < DEEPEST else None
            if match is None:
                self._put("" if line.split() == ["#pragma", "once"] else line, file, number)
                self._branch(word, file, number, expanded)
                self._enter_or_leave(word, transparent=number == guard, least=around)
                continue
            wanted, quoted = match[1] or match[2], match[1] is not None
            found = self._find(wanted, file if quoted else None)
            if found is None:
                self._put(self._left(line, wanted, quoted), file, number)
            elif any(found.resolve() in files for files in self._once):
                self._put("", file, number)
            else:
                self._include(found, file, number, depth)
                expanded = [True] * len(expanded)
        del self._once[around:]

    def _put(self, line: str, file: str, number: int) -> None:
        self.lines.append(line)
        self.origins.append((file, number))

    def _branch(self, word: str, file: str, number: int, expanded: list[bool]) -> None:
        """Repeat the line directive after ``#else`` and ``#endif``: it may be skipped with an included file."""
        if word.startswith("if"):
            expanded.append(False)
        elif word.startswith(("el", "endif")) and expanded:
            if expanded[-1]:
                self._put(_line_directive(number + 1, file), file, number)
            if word == "endif":
                expanded.pop()

    def _enter_or_leave(self, word: str, *, transparent: bool, least: int) -> None:
        """Follow the ``#if`` of a file. A ``transparent`` one, its guard, holds wherever the file was not included."""
        if word.startswith("if") and not transparent:
            self._once.append(set())
        elif word.startswith("el") and len(self._once) > least:
            self._once[-1] = set()
        elif word == "endif" and len(self._once) > least:
            self._once.pop()

    def _find(self, wanted: str, beside: str | None) -> Path | None:
        if wanted.startswith(GRAPHICS):
            return None
        folders = [*([] if beside is None else [Path(beside).parent]), *self._places.folders]
        found = next((folder / wanted for folder in folders if os.path.isfile(folder / wanted)), None)
        return found if found is not None and self._places.hold(found) else None

    def _left(self, line: str, wanted: str, quoted: bool) -> str:
        """Return what remains of an ``#include`` of a file that is not the user's."""
        if wanted.startswith(GRAPHICS):
            return ""
        kept = any(os.path.isfile(folder / wanted) for folder in self._places.system)
        if kept and _FOR_LAUNCHES.match(wanted):
            return ""
        droppable = not quoted or _OF_THE_HOST.fullmatch(Path(wanted).name) or Path(wanted).suffix == ""
        if kept or not droppable:
            return line
        self.missing.append(wanted)
        return "#include <host_library.h>" if not quoted and re.fullmatch(r"\w+", wanted) else ""

    def _include(self, found: Path, file: str, number: int, depth: int) -> None:
        path = found.resolve()
        included = found.read_text(errors="replace").removeprefix("\ufeff").replace("\0", " ")
        guard = ""
        if re.search(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", included, re.M):
            guard = self._guards.setdefault(path, f"INCLUDED_{len(self._guards)}_")
            self._put(f"#ifndef {guard}", file, number)
            self._put(f"#define {guard}", file, number)
        if guard or _is_guarded(included):
            self._once[-1].add(path)
        self._put(_line_directive(1, str(found)), file, number)
        self.add(included, str(found), depth + 1)
        if guard:
            self._put("#endif", file, number)
        self._put(_line_directive(number + 1, file), file, number)


def _is_guarded(text: str) -> bool:
    """Return whether a header is empty when it is included again: ``#ifndef NAME``, ``#define NAME``, ``#endif``."""
    found = [*tokens_of(text, "directive")]
    if len(found) < 3 or found[0].directive != "ifndef" or found[1].directive != "define":
        return False
    if re.findall(r"ifndef\s+(\w+)", found[0].text) != re.findall(r"define\s+(\w+)", found[1].text):
        return False
    depth = 0
    for token in found[:-1]:
        depth += token.directive.startswith("if") - (token.directive == "endif")
        if depth == 0 or (depth == 1 and token.directive.startswith("el")):
            return False
    outside = text[: found[0].start], text[found[-1].end :]
    empty = all(token.kind == "comment" for part in outside for token in tokens_of(part))
    return found[-1].directive == "endif" and depth == 1 and empty


_OF_A_DEVICE_LIBRARY = regex(r"(?:curand_|nvshmem|cublasdx|cufftdx|nvcuda)\w*(?:\.h)?|cuComplex\.h|math_constants\.h")


def is_of_a_device_library(file: str) -> bool:
    """Return whether an included file belongs to a library whose functions kernels call, and that may be missing."""
    return bool(_OF_A_DEVICE_LIBRARY.fullmatch(file))


def is_of_the_host(file: str) -> bool:
    """Return whether an included file is a host system or library header, which GPU code does not need."""
    if is_of_a_device_library(file):
        return False
    return bool(re.fullmatch(r"(?:sys/)?\w+(?:\.h)?", file) or _OF_THE_HOST.fullmatch(Path(file).name))


def _line_directive(number: int, file: str) -> str:
    return f'#line {number} "{re.sub(r"[^ -~]|[%]", "_", file) if not file.isprintable() else file}"'


def kernels_only(whole: WholeFile) -> WholeFile:
    """Return the file without the host's functions and variables."""
    scanner = _Scanner(whole.text)
    scanner.scan()
    text = blanked(whole.text, _outside(scanner.lexed.directives, scanner.host))
    for position in sorted(scanner.constant_functions, reverse=True):
        text = f"{text[:position]}__host__ __device__ {text[position:]}"
    return replace(whole, text=text, parts=_moved(scanner), removed=frozenset(scanner.names))


def _moved(scanner: _Scanner) -> tuple[Part, ...]:
    """Return the parts at their positions after ``__host__ __device__`` was inserted before some functions."""
    inserted = sorted(scanner.constant_functions)
    width = len("__host__ __device__ ")

    def place(position: int) -> int:
        return position + width * bisect_left(inserted, position)

    return tuple(Part(place(part.start), place(part.end), part.for_gpu) for part in scanner.parts)


def without(whole: WholeFile, complaints: Iterable[tuple[str, int]]) -> WholeFile | None:
    """Return the file without host declarations that have compiler errors (file, line); None if there are none."""
    starts = [0, *(match.end() for match in re.finditer("\n", whole.text))]
    places: dict[tuple[str, int], list[int]] = {}
    for number, origin in enumerate(whole.origins):
        places.setdefault(origin, []).append(starts[number])
    blamed = []
    for complaint in complaints:
        for start in places.get(complaint, ()):
            end = whole.text.find("\n", start)
            end = len(whole.text) if end < 0 else end
            covering = [p for p in whole.parts if p.start <= end and p.end > start]
            blamed += [p for p in covering if not p.for_gpu and whole.text[p.start : p.end].strip()]
    macros = {call[1] for p in blamed if (call := _MACRO_CALL.match(whole.text, p.start))}
    for part in whole.parts:  # if one use of a macro fails, all of its uses do
        call = _MACRO_CALL.match(whole.text, part.start)
        blamed += [part] * (call is not None and call[1] in macros and not part.for_gpu)
    text = blanked(whole.text, _outside(list(tokens_of(whole.text, "directive")), [(p.start, p.end) for p in blamed]))
    return None if text == whole.text else replace(whole, text=text)


def _outside(directives: Sequence[Token], spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of the spans outside of preprocessor lines, in order."""
    position = index = 0
    for start, end in sorted(spans):
        position = max(start, position)
        while index < len(directives) and directives[index].start < end:
            if directives[index].start >= position:
                yield position, directives[index].start
                position = directives[index].end
            index += 1
        if position < end:
            yield position, end
            position = end


class _Scanner:
    """Scans the declarations of a file.

    Positions are token indices; those in ``host`` and ``parts`` are text positions.
    """

    def __init__(self, text: str) -> None:
        self.lexed = Lexed(text)
        self.code = self.lexed.code
        self.macros: dict[str, str] = {}
        for macro in self.lexed.macros:  # all bodies of one name: #if chooses later
            self.macros[macro.name] = self.macros.get(macro.name, "") + macro.body
        self.for_gpu = _FOR_GPU | self._names_for_gpu()
        self.host: list[tuple[int, int]] = []
        self.names: set[str] = set()
        self.parts: list[Part] = []
        self.constant_functions: list[int] = []

    def _names_for_gpu(self) -> frozenset[str]:
        """Return the macros that expand to ``__device__`` or a related word, directly or not."""
        found: set[str] = set()
        while True:
            more = {n for n, body in self.macros.items() if (_FOR_GPU | found) & set(re.findall(r"\w+", body))} - found
            if not more:
                return frozenset(found)
            found |= more

    def scan(self) -> None:
        """Fill ``host``, ``parts``, ``names`` and ``constant_functions``."""
        at = begin = 0
        scopes: list[str] = []  # "namespace" or "class", of the brackets that are open
        outer = 0  # start of the outermost class
        while at < len(self.code):
            text = self.code[at].text
            inside = "class" in scopes
            if text == "(":
                at = self.lexed.after(at)
            elif text == "template":
                at = self._after_template(at) if self.lexed.text(at + 1) == "<" else at + 1
            elif text == "requires":
                at = self._after_constraint(at)
            elif text == ":" and inside and at == begin + 1 and self.code[begin].text in _ACCESS:
                begin = at = at + 1
            elif text == ";":
                begin = self._after_macro_calls(begin, at, _BEGINS_STATEMENT)
                at += 1
                self._statement(begin, at, inside)
                begin = at
            elif text == "}":
                at += 1
                if scopes and scopes.pop() == "class" and "class" not in scopes:
                    at = self._end_of_statement(at)
                    self._keep(outer, at, bool(self._words(outer, at) & self.for_gpu))
                elif inside:
                    at = self._end_of_statement(at)
                begin = at
            elif text == "{":
                begin = self._after_macro_calls(begin, at, _BEGINS)
                head = self._head(begin, at)
                if _NAMESPACE_HEAD.match(head):
                    scopes.append("namespace")
                    begin = at = at + 1
                elif match := _TYPE_HEAD.match(head):
                    if match[1] == "enum":
                        at = self._end_of_statement(self.lexed.after(at))
                        self._keep(begin, at)
                    else:
                        outer = outer if inside else begin
                        scopes.append("class")
                        at += 1
                    begin = at
                elif "(" not in head or "=" in head.split():  # a value in braces
                    at = self.lexed.after(at)
                else:
                    begin = at = self._function(begin, at, head, inside)
            else:
                at += 1

    def _function(self, begin: int, brace: int, head: str, inside: bool) -> int:
        """Process one function with its body. Return the position after it."""
        end = self.lexed.after(brace)
        while ") : " in head:  # members initialised in braces, before the body
            follows = self._next(end) if self.lexed.text(end) == "," else end
            if self.lexed.text(follows) != "{":
                break
            end = self.lexed.after(follows)
        self._judge(begin, end, brace, inside)
        return end

    def _statement(self, begin: int, end: int, inside: bool) -> None:
        """Process a declaration that ends in a semicolon."""
        head = self._head(begin, end - 1)
        if not head or _KEPT_STATEMENT.match(head):
            if not inside:
                self._keep(begin, end)
            return
        name = head.split("(")[0]
        declares = re.search(r"[\w>] \(\)", head) and "=" not in name
        if inside and (not declares or re.search(r"= (?:default|delete)$", head)):
            return
        constant = re.search(r"\b(?:const|constexpr)\b", head) and "*" not in head.split("=")[0] and not declares
        if not inside and constant:
            self._keep(begin, end)
        elif declares and re.fullmatch(r"\w+ \(.*\)", head) and name.strip() in self.macros:
            self._keep(begin, end, name.strip() in self.for_gpu)  # it may declare a kernel
        else:
            self._judge(begin, end, end - 1, inside)

    def _judge(self, begin: int, end: int, head_end: int, inside: bool) -> None:
        words, unbodied = self._words(begin, head_end), end == head_end + 1
        if words & self.for_gpu:
            if not inside:
                self._keep(begin, end, True)
        elif (words & _CONSTANT and "(" in words) or (inside and unbodied and "static" in words):
            # A declaration only: the compiler chooses by its type.
            self.constant_functions.append(self.code[self._after_template(begin)].start)
            if not inside:
                self._keep(begin, end)
        else:
            self.host.append((self.code[begin].start, self.code[end - 1].end))
            name = _DECLARED_NAME.search(self._head(begin, head_end))
            self.names |= {name[1]} if name else set()

    def _keep(self, begin: int, end: int, for_gpu: bool = False) -> None:
        self.parts.append(Part(self.code[begin].start, self.code[end - 1].end, for_gpu))

    def _after_template(self, at: int) -> int:
        """Skip ``template <...>``, also several, each with its constraint."""
        while self.lexed.text(at) == "template" and self.lexed.text(at + 1) == "<":
            at = self._after_constraint(self.lexed.after_angle(at + 1))
        return at

    def _after_constraint(self, at: int) -> int:
        """Skip a requires-clause, or a requires-expression, at its first word."""
        operator = "requires"
        while self.lexed.text(at) == operator:
            at += 1
            if self.lexed.text(at) == "requires":  # an expression: (parameters) {requirements}
                at += 1
                at = self.lexed.after(at) if self.lexed.text(at) == "(" else at
            at = self.lexed.after(at) if self.lexed.text(at) in ("(", "{") else self._after_name(at)
            operator = self.lexed.text(at) if self.lexed.text(at) in ("&&", "||") else "requires"
        return at

    def _after_name(self, at: int) -> int:
        """Skip ``space::name<arguments>::value``; nothing where there is no name."""
        at += self.lexed.text(at) == "::"
        while at < len(self.code) and self.code[at].kind == "name":
            at += 1
            if self.lexed.text(at) == "<":
                at = self.lexed.after_angle(at)
            if self.lexed.text(at) != "::":
                break
            at += 2 if self.lexed.text(at + 1) == "template" else 1
        return at

    def _after_macro_calls(self, begin: int, end: int, begins: frozenset[str]) -> int:
        """Skip ``MAKE_KERNEL(add)`` on lines of its own, without a semicolon, before one of the words ``begins``."""
        while (name := self.code[begin].text) in self.macros and name.isupper() and self.lexed.text(begin + 1) == "(":
            after = self.lexed.after(begin + 1)
            if self.code[after].line == self.code[after - 1].line or begins.isdisjoint(self._words(after, end)):
                break
            self._keep(begin, after, name in self.for_gpu)
            begin = after
        return begin

    def _words(self, begin: int, end: int) -> set[str]:
        return {token.text for token in self.code[begin:end]}

    def _head(self, begin: int, end: int) -> str:
        """Return the text before a body, with a blank between tokens.

        ``template <...>``, constraints, attributes, strings and an operator's sign are left out. Parentheses become
        ``()``, or ``(&)`` if they begin like a pointer, and square brackets ``[ ]``: an array's size may call a
        function.
        """
        words: list[str] = []
        at = self._after_template(begin)
        while at < end:
            token = self.code[at]
            if token.text == "requires":
                at = self._after_constraint(at)
                continue
            if token.text == "(":
                if words and words[-1] in _ATTRIBUTES:
                    words.pop()
                else:
                    words.append("(&)" if self.lexed.text(at + 1) in ("*", "&", "&&", "^") else "()")
                at = self.lexed.after(at)
                continue
            names_operator = words[-1:] == ["operator"] and token.kind == "punctuator"
            if token.text == "[" and not names_operator:
                words += ["[", "]"]
                at = self.lexed.after(at)
                continue
            if token.kind not in ("string", "character") and not names_operator:
                words.append(token.text)
            at += 1
        return " ".join(words)

    def _next(self, at: int) -> int:
        """Return the position of the next semicolon or brace."""
        return next((i for i in range(at, len(self.code)) if self.code[i].text in (";", "{", "}")), len(self.code))

    def _end_of_statement(self, at: int) -> int:
        """Return the position after the semicolon of a type's definition, after variables declared with it."""
        end = self._next(at)
        return end + 1 if self.lexed.text(end) == ";" else at
