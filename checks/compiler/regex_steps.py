"""Runs a regular expression step by step in Python, as ``re`` would, so that its work can be counted."""

from __future__ import annotations

import re
import re._parser as parser  # type: ignore[import-not-found]  # the parser of ``re``: it has no other door
from collections.abc import Callable, Iterator
from typing import Any

_Groups = tuple[tuple[int, int, int], ...]  # number, start and end, in the order in which they close
_Rest = Callable[[int, _Groups], bool]  # does the rest of the pattern match from here?

_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_NOT_SPACE": lambda character: not character.isspace(),
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_WORD": lambda character: character.isalnum() or character == "_",
}


class Found:
    """A match, with the part of ``re.Match`` that ``tokens`` uses."""

    def __init__(self, pattern: Steps, source: str, span: tuple[int, int], groups: _Groups) -> None:
        self._source, self._names = source, pattern.names
        self._spans = {0: span} | {number: (start, end) for number, start, end in groups}
        self.lastgroup = {at: name for name, at in self._names.items()}.get(groups[-1][0]) if groups else None

    def start(self, group: int | str = 0) -> int:
        """Return the position of a group."""
        return self._spans[self._number(group)][0]

    def end(self, group: int | str = 0) -> int:
        """Return the position after a group."""
        return self._spans[self._number(group)][1]

    def __getitem__(self, group: int | str) -> str:
        """Return the text of a group."""
        return self._source[self.start(group) : self.end(group)]

    def _number(self, group: int | str) -> int:
        return self._names[group] if isinstance(group, str) else group


class Steps:
    """A pattern with ``re.M | re.S``. ``taken`` counts the elements that were compared with the source.

    It recurses once for each: short sources only.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        assert pattern.flags == re.M | re.S | re.U
        self.names = dict(pattern.groupindex)
        self.taken = 0
        self._tree = list(parser.parse(pattern.pattern, pattern.flags))

    def finditer(self, source: str, start: int = 0, end: int | None = None) -> Iterator[Found]:
        """Yield the matches, none of which may be empty."""
        text = str(source)[:end]
        while start < len(text):
            last: list[tuple[int, _Groups]] = []

            def ended(at: int, groups: _Groups, last: list[tuple[int, _Groups]] = last) -> bool:
                last.append((at, groups))
                return True

            if self._match(self._tree, text, start, (), ended):
                at, groups = last[0]
                yield Found(self, text, (start, at), groups)
                start = at
            else:
                start += 1

    def _match(self, tree: list[Any], text: str, at: int, groups: _Groups, rest: _Rest) -> bool:
        if not tree:
            return rest(at, groups)
        self.taken += 1
        (code, argument), *after = tree
        here, follow = text[at : at + 1], lambda at, groups: self._match(after, text, at, groups, rest)
        name = str(code)
        if name == "BRANCH":
            for way in argument[1]:  # noqa: SIM110 (``any`` would recurse on the stack of C)
                if self._match([*way, *after], text, at, groups, rest):
                    return True
            return False
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, body = argument
            return self._repeat(list(body), text, (at, groups), (least, int(most), name == "MAX_REPEAT"), follow)
        if name == "SUBPATTERN":
            number, _, _, body = argument
            close = lambda end, groups: follow(end, (*groups, (number, at, end)))  # noqa: E731
            return self._match(list(body), text, at, groups, close)
        if name == "ASSERT_NOT":
            return not self._match(list(argument[1]), text, at, groups, lambda *_: True) and follow(at, groups)
        if name == "GROUPREF":
            start, end = next((start, end) for number, start, end in reversed(groups) if number == argument)
            return text.startswith(text[start:end], at) and follow(at + end - start, groups)
        if name == "AT":
            starts, ends = at == 0 or text[at - 1] == "\n", at == len(text) or here == "\n"
            where = {"AT_BEGINNING": starts, "AT_END": ends, "AT_END_STRING": at == len(text)}
            return where[str(argument)] and follow(at, groups)
        return here != "" and _is_one(name, argument, here) and follow(at + 1, groups)

    def _repeat(
        self,
        body: list[Any],
        text: str,
        begun: tuple[int, _Groups],
        times: tuple[int, int, bool],
        follow: _Rest,
    ) -> bool:
        least, most, greedy = times
        at, groups = begun

        def more() -> bool:
            def again(end: int, inside: _Groups) -> bool:
                rest = (max(least - 1, 0), most - 1, greedy)
                return end > at and self._repeat(body, text, (end, inside), rest, follow)

            return most > 0 and self._match(body, text, at, groups, again)

        if least > 0:
            return more()
        return more() or follow(at, groups) if greedy else follow(at, groups) or more()


def _is_one(name: str, argument: Any, character: str) -> bool:
    """Tell whether an element of one character takes this one."""
    if name == "IN":
        negated, *ones = argument if str(argument[0][0]) == "NEGATE" else (None, *argument)
        return any(_is_one(str(code), value, character) for code, value in ones) != (negated is not None)
    if name == "RANGE":
        return bool(argument[0] <= ord(character) <= argument[1])
    if name == "CATEGORY":
        return _CATEGORIES[str(argument)](character)
    return {"LITERAL": ord(character) == argument, "NOT_LITERAL": ord(character) != argument, "ANY": True}[name]
