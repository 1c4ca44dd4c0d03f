"""Pairs of submissions that are more alike than the lesson makes everybody: a hint for the teacher, never a verdict.

As MOSS does it (Schleimer, Wilkerson, Aiken: "Winnowing", SIGMOD 2003), on short files: what two files share are runs
of ``RUN`` tokens, without comments, layout, qualifiers, braces, parentheses and semicolons, a macro replaced by what it
stands for, each name, also of a type, by the order in which it comes up inside the run. So renaming changes nothing,
and moving a statement only the runs across its ends. Runs that the stub, the solution or many of the class have say
nothing about two of them; a file with few others is not compared at all.

    sources --runs--> own runs of each --who else has it--> pairs      linear in the class: a run counts for few only
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise

from gemm_lessons.course.folder import CommandError, Course, read_source
from gemm_lessons.engine.compiler.tokens import Token, blanked, tokens
from gemm_lessons.engine.records.frozen import dataclass

# Chosen by ``python -m checks.grading.copies``: no two honest kernels share 40% but a few that began as one;
# disguised copies share 60% and more.
RUN = 8  # tokens
SHARE = 0.6  # of the smaller one's own runs
OWN = 24  # runs; with fewer, alike is what everybody is
MANY = 10  # a run that a tenth of the class has (and more than FEW) is nobody's own
FEW = 3
MOST_TOKENS = 20_000  # of one file; a kernel has a thousand
IGNORED = frozenset(["const", "constexpr", "__restrict__", "inline", "__forceinline__", "register", *"{}();"])
NAMED = frozenset(
    "if else for while do return break continue switch case goto struct class template typename sizeof static extern "
    "volatile asm threadIdx blockIdx blockDim gridDim warpSize x y z w reinterpret_cast static_cast min max "
    "fmaf".split()
)
GIVEN = re.compile(r"__\w+|[BTW][MNK]")  # intrinsics and tile sizes

Run = tuple[str, ...]
Places = dict[Run, list[tuple[int, int]]]  # run -> first and last line, each time it comes


@dataclass(frozen=True)
class Alike:
    """Two students' kernels for a lesson. ``share`` of what the smaller one has beyond what all have is in the other,
    too; ``lines`` of each file are those that match, with their numbers."""

    lesson: str
    first: str
    second: str
    share: float
    first_lines: tuple[tuple[int, str], ...]
    second_lines: tuple[tuple[int, str], ...]


def alike(sources: Mapping[str, Mapping[str, str]], shared: Mapping[str, Sequence[str]]) -> tuple[Alike, ...]:
    """The pairs among ``sources`` (lesson -> student -> text), the most alike first; ``shared`` are texts of a lesson
    that everybody has."""
    found = [pair for lesson, texts in sources.items() for pair in _alike(lesson, texts, shared.get(lesson, ()))]
    return tuple(sorted(found, key=lambda it: (-it.share, it.lesson, it.first, it.second)))


def given(course: Course, lesson: str) -> tuple[str, ...]:
    """What everybody has of a lesson: its stub, its solution, and those of the lesson before; nothing of a lesson that
    the course lacks."""
    if lesson not in course.names:
        return ()
    at = course.names.index(lesson)
    found = []
    for name in course.names[max(0, at - 1) : at + 1]:
        loaded = course.lesson(name)
        for path in (loaded.stub_path, course.solution(loaded)):
            if path is not None:
                try:
                    found.append(read_source(path))
                except CommandError:
                    continue  # a lesson of the teacher's own may lack one
    return tuple(found)


def _alike(lesson: str, texts: Mapping[str, str], shared: Iterable[str]) -> Iterator[Alike]:
    everybody = {run for text in shared for run in _runs(text)}
    places = {student: _runs(text) for student, text in sorted(texts.items())}
    has = Counter(run for of in places.values() for run in of)
    many = max(FEW, len(texts) // MANY)
    beyond = {student: frozenset(of.keys() - everybody) for student, of in places.items()}
    own = {student: {run for run in runs if has[run] <= many} for student, runs in beyond.items()}
    common: Counter[tuple[str, str]] = Counter()
    owners: dict[Run, list[str]] = {}
    for student, runs in own.items():
        if len(runs) >= OWN:
            for run in runs:
                owners.setdefault(run, []).append(student)
    for students in owners.values():
        common.update(combinations(students, 2))
    pairs = {
        pair: count / min(len(own[pair[0]]), len(own[pair[1]]))
        for pair, count in common.items()
        if count >= SHARE * min(len(own[pair[0]]), len(own[pair[1]]))
    }
    # A copy that many have is nobody's own any more, but whole files do not come to be the same by themselves.
    same: dict[frozenset[Run], list[str]] = {}
    for student, whole in beyond.items():
        if len(whole) >= OWN:
            same.setdefault(whole, []).append(student)
    for students in same.values():
        pairs |= dict.fromkeys(pairwise(students), 1.0)
    for (first, second), share in pairs.items():
        both = beyond[first] & beyond[second]
        lines = (_lines(texts[student], places[student], both) for student in (first, second))
        yield Alike(lesson, first, second, share, *lines)


def _lines(text: str, places: Places, runs: Iterable[Run]) -> tuple[tuple[int, str], ...]:
    matching = {n for run in runs for first, last in places[run] for n in range(first, last + 1)}
    return tuple((n, line) for n, line in enumerate(text.split("\n"), 1) if n in matching and line.strip())


def _runs(text: str) -> Places:
    counted = list(_tokens(text))
    found: Places = {}
    for i in range(len(counted) - RUN + 1):
        window = counted[i : i + RUN]
        names: dict[str, str] = {}
        run = tuple(names.setdefault(token, f"${len(names)}") if free else token for token, free, _ in window)
        found.setdefault(run, []).append((window[0][2], window[-1][2]))
    return found


def _tokens(text: str) -> Iterator[tuple[str, bool, int]]:
    """Each token, whether its name is the student's to choose, and its line."""
    macros: dict[str, tuple[str, ...]] = {}
    hidden: list[tuple[int, int]] = []
    for line in tokens(text, "directive"):
        constant = line.macro if line.macro and not line.macro.call else None
        if constant:
            macros[constant.name] = tuple(_kept(tokens(constant.body)))
        if constant or line.directive in ("pragma", "include"):
            hidden.append((line.start, line.end))
    count = 0
    for token in tokens(blanked(text, hidden).replace("#", " ")):  # others count as code
        for kept in macros.get(token.text, _kept([token])):
            if (count := count + 1) > MOST_TOKENS:
                return
            yield kept, _is_free(kept), token.line


def _kept(found: Iterable[Token]) -> Iterator[str]:
    """The tokens that count; 0.0f is 0."""
    for token in found:
        text = token.text
        if token.kind == "comment" or text in IGNORED:
            continue
        if token.kind == "number":
            text = text.rstrip("fFuUlL") or text
            text = (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
        yield text


def _is_name(token: str) -> bool:
    return token[0].isalpha() or token[0] == "_"


def _is_free(token: str) -> bool:
    """Whether it is a name that is the student's to choose."""
    return _is_name(token) and token not in NAMED and not GIVEN.fullmatch(token)
