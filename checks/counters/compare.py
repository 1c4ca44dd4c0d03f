"""The simulator beside the hardware: one ``Comparison`` per kernel of the suite.

``UNEQUAL`` lists every number that differs, with its reason; nothing else may.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checks.counters import readings
from checks.counters.manifest import Case, plan
from checks.counters.readings import BOXES, COMPARED, Reading
from gemm_lessons.course.folder import shown
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled, compile_source
from gemm_lessons.engine.machine.special import cluster_of, clustered
from gemm_lessons.engine.ptx import parser
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.metrics import COUNTED
from gemm_lessons.engine.records.results import Counters
from gemm_lessons.engine.simulator import Simulator

# (kernel, counter) -> why the simulator's number is not Nsight Compute's.
_RETRIES = "atomicAdd on a float in shared memory is a loop that tries again; how often depends on the warps' timing"
UNEQUAL: Mapping[tuple[str, str], str] = {
    **{
        ("shared_atomics", counter): _RETRIES
        for counter in (
            "shared_wavefronts",
            "shared_wavefronts_ideal",
            "shared_load_instructions",
            "shared_store_instructions",
            "warp_instructions",
        )
    },
    # 4 of 2877, all BSYNC.
    ("nested", "warp_instructions"): "lanes that leave a loop one after the other each arrive at its end, or together: "
    "hardware chooses in which order it runs the parts of a warp",
}


# Opcodes of the loop in which a warp polls an mbarrier; ptxas places it after the code of the first poll.
LOOKING = frozenset("SYNCS BRA YIELD NOP MOV IMAD SHF WARPSYNC NANOSLEEP".split())
# The instruction that a warp repeats until the registers it asks for are free.
TRIES_REGISTERS = "USETMAXREG.TRY_ALLOC"
TO_SHARED, TO_GLOBAL = "cp.async.bulk.tensor", ".global.shared::cta"  # PTX that copies boxes
NUMBERS = (*COMPARED, *BOXES, "warp_instructions", "dot_products")


@dataclass(frozen=True)
class Comparison:
    """One kernel: what hardware and simulator counted; or why there is nothing to compare (``missing``)."""

    case: Case
    reading: Reading | None
    measured: Mapping[str, int] = field(default_factory=dict)
    simulated: Mapping[str, int] = field(default_factory=dict)
    inexact: str = ""  # the simulator's own mark
    missing: str = ""
    stale: bool = False  # the reading is of other machine code, though of the same compiler

    @property
    def differences(self) -> dict[str, tuple[int, int]]:
        """Counter -> (hardware, simulator) where they differ."""
        if self.reading is None or self.missing:
            return {}
        measured = self.measured
        return {n: (measured[n], self.simulated[n]) for n in measured if measured[n] != self.simulated[n]}


_compiled: dict[str, Compiled] = {}


def compile_case(case: Case) -> Compiled:
    """Compiles once per kernel, not per launch. Raises ``ValueError`` with the compiler's log."""
    if case.key not in _compiled:
        _compiled[case.key] = _compile(case)
    return _compiled[case.key]


def _compile(case: Case) -> Compiled:
    compiled = compile_source(
        case.file.read_text(),
        path=shown(case.file),  # as a run names it: it may have been compiled and disassembled already
        entry=case.entry,
        defines=case.defines,
        include_dirs=case.include_dirs,
        arch=case.arch,
    )
    if isinstance(compiled, NotCompiled):
        raise ValueError(f"{case.name}: {compiled.log}")
    return compiled


