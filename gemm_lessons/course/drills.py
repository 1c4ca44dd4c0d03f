"""A lesson's drills, from its ``drills.toml``: questions about indices whose numbers are drawn anew each time.

[row]                                             # one table for each question
ask = "Which row of C does thread {t} of a block of {BM} x {BN} threads own, if blockIdx.y = {by}?"
answer = "by * BM + t // BN"                      # or a list, for several numbers
why = "{working}."                                # shown after a wrong answer
[row.draw]
BM = [8, 16]                                      # one of these
BN = [16, 64]
by = "1 .. 5"                                     # from 1 to 5
t = "0 .. BM * BN - 1"                            # arithmetic over names above; without .., its value

[sectors]
ask = "Each lane reads A[lane * {K}]. How many sectors?"
draw = { K = [4, 8, 32] }
sectors = "lane * K"                              # index of the first element of each lane, 0 to 31; the engine counts
element = 4                                       # bytes of an element; 4 when left out
vector = 1                                        # elements that a lane accesses; 1 when left out
why = "The lanes are {4 * K} bytes apart."

``bank`` and ``wavefronts`` take an index in the same way. ``access = "store"`` counts the wavefronts of a store, and
``"matrix"`` those of ldmatrix. In a text, braces hold arithmetic over what was drawn. Three names are special:
``{index}`` is the index in C with its numbers, ``{working}`` the answer's expression with its value, and ``{answer}``
the answer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.questions import GROUPED
from gemm_lessons.course.toml import TomlReader, read_toml
from gemm_lessons.engine.arguments import Expression, ExpressionError
from gemm_lessons.engine.records import Where, dataclass

if TYPE_CHECKING:
    from gemm_lessons.engine.costs import AccessKind

LANE = "lane"
LANES = 32
RULES = ("answer", "sectors", "bank", "wavefronts")  # a drill has one of these keys
OF_A_WARP = ("sectors", "wavefronts")  # their index has the name ``lane``
INDEX, WORKING, ANSWER = "index", "working", "answer"  # special names in a text
ELEMENTS = (1, 2, 4, 8, 16)  # bytes of an element, and of what a lane accesses
ACCESSES: tuple[AccessKind, ...] = ("load", "store", "matrix")  # matrix: ldmatrix, its rows given by all lanes
FIELD = re.compile(r"\{([^{}]*)\}")
NAME = re.compile(r"[A-Za-z]\w*")

Answer = tuple[int, ...]
Values = Mapping[str, int]


@dataclass(frozen=True)
class Draw:
    """How a name gets its value: one of ``choices``; or, with ``last``, a whole number from the only choice to it."""

    name: str
    choices: tuple[Expression, ...]
    last: Expression | None = None

    def bounds(self, values: Values) -> tuple[int, ...]:
        """Return the values to choose from, or the first and the last number. Raise ``ExpressionError``."""
        found = tuple(it.whole(values, at_least=0) for it in (*self.choices, *([self.last] if self.last else [])))
        if self.last and found[0] > found[1]:
            raise ExpressionError(f"{self.name} has nothing to draw from {found[0]} to {found[1]}")
        return found

    def drawn(self, values: Values, dice: random.Random) -> int:
        """Draw the value. Raise ``ExpressionError``."""
        bounds = self.bounds(values)
        return dice.randint(*bounds) if self.last else dice.choice(bounds)


@dataclass(frozen=True)
class Drill:
    """One question without its numbers. ``of``: the answer's expressions, or the index that ``rule`` is applied to."""

    name: str
    ask: str
    why: str
    draws: tuple[Draw, ...]
    rule: str
    of: tuple[Expression, ...]
    element: int
    vector: Expression
    access: AccessKind
    line: int = 0  # of drills.toml

    def drawn(self, dice: random.Random) -> Drawn:
        """Return the question with new numbers. Raise ``ExpressionError`` where the drill has no answer for them."""
        values: dict[str, int] = {}
        for draw in self.draws:
            values[draw.name] = draw.drawn(values, dice)
        return self.at(values)

    def at(self, values: Values) -> Drawn:
        """Return the question with these numbers. Raise ``ExpressionError``."""
        answer = self._answer(values)
        parts = [NAME.sub(lambda name: str(values.get(name[0], name[0])), it.in_c) for it in self.of]
        working = ", ".join(f"{part} = {value}" for part, value in zip(parts, answer, strict=True))
        special = {INDEX: parts[0], WORKING: working, ANSWER: in_words(answer)}

        def field(match: re.Match[str]) -> str:
            return special.get(match[1]) or str(Expression(match[1]).whole(values, at_least=0))

        return Drawn(self, values, FIELD.sub(field, self.ask), answer, FIELD.sub(field, self.why))

    def _answer(self, values: Values) -> Answer:
        """Return the answer by the rules of the engine."""
        if self.rule == "answer":
            return tuple(it.whole(values, at_least=0) for it in self.of)
        import numpy as np  # imported late: --help reads no drills

        from gemm_lessons.engine.costs import banks

        width = self.element * self.vector.whole(values, at_least=1)
        if width not in ELEMENTS:
            raise ExpressionError(f"a lane accesses {width} bytes; it must be one of {', '.join(map(str, ELEMENTS))}")
        lanes = range(LANES) if self.rule in OF_A_WARP else range(1)
        indices = [self.of[0].whole({**values, LANE: lane} if len(lanes) > 1 else values, at_least=0) for lane in lanes]
        addresses = np.array([indices], np.int64) * self.element
        if (addresses % width).any():
            raise ExpressionError(f'"{self.of[0].text}" is not aligned to the {width} bytes that a lane accesses')
        if self.rule == "bank":
            return (int(banks.bank(addresses)[0, 0]),)
        if self.rule == "sectors":
            return (int(banks.sectors(addresses, None, width)[0]),)
        return (int(banks.wavefronts(addresses, None, width, self.access)[0][0]),)


