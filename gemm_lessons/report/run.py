"""Show everything about a run, for ``--details``: headline, table, errors with their lines, gates, hints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gemm_lessons.engine import Conflict, Diagnostic, Finding, Printed
from gemm_lessons.engine.records import dataclass, printable
from gemm_lessons.gemm import Shape
from gemm_lessons.judging import (
    CompileFailed,
    Faulted,
    GateMissed,
    GateResult,
    Passed,
    Pattern,
    ShapeResult,
    TileMap,
    TimedOut,
    Unfinished,
    WrongAnswer,
)
from gemm_lessons.report.console import indented, numbers, plain_table, words
from gemm_lessons.report.course import lesson_heading, step
from gemm_lessons.report.links import link
from gemm_lessons.report.table import VERDICTS, show_footnotes, table, told_apart
from gemm_lessons.running import Gain, Row, RunOutcome

LINES = 23  # of a terminal with 24: the last one is for the prompt
MAP_ROWS, MAP_COLS = 24, 32  # maximum block tiles shown of a wrong answer
MAX_DIAGNOSTICS = 8
MAX_WARNINGS = 3
MAX_CONFLICTS = 6
MAX_FINDINGS = 8
SEVERITY_STYLE = {"error": "bad", "warning": "doubt", "note": "quiet"}
NOT_YET = ("never_written", "nan", "misplaced")  # patterns of a wrong answer from an unfinished kernel
UNTOUCHED = ("partly_written",)  # and from one of which no TODO is written
VOWEL_SOUNDS = "AEFHILMNORSX"  # letters that take the article "an"


@dataclass(frozen=True)
class ScreenContext:
    """What is shown besides the outcome: the ``following`` lesson, the command to run it ``again`` (empty: no next
    step), ``remarks`` on unusual options, the ``gain`` of a pass, whether a pass ``counts``; and on one screen ``news``
    (scored predictions, a fixed bug), and how many ``lines`` there are."""

    following: str | None = None
    again: str = ""
    remarks: Sequence[str] = ()
    gain: Gain | None = None
    counts: bool = True
    news: Sequence[str] = ()
    lines: int = LINES


def show_details(console: Console, outcome: RunOutcome, context: ScreenContext) -> None:
    """Print everything about a run."""
    row, gain = outcome.kernel, context.gain
    _headline(console, outcome, context.remarks)
    if not isinstance(row.verdict, CompileFailed):
        console.print()
        console.print(table(console, outcome))
        show_footnotes(console, outcome)
    if row.checked.printed is not None:
        _heading(console, f"Printed by the kernel at {row.checked.printed_at}")
        show_printed(console, row.checked.printed)
        if not isinstance(row.verdict, CompileFailed):
            console.print(Text("  Counters, estimates and times are those of the kernel without its printf.", "quiet"))
    _problem(console, row)
    if row.verdict.kind != "compile_failed":
        show_warnings(console, row.diagnostics, row.path)
    show_findings(console, row)
    _gates(console, row)
    if isinstance(row.verdict, Passed | GateMissed):  # irrelevant for a wrong answer
        show_conflicts(console, row)
    _hints(console, row)
    if gain is not None and isinstance(row.verdict, Passed):
        console.print()
        console.print(Text.assemble(("Gain: ", "bold"), gain_in_words(gain)))
    _next(console, outcome, context)


def _headline(console: Console, outcome: RunOutcome, remarks: Sequence[str]) -> None:
    lesson, row = outcome.lesson, outcome.kernel
    console.print(lesson_heading(lesson))
    where = Text.assemble((printable(row.path), link(console, row.path)), f"  on: {outcome.device_name}", style="quiet")
    console.print(where, soft_wrap=True)
    for remark in remarks:
        console.print(Text(remark, style="doubt"))
    console.print()
    console.print(Text(f"{title_of(row)}: {summary_of(row)}", style=style_of(row)))
    for told in row.checked.contents if row.checked.unfinished else ():
        console.print(indented(Text(told.text)))
    if row.checked.shapes:
        console.print(Text(_extent(row), style="quiet"))
        if not _by_luck(row):
            console.print(indented(_shapes(row.checked.shapes)))


def show_printed(console: Console, printed: Printed) -> None:
    """Print the kernel's own output, and which part of it is shown."""
    for line in printed.text.splitlines():
        console.print(indented(Text(visible(line))))
    if printed.shown < printed.calls:
        cut = f"The first {printed.shown} of {printed.calls:,} calls of printf, by block and thread."
        console.print(Text(f"  {cut} Ask for fewer: if (blockIdx.x == 0 && threadIdx.x == 0)", style="quiet"))


