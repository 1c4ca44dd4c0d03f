"""The table of a run: one row per kernel, in the widest form that fits the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Estimate
from gemm_lessons.judging import Kind
from gemm_lessons.report.console import fits, headed_table
from gemm_lessons.running import Row, RunOutcome

if TYPE_CHECKING:
    from gemm_lessons.devices import Timed

VERDICTS: dict[Kind, tuple[str, str]] = {  # in a table, and its style
    "passed": ("passed", "good"),
    "compile_failed": ("no build", "bad"),
    "faulted": ("fault", "bad"),
    "wrong_answer": ("wrong", "bad"),
    "timed_out": ("endless", "bad"),
    "gate_missed": ("gate missed", "doubt"),
}
# The possible bottlenecks of an estimate, in words.
LIMITERS = {
    "issue": "issuing instructions",
    "fp32": "multiply-adds (fp32 and integer units)",
    "tensor": "the tensor cores",
    "fp64": "multiply-adds (fp64 units)",
    "shared": "shared memory (bytes its banks can move)",
    "l1": "global memory requests (L1 cache)",
    "l2": "traffic to the L2 cache",
    "dram": "traffic to DRAM",
    "latency": "latency (waiting for loads and barriers)",
    "launch": "the launch itself",
}
# Of the tables of ESTIMATE.md; checks/estimate/test_any_kernels.py compares.
HOW_FAR = (
    "Compared with an H200, references are off by 2.1% in the median, the speeds of their slow edits by 2.2 points."
)
SHOWN_SCATTER = 0.10  # of the middle half around the median: above, a time is printed with it


@dataclass(frozen=True)
class Column:
    """One column: its wide header, its narrow header (lines), and its cell, which may have a shorter form."""

    wide: str
    narrow: str
    cell: Callable[[Row], Text | str]
    short_cell: Callable[[Row], Text | str] | None = None

    def content(self, row: Row, wide: bool) -> Text | str:
        """Return the cell for one kernel."""
        return self.cell(row) if wide or self.short_cell is None else self.short_cell(row)


def table(console: Console, outcome: RunOutcome) -> Table:
    """Return the widest of three forms that fits: full headers, short headers, or transposed."""
    columns = columns_of(outcome, measured=outcome.device_kind == "gpu")
    for wide in (True, False):
        made = _one_row_each(outcome, columns, wide)
        if fits(console, made):
            return made
    transposed_table = headed_table()
    transposed_table.add_column("")
    for row in outcome.rows:
        transposed_table.add_column(short_label(row), justify="right")
    for column in columns:
        transposed_table.add_row(column.wide, *(column.cell(row) for row in outcome.rows))
    return transposed_table


def _one_row_each(outcome: RunOutcome, columns: Sequence[Column], wide: bool) -> Table:
    made = headed_table(gap=1 if wide else 0)
    made.add_column("kernel", no_wrap=True, vertical="bottom")
    for i, column in enumerate(columns):
        header = column.wide if wide else column.narrow
        made.add_column(header, justify="right" if i else "left", no_wrap=True, vertical="bottom")
    for row in outcome.rows:
        label = Text(row.label if wide else short_label(row), style="bold" if row.role == "kernel" else "")
        made.add_row(label, *(column.content(row, wide) for column in columns))
    return made


def short_label(row: Row) -> str:
    """Return the name of a row above its column: a previous lesson's number."""
    return f"lesson {row.label[:2]}" if row.role == "previous" else row.label


def bandwidth(outcome: RunOutcome, row: Row) -> str:
    """Return the estimated GB/s of a kernel that reads its inputs and writes its answer once each."""
    it = row.speed.estimate
    size = outcome.lesson.at(outcome.estimate_shape).data.bytes(outcome.estimate_shape.names)
    return f"{size / it.time_us / 1e3:,.0f}" if it else "-"


