"""The part of the screen about a wrong kernel: the place, its source with a caret, the meaning, one remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console, Group
from rich.text import Text

from gemm_lessons.course import Lesson
from gemm_lessons.engine import Finding
from gemm_lessons.engine.records import printable
from gemm_lessons.gemm import Shape
from gemm_lessons.judging import CompileFailed, Faulted, TimedOut, WrongAnswer, text_of_line
from gemm_lessons.report.blocks import Paragraph, clipped
from gemm_lessons.report.elements import in_elements
from gemm_lessons.report.links import link
from gemm_lessons.report.run import SEVERITY_STYLE, found_better, map_line, map_part, not_yet, once, visible
from gemm_lessons.report.table import told_apart
from gemm_lessons.running import Row, RunOutcome

MAP_ROWS, MAP_COLS = 5, 32  # block tiles of a wrong answer
WRONG_ELEMENTS = 2
UNUSED = re.compile("never (?:referenced|used)")


def what_is_wrong(console: Console, outcome: RunOutcome) -> Iterator[Paragraph]:
    """Yield the parts of the screen about a kernel that is not right."""
    row = outcome.kernel
    match row.verdict:
        case CompileFailed() as failed:
            yield from _not_compiled(console, row, failed)
        case Faulted(finding=finding) | TimedOut(finding=finding):
            yield from _finding_blocks(console, outcome, finding)
        case WrongAnswer() as wrong:
            yield from _wrong(console, outcome, wrong)
        case _:
            pass
    if not isinstance(row.verdict, CompileFailed) and not row.checked.unfinished:
        for line in compiler_warnings(row)[:1]:
            yield Paragraph(clipped(console, line, 2), 2, gap=True)
    if row.hints:
        told = Text.assemble(("What to do: ", "bold"), _remedy(row, row.hints[0]))
        yield Paragraph(clipped(console, told, 6), gap=True)


def _not_compiled(console: Console, row: Row, failed: CompileFailed) -> Iterator[Paragraph]:
    errors = [diagnostic for diagnostic in failed.diagnostics if diagnostic.severity == "error"]
    for diagnostic in errors[:1]:
        line, column = diagnostic.line or None, diagnostic.column
        place = Text(":".join(str(it) for it in (printable(diagnostic.file), line, column) if it), "bold")
        place.stylize(link(console, diagnostic.file, line, column))
        said = Text.assemble(place, ": ", ("error", "bad"), f": {printable(diagnostic.message)}")
        yield Paragraph(clipped(console, said, 6), gap=True)
        if diagnostic.file == row.path:
            yield from _code(console, row, line, column)
    if len(errors) > 1:
        yield Paragraph(Text(f"and {len(errors) - 1} more; fix the first one first", "quiet"), 4)
    if not failed.diagnostics and failed.log.strip():
        yield Paragraph(clipped(console, Text(failed.log.strip()), 8), gap=True)


def _wrong(console: Console, outcome: RunOutcome, wrong: WrongAnswer) -> Iterator[Paragraph]:
    row, judged, unfinished = outcome.kernel, wrong.judgement, outcome.kernel.checked.unfinished
    if not unfinished:
        yield from _where(console, wrong)
    findings = once([it for it in row.checked.findings if it.severity != "note"])
    pattern = judged.pattern
    expected = unfinished and pattern and (pattern.vague or not_yet(unfinished, pattern))
    if pattern and not found_better(row, pattern) and not expected:
        looks = Text.assemble(("Looks like: ", "bold"), pattern.explanation)
        yield Paragraph(clipped(console, looks, 4 if findings else 6), 1 if findings else 0, gap=True)
    for finding in findings[:1]:
        yield from _finding_blocks(console, outcome, finding, spare=1)
    if unfinished and row.checked.contents:
        told = Text(" ".join(it.text for it in row.checked.contents))
        yield Paragraph(clipped(console, told, 3), 4, gap=True)


def _where(console: Console, wrong: WrongAnswer) -> Iterator[Paragraph]:
    """Yield the first wrong elements and a small map."""
    judged, tiles = wrong.judgement, wrong.judgement.tiles
    first = [
        "C[{}, {}] is {}, expected {}".format(it.row, it.col, *told_apart(it.got, it.expected))
        for it in judged.first[:WRONG_ELEMENTS]
    ]
    yield Paragraph(clipped(console, Text("; ".join(first)), 2), 2, gap=True)
    if tiles is None or len(tiles.wrong) * len(tiles.wrong[0]) == 1:
        return
    rows, cols = map_part(tiles, MAP_ROWS, MAP_COLS)
    lines = [map_line(tiles, wrong.shape, number, cols) for number in rows]
    cut = f"; rows {rows[0]} to {rows[-1]} of {len(tiles.wrong)}" if len(tiles.wrong) > MAP_ROWS else ""
    sized = f"tiles of C, {tiles.tile_rows} x {tiles.tile_cols}: # all wrong  + some wrong"
    legend = f"  {sized if tiles.tile_rows * tiles.tile_cols > 1 else 'elements of C: # wrong'}  . right{cut}"
    yield Paragraph(Group(*lines, Text(legend, "quiet")), 3)


def _finding_blocks(console: Console, outcome: RunOutcome, finding: Finding, spare: int = 0) -> Iterator[Paragraph]:
    """Yield the place of a finding, its source with a caret, and its meaning."""
    row = outcome.kernel
    if finding.line:
        file = row.path if row.holds(finding.file) else finding.file
        place = Text(f"{printable(file)}:{finding.line}", "bold")
        place.stylize(link(console, file, finding.line))
        yield Paragraph(place, spare, gap=True)
    if row.holds(finding.file):
        yield from _code(console, row, finding.line, None, finding.array)
    if row.holds(finding.other_file or finding.file) and finding.other_line not in (None, finding.line):
        yield from _code(console, row, finding.other_line, None, finding.array)
    shape = row.checked.shape_of(finding)
    elsewhere = f" at {shape}" if shape not in (None, _shape_of(outcome)) else ""
    meaning = Text.assemble(
        (f"{kind_of(finding)}{elsewhere}: ", SEVERITY_STYLE[finding.severity]), meaning_of(outcome, finding)
    )
    yield Paragraph(clipped(console, meaning, 5), spare, gap=not finding.line)


def kind_of(finding: Finding) -> str:
    """Return the kind of a finding as a word: ``Out of bounds``."""
    return finding.kind.replace("_", " ").capitalize()


def meaning_of(outcome: RunOutcome, finding: Finding) -> str:
    """Return a finding's sentence, with elements instead of bytes."""
    row = outcome.kernel
    shape = row.checked.shape_of(finding) or _shape_of(outcome)
    lesson: Lesson = row.built.lesson if row.built else outcome.lesson
    return printable(in_elements(finding.message, row.source, lesson, shape))