def visible(line: str) -> str:
    """Return a line with ``?`` for control characters."""
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in line)


def _extent(row: Row) -> str:
    """Return how many shapes are right; for a stopped kernel, how far it got."""
    shapes = row.checked.shapes
    right = sum(result.kind == "passed" for result in shapes)
    if row.checked.counters is not None or shapes[-1].kind == "passed":
        if _by_luck(row):
            return "The answers were right by luck: the kernel as written faults"
        return f"{right} of {len(shapes)} shapes right (M x N x K)"
    before = f"{right} of {len(shapes) - 1} earlier shapes right" if len(shapes) > 1 else "the first shape"
    return f"Stopped at {shapes[-1].shape} (M x N x K), {before}; the rest was not tried"


def _by_luck(row: Row) -> bool:
    """Tell whether every answer was right, but the debug build faults."""
    return isinstance(row.verdict, Faulted) and all(result.kind == "passed" for result in row.checked.shapes)


def gain_in_words(gain: Gain) -> str:
    """Return a gain as ``13 times lesson 01, 18% of cuBLAS on an H200 (...)``, with which speeds are estimated."""
    parts = [f"{gain.times:.3g} times lesson {gain.before[:2]}"] if gain.times is not None else []
    if gain.of_cublas is not None:
        percent = 100 * gain.of_cublas
        parts.append(f"{percent:.2g}% of cuBLAS" if percent < 99.5 else f"{percent:.0f}% of cuBLAS")
    how = "measured"
    if not gain.measured:
        others = f"lesson {gain.before[:2]} and cuBLAS were" if gain.before else "cuBLAS was"
        how = f"yours is estimated, {others} measured" if gain.of_cublas is not None else "both estimated"
    return f"{', '.join(parts)} on {with_article(gain.gpu)} ({how})"


def with_article(gpu: str) -> str:
    """Return ``an H200``, ``a V100``."""
    return f"{'an' if gpu[:1] in VOWEL_SOUNDS else 'a'} {gpu}"


def _shapes(results: Sequence[ShapeResult]) -> Table:
    """Return a table with one line per verdict and its shapes."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for kind in dict.fromkeys(result.kind for result in results):
        shapes = "  ".join(str(result.shape) for result in results if result.kind == kind)
        table.add_row(Text(*VERDICTS[kind]), shapes)
    return table


def title_of(row: Row) -> str:
    """Return the headline of a verdict."""
    return "NOT FINISHED" if row.checked.unfinished else row.verdict.kind.replace("_", " ").upper()


def style_of(row: Row) -> str:
    """Return the style of a verdict's headline."""
    return "doubt" if row.checked.unfinished else VERDICTS[row.verdict.kind][1]


def summary_of(row: Row) -> str:
    """Summarise the result of a kernel in one sentence."""
    far = row.checked.unfinished
    if far is None:
        return _result_of(row)
    written = f"{far.done} of {far.todos} TODO{'s'[: far.todos != 1]} written"
    return written if isinstance(row.verdict, WrongAnswer) else f"{written}; {_result_of(row)}"


def _result_of(row: Row) -> str:
    match row.verdict:
        case Passed():
            gates = row.checked.shown_gates
            if unjudged := sum(gate.passed is None for gate in gates):
                return f"right on every shape; {unjudged} of {len(gates)} gate{'s'[: len(gates) != 1]} not judged"
            met = f" and {'the gate' if len(gates) == 1 else 'all gates'} met" if gates else ""
            return f"right on every shape{met}"
        case CompileFailed(message=message):
            return message
        case Faulted(shape=shape, finding=finding):
            return f"{finding.kind.replace('_', ' ')} at {shape}"
        case TimedOut(shape=shape, finding=finding):
            return f"not finished at {shape}" if finding.case == "starved" else f"the kernel does not end at {shape}"
        case WrongAnswer(shape=shape, judgement=judged):
            return f"{judged.wrong:,} of {judged.total:,} elements of C are wrong at {shape}"
        case GateMissed(missed=missed):
            return f"the answer is right, but not by this lesson's idea: {', '.join(gate.name for gate in missed)}"


