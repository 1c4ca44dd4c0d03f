"""Traced instructions as a multiprocessor executes them.

An ``Item`` is one instruction or a run of arithmetic, with its unit, dependences and duration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gemm_lessons.engine.costs.banks import WARP
from gemm_lessons.engine.estimate.fetching import NO_LINE, lines_of
from gemm_lessons.engine.hardware.pipes import THREE_OPERANDS, Pipes
from gemm_lessons.engine.hardware.sheets import GpuSpec, pipes_of
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex
from gemm_lessons.engine.sass.flow import TO_OTHERS, columns_of, tile_wavefronts
from gemm_lessons.engine.sass.operands import Decoded, MachineRegister
from gemm_lessons.engine.sass.trace import LOCAL, SCOREBOARDS, Touch, Trace

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.sass import SassInstruction

WARPS_OF_GROUP = 4
LONGEST_RUN = 16  # arithmetic instructions of one warp that are issued together, to save time
PRODUCTS = ("HMMA", "IMMA", "DMMA")
GROUPED = ("HGMMA", "IGMMA", "QGMMA")  # asynchronous products of a warpgroup
BOX, BOX_OUT = "UTMALDG", "UTMASTG"  # copies of a box of a tensor map into shared memory, and out of it
COMMITTED = "UTMACMDFLUSH"  # commits the boxes copied out before it as a group, for which DEPBAR waits
GROUPS = SCOREBOARDS  # number of an additional scoreboard of the model: a warp's groups of asynchronous products
Step = tuple[int, Touch | None]  # of a traced warp: the instruction's index, and its access if it made one
FP32, MEMORY, INTEGER, SPECIAL, OTHER, TENSOR, FP64, ASYNCHRONOUS = range(8)
UNITS: Mapping[str, int] = {
    **dict.fromkeys("FFMA FADD FMUL FFMA32I FMUL32I FADD32I IMAD HFMA2 HADD2 HMUL2 IDP".split(), FP32),
    **dict.fromkeys(
        "LD ST LDG STG LDS STS LDL STL LDC LDSM STSM LDGSTS TLD ATOM ATOMG ATOMS RED REDG SHFL REDUX".split(), MEMORY
    ),
    **dict.fromkeys(("SYNCS", BOX, BOX_OUT, COMMITTED, *TO_OTHERS), MEMORY),
    **dict.fromkeys(PRODUCTS, TENSOR),
    **dict.fromkeys(GROUPED, ASYNCHRONOUS),
    **dict.fromkeys("DFMA DADD DMUL DSETP DMNMX".split(), FP64),
    **dict.fromkeys("S2R S2UR MUFU F2I I2F F2F I2FP F2FP FRND POPC FLO BREV".split(), SPECIAL),
    **dict.fromkeys(
        "BRA EXIT BAR NOP BSSY BSYNC BREAK CALL RET WARPSYNC DEPBAR LDGDEPBAR MEMBAR ERRBAR CCTL YIELD "
        "WARPGROUP USETMAXREG FENCE ELECT CGAERRBAR UCGABAR_ARV UCGABAR_WAIT".split(),
        OTHER,
    ),
}  # all others: INTEGER
# Moves that ptxas writes as multiplications: they need no multiplier.
MOVES = ("IMAD.MOV", "IMAD.IADD", "IMAD.SHL")
# Opcodes of units whose rates this model lacks.
UNKNOWN = regex(r"[BQ]MMA|UTMAREDG|UBLK\w+")


def unknown_units(code: Iterable[SassInstruction], gpu: GpuSpec) -> set[str]:
    """Return the opcodes of units whose rates on ``gpu`` the model lacks."""
    found = set()
    pipes = pipes_of(gpu)
    for opcode in {instruction.opcode for instruction in code}:
        name = opcode.split(".")[0]
        known = not UNKNOWN.fullmatch(name)
        if name in PRODUCTS:
            known = pipes.products.clocks(opcode) is not None
        elif name in GROUPED:
            known = pipes.grouped > 0 and ".SP" not in opcode
        elif name in (BOX, BOX_OUT):
            known = pipes.box > 0
        elif name == "IDP":
            known = pipes.dot > 0
        if not known:
            found.add(name)
    return found


class Item(NamedTuple):
    """One instruction, or a run of arithmetic ones: its dependences, its duration, the stall of its warp."""

    unit: int
    waits: tuple[int, ...]
    slots: int  # issue slots
    fp32: float  # clocks of the fp32 pipe
    integer: float
    stall: float
    sets: int | None
    reads: int | None
    registers: int
    name: str
    place: int  # in the code
    at_most: tuple[int, int] | None = None  # DEPBAR: scoreboard, how many may still be in flight
    other: float = 0.0  # clocks of the tensor cores, or of the fp64 lanes
    later: float = 0.0  # clocks until a result without a fixed latency is available
    sums: tuple[int, int] | None = None  # of a product: the first register of its result, and of its addend
    line: int = NO_LINE  # of code that a warp begins with it, where loops have to be fetched again


def grouped_columns(trace: Trace) -> float:
    """Return the columns of the asynchronous products of a block's warpgroups, on average."""
    columns = {d.index: columns_of(d) for d in trace.code if d.name in GROUPED}
    if not columns:
        return 0.0
    blocks = len(trace.warps) / trace.warps_per_block
    return sum(columns.get(index, 0) for warp in trace.warps for index, _ in warp) / WARPS_OF_GROUP / blocks


