"""Find the useful work of a kernel: instructions that carry data from loads to stores. Gates measure it.

A kernel can execute any number of instructions that change nothing: additions that fill the time of a load, idle
threads that spin. Displayed counters include them, as Nsight Compute's do. Gates measure useful work:

- an instruction is useful if a loaded number reaches it by data flow, and if its result reaches a store
- a useful product also has two loaded numbers as factors: a multiply-add by a constant, index or parameter is none
- an exchange moves a loaded number from lane to lane by any instruction: a shuffle, a vote, a reduction

Data flow is followed through registers and predicates; every load gives loaded numbers, whatever was stored there.
So the analysis is an upper bound: a product with a zero from shared memory counts as useful. Gates bound the number of
such products, because C needs exactly M * N * K: one limits all operations, one the products of the busiest thread.

Only the useful arithmetic of a kernel's fastest unit hides loads: products of tensor cores, else dot products of bytes,
else all operations. In a kernel with tensor cores, additions in fp32 hide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.sass.flow import (
    ATOMICS,
    LOADS,
    MATRIX,
    STORES,
    WARPGROUP,
    Listing,
    mask,
    operand_registers,
    reads,
    results,
    stored,
    tensor_products,
)
from gemm_lessons.engine.sass.operands import Decoded
from gemm_lessons.engine.sass.textures import FETCHES

# Arithmetic instructions, and the floating-point operations of each.
OPERATIONS: Mapping[str, int] = {"FFMA": 2, "FMUL": 1, "FADD": 1, "DFMA": 2, "DMUL": 1, "DADD": 1}
BYTES = frozenset({"IDP"})
# Multiplications, and the products of each: of floats, of two halves, of four bytes.
PRODUCTS: Mapping[str, int] = {"FFMA": 1, "FMUL": 1, "DFMA": 1, "DMUL": 1, "HFMA2": 2, "HMUL2": 2, "IDP": 4}
# Multiply-adds in fp32 that take as long as a tensor core's instruction, which takes 4 clocks or more on every GPU so
# far.
CLOCKS_OF_TENSOR_CORE = 4
# Instructions whose result comes from other lanes' registers. SHFL takes a number from another lane; R2UR, REDUX, MATCH
# and votes (B2R: those of a barrier) give all lanes one value; MOVM transposes a matrix of halves.
EXCHANGES = frozenset("SHFL REDUX MATCH VOTE VOTEU R2UR MOVM B2R".split())
LOADING = frozenset({*LOADS, *ATOMICS, *FETCHES} - {"RED", "REDG"})
BRINGING = LOADING | WARPGROUP  # a warpgroup's product reads shared memory itself
SENDING = frozenset({*STORES, *ATOMICS})


@dataclass(frozen=True)
class UsefulWork:
    """The useful work of each instruction, by index."""

    products: tuple[int, ...]  # multiplications of two loaded numbers, per lane
    operations: tuple[int, ...]  # floating-point operations on loaded numbers, per lane; a multiply-add is two
    hides: tuple[int, ...]  # for arithmetic that hides loads: multiply-adds that take as long
    exchanges: tuple[bool, ...]  # moves a loaded number from lane to lane


def useful_work(program: Listing) -> UsefulWork:
    """Return the useful work of a kernel's instructions. Raise ``Uncountable`` for an unknown instruction."""
    code = program.code
    flow = _Flow(program)
    useful = [a and b for a, b in zip(flow.loaded, flow.reaching, strict=True)]
    products, operations = [0] * len(code), [0] * len(code)
    for d in code:
        if not useful[d.index]:
            continue
        if flow.multiplies_loaded(d):
            products[d.index] = _products(d)
        operations[d.index] = OPERATIONS.get(d.name, 2 * products[d.index])
    return UsefulWork(
        tuple(products),
        tuple(operations),
        _hides(code, products, operations),
        tuple(d.name in EXCHANGES and useful[d.index] for d in code),
    )


