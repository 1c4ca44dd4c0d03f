"""One screen for a run, at most 24 lines of 80 columns: what matters first is last, the verdict and one next step.

A right kernel has a table of the numbers that tell the lesson's story. A wrong one has the line of source, what it means
and one remedy. What was met is silent; ``run.py`` prints all of it, for ``--details``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.compiler.diagnostics import printable
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.gemm.shapes import Shape, astuple
from gemm_lessons.judging.figures import figures_of, value_of
from gemm_lessons.judging.verdict import CompileFailed, Faulted, GateMissed, Passed, TimedOut, WrongAnswer
from gemm_lessons.report.elements import in_elements
from gemm_lessons.report.links import link
from gemm_lessons.report.run import NOT_YET, found_better, gate_limit, map_line, once, summary_of, title_of, visible, ways
from gemm_lessons.report.table import STYLE, conflict_cell, duration, occupancy_cell, told_apart
from gemm_lessons.running.outcome import Row, RunOutcome
from gemm_lessons.running.speedup import Bought

LINES = 23  # of a terminal with 24: the last one is for the prompt
THIS_LESSON = "<- this lesson"
# What holds a kernel up, as the screen names it. The glossary explains each.
BOTTLENECKS = {
    "issue": "instruction issue",
    "fp32": "multiply-adds",
    "tensor": "tensor cores",
    "fp64": "fp64 units",
    "shared": "shared memory",
    "l1": "L1 cache",
    "l2": "L2 cache",
    "dram": "DRAM",
    "latency": "latency",
    "launch": "launch overhead",
}
MAP_ROWS, MAP_COLS = 5, 32  # block tiles of a wrong answer
PRINTED = 6  # lines of the kernel's own output
WRONG_ELEMENTS = 2
MISSED_GATES = 2


@dataclass(frozen=True)
class Around:
    """What the screen says besides the outcome: the ``following`` lesson's name, the command to run it ``again`` (empty:
    no next step), ``remarks`` on unusual options, the ``gain`` of a pass, whether a pass ``counts``, ``news`` (scored
    predictions, a mended bug), and how many ``lines`` there are."""

    following: str | None = None
    again: str = ""
    remarks: Sequence[str] = ()
    gain: Bought | None = None
    counts: bool = True
    news: Sequence[str] = ()
    lines: int = LINES


@dataclass(frozen=True)
class Block:
    """A part of the screen. The one with the highest ``spare`` is left out first where lines are short; 0 never is.
    ``gap``: an empty line comes before it."""

    content: RenderableType
    spare: int = 0
    gap: bool = False


def show_screen(console: Console, outcome: RunOutcome, around: Around) -> None:
    """Print one screen about a run."""
    for block in _fitted(console, [*_blocks(console, outcome, around)], around.lines):
        if block.gap:
            console.print()
        console.print(block.content)


def _fitted(console: Console, blocks: list[Block], lines: int) -> list[Block]:
    """Leave out spare blocks until the others fit."""
    heights = {id(block): len(console.render_lines(block.content, pad=False)) + block.gap for block in blocks}
    while sum(heights[id(block)] for block in blocks) > lines:
        least = max(blocks, key=lambda block: block.spare)
        if not least.spare:
            break
        blocks = [block for block in blocks if block is not least]
    return blocks


def _blocks(console: Console, outcome: RunOutcome, around: Around) -> Iterator[Block]:
    row = outcome.kernel
    yield Block(_header(console, outcome))
    for remark in around.remarks:
        yield Block(_clipped(console, Text(remark, "doubt"), 2))
    if row.checked.right or (row.checked.unfinished and isinstance(row.verdict, WrongAnswer)):
        yield Block(_table(outcome), 0 if row.checked.right else 6, gap=True)
    yield from _printed(console, row)
    if row.checked.right:
        yield from _remarks_on_a_right_one(console, outcome)
    else:
        yield from _what_is_wrong(console, outcome)
    for number, text in enumerate(around.news):
        yield Block(_clipped(console, Text(text), 2), gap=not number and isinstance(row.verdict, CompileFailed))
    yield Block(_verdict(console, outcome, around), gap=True)
    if around.again:
        yield Block(_next(console, outcome, around))


# -- Header, table, verdict --------------------------------------------------------------------------------------------


def _header(console: Console, outcome: RunOutcome) -> Text:
    """Return the lesson on the left and where it ran on the right; a long title without its second half."""
    lesson, where = outcome.lesson, outcome.device_name
    if outcome.kernel.checked.right and outcome.device_kind == "simulator":
        where += f", estimates for {_article(outcome.gpu)} {outcome.gpu}"
    elif outcome.verdict.kind != "compile_failed":
        where += f", --seed {outcome.seed}"  # repeats the inputs
    first = f"Lesson {lesson.number:02}  "
    room = console.width - len(first) - len(where) - 2
    title = lesson.title if len(lesson.title) <= room else lesson.title.partition(":")[0]
    gap = console.width - len(first) - len(title) - len(where)
    line = Text.assemble((first, "lesson"), (title, "bold"))
    return line.append(" " * min(gap, 30) + where if gap >= 2 else f"\n{where}", "quiet")


def _article(name: str) -> str:
    return "an" if name[:1] in "AEFHILMNORSX" else "a"


def _table(outcome: RunOutcome) -> Table:
    """Return a column for each kernel, a line for each number, the same at every width."""
    rows = sorted(outcome.rows, key=lambda row: ("previous", "kernel", "reference").index(row.role))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="quiet", show_header=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_column(Text(_column(row), "bold" if row.role == "kernel" else ""), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, style="lesson")
    for label, cell in _times(outcome):
        table.add_row(label, *map(cell, rows), "")
    own = bool(outcome.lesson.figures)
    for number, figure in enumerate(figures_of(outcome.lesson, [row.checked for row in rows])):
        values = [
            value_of(figure, row.built, row.checked, outcome.lesson.names(outcome.count_shape))
            if row.built and row.built.lesson.shapes.refusal(outcome.count_shape) is None
            else None
            for row in rows
        ]
        cells = ["-" if value is None else f"{number_in_words(value)}{figure.unit}" for value in values]
        table.add_row(figure.label, *cells, THIS_LESSON if own and not number else "")
    table.add_row("bank conflicts", *map(_conflict_cell, rows), "")
    table.add_row("occupancy", *map(occupancy_cell, rows), "")
    return table


def _conflict_cell(row: Row) -> str | Text:
    """Return what conflicts cost; a kernel without shared memory has none."""
    counted = row.checked.counters is not None and row.checked.counters.get("shared_wavefronts") == 0
    return "none" if counted else conflict_cell(row)


def _column(row: Row) -> str:
    return f"lesson {row.label[:2]}" if row.role == "previous" else {"your kernel": "you"}.get(row.label, row.label)


def labels_of(outcome: RunOutcome) -> list[str]:
    """Return the labels of the table's lines, without the size of the times."""
    times = [label.partition(" at ")[0] for label, _ in _times(outcome)]
    figures = figures_of(outcome.lesson, [row.checked for row in outcome.rows])
    return [*times, *(figure.label for figure in figures), "bank conflicts", "occupancy"]


