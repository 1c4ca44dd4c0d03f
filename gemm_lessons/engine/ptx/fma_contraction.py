"""Contracts a product and a sum to one multiply-add on the PTX, as ptxas does, so that values are rounded as on a GPU.

ptxas may contract a ``mul`` and an ``add`` that have no rounding mode, such as those of ``a * b + c`` with ``half``. It
contracts a product all of whose uses are sums in the same basic block. A product by an immediate or a value
of the constant bank (a parameter) is contracted with sums of any block. Sums are processed in order, first those of
products that are used once, then the others. Of two products in one sum, ptxas contracts the one with fewer uses, or
the first if they are equal; the other one stays, and is not contracted elsewhere. Packed halves are processed in a
single pass. A copy of a product, and its ``neg``, count as the product; an unused read is not a use; a sum may have a
guard. A remaining product in fp32 that is only multiplied or divided by 2, 4 or 8 is fused with that into one
instruction. (The machine code of thousands of random programs agrees: ``checks/simulator/joined.py``; an H200's answers
to 11 kernels are equal.) ptxas does none of this with ``-fmad=false``.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gemm_lessons.engine.ptx.cfg import reads, writers, writes
from gemm_lessons.engine.ptx.records import Address, Immediate, Instruction, Kernel, Operand, Register, register_width
from gemm_lessons.engine.ptx.rewrite import rewritten
from gemm_lessons.engine.records.frozen import dataclass

TYPES = frozenset("f16 f16x2 bf16 bf16x2 f32 f64".split())
SCALES = {0x3F000000: "d2", 0x3E800000: "d4", 0x3E000000: "d8", 0x40000000: "m2", 0x40800000: "m4", 0x41000000: "m8"}
NEGATES = {"mov": False, "neg": True}  # opcodes that return their source -> whether negated


@dataclass(frozen=True)
class Contraction:
    """A product and a sum to contract, by index. ``place``: the sum's operand; ``negated``: the product is."""

    product: int
    sum: int
    place: int
    negated: bool


@dataclass(frozen=True)
class _HeldProduct:
    """A register that holds a product: the index of the product, and whether it is negated."""

    product: int
    negated: bool = False


class _Uses:
    """The sums of each product that ptxas may contract, and the products with any other use (``kept``)."""

    def __init__(self, kernel: Kernel, written_by: Mapping[str, Sequence[Instruction]]) -> None:
        self.kernel = kernel
        self.sums: dict[int, list[Contraction]] = defaultdict(list)
        self.kept: set[int] = set()
        self._written_by = written_by
        self._everywhere: dict[str, _HeldProduct] = {}  # products by a constant, contracted across basic blocks
        self._here: dict[str, _HeldProduct | None] = {}  # products in registers written in this basic block
        self._into: dict[str, set[int]] = defaultdict(set)  # products that a register holds in some block
        self._elsewhere: set[str] = set()  # registers read in another block than they are written
        self._follow()

    def _follow(self) -> None:
        starts = set(self.kernel.labels.values())
        needed = _needed(self.kernel, self._written_by)
        for instruction in self.kernel.instructions:
            held = self._product(instruction) or self._copied(instruction)
            if held and self._is_by_constant(self.kernel.instructions[held.product]):
                self._everywhere |= {name: held for name in writes(instruction) if len(self._written_by[name]) == 1}
        for instruction in self.kernel.instructions:
            if instruction.index in starts:
                self._here = {}
            if instruction.index in needed:
                self._step(instruction)
            if instruction.row.effect in ("branch", "end", "stop", "call", "unknown"):
                self._here = {}
        self.kept |= {product for name in self._elsewhere for product in self._into[name]}

    def _step(self, instruction: Instruction) -> None:
        holds = self._copied(instruction)
        if holds is None:
            self._read(instruction)
            holds = self._product(instruction)
        for name in writes(instruction):
            if instruction.guard is not None:  # where the guard is false the old value remains
                self._used(name)
            self._here[name] = holds
            if holds:
                self._into[name].add(holds.product)

    def _product(self, instruction: Instruction) -> _HeldProduct | None:
        if _may_contract(instruction, "mul") and instruction.guard is None and _has_distinct_operands(instruction):
            return _HeldProduct(instruction.index)
        return None

    def _is_by_constant(self, product: Instruction) -> bool:
        """Return whether a factor needs no register in machine code: an immediate, or a value of the constant bank."""
        return any(isinstance(o, Immediate) or (isinstance(o, Register) and self._is_constant(o.name))
                   for o in product.operands[1:])  # fmt: skip

    def _is_constant(self, name: str) -> bool:
        if len(self._written_by[name]) != 1:
            return False
        (made,) = self._written_by[name]
        source = made.operands[1] if len(made.operands) == 2 and made.guard is None else None
        if made.row.effect == "load":
            fixed = isinstance(source, Address) and not isinstance(source.base, Register)
            return fixed and not {"param", "const"}.isdisjoint(made.modifiers)
        return NEGATES.get(made.opcode) is False and isinstance(source, Immediate)

    def _held(self, operand: Operand | None) -> _HeldProduct | None:
        if not isinstance(operand, Register):
            return None
        return self._everywhere.get(operand.name) or self._here.get(operand.name)

    def _copied(self, instruction: Instruction) -> _HeldProduct | None:
        """Return the product that the result holds, if the instruction only copies or negates a product."""
        negates = NEGATES.get(instruction.opcode)
        if negates is None or instruction.guard is not None or len(instruction.operands) != 2:
            return None
        target, source = instruction.operands
        held = self._held(source) if isinstance(target, Register) else None
        if held is None or not negates:
            return held
        made = self.kernel.instructions[held.product]
        if made.modifiers != instruction.modifiers or made.modifiers[-1] == "bf16x2":  # neg.bf16x2 compiles to a sum
            return None
        return _HeldProduct(held.product, not held.negated)

    def _read(self, instruction: Instruction) -> None:
        is_sum = _may_contract(instruction, "add") or _may_contract(instruction, "sub")
        found: list[Contraction] = []
        for place, operand in enumerate(instruction.operands[1:], 1) if is_sum else ():
            held = self._held(operand)
            if held and self.kernel.instructions[held.product].modifiers == instruction.modifiers:
                found.append(Contraction(held.product, instruction.index, place, held.negated))
        twice = len(found) == 2 and found[0].product == found[1].product
        found_pairs = [] if twice else found
        taken = {instruction.operands[pair.place].name for pair in found_pairs}  # type: ignore[union-attr]
        for name in reads(instruction) - taken:
            self._used(name)
        for pair in found_pairs:
            self.sums[pair.product].append(pair)

    def _used(self, name: str) -> None:
        """Record a use of a register that is not a contractible sum."""
        if name in self._everywhere:
            self.kept.add(self._everywhere[name].product)
        elif name not in self._here:
            self._elsewhere.add(name)
        elif held := self._here[name]:
            self.kept.add(held.product)


