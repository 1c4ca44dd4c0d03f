"""One screen for a run, at most 24 lines of 80 columns. The verdict is on the second line from the bottom, near the
prompt.

A right kernel has a table of the numbers that tell the lesson's story. A wrong one has the line of source, its meaning
and one remedy. Gates that are met are not shown; ``run.py`` prints everything, for ``--details``.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.console import Console, Group
from rich.text import Text

from gemm_lessons.engine.records import printable
from gemm_lessons.judging import CompileFailed, Faulted, GateMissed, Passed, TimedOut, WrongAnswer
from gemm_lessons.report.blocks import Paragraph, clipped, fitted
from gemm_lessons.report.console import THEME
from gemm_lessons.report.figures import bottleneck, conflicts, figures_table, percent
from gemm_lessons.report.run import (
    ScreenContext,
    once,
    show_details,
    style_of,
    summary_of,
    title_of,
    visible,
    with_article,
)
from gemm_lessons.report.trouble import compiler_warnings, kind_of, meaning_of, what_is_wrong
from gemm_lessons.running import Gain, Row, RunOutcome

__all__ = ["ScreenContext", "printed", "problem_lines", "show_problems", "show_screen"]

PRINTED = 6  # lines of the kernel's own output
MISSED_GATES = 2


def show_screen(console: Console, outcome: RunOutcome, context: ScreenContext, details: bool = False) -> None:
    """Print one screen about a run, or with ``details`` everything about it."""
    if details:
        show_details(console, outcome, context)
        return
    for block in fitted(console, [*_blocks(console, outcome, context)], context.lines):
        if block.gap:
            console.print()
        console.print(block.content)


def printed(outcome: RunOutcome, columns: int = 80) -> str:
    """Return what a run prints, without colour: the screen, then what ``--details`` prints."""
    console = Console(
        file=StringIO(), width=columns, theme=THEME, highlight=False, markup=False, emoji=False, color_system=None,
        force_jupyter=False,
    )  # fmt: skip
    with console.capture() as capture:
        show_screen(console, outcome, ScreenContext())
        console.print()
        show_details(console, outcome, ScreenContext())
    return capture.get()


def _blocks(console: Console, outcome: RunOutcome, context: ScreenContext) -> Iterator[Paragraph]:
    row = outcome.kernel
    yield Paragraph(_header(console, outcome))
    for remark in context.remarks:
        yield Paragraph(clipped(console, Text(remark, "doubt"), 2))
    # For a right kernel, and, as a goal, for an unfinished one.
    if row.checked.right or (row.checked.unfinished is not None and isinstance(row.verdict, WrongAnswer)):
        yield Paragraph(figures_table(console, outcome), 0 if row.checked.right else 6, gap=True)
    yield from _printed(console, row)
    if row.checked.right:
        yield from _remarks_on_a_right_one(console, outcome)
    else:
        yield from what_is_wrong(console, outcome)
    for number, text in enumerate(context.news):
        yield Paragraph(clipped(console, Text(text), 2), gap=not number and isinstance(row.verdict, CompileFailed))
    yield Paragraph(_verdict(console, outcome, context), gap=True)
    if context.again:
        yield Paragraph(_next(console, outcome, context))


def _header(console: Console, outcome: RunOutcome) -> Text:
    """Return the lesson on the left and where it ran on the right; a long title without its second half."""
    lesson, where = outcome.lesson, outcome.device_name or outcome.device_kind
    if outcome.kernel.checked.right and outcome.device_kind == "simulator":
        where += f", estimates for {with_article(outcome.gpu)}"
        estimate = outcome.kernel.speed.estimate
        where += " (never measured)" if estimate and estimate.basis else ""
    elif outcome.device_name and not outcome.kernel.checked.right and outcome.verdict.kind != "compile_failed":
        where += f", --seed {outcome.seed}"  # repeats the inputs
    first = f"Lesson {lesson.number:02}  "
    room = console.width - len(first) - len(where) - 2
    title = lesson.title if len(lesson.title) <= room else lesson.title.partition(":")[0]
    gap = console.width - len(first) - len(title) - len(where)
    line = Text.assemble((first, "lesson"), (title, "bold"))
    return line.append(" " * min(gap, 30) + where if gap >= 2 else f"\n{where}", "quiet")


def _verdict(console: Console, outcome: RunOutcome, context: ScreenContext) -> Text:
    row = outcome.kernel
    right = isinstance(row.verdict, Passed | GateMissed)
    said = ", ".join(_right(outcome, context.gain)) if right else summary_of(row)
    return clipped(
        console,
        Text.assemble((title_of(row), style_of(row)), f"  {said}"),
        5 if isinstance(row.verdict, CompileFailed) else 2,
    )


def _right(outcome: RunOutcome, gain: Gain | None) -> Iterator[str]:
    checked = outcome.kernel.checked
    right = sum(result.kind == "passed" for result in checked.shapes)
    yield f"{right} of {len(checked.shapes)} shapes"
    if gates := [gate for gate in checked.shown_gates if gate.passed is not None]:
        yield f"{sum(gate.passed is True for gate in gates)} of {len(gates)} gates"
    if gain is None:
        return
    if gain.of_cublas is not None:
        yield f"{percent(gain.of_cublas)} of cuBLAS{'' if gain.measured else ' (estimated)'}"
    elif gain.times is not None:
        yield f"{gain.times:.3g} times lesson {gain.before[:2]}{'' if gain.measured else ' (estimated)'}"


def _next(console: Console, outcome: RunOutcome, context: ScreenContext) -> Text:
    """Return one next step, and how to see everything."""
    number, label = f"{outcome.lesson.number:02}", outcome.kernel.label
    if outcome.verdict.kind != "passed":
        what, command = "Stuck", f"gemm-lessons hint {number}"
        if label == "reference":  # the reference is right: the requested sizes do not fit it
            what, command = "Choose other sizes", ""
        elif label == "bug":
            what, command = "Fix it, then", context.again
        elif outcome.kernel.checked.unfinished:
            what = "A hint"
        elif outcome.verdict.kind == "gate_missed" and label == "your kernel" and not context.counts:  # an exercise's
            what, command = "With the lesson's own settings", f"gemm-lessons run {number}"
    elif label == "bug":
        what, command = "Another", f"gemm-lessons bug {number}"
    elif label != "your kernel":
        what, command = "Your turn", f"gemm-lessons start {number}"
    elif not context.counts:
        what, command = "To pass the lesson", f"gemm-lessons run {number}"
    elif context.following:
        what, command = "Next", "gemm-lessons next"
    else:
        what, command = "That was the last lesson. Well done.", ""
    line = Text.assemble((f"{what}{': ' if command else ''}", "quiet"), (command, "command"))
    if context.again.startswith("gemm-lessons run"):
        line.append("   Everything else: ", "quiet")
        whole = f"{context.again} --details"
        line.append(whole if line.cell_len + len(whole) <= console.width else "--details", "command")
    return line


def _remarks_on_a_right_one(console: Console, outcome: RunOutcome) -> Iterator[Paragraph]:
    row = outcome.kernel
    lines = [*conflicts(row), *bottleneck(outcome)]
    for doubt in outcome.measured.notes[:1] if outcome.measured else ():
        lines.append(Text(doubt, "doubt"))
    for finding in once([it for it in row.checked.findings if it.severity != "note"])[:1]:
        lines.append(Text.assemble((f"{kind_of(finding)}: ", "doubt"), meaning_of(outcome, finding)))
    lines += compiler_warnings(row)[:1]
    for number, line in enumerate(lines):
        yield Paragraph(clipped(console, line, 3), 1, gap=not number)
    if isinstance(row.verdict, GateMissed):
        for number, gate in enumerate(row.verdict.missed[:MISSED_GATES]):
            bound = f"at {'most' if gate.at_most else 'least'} {gate.limit:,g}" if gate.limit else "0"
            limit = f"{gate.name} is {gate.note or gate.shown}; it must be {bound}"
            text = Text.assemble(("Missed: ", "doubt"), limit + (". " if not number else "."))
            if not number:
                text.append(gate.why, "quiet")
            yield Paragraph(clipped(console, text, 4 - 2 * bool(number)), 2 * number, gap=not number)


def _printed(console: Console, row: Row) -> Iterator[Paragraph]:
    printed = row.checked.printed
    if printed is None:
        return
    lines = printed.text.splitlines()
    body = Text("\n").join(Text(f"  {visible(line)}", overflow="ellipsis", no_wrap=True) for line in lines[:PRINTED])
    head = Text(f"Printed by the kernel at {row.checked.printed_at}", "bold")
    cut = len(lines) > PRINTED or printed.shown < printed.calls
    head.append(f", the first {min(PRINTED, len(lines))} lines of {printed.calls:,} calls" if cut else "", "quiet")
    yield Paragraph(Group(head, body), 1, gap=True)


SEVERITY = {"error": "error", "warning": "warning", "note": "info", "remark": "info"}


def show_problems(console: Console, row: Row) -> None:
    """Print every problem of a kernel."""
    lines = list(dict.fromkeys(problem_lines(row)))
    if lines:
        console.print()
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def problem_lines(row: Row) -> Iterator[str]:
    """Yield the compiler's messages, the findings, and the verdict if no line is responsible."""
    for found in row.diagnostics:
        yield _line(found.file, found.line, found.column, found.severity, found.message)
    findings = list(row.checked.findings)
    if isinstance(row.verdict, Faulted | TimedOut) and row.verdict.finding not in findings:
        findings.append(row.verdict.finding)
    for finding in findings:
        message = f"{finding.kind.replace('_', ' ')}: {finding.message}"
        yield _line(finding.file or row.path, finding.line, None, finding.severity, message)
    match row.verdict:
        case WrongAnswer(shape=shape, judgement=judged):
            looks = f"; looks like: {judged.pattern.explanation}" if judged.pattern else ""
            wrong = f"{judged.wrong:,} of {judged.total:,} elements of C are wrong at {shape}{looks}"
            yield _line(row.path, 1, None, "error", wrong)
        case GateMissed(missed=missed):
            for gate in missed:
                yield _line(row.path, 1, None, "warning", f"gate missed: {gate.name}: {gate.why}")
        case CompileFailed(message=message) if not row.diagnostics:
            yield _line(row.path, 1, None, "error", message)
        case Passed() | Faulted() | TimedOut() | CompileFailed():
            pass


def _line(file: str, line: int | None, column: int | None, severity: str, message: str) -> str:
    said = printable(" ".join(message.split()))
    return f"{printable(file)}:{line or 1}:{column or 1}: {SEVERITY.get(severity, 'error')}: {said}"