def _times(outcome: RunOutcome) -> list[tuple[str, Callable[[Row], str]]]:
    """Return label and cell of each line about time. Nothing simulated is shown as measured."""
    size = _size(outcome.estimate_shape)
    unit = "GFLOPS" if outcome.lesson.data.accumulate.is_float else "GOPS"
    if outcome.device_kind == "gpu":
        return [
            (f"time at {size}", lambda row: duration(row.speed.measured.time_us if row.speed.measured else None)),
            (unit, lambda row: _giga(row.speed.measured.gflops if row.speed.measured else None)),
            ("of cuBLAS", lambda row: _percent(row.speed.fraction_of_cublas)),
        ]
    return [
        (f"estimated time at {size}", lambda row: duration(row.speed.estimate.time_us if row.speed.estimate else None)),
        (f"estimated {unit}", lambda row: _giga(row.speed.estimate.gflops if row.speed.estimate else None)),
    ]


def _size(shape: Shape) -> str:
    """Return a square's size as one number."""
    return str(shape) if len(set(astuple(shape))) > 1 else str(shape).replace(f"{shape.m}x{shape.n}x{shape.k}", f"{shape.m}")


def _giga(gflops: float | None) -> str:
    return "-" if gflops is None else f"{float(f'{gflops:.3g}'):,.0f}" if gflops >= 99.5 else f"{gflops:.3g}"


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.2g}%" if fraction < 0.995 else f"{100 * fraction:.0f}%"


