"""A kernel's only block, run as its source is written: without optimisations, and with the names of its variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gemm_lessons.engine.compiler.compile import Compiled, compile_source
from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.machine.machine import Setting
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Argument, Grid
from gemm_lessons.engine.records.regex import regex
from gemm_lessons.engine.simulator import Simulator
from gemm_lessons.engine.simulator.final_memory import FinalMemory

AS_WRITTEN = ("-G",)  # no optimisation, and the names of variables
# In code compiled with ``-G`` all arrays of a function are in one local variable (``__local_depot0``). The debug
# information gives their offsets: DW_OP_addr, the variable, DW_OP_plus_uconst, the offset, then the name.
PLACE = regex(
    r"\.b8 3\n\s*\.b64 (?P<depot>__local_depot\d+)\n\s*\.b8 35\n\s*\.b8 (?P<offset>[\d,]+)\n\s*\.b8 (?P<name>[\d,]+)\n"
)
BUDGET = 500_000  # instructions of the unoptimised code; the lessons need a twentieth of it
Names = dict[tuple[str, str, int], str]  # space, variable in PTX, byte in it -> name of the array that begins there


@dataclass(frozen=True)
class DebugRun:
    """What the block leaves in its memory: as written, and as optimised if that was run, too."""

    written: FinalMemory
    optimised: FinalMemory | None
    names: Names


def compile_as_written(
    source: str,
    path: str,
    *,
    entry: str,
    defines: Mapping[str, str | int],
    include_dirs: Sequence[Path],
    arch: str,
    withheld: Sequence[Path],
) -> Compiled | None:
    """Compile a source as written; None where it does not compile. The parameters are those of ``compile_source``."""
    compiled = compile_source(
        source,
        path=path,
        entry=entry,
        defines=defines,
        include_dirs=include_dirs,
        arch=arch,
        options=AS_WRITTEN,
        withheld=withheld,
        assembled=False,
    )
    return compiled if isinstance(compiled, Compiled) else None


def run_as_written(
    compiled: Compiled,
    optimised: Compiled,
    grid: Grid,
    arguments: Sequence[Argument],
    others: Sequence[Argument] | None,
) -> DebugRun:
    """Run the only block of a kernel that is ``compiled`` as written, with ``arguments``, whose arrays are written. If
    it ends without a fault, run the ``optimised`` kernel with ``others``, too, unless None. Raise
    ``UnsupportedKernel``."""
    simulator = Simulator(Setting(budget=BUDGET))
    written = simulator.final_memory(compiled, grid, arguments)
    beside = others is not None and written.fault is None
    return DebugRun(
        written, simulator.final_memory(optimised, grid, others or ()) if beside else None, _names(compiled, written)
    )


def stays_inside(compiled: Compiled, grid: Grid, arguments: Sequence[Argument]) -> bool:
    """Return whether a debug run shows no fault and no index past a thread's own array. Raise ``UnsupportedKernel``."""
    return Simulator(Setting(budget=BUDGET)).stays_inside(compiled, grid, arguments)


def _names(compiled: Compiled, written: FinalMemory) -> Names:
    shared = {("shared", variable, 0): plain_name(variable) for variable in written.shared}
    return shared | {("own", variable, start): name for (variable, start), name in local_names(compiled.ptx).items()}


def local_names(ptx: str) -> dict[tuple[str, int], str]:
    """Return (variable, byte offset in it) -> source name of the array that begins there."""
    found = {}
    for match in PLACE.finditer(ptx):
        offset = sum((int(byte) & 0x7F) << (7 * place) for place, byte in enumerate(match["offset"].split(",")))
        name = bytes(map(int, match["name"].split(","))).decode("utf-8", "replace")
        found[match["depot"], offset] = name
    return found