def _shape_of(outcome: RunOutcome) -> Shape | None:
    """Return the shape that the verdict names."""
    verdict = outcome.verdict
    return verdict.shape if isinstance(verdict, Faulted | TimedOut | WrongAnswer) else None


def _code(console: Console, row: Row, line: int | None, column: int | None, name: str = "") -> Iterator[Paragraph]:
    """Yield a source line with a caret, at the column or at the name of an array."""
    lines = row.source.splitlines()
    if line is None or not 0 < line <= len(lines):
        return
    text = lines[line - 1]
    body, indent = text.strip(), len(text) - len(text.lstrip())
    found = re.search(rf"\b{re.escape(name)}\b", body) if name else None
    at = max(0, column - 1 - indent) if column is not None else found.start() if found else 0
    gutter = f"{line:>6} | "
    room = max(20, console.width - len(gutter))
    start = max(0, at - room + 20) if len(body) > room else 0  # the caret's part of a long line
    shown = Text(f"{gutter}", "quiet").append(visible(body[start:]), "default")
    shown.truncate(console.width, overflow="ellipsis")
    yield Paragraph(shown)
    if body:
        yield Paragraph(Text(" " * (len(gutter) + min(at, len(body)) - start) + "^", "bad"))


def compiler_warnings(row: Row) -> list[Text]:
    """Return the compiler's warnings, those about unused names last."""
    found = [it for it in row.diagnostics if it.severity == "warning"]
    found.sort(key=lambda it: UNUSED.search(it.message) is not None)
    return [Text.assemble((f"Compiler warning, line {it.line}: ", "doubt"), it.message) for it in found]


def _remedy(row: Row, hint: str) -> str:
    """Return a hint without the line, kind and quote that the screen has shown."""
    head = re.match(r"line (\d+): [a-z ]+\. ", hint)
    text = hint[head.end() :].removeprefix(f"[{text_of_line(row.source, int(head[1]))}] ") if head else hint
    return text[:1].upper() + text[1:]