def pairs(kernel: Kernel, written_by: Mapping[str, Sequence[Instruction]]) -> tuple[Contraction, ...]:
    """Return the pairs that ptxas contracts."""
    uses = _Uses(kernel, written_by)
    kept = set(uses.kept)
    by_sum: dict[int, list[Contraction]] = defaultdict(list)
    for found_pairs in uses.sums.values():
        for pair in found_pairs:
            by_sum[pair.sum].append(pair)
    chosen: dict[int, Contraction] = {}
    for once in (True, False):
        for number in sorted(by_sum.keys() - chosen.keys()):
            among = [pair for pair in by_sum[number]
                     if pair.product not in kept and (not once or len(uses.sums[pair.product]) == 1)]  # fmt: skip
            if among and not (once and kernel.instructions[number].modifiers[-1].endswith("x2")):
                chosen[number] = best = min(among, key=lambda pair: (len(uses.sums[pair.product]), pair.place))
                kept |= {pair.product for pair in by_sum[number] if pair is not best}
    return tuple(chosen.values())


def _needed(kernel: Kernel, written_by: Mapping[str, Sequence[Instruction]]) -> frozenset[int]:
    """Return the instructions whose results are used, and those with side effects."""
    found: set[int] = set()
    work = [i for i in kernel.instructions if not i.row.computes]
    while work:
        instruction = work.pop()
        if instruction.index not in found:
            found.add(instruction.index)
            work += [maker for name in reads(instruction) for maker in written_by[name]]
    return frozenset(found)


def _may_contract(instruction: Instruction, opcode: str) -> bool:
    """Return whether ptxas may contract the instruction: a floating-point type, without a rounding mode."""
    *before, kind = instruction.modifiers or ("",)
    return (
        instruction.opcode == opcode and kind in TYPES and before in ([], ["ftz"])
        and len(instruction.operands) == 3 and isinstance(instruction.operands[0], Register)
    )  # fmt: skip


def _has_distinct_operands(instruction: Instruction) -> bool:
    return all(isinstance(o, (Register, Immediate)) and o != instruction.operands[0] for o in instruction.operands[1:])


def contract(kernel: Kernel) -> Kernel:
    """Return the kernel with a multiply-add for each pair, and without products that are no longer used."""
    if not any(_may_contract(instruction, "mul") for instruction in kernel.instructions):
        return kernel
    return _scaled(_with_multiply_adds(kernel))


