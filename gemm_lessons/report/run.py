"""The outcome of a run as the user sees it: headline, table, what is wrong and where, gates, hints, what comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gemm_lessons.device import Finding
from gemm_lessons.diagnostics import Diagnostic
from gemm_lessons.pipeline import Row, RunOutcome, ShapeResult
from gemm_lessons.report.course import step
from gemm_lessons.verdict import CompileFailed, Faulted, GateMissed, Kind, Passed, TileMap, TimedOut, WrongAnswer

STYLE: dict[Kind, str] = {
    "passed": "good",
    "compile_failed": "bad",
    "faulted": "bad",
    "wrong_answer": "bad",
    "timed_out": "bad",
    "gate_missed": "doubt",
}
SHORT: dict[Kind, str] = {
    "passed": "passed",
    "compile_failed": "no build",
    "faulted": "fault",
    "wrong_answer": "wrong",
    "timed_out": "endless",
    "gate_missed": "gate missed",
}
WIDE = 104  # columns from which headers go without abbreviation
NARROW = 78  # below this the table is turned: one column per kernel
MAP_ROWS, MAP_COLS = 24, 32  # block tiles shown of a wrong answer
MAX_DIAGNOSTICS = 8
MAX_WARNINGS = 3
MAX_CONFLICTS = 6
MAX_FINDINGS = 8


def show_outcome(console: Console, outcome: RunOutcome, following: str | None, again: str) -> None:
    """Everything about a run. ``following`` is the next lesson's name, ``again`` the command that repeats this run."""
    row = outcome.kernel
    _headline(console, outcome)
    if not isinstance(row.verdict, CompileFailed):
        console.print()
        console.print(table(outcome, console.width))
        _footnotes(console, outcome)
    _problem(console, row)
    _warnings(console, row)
    show_findings(console, row)
    _gates(console, row)
    show_conflicts(console, row)
    _hints(console, row)
    _next(console, outcome, following, again)


# The table.


@dataclass(frozen=True)
class Column:
    """One column: its header where there is room, its header where there is not (lines), and its cell."""

    wide: str
    narrow: str
    cell: Callable[[Row], Text | str]


def table(outcome: RunOutcome, width: int) -> Table:
    """One row per kernel at ``width`` columns; turned by 90 degrees where that is too narrow."""
    columns = _columns(measured=outcome.device_kind == "gpu")
    if width < NARROW:
        turned = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        turned.add_column("")
        for row in outcome.rows:
            turned.add_column(_short_label(row), justify="right")
        for column in columns:
            turned.add_row(column.wide, *(column.cell(row) for row in outcome.rows))
        return turned
    wide = width >= WIDE
    made = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1 if wide else 0, 0, 0))
    made.add_column("kernel", no_wrap=True, vertical="bottom")
    for i, column in enumerate(columns):
        header = column.wide if wide else column.narrow
        made.add_column(header, justify="right" if i else "left", no_wrap=True, vertical="bottom")
    for row in outcome.rows:
        label = Text(row.label if wide else _short_label(row), style="bold" if row.role == "kernel" else "")
        made.add_row(label, *(column.cell(row) for column in columns))
    return made


def _short_label(row: Row) -> str:
    return f"lesson {row.label[:2]}" if row.role == "previous" else row.label


def _columns(measured: bool) -> list[Column]:
    """All but the kernel's name."""
    if measured:
        times = [
            Column("time", "time", lambda row: duration(row.time_us)),
            Column("GFLOPS", "GFLOPS", lambda row: _thousands(row.gflops)),
            Column("of cuBLAS", "of\ncuBLAS", lambda row: _percent(row.fraction_of_cublas)),
        ]
    else:
        times = [
            Column("est. time", "est.\ntime", lambda row: duration(row.estimate.time_us if row.estimate else None)),
            Column(
                "est. GFLOPS", "est.\nGFLOPS", lambda row: _thousands(row.estimate.gflops if row.estimate else None)
            ),
        ]
    return [
        Column("verdict", "verdict", _verdict_cell),
        *times,
        Column("registers", "regs", lambda row: str(row.resources.registers) if row.resources else "-"),
        Column("shared", "shared\nbytes", lambda row: f"{row.resources.shared_bytes:,}" if row.resources else "-"),
        Column("occupancy", "occu-\npancy", lambda row: _percent(row.occupancy.fraction if row.occupancy else None)),
        Column("sectors/req", "sectors\n/req", _sectors_cell),
        Column("bank conflicts", "bank\nconfl.", _conflict_cell),
        Column("gates", "gates", _gates_cell),
    ]


def _verdict_cell(row: Row) -> Text:
    if row.unsupported:
        return Text("not run", style="quiet")
    return Text(SHORT[row.verdict.kind], style=STYLE[row.verdict.kind])