def compare(case: Case, known: readings.Readings) -> Comparison:
    """Simulate one kernel and compare it with its reading, if the reading is of the same machine code."""
    compiled = compile_case(case)
    reading = known.kernels.get(case.name)
    if reading is None:
        return Comparison(case, None, missing="not measured yet")
    if reading.code != readings.code_of(compiled.cubin, compiled.entry):
        measured = known.sessions[reading.session].compiler
        told = f"{compiled.compiler} makes other machine code than was measured ({measured}): renew the reading"
        return Comparison(case, reading, missing=told, stale=compiled.compiler == measured)
    try:
        launched = Simulator().launch(compiled, case.shape, case.arguments())
    except UnsupportedKernel as reason:
        return Comparison(case, reading, missing=f"not simulated: {reason}")
    if launched.fault is not None:
        return Comparison(case, reading, missing=f"fault: {launched.fault.message}")
    counters = launched.counters
    kernel = parser.parse(compiled.ptx).kernels[compiled.entry]
    cluster = math.prod(cluster_of(clustered(kernel, case.shape)))
    simulated = {name: counters[name] for name in NUMBERS if name not in BOXES} | boxes(counters, cluster)
    warps = [warps for count, warps in reading.executed for _ in range(count)]
    counted = {**reading.numbers, "dot_products": _executed(warps, compiled, "IDP")}
    if "warp_instructions" in counters.uncounted:  # how often threads look at an mbarrier depends on time
        counted["warp_instructions"] -= looking_again(warps, compiled)
    named = {COUNTED[name] for name in counters.uncounted}
    inexact = [why for name, why in counters.inexact.items() if name not in named]
    return Comparison(case, reading, counted, simulated, next(iter(inexact), ""))


def boxes(counters: Counters, cluster: int = 1) -> dict[str, int]:
    """Return the boxes that TMA copied each way, and their sectors. A copy for several blocks is for all ``cluster``.

    Read are those sectors that no other counter has; where ``cp.async`` reads, too, they cannot be told apart.
    """
    copies = {text: warps for text, warps in counters.opcodes.items() if text.startswith(TO_SHARED)}
    stored = sum(warps for text, warps in copies.items() if TO_GLOBAL in text)
    arrived = counters["multicast_sectors"]
    read = counters["global_sectors_read"] - counters["global_load_sectors"]
    written = counters["global_sectors_written"] - counters["global_store_sectors"]
    return {
        "boxes": sum(copies.values()) - stored,
        "box_sectors": 0 if counters["async_copies"] else read - arrived // cluster + arrived,
        "multicast_sectors": arrived,
        "stored_boxes": stored,
        "stored_box_sectors": written - counters["global_reduction_sectors"],
    }


def looking_again(warps: Sequence[int], compiled: Compiled) -> int:
    """Return the warp instructions that are repeated while a warp waits: for an mbarrier, or for registers.

    ``warps``: executions of each machine instruction. ptxas places repeated polls of mbarriers after the kernel's last
    EXIT, before functions that it calls.
    """
    ends = [place for place, it in enumerate(compiled.sass) if it.opcode == "EXIT"]
    behind = compiled.sass[ends[-1] + 1 : len(warps)]
    polls = [place for place, it in enumerate(behind) if it.opcode.startswith("SYNCS")]
    after = next((n for n, it in enumerate(behind) if polls and n > polls[-1] and it.text.startswith("BRA")), -1) + 1
    assert {it.opcode.partition(".")[0] for it in behind[:after]} <= LOOKING
    again = sum(warps[ends[-1] + 1 :][:after])
    for place, it in enumerate(compiled.sass[: len(warps)]):
        if it.opcode.startswith(TRIES_REGISTERS):
            last = next(n for n in range(place, len(warps)) if compiled.sass[n].opcode == "BRA")
            first = next(n for n in range(place, -1, -1) if n == 0 or warps[n - 1] != warps[place])
            again += (warps[last] - warps[last + 1]) * (last + 1 - first)
    return again


def _executed(warps: Sequence[int], compiled: Compiled, name: str) -> int:
    """Warp instructions with this opcode, from the reading: the profiler has no counter for it."""
    return sum(n for n, it in zip(warps, compiled.sass, strict=False) if it.opcode.split(".")[0] == name)


def every() -> Iterator[Comparison]:
    """All kernels of the plan, in its order."""
    known = readings.load()
    for case in plan():
        yield compare(case, known)