def _with_multiply_adds(kernel: Kernel) -> Kernel:
    written_by = writers(kernel)
    by_sum = {pair.sum: pair for pair in pairs(kernel, written_by)}
    if not by_sum:
        return kernel
    registers = dict(kernel.registers)
    kept: dict[tuple[int, str], Register] = {}  # copies of factors that are overwritten before the sum
    for pair in by_sum.values():
        for factor in kernel.instructions[pair.product].operands[1:]:
            if isinstance(factor, Register) and len(written_by[factor.name]) > 1:
                copy = kept[pair.product, factor.name] = Register(f"{factor.name}.of@{pair.product}")
                registers[copy.name] = registers[factor.name]

    def negative(instruction: Instruction, operand: Operand, which: str) -> tuple[Instruction, Register]:
        """Return a negated operand in a new register, because PTX operands have no sign."""
        target = instruction.operands[0]
        assert isinstance(target, Register)
        register = Register(f"{target.name}.{which}@{instruction.index}")
        registers[register.name] = registers[target.name]
        kind = instruction.modifiers[-1:]
        made = dataclasses.replace(instruction, opcode="neg", modifiers=kind, operands=(register, operand), guard=None)
        return made, register

    def parts(instruction: Instruction) -> Iterator[Instruction]:
        for (product, name), copy in kept.items():
            if product == instruction.index:
                form = (f"b{register_width(registers[name])}",)
                yield dataclasses.replace(
                    instruction, opcode="mov", modifiers=form, operands=(copy, Register(name)), guard=None
                )
        pair = by_sum.get(instruction.index)
        if pair is None:
            yield instruction
            return
        target, *sources = instruction.operands
        left, right = (
            kept.get((pair.product, factor.name), factor) if isinstance(factor, Register) else factor
            for factor in kernel.instructions[pair.product].operands[1:]
        )
        other = sources[2 - pair.place]
        subtracts = instruction.opcode == "sub"
        if pair.negated != (subtracts and pair.place == 2):
            made, left = negative(instruction, left, "left")
            yield made
        if subtracts and pair.place == 1:
            made, other = negative(instruction, other, "other")
            yield made
        operands = (target, left, right, other)
        yield dataclasses.replace(
            instruction, opcode="fma", modifiers=("rn", *instruction.modifiers), operands=operands
        )

    joined = dataclasses.replace(rewritten(kernel, parts), registers=registers)
    needed = _needed(joined, writers(joined))

    def without_unused(instruction: Instruction) -> Iterator[Instruction]:
        if instruction.index in needed or not (_may_contract(instruction, "mul") or instruction.opcode in NEGATES):
            yield instruction

    return rewritten(joined, without_unused)


def _scaled(kernel: Kernel) -> Kernel:
    """Fuse an fp32 product with a multiplication by a power of two, as ``FMUL.D2`` does: it rounds once."""
    written_by, readers = writers(kernel), Counter(name for i in kernel.instructions for name in reads(i))
    products = {
        name: instruction
        for instruction in kernel.instructions
        if _may_contract(instruction, "mul") and instruction.modifiers[-1] == "f32" and instruction.guard is None
        for name in writes(instruction)
        if _has_distinct_operands(instruction) and len(written_by[name]) == readers[name] == 1
    }
    by_product: dict[int, tuple[str, ...]] = {}  # product -> its modifiers with the scale
    copies: dict[int, Register] = {}
    for instruction in kernel.instructions:
        for one, other in ((1, 2), (2, 1)) if _may_scale(instruction) else ():
            source, factor = instruction.operands[one], instruction.operands[other]
            made = products.get(source.name) if isinstance(source, Register) else None
            scale = SCALES.get(factor.value) if isinstance(factor, Immediate) and not factor.is_double else None
            if scale and made and made.index not in copies:
                assert isinstance(source, Register)
                by_product[made.index] = (scale, *(m for m in instruction.modifiers if m != "rn"))
                copies[instruction.index] = source

    def parts(instruction: Instruction) -> Iterator[Instruction]:
        if instruction.index in copies:
            operands = instruction.operands[0], copies[instruction.index]
            yield dataclasses.replace(instruction, opcode="mov", modifiers=("f32",), operands=operands)
        elif instruction.index in by_product:
            yield dataclasses.replace(instruction, modifiers=by_product[instruction.index])
        else:
            yield instruction

    return rewritten(kernel, parts) if copies else kernel


def _may_scale(instruction: Instruction) -> bool:
    *before, kind = instruction.modifiers or ("",)
    return instruction.opcode == "mul" and kind == "f32" and {"rn", "ftz", "sat"}.issuperset(before)
