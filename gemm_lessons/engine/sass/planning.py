"""Plan the counting of a kernel's machine code: the instructions to execute, and the memories they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property, partial

from gemm_lessons.engine.compiler.sass import width_of
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex
from gemm_lessons.engine.sass import registers
from gemm_lessons.engine.sass.exposed_latency import BlockEvents, events_of
from gemm_lessons.engine.sass.flow import (
    ATOMICS,
    BULK_IN,
    BULK_OUT,
    COPIES,
    GENERIC,
    LOADS,
    MATRIX,
    MEMORY,
    SIGNALS,
    STORES,
    TO_OTHERS,
    Listing,
    call_by_call,
    calls_outside,
    mask,
    reads,
    results,
    signalled,
    stored,
    tensor_products,
    tile_wavefronts,
)
from gemm_lessons.engine.sass.operands import Decoded, Memory, Uncountable, decode
from gemm_lessons.engine.sass.slicing import Slicer
from gemm_lessons.engine.sass.textures import FETCHES, fetched
from gemm_lessons.engine.sass.useful_work import UsefulWork, useful_work

CONTROL = frozenset("BRA BRX EXIT CALL RET BSSY BSYNC BREAK BMOV BAR WARPSYNC KILL BPT".split())
LOADED, STORED = {**LOADS, **ATOMICS}, {**STORES, **ATOMICS}
FUSED = {"FFMA": "ffma", "DFMA": "dfma"}  # multiply-adds that have counters, and their names in ``Sums``
SUMS = "addresses or branches depend on sums of tensor cores, which are not computed from machine code"
# An atomic of two halves, which tells whether its address was global; what the upper half of a shared one is read from.
PAIRS, SHARED_BEGINS = regex(r"ATOM\.E\.\w+\.B?F16x2\S* (?!PT)P\d,"), "SR_SWINHI"
OR_NOT = regex(r"PLOP3\.LUT (P\d), PT, \1, (P\d), PT, 0xa2, 0x0")
STACK = "R1"  # points at the stack
OWN = "own stores"  # among the memories: global memory as the thread itself has stored it
MOVED = "addresses, branches or how a division goes depend on data that a bulk copy, ldmatrix or stmatrix moves"


@dataclass(frozen=True)
class Plan:
    """A kernel ready to be counted: the instructions to execute, and the memories whose contents they need."""

    program: Listing
    executed: tuple[bool, ...]
    spaces: frozenset[str]  # memories whose contents addresses or branches depend on
    work: UsefulWork
    paired: bool = False  # the slice assumes that functions return to the instruction after their calls
    moved: bool = False  # instructions that are not executed also write to ``spaces``, or order accesses to them
    # Multiply-adds with guards that depend on unknown values, and stores of unknown values.
    open: frozenset[int] = frozenset()
    _passages: dict[tuple[int, int], BlockEvents] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def register_conflicts(self) -> tuple[int, ...]:
        """Return the clocks that each instruction loses to register bank conflicts."""
        return registers.conflicts(self.program.code)

    @cached_property
    def reuse_flags(self) -> tuple[int, ...]:
        """Return the operands that each instruction keeps in the reuse cache."""
        return tuple(registers.reuse_flags(d) for d in self.program.code)

    @cached_property
    def tensor_products(self) -> tuple[int, ...]:
        """Return the tensor-core multiply-adds of each instruction per warp."""
        return tuple(tensor_products(d) for d in self.program.code)

    @cached_property
    def tile_wavefronts(self) -> tuple[int, ...]:
        """Return, per instruction, the wavefronts of the tiles that a warp's part of ``wgmma`` reads."""
        return tuple(tile_wavefronts(d) for d in self.program.code)

    def events(self, first: int, end: int) -> BlockEvents:
        """Return the events of the straight-line code between two indices, memoised for all launches and batches."""
        if (first, end) not in self._passages:
            self._passages[first, end] = events_of(self.program.code[first:end], brought, self.work.hides)
        return self._passages[first, end]


