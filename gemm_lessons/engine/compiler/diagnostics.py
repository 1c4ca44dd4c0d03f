"""Parse NVRTC's log into ``Diagnostic`` records in the learner's own file, line and column.

The log has three sources: the C++ front end (``file(line): error: ...``, then the source line and a caret), ptxas
(``ptxas error : ...``, which knows kernels but not source lines) and NVRTC itself.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from gemm_lessons.engine.compiler import source as cuda_source
from gemm_lessons.engine.compiler.tokens import without_comments
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex
from gemm_lessons.engine.records.words import printable

Severity = Literal["error", "warning"]
NAME_EXPRESSION_FILE = "__nv_name_map"  # NVRTC's file name for the text that requests the kernel's name


@dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler, printable. ``line`` and ``column`` (in characters) count from 1.

    ``no_kernel``: the file has no kernel of the requested name.
    """

    file: str
    line: int
    column: int | None
    severity: Severity
    message: str
    no_kernel: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")
        return f"{place}: {self.severity}: {self.message}"


_HEADER = regex(
    r"^(?:(?P<file>.+?)\((?P<line>\d+)\)|At end of source): "
    r"(?P<kind>catastrophic error|internal error|error|warning|note|remark)(?: #\d+(?:-D)?)?: (?P<text>.*)"
)
_CARET = regex(r"^ *\s*\^\s*$")
_NOISE = regex(r"^(\d+ (catastrophic )?errors? detected|Remark: |Compilation terminated|\s*$)")
_TYPES = regex(r"\s*((?:argument|operand) types are: .*)")
_FRAGMENTS = regex(r"\b(?:nvcuda::)?wmma::|, void(?=>)")
MOST_UNFIT = 2  # candidate functions for which a message explains the mismatch
_PTXAS = regex(r"^\s*ptxas (?P<kind>error|fatal|warning)\s*: (?P<text>.*)")
_PTXAS_LINE = regex(r"^\s*ptxas .*?, line (?P<line>\d+); (?P<kind>error|fatal|warning)\s*: (?P<text>.*)")
_TOO_MUCH_SHARED = regex(r"Entry function '(.+)' uses too much shared data \((0x\w+) bytes, (0x\w+) max\)")

HOST_FUNCTION = (
    "write __device__ in front of a function that kernels call, or __global__ in front of a kernel; "
    "functions of the host (main, launch code) cannot be compiled here"
)
# A name of the runtime's interface in code for the GPU: dynamic parallelism.
OF_THE_RUNTIME = regex(r'identifier "cuda[A-Z]\w*" is undefined')
# Functions of a warp that CUDA 9 deprecated, and that no GPU since Volta has.
_WITHOUT_MASK = regex(r'identifier "(__(?:shfl(?:_up|_down|_xor)?|ballot|any|all))" is undefined')
# Replacements for front-end messages about options or concepts that a user cannot act on.
_REWORDED: tuple[tuple[re.Pattern[str], str], ...] = (
    (regex(r"A function without execution space annotations .*"), HOST_FUNCTION),
    (
        regex(r"A namespace scope variable without memory space annotations .*"),
        "write __device__ or __constant__ in front of a global variable; variables of the host cannot be compiled here",
    ),
    (
        regex(r"device-side kernel launch could not be processed.*"),
        "a kernel that launches another one (dynamic parallelism) cannot be run here: launch both from the host, "
        "or make the inner one a __device__ function and call it",
    ),
    (
        regex(r'function "pow\(float, int\)" was declared deprecated.*'),
        "pow(float, int) is in float here (NVRTC) and in double with nvcc: write powf(x, n), or multiply",
    ),
    (
        regex(r"(?:texture|surface) is not a template"),
        "texture references left CUDA with version 12: pass the kernel a cudaTextureObject_t, or a cudaSurfaceObject_t",
    ),
)


def parse_log(
    log: str, path: str, source: str, ptx: str = "", names: Mapping[str, str] | None = None
) -> tuple[Diagnostic, ...]:
    """Return the messages of an NVRTC log, in order and without duplicates.

    ``path`` and ``source`` are the learner's file. ``ptx`` is the PTX, possibly partial, to find source lines for
    ptxas. ``names`` maps file names in the log to those to show.
    """
    front_end = _front_end(log, path, source, names or {})
    unique = dict.fromkeys([*front_end, *_ptxas(log, path, source, ptx)])
    tokens = [d for d in unique if d.message == "unrecognized token"]
    followed = {(d.file, d.line, d.column) for d in tokens}  # "expected a ..." at the same position adds nothing
    return tuple(
        _foreign_character(d, path, source) if d in tokens else _missing_end(d, path, source)
        for d in unique
        if d in tokens or (d.file, d.line, d.column) not in followed
    )