def _problem(console: Console, row: Row) -> None:
    match row.verdict:
        case CompileFailed(diagnostics=found, log=log):
            show_diagnostics(console, row, [diagnostic for diagnostic in found if diagnostic.severity == "error"])
            if not found and log.strip():
                console.print(Padding(Text(log.strip()), (1, 0, 0, 2)))
        case Faulted(finding=finding) | TimedOut(finding=finding):
            _heading(console, "What went wrong")
            _finding(console, row, finding)
        case WrongAnswer(judgement=judged) if row.checked.unfinished:
            if judged.pattern and not judged.pattern.vague and not not_yet(row.checked.unfinished, judged.pattern):
                console.print()
                console.print(Text.assemble(("Looks like: ", "bold"), judged.pattern.explanation))
        case WrongAnswer(judgement=judged):
            _heading(console, "Wrong elements" + (f", the first {len(judged.first)}" if judged.wrong > 5 else ""))
            wrong = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
            for name in ("row", "col", "got", "expected"):
                wrong.add_column(name, justify="right", header_style="quiet")
            for element in judged.first:
                got, expected = told_apart(element.got, element.expected)
                wrong.add_row(str(element.row), str(element.col), Text(got, style="bad"), expected)
            console.print(indented(wrong))
            console.print(
                Text(f"  worst error {judged.max_error:.3g}, allowed there {judged.tolerance:.3g}", style="quiet")
            )
            if judged.tiles:
                _map(console, judged.tiles, row)
            if judged.pattern and not found_better(row, judged.pattern):
                console.print()
                console.print(Text.assemble(("Looks like: ", "bold"), judged.pattern.explanation))
        case Passed() | GateMissed():
            pass


def not_yet(unfinished: Unfinished, pattern: Pattern) -> bool:
    """Tell whether the open TODOs explain a pattern."""
    return pattern.name in NOT_YET or (not unfinished.done and pattern.name in UNTOUCHED)


def found_better(row: Row, pattern: Pattern) -> bool:
    """Tell whether a finding already reports the uninitialised memory that a NaN only suggests."""
    kinds = {finding.kind for finding in row.checked.findings if finding.severity != "note"}
    return pattern.name == "nan" and not kinds.isdisjoint(("uninitialised", "unset"))


def _map(console: Console, tiles: TileMap, row: Row) -> None:
    """Print a map of wrong block tiles: ``#`` entirely wrong, ``+`` partly wrong, ``.`` right."""
    judged = row.verdict.judgement if isinstance(row.verdict, WrongAnswer) else None
    shape = row.verdict.shape if isinstance(row.verdict, WrongAnswer) else None
    if judged is None or shape is None or len(tiles.wrong) * len(tiles.wrong[0]) == 1:
        return
    sized = f"Block tiles of C, {tiles.tile_rows} x {tiles.tile_cols} each"
    _heading(console, sized if tiles.tile_rows * tiles.tile_cols > 1 else "Elements of C")
    rows, cols = map_part(tiles, MAP_ROWS, MAP_COLS)
    for number in rows:
        console.print(map_line(tiles, shape, number, cols))
    cut = len(tiles.wrong) > MAP_ROWS or len(tiles.wrong[0]) > MAP_COLS
    begins = f"begins at {rows[0]}, {cols[0]} of" if rows[0] or cols[0] else "goes on:"
    more = f" The map {begins} {len(tiles.wrong)} x {len(tiles.wrong[0])} tiles." if cut else ""
    console.print(Text(f"  # all wrong  + some wrong  . right{more}", style="quiet"))


def map_part(tiles: TileMap, rows: int, cols: int) -> tuple[range, range]:
    """Return the rows and columns of a map to show, at most so many: the first wrong one and a right one before it."""
    bad = [[count > 0 for count in line] for line in tiles.wrong]
    return _part_of([any(line) for line in bad], rows), _part_of([any(line) for line in zip(*bad, strict=True)], cols)


def _part_of(bad: Sequence[bool], most: int) -> range:
    first = max(0, min(bad.index(True) - 1, len(bad) - most)) if any(bad) else 0
    return range(first, min(len(bad), first + most))


def map_line(tiles: TileMap, shape: Shape, number: int, cols: range) -> Text:
    """Return these columns of one row of a map of block tiles."""
    line = Text("  ")
    height = min(tiles.tile_rows, shape.m - number * tiles.tile_rows)
    for j in cols:
        count, size = tiles.wrong[number][j], height * min(tiles.tile_cols, shape.n - j * tiles.tile_cols)
        mark, style = ("#", "bad") if count >= size else ("+", "doubt") if count else (".", "good")
        line.append(f"{mark} ", style=style)
    return line


