"""Cases of ``mma`` and ``wmma`` for the simulator and a GPU: forms, and fragments in several styles.

A form is an instruction without its operands, such as ``mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32``. What a
lane gives and gets is words: ``Form.words`` of 32 (f64: 64) bits for each of a, b, c, d.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from checks.simulator.semantics_cases import stream

Array = np.ndarray[Any, Any]

BITS = {"f64": 64, "f32": 32, "tf32": 32, "s32": 32, "f16": 16, "bf16": 16, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}
# bits of exponent and fraction
PARTS = {
    "f64": (11, 52),
    "f32": (8, 23),
    "tf32": (8, 23),
    "f16": (5, 10),
    "bf16": (8, 7),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
}
FIRST, LATER = 20, 2230  # fragments of a style's first piece, and of each of its other pieces
PIECES = 11
STYLES = ("bits", "special", "normal", "wide", "medium", "positive", "cancel", "large c", "tiny", "vanishing")
LANES = 32
# Exponent bias of the factors -> about the exponent of the smallest number of the type that they are summed in.
VANISHING = {1023: -1076, 127: -151, 15: -27, 7: -27}


def _mma(shape: str, d: str, a: str, b: str, c: str, more: str = "") -> str:
    return f"mma.sync.aligned.{shape}.row.col{more}.{d}.{a}.{b}.{c}"


MMA = (
    *(_mma(shape, "f64", "f64", "f64", "f64") for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")),
    *(_mma(shape, "f32", "tf32", "tf32", "f32") for shape in ("m16n8k4", "m16n8k8")),
    *(_mma(shape, d, "f16", "f16", d) for shape in ("m16n8k8", "m16n8k16") for d in ("f32", "f16")),
    *(_mma(shape, "f32", "bf16", "bf16", "f32") for shape in ("m16n8k8", "m16n8k16")),
    *(_mma("m16n8k16", "s32", a, b, "s32") for a in ("s8", "u8") for b in ("s8", "u8")),
    *(_mma("m16n8k32", "s32", a, b, "s32") for a in ("s8", "u8") for b in ("s8", "u8")),
    _mma("m16n8k32", "s32", "s8", "u8", "s32", ".satfinite"),
    *(_mma("m16n8k32", "f32", a, b, "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
)


# wmma.load and what follows it: kinds of a and b, and of c.
_FULL = ("m16n16k16", "m32n8k16", "m8n32k16")
FACTORS = {"f16": _FULL, "bf16": _FULL, "tf32": ("m16n16k8",), "f64": ("m8n8k4",), "s8": _FULL, "u8": _FULL}
SUMS = {"f32": (*_FULL, "m16n16k8"), "f16": _FULL, "s32": _FULL, "f64": ("m8n8k4",)}


@dataclass(frozen=True)
class Form:
    """One instruction, with its shape and types parsed from its name."""

    name: str

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """m, n, k."""
        found = re.search(r"\.m(\d+)n(\d+)k(\d+)", self.name)
        assert found
        return int(found[1]), int(found[2]), int(found[3])

    @cached_property
    def types(self) -> dict[str, str]:
        """Operand (``d a b c``) -> type."""
        return dict(zip("dabc", self.name.split(".")[-4:], strict=True))

    def elements(self, operand: str) -> int:
        """Elements of the operand in a lane."""
        m, n, k = self.shape
        return {"a": m * k, "b": k * n, "c": m * n, "d": m * n}[operand] // LANES

    def word(self, operand: str) -> int:
        """Bits of a register."""
        return 64 if self.types[operand] == "f64" else 32

    def words(self, operand: str) -> int:
        """Registers of a lane."""
        return self.elements(operand) * BITS[self.types[operand]] // self.word(operand)


def given(form: Form, style: str, count: int, seed: int = 1) -> dict[str, Array]:
    """Fragments a, b, c as the kernel loads them: (fragment, word, lane) of 32 or 64 bits."""
    made = {}
    for number, operand in enumerate("abc"):
        kind, elements = form.types[operand], form.elements(operand)
        raw = stream(seed * 1000 + 10 * STYLES.index(style) + number, count * LANES * elements)
        codes = _codes(kind, style, operand, raw).reshape(count, LANES, elements)
        packed = np.ascontiguousarray(codes).view(f"u{form.word(operand) // 8}")
        made[operand] = np.ascontiguousarray(packed.swapaxes(1, 2))
    return made


def _codes(kind: str, style: str, operand: str, raw: Array) -> Array:
    bits = BITS[kind]
    store = f"u{bits // 8}"
    if kind not in PARTS or style == "bits":
        return (raw >> np.uint64(64 - bits)).astype(store)
    exponent_bits, fraction_bits = PARTS[kind]
    bias, top = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
    low, high = _exponents(style, operand, bias, top)
    one = np.uint64(1)
    fraction = raw & np.uint64((1 << fraction_bits) - 1)
    exponent = (raw >> np.uint64(52)) % np.uint64(high - low + 1) + np.uint64(low)
    if style == "cancel":  # few bits, so that sums vanish
        fraction &= np.uint64(((1 << fraction_bits) - 1) & ~((1 << max(fraction_bits - 2, 0)) - 1))
    sign = (raw >> np.uint64(63)) & one if style != "positive" else np.uint64(0) * raw
    codes = (sign << np.uint64(bits - 1)) | (exponent << np.uint64(fraction_bits)) | fraction
    if style == "vanishing" and operand == "c":  # a zero of either sign, or next to it
        codes = (sign << np.uint64(bits - 1)) | (fraction & np.uint64(3))
    if style == "special":
        specials = [0, 1 << (bits - 1), top << fraction_bits, top << fraction_bits | 1 << (bits - 1), 1, 3,
                    (top << fraction_bits) | 1, (1 << (bits - 1)) - 1, ((top - 1) << fraction_bits) | 1]  # fmt: skip
        chosen = np.array(specials, np.uint64)[(raw >> np.uint64(20)) % np.uint64(len(specials))]
        codes = np.where((raw >> np.uint64(30)) % np.uint64(64) == 0, chosen, codes)
    return np.asarray(codes).astype(store)


def _exponents(style: str, operand: str, bias: int, top: int) -> tuple[int, int]:
    """Smallest and largest biased exponent of a style's numbers."""
    if style == "vanishing" and operand != "c":  # products about as large as the smallest number that the sum can be
        low = max(0, min(bias + VANISHING[bias] // 2 - 1, bias))
        return low, low + 3
    spread = {"wide": top, "medium": 8, "cancel": 0, "tiny": 0}.get(style, 2)
    middle = bias
    if style == "large c" and operand == "c":
        middle, spread = min(bias + 12, top - 8), 6
    if style == "tiny":
        if operand == "c":
            return 0, min(4, top - 1)
        half = bias // 2
        return (0, max(2, half)) if operand == "a" else (max(1, bias - half), bias)
    return max(0, middle - spread), min(top - 1, middle + spread)


def pieces() -> list[slice]:
    """Slices of a style's fragments; each piece has a fingerprint of its own in ``fragments.json``."""
    ends = [0, FIRST, *(FIRST + LATER * (i + 1) for i in range(PIECES - 1))]
    return [slice(*pair) for pair in pairwise(ends)]


def kernel(form: Form) -> str:
    """CUDA C++ of ``k(a, b, c, d)``: warp i works on fragment i."""
    types = {operand: "double" if form.word(operand) == 64 else "unsigned" for operand in "abcd"}
    letters = {operand: "d" if form.word(operand) == 64 else "r" for operand in "abcd"}
    lists, first = [], 0
    for operand in "dabc":
        count = form.words(operand)
        lists.append("{" + ", ".join(f"%{first + i}" for i in range(count)) + "}")
        first += count
    results = ", ".join(f'"={letters["d"]}"(d[{i}])' for i in range(form.words("d")))
    sources = ", ".join(f'"{letters[o]}"({o}[{i}])' for o in "abc" for i in range(form.words(o)))
    loads = "".join(
        f"{types[o]} {o}[{form.words(o)}];\n"
        f"for (int i = 0; i < {form.words(o)}; i++) {o}[i] = p{o}[(f * {form.words(o)} + i) * 32 + lane];\n"
        for o in "abc"
    )
    pointers = ", ".join(f"{'const ' * (o != 'd')}{types[o]} *p{o}" for o in "abcd")
    return f"""extern "C" __global__ void k({pointers})
{{
    const int lane = threadIdx.x % 32, f = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    {loads}{types["d"]} d[{form.words("d")}];
    asm volatile("{form.name} {", ".join(lists)};" : {results} : {sources});
    for (int i = 0; i < {form.words("d")}; i++) pd[(f * {form.words("d")} + i) * 32 + lane] = d[i];
}}
"""


@dataclass(frozen=True)
class Load:
    """``wmma.load`` of a matrix of ``elements`` elements of ``size`` bytes into ``words`` registers of a lane."""

    name: str
    stride: int
    elements: int
    words: int
    size: int

    @property
    def width(self) -> int:
        """Bytes of a register."""
        return 8 if self.size == 8 else 4

    @property
    def parts(self) -> int:
        """Loads needed to number the elements: one byte is too small for the number."""
        return 2 if self.size == 1 else 1

    def numbered(self, part: int) -> Array:
        """The matrix whose elements hold their own number, or byte ``part`` of it."""
        numbers = np.arange(self.elements)
        return (numbers >> 8 * part & 0xFF).astype(np.uint8) if self.size == 1 else numbers.astype(f"u{self.size}")

    def kernel(self) -> str:
        """CUDA C++ of ``k(in, out)``: out gets (word, lane)."""
        kind, letter = {"f64": ("double", "d"), "f32": ("float", "f")}.get(
            self.name.rpartition(".")[2], ("unsigned", "r")
        )
        places = ", ".join(f"%{i}" for i in range(self.words))
        results = ", ".join(f'"={letter}"(r[{i}])' for i in range(self.words))
        return f"""extern "C" __global__ void k(const void *in, {kind} *out)
{{
    {kind} r[{self.words}];
    asm volatile("{self.name} {{{places}}}, [%{self.words}], {self.stride};" : {results} : "l"(in) : "memory");
    for (int i = 0; i < {self.words}; i++) out[i * 32 + threadIdx.x] = r[i];
}}
"""


def loads() -> list[Load]:
    """Every load of wmma."""
    found = []
    for kind, shapes in FACTORS.items():
        size = BITS[kind] // 8
        for shape in shapes:
            m, n, k = Form(f".{shape}.x.x.x.x").shape
            for operand, rows, cols in (("a", m, k), ("b", k, n)):
                words = {"f16": 8, "bf16": rows * cols // 64, "tf32": 4, "f64": 1}.get(kind, rows * cols // 128)
                for order, stride in (("row", cols), ("col", rows)):
                    name = f"wmma.load.{operand}.sync.aligned.{order}.{shape}.{kind}"
                    found.append(Load(name, stride, rows * cols, words, size))
    for kind, shapes in SUMS.items():
        size = BITS[kind] // 8
        for shape in shapes:
            m, n, _ = Form(f".{shape}.x.x.x.x").shape
            for order, stride in (("row", n), ("col", m)):
                words = m * n // LANES * size // max(size, 4)
                found.append(Load(f"wmma.load.c.sync.aligned.{order}.{shape}.{kind}", stride, m * n, words, size))
    return found