def _foreign_character(found: Diagnostic, path: str, source: str) -> Diagnostic:
    """Name a character that is not ASCII, since it may look like an ASCII one: names of CUDA C++ are ASCII."""
    lines = source.split("\n")  # splitlines() also splits at form feeds and the like
    if found.file != path or not found.column or found.line > len(lines) or found.column > len(lines[found.line - 1]):
        return found
    character = lines[found.line - 1][found.column - 1]
    shown = f"'{character}' " if character.isprintable() else ""
    return replace(found, message=f"the character {shown}(U+{ord(character):04X}) is not allowed here")


def _missing_end(found: Diagnostic, path: str, source: str) -> Diagnostic:
    """Name the line that lacks its semicolon: the compiler reports it at the next line."""
    if found.message != 'expected a ";"' or found.file != path or not found.column:
        return found
    lines = without_comments(source).split("\n")
    if found.line > len(lines):
        return found
    before = [number for number, line in enumerate(lines[: found.line - 1], 1) if line.strip()]
    if lines[found.line - 1][: found.column - 1].strip() or not before:
        return found
    return replace(found, message=f"{found.message} at the end of line {before[-1]}")


def _front_end(log: str, path: str, source: str, names: Mapping[str, str]) -> Iterator[Diagnostic]:
    messages: list[tuple[re.Match[str], list[str]]] = []
    for line in log.split("\n"):
        if match := _HEADER.match(line):
            messages.append((match, []))
        elif messages and not _NOISE.match(line):
            messages[-1][1].append(line)
    for (head, body), notes in _with_notes(messages):
        file = head["file"]
        caret = next((index for index, line in enumerate(body) if _CARET.match(line)), 0)
        said = head["text"].strip() + _types(body) + _instantiation(body)
        for note, its_body in notes:
            where = f" in line {note['line']}" if note["file"] and names.get(note["file"], note["file"]) == path else ""
            said += f" ({note['text'].strip()}{_instantiation(its_body)}{where})"
        yield _finished(
            Diagnostic(
                file=names.get(file) or printable(file) if file else path,
                line=int(head["line"]) if file else source.rstrip("\n").count("\n") + 1,
                column=_column(body[caret - 1], body[caret]) if caret else None,
                severity="warning" if head["kind"] == "warning" else "error",
                message=said,
            )
        )


Message = tuple[re.Match[str], list[str]]  # its first line, and those below it


def _with_notes(messages: Sequence[Message]) -> Iterator[tuple[Message, list[Message]]]:
    """Yield each error or warning with its notes, without the notes on mismatches of many overloads."""
    starts = [index for index, (head, _) in enumerate(messages) if head["kind"] not in ("note", "remark")]
    for start, end in itertools.pairwise((*starts, len(messages))):
        notes = list(messages[start + 1 : end])
        unfit = [note for note in notes if " does not match because " in note[0]["text"]]
        said = notes if len(unfit) <= MOST_UNFIT else [note for note in notes if note not in unfit]
        yield messages[start], [note for note in said if not note[0]["text"].strip().startswith("built-in operator")]


def _types(body: Sequence[str]) -> str:
    """Return the argument types for which a function or operator has no match, without the namespace of fragments."""
    found = next((match for line in body if (match := _TYPES.match(line))), None)
    return f"; {_FRAGMENTS.sub('', found[1])}" if found else ""


def _instantiation(body: Sequence[str]) -> str:
    """Return the template arguments: of the innermost instantiation, and of the outermost, in the learner's code."""
    lines = [line.strip() for line in body]
    start = next((index for index, line in enumerate(lines) if line.startswith("detected during")), None)
    if start is None:
        return ""
    steps = [line for line in (lines[start].removeprefix("detected during").lstrip(": "), *lines[start + 1 :]) if line]
    return "; detected during " + (steps[0] if len(steps) == 1 else f"{steps[0]}, from {steps[-1]}")