def show_warnings(console: Console, diagnostics: Sequence[Diagnostic], path: str) -> None:
    """Print the compiler's first warnings about the kernel at ``path``."""
    found = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "warning"]
    if not found:
        return
    _heading(console, "Compiler warnings")
    for diagnostic in found[:MAX_WARNINGS]:
        file = "" if diagnostic.file == path else f"{printable(diagnostic.file)}, "
        console.print(indented(Text.assemble((f"{file}line {diagnostic.line}: ", "quiet"), diagnostic.message)))
    if len(found) > MAX_WARNINGS:
        console.print(Text(f"  and {len(found) - MAX_WARNINGS} more", style="quiet"))


def show_diagnostics(console: Console, row: Row, found: Sequence[Diagnostic]) -> None:
    """Print the compiler's messages, each with its source line."""
    for diagnostic in found[:MAX_DIAGNOSTICS]:
        console.print()
        line, column = diagnostic.line or None, diagnostic.column
        at = ":".join(str(part) for part in (diagnostic.file, line, column) if part)
        style = "bad" if diagnostic.severity == "error" else "doubt"
        said = (f"{diagnostic.severity}: ", style)
        place = Text(printable(at), style="bold")
        place.stylize(link(console, diagnostic.file, line, column))
        console.print(Text.assemble(place, ": ", said, diagnostic.message), soft_wrap=not console.is_terminal)
        if diagnostic.file == row.path:
            _quote(console, row, line, column)
    if len(found) > MAX_DIAGNOSTICS:
        console.print(Text(f"and {len(found) - MAX_DIAGNOSTICS} more; fix the first ones first", style="quiet"))


def _quote(console: Console, row: Row, line: int | None, column: int | None = None) -> None:
    lines = row.source.splitlines()
    if line is None or not 0 < line <= len(lines):
        return
    text = lines[line - 1]
    body = text.strip()
    gutter = f"  {line:>4} | "
    quoted = Table.grid()
    number = Text(gutter, style="quiet")
    number.stylize(link(console, row.path, line, column), 2, len(gutter) - 3)
    quoted.add_row(number, Text(visible(body)))
    console.print(quoted)
    if column is not None and body and len(gutter + body) <= console.width:  # no caret below a wrapped line
        offset = max(0, column - 1 - (len(text) - len(text.lstrip())))
        console.print(Text(" " * (len(gutter) + min(offset, len(body))) + "^", style="bad"))


def show_findings(console: Console, row: Row) -> None:
    """Print the checkers' findings except the one that is the verdict."""
    shown = row.verdict.finding if isinstance(row.verdict, Faulted | TimedOut) else None
    others = [finding for finding in once(row.checked.findings) if finding != shown]
    if not others:
        return
    _heading(console, "Findings")
    for finding in others[:MAX_FINDINGS]:
        _finding(console, row, finding)
    if len(others) > MAX_FINDINGS:
        console.print(Text(f"  and {len(others) - MAX_FINDINGS} more", style="quiet"))


def once(findings: Sequence[Finding]) -> list[Finding]:
    """Drop repeated findings: threads that have returned miss every barrier, so the first finding is enough."""
    first = next((finding for finding in findings if finding.kind == "exited_before_barrier"), None)
    return [finding for finding in findings if finding.kind != "exited_before_barrier" or finding is first]


def _finding(console: Console, row: Row, finding: Finding) -> None:
    times = f" ({finding.count:,} times)" if finding.count > 1 else ""
    kind = finding.kind.replace("_", " ")
    if not row.holds(finding.file) and finding.line and not finding.other_file:  # else the message says so
        kind += f" in {_name(finding.file)}"
    said = Text.assemble((f"{kind}: ", SEVERITY_STYLE[finding.severity]), printable(finding.message), times)
    console.print(Padding(said, (0, 0, 0, 2)))
    if row.holds(finding.file):
        _quote(console, row, finding.line)
    if row.holds(finding.other_file or finding.file) and finding.other_line not in (None, finding.line):
        _quote(console, row, finding.other_line)


GATE_WORDS = {True: ("met", "good"), False: ("missed", "doubt"), None: ("not judged", "quiet")}  # with their styles


