"""A ``.cu`` file as nvcc takes it -> what NVRTC takes of it: kernels and device code, without what is the host's.

Tutorials keep ``main``, launches and helper functions beside their kernels. NVRTC compiles for the GPU alone and
refuses them, so they are blanked out: every other character keeps its line, and so do messages and line tables.
Preprocessor lines stay wherever they stand. Declarations are told by their brackets and words, as text
(``kernels_only``); where that is not enough, the compiler's complaints say what else is the host's (``without``).
"""

from __future__ import annotations

import bisect
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gemm_lessons.engine.compiler.includes import Places
from gemm_lessons.engine.records.frozen import dataclass

_HIDDEN = re.compile(
    r'//(?:[^\n\\]|\\.)*|/\*.*?(?:\*/|\Z)|R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'",
    re.S,
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)(?:[^\n\\]|\\.|\\\Z)*", re.M | re.S)
_BRANCH = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|else|elif|endif)\b")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)[^\n]*', re.M)
_ATTRIBUTES = re.compile(r"\b(?:__launch_bounds__|__align__|alignas|__attribute__|__declspec|noexcept)\s*\(")
_FOR_GPU = frozenset("__device__ __global__ __constant__ __shared__ __managed__ __grid_constant__".split())
_TYPE_HEAD = re.compile(r"(?:typedef\s+|static\s+|const\s+)*(class|struct|union|enum)\b[^()=]*$")
_NAMESPACE_HEAD = re.compile(r"(?:inline\s+)?namespace\b[^()=;]*$|extern\s*$")
_KEPT_STATEMENT = re.compile(
    r"(?:using|typedef|static_assert|namespace|friend|asm|_Static_assert)\b|texture\s*<|surface\s*<"
    r"|(?:enum|class|struct|union)\s+(?:class\s+)?[\w:]+(?:\s*:\s*[\w: ]+)?$|(?:enum|class|struct|union)\b[^()=;]*$"
)
_ACCESS = re.compile(r"\s*(?:public|private|protected)\s*$")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?((?:[^\n\\]|\\.)*)", re.M | re.S)
_OWN_LINE_CALL = re.compile(r"\s*([A-Z_][A-Z0-9_]*)\s*\(")
_TEMPLATE = re.compile(r"template\s*(?=<)")
_SPACE = re.compile(r"\s*")
_REST = re.compile(r"[^;{}]*;")
_NEXT_MEMBER = re.compile(r"\s*(?:,[^;{}]*)?(?=\{)")
# Files of the host that a folder of CUDA examples keeps for all of them, or that its libraries bring along.
_OF_THE_HOST = re.compile(
    r"(?:helper_\w+|exception|cublas\w*|curand|cufft\w*|cusparse\w*|cusolver\w*|cudnn|nccl|nvml|cupti\w*|npp\w*|nvrtc|mpi"
    r"|omp|cuda_profiler_api|nvToolsExt\w*|cuda|cuda_runtime|cuda_runtime_api|device_launch_parameters|timer|timing"
    r"|opencv\w*|glut|glew|freeglut|getopt|windows|unistd)\.(?:h|hpp|cuh)"
)
MOST_TEXT = 8 << 20
DEEPEST = 40
GRAPHICS = "GL/"  # of the host's window, whoever has it


@dataclass(frozen=True)
class Part:
    """One declaration at namespace scope, or a member function: ``start`` to ``end`` in the text."""

    start: int
    end: int
    for_gpu: bool


@dataclass(frozen=True)
class WholeFile:
    """A file and what it includes as one text. ``origins``: per line its file and line there.

    ``missing`` are the included files that are not there, ``removed`` the functions and variables taken out.
    """

    text: str
    origins: tuple[tuple[str, int], ...]
    missing: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    removed: frozenset[str] = frozenset()


def gather(source: str, places: Places) -> WholeFile:
    """``source`` with the text of the user's own included files in place of the ``#include`` lines.

    What the compiler's own folders hold stays included; what lies outside of all folders is not there.
    """
    text = _Gathered(places)
    text.add(source, places.name)
    return WholeFile("\n".join(text.lines), tuple(text.origins), tuple(dict.fromkeys(text.missing)))