def columns_of(outcome: RunOutcome, measured: bool = False) -> list[Column]:
    """Return all columns except the kernel's name. An answer without matrix products is never ``measured``, and its
    speed is in bytes of its inputs and its answer, each once."""
    on_tensor_cores = any(row.checked.instructions_per_mma is not None for row in outcome.rows)
    if not outcome.lesson.data.multiplies:
        times = [
            Column("est. time", "est.\ntime", lambda row: _time(row.speed.estimate)),
            Column("est. GB/s", "est.\nGB/s", lambda row: bandwidth(outcome, row)),
        ]
    elif measured:
        times = [
            Column("time", "time", lambda row: measured_time(row.speed.measured)),
            Column("TFLOP/s", "TFLOP\n/s", lambda row: _speed(row.speed.measured)),
            Column("of cuBLAS", "of\ncuBLAS", lambda row: _percent(row.speed.fraction_of_cublas)),
        ]
    else:
        times = [
            Column("est. time", "est.\ntime", lambda row: _time(row.speed.estimate)),
            Column("est. TFLOP/s", "est.\nTFLOP\n/s", lambda row: _speed(row.speed.estimate)),
        ]
    return [
        # Measured times need one more column, so at 80 columns the longest verdict is shortened.
        Column(
            "verdict", "verdict", _verdict_cell, (lambda row: _verdict_cell(row, "gate")) if len(times) > 2 else None
        ),
        *times,
        Column("regs", "regs", lambda row: str(row.built.resources.registers) if row.built else "-"),
        Column(
            "shared",
            "smem\nKiB",
            lambda row: f"{row.built.shared_bytes:,}" if row.built else "-",
            lambda row: f"{row.built.shared_bytes / 1024:.3g}" if row.built else "-",
        ),
        Column("occupancy", "occ.", occupancy_cell),
        Column("instr/mma", "ins.\n/mma", lambda row: _ratio(row.checked.instructions_per_mma))
        if on_tensor_cores
        else Column("instr/FMA", "ins.\n/FMA", lambda row: _ratio(row.checked.instructions_per_fma)),
        Column("sectors/req", "sect.\n/req", _sectors_cell),
        Column("conflicts", "bank\nconf.", conflict_cell),
        Column("gates", "gates", _gates_cell),
    ]


def _time(of: Estimate | None) -> str:
    return duration(of.time_us if of else None)


def measured_time(of: Timed | None) -> str:
    """Format a median: ``12.3 us``, or ``12.3 us ±9%`` where the times scatter."""
    return duration(of.time_us) + scattered(of.spread.scatter) if of else "-"


def scattered(scatter: float) -> str:
    """Return `` ±9%`` for an interquartile range of 18% of the median; an empty string below 10%."""
    return f" ±{scatter / 2:.0%}" if scatter > SHOWN_SCATTER else ""


def _speed(of: Timed | Estimate | None) -> str:
    return tera(of.gflops if of else None)


def _verdict_cell(row: Row, gate_missed: str = "gate missed") -> Text:
    if row.unsupported:
        return Text("not run", style="quiet")
    kind = row.verdict.kind
    word, style = VERDICTS[kind]
    return Text(gate_missed if kind == "gate_missed" else word, style)


def occupancy_cell(row: Row) -> str:
    """Return the occupancy of the GPU of the times."""
    return _percent(row.built.occupancy.fraction if row.built and row.built.occupancy else None)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 99.5 else f"{value:.0f}"


def _sectors_cell(row: Row) -> str:
    if row.checked.counters is None:
        return "-"
    sectors, requests = map(row.checked.counters.get, ("global_load_sectors", "global_load_requests"))
    return f"{sectors / requests:.2f}" if requests and sectors is not None else "-"


def conflict_cell(row: Row) -> str | Text:
    """Return wavefronts / fewest possible wavefronts: ``none``, or ``x2.0`` for twice as many."""
    if row.checked.counters is None:
        return "-"
    ideal, real = row.checked.counters.get("shared_wavefronts_ideal"), row.checked.counters.get("shared_wavefronts")
    if not ideal or real is None:
        return "-"
    return "none" if real <= ideal else Text(f"x{real / ideal:.2f}", style="doubt")


def _gates_cell(row: Row) -> str | Text:
    gates = [gate for gate in row.checked.shown_gates if gate.passed is not None]
    if not gates:
        return "-"
    passed = sum(gate.passed is True for gate in gates)
    return Text(f"{passed}/{len(gates)}", style="good" if passed == len(gates) else "doubt")


def show_footnotes(console: Console, outcome: RunOutcome) -> None:
    """Print the conditions and the sources of the table's numbers."""
    for note in footnotes(outcome):
        console.print(Text(note, style="quiet"))
    for doubt in outcome.measured.notes if outcome.measured else ():
        console.print(Text(doubt, style="doubt"))