def plan(program: Listing, signals: bool = False, own_stores: bool = False) -> Plan:
    """Return the plan. Raise ``Uncountable`` if the slice cannot be found.

    The precise slice takes longer and is needed only for few kernels. ``signals``: also distinguish mbarriers, which
    only timing depends on. ``own_stores``: follow what threads store in global memory, too.
    """
    work, spaces = useful_work(program), frozenset({OWN} if own_stores else ())
    try:
        found = _plan(program, work, signals, closely=False, spaces=spaces)
    except Uncountable:
        found = _plan(program, work, signals, closely=True, spaces=spaces)
    unknown = [d for d in program.code if found.executed[d.index] and is_unknown(d)]
    if unknown:
        found = _plan(program, work, signals, closely=True, open=_open(program, work), spaces=spaces)
        if any(found.executed[d.index] for d in unknown):
            raise Uncountable(MOVED if any(d.name == "LDSM" for d in unknown) else SUMS)
    return found


def with_conditional_writes(program: Listing) -> Listing:
    """Return the code in which ``PLOP3.LUT P, PT, P, Q, PT, 0xa2``, P or not Q, writes P only where Q is false."""
    code = list(program.code)
    for d in program.code:
        found = OR_NOT.fullmatch(d.text)
        if found and d.guard is None:
            text = f"@!{found[2]} PLOP3.LUT {found[1]}, PT, PT, PT, PT, 0x80, 0x0"
            code[d.index] = decode(d.index, replace(d.source, text=text))
    return Listing(tuple(code), program.labels)


def with_global_atomics(program: Listing) -> Listing:
    """Return the code in which atomics of pairs (``ATOM.E.ADD.F16x2 P``) succeed, where all addresses are global.

    P says so; else QSPC asks what memory it is, and loops follow for the others. No pointer that a launch gives is to
    shared memory, and code that makes one reads where that begins (``SR_SWINHI``).
    """
    code = list(program.code)
    if any(SHARED_BEGINS in d.text for d in code):
        return program
    for d in program.code:
        if not PAIRS.match(d.text):
            continue
        after = range(d.index + 1, len(code))
        asks = next((i for i in after if code[i].name == "QSPC"), 0)
        last = next((i for i in after if i > asks and code[i].name == "ST"), 0)
        predicate = f"@{d.text.split()[1].rstrip(',')} "
        skips = next((i for i in after if i < asks and code[i].text.startswith(predicate)), 0)
        if not asks or not last or not skips:
            continue
        texts = {d.index: d.text.replace(f" {predicate[1:-1]},", " PT,", 1)}
        texts |= {skips: code[skips].text.removeprefix(predicate)}
        texts |= dict.fromkeys(range(asks, last + 1), "EXIT")
        for index, text in texts.items():
            code[index] = decode(index, replace(code[index].source, opcode=text.split()[0], text=text))
    return Listing(tuple(code), program.labels)


def _open(program: Listing, work: UsefulWork) -> frozenset[int]:
    """Return the multiply-adds and stores that need unknown values themselves: no address or branch depends on them."""
    values = UnknownValues(program)
    counted = (d for d in program.code if d.name == "FFMA" or (work.products[d.index] and d.name not in FUSED))
    stores = (d for d in program.code if STORES.get(d.name) in ("shared", "local"))
    guarded = {d.index for d in counted if values.guards(d)}
    return frozenset(guarded.union(d.index for d in stores if values.is_stored(d)))


def _plan(
    program: Listing,
    work: UsefulWork,
    signals: bool,
    closely: bool,
    open: frozenset[int] = frozenset(),
    spaces: frozenset[str] = frozenset(),
) -> Plan:
    slicer = Slicer(program, closely)
    while True:
        chosen = slicer.relevant(partial(needs, spaces, work, signals=signals, open=open))
        loaded = {LOADED[d.name] for d, needed in zip(program.code, chosen, strict=True) if needed and d.name in LOADED}
        for d, needed in zip(program.code, chosen, strict=True):
            if needed and d.name in FETCHES:
                raise Uncountable(f"addresses depend on {d.text}")
        if "shared" in loaded and any(d.name in COPIES for d in program.code):
            loaded.add("global")  # cp.async copies data from there
        if loaded <= spaces:
            paired = bool(program.calls) and call_by_call(program) is not None
            return Plan(program, tuple(chosen), spaces, work, paired, _moved(program, loaded, open), open)
        moving = next((d for d in program.code if MEMORY.get(d.name) == GENERIC), None)
        if moving is not None and (GENERIC in loaded or any(d.name == "ST" for d in program.code)):
            raise Uncountable(f"addresses depend on data that is moved by {moving.text}")
        spaces |= loaded


