"""Variables of a module: which of them a kernel can use, their state spaces in instructions that access them by name,
and addresses in their initial values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from gemm_lessons.engine.ptx.records import Address, Instruction, Kernel, Operand, Symbol, Variable, Vector
from gemm_lessons.engine.records.errors import UnsupportedKernel

SMALL = 1 << 24  # bytes
SPACES = frozenset(
    "global shared shared__cta shared__cluster local const param param__entry param__func".split()
)  # modifiers that name a state space
GENERIC = ("ld", "st", "atom", "red", "ldmatrix", "stmatrix")  # opcodes without a state space access generic addresses


def with_state_spaces(kernel: Kernel, variables: Sequence[Variable]) -> Kernel:
    """Return the kernel with ``ld.shared.u32 %r1, [x]`` for ``ld.u32 %r1, [x]``, where ``x`` is shared or local: a
    variable's name is an address in its own state space and would be wrong as a generic address. The assembler does the
    same."""
    near = {v.name: v.space for v in (*variables, *kernel.variables) if v.space in ("shared", "local")}

    def with_space(instruction: Instruction) -> Instruction:
        if instruction.opcode not in GENERIC or SPACES.intersection(instruction.modifiers):
            return instruction
        for operand in instruction.operands:
            if isinstance(operand, Address) and isinstance(operand.base, Symbol) and operand.base.name in near:
                return dataclasses.replace(instruction, modifiers=(near[operand.base.name], *instruction.modifiers))
        return instruction

    if not near:
        return kernel
    return dataclasses.replace(kernel, instructions=tuple(with_space(it) for it in kernel.instructions))


def usable_variables(kernel: Kernel, variables: Sequence[Variable]) -> tuple[Variable, ...]:
    """Return the variables except those that cannot be given a value and large ones that the kernel does not reach.

    Raise ``UnsupportedKernel`` if the kernel reaches one without a value, by its name or through pointers.
    """
    known = {v.name: v for v in (*variables, *kernel.variables)}
    problems = {name: problem for name, v in known.items() if (problem := _problem(v, known))}
    while more := {
        name: problems[pointer.symbol]
        for name, v in known.items()
        for pointer in v.pointers
        if name not in problems and pointer.symbol in problems
    }:
        problems |= more
    if not problems and all(v.size <= SMALL for v in variables):
        return tuple(variables)
    waiting = [
        (name, i.source.line if i.source and i.source.line else None)
        for i in kernel.instructions
        for operand in i.operands
        for name in _symbols(operand)
    ]
    seen: set[str] = set()
    while waiting:
        name, line = waiting.pop()
        if name in known and name not in seen:
            seen.add(name)
            if name in problems:
                raise UnsupportedKernel(problems[name], line)
            waiting += [(pointer.symbol, line) for pointer in known[name].pointers]
    return tuple(v for v in variables if v.name in seen or (v.name not in problems and v.size <= SMALL))


def _problem(variable: Variable, known: Mapping[str, Variable]) -> str:
    if variable.problem:
        return variable.problem
    for pointer in variable.pointers:
        target = known.get(pointer.symbol)
        if target is None:
            return (
                f"{variable.name} holds the address of {pointer.symbol}, which is not a variable: a function's, perhaps"
            )
        if target.space not in ("global", "const"):
            return f"{variable.name} holds the address of {pointer.symbol} in {target.space} memory"
    return ""


def _symbols(operand: Operand | None) -> Iterator[str]:
    if isinstance(operand, Symbol):
        yield operand.name
    elif isinstance(operand, Address):
        yield from _symbols(operand.base)
    elif isinstance(operand, Vector):
        for element in operand.elements:
            yield from _symbols(element)


def initial_bytes(variable: Variable, addresses: Mapping[str, int]) -> bytes:
    """Return the bytes of a variable before the launch, with the addresses of other variables filled in."""
    data = bytearray(variable.initial.ljust(variable.size, b"\0"))
    for pointer in variable.pointers:
        address = (addresses[pointer.symbol] + pointer.addend) % (1 << 64)
        part = address.to_bytes(8, "little")[pointer.shift : pointer.shift + pointer.size]
        data[pointer.offset : pointer.offset + len(part)] = part
    return bytes(data)
