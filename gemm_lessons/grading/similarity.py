"""Find pairs of submissions more alike than stub, solution and class explain: a hint for the teacher, not a verdict.

The method is that of MOSS (Schleimer, Wilkerson, Aiken: "Winnowing", SIGMOD 2003) for short files. Files are compared
by their runs (n-grams) of ``RUN`` tokens. Comments, layout, qualifiers, braces, parentheses and semicolons are dropped,
macros are expanded, and each name, including type names, is replaced by its order of appearance in the run. So renaming
changes nothing, and moving a statement changes only the runs across its ends. Runs that occur in the stub, in the
solution or in many submissions are ignored. A file with few other runs is not compared.

    sources --runs--> own runs of each --owners of each run--> pairs      linear in the class: each run has few owners
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise

from gemm_lessons.course import CommandError, Course, read_source
from gemm_lessons.engine.compiler import Token, blanked, tokens_of
from gemm_lessons.engine.records import dataclass

# Chosen by ``python -m checks.grading.copies``: independent kernels share less than 40%, except for a few that began
# as one file; disguised copies share 60% and more.
RUN = 8  # tokens
SHARE = 0.6  # fraction of the smaller file's own runs
OWN = 24  # runs; files with fewer own runs are not compared, since they are all alike
MANY = 10  # a run that more than a tenth of the class (and more than FEW) has is common
FEW = 3
MOST_TOKENS = 20_000  # of one file; a kernel has about a thousand
IGNORED = frozenset(["const", "constexpr", "__restrict__", "inline", "__forceinline__", "register", *"{}();"])
NAMED = frozenset(
    "if else for while do return break continue switch case goto struct class template typename sizeof static extern "
    "volatile asm threadIdx blockIdx blockDim gridDim warpSize x y z w reinterpret_cast static_cast min max "
    "fmaf".split()
)
GIVEN = re.compile(r"__\w+|[BTW][MNK]")  # intrinsics and tile sizes

Run = tuple[str, ...]
Places = dict[Run, list[tuple[int, int]]]  # run -> first and last line of each occurrence


@dataclass(frozen=True)
class SimilarPair:
    """Two students' kernels for a lesson. ``share`` is the fraction of the smaller file's own runs that the other file
    contains. ``first_lines`` and ``second_lines`` are the matching lines with their numbers."""

    lesson: str
    first: str
    second: str
    share: float
    first_lines: tuple[tuple[int, str], ...]
    second_lines: tuple[tuple[int, str], ...]


def alike(sources: Mapping[str, Mapping[str, str]], shared: Mapping[str, Sequence[str]]) -> tuple[SimilarPair, ...]:
    """Return similar pairs among ``sources`` (lesson -> student -> text), most alike first, without ``shared``."""
    found = [pair for lesson, texts in sources.items() for pair in _alike(lesson, texts, shared.get(lesson, ()))]
    return tuple(sorted(found, key=lambda it: (-it.share, it.lesson, it.first, it.second)))


def given(course: Course, lesson: str) -> tuple[str, ...]:
    """Return the texts that all students have: stubs and solutions of the lesson and the previous one, if any."""
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
                    continue  # a teacher's own lesson may lack one
    return tuple(found)


def _alike(lesson: str, texts: Mapping[str, str], shared: Iterable[str]) -> Iterator[SimilarPair]:
    given_runs = {run for text in shared for run in runs_of(text)}
    places = {student: runs_of(text) for student, text in sorted(texts.items())}
    has = Counter(run for of in places.values() for run in of)
    many = max(FEW, len(texts) // MANY)
    beyond = {student: frozenset(of.keys() - given_runs) for student, of in places.items()}
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
    # The runs of a file that many copied are common, but identical whole files are still copies.
    same: dict[frozenset[Run], list[str]] = {}
    for student, whole in beyond.items():
        if len(whole) >= OWN:
            same.setdefault(whole, []).append(student)
    for students in same.values():
        pairs |= dict.fromkeys(pairwise(students), 1.0)
    for (first, second), share in pairs.items():
        both = beyond[first] & beyond[second]
        lines = (lines_with(texts[student], places[student], both) for student in (first, second))
        yield SimilarPair(lesson, first, second, share, *lines)


def lines_with(text: str, places: Places, runs: Iterable[Run]) -> tuple[tuple[int, str], ...]:
    """Return the lines of a kernel that belong to ``runs``, with their numbers."""
    matching = {n for run in runs for first, last in places[run] for n in range(first, last + 1)}
    return tuple((n, line) for n, line in enumerate(text.split("\n"), 1) if n in matching and line.strip())


def runs_of(text: str) -> Places:
    """Return the runs of a kernel and their lines."""
    counted = list(_tokens(text))
    found: Places = {}
    for i in range(len(counted) - RUN + 1):
        window = counted[i : i + RUN]
        names: dict[str, str] = {}
        run = tuple(names.setdefault(token, f"${len(names)}") if free else token for token, free, _ in window)
        found.setdefault(run, []).append((window[0][2], window[-1][2]))
    return found


def _tokens(text: str) -> Iterator[tuple[str, bool, int]]:
    """Yield each token, whether the student chose its name, and its line."""
    macros: dict[str, tuple[str, ...]] = {}
    hidden: list[tuple[int, int]] = []
    for line in tokens_of(text, "directive"):
        constant = line.macro if line.macro and not line.macro.call else None
        if constant:
            macros[constant.name] = tuple(_kept(tokens_of(constant.body)))
        if constant or line.directive in ("pragma", "include"):
            hidden.append((line.start, line.end))
    count = 0
    for token in tokens_of(blanked(text, hidden).replace("#", " ")):  # other directives count as code
        for kept in macros.get(token.text, _kept([token])):
            if (count := count + 1) > MOST_TOKENS:
                return
            is_name = kept[0].isalpha() or kept[0] == "_"
            yield kept, is_name and kept not in NAMED and not GIVEN.fullmatch(kept), token.line


def _kept(found: Iterable[Token]) -> Iterator[str]:
    """Yield the text of the tokens that count, with numbers normalised: 0.0f becomes 0."""
    for token in found:
        text = token.text
        if token.kind == "comment" or text in IGNORED:
            continue
        if token.kind == "number":
            text = text.rstrip("fFuUlL") or text
            text = (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
        yield text
