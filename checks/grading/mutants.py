"""Mutants of the solutions: each differs in one place, as a slip of the hand might make it, and must be rejected.

    python -m checks.grading.battery mutants 03         # those of a lesson

Operators, constants, names, guards, barriers, statements: every place where a rule fits is a candidate, and a fixed
sample of each lesson's is judged. A candidate that does not compile, or has the same PTX or the same machine code as
the solution, is left out. A mutant that passes must be listed in ``survivors.toml``, with the reason why it is right.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from checks.compiling import must_compile
from checks.grading.fixtures import PASSED, REJECTED, Fixture
from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.compiler.compile import Compiled

CORE = slice(1, 10)  # naive to double_buffer
OF_A_LESSON = 76  # mutants at most, so that 500 of all lessons' compile
SURVIVORS = Path(__file__).with_name("survivors.toml")

# Operator -> its replacements.
OPERATORS = {
    "+=": ("-=", "="),
    "<=": ("<",),
    "&&": ("||",),
    "==": ("!=",),
    "+": ("-", "*"),
    "-": ("+",),
    "*": ("+",),
    "/": ("%",),
    "%": ("/",),
    "<": ("<=", ">"),
}
# Name -> another name that is easily written by mistake.
NAMES = {
    "row": "col", "col": "row", "M": "N", "N": "K", "K": "N", "BM": "BN", "BN": "BK", "BK": "BN", "TM": "BM",
    "TN": "BN", "WM": "WN", "WN": "WM", "i": "j", "j": "i", "k": "k0", "k0": "k", "x": "y", "y": "z",
    "z": "w", "w": "x", "A": "B", "B": "A", "As": "Bs", "Bs": "As", "a": "b", "b": "a", "a_tile": "b_tile",
    "b_tile": "a_tile", "a_frag": "b_frag", "b_frag": "a_frag", "thread_row": "thread_col", "thread_col": "thread_row",
    "block_row": "block_col", "block_col": "block_row", "load_row_a": "load_row_b", "load_row_b": "load_row_a",
    "load_col_a": "load_col_b", "load_col_b": "load_col_a", "A_ROWS": "B_ROWS", "B_ROWS": "A_ROWS", "ROWS": "TM",
    "ROW_STEP": "COL_STEP", "COL_STEP": "ROW_STEP", "warp_row": "warp_col", "warp_col": "warp_row", "lane": "warp",
    "warp": "lane", "lane_row": "lane_col", "lane_col": "lane_row", "a_next": "b_next", "b_next": "a_next",
    "now": "(1 - now)", "buffer": "(1 - buffer)", "a_mine": "b_mine", "step": "k",
}  # fmt: skip
TOKEN = re.compile(r"\+\+|--|<<|>>|[-+*/%<>=!&|]=|&&|\|\||[-+*/%<]|\b[A-Za-z_]\w*\b|(?<![\w.])\d+\b(?!\.)")
DECLARED = re.compile(r"(?:int|float4?|>|&|auto) $")
HEAD = re.compile(r"\s*(?:#|static_assert|extern|gemm\(|template|const auto|[{}])")


def mutants() -> tuple[Fixture, ...]:
    """The sample of all lessons, in the course's order; the same every time."""
    course = any_course()
    return tuple(it for name in course.names[CORE] for it in _of_lesson(course.lesson(name)))


def _of_lesson(lesson: Lesson) -> list[Fixture]:
    lines = _without_comments(lesson.solution_path.read_text()).splitlines()
    sizes = lesson.tile.defines
    sites = [it for number in range(_body(lines), len(lines)) for it in _changes(lines, number, sizes)]
    draw = random.Random(f"mutants of {lesson.name}")
    chosen = sorted(draw.sample(range(len(sites)), min(OF_A_LESSON, len(sites))))
    return [_mutant(lesson, lines, f"m{at:03d}", *sites[at]) for at in chosen]


def _mutant(lesson: Lesson, lines: Sequence[str], name: str, rule: str, change: Mapping[int, str | None]) -> Fixture:
    changed = [change.get(number, line) for number, line in enumerate(lines)]
    source = "\n".join(line for line in changed if line is not None) + "\n"
    first = min(change)
    after = " | ".join((change[number] or "").strip() for number in sorted(change))
    says = f"line {first + 1}: {lines[first].strip()} => {after}"
    survives = (lesson.name[3:], says.partition(": ")[2]) in survivors()
    return Fixture("mutants", lesson.name, name, rule, says, source, PASSED if survives else REJECTED)


