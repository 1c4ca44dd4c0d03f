"""Rewrites a call through a pointer as direct calls of the functions whose address is taken, before calls are inlined.

    call (r), %rd1, (a), prototype;   ->   setp.ne %p, %rd1, address of f;  @%p bra other;  call (r), f, (a);  bra done;
                                           other: ... the next function ...;  trap;  done:

Each function gets a number as its address, which is outside of all memory and differs from the address on a GPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from gemm_lessons.engine.ptx.records import (
    Immediate,
    Instruction,
    Kernel,
    Module,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
    elements_of,
)

FIRST, STEP = 1 << 12, 128  # addresses of functions
Program = tuple[Kernel, Mapping[str, Kernel], tuple[Variable, ...]]


def direct_calls(entry: Kernel, module: Module) -> Program:
    """Return kernel, functions and variables with direct calls, and numbers for the addresses of functions."""
    if not module.functions and not any(map(_is_through_pointer, entry.instructions)):
        return entry, module.functions, module.variables
    reached = _reached(entry, module)
    every = (it for kernel in (entry, *reached.values()) for it in kernel.instructions if it.opcode != "call")
    taken = {*_named(every)} & module.functions.keys()
    taken |= {pointer.symbol for v in module.variables for pointer in v.pointers} & module.functions.keys()
    called = any(map(_is_through_pointer, entry.instructions)) or any(
        _is_through_pointer(i) for function in reached.values() for i in function.instructions
    )
    if not taken and not called:
        return entry, module.functions, module.variables
    known = [name for name in module.functions if name in taken]
    addresses = {name: FIRST + number * STEP for number, name in enumerate(known)}
    functions = {name: _direct(function, addresses, module.functions) for name, function in reached.items()}
    variables = tuple(_with_addresses(variable, addresses) for variable in module.variables)
    return _direct(entry, addresses, module.functions), functions, variables


def _reached(entry: Kernel, module: Module) -> dict[str, Kernel]:
    """Return the functions that a kernel names, directly or through others, or that a variable points to."""
    found: dict[str, Kernel] = {}
    waiting = [*_named(entry.instructions), *(pointer.symbol for v in module.variables for pointer in v.pointers)]
    while waiting:
        name = waiting.pop()
        if name not in found and name in module.functions:
            found[name] = module.functions[name]
            waiting += _named(found[name].instructions)
    return found


def _named(instructions: Iterable[Instruction]) -> Iterator[str]:
    parts = (part for it in instructions for operand in it.operands for part in elements_of(operand))
    return (part.name for part in parts if isinstance(part, Symbol))


def _is_through_pointer(instruction: Instruction) -> bool:
    return instruction.opcode == "call" and any(isinstance(operand, Register) for operand in instruction.operands)


def _with_addresses(variable: Variable, addresses: Mapping[str, int]) -> Variable:
    """Return a variable with the addresses of functions in its initial value."""
    data = bytearray(variable.initial)
    for pointer in variable.pointers:
        if pointer.symbol in addresses:
            value = (addresses[pointer.symbol] + pointer.addend).to_bytes(8, "little")
            data[pointer.offset : pointer.offset + pointer.size] = value[pointer.shift : pointer.shift + pointer.size]
    others = tuple(pointer for pointer in variable.pointers if pointer.symbol not in addresses)
    return dataclasses.replace(variable, initial=bytes(data), pointers=others)


def _direct(kernel: Kernel, addresses: Mapping[str, int], functions: Mapping[str, Kernel]) -> Kernel:
    made = _Rewriter(kernel, addresses, functions)
    for instruction in kernel.instructions:
        made.add(instruction)
    return made.result()


class _Rewriter:
    """A body with its calls through pointers replaced, instruction by instruction."""

    def __init__(self, kernel: Kernel, addresses: Mapping[str, int], functions: Mapping[str, Kernel]) -> None:
        self._kernel, self._addresses, self._functions = kernel, addresses, functions
        self._instructions: list[Instruction] = []
        self._labels: dict[str, int] = {}
        self._registers = dict(kernel.registers)
        self._at: dict[int, int] = {}

    def add(self, instruction: Instruction) -> None:
        self._at[instruction.index] = len(self._instructions)
        if _is_through_pointer(instruction):
            self._dispatch(instruction)
        elif instruction.opcode == "call":
            self._instructions.append(instruction)
        else:
            operands = tuple(map(self._numbered, instruction.operands))
            same = all(new is old for new, old in zip(operands, instruction.operands, strict=True))
            self._instructions.append(instruction if same else dataclasses.replace(instruction, operands=operands))

    def result(self) -> Kernel:
        self._at[len(self._kernel.instructions)] = len(self._instructions)
        moved = {label: self._at[position] for label, position in self._kernel.labels.items()}
        return dataclasses.replace(
            self._kernel,
            instructions=tuple([i.numbered(n) for n, i in enumerate(self._instructions)]),
            labels=moved | self._labels,
            registers=self._registers,
        )

    def _numbered(self, operand: Operand) -> Operand:
        if isinstance(operand, Symbol) and operand.name in self._addresses:
            return Immediate(self._addresses[operand.name] + operand.offset)
        if isinstance(operand, Vector):
            return Vector(tuple(None if e is None else self._numbered(e) for e in operand.elements))
        return operand

    def _dispatch(self, call: Instruction) -> None:
        at = next(n for n, operand in enumerate(call.operands) if isinstance(operand, Register))
        pointer = call.operands[at]
        before, after = call.operands[:at], tuple(o for o in call.operands[at + 1 :] if isinstance(o, Vector))
        passed = sum(len(elements_of(vector)) for vector in (*before, *after))
        done = f"$called@{call.index}"
        if call.guard is not None:
            self._emit(call, "bra", Symbol(done), guard=call.guard, negated=not call.guard_negated)
        for name, address in self._addresses.items():
            if len(self._functions[name].parameters) != passed:
                continue
            differs, other = Register(f"%called@{call.index}"), f"$other@{call.index}.{name}"
            self._registers[differs.name] = "pred"
            self._emit(call, "setp.ne.u64", differs, pointer, Immediate(address))
            self._emit(call, "bra", Symbol(other), guard=differs)
            self._emit(call, f"call.{'.'.join(call.modifiers)}".rstrip("."), *before, Symbol(name), *after)
            self._emit(call, "bra", Symbol(done))
            self._labels[other] = len(self._instructions)
        self._emit(call, "trap.call")
        self._labels[done] = len(self._instructions)

    def _emit(
        self, call: Instruction, opcode: str, *operands: Operand, guard: Register | None = None, negated: bool = False
    ) -> None:
        name, *modifiers = opcode.split(".")
        self._instructions.append(
            dataclasses.replace(
                call, opcode=name, modifiers=tuple(modifiers), operands=operands, guard=guard, guard_negated=negated
            )
        )