def _sectors_cell(row: Row) -> str:
    if row.counters is None:
        return "-"
    requests = row.counters.get("global_load_requests")
    return f"{row.counters.get('global_load_sectors') / requests:.2f}" if requests else "-"


def _conflict_cell(row: Row) -> str | Text:
    """Wavefronts over the fewest possible: ``none``, or ``x2.0`` when it took twice as many."""
    if row.counters is None:
        return "-"
    ideal, real = row.counters.get("shared_wavefronts_ideal"), row.counters.get("shared_wavefronts")
    if not ideal:
        return "-"
    return "none" if real <= ideal else Text(f"x{real / ideal:.2f}", style="doubt")


def _gates_cell(row: Row) -> str | Text:
    if not row.gates:
        return "-"
    passed = sum(gate.passed for gate in row.gates)
    return Text(f"{passed}/{len(row.gates)}", style="good" if passed == len(row.gates) else "doubt")


def _footnotes(console: Console, outcome: RunOutcome) -> None:
    notes = []
    shape = outcome.estimate_shape
    if outcome.device_kind == "simulator":
        limiter = outcome.kernel.estimate.limiter if outcome.kernel.estimate else ""
        notes.append(
            f"est. = an estimate for the {outcome.gpu} at M, N, K = {shape.m}, {shape.n}, {shape.k}, computed from the "
            f"simulator's counters; nothing was timed." + (f" Limited by: {limiter}." if limiter else "")
        )
    notes += _timing(outcome)
    count = outcome.count_shape
    occupancy = outcome.kernel.occupancy
    by = f" Occupancy is limited by {occupancy.limiter}." if occupancy and occupancy.fraction < 1 else ""
    notes.append(f"Counters: one launch at M, N, K = {count.m}, {count.n}, {count.k}.{by}")
    notes += [f"{row.label} was not run: {row.unsupported}" for row in outcome.rows if row.unsupported]
    for note in notes:
        console.print(Text(note, style="quiet"))
    for doubt in outcome.measured.notes if outcome.measured else ():
        console.print(Text(doubt, style="doubt"))


def _timing(outcome: RunOutcome) -> list[str]:
    """How the times were measured, and how far they are from what the chip could do."""
    measured, shape = outcome.measured, outcome.estimate_shape
    if measured is None or measured.cublas is None:
        return []
    kernels = (*measured.kernels, measured.cublas)
    launches = ", ".join(f"{it.label} {len(it.spread.times)}" for it in kernels)
    scatter = max(it.spread.scatter for it in kernels)
    notes = [
        f"Times: medians at M, N, K = {shape.m}, {shape.n}, {shape.k} of interleaved launches ({launches}), L2 flushed "
        f"before each; the middle half of any scatters by {scatter:.1%} at most. cuBLAS in the same precision, no "
        f"TF32: {duration(measured.cublas.time_us)}, {measured.cublas.gflops:,.0f} GFLOPS."
    ]
    if outcome.peak_gflops:
        shares = ", ".join(f"{it.label} {it.gflops / outcome.peak_gflops:.0%}" for it in kernels)
        notes.append(f"Of the data sheet's {outcome.peak_gflops:,.0f} GFLOPS: {shares}.")
    return notes


# Above and below the table.


def _headline(console: Console, outcome: RunOutcome) -> None:
    lesson, row = outcome.lesson, outcome.kernel
    console.print(Text.assemble((f"Lesson {lesson.number:02}  ", "lesson"), (lesson.title, "bold")))
    console.print(Text(f"{row.path}  on: {outcome.device_name}", style="quiet"), soft_wrap=True)
    console.print()
    kind = row.verdict.kind
    console.print(Text(f"{_title(kind)}: {_summary(row)}", style=STYLE[kind]))
    if row.shapes:
        right = sum(result.kind == "passed" for result in row.shapes)
        console.print(Text(f"{right} of {len(row.shapes)} shapes right (M x N x K)", style="quiet"))
        console.print(_indented(_shapes(row.shapes)))


