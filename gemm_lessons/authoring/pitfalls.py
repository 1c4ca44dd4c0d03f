"""Proofs of a lesson's pitfalls: the tool prints what the text quotes, and bugs can be found."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemm_lessons.authoring.candidate import Candidate, flaw, line_at
from gemm_lessons.course import LessonError, without_steps
from gemm_lessons.judging import CompileFailed, Passed, WrongAnswer

QUOTE = re.compile(r"<!-- pitfall: (\w+) -->\s*```\w*\n(.*?)```", re.DOTALL)
OMITTED = re.compile(r"^\.{3}\s*|\s*\.{3}$")  # marks what a quote omits before or after a line


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
    others in it. ``...`` at a line's beginning or end marks what the quote omits."""
    told = squeezed if numbers else lambda text: re.sub(r"\d[\d,.]*", "#", squeezed(text))
    it.disassemble_pitfalls({match[1]: None for match in QUOTE.finditer(it.text) if match[1] in it.pitfalls})
    for match in QUOTE.finditer(it.text):
        name, first = match[1], line_at(it.text, match.start(2))
        if name not in it.pitfalls:
            yield flaw(it.lesson.text_path, line_at(it.text, match.start()), f"pitfalls.toml has no [{name}]; add it")
            continue
        quoted = [(number, OMITTED.sub("", line.strip())) for number, line in enumerate(match[2].splitlines(), first)]
        missing = [(number, line) for number, line in quoted if line]
        for estimating in (False, True):  # few quotes have times, whose estimates take as long as all the rest
            if missing:
                output = told(it.printer(it.pitfall_run(name, estimating=estimating)))
                missing = [(number, line) for number, line in missing if told(line) not in output]
        for number, line in missing:
            yield flaw(it.lesson.text_path, number, f"a run of the pitfall {name} does not print: {line}")


def squeezed(text: str) -> str:
    """Remove white space, so that line breaks do not matter."""
    return re.sub(r"\s+", "", text)


def bugs_can_be_found(it: Candidate) -> Iterator[str]:
    """A kernel of ``gemm-lessons bug`` compiles and fails, and its run gives an explanation."""
    bugs = {name: pitfall for name, pitfall in it.pitfalls.items() if pitfall.bug}
    it.disassemble_pitfalls(bugs)
    for name, pitfall in bugs.items():
        at = f"{pitfall.where}: [{name}] bug:"
        if without_steps(pitfall.source(it.solution).splitlines()) == without_steps(it.solution.splitlines()):
            yield f"{at} its edits change comments that are not handed out, and nothing else; edit the code"
            continue
        row = it.pitfall_run(name).kernel
        match row.verdict:
            case Passed():
                yield f"{at} a run of it passes, so it cannot be found; edit more, or take bug out"
            case CompileFailed(message=message):
                yield f"{at} does not compile, so the compiler finds it: {message}"
            case WrongAnswer(judgement=judged) if not (judged.pattern or row.hints or row.checked.findings):
                yield f"{at} a run of it says only that the answer is wrong; choose one that can be found"