class _Gathered:
    """What ``gather`` has put together so far."""

    def __init__(self, places: Places) -> None:
        self.lines: list[str] = []
        self.origins: list[tuple[str, int]] = []
        self.missing: list[str] = []
        self._places = places
        self._guards: dict[Path, str] = {}  # of files that ask to be included once
        self._once: set[Path] = set()  # those of them that are surely there: not only where some #if holds
        self._size = 0

    def add(self, text: str, file: str, depth: int = 0, certain: bool = True) -> None:
        """Put the lines of a file, and of those that it includes. ``certain``: no ``#if`` can leave it out."""
        self._size += len(text)
        expanded: list[bool] = []  # of each #if around a line: whether a file was included behind it
        # The host's preprocessor splices lines also where blanks follow the backslash.
        for number, line in enumerate(re.sub(r"\\[ \t\r]+$", r"\\", text, flags=re.M).split("\n"), 1):
            match = _INCLUDE.match(line) if self._size < MOST_TEXT and depth < DEEPEST else None
            if match is None:
                self._put("" if line.strip() == "#pragma once" else line, file, number)
                self._branch(line, file, number, expanded)
                continue
            wanted, quoted = match[1] or match[2], match[1] is not None
            found = self._find(wanted, file if quoted else None)
            if found is None:
                self._put(self._left(line, wanted, quoted), file, number)
            elif found.resolve() in self._once:
                self._put("", file, number)
            else:
                self._include(found, file, number, depth, certain and not expanded)
                expanded = [True] * len(expanded)

    def _put(self, line: str, file: str, number: int) -> None:
        self.lines.append(line)
        self.origins.append((file, number))

    def _branch(self, line: str, file: str, number: int, expanded: list[bool]) -> None:
        """Behind an ``#if``, ``#else`` or ``#endif``: the directive behind a file may have been left out with it."""
        word = branch[1] if (branch := _BRANCH.match(line)) else ""
        if word.startswith("if"):
            expanded.append(False)
        elif word and expanded:
            if expanded[-1]:
                self._put(_line_directive(number + 1, file), file, number)
            if word == "endif":
                expanded.pop()

    def _find(self, wanted: str, beside: str | None) -> Path | None:
        if wanted.startswith(GRAPHICS):
            return None
        folders = [*([] if beside is None else [Path(beside).parent]), *self._places.folders]
        found = next((folder / wanted for folder in folders if os.path.isfile(folder / wanted)), None)
        return found if found is not None and self._places.hold(found) else None

    def _left(self, line: str, wanted: str, quoted: bool) -> str:
        """What stays of an ``#include`` of a file that is not the user's."""
        if wanted.startswith(GRAPHICS):
            return ""
        kept = any(os.path.isfile(folder / wanted) for folder in self._places.system)
        droppable = not quoted or _OF_THE_HOST.fullmatch(Path(wanted).name) or Path(wanted).suffix == ""
        if kept or not droppable:
            return line
        self.missing.append(wanted)
        return "#include <host_library.h>" if not quoted and re.fullmatch(r"\w+", wanted) else ""

    def _include(self, found: Path, file: str, number: int, depth: int, certain: bool) -> None:
        path = found.resolve()
        included = found.read_text(errors="replace").removeprefix("\ufeff").replace("\0", " ")
        guard = ""
        if re.search(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", included, re.M):
            guard = self._guards.setdefault(path, f"INCLUDED_{len(self._guards)}_")
            self._once.update([path] * certain)
            self._put(f"#ifndef {guard}", file, number)
            self._put(f"#define {guard}", file, number)
        self._put(_line_directive(1, str(found)), file, number)
        self.add(included, str(found), depth + 1, certain)
        if guard:
            self._put("#endif", file, number)
        self._put(_line_directive(number + 1, file), file, number)


_OF_A_DEVICE_LIBRARY = re.compile(
    r"(?:curand_|nvshmem|cublasdx|cufftdx|nvcuda)\w*(?:\.h)?|cuComplex\.h|math_constants\.h"
)


def is_of_the_host(file: str) -> bool:
    """Whether an included file is of the system or of a library of the host: GPU code does not miss it."""
    if _OF_A_DEVICE_LIBRARY.fullmatch(file):
        return False
    return bool(re.fullmatch(r"(?:sys/)?\w+(?:\.h)?", file) or _OF_THE_HOST.fullmatch(Path(file).name))


def _line_directive(number: int, file: str) -> str:
    return f'#line {number} "{re.sub(r"[^ -~]|[%]", "_", file) if not file.isprintable() else file}"'


def kernels_only(whole: WholeFile) -> WholeFile:
    """Without functions and variables of the host."""
    scanner = _Scanner(whole.text)
    scanner.scan()
    text = _blank(whole.text, scanner.host)
    for position in sorted(scanner.constant_functions, reverse=True):
        text = f"{text[:position]}__host__ __device__ {text[position:]}"
    return replace(whole, text=text, parts=_moved(scanner), removed=frozenset(scanner.names))


def _moved(scanner: _Scanner) -> tuple[Part, ...]:
    """The parts, where ``__host__ __device__`` in front of some functions has moved them to."""
    inserted = sorted(scanner.constant_functions)
    width = len("__host__ __device__ ")

    def place(position: int) -> int:
        return position + width * bisect.bisect_left(inserted, position)

    return tuple(Part(place(part.start), place(part.end), part.for_gpu) for part in scanner.parts)


def without(whole: WholeFile, complaints: Iterable[tuple[str, int]]) -> WholeFile | None:
    """Without the declarations of the host in which the compiler found errors (file, line); None if there are none."""
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
    macros = {call[1] for p in blamed if (call := _OWN_LINE_CALL.match(whole.text, p.start))}
    for part in whole.parts:  # what one use of a macro cannot, the others cannot either
        call = _OWN_LINE_CALL.match(whole.text, part.start)
        blamed += [part] * (call is not None and call[1] in macros and not part.for_gpu)
    text = _blank(whole.text, [(p.start, p.end) for p in blamed])
    return None if text == whole.text else replace(whole, text=text)


def _blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Spaces for everything in the spans but preprocessor lines."""
    pieces, position = [], 0
    for start, end in sorted(spans):
        start = max(start, position)
        if start >= end:
            continue
        pieces.append(text[position:start])
        at = start
        for directive in _DIRECTIVE.finditer(_masked(text[start:end], directives=True)):
            pieces.append(re.sub(r"[^\n]", " ", text[at : start + directive.start()]))
            at = start + directive.end()
            pieces.append(text[start + directive.start() : at])
        pieces.append(re.sub(r"[^\n]", " ", text[at:end]))
        position = end
    return "".join(pieces) + text[position:]


def _masked(text: str, *, directives: bool = False) -> str:
    """Comments, strings and (unless kept) preprocessor lines as spaces: every other character keeps its place."""

    def spaces(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    def hide(match: re.Match[str]) -> str:
        return spaces(match) if match[0][0] in "/R" else match[0]

    if directives:
        return _HIDDEN.sub(hide, text)
    text = _HIDDEN.sub(hide, text)
    text = _DIRECTIVE.sub(spaces, text)
    return _HIDDEN.sub(spaces, text)


class _Scanner:
    """Walks over the declarations of a file."""

    def __init__(self, text: str) -> None:
        self.mask = _masked(text)
        self.macros: dict[str, str] = {}
        for name, body in _MACRO.findall(_masked(text, directives=True)):  # all bodies of one name: #if chooses later
            self.macros[name] = self.macros.get(name, "") + body
        self.for_gpu = _FOR_GPU | self._names_for_gpu()
        self.host: list[tuple[int, int]] = []
        self.names: set[str] = set()
        self.parts: list[Part] = []
        self.constant_functions: list[int] = []
        self.branches = self._branches(text)

    def _names_for_gpu(self) -> frozenset[str]:
        """Macros that stand for ``__device__`` and its kin, directly or not."""
        found: set[str] = set()
        while True:
            more = {n for n, body in self.macros.items() if (_FOR_GPU | found) & set(re.findall(r"\w+", body))} - found
            if not more:
                return frozenset(found)
            found |= more

    def _branches(self, text: str) -> list[tuple[int, str]]:
        """Positions of conditional directives: of ``#if A { #else { #endif`` only the first bracket counts."""
        kinds = {"if": "if", "ifdef": "if", "ifndef": "if", "else": "else", "elif": "else", "endif": "endif"}
        found = _DIRECTIVE.finditer(_masked(text, directives=True))
        return [(m.start(), kinds[m[1]]) for m in found if m[1] in kinds]

    def scan(self) -> None:
        """Fill ``host``, ``parts``, ``names`` and ``constant_functions``."""
        mask, position, begin = self.mask, 0, 0
        scopes: list[str] = []  # "namespace" or "class", of the brackets that are open
        outer = 0  # where the outermost class began
        while position < len(mask):
            character = mask[position]
            inside = "class" in scopes
            if character == "(":
                position = self._closing(position)
            elif character == ":" and inside and _ACCESS.match(mask[begin:position]):
                position += 1
                begin = position
            elif character == ";":
                position += 1
                self._statement(begin, position, inside)
                begin = position
            elif character == "}":
                position += 1
                if scopes and scopes.pop() == "class" and "class" not in scopes:
                    position = self._end_of_statement(position)
                    self._keep(outer, position, bool(self._words(outer, position) & self.for_gpu))
                elif inside:
                    position = self._end_of_statement(position)
                begin = position
            elif character == "{":
                head = self._head(begin, position)
                if _NAMESPACE_HEAD.match(head):
                    scopes.append("namespace")
                    position += 1
                    begin = position
                elif match := _TYPE_HEAD.match(head):
                    if match[1] == "enum":
                        position = self._end_of_statement(self._closing(position))
                        self._keep(begin, position)
                    else:
                        outer = outer if inside else begin
                        scopes.append("class")
                        position += 1
                    begin = position
                elif "(" not in head or re.search(r"(?<![=!<>])=(?!=)", _outermost(head)):  # a value in braces
                    position = self._closing(position)
                else:
                    position = self._function(begin, position, head, inside)
                    begin = position
            else:
                position += 1

    def _function(self, begin: int, brace: int, head: str, inside: bool) -> int:
        """One function with its body; the position behind it."""
        end = self._closing(brace)
        while (follows := _NEXT_MEMBER.match(self.mask, end)) and re.search(r"\)\s*:[^:]", head):
            end = self._closing(follows.end())  # members initialised in braces, before the body
        begin = self._after_macro_calls(begin, brace)
        self._judge(begin, end, brace, inside)
        return end

    def _statement(self, begin: int, end: int, inside: bool) -> None:
        """A declaration that ends in a semicolon."""
        head = self._head(begin, end - 1)
        if not head or _KEPT_STATEMENT.match(head):
            if not inside:
                self._keep(begin, end)
            return
        plain = _outermost(head)
        declares = re.search(r"(?:[\w>]|operator\s*\S+)\s*\(\s*(?!\s*[*&^])", head) and "=" not in plain.split("(")[0]
        if inside and (not declares or re.search(r"=\s*(?:default|delete)\s*$", head)):
            return
        constant = re.search(r"\b(?:const|constexpr)\b", head) and "*" not in plain.split("=")[0] and not declares
        if not inside and constant:
            self._keep(begin, end)
            return
        name = head.split("(")[0].strip()
        if declares and re.fullmatch(r"(\w+)\s*\(.*\)", head, re.S) and name in self.macros:
            self._keep(begin, end, name in self.for_gpu)  # it may declare a kernel
            return
        self._judge(begin, end, end, inside)

    def _judge(self, begin: int, end: int, head_end: int, inside: bool) -> None:
        words = self._words(begin, head_end)
        start, unbodied = self._after_space(begin), end == head_end
        if words & self.for_gpu:
            if not inside:
                self._keep(start, end, True)
        elif ("constexpr" in words and "(" in self.mask[begin:head_end]) or (inside and unbodied and "static" in words):
            # Declared only: for the compiler to choose by its type.
            self.constant_functions.append(self._behind_template(start))
            if not inside:
                self._keep(start, end)
        else:
            self.host.append((start, end))
            name = re.search(r"([A-Za-z_]\w*)\s*(?:\(|=|\[|;|$)", self.mask[start:head_end])
            self.names |= {name[1]} if name else set()

    def _keep(self, begin: int, end: int, for_gpu: bool = False) -> None:
        self.parts.append(Part(self._after_space(begin), end, for_gpu))

    def _after_space(self, position: int) -> int:
        match = _SPACE.match(self.mask, position)
        return match.end() if match else position

    def _behind_template(self, start: int) -> int:
        match = _TEMPLATE.match(self.mask, start)
        if match is None:
            return start
        position, depth = match.end(), 0
        while position < len(self.mask):
            depth += {"<": 1, ">": -1}.get(self.mask[position], 0)
            position += 1
            if depth == 0:
                break
        return self._after_space(position)

    def _after_macro_calls(self, begin: int, end: int) -> int:
        """Skip ``MAKE_KERNEL(add)`` on lines of its own, without a semicolon, before a function."""
        while match := _OWN_LINE_CALL.match(self.mask[begin:end]):
            if match[1] not in self.macros:
                break
            after = self._closing(begin + match.end() - 1)
            if not re.match(r"[ \t]*\n", self.mask[after:end]) or "(" not in self.mask[after:end]:
                break
            self._keep(begin, after, match[1] in self.for_gpu)
            begin = after
        return begin

    def _words(self, begin: int, end: int) -> set[str]:
        return set(re.findall(r"\w+", self.mask[begin:end]))

    def _head(self, begin: int, end: int) -> str:
        """The text before a body, without attributes in parentheses and without ``template <...>``."""
        text = self.mask[begin:end]
        while match := _ATTRIBUTES.search(text):
            depth, position = 1, match.end()
            while position < len(text) and depth:
                depth += {"(": 1, ")": -1}.get(text[position], 0)
                position += 1
            text = text[: match.start()] + " " + text[position:]
        text = text.strip()
        while match := re.match(r"template\s*<", text):
            depth, position = 1, match.end()
            while position < len(text) and depth:
                depth += {"<": 1, ">": -1}.get(text[position], 0)
                position += 1
            text = text[position:].strip()
        return text

    def _end_of_statement(self, position: int) -> int:
        """Behind the semicolon after a type's body, over the variables declared with it."""
        match = _REST.match(self.mask, position)
        return match.end() if match else position

    def _closing(self, position: int) -> int:
        """Behind the bracket that closes the one at ``position``."""
        opening = self.mask[position]
        closing = {"(": ")", "{": "}"}[opening]
        depth, saved = 0, []
        branch = bisect.bisect_left(self.branches, (position, ""))
        for match in re.compile(rf"[{opening}{closing}]").finditer(self.mask, position):
            while branch < len(self.branches) and self.branches[branch][0] < match.start():
                kind = self.branches[branch][1]
                if kind == "if":
                    saved.append(depth)
                elif kind == "else":
                    depth = saved[-1] if saved else 0
                elif kind == "endif" and saved:
                    saved.pop()
                branch += 1
            depth += 1 if match[0] == opening else -1
            if depth <= 0:
                return match.end()
        return len(self.mask)


def _outermost(head: str) -> str:
    """``head`` with ``()`` for everything in parentheses, and without operators that are names."""
    head = re.sub(r"\boperator\s*[^\s\w(]+", "operator", head)
    while (shorter := re.sub(r"\([^()]*\)", "\x00", head)) != head:
        head = shorter
    return head.replace("\x00", "()")
