"""Show the outcome of ``inspect``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column
from rich.text import Text

from gemm_lessons.engine import Launched
from gemm_lessons.engine.compiler import Diagnostic
from gemm_lessons.engine.inspection import SHOWN, Inspection, values_of
from gemm_lessons.engine.records import BESIDE, TABLED
from gemm_lessons.report.console import numbers, plain_table, words
from gemm_lessons.report.run import show_conflicts, show_diagnostics, show_findings, show_printed, show_warnings
from gemm_lessons.running import row_of_launch

if TYPE_CHECKING:
    from gemm_lessons.engine import LaunchEstimate


# A header that was not found, or whose folder is not one to read from.
_NOT_READ = re.compile(r'cannot open source file "([^"]+\.\w+)"$|includes (.+?), which is outside of')
_BESIDE = ("", "include", "inc", "common", "Common", "src")  # folders of headers beside a file, and beside those above
_ABOVE = 3


def show_inspection(console: Console, result: Inspection, *, counters: bool = True) -> None:
    """Print headline, faults and findings, ``counters``, and bank conflicts by line."""
    request = result.request
    console.print(Text(f"{request.entry} in {request.path}", style="bold"))
    arch = result.compiled.arch if result.compiled else request.arch
    shape = f"{request.grid}, {arch}, simulated"
    console.print(Text(shape, style="quiet"))
    console.print()
    if result.failed is not None:
        console.print(Text("DOES NOT COMPILE", style="bad"))
        show_diagnostics(console, row_of_launch(result), result.failed.diagnostics)
        if advice := _where_headers_are(request.path, result.failed.diagnostics):
            console.print(Text(f"\n{advice}", style="quiet"))
        return
    assert result.compiled is not None
    assert result.launched is not None
    launched, row = result.launched, row_of_launch(result)
    console.print(headline(result))
    for name, count in result.unwritten.items():
        console.print(Text(f"{count:,} elements of {name} were never written", style="doubt"))
    for name, array in result.variables.items():
        values = ", ".join(map(str, values_of(array))) + (", ..." if array.size > SHOWN else "")
        console.print(Text(f"{name} = {values}"))
    resources = result.compiled.resources
    registers = f"{resources.registers} registers, " if resources.registers else ""  # only ptxas reports this
    console.print(Text(f"{registers}{resources.shared_bytes:,} bytes of static shared memory", style="quiet"))
    if result.estimate is not None:
        console.print(estimated(result.estimate, request.gpu.name))
    show_warnings(console, result.compiled.diagnostics, row.path)
    show_findings(console, row)
    if launched.printed is not None:
        console.print(Text("\nPrinted by the kernel", style="bold"))
        show_printed(console, launched.printed)
    if launched.counters.totals and counters:
        console.print()
        long_name = Column("Nsight Compute's name", style="quiet", overflow="ellipsis")
        table = plain_table(words("counter"), numbers("value"), long_name)
        for cells in counter_rows(launched):
            table.add_row(*cells)
        console.print(table)
    for why, names in result.doubts.items() if counters else ():
        console.print(Text(f"\nNsight Compute may count differently: {why} ({names})", style="doubt"))
    show_conflicts(console, row)


def headline(result: Inspection) -> Text:
    """Return what became of the launch, in a line."""
    launched = result.launched
    if launched is not None and launched.fault is not None:
        return Text("FAULT: the kernel was stopped", style="bad")
    told = any(finding.severity != "note" for finding in result.found)
    if result.error is not None and result.tolerance is not None:
        said = f"relative error {result.error:.2g}, tolerated {result.tolerance:.2g}"
        if result.error > result.tolerance:
            return Text(f"WRONG: {said}", style="bad")
        return Text(f"right ({said}), but see the findings" if told else f"RIGHT: {said}", style="good")
    if told:
        return Text("ran, but see the findings; no answer was checked (--expect)", style="doubt")
    return Text("ran without findings; no answer was checked (--expect)", style="good")


def estimated(found: LaunchEstimate | str, gpu: str) -> Text:
    """Return the estimated time with what limits it, or why there is none."""
    if isinstance(found, str):
        return Text(f"no estimated time on {gpu}: {found}", style="quiet")
    on = f"{gpu} ({found.basis})" if found.basis else gpu
    return Text(f"est. time on {on}: {found.time_us:,.4g} us, limited by {found.limiter} ({found.why})")


def counter_rows(launched: Launched) -> list[tuple[str, str, str]]:
    """Return the counters of a launch: name, value, and Nsight Compute's name."""
    totals = launched.counters.totals
    shown = [(short, long, totals.get(long)) for short, long in TABLED.items()]
    return [
        (short.replace("_", " "), "-" if value is None else f"{value:,}", long if "simulator__" not in long else "-")
        for short, long, value in shown
        if value or short not in BESIDE
    ]


def show_opcodes(console: Console, known: Mapping[str, str], missing: Sequence[str]) -> None:
    """Print the supported opcodes and the missing ones."""
    table = plain_table(words("opcode"), "forms that run")
    for opcode, forms in known.items():
        table.add_row(opcode, forms)
    console.print(table)
    console.print()
    console.print(Text("A kernel with one of these is refused before it runs:", style="bold"))
    console.print(Text(" ".join(missing)))


def _where_headers_are(path: str, diagnostics: Sequence[Diagnostic]) -> str:
    """Return which option names the folder of a header that was not read; "" if every header was."""
    wanted = next((match for d in diagnostics if (match := _NOT_READ.match(d.message))), None)
    if wanted is None:
        return ""
    name = wanted[1] or wanted[2]
    own = Path(path).parent
    above = [own.joinpath(*[".."] * steps) for steps in range(_ABOVE + 1)]
    if wanted[2]:
        folder = (own / name).parent if (own / name).is_file() else None
    else:
        folder = next((place / it for place in above for it in _BESIDE if (place / it / name).is_file()), None)
    return f"-I names a folder of headers: -I {folder or 'FOLDER'}"