@dataclass(frozen=True)
class Drawn:
    """One question with its numbers, the answer, and how it is computed."""

    drill: Drill
    values: Values
    ask: str
    answer: Answer
    why: str

    def parse(self, text: str) -> Answer:
        """Read a typed answer, whole numbers or arithmetic with C's division. Raise ``ExpressionError``."""
        count, plain = len(self.answer), text.strip()
        if count == 1:
            parts = [GROUPED.sub(lambda it: it[0].replace(",", ""), plain)]
        else:
            inside = plain[1:-1] if plain[:1] + plain[-1:] in ("()", "[]") else plain
            parts = inside.split(",") if "," in inside else inside.split()
        if len(parts) != count or any("," in part for part in parts):
            wanted = "one number" if count == 1 else f"{count} numbers, like {', '.join('123456789'[:count])}"
            raise ExpressionError(f'"{text.strip()}" is not an answer here; write {wanted}')
        return tuple(_whole(part) for part in parts)


def in_words(answer: Answer) -> str:
    """Format an answer: ``16384``, ``3, 17``."""
    return ", ".join(map(str, answer))


def load_drills(lesson: Lesson) -> tuple[Drill, ...]:
    """Return the drills of a lesson; empty when it has no ``drills.toml``. Raise ``LessonError``."""
    if not lesson.drills_path.exists():
        return ()
    text, raw = read_toml(lesson.drills_path, "restore it")
    reader = _Reader(lesson.drills_path, text)
    return tuple(reader.drill(name, raw) for name in raw)


def _whole(text: str) -> int:
    try:
        if not re.fullmatch(r"[0-9.\s+\-*/%()]+", text):
            raise ExpressionError(text)
        value = Expression.parse(re.sub(r"/+", "//", text), ()).value({})
    except ExpressionError:
        raise ExpressionError(f'"{text.strip()}" is neither a whole number nor arithmetic like 3 * 64 + 5') from None
    if type(value) is not int:
        raise ExpressionError(f'"{text.strip()}" is {value}; write a whole number')
    return int(value)