def number_in_words(value: float) -> str:
    """Format a counter: ``16,384``, ``3.09``, ``0.203``."""
    if abs(value - round(value)) < 1e-9 or abs(value) >= 999.5:
        return f"{round(value):,}"
    return f"{value:.2f}" if 0.995 <= abs(value) < 99.95 else f"{value:.3g}"


def _verdict(console: Console, outcome: RunOutcome, around: Around) -> Text:
    row = outcome.kernel
    style = "doubt" if row.checked.unfinished else STYLE[row.verdict.kind]
    said = ", ".join(_passed(outcome, around.gain)) if isinstance(row.verdict, Passed) else summary_of(row)
    return _clipped(console, Text.assemble((title_of(row), style), f"  {said}"), 2)


def _passed(outcome: RunOutcome, gain: Bought | None) -> Iterator[str]:
    checked = outcome.kernel.checked
    right = sum(result.kind == "passed" for result in checked.shapes)
    yield f"{right} of {len(checked.shapes)} shapes"
    if checked.gates:
        yield f"{sum(gate.passed for gate in checked.gates)} of {len(checked.gates)} method checks"
    if gain is None:
        return
    if gain.of_cublas is not None:
        yield f"{_percent(gain.of_cublas)} of cuBLAS{'' if gain.measured else ' (estimated)'}"
    elif gain.times is not None:
        yield f"{gain.times:.3g} times lesson {gain.before[:2]}{'' if gain.measured else ' (estimated)'}"


def _next(console: Console, outcome: RunOutcome, around: Around) -> Text:
    """Return one next step, and how to see everything."""
    number, label = f"{outcome.lesson.number:02}", outcome.kernel.label
    if outcome.verdict.kind != "passed":
        what, command = "Stuck", f"gemm-lessons hint {number}"
        if label == "reference":  # it is right: what does not fit is what was asked of it
            what, command = "Choose other sizes", ""
        elif label == "bug":
            what, command = "Mend it, then", around.again
        elif outcome.kernel.checked.unfinished:
            what = "A hint"
    elif label == "bug":
        what, command = "Another", f"gemm-lessons bug {number}"
    elif label != "your kernel":
        what, command = "Your turn", f"gemm-lessons start {number}"
    elif not around.counts:
        what, command = "The run that counts", f"gemm-lessons run {number}"
    elif around.following:
        what, command = "Next", "gemm-lessons next"
    else:
        what, command = "That was the last lesson. Well done.", ""
    line = Text.assemble((f"{what}{': ' if command else ''}", "quiet"), (command, "command"))
    if around.again.startswith("gemm-lessons run"):
        line.append("   Everything else: ", "quiet")
        whole = f"{around.again} --details"
        line.append(whole if line.cell_len + len(whole) <= console.width else "--details", "command")
    return line


# -- A right kernel ----------------------------------------------------------------------------------------------------


def _remarks_on_a_right_one(console: Console, outcome: RunOutcome) -> Iterator[Block]:
    row = outcome.kernel
    lines = [*_conflicts(row), *_bottleneck(outcome)]
    for doubt in outcome.measured.notes[:1] if outcome.measured else ():
        lines.append(Text(doubt, "doubt"))
    for finding in once([it for it in row.checked.findings if it.severity != "note"])[:1]:
        lines.append(Text.assemble((f"{_kind(finding)}: ", "doubt"), _meaning(outcome, finding)))
    for diagnostic in [it for it in row.diagnostics if it.severity == "warning"][:1]:
        lines.append(Text.assemble((f"Compiler warning, line {diagnostic.line}: ", "doubt"), diagnostic.message))
    for number, line in enumerate(lines):
        yield Block(_clipped(console, line, 2), 1, gap=not number)
    if isinstance(row.verdict, GateMissed):
        for number, gate in enumerate(row.verdict.missed[:MISSED_GATES]):
            limit = f"{gate.name} is {gate.note or gate.shown}, the limit {gate_limit(gate)}"
            text = Text.assemble(("Missed: ", "doubt"), limit + (". " if not number else ""))
            if not number:
                text.append(gate.why, "quiet")
            yield Block(_clipped(console, text, 4 - 2 * bool(number)), 2 * number, gap=not number)


