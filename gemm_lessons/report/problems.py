"""Print problems in a compiler's format for editors, one per line: ``FILE:LINE:COLUMN: SEVERITY: MESSAGE``."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from gemm_lessons.engine.compiler.diagnostics import printable
from gemm_lessons.judging.verdict import CompileFailed, Faulted, GateMissed, Passed, TimedOut, WrongAnswer
from gemm_lessons.running.outcome import Row

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
