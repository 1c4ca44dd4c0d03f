"""Proofs of a lesson's text: its statements about the files beside it are true, and sections and links exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from gemm_lessons.authoring.candidate import Candidate, flaw, line_at
from gemm_lessons.authoring.numbers import TABLE
from gemm_lessons.course import BLOCK, CommandError, LessonError, TomlReader, numbered, section, todo_marks

WIDEST = 78  # columns of code and drawings in a text: the terminal has 80, the renderer takes two
QUOTED_FILE = re.compile(r"<!-- from: (\S+) -->\s*```\w*\n(.*?)```", re.DOTALL)
# In this order, possibly with others between them. The lesson's new subject has its own headings.
SECTIONS = (
    "Where we stand", "The arithmetic", "The steps", "Predict", "What comes out", "Pitfalls", "Exercises", "Answers",
    "What limits it now", "Sources",
)  # fmt: skip
LAST = "What limits it now"  # the section that ends with the box
BOX = "**The one thing.** "
UNWRITTEN = "REPLACE"  # marks what only the author knows, in the files of ``gemm-lessons dev new``


def nothing_is_left_to_write(it: Candidate) -> Iterator[str]:
    """No file says ``REPLACE`` any more."""
    for name in ("lesson.toml", "README.md", "predict.toml", "drills.toml", "pitfalls.toml", "stub.cu", "solution.cu"):
        path = it.lesson.directory / name
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            found = [number for number, line in enumerate(lines, 1) if UNWRITTEN in line]
            if found:
                more = f" ({len(found)} such lines: {', '.join(map(str, found[:12]))})" if len(found) > 1 else ""
                yield flaw(path, found[0], f"says {UNWRITTEN}: write what it asks for{more}")


def title_names_the_lesson(it: Candidate) -> Iterator[str]:
    """The first line is ``# NN ...``."""
    if not it.text.startswith(f"# {it.lesson.name[:2]} "):
        yield flaw(it.lesson.text_path, 1, f'must begin with "# {it.lesson.name[:2]} " and the title')


def sections_are_there(it: Candidate) -> Iterator[str]:
    """Every section of ``SECTIONS``, none empty, in this order."""
    text, path = BLOCK.sub(_blank, it.text), it.lesson.text_path
    places = {heading: text.find(f"\n## {heading}\n") for heading in SECTIONS}
    missing = [heading for heading in SECTIONS if not section(it.text, heading).strip()]
    if missing:
        line = line_at(text, places[missing[0]] + 1) if places[missing[0]] >= 0 else None
        names = ", ".join(f'"## {heading}"' for heading in missing)
        yield flaw(path, line, f"{names} {'is' if len(missing) == 1 else 'are'} missing or empty; write it")
        return
    for before, after in pairwise(SECTIONS):
        if places[before] > places[after]:
            yield flaw(path, line_at(text, places[after] + 1), f'"## {after}" is before "## {before}"; exchange them')
            return


def ends_with_the_idea(it: Candidate) -> Iterator[str]:
    """ "What limits it now" ends with a quote that begins with the idea of lesson.toml, which ``list`` shows."""
    quote = section(it.text, LAST).strip().rpartition("\n\n")[2].splitlines()
    said = " ".join(line.removeprefix(">").strip() for line in quote)
    if not all(line.startswith(">") for line in quote) or not said.startswith(BOX + it.lesson.idea):
        place = it.text.find(f"\n## {LAST}\n") + 1
        box = f"> {BOX}{it.lesson.idea}"
        yield flaw(
            it.lesson.text_path, line_at(it.text, place), f'"## {LAST}" must end with lesson.toml\'s idea: {box}'
        )


def one_step_for_each_todo(it: Candidate) -> Iterator[str]:
    """ "The steps" are numbered as the TODOs are."""
    numbers, marks = numbered(section(it.text, "The steps")), [mark.number for mark in todo_marks(it.stub)]
    if numbers != marks:
        place = it.text.find("\n## The steps\n") + 1
        steps, todos = ", ".join(map(str, numbers)) or "none", ", ".join(map(str, marks)) or "none"
        yield flaw(
            it.lesson.text_path, line_at(it.text, place), f"steps {steps}, but TODOs {todos}: write one step for each"
        )