def _moved(program: Listing, loaded: set[str], open: frozenset[int]) -> bool:
    """Return whether a memory that is ``loaded`` is also written by instructions that are not executed, or whose values
    are not known, or whether mbarriers order accesses to it."""
    others = (*BULK_IN, *TO_OTHERS, "STSM", "SYNCS")
    shared = any(d.name in others or (d.index in open and STORES.get(d.name) == "shared") for d in program.code)
    outside = any(d.name in BULK_OUT for d in program.code)
    return ("shared" in loaded and shared) or ("global" in loaded and outside)


def needs(
    spaces: frozenset[str], work: UsefulWork, d: Decoded, signals: bool = False, open: frozenset[int] = frozenset()
) -> Sequence[str]:
    """Return the registers ``d`` needs itself: addresses, branch conditions, and data written to one of ``spaces``.
    Guards of multiply-adds, and data, are not needed if the instruction is ``open``."""
    needed = list(reads(d)) if (d.name in MEMORY or d.name in CONTROL) and not calls_outside(d) else []
    if d.index in open:
        return needed
    if (d.name in FUSED or work.products[d.index] or calls_outside(d)) and d.guard is not None:
        needed.append(d.guard.shifted(0))
    if signals and d.name in SIGNALS:
        needed += signalled(d)
    space = STORED.get(d.name)
    # Global memory is read as it was before the launch, unless OWN; ``Store`` checks that this is valid.
    if space in spaces and (space != "global" or OWN in spaces):
        needed += stored(d)
    return needed


def brought(d: Decoded) -> int:
    """Return the bytes that ``d`` loads from global memory per lane."""
    if d.name in FETCHES:
        return fetched(d)
    if d.name in ("LD", "LDG", "ATOMG", "ATOM", "LDGSTS"):
        return max(1, width_of(d.source.opcode))
    return 0


class UnknownValues:
    """Registers, and words of the stack where ptxas spills them, that may hold an unknown value before each
    instruction."""

    def __init__(self, program: Listing) -> None:
        self._bits: dict[str, int] = {}
        code, after = program.code, program.after
        written = [mask(self._bits, (*results(d)[0], *_spilled(d, "STL"))) for d in code]
        read = [mask(self._bits, (*reads(d), *_spilled(d, "LDL"))) for d in code]
        read = [
            bits | mask(self._bits, stored(d) if d.name == "STL" else ()) for bits, d in zip(read, code, strict=True)
        ]
        self._before = [0] * len(code)
        todo = [d.index for d in code if is_unknown(d)]
        while todo:
            index = todo.pop()
            state, d = self._before[index], code[index]
            if is_unknown(d) or read[index] & state:
                state |= written[index]
            elif d.guard is None:
                state &= ~written[index]
            for successor in after[index]:
                if state & ~self._before[successor]:
                    self._before[successor] |= state
                    todo.append(successor)

    def guards(self, d: Decoded) -> bool:
        """Return whether an unknown value decides if ``d`` is executed."""
        return d.guard is not None and bool(self._before[d.index] & mask(self._bits, [d.guard.shifted(0)]))

    def is_stored(self, d: Decoded) -> bool:
        """Return whether the store ``d`` may store an unknown value."""
        return d.name == "STSM" or bool(self._before[d.index] & mask(self._bits, stored(d)))


def _spilled(d: Decoded, name: str) -> list[str]:
    """Return the words of the stack, as names, that ``d`` accesses if it is a ``name`` (LDL, STL)."""
    memory = next((it for it in d.operands if isinstance(it, Memory)), None) if d.name == name else None
    if memory is None or [it.shifted(0) for it in memory.registers] != [STACK]:
        return []
    return [f"[{memory.offset + at}]" for at in range(0, max(4, width_of(d.source.opcode)), 4)]


def is_unknown(d: Decoded) -> bool:
    """Return whether the result of ``d`` is not computed from machine code."""
    return d.name in MATRIX or d.name == "LDSM"