def _without_comments(source: str) -> str:
    return re.sub(r"[ \t]*//[^\n]*", "", source)


def _body(lines: Sequence[str]) -> int:
    return next(number for number, line in enumerate(lines) if line.startswith("gemm("))


def _changes(
    lines: Sequence[str], number: int, sizes: Mapping[str, int]
) -> Iterator[tuple[str, dict[int, str | None]]]:
    """Every change of a line: the rule's name, and line number -> new text (None: the line is removed)."""
    line = lines[number]
    if HEAD.match(line) or not line.strip():
        return
    for match in TOKEN.finditer(line):
        for rule, instead in _instead(line, match, sizes):
            yield rule, {number: line[: match.start()] + instead + line[match.end() :]}
    if guard := re.match(r"(\s*)if \((.*)\)( \{)?$", line):
        yield "guard", {number: f"{guard[1]}if (true){guard[3] or ''}"}
    if chosen := re.search(r"= ([^?]*) \? (.*) : 0\.0f;", line):
        yield "guard", {number: f"{line[: chosen.start()]}= {chosen[2]};"}
    if wide := re.match(r"(\s*)float4_at\((.*)\) = float4_at\((.*)\);$", line):
        yield "one lane of four", {number: f"{wide[1]}{wide[2]} = {wide[3]};"}
    if "__syncthreads();" in line:
        yield "barrier removed", {number: None}
        for other, how in ((number - 1, "earlier"), (number + 1, "later")):
            if lines[other].rstrip().endswith(";"):
                yield f"barrier {how}", {number: lines[other], other: line}
    elif line.rstrip().endswith(";") and re.match(r"\s*[a-z_]\w*(\(|\[| [-+*]?= )|\s*float4_at|\s*(A|B)s\[", line):
        yield "statement", {number: re.match(r"\s*", line)[0] + ";"}  # type: ignore[index]


def _instead(line: str, match: re.Match[str], sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    token, before = match[0], line[: match.start()]
    if token in OPERATORS:
        pointer_or_template = re.search(r"(?:float|Matrix|prefetch)\s*$", before)
        sign = token == "-" and not re.search(r"[\w\])]\s*$", before)
        if not (pointer_or_template or sign):
            for other in OPERATORS[token]:
                yield f"{token} to {other}", other
    elif token.isdigit():
        for number in {int(token) + 1, max(0, int(token) - 1)} - {int(token)}:
            yield "constant", str(number)
    elif (name := NAMES.get(token)) and not DECLARED.search(before) and sizes.get(token, 0) != sizes.get(name, -1):
        yield "name", name


# --- those that pass -------------------------------------------------------------------------------------------------


@cache
def survivors() -> Mapping[tuple[str, str], str]:
    """(lesson, change) -> why the mutant is right."""
    entries = tomllib.loads(SURVIVORS.read_text())["survivor"]
    return {(it["lesson"], it["change"]): it["why"] for it in entries}


def is_equivalent(kernel: Fixture) -> bool:
    """Whether it compiles to the solution's own PTX or machine code, but for the numbers of lines."""
    lesson = any_course().lesson(kernel.lesson)
    here, there = _compiled(lesson, kernel.source), _compiled(lesson, lesson.solution_path.read_text())
    return _plain(here.ptx) == _plain(there.ptx) or _machine(here) == _machine(there)


def _compiled(lesson: Lesson, source: str) -> Compiled:
    return must_compile(
        source,
        path="kernel.cu",
        entry=lesson.launches[0].entry,
        defines=lesson.tile.defines,
        include_dirs=lesson.include_dirs,
        arch=any_course().architecture_of(lesson),
    )


def _plain(ptx: str) -> str:
    return re.sub(r"(?m)^\s*(?:\.loc|\.file|//).*\n|\.section[^{]*\{[^}]*\}", "", ptx)


def _machine(compiled: Compiled) -> list[str]:
    return [it.text for it in compiled.sass]
