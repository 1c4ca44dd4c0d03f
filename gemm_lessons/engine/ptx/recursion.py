"""Functions that call themselves: each keeps one body and a stack in local memory; other functions are inlined.

call of f           f's parameters <- the arguments; f's return number <- number of this call; branch to f's body
call inside of f    before that, f's live registers are stored in its frame, and the top of the stack moves past it;
                    after the return, the top moves back and the registers are loaded
end of f            brx.idx to the label after the call that the return number names

frame               f's own arrays, then its return number and live registers, 8 bytes each
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gemm_lessons.engine.ptx import cfg
from gemm_lessons.engine.ptx.records import (
    SIZES,
    Address,
    Immediate,
    Instruction,
    Kernel,
    KernelParameter,
    Operand,
    Register,
    Symbol,
    elements_of,
    register_width,
)

BYTES = 8192  # of each thread's stack; a GPU's driver gives 1,024 unless the host asks for more
STACK, TOP = "$stack", "%stack@top"
PREDICATE, NUMBER = "%stack@predicate", "%stack@number"  # result of the stack check; a predicate as 0 or 1, to store it
_WORD = 8
Emitted = tuple[str, tuple[Operand, ...]]  # opcode with modifiers, operands


@dataclass
class SharedBody:
    """The body of a recursive function, and the labels after its ``calls``."""

    function: Kernel
    prefix: str
    calls: list[str] = field(default_factory=list)

    @property
    def start(self) -> str:
        """Return the label of its first instruction."""
        return f"{self.prefix}$start"

    @property
    def number(self) -> Register:
        """Return the register that holds the number of the call to return to."""
        return Register(f"{self.prefix}$number")

    @property
    def table(self) -> str:
        """Return the name of its branch table, the labels after its calls."""
        return f"{self.prefix}$calls"

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Return the offsets of its own arrays in the frame."""
        found, size = {}, 0
        for variable in self.function.variables:
            if variable.space == "local":
                found[variable.name] = -(-size // variable.align) * variable.align
                size = found[variable.name] + variable.size
        return found

    @cached_property
    def bytes(self) -> int:
        """Return the bytes of a frame, a multiple of 16."""
        most = max(map(len, self._live.values()), default=0) + 1
        return -(-(self._first + _WORD * most) // 16) * 16

    @cached_property
    def _first(self) -> int:
        sizes = {variable.name: variable.size for variable in self.function.variables}
        return -(-max((place + sizes[name] for name, place in self.places.items()), default=0) // _WORD) * _WORD

    @cached_property
    def _live(self) -> Mapping[int, tuple[tuple[str, str], ...]]:
        """Return call -> the registers and parameters, with their types, that the function uses after it."""
        types = {p.name: f"b{max(16, 8 * p.size)}" for p in self.function.parameters}
        known = {f"{name}+0": kind for name, kind in types.items()} | dict(self.function.registers)
        found = live_after_calls(self.function)
        words = {
            call: (*(f"{name}+0" if name in types else name for name in sorted(live)),) for call, live in found.items()
        }
        return {call: tuple((name, known[name]) for name in names if name in known) for call, names in words.items()}

    def saved(self, call: Instruction) -> Iterator[Emitted]:
        """Yield the instructions that store the registers that the function uses after a call in its body."""
        for place, register, kind in self._words(call):
            if kind == "pred":
                yield "selp.u32", (Register(NUMBER), Immediate(1), Immediate(0), register)
            yield f"st.local.{_stored(kind)}", (place, Register(NUMBER) if kind == "pred" else register)

    def restored(self, call: Instruction) -> Iterator[Emitted]:
        """Yield the instructions that load these registers after the call."""
        for place, register, kind in self._words(call):
            yield f"ld.local.{_stored(kind)}", (Register(NUMBER) if kind == "pred" else register, place)
            if kind == "pred":
                yield "setp.ne.u32", (register, Register(NUMBER), Immediate(0))

    def _words(self, call: Instruction) -> Iterator[tuple[Address, Register, str]]:
        names = [(self.number.name, "b32"), *((self.prefix + name, kind) for name, kind in self._live[call.index])]
        for number, (name, kind) in enumerate(names):
            yield Address(Register(TOP), self._first + _WORD * number), Register(name), kind


def _stored(kind: str) -> str:
    return "u32" if kind == "pred" else f"b{register_width(kind)}"


def live_after_calls(function: Kernel) -> dict[int, frozenset[str]]:
    """Return the registers and parameters that a function may use after each of its calls, by the call's index."""
    own = {p.name for p in function.parameters}
    written = {name for i in function.instructions for name in _parameters(i, 1)} & own
    blocks = cfg.build(function)
    before = [frozenset[str]()] * len(blocks)
    found: dict[int, frozenset[str]] = {}
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            live = frozenset[str]().union(*(before[number] for number in block.successors))
            for instruction in reversed(block.instructions):
                if instruction.row.effect == "end" or (instruction is block.instructions[-1] and not block.successors):
                    live |= written
                made = {*cfg.writes(instruction), *_parameters(instruction, 1)}
                live = live if instruction.guard is not None else live - made
                if instruction.opcode == "call":
                    found[instruction.index] = live
                live |= {*cfg.reads(instruction), *_parameters(instruction, 0)}
            changed |= live != before[block.number]
            before[block.number] = live
    return found


def _parameters(instruction: Instruction, written: int) -> Iterator[str]:
    """Yield the parameters that an instruction reads, or those that it writes."""
    if instruction.opcode == "call":
        at = next((n for n, operand in enumerate(instruction.operands) if isinstance(operand, Symbol)), 0)
        vectors = instruction.operands[:at] if written else instruction.operands[at + 1 :]
        parts = (part for vector in vectors for part in elements_of(vector))
        yield from (part.name for part in parts if isinstance(part, Symbol))
    elif instruction.opcode == ("st" if written else "ld") and "param" in instruction.modifiers:
        bases = (operand.base for operand in instruction.operands if isinstance(operand, Address))
        yield from (base.name for base in bases if isinstance(base, Symbol))


def recursive(kernel: Kernel, functions: Mapping[str, Kernel]) -> frozenset[str]:
    """Return the functions that may call themselves, directly or through others."""
    called: dict[str, set[str]] = {}
    waiting = [*_called(kernel)]
    while waiting:
        name = waiting.pop()
        if name in functions and name not in called:
            called[name] = {*_called(functions[name])}
            waiting += called[name]
    return frozenset(name for name in called if name in _reached(name, called))


def _called(kernel: Kernel) -> Iterator[str]:
    for instruction in kernel.instructions:
        if instruction.opcode == "call":
            yield from (operand.name for operand in instruction.operands[:2] if isinstance(operand, Symbol))


def _reached(name: str, called: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [*called[name]]
    while waiting:
        inner = waiting.pop()
        if inner not in found:
            found.add(inner)
            waiting += called.get(inner, ())
    return found


def is_word(parameter: KernelParameter) -> bool:
    """Return whether a parameter fits into a register."""
    return parameter.size == SIZES[parameter.type] <= _WORD


def names_array(instruction: Instruction, shared: SharedBody | None) -> int | None:
    """Return the offset in the frame if an instruction takes the address of one of the function's own arrays."""
    if shared is None or len(instruction.operands) != 2 or instruction.opcode != "mov":
        return None
    source = instruction.operands[1]
    return (
        shared.places[source.name] + source.offset
        if isinstance(source, Symbol) and source.name in shared.places
        else None
    )