def _column(source_line: str, caret_line: str) -> int:
    """Return the column in characters, from 1. NVRTC prints two spaces before the source line, and counts bytes."""
    before = source_line.encode()[2 : caret_line.index("^")]
    return len(before.decode(errors="ignore")) + 1


def _finished(found: Diagnostic) -> Diagnostic:
    for pattern, words in _REWORDED:
        if pattern.match(found.message):
            return replace(found, message=words)
    if match := _WITHOUT_MASK.fullmatch(found.message):
        advice = f"write {match[1]}_sync, whose first argument is the mask of the lanes that take part"
        return replace(found, message=f"{found.message}: {advice}")
    if OF_THE_RUNTIME.fullmatch(found.message):
        advice = "it belongs to CUDA's runtime, which only code of the host can call here (no dynamic parallelism)"
        return replace(found, message=f"{found.message}: {advice}")
    if match := re.match(r'cannot open source file "(.*)"$', found.message):
        return replace(found, message=explain_missing(match[1]))
    return found


def explain_missing(file: str) -> str:
    """Explain that an included file does not exist."""
    if re.match(r"(nv|cuda|thrust|cub)/", file):
        advice = "; NVIDIA's C++ core libraries are the wheel nvidia-cuda-cccl: is it installed, and new enough?"
    else:
        advice = "; the C++ standard library is not available in kernels" if re.fullmatch(r"\w+", file) else ""
    return f'cannot open source file "{file}"{advice}'


def _ptxas(log: str, path: str, source: str, ptx: str) -> Iterator[Diagnostic]:
    for line in log.splitlines():
        if match := _PTXAS_LINE.match(line):
            severity: Severity = "warning" if match["kind"] == "warning" else "error"
            file, number = _source_line(ptx, int(match["line"])) or (path, 1)
            yield Diagnostic(file, number, None, severity, f"inline assembly: {match['text']}")
        elif match := _PTXAS.match(line):
            if "aborted due to errors" in match["text"]:
                continue
            severity = "warning" if match["kind"] == "warning" else "error"
            yield _about_kernel(match["text"], severity, path, source, ptx)


def _about_kernel(text: str, severity: Severity, path: str, source: str, ptx: str) -> Diagnostic:
    if match := _TOO_MUCH_SHARED.search(text):
        return _too_much_shared(match[1], int(match[2], 16), int(match[3], 16), path, source, ptx)
    line = 1
    if match := re.search(r"Unresolved extern function '(\S+)'", text):
        name = plain_name(match[1])
        text = f"the function {name} is declared and called, but nothing defines it"
        use = re.search(rf"\b{re.escape(name)}\b", without_comments(source))
        line = cuda_source.line_of(source, use.start()) if use else 1
    elif match := re.search(r"'(_Z\w+|\w+)'", text):
        name = plain_name(match[1])
        text = text.replace(match[0], f"'{name}'")
        line = next((k.line for k in cuda_source.kernels(source) if k.name == name), 1)
    return Diagnostic(path, line, None, severity, text)


def _too_much_shared(entry: str, used: int, limit: int, path: str, source: str, ptx: str) -> Diagnostic:
    """Locate the error at the kernel's largest shared array, and add up all of them."""
    start = ptx.find(f".entry {entry}(")
    arrays = re.findall(r"\.shared\s+\.align\s+\d+\s+\.b8\s+(\S+)\[(\d+)\]", ptx[: ptx.find("\n}", start)])
    message = (
        f"kernel {plain_name(entry)} declares {used:,} bytes of static __shared__ memory; "
        f"a block may have at most {limit:,} ({limit // 1024} KB)"
    )
    line = next((k.line for k in cuda_source.kernels(source) if k.name == plain_name(entry)), 1)
    if arrays:
        mangled, size = max(arrays, key=lambda array: int(array[1]))
        name = plain_name(mangled)
        line = cuda_source.shared_array_line(source, name) or line
        message += f". The largest array is {name} with {int(size):,} bytes"
    return Diagnostic(path, line, None, "error", message)


def _source_line(ptx: str, ptx_line: int) -> tuple[str, int] | None:
    """Return file and line of the last ``.loc`` at or before a line of the PTX text."""
    before = "\n".join(ptx.splitlines()[:ptx_line])
    found = re.findall(r"^\s*\.loc\s+(\d+)\s+(\d+)", before, re.M)
    if not found:
        return None
    file = re.search(rf'^\s*\.file\s+{found[-1][0]}\s+"(.*)"', ptx, re.M)
    return (file[1], int(found[-1][1])) if file else None