def footnotes(outcome: RunOutcome) -> list[str]:
    """Return the same as sentences, without the warnings about a measurement."""
    notes = []
    shape = outcome.estimate_shape
    if outcome.device_kind == "simulator" or not outcome.lesson.data.multiplies:
        estimate = outcome.kernel.speed.estimate
        limiter, basis = (estimate.limiter, estimate.basis) if estimate else ("", "")
        notes.append(
            f"est. = an estimate for the {outcome.gpu} at M, N, K = {shape.m}, {shape.n}, {shape.k}, computed from its "
            f"machine code on the simulator, with a warm L2 cache; nothing was timed."
            + (f" The GPU's figures are {basis}." if basis else f" {HOW_FAR}" if estimate else "")
            + (f" Limited by: {LIMITERS.get(limiter, limiter)}." if limiter else "")
        )
    notes += _timing(outcome)
    count, built = outcome.count_shape, outcome.kernel.built
    arch, occupancy = (built.arch, built.occupancy) if built else ("", None)
    by = f" Occupancy is limited by {occupancy.limiter}." if occupancy and occupancy.fraction < 1 else ""
    if occupancy and not occupancy.fraction:
        by = " No block fits on that GPU: it has less shared memory or fewer registers than a block needs."
    if refused := outcome.kernel.speed.refused:
        by += f" No estimate: {refused}."
    notes.append(f"Counters and gates: code for {arch}, one launch at M, N, K = {count.m}, {count.n}, {count.k}.{by}")
    notes += [f"{row.label} was not run: {row.unsupported}" for row in outcome.rows if row.unsupported]
    return notes


def _timing(outcome: RunOutcome) -> list[str]:
    """Return how the times were measured, and how they compare with the peak of the chip."""
    measured, shape = outcome.measured, outcome.estimate_shape
    if outcome.device_kind == "gpu" and outcome.kernel.checked.right and (why := outcome.lesson.data.untimed):
        return [f"Not timed. {why}."]
    if measured is None or not measured.kernels:
        return []
    kernels = (*measured.kernels, *filter(None, [measured.cublas]))
    launches = ", ".join(f"{it.label} {len(it.spread.times)}" for it in kernels)
    scatter = max(it.spread.scatter for it in kernels)
    notes = [
        f"Times: medians at M, N, K = {shape.m}, {shape.n}, {shape.k} of interleaved launches ({launches}), L2 flushed "
        f"before each; the middle half of any scatters by {scatter:.1%} at most."
    ]
    if (cublas := measured.cublas) is not None:
        notes[0] += (
            f" cuBLAS in the same precision, no TF32: {duration(cublas.time_us)}, {tera(cublas.gflops)} TFLOP/s."
        )
    else:
        notes[0] += " cuBLAS's gemmEx does not take these factors: no time of it to compare with."
    if outcome.peak_gflops:
        shares = ", ".join(f"{it.label} {it.gflops / outcome.peak_gflops:.0%}" for it in kernels)
        notes.append(f"Of the data sheet's {tera(outcome.peak_gflops)} TFLOP/s: {shares}.")
    return notes


WHOLE = 1e10  # float32 has no more digits


def told_apart(got: float, expected: float) -> tuple[str, str]:
    """Format two different numbers with six digits, or as many as distinguish them; integers in full."""
    if got.is_integer() and expected.is_integer() and max(abs(got), abs(expected)) < WHOLE:
        return f"{got:.0f}", f"{expected:.0f}"
    digits = next((it for it in range(6, 17) if f"{got:.{it}g}" != f"{expected:.{it}g}"), 17)
    return f"{got:.{digits}g}", f"{expected:.{digits}g}"


def duration(microseconds: float | None) -> str:
    """Format a time with three digits: ``12.3 us``, ``1.23 ms``, ``1.23 s``."""
    if microseconds is None:
        return "-"
    value, unit = microseconds / 1e6, "s"
    for scale, name in ((1.0, "us"), (1e3, "ms")):
        if microseconds / scale < 999.5:
            value, unit = microseconds / scale, name
            break
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def kernel_name(name: str) -> str:
    """Return a lesson's name as tables and plots write it: ``03 block tile``."""
    return name.replace("_", " ")


def tera(gflops: float | None) -> str:
    """Format GFLOP/s as TFLOP/s, the unit of every table and text: ``53.9``, ``8.12``, ``0.504``."""
    if gflops is None:
        return "-"
    value = gflops / 1e3
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value >= 0.995 else f"{value:.3g}"


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.3g}%"