def _products(d: Decoded) -> int:
    """Return the multiplications of an instruction per lane."""
    return tensor_products(d) // WARP if d.name in MATRIX else PRODUCTS[d.name]


def _hides(code: Sequence[Decoded], products: Sequence[int], operations: Sequence[int]) -> tuple[int, ...]:
    """Return, for each instruction that hides loads, the multiply-adds that take as long; 0 for others."""
    for unit, clocks in ((MATRIX, CLOCKS_OF_TENSOR_CORE), (BYTES, 1)):
        if any(n and d.name in unit for d, n in zip(code, products, strict=True)):
            return tuple(clocks * (n > 0 and d.name in unit) for d, n in zip(code, products, strict=True))
    return tuple(int(n > 0) for n in operations)


class _Flow:
    """Data flow of one kernel, as sets of registers in the bits of integers."""

    def __init__(self, program: Listing) -> None:
        self._bits: dict[str, int] = {}
        code = program.code
        self._written = [self._mask(results(d)[0]) for d in code]
        self._read = [self._mask(reads(d)) for d in code]
        self._kept = [d.guard is not None for d in code]  # other lanes keep the old value
        after = program.after
        before: list[list[int]] = [[] for _ in code]
        for d in code:
            for successor in after[d.index]:
                before[successor].append(d.index)
        self._arriving = self._solve(range(len(code)), before, after, self._load(code))
        self.loaded = [bool(d.name in BRINGING or self._arriving[d.index] & self._read[d.index]) for d in code]
        leaving = self._solve(range(len(code) - 1, -1, -1), after, before, self._store(code))
        self.reaching = [bool(leaving[d.index] & self._written[d.index]) for d in code]

    def multiplies_loaded(self, d: Decoded) -> bool:
        """Return whether both factors of a multiplication are loaded numbers."""
        if d.name in WARPGROUP:
            return True
        if d.name not in MATRIX and d.name not in PRODUCTS:
            return False
        first = results(d)[1]
        width = 4 if d.name in MATRIX else 2 if d.name[0] == "D" else 1
        factors = d.operands[first : first + 2]
        return all(self._mask(operand_registers(it, width)) & self._arriving[d.index] for it in factors)

    def _mask(self, names: Sequence[str]) -> int:
        return mask(self._bits, names)

    def _load(self, code: Sequence[Decoded]) -> Callable[[int, int], int]:
        """Return how an instruction changes the set of registers that hold loaded numbers."""

        def load(index: int, held: int) -> int:
            written = self._written[index]
            if code[index].name in BRINGING or held & self._read[index]:
                return held | written
            return held if self._kept[index] else held & ~written

        return load

    def _store(self, code: Sequence[Decoded]) -> Callable[[int, int], int]:
        """Return how an instruction changes the set of registers whose values reach a store, backwards."""
        sent = [self._mask(stored(d)) if d.name in SENDING else 0 for d in code]

        def store(index: int, wanted: int) -> int:
            written = self._written[index]
            if written & wanted:
                # Data flow ends at an address: the number loaded from it does not depend on it.
                taken = 0 if code[index].name in LOADING else self._read[index]
                wanted = (wanted if self._kept[index] else wanted & ~written) | taken
            return wanted | sent[index]

        return store

    @staticmethod
    def _solve(
        order: Sequence[int],
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        transfer: Callable[[int, int], int],
    ) -> list[int]:
        """Return the least fixed point: the set at each instruction's entry, in the direction of ``order``."""
        entry, exits = [0] * len(order), [-1] * len(order)
        todo = set(order)
        while todo:
            for index in order:
                if index not in todo:
                    continue
                todo.discard(index)
                held = 0
                for source in sources[index]:
                    held |= max(exits[source], 0)
                entry[index] = held
                if (out := transfer(index, held)) != exits[index]:
                    exits[index] = out
                    todo.update(targets[index])
        return entry