def plain_name(mangled: str) -> str:
    """Return the innermost plain name: ``_ZZ4gemmPfE2As`` -> ``As``, ``_Z4tileILi64EEvPf`` -> ``tile``.

    Only the part of the Itanium C++ ABI's mangling that kernels, functions and shared arrays need is supported.
    """
    if mangled.startswith("_ZZ"):  # _ZZ <function> E <length> <local name> [_ <number of the scope>] [_$_ <part>]
        for match in re.finditer(r"E([1-9]\d*)", mangled):
            end = match.end() + int(match[1])
            if re.fullmatch(r"(_\d+|__\d+_)?(_\$_\d+)?", mangled[end:]) and end <= len(mangled):
                return mangled[match.end() : end]
        return mangled
    name = mangled
    if head := re.match(r"_Z[NKL]*", mangled):
        position = head.end()
        while length := re.compile(r"[1-9]\d*").match(mangled, position):
            position = length.end() + int(length[0])
            name = mangled[length.end() : position]
            if "N" not in head[0]:  # what follows is a type of its parameters
                break
    return name


def base_name(entry: str) -> str:
    """Return ``tile`` for ``ns::tile<64, 8>``."""
    return re.sub(r"<.*", "", entry, flags=re.S).strip().rpartition("::")[2]


def explain_failure(
    found: tuple[Diagnostic, ...], log: str, path: str, source: str, entry: str
) -> tuple[Diagnostic, ...]:
    """Express errors about the requested name in terms of the file; keep them only if there are no other errors."""
    own = tuple(d for d in found if d.file != NAME_EXPRESSION_FILE)
    if any(d.severity == "error" for d in own):
        return own
    about_name = next((d.message for d in found if d.file == NAME_EXPRESSION_FILE), None)
    if about_name is None:
        message = next((line.strip() for line in log.splitlines() if line.strip()), "the compiler gave no reason")
        return (*own, Diagnostic(path, 1, None, "error", message))
    return (*own, _explain_name(about_name, path, source, entry))


def _why_hidden(name: str, source: str, line: int) -> str:
    """Return why the compiler does not see a kernel that the file has."""
    condition = cuda_source.condition_around(source, line)
    if condition is None or cuda_source.is_in_namespace(source, line):
        return f"{name} is inside a namespace: call it by its full name, such as ns::{name}"
    number, directive = condition
    return f"{name} is left out by `{directive}` in line {number}: it is compiled where that holds (-D NAME=VALUE)"


def _explain_name(complaint: str, path: str, source: str, entry: str) -> Diagnostic:
    defined = cuda_source.kernels(source)
    name = base_name(entry)
    same = [kernel for kernel in defined if kernel.name == name]
    if same:
        line = same[0].line
        if len(same) > 1:
            chosen = next((kernel for kernel in same if not kernel.template), same[0])
            cast = f"(void (*)({', '.join(chosen.parameters)})){name}"
            message = f"{name} is overloaded: give each of its kernels its own name, or choose one by its type: {cast}"
        elif same[0].template and "<" not in entry:
            instance = f"{name}<>" if same[0].has_defaults else f"{name}<...>"
            message = f"{name} is a template <{same[0].template}>: name one instance of it, such as {instance}"
        elif f'"{name}" is undefined' in complaint:
            message = _why_hidden(name, source, line)
        else:
            message = f"{entry} cannot be instantiated from {same[0]}: {complaint}"
    elif "non-__global__" in complaint or "must form address" in complaint:
        use = re.search(rf"\b{re.escape(name)}\b", without_comments(source))
        line = cuda_source.line_of(source, use.start()) if use else 1
        message = f"{name} is not a kernel: a kernel is a function with __global__ in front"
    elif defined:
        near = difflib.get_close_matches(name, [kernel.name for kernel in defined], 1, 0.6)
        line = next((kernel.line for kernel in defined if kernel.name in near), defined[0].line)
        listed = "; ".join(f"{kernel} in line {kernel.line}" for kernel in defined)
        message = f"no kernel is called {name}; this file has {listed}"
    else:
        line, message = 1, f"no kernel is called {name}; this file has no __global__ function at all"
    return Diagnostic(path, line, None, "error", message, no_kernel=not same)
