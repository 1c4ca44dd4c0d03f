"""Finds which blocks of a grid take the same branches, as far as these depend on a block's index.

    PTX -> decisions: comparisons, look-ups and factors that depend on a block's index
        -> the outcome of each decision in every block of the grid -> classes of blocks with the same outcomes

A kernel can treat one block of a large grid differently only if something in its code depends on the block's index.
The blocks worth running are those with rare outcomes, and they are found here without running any. The instructions
between a block's index and a decision are computed for all blocks at once, with a range for a value that depends on the
thread, or without one by the simulator's own functions, as for floats. Lanes hand values on by shuffles, and threads by
a variable in memory. A value that depends on other memory or changes in a loop is unknown. If a decision compares such
a value with one computed from the block's index, the latter counts as the outcome.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from itertools import combinations
from math import prod

import numpy as np

from gemm_lessons.engine.machine.sizes_alone import FALSE, TRUE, carry_of, handed_on, results, sources, varying
from gemm_lessons.engine.machine.special import cluster_of, clustered
from gemm_lessons.engine.ptx.cfg import Block, dependents, read_by, reads, writers, writes
from gemm_lessons.engine.ptx.records import (
    SIZES,
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    PredicatePair,
    Register,
    Symbol,
    Variable,
    register_width,
    registers_in,
)
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Argument, Grid, Scalar
from gemm_lessons.engine.records.results import RareBlocks
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.semantics.floats import float_state
from gemm_lessons.engine.semantics.operation import DTYPES

DEFINITIONS = 6  # of one register, at most; with more, its value is unknown
DEEP = 150  # longest chain of registers from a decision back to the index: Python allows 1,000 calls
RUN_BLOCKS, RARE = 1 << 15, 0.1  # blocks of a run, at most; of them, this share or less is rare
VALUES = 12  # outcomes of one decision, at most; with more, it changes from block to block, like an address
CLASSES = 1 << 16  # classes of blocks, at most
OF_A_BLOCK = ("%ctaid", "%clusterid", "%cluster_ctaid")
SHORTS = {"u16": 1 << 16, "b16": 1 << 16, "s16": 1 << 15}  # the numbers that are too large
COMPARE = ("setp", "min", "max")  # decisions about sizes, with those that join predicates
SHIFTS = ("shl", "shr")
LARGEST_SHIFT = 20
LARGEST_NUMBER = 999_999  # that is compared with a size
BOUNDED = {"setp": 2, "min": 1, "max": 1}  # modifiers of a comparison with one number
MOST_OF_TWO, MOST_OF_THREE = 24, 12  # comparisons of which two, or three, are considered together
MOST_COUNTED = 2  # launches with an outcome that no other counted one has
MOST_TRIES = 60  # launches that turn out not to be allowed
DECIDE = ("setp", "set", "cvt", "ld", "brx")
ORDER = ("lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
PLACES: Mapping[str, tuple[int, ...]] = {"shl": (1,), "shr": (1,), "bfi": (2, 3), "bfe": (1, 2)}  # u32 of any type
COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
INTEGERS = tuple(f"{letter}{bits}" for letter in "usb" for bits in (8, 16, 32, 64))
FLOATS = ("f16", "f32", "f64")
BUSY, NEAR = ("load", "copy", "barrier", "phase", "image"), frozenset({"param", "local", "const"})
POINTERS = ("b64", "u64", "s64")
UNSIGNED = ("lo", "ls", "hi", "hs")
BOTH = 2  # the outcome of a decision that may differ between threads of a block or iterations of a loop
# Registers, sizes of launches -> what the registers are in all launches; none if that fails.
SizesAlone = Callable[[Sequence[str], Mapping[str, Sequence[int] | Array]], Mapping[str, Array]]


@dataclass(frozen=True)
class Values:
    """A register in every block: int64, (z, y, x), with 1 along each axis that does not matter. ``low`` is ``high``
    where all threads of a block have the same value. ``table``: the variable from whose address it is an offset.
    ``moves``: a loop changes the register, and these are the values before the loop."""

    low: Array
    high: Array
    table: str = ""
    moves: bool = False

    @property
    def is_exact(self) -> bool:
        """Return whether all threads of a block have the same value."""
        return self.low is self.high

    @property
    def varies(self) -> bool:
        """Return whether blocks may have different values."""
        return self.low.size > 1 or self.high.size > 1


@dataclass(frozen=True)
class PlacedDecision:
    """An instruction (index) whose outcome depends on a block's index. ``outcomes``: int64, (z, y, x), with 1 along
    each axis that does not matter. ``is_edge``: an ordered comparison whose outcome changes once from the first block
    to the last, as at the end of a matrix."""

    index: int
    outcomes: Array
    is_edge: bool


@dataclass(frozen=True)
class BlockClass:
    """Blocks with the same outcomes: one of them, and how many there are."""

    block: int
    count: int


@dataclass(frozen=True, eq=False)
class CodeDecisions:
    """The decisions in the code of a kernel. ``variables``: those outside of kernels; ``blocks``: the kernel's basic
    blocks."""

    kernel: Kernel
    variables: Sequence[Variable]
    blocks: Sequence[Block]

    @cached_property
    def may_decide(self) -> tuple[Instruction, ...]:
        """Return the instructions that may be decisions: an operand may come from a block's index, without memory."""
        placed = {f"{name}.{axis}" for name in OF_A_BLOCK for axis in "xyz"}
        given = sources(self.kernel)
        others = [it for it in self.kernel.instructions if it.row.computes or it.index in given]
        before = len(others) + 1
        while len(others) < before:
            before, left, others = len(others), others, []
            for it in left:
                if placed.isdisjoint(given.get(it.index, reads(it))):
                    others.append(it)
                else:
                    placed |= results(it)
        return tuple(it for it in self.kernel.instructions if it.opcode in DECIDE and not placed.isdisjoint(reads(it)))

    @cached_property
    def uniform_comparisons(self) -> tuple[Instruction, ...]:
        """Return the comparisons of values computed from parameters alone, which have one outcome in all threads. The
        smaller or larger of two such values is a comparison, too, and so may be a load from such a place."""
        varies, _ = varying(self.kernel)
        last = ("pred",)
        code = self.kernel.instructions
        compare = (it for it in code if it.opcode in COMPARE or it.modifiers[-1:] == last or _looks_up(it))
        found = (it for it in compare if varies.isdisjoint(reads(it)))
        return tuple(it for it in found if _looks_up(it) or any(isinstance(its, Register) for its in it.operands[1:3]))

    def placed(self, grid: Grid, arguments: Sequence[Argument]) -> tuple[PlacedDecision, ...]:
        """Return the decisions that depend on a block's index in this launch."""
        scalars = {name: np.full((1, 1, 1), value) for name, value in self._whole_numbers(arguments).items()}
        values = _Evaluation(self, clustered(self.kernel, grid), scalars)
        found = []
        for instruction in self.may_decide:
            outcomes = values.outcomes(instruction)
            if outcomes is None or outcomes.size == 1 or (outcomes == outcomes.flat[0]).all():
                continue
            # An edge: outcomes change once from the first blocks to the last, with at most one block in between.
            once = np.count_nonzero(np.diff(outcomes.reshape(-1))) <= 2
            found.append(PlacedDecision(instruction.index, outcomes, instruction.modifiers[0] in ORDER and bool(once)))
        return tuple(found)

    def rare_blocks(
        self, grid: Grid, arguments: Sequence[Argument], seed: int, run: SizesAlone | None = None
    ) -> RareBlocks:
        """Return blocks of a launch that the kernel treats differently from most. ``run``: see ``rare_sizes``."""
        found = self.placed(grid, arguments)
        odd = tuple(it for it in found if not it.is_edge)
        *every, usual = [it.block for it in classes(found, grid, seed)] or [0]
        rare = [it.block for it in classes(odd, grid, seed)[:-1]]
        shown = [] if run is None else self._rare_in_a_run(grid, arguments, seed, run)
        every = [*dict.fromkeys([*shown, *every])]
        return RareBlocks(tuple(every), tuple(dict.fromkeys([*shown, *rare])), (usual,) if every else ())

    def _rare_in_a_run(self, grid: Grid, arguments: Sequence[Argument], seed: int, run: SizesAlone) -> list[int]:
        """Return blocks for which tests and factors have rare values that only a run shows: of all blocks, or of
        ``RUN_BLOCKS`` of them."""
        draw = np.random.default_rng(seed)
        many = grid.blocks > RUN_BLOCKS
        blocks = draw.choice(grid.blocks, RUN_BLOCKS, replace=False) if many else np.arange(grid.blocks)
        places = np.unravel_index(blocks, grid.grid[::-1])[::-1]
        sizes = {name: np.full(blocks.size, value) for name, value in self._whole_numbers(arguments).items()}
        for axis, size, threads in zip("xyz", grid.grid, grid.block, strict=True):
            sizes |= {f"%nctaid.{axis}": np.full(blocks.size, size), f"%ntid.{axis}": np.full(blocks.size, threads)}
        by_block = {f"%ctaid.{axis}": place for axis, place in zip("xyz", places, strict=True)}
        varies, _ = varying(self.kernel, sizes)
        its = sizes | by_block
        values = _Evaluation(self, None, {name: it.reshape(1, 1, -1) for name, it in its.items()}, self.blocks)
        found = []
        for name, been in self._computed(values, its, run, varies).items():
            for where in self._outcomes_of(name, been):
                chosen = np.flatnonzero(where)
                found += [int(blocks[draw.choice(chosen)])] if 0 < chosen.size < RARE * blocks.size else []
        return found

    def _outcomes_of(self, name: str, found: Array) -> list[Array]:
        """Return in which launches or blocks a register has each of its values, if these are few: an integer of many
        may be an index."""
        names, kind = np.unique(found), self.kernel.registers[name]
        if kind == "pred":
            return [found & it > 0 for it in (TRUE, FALSE)]
        return [found == it for it in names] if 1 < names.size <= (VALUES if kind[0] == "f" else 2) else []

    def _whole_numbers(self, arguments: Sequence[Argument]) -> dict[str, int]:
        """Return the parameters that are integers."""
        return {
            parameter.name: int(argument.value)
            for parameter, argument in zip(self.kernel.parameters, arguments, strict=True)
            if isinstance(argument, Scalar) and isinstance(argument.value, np.integer)
        }

    def rare_sizes(
        self,
        sizes: Mapping[int, Sequence[int]],
        grids: Sequence[Grid] = (),
        known: int = 0,
        allowed: Callable[[int], bool] = lambda number: True,
        together: int = 3,
        run: SizesAlone | None = None,
        most: int | None = None,
        counted: Sequence[int] = (),
    ) -> tuple[int, ...]:
        """Return indices of launches in which new outcomes occur, the most important ones first, so many at ``most``;
        and of up to ``MOST_COUNTED`` of the ``counted`` ones, in which outcomes occur that no other one has.

        The new outcomes are those that occur in none of the first ``known`` launches: first a basic block that runs,
        however many decisions lead to it; an outcome of a comparison of sizes, or of two tests for equality together;
        then of any two comparisons together, then of any three, if as many as that may be ``together``. The choice is
        greedy. ``sizes``: index of a parameter -> its value in each launch. ``grids``: of each launch, if the code
        reads them. ``allowed``: tells whether a launch may be chosen. ``run``: finds what loops, carries and memory
        compute from sizes, in all launches.
        """
        by_name = {self.kernel.parameters[place].name: it for place, it in sizes.items()}
        for place, axis in enumerate("xyz") if grids else ():
            by_name[f"%nctaid.{axis}"] = [it.grid[place] for it in grids]
            by_name[f"%ntid.{axis}"] = [it.block[place] for it in grids]
        scalars = {name: np.array(its, np.int64).reshape(1, 1, -1) for name, its in by_name.items()}
        values = _Evaluation(self, None, scalars, self.blocks)
        single: list[Array] = []
        equal: list[Array] = []
        settled: dict[bytes, Array] = {}

        for name, found in self._computed(values, by_name, run).items() if run is not None else ():
            single += (its := self._outcomes_of(name, found))
            settled |= {it.tobytes(): it for it in its}
        for instruction in self.uniform_comparisons:
            outcomes = values.outcomes(instruction)
            if outcomes is not None and outcomes.size > 1:
                line = outcomes.reshape(-1)
                single += [line == it for it in (0, 1)]
                if values.is_settled(instruction):
                    is_one = line == 1
                    settled.setdefault(min(is_one.tobytes(), (~is_one).tobytes()), is_one)
                    if instruction.modifiers[0] in ("eq", "ne"):
                        equal.append(is_one)
        number = len(next(iter(sizes.values())))
        reached = [it.reshape(-1) for it in values.reached() if it.size > 1]
        choice = _Choice(np.arange(number) < known, allowed)
        choice.cover(reached)
        choice.cover([*single, *_together(equal, 2)])
        several = list(settled.values())
        for several_of, these in ((2, MOST_OF_TWO), (3, MOST_OF_THREE))[: together - 1]:
            choice.cover(_together(several[:these], several_of))
        chosen = choice.chosen[:most]
        is_counted = np.isin(np.arange(number), counted)
        choice = _Choice(is_counted & ((np.arange(number) < known) | np.isin(np.arange(number), chosen)), allowed)
        choice.cover(it & is_counted for it in (*reached, *single))
        return (*chosen, *choice.chosen[:MOST_COUNTED])

    @cached_property
    def _along_k(self) -> frozenset[str]:
        """Return the registers computed in loops along K, and from what these leave."""
        loops = [it for it in self.kernel.instructions if _leads_back(self.kernel, it)]
        inside = {index for it in loops for index in _busy_loop(self.kernel, it)}
        computed = (writes(self.kernel.instructions[index]) for index in inside)
        return frozenset(dependents(self.kernel, set[str]().union(*computed)))

    def _computed(
        self,
        values: _Evaluation,
        sizes: Mapping[str, Sequence[int] | Array],
        run: SizesAlone,
        of: Collection[str] | None = None,
    ) -> Mapping[str, Array]:
        """Return registers and their values in all launches, as far as sizes decide them: tests that only a run shows,
        which become known, and factors or summands of what differs between threads. ``of``: of these registers."""
        kernel = self.kernel
        _, known = varying(kernel, sizes)
        ends = {it.guard.name for it in kernel.instructions if it.guard is not None and _leads_back(kernel, it)}
        setps = (it.operands[0] for it in known if it.opcode == "setp")
        tests = {it.name for it in setps if type(it) is Register} - ends - self._along_k
        factors, size = _read_by_others(kernel, known) - self._along_k, len(next(iter(sizes.values())))
        if of is not None:
            tests, factors = tests.intersection(of), factors.intersection(of)
        wanted = [*filter(values.is_open, sorted(tests | factors))]
        found = {name: values.of(name, size) for name in sorted(factors.difference(wanted))}
        found |= run(wanted, sizes) if wanted else {}
        for name in tests & found.keys():
            values.know(name, found[name])
        return found

    def numbers_compared(self) -> tuple[int, ...]:
        """Return the numbers in the code from which the outcomes of uniform comparisons are computed: bounds,
        remainders and their divisors, factors, the powers of two of masks and shifts, and places in tables that differ
        from most."""
        found: set[int] = set()
        for load in filter(_looks_up, self.uniform_comparisons):
            for name in {
                it.name for other in _computed_from(self.kernel, [load]) for it in other.operands if type(it) is Symbol
            }:
                found |= _odd_places(_content(self.variables, name, load))
        known = varying(self.kernel)[1]
        factors = _read_by_others(self.kernel, known)
        last = [*self.uniform_comparisons, *(it for it in known if not factors.isdisjoint(writes(it)))]
        for instruction in _computed_from(self.kernel, last):
            for operand in instruction.operands:
                if isinstance(operand, Immediate):
                    value = abs(int(_whole(operand)))
                    found |= {1 << value} if instruction.opcode in SHIFTS and value < LARGEST_SHIFT else {value}
                    found |= {operand.value}  # a size may be compared with the bits of a float
                    found |= {value + 1} if instruction.opcode == "and" else set()
        return tuple(sorted(it for it in found if 1 < it <= LARGEST_NUMBER))

    @cached_property
    def parameters_compared(self) -> tuple[int, ...]:
        """Return the indices of parameters from which the outcomes of uniform comparisons are computed."""
        computed = _computed_from(self.kernel, self.uniform_comparisons)
        operands = (operand for it in computed if it.opcode == "ld" for operand in it.operands)
        names = {it.base.name for it in operands if isinstance(it, Address) and isinstance(it.base, Symbol)}
        return tuple(place for place, it in enumerate(self.kernel.parameters) if it.name in names)

    def bounds_of_integers(self) -> tuple[int, ...]:
        """Return the numbers that the code compares integers with, and those from which on it cuts integers off."""
        code = self.kernel.instructions
        bounds = (
            it.operands[-1]
            for it in code
            if it.opcode in BOUNDED and len(it.modifiers) == BOUNDED[it.opcode] and it.modifiers[-1][0] in "usb"
        )
        found = {it.value for it in bounds if isinstance(it, Immediate)}
        masks = (it.operands[-1] for it in code if it.opcode == "and" and it.modifiers != ("pred",))
        for mask in (it.value for it in masks if isinstance(it, Immediate)):
            lowest = mask & -mask
            found |= {mask // lowest + 1, mask + lowest} if lowest and mask & (mask + lowest) == 0 else set()
        for it in code:
            by = it.operands[-1] if it.opcode == "shl" else None
            if isinstance(by, Immediate) and 0 < (kept := int(it.modifiers[-1][1:]) - by.value) <= LARGEST_SHIFT:
                found |= {1 << kept - 1}  # up and down again, with the sign
        narrow = {it.modifiers[-1] for it in code if it.opcode in ("cvt", "mul", "shl")}
        found |= {SHORTS[it] for it in narrow & SHORTS.keys()}
        return tuple(sorted(it for it in found if 0 <= it <= LARGEST_NUMBER))

    @cached_property
    def asks_for_lanes(self) -> Instruction | None:
        """Return the instruction that asks which lanes are active, if a test or an address depends on the answer."""
        asks = next((it for it in self.kernel.instructions if it.opcode == "activemask"), None)
        if asks is None:
            return None
        found = dependents(self.kernel, writes(asks), lambda it: it.row.computes)
        tests = {it for it in found if self.kernel.registers[it] == "pred"}
        addresses = (it for each in self.kernel.instructions for it in each.operands if isinstance(it, Address))
        return asks if tests or not found.isdisjoint(name for it in addresses for name in registers_in(it)) else None

    @property
    def reads_grid(self) -> bool:
        """Whether the code reads how many blocks a launch has."""
        return any(name.startswith("%nctaid") for name in read_by(self.kernel))


def _leads_back(kernel: Kernel, branch: Instruction) -> bool:
    """Return whether an instruction is a branch to an earlier one."""
    labels = (it.name for it in branch.operands if type(it) is Symbol)
    return branch.opcode == "bra" and any(kernel.labels[it] <= branch.index for it in labels)


def _busy_loop(kernel: Kernel, branch: Instruction) -> range:
    """Return the instructions (indices) of a loop that reads matrices or waits: it walks along K, and shapes of each
    depth are run anyway. Empty for other loops."""
    first = min(kernel.labels[it.name] for it in branch.operands if type(it) is Symbol)
    inside = kernel.instructions[first : branch.index]
    works = any(it.row.effect in BUSY and NEAR.isdisjoint(it.modifiers) for it in inside)
    return range(first, branch.index) if works else range(0)


def _read_by_others(kernel: Kernel, known: Sequence[Instruction]) -> set[str]:
    """Return the registers that ``known`` instructions compute, each once, for computations by others; no pointers."""
    its, defined = {it.index for it in known}, writers(kernel)
    written = set[str]().union(*(writes(it) for it in known if it.opcode != "ld" or "param" not in it.modifiers))
    others = (it for it in kernel.instructions if it.index not in its and it.row.effect in ("compute", "store"))
    found = {name for it in others for name in reads(it) & written if len(defined[name]) == 1}
    return {name for name in found if kernel.registers[name] not in POINTERS}


def _looks_up(instruction: Instruction) -> bool:
    """Return whether it may load from a table, at a place that is computed."""
    where = instruction.operands[1] if instruction.opcode == "ld" else None
    return isinstance(where, Address) and isinstance(where.base, Register) and "shared" not in instruction.modifiers


def _whole(number: Immediate) -> float:
    """Return a number in the code, 0 for a float that is not whole."""
    if not number.is_float:
        return number.value
    bits = np.uint64(number.value) if number.is_double else np.uint32(number.value)
    value = float(bits.view(f"f{bits.itemsize}"))
    return value if value.is_integer() else 0


def _odd_places(table: Array | None) -> set[int]:
    """Return the places of numbers that few places have."""
    if table is None:
        return set()
    _, number, counts = np.unique(table, return_inverse=True, return_counts=True)
    return {*np.flatnonzero(counts[number] <= min(VALUES, table.size // 2))[:VALUES].tolist()}


def _computed_from(kernel: Kernel, last: Sequence[Instruction]) -> Iterator[Instruction]:
    """Yield instructions, and all those from which their values are computed."""
    definitions, given = writers(kernel), sources(kernel)
    definitions |= {carry_of(it.index): [it] for it in kernel.instructions if "cc" in it.modifiers}
    waiting, seen = list(last), {it.index for it in last}
    while waiting:
        instruction = waiting.pop()
        yield instruction
        names = given.get(instruction.index, reads(instruction))
        for other in (it for name in names for it in definitions[name] if it.index not in seen):
            seen.add(other.index)
            waiting.append(other)


def _together(outcomes: Sequence[Array], number: int) -> Iterator[Array]:
    """Yield where each combination of outcomes of each ``number`` of decisions occurs."""
    for chosen in combinations(outcomes, number):
        for wanted in np.ndindex((2,) * number):
            yield np.logical_and.reduce([one == bool(it) for one, it in zip(chosen, wanted, strict=True)])


class _Choice:
    """Launches that are chosen so that outcomes occur which occur in none of the ``known`` ones, bool (n,)."""

    def __init__(self, known: Array, allowed: Callable[[int], bool]) -> None:
        self._known, self._allowed = known, allowed
        self._tries = MOST_TRIES
        self.chosen: list[int] = []

    def cover(self, outcomes: Iterable[Array]) -> None:
        """Choose launches until every new outcome occurs in one, as far as such launches are allowed."""
        new = [it.copy() for it in outcomes if not it[self._known].any() and not it[self.chosen].any() and it.any()]
        while new and self._tries > 0:
            best = int(np.sum(new, axis=0).argmax())
            if self._allowed(best):
                self.chosen.append(best)
                new = [it for it in new if not it[best]]
            else:
                self._tries -= 1
                for it in new:
                    it[best] = False
                new = [it for it in new if it.any()]


def classes(found: Sequence[PlacedDecision], grid: Grid, seed: int) -> tuple[BlockClass, ...]:
    """Return the classes of blocks by outcomes, the rarest first, each with a block; none if above ``CLASSES``."""
    sizes = grid.grid[::-1]
    by_axes: dict[tuple[int, ...], Array] = {}
    for decision in found:
        named = np.unique(decision.outcomes, return_inverse=True)[1].reshape(decision.outcomes.shape)
        before = by_axes.get(named.shape)
        if before is not None:
            joint = before * (int(named.max()) + 1) + named
            named = np.unique(joint, return_inverse=True)[1].reshape(joint.shape)
        by_axes[named.shape] = named
    draw = random.Random(seed)
    crossing = any(sum(size > 1 for size in shape) > 1 for shape in by_axes)
    result = _by_block(by_axes, sizes, draw) if crossing else _by_axis(by_axes, sizes, draw)
    return tuple(sorted(result, key=lambda it: (it.count, it.block)))


def _by_axis(by_axes: Mapping[tuple[int, ...], Array], sizes: Sequence[int], draw: random.Random) -> list[BlockClass]:
    """Return the classes if each decision depends on one axis only, so that every combination occurs."""
    along: list[list[Array]] = []
    for axis, size in enumerate(sizes):
        named = next((it.reshape(-1) for it in by_axes.values() if it.shape[axis] > 1), np.zeros(size, np.int64))
        along.append([np.flatnonzero(named == name) for name in range(int(named.max()) + 1)])
    if prod(map(len, along)) > CLASSES:
        return []
    result = []
    for z in along[0]:
        for y in along[1]:
            for x in along[2]:
                at = [int(its[int(draw.random() * its.size)]) for its in (z, y, x)]
                result.append(BlockClass((at[0] * sizes[1] + at[1]) * sizes[2] + at[2], z.size * y.size * x.size))
    return result


def _by_block(by_axes: Mapping[tuple[int, ...], Array], sizes: Sequence[int], draw: random.Random) -> list[BlockClass]:
    joint = np.zeros((1, 1, 1), np.int64)
    for named in by_axes.values():
        joint = joint * (int(named.max()) + 1) + named
    whole = np.broadcast_to(joint, tuple(sizes)).reshape(-1)
    names, counts = np.unique(whole, return_counts=True)
    if names.size > CLASSES:
        return []
    order = np.argsort(whole, kind="stable")
    firsts = np.cumsum(counts) - counts
    return [
        BlockClass(int(order[first + int(draw.random() * count)]), int(count))
        for first, count in zip(firsts.tolist(), counts.tolist(), strict=True)
    ]


class _Evaluation:
    """The registers of a kernel in all blocks of a launch, or of a thread in many launches; None for an unknown value.
    ``basic``: the basic blocks of the kernel, to follow the branches that depend on sizes."""

    def __init__(
        self,
        code: CodeDecisions,
        grid: Grid | None,
        scalars: Mapping[str, Array],
        basic: Sequence[Block] = (),
    ) -> None:
        kernel = code.kernel
        self._grid, self._scalars = grid, scalars
        self._blocks, self._run = basic, dict[int, Array]()
        self._block_of = {it.index: block.number for block in basic for it in block.instructions}
        back = [(to, block.number) for block in basic for to in block.successors if to <= block.number]
        self._in_loops = {number for first, last in back for number in range(first, last + 1)}
        self._variables = {it.name for it in kernel.variables if it.space in ("shared", "local")}
        self._tables = code.variables
        self._definitions, self._handed = writers(kernel), handed_on(kernel)
        self._known: dict[str, Values | None] = {}
        self._open: set[str] = set()  # registers whose value is being computed; to need one again means a loop
        self._loops: set[str] = set()  # registers that a loop changes

    # -- decisions ----------------------------------------------------------------------------------------------------

    def outcomes(self, instruction: Instruction) -> Array | None:
        """Return the outcomes of an instruction in all blocks, if it is a decision that depends on a block's index."""
        opcode, kind = instruction.opcode, instruction.modifiers[-1] if instruction.modifiers else ""
        if opcode in ("setp", "set"):
            return self._compared(instruction, instruction.modifiers[0], kind)
        if kind == "pred":
            return self._joined(instruction)
        if opcode in ("min", "max"):
            return self._compared(instruction, "lo" if kind[:1] == "u" else "lt", kind)
        if instruction.row.name == "cvt" and kind[:1] in "us" and instruction.modifiers[-2][:1] in "fb":
            return _few(self._read(instruction.operands[1], kind))  # an index becomes a factor or a summand
        if opcode == "ld" and "param" not in instruction.modifiers:
            address = instruction.operands[1]
            base = self._of(address.base) if isinstance(address, Address) else None
            return _few(self._looked_up(instruction, base) or base) if base is not None and base.table else None
        return _few(self._of(instruction.operands[0])) if opcode == "brx" else None

    def is_open(self, name: str) -> bool:
        """Return whether a register's value is unknown, or changes in a loop."""
        value = self._of(Register(name))
        return value is None or value.moves or not value.is_exact

    def of(self, name: str, number: int) -> Array:
        """Return a known value in all launches, of which there are a ``number``."""
        value = self._of(Register(name))
        assert value is not None
        return np.broadcast_to(value.low.reshape(-1), number)

    def know(self, name: str, been: Array) -> None:
        """Take what a predicate has been in all launches as its value."""
        low = (been & TRUE).reshape(1, 1, -1)
        self._known[name] = Values(low, low, moves=bool((been == TRUE | FALSE).any()))

    def reached(self) -> list[Array]:
        """Return by basic block in which launches it runs, as far as sizes decide branches: bool (1, 1, launches)."""
        return [self._runs(block.number) for block in self._blocks]

    def _runs(self, number: int) -> Array:
        """Return in which launches a basic block may run, without the branches that lead back to it."""
        if number not in self._run:
            self._run[number] = np.full((1, 1, 1), True)  # for a branch in it that depends on what follows
            found = np.full((1, 1, 1), number == 0)
            for before in self._blocks[:number]:
                for following in before.successors:
                    if following == number:
                        found = found | (self._runs(before.number) & self._taken(before, following))
            self._run[number] = found
        return self._run[number]

    def _taken(self, block: Block, following: int) -> Array:
        """Return in which launches a block may lead to the ``following`` one."""
        branch = block.terminator
        guard = self._guard(branch) if branch is not None and branch.opcode == "bra" else None
        if guard is None or block.targets == (block.fallthrough,):
            return np.full((1, 1, 1), True)
        return ~guard if following == block.fallthrough else guard

    def _guard(self, instruction: Instruction) -> Array | None:
        """Return in which launches a guarded instruction runs; None without a guard, or if not only sizes decide it."""
        value = self._of(instruction.guard) if instruction.guard is not None else None
        if value is None or value.moves or not value.is_exact:
            return None
        runs: Array = (value.low == 0) if instruction.guard_negated else (value.low != 0)
        return runs

    def _last_of(self, its: Sequence[Instruction], values: Sequence[Values]) -> Values | None:
        """Return the value of the last definition to run; None if a loop has definitions, or one may not run."""
        found: Values | None = None
        for instruction, value in sorted(zip(its, values, strict=True), key=lambda it: self._block_of[it[0].index]):
            number = self._block_of[instruction.index]
            guard = None if instruction.guard is None else self._guard(instruction)
            if number in self._in_loops or (guard is None) != (instruction.guard is None):
                return None
            runs = self._runs(number) if guard is None else self._runs(number) & guard
            found = value if found is None else _chosen(_exact(runs), value, found)
        return found

    def _joined(self, instruction: Instruction) -> Array | None:
        """Return the outcomes of predicates that are joined."""
        first = instruction.operands[0]
        value = self._of(first) if isinstance(first, Register) else None
        return value.low if value is not None and value.is_exact and not value.moves else None

    def is_settled(self, instruction: Instruction) -> bool:
        """Return whether both sides of a comparison are known and no loop changes them."""
        sides = [self._of(it) for it in instruction.operands[1:3]]
        return all(it is not None and not it.moves for it in sides)

    def _compared(self, instruction: Instruction, name: str, kind: str) -> Array | None:
        compare = COMPARISONS.get(name) or COMPARISONS.get(name.removesuffix("u"))
        if compare is None or kind not in INTEGERS + FLOATS:
            return None
        if kind in FLOATS:
            sides = [self._of(it) for it in instruction.operands[1:3]]
            if any(it is None or it.moves or not it.is_exact for it in sides):
                return _few(*sides)
            low, high = np.broadcast_arrays(*(it.low for it in sides if it is not None))
            outcomes: Array = compare(_as_typed(low, kind), _as_typed(high, kind))
            return outcomes.astype(np.int64).reshape(low.shape)
        read = kind.replace("s", "u").replace("b", "s") if name in UNSIGNED else kind.replace("b", "s")
        one, other = (self._read(it, read) for it in instruction.operands[1:3])
        if one is None or other is None or one.moves or other.moves:
            return _few(one, other)
        return _tri(compare, one, other)

    # -- values -------------------------------------------------------------------------------------------------------

    def _of(self, operand: Operand | None) -> Values | None:
        if isinstance(operand, Immediate):
            return _number(operand.value)
        if isinstance(operand, Symbol):
            if operand.name in self._variables:
                return None
            return replace(_number(operand.offset), table=operand.name)
        if isinstance(operand, PredicatePair) and operand.negated:
            value = self._of(operand.first)
            return value and _inverted(value)
        if not isinstance(operand, Register):
            return None
        if operand.name in self._known:
            return self._known[operand.name]
        value = self._register(operand.name)
        if operand.name not in self._open:
            self._known[operand.name] = value
        return value

    def _register(self, name: str) -> Values | None:
        if name not in self._definitions:
            return self._special(name)
        its = self._definitions[name]
        if name in self._open:
            self._loops.add(name)
            return None
        if len(its) > DEFINITIONS or len(self._open) > DEEP or (len(its) == 1 and its[0].guard is not None):
            return None
        self._open.add(name)
        found: list[Values] = []
        for instruction in its:
            if (value := self._result(instruction, name)) is not None:
                found.append(value)
            elif name not in self._loops:
                break
        self._open.discard(name)
        if not found or (len(found) < len(its) and name not in self._loops):
            return None
        if len(found) == len(its) > 1 and self._blocks and (last := self._last_of(its, found)) is not None:
            return last
        whole = found[0]
        for value in found[1:]:
            whole = _hull(whole, value)
        return replace(whole, moves=True) if len(found) < len(its) else whole

    def _special(self, name: str) -> Values | None:
        """Return a special register of the launch."""
        if name in self._scalars:
            return _exact(self._scalars[name])
        register, _, axis = name.partition(".")
        if register == "%laneid":
            return _between(0, 31)
        if self._grid is None or axis not in ("x", "y", "z"):
            return None
        place = "xyz".index(axis)
        cluster = cluster_of(self._grid)[place]
        shape = [1, 1, 1]
        shape[2 - place] = -1
        index = np.arange(self._grid.grid[place]).reshape(shape)
        exact = {"%ctaid": index, "%clusterid": index // cluster, "%cluster_ctaid": index % cluster}
        whole = {"%ntid": self._grid.block[place], "%nctaid": self._grid.grid[place], "%cluster_nctaid": cluster}
        if register in exact:
            return _exact(exact[register])
        if register in whole:
            return _number(whole[register])
        return _between(0, self._grid.block[place] - 1) if register == "%tid" else None

    def _computed(self, instruction: Instruction) -> Values | None:
        """Return the result of any instruction whose operands have the same value in all threads of a block."""
        first, *operands = instruction.operands
        operation = semantics.lookup(instruction.opcode, instruction.modifiers)
        sources = [self._of(it) for it in operands]
        known = [it for it in sources if it is not None and it.is_exact and not it.table]
        carries = operation is None or operation.carry_in or operation.carry_out or len(operation.result) > 1
        if operation is None or carries or not isinstance(first, Register) or len(known) < len(operation.sources):
            return None
        shape = np.broadcast_shapes(*(it.low.shape for it in known))
        found = np.zeros(prod(shape), DTYPES[operation.result[0]])
        pairs = zip(known, operation.sources, strict=True)
        given = [_as_typed(np.broadcast_to(it.low, shape), code) for it, code in pairs]
        with float_state():
            operation.function(found, *given)
        bits = found.view(f"u{found.itemsize}") if found.dtype.kind == "f" else found
        return replace(_exact(bits.astype(np.int64).reshape(shape)), moves=any(it.moves for it in known))

    def _read(self, operand: Operand | None, kind: str) -> Values | None:
        """Return an operand as an integer of this type."""
        value = self._of(operand)
        if value is None or kind not in INTEGERS:
            return None
        return _cast(value, int(kind[1:]), kind[0] == "s" or kind[1:] == "64")

    def _result(self, instruction: Instruction, name: str) -> Values | None:
        opcode, words = instruction.opcode, instruction.modifiers
        kind = words[-1] if words else ""
        operands = instruction.operands
        if handed := self._handed.get(instruction.index):
            first = operands[0].first if isinstance(operands[0], PredicatePair) else operands[0]
            return self._one_of(handed) if first == Register(name) else None
        if opcode == "ld":
            return self._parameter(instruction)
        if opcode == "setp":
            return self._predicate(instruction, name)
        if opcode in ("mov", "cvta"):
            return self._of(operands[1])
        if kind == "pred":
            return self._logic(opcode, [self._of(it) for it in operands[1:]])
        if opcode == "selp":
            return _chosen(self._of(operands[3]), self._of(operands[1]), self._of(operands[2]))
        if instruction.row.name == "cvt" and {kind, words[-2]} <= {*INTEGERS}:
            value = self._read(operands[1], kind)
            return None if value is None else _stored(value, words[-2])
        rule = RULES.get(opcode)
        if instruction.row.computes and (rule is None or kind not in INTEGERS):
            return self._computed(instruction)
        if rule is None:
            return None
        sources = [self._read(it, kind) for it in operands[1:]]
        if opcode == "mad" and "wide" in words:
            wide = f"{kind[0]}{2 * SIZES[kind] * 8}"
            sources[2] = self._read(operands[2 + 1], wide)
        for place in PLACES.get(opcode, ()):
            sources[place] = self._read(operands[1 + place], "u32")
        if any(it is None for it in sources):
            return None
        value = rule(words, *(it for it in sources if it is not None))
        if value is None:
            return None
        into = f"{kind[0]}{2 * SIZES[kind] * 8}" if "wide" in words else kind
        known = [it for it in sources if it is not None]
        table = max(it.table for it in known) if opcode in ("add", "mad") else ""
        stored = _stored(value, into)
        return stored and replace(stored, table=table, moves=any(it.moves for it in known))

    def _looked_up(self, instruction: Instruction, offset: Values) -> Values | None:
        """Return what a load from a table finds; None where its content is unknown."""
        content, address = _content(self._tables, offset.table, instruction), instruction.operands[1]
        if content is None or not offset.is_exact or offset.moves or not isinstance(address, Address):
            return None
        place = (offset.low + address.offset) // content.itemsize
        if place.min() < 0 or place.max() >= content.size:
            return None
        found: Array = np.unique(content, return_inverse=True)[1][place]
        return Values(found, found)

    def _one_of(self, names: Iterable[str]) -> Values | None:
        """Return what may be in any of these registers."""
        found = [self._of(Register(name)) for name in sorted(names)]
        known = [it for it in found if it is not None]
        varying = [it for it in known if it.varies]  # others are what a variable begins with
        return reduce(_hull, varying or known) if known and len(known) == len(found) else None

    def _parameter(self, instruction: Instruction) -> Values | None:
        address = instruction.operands[1]
        if "param" not in instruction.modifiers or not isinstance(address, Address) or address.offset:
            return None
        base = address.base
        if not isinstance(base, Symbol) or base.name not in self._scalars:
            return None
        return _exact(self._scalars[base.name])

    def _predicate(self, instruction: Instruction, name: str) -> Values | None:
        first = instruction.operands[0]
        one, other = (self._of(it) for it in instruction.operands[1:3])
        if not isinstance(first, Register) or one is None or other is None:
            return None
        if one.moves or other.moves:
            return replace(_between(0, 1), moves=True)
        outcomes = self._compared(instruction, instruction.modifiers[0], instruction.modifiers[-1])
        if outcomes is None:
            return None
        low, high = (outcomes == 1).astype(np.int64), (outcomes > 0).astype(np.int64)
        found = _exact(low) if (low == high).all() else Values(low, high)
        word = instruction.modifiers[1] if len(instruction.modifiers) > 2 else ""
        if word in ("and", "or", "xor"):
            return self._logic(word, [found, self._of(instruction.operands[3])])
        return found

    @staticmethod
    def _logic(opcode: str, sources: Sequence[Values | None]) -> Values | None:
        if opcode == "not" and sources[0] is not None:
            return _inverted(sources[0])
        if len(sources) < 2 or sources[0] is None or sources[1] is None:
            return None
        one, other = sources[0], sources[1]
        if opcode in ("and", "or"):
            join = np.minimum if opcode == "and" else np.maximum
            low = join(one.low, other.low)
            return Values(low, low if one.is_exact and other.is_exact else join(one.high, other.high))
        exact = opcode == "xor" and one.is_exact and other.is_exact
        return _exact(one.low ^ other.low) if exact else None


def _content(variables: Sequence[Variable], name: str, instruction: Instruction) -> Array | None:
    """Return the numbers, as this instruction loads them, with which a variable begins; None without such."""
    size = SIZES.get(instruction.modifiers[-1], 0)
    initial = next((it.initial.ljust(it.size, b"\0") for it in variables if it.name == name and it.initial), b"")
    if not initial or len(initial) % size or {"v2", "v4"} & {*instruction.modifiers}:
        return None
    return np.frombuffer(initial, f"u{size}")


# -- arithmetic -------------------------------------------------------------------------------------------------------


def _number(value: int) -> Values:
    """Return a constant, the last 64 bits of it."""
    return _exact(np.full((1, 1, 1), (value + (1 << 63)) % (1 << 64) - (1 << 63), np.int64))


def _between(low: int, high: int) -> Values:
    return _number(low) if low == high else Values(np.full((1, 1, 1), low), np.full((1, 1, 1), high))


def _hull(one: Values, other: Values) -> Values:
    low, high = np.minimum(one.low, other.low), np.maximum(one.high, other.high)
    return Values(low, high, one.table or other.table, one.moves or other.moves)


def _exact(values: Array) -> Values:
    return Values(values, values)


def _decreasing(compute: Callable[[Array], Array], value: Values) -> Values:
    """Return the range of an operation that decreases."""
    low = compute(value.high)
    return Values(low, low if value.is_exact else compute(value.low))


def _inverted(value: Values) -> Values:
    return _decreasing(lambda it: 1 - it, value)


def _as_typed(values: Array, code: str) -> Array:
    """Return registers, as integers, as a flat array of numbers of this type."""
    dtype = np.dtype(DTYPES[code])
    flat: Array = values.reshape(-1)
    return flat != 0 if dtype == np.bool_ else flat.astype(f"u{dtype.itemsize}").view(dtype)


def _chosen(predicate: Values | None, one: Values | None, other: Values | None) -> Values | None:
    if one is None or other is None:
        return None
    if predicate is None or not predicate.is_exact:
        return _hull(one, other)
    low = np.where(predicate.low, one.low, other.low)
    exact = one.is_exact and other.is_exact
    high = low if exact else np.where(predicate.low, one.high, other.high)
    return Values(low, high, one.table or other.table, one.moves or other.moves)


def _cast(value: Values, bits: int, signed: bool) -> Values | None:
    """Return a value as a signed or unsigned integer of so many bits; None if its range would wrap around."""
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if value.low.min() >= least and value.high.max() <= most:
        return value
    if bits == 64:
        return None
    if value.is_exact:
        low = value.low & ((1 << bits) - 1)
        low = np.where(low > most, low - (1 << bits), low) if signed else low
        return replace(value, low=low, high=low)
    return None


def _stored(value: Values, kind: str) -> Values | None:
    """Return a result as a register of this type holds it."""
    width = register_width(kind)
    if kind[0] == "f" or width == "pred" or SIZES[kind] > 8:
        return None
    return _cast(value, 8 * SIZES[kind], kind[0] != "u" or SIZES[kind] == 8)


def _tri(compare: Callable[[Array, Array], Array], one: Values, other: Values) -> Array:
    """Return the outcomes of a comparison: 0, 1, or ``BOTH``."""
    if one.is_exact and other.is_exact:
        return compare(one.low, other.low).astype(np.int64)
    if compare in (np.equal, np.not_equal):
        apart = (one.high < other.low) | (other.high < one.low)
        return np.where(apart, int(compare is np.not_equal), BOTH).astype(np.int64)
    ends = [compare(one.low, other.high), compare(one.high, other.low)]
    return np.where(ends[0] == ends[1], ends[0].astype(np.int64), BOTH).astype(np.int64)


def _few(*values: Values | None) -> Array | None:
    """Return a number per block that identifies its values in a decision. Values that differ too often between blocks
    are ignored; None if none remains."""
    found: Array | None = None
    for value in values:
        if value is not None and value.varies:
            low: Array = value.low if value.is_exact else value.low * 2 + (value.high > value.low)
            names, numbers = np.unique(low, return_inverse=True)
            if names.size <= VALUES:
                here = numbers.reshape(low.shape)
                found = here if found is None else found * VALUES + here
    return found


Rule = Callable[..., Values | None]


def _corners(compute: Callable[[Array, Array], Array], one: Values, other: Values) -> Values:
    """Return the range of an operation that is monotonic in both operands."""
    if one.is_exact and other.is_exact:
        return _exact(compute(one.low, other.low))
    ends = [compute(a, b) for a in (one.low, one.high) for b in (other.low, other.high)]
    low, high = ends[0], ends[0]
    for end in ends[1:]:
        low, high = np.minimum(low, end), np.maximum(high, end)
    return Values(low, high)


def _cornered(compute: Callable[[Array, Array], Array]) -> Rule:
    return lambda words, one, other: _corners(compute, one, other)


def _multiply(words: Sequence[str], one: Values, other: Values) -> Values | None:
    sizes = [max(abs(int(it.low.min())), abs(int(it.high.max()))) for it in (one, other)]
    if sizes[0] * sizes[1] >= 1 << 63:
        return None
    product = _corners(np.multiply, one, other)
    return _shifted_right(product, _number(32)) if "hi" in words else product


def _multiply_add(words: Sequence[str], one: Values, other: Values, addend: Values) -> Values | None:
    product = _multiply(words, one, other)
    return product and _corners(np.add, product, addend)


def _shift_left(words: Sequence[str], value: Values, by: Values) -> Values | None:
    if by.low.max() > 31 or by.low.min() < 0:
        return None
    low = 1 << by.low
    return _multiply(words, value, Values(low, low if by.is_exact else 1 << by.high))


def _shifted_right(value: Values, by: Values) -> Values:
    return _corners(np.right_shift, value, by)


def _shift_right(words: Sequence[str], value: Values, by: Values) -> Values | None:
    return _shifted_right(value, by) if by.is_exact and by.low.min() >= 0 and by.high.max() < 64 else None


def _divide(words: Sequence[str], one: Values, other: Values) -> Values | None:
    if not other.is_exact or not other.low.all() or (one.low.min() < 0 and not one.is_exact):
        return None
    return _corners(
        lambda a, b: np.where((a < 0) ^ (b < 0), -(np.abs(a) // np.abs(b)), np.abs(a) // np.abs(b)), one, other
    )


def _remainder(words: Sequence[str], one: Values, other: Values) -> Values | None:
    if not other.is_exact or not other.low.all():
        return None
    if one.is_exact:
        return _exact(np.fmod(one.low, other.low))
    if one.low.min() < 0:
        return None
    return _in_period(one, np.abs(other.low))


def _in_period(value: Values, period: Array) -> Values:
    """Return the remainders of a range: a range, where it is within a period."""
    low, high = value.low % period, value.high % period
    within = value.low // period == value.high // period
    return Values(np.where(within, low, 0), np.where(within, high, np.minimum(value.high, period - 1)))


def _and(words: Sequence[str], one: Values, other: Values) -> Values | None:
    if one.is_exact and other.is_exact:
        return _exact(one.low & other.low)
    mask = next((it for it in (one, other) if it.is_exact and it.low.min() >= 0), None)
    if one.low.min() >= 0 and other.low.min() >= 0:
        if mask is not None and not (mask.low & (mask.low + 1)).any():  # the last bits
            return _in_period(other if mask is one else one, mask.low + 1)
        return Values(np.zeros((1, 1, 1), np.int64), np.minimum(one.high, other.high))
    return mask and Values(np.zeros((1, 1, 1), np.int64), mask.high)


def _or(words: Sequence[str], one: Values, other: Values) -> Values | None:
    if one.is_exact and other.is_exact:
        return _exact(one.low | other.low)
    if one.low.min() >= 0 and other.low.min() >= 0:
        return Values(np.maximum(one.low, other.low), one.high + other.high)
    return None


def _exclusive_or(words: Sequence[str], one: Values, other: Values) -> Values | None:
    if one.is_exact and other.is_exact:
        return _exact(one.low ^ other.low)
    if one.low.min() >= 0 and other.low.min() >= 0:
        return Values(np.zeros((1, 1, 1), np.int64), one.high + other.high)
    return None


def _bits_inserted(words: Sequence[str], value: Values, into: Values, start: Values, length: Values) -> Values | None:
    if start.low.size > 1 or length.low.size > 1 or not (start.is_exact and length.is_exact and value.is_exact):
        return None
    first, count = int(start.low.flat[0]), int(length.low.flat[0])
    if (
        first + count > 32
        or into.low.min() < 0
        or into.high.max() > (0xFFFFFFFF if into.is_exact else (1 << first) - 1)
    ):
        return None
    placed = (value.low & ((1 << count) - 1)) << first
    kept = ~(((1 << count) - 1) << first)
    low = (into.low & kept) + placed
    return Values(low, low if into.is_exact else into.high + placed)


def _bits_taken(words: Sequence[str], value: Values, start: Values, length: Values) -> Values | None:
    whole = start.is_exact and length.is_exact and value.low.min() >= 0
    return _and(words, _shifted_right(value, start), _exact((1 << length.low) - 1)) if whole else None


RULES: Mapping[str, Rule] = {
    "add": _cornered(np.add), "sub": _cornered(np.subtract), "min": _cornered(np.minimum), "max": _cornered(np.maximum),
    "mul": _multiply, "mad": _multiply_add, "shl": _shift_left, "shr": _shift_right, "div": _divide, "rem": _remainder,
    "and": _and, "or": _or, "xor": _exclusive_or, "bfi": _bits_inserted, "bfe": _bits_taken,
    "neg": lambda words, value: _decreasing(np.negative, value),
    "not": lambda words, value: _decreasing(np.invert, value),
}  # fmt: skip