def _shapes(results: Sequence[ShapeResult]) -> Table:
    """One line for each verdict: the shapes that got it."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for kind in dict.fromkeys(result.kind for result in results):
        shapes = "  ".join(str(result.shape) for result in results if result.kind == kind)
        table.add_row(Text(SHORT[kind], style=STYLE[kind]), shapes)
    return table


def _title(kind: Kind) -> str:
    return kind.replace("_", " ").upper()


def _summary(row: Row) -> str:
    match row.verdict:
        case Passed():
            gates = f" and {'the gate' if len(row.gates) == 1 else 'all gates'} met" if row.gates else ""
            return f"right on every shape{gates}"
        case CompileFailed(message=message):
            return message
        case Faulted(shape=shape, finding=finding):
            return f"{finding.kind.replace('_', ' ')} at {shape}"
        case TimedOut(shape=shape):
            return f"the kernel does not end at {shape}"
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
            _heading(console, "What stopped it")
            _finding(console, row, finding)
        case WrongAnswer(judgement=judged):
            _heading(console, "Wrong elements" + (f", the first {len(judged.first)}" if judged.wrong > 5 else ""))
            wrong = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
            for name in ("row", "col", "got", "expected"):
                wrong.add_column(name, justify="right", header_style="quiet")
            for element in judged.first:
                got = Text(f"{element.got:.6g}", style="bad")
                wrong.add_row(str(element.row), str(element.col), got, f"{element.expected:.6g}")
            console.print(_indented(wrong))
            console.print(
                Text(f"  worst error {judged.max_error:.3g}, allowed there {judged.tolerance:.3g}", style="quiet")
            )
            if judged.tiles:
                _map(console, judged.tiles, row)
            if judged.pattern:
                console.print()
                console.print(Text.assemble(("Looks like: ", "bold"), judged.pattern.explanation))
        case Passed() | GateMissed():
            pass


def _map(console: Console, tiles: TileMap, row: Row) -> None:
    """Which block tiles are wrong: ``#`` all of it, ``+`` part of it, ``.`` nothing."""
    judged = row.verdict.judgement if isinstance(row.verdict, WrongAnswer) else None
    shape = row.verdict.shape if isinstance(row.verdict, WrongAnswer) else None
    if judged is None or shape is None or len(tiles.wrong) * len(tiles.wrong[0]) == 1:
        return
    _heading(console, f"Block tiles of C, {tiles.tile_rows} x {tiles.tile_cols} each")
    for i, counts in enumerate(tiles.wrong[:MAP_ROWS]):
        line = Text("  ")
        height = min(tiles.tile_rows, shape.m - i * tiles.tile_rows)
        for j, count in enumerate(counts[:MAP_COLS]):
            size = height * min(tiles.tile_cols, shape.n - j * tiles.tile_cols)
            mark, style = ("#", "bad") if count >= size else ("+", "doubt") if count else (".", "good")
            line.append(f"{mark} ", style=style)
        console.print(line)
    cut = len(tiles.wrong) > MAP_ROWS or len(tiles.wrong[0]) > MAP_COLS
    more = f" The map goes on: {len(tiles.wrong)} x {len(tiles.wrong[0])} tiles." if cut else ""
    console.print(Text(f"  # all wrong  + some wrong  . right{more}", style="quiet"))


def _warnings(console: Console, row: Row) -> None:
    found = [diagnostic for diagnostic in row.diagnostics if diagnostic.severity == "warning"]
    if not found or row.verdict.kind == "compile_failed":
        return
    _heading(console, "Compiler warnings")
    for diagnostic in found[:MAX_WARNINGS]:
        file = "" if diagnostic.file == row.path else f"{diagnostic.file}, "
        console.print(_indented(Text.assemble((f"{file}line {diagnostic.line}: ", "quiet"), diagnostic.message)))
    if len(found) > MAX_WARNINGS:
        console.print(Text(f"  and {len(found) - MAX_WARNINGS} more", style="quiet"))


def show_diagnostics(console: Console, row: Row, found: Sequence[Diagnostic]) -> None:
    for diagnostic in found[:MAX_DIAGNOSTICS]:
        console.print()
        line, column = diagnostic.line or None, diagnostic.column
        at = ":".join(str(part) for part in (diagnostic.file, line, column) if part)
        style = "bad" if diagnostic.severity == "error" else "doubt"
        said = (f"{diagnostic.severity}: ", style)
        console.print(Text.assemble((at, "bold"), ": ", said, diagnostic.message), soft_wrap=True)
        if diagnostic.file == row.path:
            _quote(console, row, line, column)
    if len(found) > MAX_DIAGNOSTICS:
        console.print(Text(f"and {len(found) - MAX_DIAGNOSTICS} more; correct the first ones first", style="quiet"))


def _quote(console: Console, row: Row, line: int | None, column: int | None = None) -> None:
    lines = row.source.splitlines()
    if line is None or not 0 < line <= len(lines):
        return
    text = lines[line - 1]
    body = text.strip()
    console.print(Text.assemble((f"  {line:>4} | ", "quiet"), body), soft_wrap=True)
    if column is not None and body:
        offset = max(0, column - 1 - (len(text) - len(text.lstrip())))
        console.print(Text(" " * (9 + min(offset, len(body))) + "^", style="bad"), soft_wrap=True)