def _conflicts(row: Row) -> Iterator[Text]:
    counters = row.checked.counters
    total = counters.get("shared_wavefronts") if counters else None
    if counters is None or not counters.conflicts or not total:
        return
    worst = max(counters.conflicts, key=lambda conflict: conflict.excess_wavefronts)
    access = f"{ways(worst)} {'store' if worst.store else 'load'}"
    cost = f"{worst.excess_wavefronts / total:.0%} of the shared wavefronts"
    more = f" (and {len(counters.conflicts) - 1} more lines)" if len(counters.conflicts) > 1 else ""
    yield Text.assemble("Bank conflicts: line ", str(worst.line), f" ({access}) costs {cost}{more}")


def _bottleneck(outcome: RunOutcome) -> Iterator[Text]:
    estimate = outcome.kernel.speed.estimate
    if estimate is not None:
        name = BOTTLENECKS.get(estimate.limiter, estimate.limiter)
        by = " (estimated)" if outcome.device_kind == "gpu" else ""
        attacks = f" Lesson {outcome.attacker[:2]} attacks it." if outcome.attacker else ""
        yield Text.assemble("Bottleneck now: ", (name, "bold"), f"{by}.{attacks}")
    elif outcome.kernel.speed.measured is None:
        unknown = ", ".join(outcome.kernel.speed.unknown)
        yield Text("No estimate" + (f": it knows no times of {unknown}." if unknown else " for this kernel."), "quiet")


# -- A wrong kernel ----------------------------------------------------------------------------------------------------


def _what_is_wrong(console: Console, outcome: RunOutcome) -> Iterator[Block]:
    row = outcome.kernel
    match row.verdict:
        case CompileFailed(diagnostics=found, log=log):
            errors = [diagnostic for diagnostic in found if diagnostic.severity == "error"]
            for diagnostic in errors[:1]:
                at = ":".join(str(it) for it in (printable(diagnostic.file), diagnostic.line, diagnostic.column) if it)
                place = Text(at, "bold")
                place.stylize(link(console, diagnostic.file, diagnostic.line or None, diagnostic.column))
                yield Block(place, gap=True)
                if diagnostic.file == row.path:
                    yield from _code(console, row, diagnostic.line or None, diagnostic.column)
                yield Block(_clipped(console, Text(printable(diagnostic.message)), 5))
            if len(errors) > 1:
                yield Block(Text(f"and {len(errors) - 1} more; correct the first one first", "quiet"), 4)
            if not found and log.strip():
                yield Block(_clipped(console, Text(log.strip()), 8), gap=True)
        case Faulted(finding=finding) | TimedOut(finding=finding):
            yield from _finding(console, outcome, finding)
        case WrongAnswer(judgement=judged, shape=shape):
            findings = once([it for it in row.checked.findings if it.severity != "note"])
            if not row.checked.unfinished:
                first = [
                    "C[{}, {}] is {}, expected {}".format(it.row, it.col, *told_apart(it.got, it.expected))
                    for it in judged.first[:WRONG_ELEMENTS]
                ]
                yield Block(_clipped(console, Text("; ".join(first)), 2), 2, gap=True)
                if judged.tiles and len(judged.tiles.wrong) * len(judged.tiles.wrong[0]) > 1:
                    tiles = judged.tiles
                    lines = [map_line(tiles, shape, number, MAP_COLS) for number in range(len(tiles.wrong))[:MAP_ROWS]]
                    legend = Text(f"  tiles of C, {tiles.tile_rows} x {tiles.tile_cols}: # all wrong  + some wrong  . right", "quiet")
                    yield Block(Group(*lines, legend), 3)
            if judged.pattern and not found_better(row, judged.pattern):
                if not row.checked.unfinished or not (judged.pattern.vague or judged.pattern.name in NOT_YET):
                    looks = Text.assemble(("Looks like: ", "bold"), judged.pattern.explanation)
                    yield Block(_clipped(console, looks, 4), 0 if not findings else 1, gap=True)
            for finding in findings[:1]:
                yield from _finding(console, outcome, finding, spare=1)
            if row.checked.unfinished and row.checked.contents:
                told = Text(" ".join(it.text for it in row.checked.contents))
                yield Block(_clipped(console, told, 3), 4, gap=True)
        case _:
            pass
    if row.hints:
        yield Block(_clipped(console, Text.assemble(("What to do: ", "bold"), _remedy(row.hints[0])), 6), gap=True)