class _Reader(TomlReader):
    def drill(self, name: str, raw: dict[str, Any]) -> Drill:
        where, table = (name,), self.table((), raw, name)
        self.known(where, table, ("ask", "draw", *RULES, "element", "vector", "access", "why"))
        rules = [rule for rule in RULES if rule in table]
        if len(rules) != 1:
            raise self.wrong(where, f"needs one of {', '.join(RULES)}; it has {' and '.join(rules) or 'none'}")
        [rule] = rules
        if rule == "answer":
            for key in ("element", "vector", "access"):
                if key in table:
                    raise self.wrong((name, key), f"belongs to {', '.join(RULES[1:])}, not to answer")
        draws = self.draws(name, table)
        names = tuple(draw.name for draw in draws)
        return Drill(
            name,
            self.text((name, "ask"), table, names, () if rule == "answer" else (INDEX,)),
            self.text((name, "why"), table, names, (WORKING if rule == "answer" else INDEX, ANSWER)),
            draws,
            rule,
            self.of((name, rule), table[rule], (*names, LANE) if rule in OF_A_WARP else names, rule == "answer"),
            self.one_of((name, "element"), table.get("element", 4), ELEMENTS),
            self.integers((name, "vector"), table.get("vector", 1), names),
            self.one_of((name, "access"), table.get("access", ACCESSES[0]), ACCESSES),
            self.line(where) or 0,
        )

    def draws(self, name: str, table: dict[str, Any]) -> tuple[Draw, ...]:
        raw = self.table((name,), table, "draw")
        found: list[Draw] = []
        for key, value in raw.items():
            where, names = (name, "draw", key), [draw.name for draw in found]
            if not NAME.fullmatch(key) or key in (INDEX, WORKING, ANSWER):
                raise self.wrong(where, "is not a name for a number; use one like BM")
            if isinstance(value, list):
                if not value:
                    raise self.wrong(where, "has nothing to draw from; list numbers, like [16, 64]")
                found.append(Draw(key, tuple(self.integers(where, it, names) for it in value)))
            elif isinstance(value, str) and ".." in value:
                first, _, last = value.partition("..")
                found.append(
                    Draw(key, (self.integers(where, first.strip(), names),), self.integers(where, last.strip(), names))
                )
            else:
                found.append(Draw(key, (self.integers(where, value, names),)))
        if not found:
            raise self.wrong((name, "draw"), "draws nothing, so the question would be the same each time")
        return tuple(found)

    def of(self, where: Where, value: object, names: Sequence[str], several: bool) -> tuple[Expression, ...]:
        if several and isinstance(value, list) and value:
            return tuple(self.integers(where, it, names) for it in value)
        return (self.integers(where, value, names),)

    def integers(self, where: Where, value: object, names: Sequence[str]) -> Expression:
        """Return arithmetic of whole numbers, which C computes in the same way."""
        found = self.expression(where, value, names)
        if re.search(r"(?<!/)/(?!/)", found.text) or re.search(r"\d\.|\.\d|\de", found.text):
            raise self.wrong(where, f'"{found.text}" is not arithmetic of whole numbers; write // for C\'s division')
        return found

    def text(self, where: Where, table: dict[str, Any], names: Sequence[str], special: Sequence[str]) -> str:
        """Return a text whose fields are arithmetic over ``names``, or special."""
        text = self.string(where[:1], table, str(where[1]))
        for field in FIELD.findall(text):
            if field not in special:
                self.integers(where, field, (*names, *(it for it in special if it == field)))
        return text

    def one_of(self, where: Where, value: Any, known: tuple[Any, ...]) -> Any:
        if value not in known:
            raise self.wrong(where, f"{value!r} is none of {', '.join(map(str, known))}")
        return value