def show_findings(console: Console, row: Row) -> None:
    shown = row.verdict.finding if isinstance(row.verdict, Faulted | TimedOut) else None
    others = [finding for finding in row.findings if finding != shown]
    if not others:
        return
    _heading(console, "Findings")
    for finding in others[:MAX_FINDINGS]:
        _finding(console, row, finding)
    if len(others) > MAX_FINDINGS:
        console.print(Text(f"  and {len(others) - MAX_FINDINGS} more", style="quiet"))


def _finding(console: Console, row: Row, finding: Finding) -> None:
    style = {"error": "bad", "warning": "doubt", "note": "quiet"}[finding.severity]
    times = f" ({finding.count:,} times)" if finding.count > 1 else ""
    console.print(
        Padding(Text.assemble((f"{finding.kind.replace('_', ' ')}: ", style), finding.message, times), (0, 0, 0, 2))
    )
    _quote(console, row, finding.line)
    if finding.other_line is not None and finding.other_line != finding.line:
        _quote(console, row, finding.other_line)


def _gates(console: Console, row: Row) -> None:
    if not row.gates:
        return
    _heading(console, "Gates: is it this lesson's method?")
    gates = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    gates.add_column(no_wrap=True)
    gates.add_column()
    gates.add_column(justify="right", no_wrap=True)
    gates.add_column(no_wrap=True)
    for gate in row.gates:
        verdict = Text("met", style="good") if gate.passed else Text("missed", style="doubt")
        limit = f"{'<=' if gate.at_most else '>='} {gate.limit:g}"
        gates.add_row(
            verdict, gate.name, "-" if gate.value is None else f"{gate.value:.4g}", Text(limit, style="quiet")
        )
    console.print(_indented(gates))
    for gate in row.gates:
        if not gate.passed and gate.note:
            console.print(_indented(Text(f"{gate.name}: {gate.note}", style="quiet")))


def show_conflicts(console: Console, row: Row) -> None:
    if row.counters is None or not row.counters.conflicts:
        return
    _heading(console, "Bank conflicts by line")
    total = row.counters.get("shared_wavefronts")
    worst = sorted(row.counters.conflicts, key=lambda conflict: -conflict.excess_wavefronts)
    lines = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="quiet")
    lines.add_column("line", justify="right", no_wrap=True)
    lines.add_column("what", no_wrap=True)
    lines.add_column("extra", justify="right", no_wrap=True)
    lines.add_column("lanes", no_wrap=True)
    lines.add_column("source")  # the only one that gives way when the terminal is narrow
    for conflict in worst[:MAX_CONFLICTS]:
        lanes = ",".join(str(lane) for lane in conflict.lanes[:3]) + (",..." if len(conflict.lanes) > 3 else "")
        lines.add_row(
            str(conflict.line),
            Text(f"{conflict.ways}-way {'store' if conflict.store else 'load'}", style="doubt"),
            f"{conflict.excess_wavefronts / total:.0%}" if total else "-",
            f"{lanes} on bank {conflict.bank}",
            Text(row.source_line(conflict.line), no_wrap=True, overflow="ellipsis"),
        )
    console.print(_indented(lines))
    more = f" {len(worst) - MAX_CONFLICTS} more lines conflict." if len(worst) > MAX_CONFLICTS else ""
    console.print(Text(f"  extra: share of all shared-memory wavefronts that the conflicts cost.{more}", style="quiet"))


def _hints(console: Console, row: Row) -> None:
    if not row.hints:
        return
    _heading(console, "Hints")
    hints = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    for hint in row.hints:
        hints.add_row(Text("-", style="lesson"), Text(hint))
    console.print(_indented(hints))


def _next(console: Console, outcome: RunOutcome, following: str | None, again: str) -> None:
    number = f"{outcome.lesson.number:02}"
    console.print()
    if outcome.verdict.kind != "passed":
        if outcome.verdict.kind != "compile_failed":
            console.print(Text(f"The same inputs again: --seed {outcome.seed}", style="quiet"))
        step(console, "Change the file, then", again)
        step(console, "Stuck", f"gemm-lessons hint {number}")
    elif outcome.kernel.label != "your kernel":
        step(console, "Your turn", f"gemm-lessons start {number}")
    elif following:
        step(console, "Next", f"gemm-lessons read {following[:2]}")
    else:
        console.print("That was the last lesson. Well done.", style="good")


def _indented(content: RenderableType) -> Padding:
    return Padding(content, (0, 0, 0, 2), expand=False)


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def duration(microseconds: float | None) -> str:
    """A time with three digits: ``12.3 us``, ``1.23 ms``, ``1.23 s``."""
    if microseconds is None:
        return "-"
    value, unit = microseconds / 1e6, "s"
    for scale, name in ((1.0, "us"), (1e3, "ms")):
        if microseconds / scale < 999.5:
            value, unit = microseconds / scale, name
            break
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def _thousands(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.3g}%"