def _finding(console: Console, outcome: RunOutcome, finding: Finding, spare: int = 0) -> Iterator[Block]:
    """Yield the place of a finding, its source with a caret, and its meaning."""
    row = outcome.kernel
    if finding.line:
        file = row.path if row.holds(finding.file) else finding.file
        place = Text(f"{printable(file)}:{finding.line}", "bold")
        place.stylize(link(console, file, finding.line))
        yield Block(place, spare, gap=True)
    if row.holds(finding.file):
        yield from _code(console, row, finding.line, None, finding.array)
    if row.holds(finding.other_file or finding.file) and finding.other_line not in (None, finding.line):
        yield from _code(console, row, finding.other_line, None, finding.array)
    style = {"error": "bad", "warning": "doubt", "note": "quiet"}[finding.severity]
    meaning = Text.assemble((f"{_kind(finding)}: ", style), _meaning(outcome, finding))
    yield Block(_clipped(console, meaning, 5), spare, gap=not finding.line)


def _kind(finding: Finding) -> str:
    return finding.kind.replace("_", " ").capitalize()


def _meaning(outcome: RunOutcome, finding: Finding) -> str:
    verdict, row = outcome.verdict, outcome.kernel
    shape = verdict.shape if isinstance(verdict, Faulted | TimedOut | WrongAnswer) else None
    lesson: Lesson = row.built.lesson if row.built else outcome.lesson
    return printable(in_elements(finding.message, row.source, lesson, shape))


def _code(console: Console, row: Row, line: int | None, column: int | None, name: str = "") -> Iterator[Block]:
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
    yield Block(shown)
    if body:
        yield Block(Text(" " * (len(gutter) + min(at, len(body)) - start) + "^", "bad"))


def _remedy(hint: str) -> str:
    """Return a hint without the line, kind and quote that the screen has shown."""
    text = re.sub(r"^line \d+: [a-z ]+\. (?:\[.*?\] (?=[A-Z]))?", "", hint)
    return text[:1].upper() + text[1:]


# -- Text --------------------------------------------------------------------------------------------------------------


def _printed(console: Console, row: Row) -> Iterator[Block]:
    printed = row.checked.printed
    if printed is None:
        return
    lines = printed.text.splitlines()
    body = Text("\n").join(Text(f"  {visible(line)}", overflow="ellipsis", no_wrap=True) for line in lines[:PRINTED])
    head = Text(f"Printed by the kernel at {row.checked.printed_at}", "bold")
    cut = len(lines) > PRINTED or printed.shown < printed.calls
    head.append(f", the first {min(PRINTED, len(lines))} lines of {printed.calls:,} calls" if cut else "", "quiet")
    yield Block(Group(head, body), 1, gap=True)


def _clipped(console: Console, text: Text, lines: int) -> Text:
    """Return a text as at most so many lines."""
    wrapped = text.wrap(console, console.width)
    if len(wrapped) <= lines:
        return text
    kept = list(wrapped[:lines])
    kept[-1].rstrip()
    if kept[-1].cell_len > console.width - 4:
        kept[-1].truncate(console.width - 4)
        kept[-1].rstrip()
    kept[-1].append(" ...")
    for line in kept[:-1]:
        line.rstrip()
    return Text("\n").join(kept)