def _gates(console: Console, row: Row) -> None:
    shown = row.checked.shown_gates
    if not shown:
        return
    _heading(console, "Gates: does it use this lesson's method?")
    gates = plain_table(words(), "", numbers(), words())
    for gate in shown:
        verdict = Text(*GATE_WORDS[gate.passed])
        gates.add_row(verdict, gate.name, gate.shown, Text(gate_limit(gate), style="quiet"))
    console.print(indented(gates))
    for gate in shown:
        note = gate.note or ("missed on a shape that the lesson does not list" if gate.hidden else "")
        if not gate.passed and note:
            console.print(indented(Text(f"{gate.name}: {note}", style="quiet")))


def gate_limit(gate: GateResult) -> str:
    """Return the bound of a gate: ``<= 1.1``."""
    return f"{'<=' if gate.at_most else '>='} {gate.limit:,g}"


def show_conflicts(console: Console, row: Row) -> None:
    """Print the bank conflicts of shared memory by line, the worst first."""
    if row.checked.counters is None or not row.checked.counters.conflicts:
        return
    _heading(console, "Bank conflicts by line")
    total = row.checked.counters.get("shared_wavefronts")
    worst = sorted(row.checked.counters.conflicts, key=lambda conflict: -conflict.excess_wavefronts)
    # Only the last column shrinks on a narrow terminal.
    lines = plain_table(numbers("line"), words("what"), numbers("extra"), words("lanes"), "source")
    for conflict in worst[:MAX_CONFLICTS]:
        lanes = ",".join(str(lane) for lane in conflict.lanes[:3]) + (",..." if len(conflict.lanes) > 3 else "")
        lines.add_row(
            str(conflict.line) if row.holds(conflict.file) else f"{_name(conflict.file)}:{conflict.line}",
            Text(f"{ways(conflict)} {'store' if conflict.store else 'load'}", style="doubt"),
            f"{conflict.excess_wavefronts / total:.0%}" if total else "-",
            f"{lanes} on bank {conflict.bank}" if conflict.ways > 1 else "",
            Text(row.source_line(conflict.line, conflict.file), no_wrap=True, overflow="ellipsis"),
        )
    console.print(indented(lines))
    unseen = len(worst) - MAX_CONFLICTS
    more = f" {unseen} more line{'s conflict' if unseen > 1 else ' conflicts'}." if unseen > 0 else ""
    console.print(Text(f"  extra: share of all shared-memory wavefronts that the conflicts cost.{more}", style="quiet"))
    if any(conflict.ways == 1 for conflict in worst[:MAX_CONFLICTS]):
        split = "split: no two lanes collide, but groups of lanes that could share a wavefront do not."
        console.print(Text(f"  {split}", style="quiet"))


def _name(file: str) -> str:
    return printable(Path(file).name)


def ways(conflict: Conflict) -> str:
    """Return how many lanes collide: ``2-way``; ``split`` if none do, but it takes more wavefronts than the ideal."""
    return f"{conflict.ways}-way" if conflict.ways > 1 else "split"


def _hints(console: Console, row: Row) -> None:
    if not row.hints:
        return
    _heading(console, "Hints")
    hints = plain_table(gap=1)
    for hint in row.hints:
        hints.add_row(Text("-", style="lesson"), Text(hint))
    console.print(indented(hints))


def _next(console: Console, outcome: RunOutcome, context: ScreenContext) -> None:
    number = f"{outcome.lesson.number:02}"
    console.print()
    if outcome.verdict.kind != "passed" and outcome.verdict.kind != "compile_failed":
        console.print(Text(f"The same inputs again: --seed {outcome.seed}", style="quiet"))
    if not context.again:
        return
    if outcome.verdict.kind != "passed":
        reference = outcome.kernel.label == "reference"  # the reference is right: the requested sizes do not fit it
        step(console, "Choose other sizes, then" if reference else "Change the file, then", context.again)
        if outcome.kernel.label != "bug" and not reference:  # hints are about TODOs
            step(console, "Stuck", f"gemm-lessons hint {number}")
    elif outcome.kernel.label == "bug":
        pass  # the caller names the bug next
    elif outcome.kernel.label != "your kernel":
        step(console, "Your turn", f"gemm-lessons start {number}")
    else:
        step(console, "Results and exercises", f"gemm-lessons read {number}")
        step(console, "Compare with the reference", f"gemm-lessons diff {number}")
        if outcome.lesson.data.formula.product is not None:
            step(console, "As a standalone program, for a GPU machine", f"gemm-lessons export {number}")
        if not context.counts:
            step(console, "To pass the lesson", f"gemm-lessons run {number}")
        elif context.following:
            step(console, f"Next, lesson {context.following[:2]}", "gemm-lessons next")
        else:
            console.print("That was the last lesson. Well done.", style="good")


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))
