"""A product and a sum that ptxas makes one multiply-add: rewritten on the PTX, so that values are rounded as on a GPU.

PTX leaves ``mul`` and ``add`` without a rounding mode to ptxas, which may join them; ``a * b + c`` of ``half`` is one.
It joins a product whose every use is a sum in its own basic block; of two products that are added, the one that is used
least often, the first of equals. (Found by what ptxas 13 makes of 20 kernels; an H200's answers to 11 of others, with
``half`` and ``float``, are equal.) It does not with ``-fmad=false``.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping

from gemm_lessons.frozen import dataclass
from gemm_lessons.simulator.program.ptx import Immediate, Instruction, Kernel, Register
from gemm_lessons.simulator.program.rewrite import rewritten

TYPES = frozenset("f16 f16x2 bf16 bf16x2 f32 f64".split())


@dataclass(frozen=True)
class Joint:
    """A product and a sum with it, by index; ``place``: which source of the sum the product is."""

    product: int
    sum: int
    place: int


def pairs(kernel: Kernel) -> tuple[Joint, ...]:
    """What ptxas joins, if it may."""
    products = {i.operands[0].name: i for i in kernel.instructions if _is_open("mul", i) and _is_alone(i)}  # type: ignore[union-attr]
    if not products:
        return ()
    uses = _uses(kernel, products)
    while products:  # one that stays, because of one use, is there for the others
        chosen: list[Joint] = []
        kept: set[str] = set()
        for number in sorted({use.index for name in products for use in uses[name]}):
            sum_ = kernel.instructions[number]
            among = [(len(uses[o.name]), n) for n, o in enumerate(sum_.operands[1:], 1)
                     if isinstance(o, Register) and o.name in products]  # fmt: skip
            _, place = min(among)
            joined = sum_.operands[place]
            kept |= {sum_.operands[n].name for _, n in among if sum_.operands[n] != joined}  # type: ignore[union-attr]
            chosen.append(Joint(products[joined.name].index, number, place))  # type: ignore[union-attr]
        if not kept:
            return tuple(chosen)
        for name in kept:
            del products[name]
    return ()


def _is_open(opcode: str, instruction: Instruction) -> bool:
    """Whether it is one that ptxas may join: of a floating-point type, with no rounding mode."""
    *before, kind = instruction.modifiers or ("",)
    return (
        instruction.opcode == opcode and kind in TYPES and before in ([], ["ftz"]) and instruction.guard is None
        and len(instruction.operands) == 3 and isinstance(instruction.operands[0], Register)
    )  # fmt: skip


def _is_alone(instruction: Instruction) -> bool:
    return all(isinstance(o, (Register, Immediate)) and o != instruction.operands[0] for o in instruction.operands[1:])


def _uses(kernel: Kernel, products: dict[str, Instruction]) -> Mapping[str, list[Instruction]]:
    """Of each product its sums. Takes those out that are used elsewhere, or not where they are made."""
    uses: dict[str, list[Instruction]] = defaultdict(list)
    starts = set(kernel.labels.values())
    for names in kernel.branch_targets.values():
        starts |= {kernel.labels[name] for name in names if name in kernel.labels}
    here: dict[str, Instruction] = {}  # products of this block whose factors are still what they were
    for instruction in kernel.instructions:
        if instruction.index in starts:
            here = {}
        is_sum = _is_open("add", instruction) or _is_open("sub", instruction)
        for place, mentioned in enumerate(instruction.mentioned):
            for name in mentioned & products.keys():
                made = products[name]
                if made is instruction and place == 0:
                    continue
                fits = is_sum and place > 0 and made.modifiers == instruction.modifiers and here.get(name) is made
                if not fits or any(use is instruction for use in uses[name]):
                    del products[name]
                else:
                    uses[name].append(instruction)
        if instruction.guard is not None and instruction.guard.name in products:
            del products[instruction.guard.name]
        if instruction.row.effect in ("branch", "end", "stop", "call", "unknown"):
            here = {}
        elif instruction.mentioned and instruction.row.writes:
            written = instruction.mentioned[0]
            here = {name: made for name, made in here.items()
                    if not any(written & factor for factor in made.mentioned[1:])}  # fmt: skip
            if (own := next(iter(written), "")) in products and products[own] is instruction:
                here[own] = instruction
    for name in [name for name in products if not uses[name]]:
        del products[name]
    return uses


def join(kernel: Kernel) -> Kernel:
    """The kernel with a multiply-add in the place of each pair."""
    by_sum = {pair.sum: pair for pair in pairs(kernel)}
    if not by_sum:
        return kernel
    gone = {pair.product for pair in by_sum.values()}
    registers = dict(kernel.registers)

    def parts(instruction: Instruction) -> Iterator[Instruction]:
        if instruction.index in gone:
            return
        pair = by_sum.get(instruction.index)
        if pair is None:
            yield instruction
            return
        kind = instruction.modifiers[-1]
        target, *sources = instruction.operands
        _, left, right = kernel.instructions[pair.product].operands
        other = sources[2 - pair.place]
        if instruction.opcode == "sub":  # no operand of PTX has a sign of its own
            turned = other if pair.place == 1 else left
            assert isinstance(target, Register)
            register = Register(f"{target.name}.turned@{instruction.index}")
            registers[register.name] = registers[target.name]
            yield dataclasses.replace(instruction, opcode="neg", modifiers=(kind,), operands=(register, turned))
            left, other = (left, register) if pair.place == 1 else (register, other)
        operands = (target, left, right, other)
        yield dataclasses.replace(
            instruction, opcode="fma", modifiers=("rn", *instruction.modifiers), operands=operands
        )

    return dataclasses.replace(rewritten(kernel, parts), registers=registers)
