"""The ``// TODO(number)`` comments of a kernel: their texts, and which of them are still open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise

from gemm_lessons.engine.records import dataclass

TODO = re.compile(r"//\s*TODO\((\d+)\)")
MORE = re.compile(r"\s*//\s*(?!TODO\()(.*)")


@dataclass(frozen=True)
class TodoMark:
    """A ``// TODO(number): text`` in a source file; ``line`` counts from 1."""

    number: int
    line: int
    text: str


def todo_marks(source: str) -> tuple[TodoMark, ...]:
    """Return the ``// TODO(n): ...`` comments of a file; a comment continues over following lines of comments only."""
    marks = []
    code, comments = _lines(source)
    for index, comment in comments.items():
        found = re.search(TODO.pattern + r":?\s*(.*)", comment)
        if not found:
            continue
        text, following = [found[2].strip()], index + 1
        while (more := MORE.fullmatch(comments.get(following, ""))) and not code[following]:
            text.append(more[1].strip())
            following += 1
        marks.append(TodoMark(int(found[1]), index + 1, " ".join(text)))
    return tuple(marks)


@dataclass(frozen=True)
class TodoGroup:
    """TODO comments with no code between them. ``above``, ``below``: the nearest line of code before the first of them
    and after the last; ``region``: all lines of code from there to the next TODO."""

    numbers: tuple[int, ...]
    above: str
    below: str
    region: tuple[str, ...]


@dataclass(frozen=True)
class Stub:
    """A lesson's stub: its text, and its TODO comments, in groups that code separates."""

    text: str = ""
    groups: tuple[TodoGroup, ...] = ()

    @classmethod
    def of(cls, text: str) -> Stub:
        """Read a stub."""
        code, marks = _marks(text)
        before = {number: sum(map(bool, code[: index + 1])) for number, index in marks.items()}  # lines of code
        found = []
        for _, numbers in groupby(before, key=before.__getitem__):
            each = tuple(numbers)
            first, last = marks[each[0]], marks[each[-1]]
            region = tuple(_region(code, marks, last))
            found.append(TodoGroup(each, _above(code, first), _below(code, last), region))
        return cls(text, tuple(found))

    def of_kernels(self, entries: Iterable[str]) -> Stub:
        """Return the stub without the TODOs in other kernels than these."""
        code, marks = _marks(self.text)
        named = re.compile(rf"\b({'|'.join(map(re.escape, entries))})\s*\(")
        others = set[int]()
        for start in (index for index, line in enumerate(code) if "__global__" in line):
            end = next((it for it, line in enumerate(self.text.split("\n")[start:], start) if line[:1] == "}"), start)
            if not named.search("\n".join(code[start:end]).partition("{")[0]):
                others |= {number for number, index in marks.items() if start < index < end}
        return Stub(self.text, tuple(group for group in self.groups if others.isdisjoint(group.numbers)))


def open_todos(source: str, stub: Stub) -> dict[int, int]:
    """Return the TODOs of the stub for which the learner has written nothing yet: number -> line in ``source``.

    Solving a stub adds or changes a line above or below the TODO's comment, or deletes it. Comments with no code
    between them in the stub are assumed to be solved in order: those after the last new line are open. A line between
    two of them belongs to the upper one, unless there is also a line above the first of them.
    """
    return _open(*_marks(source), stub.groups)


def skipped_todos(source: str, stub: Stub) -> dict[int, int]:
    """Return TODOs that are not open, but have no code below their comment: number -> line in ``source``.

    Only for authors who write below the comments: then such a step was forgotten, or was written elsewhere.
    """
    code, marks = _marks(source)
    return _skipped(code, marks, stub.groups, _open(code, marks, stub.groups))


@dataclass(frozen=True)
class TodoState:
    """What is open of a stub's TODOs. ``done`` of ``count`` have code of their own."""

    open: dict[int, int]
    done: int
    count: int


def todo_state(source: str, stub: Stub) -> TodoState:
    """Return how many of the stub's TODOs are written."""
    count = sum(len(group.numbers) for group in stub.groups)
    code, marks = _marks(source)
    still = _open(code, marks, stub.groups)
    return TodoState(still, count - len(still.keys() | _skipped(code, marks, stub.groups, still).keys()), count)


def _open(code: Sequence[str], marks: Mapping[int, int], groups: Iterable[TodoGroup]) -> dict[int, int]:
    """Return open TODOs, of a source by its lines of code and its marks."""
    found: dict[int, int] = {}
    for group in groups:
        left = {number: index for number, index in marks.items() if number in group.numbers}
        if not left:
            continue
        at = list(left.values())
        new = [_above(code, at[0]) != group.above, *(any(code[i + 1 : j + 1]) for i, j in pairwise(at))]
        below = _region(code, marks, at[-1])
        more = len(below) > len(group.region) and below[len(below) - len(group.region) :] == [*group.region]
        new.append(_below(code, at[-1]) != group.below or more)
        on_top = new[0] and group.numbers[0] in left
        done = max((place for place, is_new in enumerate(new) if is_new), default=0) + on_top
        found |= {number: index + 1 for number, index in list(left.items())[done:]}
    return found


def _skipped(
    code: Sequence[str], marks: Mapping[int, int], groups: Iterable[TodoGroup], todos: Mapping[int, int]
) -> dict[int, int]:
    """Return TODOs that are not open and have no code below their comment."""
    found: dict[int, int] = {}
    for group in groups:
        if not marks.keys() >= set(group.numbers) or _above(code, marks[group.numbers[0]]) != group.above:
            continue
        for number, following in pairwise(group.numbers):
            if number not in todos and not any(code[marks[number] + 1 : marks[following] + 1]):
                found[number] = marks[number] + 1
    return found


@lru_cache(maxsize=8)  # several hints ask for a kernel's
def _marks(source: str) -> tuple[list[str], dict[int, int]]:
    """Return the lines without comments, and the index of each TODO's line."""
    code, comments = _lines(source)
    return code, {int(match[1]): index for index, text in comments.items() if (match := TODO.search(text))}


def _lines(source: str) -> tuple[list[str], dict[int, str]]:
    """Return the lines without comments, and by index the comments of each line."""
    from gemm_lessons.engine.compiler import tokens_of, without_comments

    comments: dict[int, str] = {}
    for token in tokens_of(source, "comment"):
        for index, text in enumerate(token.text.split("\n"), token.line - 1):
            comments[index] = comments.get(index, "") + text
    return [line.strip() for line in without_comments(source).split("\n")], comments


def _above(code: Sequence[str], index: int) -> str:
    """Return the code in this line, else in the nearest line above that has some."""
    return next(filter(None, reversed(code[: index + 1])), "")


def _region(code: Sequence[str], marks: Mapping[int, int], index: int) -> list[str]:
    """Return the code below this line down to the next TODO, which may begin with the stub's next line."""
    end = min((other for other in marks.values() if other > index), default=len(code))
    return [line for line in code[index + 1 : end] if line]


def _below(code: Sequence[str], index: int) -> str:
    return next(filter(None, code[index + 1 :]), "")