def streams_of(trace: Trace, blocks: int, gpu: GpuSpec) -> list[tuple[Stream, Sequence[Step]]]:
    """Return every warp of the first ``blocks`` with its instructions as items. Most warps take the same path."""
    items = _items(trace, pipes_of(gpu), gpu)
    joined: dict[tuple[int, ...], Stream] = {}
    found: list[tuple[Stream, Sequence[Step]]] = []
    for warp in trace.warps[: blocks * trace.warps_per_block]:
        path = tuple([index for index, _ in warp])
        if path not in joined:
            joined[path] = _stream(path, items)
        found.append((joined[path], warp))
    return found


def _items(trace: Trace, pipes: Pipes, gpu: GpuSpec) -> list[Item]:
    """Return one item for every instruction."""
    fp32 = WARP * gpu.schedulers / gpu.lanes_per_sm
    lines = lines_of(trace.code, pipes)
    found = []
    for d, control, banks in zip(trace.code, trace.control, trace.reads, strict=True):
        opcode = d.source.opcode
        moves = opcode.startswith(MOVES)
        unit = INTEGER if moves else UNITS.get(d.name, INTEGER)
        if d.name in LOCAL and not pipes.local:
            unit = OTHER
        slots = pipes.multiply_slots if d.name == "IMAD" and not moves else 1
        other, later = _other(d, unit, pipes)
        stall = max(1, control.stall)
        at_most = None
        if d.name == "DEPBAR" and (match := re.search(r"SB(\d), (0x[0-9a-f]+)", d.text)):
            at_most = int(match[1]), int(match[2], 16)
        elif d.name == "WARPGROUP" and (match := re.search(r"DEPBAR\.LE gsb0, (0x[0-9a-f]+)", d.text)):
            at_most = GROUPS, int(match[1], 16)
        ends_group = d.name in GROUPED and "gsb0" in d.text
        found.append(
            Item(
                unit, control.waits, slots,
                max(pipes.dot if d.name == "IDP" else _multiply(fp32, banks, pipes), slots) if unit == FP32 else 0.0,
                pipes.integer if unit == INTEGER else 0.0,
                stall if stall < 3 else stall * pipes.dependence,
                GROUPS if ends_group else control.sets, control.reads, max(1, d.source.width // 4), d.name, d.index,
                at_most, other, later, _sums(d) if unit == TENSOR else None, lines.get(d.index, NO_LINE),
            )
        )  # fmt: skip
    return found


def _multiply(fp32: float, banks: tuple[int, int], pipes: Pipes) -> float:
    """Return the clocks of a multiply-add that reads ``banks`` registers: those of each bank."""
    return max(fp32 + max(0, max(banks) - 2), sum(banks) * pipes.register)


def _other(d: Decoded, unit: int, pipes: Pipes) -> tuple[float, float]:
    """Return clocks on tensor cores or fp64 units (else 0), and clocks to the result if it has no fixed latency."""
    opcode = d.source.opcode
    if unit == ASYNCHRONOUS:
        least = max(pipes.grouped_least, WARPS_OF_GROUP * float(tile_wavefronts(d)))
        return max(columns_of(d) * pipes.grouped, least), pipes.grouped_latency
    if unit == TENSOR:
        return pipes.products.clocks(opcode) or (0.0, 0.0)
    if unit == FP64:
        return pipes.fp64 * (THREE_OPERANDS if opcode.startswith("DFMA") else 1.0), pipes.fp64_latency
    return 0.0, pipes.special_latency


def _sums(d: Decoded) -> tuple[int, int] | None:
    registers = [it for it in d.operands if isinstance(it, MachineRegister) and it.file == "R"]
    if len(registers) < 3 or registers[0].number is None:
        return None
    last = registers[-1].number
    return registers[0].number, -1 if last is None or len(registers) < 4 else last


@dataclass(frozen=True)
class Stream:
    """The items of one path through the code, and the position of each."""

    items: Sequence[Item]
    places: Sequence[int]

    def of(self, warp: Sequence[Step]) -> list[tuple[Item, Touch | None]]:
        """Return the items with the accesses of a warp on this path."""
        return list(zip(self.items, [warp[place][1] for place in self.places], strict=True))


def _stream(path: Sequence[int], items: Sequence[Item]) -> Stream:
    """Return the instructions of a path as items; arithmetic without waits in between is joined into runs."""
    found: list[Item] = []
    places: list[int] = []
    run: list[int] = []
    joined: dict[tuple[int, ...], Item] = {}  # runs repeat in every iteration of a loop

    def close(end: int) -> None:
        if run:
            same = tuple(run)
            if same not in joined:
                joined[same] = _joined([items[index] for index in run])
            found.append(joined[same])
            places.append(end - len(run))
            run.clear()

    for place, index in enumerate(path):
        item = items[index]
        plain = item.unit in (FP32, INTEGER) and item.sets is None and item.reads is None
        if run and (not plain or item.waits or len(run) == LONGEST_RUN or item.line != NO_LINE):
            close(place)
        if not plain:
            found.append(item)
            places.append(place)
            continue
        run.append(index)
        if item.stall > 2:
            close(place + 1)
    close(len(path))
    return Stream(found, places)


def _joined(parts: Sequence[Item]) -> Item:
    first = parts[0]
    if len(parts) == 1:
        return first
    return first._replace(
        slots=sum(part.slots for part in parts),
        fp32=sum(part.fp32 for part in parts),
        integer=sum(part.integer for part in parts),
        stall=sum(part.stall for part in parts),
        place=parts[-1].place,
    )
