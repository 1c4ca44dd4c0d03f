"""Expands instructions that combine several simpler ones: scalar video instructions, minimum and maximum of three, and
arithmetic on pairs of float32.

An operand of a video instruction may have a selector in its text: the byte ``.b0`` to ``.b3`` or the half ``.h0`` or
``.h1`` of a register. ``vmad`` may also negate it. ``selected`` moves it to the modifiers, one word per operand.
Source: NVIDIA, "PTX ISA" 9.0, 9.7.18 (scalar video instructions), 9.7.3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gemm_lessons.engine.ptx.cfg import unsupported
from gemm_lessons.engine.ptx.records import Immediate, Instruction, Kernel, Operand, Register, Vector
from gemm_lessons.engine.ptx.rewrite import Writer, rewritten
from gemm_lessons.engine.records.regex import regex

VIDEO = frozenset("vadd vsub vabsdiff vmin vmax vshl vshr vmad vset".split())
EXTREMES = ("min", "max")
SELECTING = VIDEO | {*EXTREMES}  # opcodes whose operands ``selected`` reads
OF_THREE = "of3"  # the modifier that marks a minimum or maximum of three
WHOLE = "all"  # the selector of a whole register
PAIRED = ("add", "sub", "mul", "fma")
SIZES = {"b": 8, "h": 16}
SCALES = {"shr7": 7, "shr15": 15}
_SELECTED = regex(r"(-?)\s*([%\w$]+?)(?:\.([bh][0-3]))?")


def selected(opcode: str, modifiers: tuple[str, ...], operands: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the modifiers with a selector per operand, and the operands without selectors. Mark a minimum or maximum
    of three by a modifier; leave other instructions unchanged."""
    if opcode in EXTREMES and len(operands) == 4:
        return (OF_THREE, *modifiers), list(operands)
    matches = [_SELECTED.fullmatch(text) for text in operands] if opcode in VIDEO else [None]
    words, texts = [], []
    for match in matches:
        if match is None:
            return modifiers, list(operands)
        negated = match[1] if not match[2].isdigit() else ""
        words.append(negated + (match[3] or WHOLE))
        texts.append(match[2] if negated else match[1] + match[2])
    return (*modifiers, *words), texts


def expand(kernel: Kernel) -> Kernel:
    """Return the kernel without these instructions. Raise ``UnsupportedKernel`` for a form that does not exist."""
    if not any(map(_expanded, kernel.instructions)):
        return kernel
    registers: dict[str, str] = {}

    def parts(instruction: Instruction) -> Sequence[Instruction]:
        if not _expanded(instruction):
            return (instruction,)
        writer = Writer(registers, instruction)
        if instruction.opcode in EXTREMES:
            _extreme_of_three(writer)
        elif instruction.opcode in PAIRED:
            _pair(writer)
        else:
            _Video(writer).write()
        return writer.instructions

    expanded = rewritten(kernel, parts)
    return dataclasses.replace(expanded, registers={**kernel.registers, **registers})


def _expanded(instruction: Instruction) -> bool:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in PAIRED:
        return "f32x2" in modifiers
    return opcode in VIDEO or (opcode in EXTREMES and OF_THREE in modifiers)


def _extreme_of_three(writer: Writer) -> None:
    origin = writer.origin
    words = [word for word in origin.modifiers if word not in (OF_THREE, "abs")]
    target, *sources = origin.operands
    if words[-1:] != ["f32"] or not {"ftz", "NaN", "f32"}.issuperset(words):
        raise unsupported(origin)
    if "abs" in origin.modifiers:
        name = "abs.ftz.f32" if "ftz" in words else "abs.f32"
        sources = [writer.computed("f32", name, source) for source in sources]
    name = ".".join((origin.opcode, *words))
    writer.emit(name, target, writer.computed("f32", name, *sources[:2]), sources[2])


def _pair(writer: Writer) -> None:
    origin = writer.origin
    target, *sources = origin.operands
    if len(sources) != (3 if origin.opcode == "fma" else 2) or origin.modifiers[-1] != "f32x2":
        raise unsupported(origin)
    name = ".".join((origin.opcode, *origin.modifiers[:-1], "f32"))
    halves = []
    for source in sources:
        both = (writer.fresh("f32"), writer.fresh("f32"))
        writer.emit("mov.b64", Vector(both), source)
        halves.append(both)
    results = tuple(writer.computed("f32", name, *pair) for pair in zip(*halves, strict=True))
    writer.emit("mov.b64", target, Vector(results))