def quoted_code_is_the_code(it: Candidate) -> Iterator[str]:
    """A code block below ``<!-- from: FILE -->`` is in that file, line by line; only the indent may differ."""
    for match in QUOTED_FILE.finditer(it.text):
        path = it.course.kept_back(it.lesson, match[1])
        line = line_at(it.text, match.start())
        if not path.is_file():
            yield flaw(it.lesson.text_path, line, f"quotes {match[1]}, which is not there")
            continue
        quoted = [text.strip() for text in match[2].splitlines() if text.strip()]
        file = path.read_text(encoding="utf-8", errors="replace")
        stands = [text.strip() for text in file.splitlines() if text.strip()]
        if not any(stands[i : i + len(quoted)] == quoted for i in range(len(stands))):
            absent = next((text for text in quoted if text not in stands), None)
            what = f"this line: {absent}" if absent else "these lines one after the other"
            yield flaw(it.lesson.text_path, line, f"quotes {match[1]}, which does not have {what}; quote it anew")


def code_fits_the_terminal(it: Candidate) -> Iterator[str]:
    """Code blocks and drawings are at most ``WIDEST`` columns wide."""
    for block in re.finditer(r"```\w*\n(.*?)```", it.text, flags=re.DOTALL):
        first = line_at(it.text, block.start(1))
        for number, line in enumerate(block[1].splitlines(), first):
            if len(line) > WIDEST:
                yield flaw(it.lesson.text_path, number, f"{len(line)} columns of code or drawing; {WIDEST} fit")
                return


def named_sections_are_there(it: Candidate) -> Iterator[str]:
    """A gate's ``why`` or a TODO that says See 'Section' (or "Section") points at a heading of the lesson's text."""
    headings = re.findall(r"^#+ (.*)$", it.text, flags=re.MULTILINE)
    gates = [(gate.why, it.lesson.toml_path, it.gate_at(gate.id, "why")) for gate in it.lesson.gates]
    reader = TomlReader(it.lesson.toml_path, it.lesson.toml_path.read_text(encoding="utf-8"))
    said = [(why, path, reader.line(where)) for why, path, where in gates]
    said += [(mark.text, it.lesson.stub_path, mark.line) for mark in todo_marks(it.stub)]
    for words, path, line in said:
        for name in re.findall(r"""[Ss]ee ['"](.+?)['"]""", words):
            if name not in headings:
                yield flaw(path, line, f"sends the reader to '{name}', a heading that README.md does not have")


def commands_exist(it: Candidate) -> Iterator[str]:
    """``gemm-lessons run 03`` in a text is a command, of a lesson that is there."""
    for match in re.finditer(r"gemm-lessons (\w+) (\d\d)\b", it.text):
        line = line_at(it.text, match.start())
        if match[1] not in it.commands:
            yield flaw(it.lesson.text_path, line, f'"{match[0]}": there is no command {match[1]}: gemm-lessons --help')
        try:
            it.course.resolve(match[2])
        except CommandError as error:
            yield flaw(it.lesson.text_path, line, f'"{match[0]}": {error}')


def exercises_name_tile_sizes(it: Candidate) -> Iterator[str]:
    """``Set BK = 16`` names a size that ``[tile]`` has."""
    known = it.lesson.tile.defines.keys() | {"M", "N", "K"}
    exercises = section(it.text, "Exercises")
    for match in re.finditer(r"\b([A-Z_]+) = \d+", exercises):
        if match[1] not in known:
            place = it.text.find(match[0])
            yield flaw(
                it.lesson.text_path, line_at(it.text, place), f'"{match[0]}": [tile] of lesson.toml has no {match[1]}'
            )


def links_lead_somewhere(it: Candidate) -> Iterator[str]:
    """Links to files lead to files."""
    for match in re.finditer(r"\]\(([^)\s]+)\)", BLOCK.sub(_blank, it.text)):
        target = match[1].split("#")[0]
        if target and "://" not in target and not (it.lesson.directory / target).exists():
            line = line_at(it.text, match.start())
            yield flaw(it.lesson.text_path, line, f"links to {target}, which is not there")


def _blank(block: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", block[0])


def numbers_are_true(it: Candidate) -> Iterator[str]:
    """Every table between ``numbers`` comments is what its source gives."""
    for match in TABLE.finditer(it.text):
        first = line_at(it.text, match.start(2))
        try:
            filled = it.numbers.filled(match[1], match[2])
        except LessonError as error:
            yield flaw(it.lesson.text_path, first - 1, str(error))
            continue
        pairs = zip(match[2].splitlines(), filled.splitlines(), strict=False)
        wrong = next((i for i, (old, new) in enumerate(pairs) if old != new), None)
        if wrong is not None:
            yield flaw(
                it.lesson.text_path,
                first + wrong,
                f"its source gives {filled.splitlines()[wrong]}; fill it in: "
                f"gemm-lessons dev check {it.lesson.number:02} --write",
            )
