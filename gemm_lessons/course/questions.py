"""A lesson's questions, from its ``predict.toml``: asked before the run, answered by the run's counters.

[sectors]
ask = "How many sectors do the loads of a launch touch?"
answer = "global_load_sectors"          # an expression, as in gates; never a number
within = 10                             # percent that a guess may be off and still be right; 10 when left out
why = "Each tile comes in once."        # said with the score

[requests]
ask = "Load requests: less, the same or more than before?"
answer = "global_load_requests"
than = "before_global_load_requests"    # asks less, the same or more; before_: the previous lesson's solution
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from gemm_lessons.course.lesson import RESOURCES, Lesson
from gemm_lessons.course.toml import TomlReader, read_toml
from gemm_lessons.engine.arguments import Expression, ExpressionError, Number
from gemm_lessons.engine.records import COUNTED, dataclass
from gemm_lessons.gemm import SIZES

BEFORE = "before_"  # of the previous lesson's solution
FACTS = (*COUNTED, *RESOURCES, "threads", "blocks_per_sm", "occupancy")  # occupancy in percent, of the run's GPU
TREND = ("less", "the same", "more")
WORDS: Mapping[str, str] = {
    **dict.fromkeys(("less", "fewer", "lower", "down", "<", "-"), TREND[0]),
    **dict.fromkeys(("the same", "same", "equal", "no", "="), TREND[1]),
    **dict.fromkeys(("more", "higher", "up", ">", "+"), TREND[2]),
}
WITHIN = 10  # percent
SAME = 1  # percent within which two counts are the same
ROUNDING = 1e-9  # 4.4 is 10 percent off 4
GROUPED = re.compile(r"\b[1-9]\d{0,2}(,\d{3})+\b")  # 1,048,576
NEAR = 2.0  # a guess off by less than this factor is near

Answer = float | str  # a number, or one of TREND


@dataclass(frozen=True)
class Question:
    """One question. With ``than``, its answer is one of ``TREND``."""

    name: str
    ask: str
    answer: Expression
    than: Expression | None = None
    within: int = WITHIN
    why: str = ""
    line: int = 0  # of predict.toml

    def counted(self, names: Mapping[str, Number]) -> Answer | None:
        """Return the answer of a run that counted ``names``; None where it has none."""
        named = self.answer.names if self.than is None else self.answer.names | self.than.names
        if any(math.isnan(names[name]) for name in named):  # min and max may ignore a missing count
            return None
        value = self.answer.value(names)
        if self.than is None:
            return float(value) if math.isfinite(value) else None
        other = self.than.value(names)
        if not (math.isfinite(value) and math.isfinite(other)):
            return None
        if abs(value - other) <= SAME / 100 * abs(other):
            return TREND[1]
        return TREND[0] if value < other else TREND[2]

    def guess(self, text: str, names: Mapping[str, Number]) -> Answer:
        """Parse a learner's guess: a number, arithmetic over ``names``, or a word. Raise ``ExpressionError``."""
        typed = text.strip().lower()
        if self.than is not None:
            if typed not in WORDS:
                raise ExpressionError(f'"{text}" is none of {", ".join(TREND)}')
            return WORDS[typed]
        if typed in WORDS:
            raise ExpressionError(f'"{text}" is not an answer here: this question asks for a number')
        plain = GROUPED.sub(lambda it: it[0].replace(",", ""), text.strip().removesuffix("%"))
        if re.fullmatch(r"\d+,\d+", plain):
            raise ExpressionError(f'"{text}" has a comma: write decimals with a point, {plain.replace(",", ".")}')
        value = Expression.parse(plain, names).value(names)
        if not math.isfinite(value):
            raise ExpressionError(f'"{text}" is {value}')
        return float(value)


@dataclass(frozen=True)
class Score:
    """A question with the guess and the run's count."""

    question: Question
    guess: Answer
    counted: Answer

    @property
    def right(self) -> bool:
        """Tell whether the guess is as close as the question requires."""
        if isinstance(self.guess, str) or isinstance(self.counted, str):
            return self.guess == self.counted
        return abs(self.guess - self.counted) <= (self.question.within / 100 + ROUNDING) * abs(self.counted)

    @property
    def near(self) -> bool:
        """Tell whether the guess is not right, but off by less than a factor of ``NEAR``."""
        if isinstance(self.guess, str) or isinstance(self.counted, str) or self.right:
            return False
        return bool(self.counted) and 1 / NEAR < self.guess / self.counted < NEAR


def load_questions(lesson: Lesson) -> tuple[Question, ...]:
    """Return the questions of a lesson; empty when it has no ``predict.toml``. Raise ``LessonError``."""
    if not lesson.questions_path.exists():
        return ()
    text, raw = read_toml(lesson.questions_path, "restore it")
    reader = _Reader(lesson.questions_path, text)
    names = (*SIZES, *lesson.tile.defines, *FACTS)
    return tuple(reader.question(name, raw, (*names, *(BEFORE + fact for fact in FACTS))) for name in raw)


def scores(
    questions: tuple[Question, ...], guesses: Mapping[str, Answer], counted: Mapping[str, Answer]
) -> tuple[Score, ...]:
    """Return the questions that were both answered and counted."""
    asked = [it for it in questions if it.name in guesses and it.name in counted]
    return tuple(Score(it, guesses[it.name], counted[it.name]) for it in asked)


class _Reader(TomlReader):
    def question(self, name: str, raw: dict[str, Any], names: tuple[str, ...]) -> Question:
        table = self.table((), raw, name)
        self.known((name,), table, ("ask", "answer", "than", "within", "why"))
        answer = self.expression((name, "answer"), self.present((name,), table, "answer"), names)
        than = self.expression((name, "than"), table["than"], names) if "than" in table else None
        if not any(word in answer.text for word in FACTS):
            raise self.wrong(
                (name, "answer"), "does not name a counter: the answer is what a run counts, never a constant"
            )
        return Question(
            name,
            self.string((name,), table, "ask"),
            answer,
            than,
            self.integer((name,), table, "within", default=WITHIN),
            self.string((name,), table, "why", required=False),
            self.line((name,)) or 0,
        )