class _Video:
    """One scalar video instruction in 64-bit integers: select, compute, saturate, combine with ``c`` or merge.

    ptxas expands it into other instructions, too, for every GPU since Maxwell. Forms whose values then differ from the
    manual's in some lane are refused: those that compare sums, most that saturate or compare unsigned numbers or
    different types, and all that saturate before they are merged.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer, origin = writer, writer.origin
        count = len(origin.operands)
        self.name = origin.opcode
        words, self.selectors = origin.modifiers[: len(origin.modifiers) - count], origin.modifiers[-count:]
        self.types = [word for word in words if word in ("u32", "s32")]
        self.options = [word for word in words if word not in ("u32", "s32", "sat")]
        self.saturates = "sat" in words
        if self.name == "vset":  # its result is 0 or 1, without a type
            self.types.insert(0, "u32")
        negated = [selector for selector in self.selectors if selector[0] == "-"]
        if len(self.types) != 3 or count not in (3, 4) or (negated and self.name != "vmad"):
            raise unsupported(origin)

    def write(self) -> None:
        """Emit the instructions."""
        if self.name == "vmad":
            self._multiply()
            return
        target, a, b, *c = self.writer.origin.operands
        kind, of_a, of_b = self.types
        value = self._compute(self._part(a, of_a, 1), self._part(b, of_b, 2))
        merged = self.selectors[0]
        combine = next((self._taken(name) for name in ("add", "min", "max") if name in self.options), "")
        alike = self.name in ("vset", "vshr") or kind == of_a == of_b
        compares = combine in ("min", "max") and self.name != "vset"
        sums = self.name in ("vadd", "vsub") and (kind == "u32" or compares)
        strange = (self.saturates or compares) and (not alike or sums or self.name == "vshl")
        strange |= (self.saturates and bool(c)) or (compares and self.name == "vshr")
        wrong = bool(self.options) or (len(c) == 1) != bool(combine or merged != WHOLE)
        if strange or wrong or (combine and merged != WHOLE):
            raise unsupported(self.writer.origin)
        if self.saturates:
            value = self._clamped(value, kind)
        if combine:
            kind = of_a if self.name == "vset" else kind
            other = self._long(f"cvt.s64.{kind}", c[0])
            self.writer.emit("cvt.u32.u64", target, self._long(f"{combine}.{kind[0]}64", value, other))
        elif merged != WHOLE:
            size = SIZES[merged[0]]
            place = Immediate(size * int(merged[1]))
            self.writer.emit("bfi.b32", target, self._low(value), c[0], place, Immediate(size))
        else:
            self.writer.emit("cvt.u32.u64", target, value)

    def _taken(self, option: str) -> str:
        self.options.remove(option)
        return option

    def _long(self, name: str, *sources: Operand) -> Register:
        return self.writer.computed("b64", name, *sources)

    def _low(self, value: Operand) -> Register:
        return self.writer.computed("b32", "cvt.u32.u64", value)

    def _part(self, operand: Operand, kind: str, position: int) -> Register:
        """Return the selected part of an operand, extended to 64 bits."""
        selector = self.selectors[position].lstrip("-")
        if selector != WHOLE:
            size = SIZES[selector[0]]
            if size * int(selector[1]) >= 32:
                raise unsupported(self.writer.origin)
            place = Immediate(size * int(selector[1]))
            operand = self.writer.computed("b32", f"bfe.{kind}", operand, place, Immediate(size))
        return self._long(f"cvt.s64.{kind}", operand)

    def _clamped(self, value: Operand, kind: str) -> Register:
        low, high = (-(1 << 31), (1 << 31) - 1) if kind == "s32" else (0, (1 << 32) - 1)
        return self._long("min.s64", self._long("max.s64", value, Immediate(low)), Immediate(high))

    def _compute(self, a: Operand, b: Operand) -> Operand:
        name = self.name[1:]
        if name in ("add", "sub", "min", "max"):
            return self._long(f"{name}.s64", a, b)
        if name == "absdiff":
            return self._long("abs.s64", self._long("sub.s64", a, b))
        if name == "set":
            compare = next((word for word in ("eq", "ne", "lt", "le", "gt", "ge") if word in self.options), "eq")
            if compare not in self.options:
                raise unsupported(self.writer.origin)
            met = self.writer.computed("pred", f"setp.{self._taken(compare)}.s64", a, b)
            return self._long("selp.b64", Immediate(1), Immediate(0), met)
        return self._shifted(a, self._low(b))

    def _shifted(self, value: Operand, distance: Operand) -> Operand:
        how = next((word for word in ("clamp", "wrap") if word in self.options), "")
        if not how or self.types[2] != "u32":
            raise unsupported(self.writer.origin)
        self._taken(how)
        if how == "clamp":
            distance = self.writer.computed("b32", "min.u32", distance, Immediate(32))
        else:
            distance = self.writer.computed("b32", "and.b32", distance, Immediate(31))
        if self.name == "vshr":
            return self._long("shr.s64", value, distance)
        return self._long("shl.b64", value, distance)

    def _multiply(self) -> None:
        target, a, b, *c = self.writer.origin.operands
        _, of_a, of_b = self.types
        scale = sum(SCALES[word] for word in self.options if word in SCALES)
        plus_one = "po" in self.options
        minus = [selector[0] == "-" for selector in self.selectors]
        known = self.options in ([], ["po"], ["shr7"], ["shr15"], ["po", "shr7"], ["po", "shr15"])
        if not known or len(c) != 1 or self.selectors[3].lstrip("-") != WHOLE or (plus_one and any(minus)):
            raise unsupported(self.writer.origin)
        negated = minus[1] != minus[2]
        if (scale or self.saturates) and not of_a == of_b == "s32":
            raise unsupported(self.writer.origin)
        total = self._long("mul.lo.s64", self._part(a, of_a, 1), self._part(b, of_b, 2))
        if negated:
            total = self._long("neg.s64", total)
        total = self._long("sub.s64" if minus[3] else "add.s64", total, self._long("cvt.s64.s32", c[0]))
        if plus_one:
            total = self._long("add.s64", total, Immediate(1))
        if scale:
            total = self._long("shr.s64", total, Immediate(scale))
        if self.saturates:
            total = self._clamped(total, "s32")
        self.writer.emit("cvt.u32.u64", target, total)
