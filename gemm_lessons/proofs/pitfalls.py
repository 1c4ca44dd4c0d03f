"""Proofs of a lesson's pitfalls: the tool prints what the text quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemm_lessons.course.lesson import LessonError
from gemm_lessons.proofs.candidate import Candidate, flaw, line_at

QUOTE = re.compile(r"<!-- pitfall: (\w+) -->\s*```\w*\n(.*?)```", re.DOTALL)


def edits_fit_the_solution(it: Candidate) -> Iterator[str]:
    """Every edit of pitfalls.toml finds its place in the solution, once, and every tile size is one of the lesson's."""
    for pitfall in it.pitfalls.values():
        try:
            pitfall.source(it.solution)
            pitfall.lesson(it.lesson)
        except LessonError as error:
            yield str(error)


def the_tool_prints_what_is_quoted(it: Candidate, numbers: bool = True) -> Iterator[str]:
    """Each line below ``<!-- pitfall: NAME -->`` is printed by a run of that pitfall; without ``numbers``, perhaps with
    others in it."""
    told = squeezed if numbers else lambda text: without_numbers(squeezed(text))
    for match in QUOTE.finditer(it.text):
        name, first = match[1], line_at(it.text, match.start(2))
        if name not in it.pitfalls:
            yield flaw(it.lesson.text_path, line_at(it.text, match.start()), f"pitfalls.toml has no [{name}]; add it")
            continue
        output = told(it.printer(it.pitfall_run(name)))
        for number, line in enumerate(match[2].splitlines(), first):
            if line.strip() not in ("", "...") and told(line) not in output:
                yield flaw(it.lesson.text_path, number, f"a run of the pitfall {name} does not print: {line.strip()}")


def squeezed(text: str) -> str:
    """Without white space, so that line breaks do not matter."""
    return re.sub(r"\s+", "", text)


def without_numbers(text: str) -> str:
    """With # for every number."""
    return re.sub(r"\d[\d,.]*", "#", text)
