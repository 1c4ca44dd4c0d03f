"""Cases of ``wgmma`` for the simulator and a GPU: forms, with random shared memory and descriptors.

A case is one product of one warpgroup: contents of shared memory, a descriptor for B and one for A (or A's
registers), and D before it. ``kernel`` multiplies case ``blockIdx.x``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from checks.simulator.fragment_cases import BITS, STYLES, _codes
from checks.simulator.semantics_cases import stream

Array = np.ndarray[Any, Any]

LANES = 128
SHARED, LEFT = 48 * 1024, 12 * 1024  # bytes: all, of them for A; N = 256 with rows of 128 bytes takes 32 KiB
SWIZZLES = {0: 0, 1: 128, 2: 64, 3: 32}  # descriptor's two highest bits -> bytes
K_BYTES = 32  # of a row of A in one product


@dataclass(frozen=True)
class WgmmaForm:
    """One instruction without operands, with where A comes from and which factors are transposed."""

    name: str
    registers: bool = False  # A is in registers
    transposed: tuple[bool, bool] = (False, False)
    negated: tuple[bool, bool] = (False, False)

    def __str__(self) -> str:
        words = [self.name.removeprefix("wgmma.mma_async.sync.aligned.")]
        words += ["registers"] * self.registers + ["ta"] * self.transposed[0] + ["tb"] * self.transposed[1]
        return " ".join([*words, *["na"] * self.negated[0], *["nb"] * self.negated[1]])

    @cached_property
    def n(self) -> int:
        """Columns."""
        found = re.search(r"\.m64n(\d+)k", self.name)
        assert found
        return int(found[1])

    @cached_property
    def types(self) -> tuple[str, str, str]:
        """D, A, B."""
        d, a, b = self.name.removesuffix(".satfinite").split(".")[-3:]
        return d, a, b

    @property
    def words(self) -> int:
        """Registers of D in a lane."""
        return 64 * self.n * BITS[self.types[0]] // 32 // LANES


def form(d: str, a: str, b: str, n: int, more: str = "", **options: Any) -> WgmmaForm:
    """Return the form of these types."""
    k = K_BYTES * 8 // BITS[a]
    return WgmmaForm(f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}{more}", **options)


TYPES = (
    ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
    *((d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
)  # fmt: skip


def sizes(d: str) -> tuple[int, ...]:
    """Return every N of a type of D."""
    return (8, 16, 24, *range(32, 257, 16)) if d == "s32" else tuple(range(8, 257, 8))


def forms() -> list[WgmmaForm]:
    """Every type with A from both places and N = 8, 64, 256; every other N of one type; transposes and negations."""
    found = [form(*types, n, registers=where) for types in TYPES for n in (8, 64, 256) for where in (False, True)]
    found += [form(*types, n) for types in (TYPES[2], TYPES[-1]) for n in sizes(types[0]) if n not in (8, 64, 256)]
    for types in TYPES[:3]:
        found += [form(*types, 64, transposed=it) for it in ((True, False), (False, True), (True, True))]
        found += [form(*types, 136, transposed=(False, True), registers=True)]
        found += [form(*types, 16, negated=it) for it in ((True, False), (False, True), (True, True))]
    return [*found, form("s32", "s8", "s8", 32, ".satfinite")]


def other_forms() -> list[WgmmaForm]:
    """Every type with A from both places, of each N that ``forms`` leaves out."""
    known = set(forms())
    every = (form(*types, n, registers=where) for types in TYPES for n in sizes(types[0]) for where in (False, True))
    return [it for it in every if it not in known]


def kernel(of: WgmmaForm) -> str:
    """Return CUDA C++ of ``k(memory, a, descriptors, d, scale_d)``, for sm_90a; a block is a case."""
    letter = "r"
    results = ", ".join(f'"+{letter}"(d[{i}])' for i in range(of.words))
    listed = ", ".join(f"%{i}" for i in range(of.words))
    place = of.words
    if of.registers:
        a_operand = "{" + ", ".join(f"%{place + i}" for i in range(4)) + "}"
        sources = ", ".join(f'"r"(a[{i}])' for i in range(4))
        place += 4
    else:
        a_operand, sources = f"%{place}", '"l"(left)'
        place += 1
    tail = ""
    if of.types[0] != "s32":
        tail = "".join(f", {-1 if it else 1}" for it in of.negated)
        if of.types[1] in ("f16", "bf16"):
            tail += "".join(f", {int(it)}" for it in of.transposed[of.registers :])
    return f"""extern "C" __global__ void __launch_bounds__({LANES}) k(
    const uint4 *memory, const unsigned *pa, const unsigned long long *descriptors, unsigned *pd, int scale_d)
{{
    __shared__ __align__(1024) unsigned char s[{SHARED}];
    const int lane = threadIdx.x, f = blockIdx.x;
    for (int i = lane; i < {SHARED // 16}; i += {LANES})
        reinterpret_cast<uint4 *>(s)[i] = memory[f * {SHARED // 16} + i];
    unsigned d[{of.words}];
    for (int i = 0; i < {of.words}; i++)
        d[i] = pd[(f * {of.words} + i) * {LANES} + lane];
    {"unsigned a[4];" if of.registers else ""}
    {f"for (int i = 0; i < 4; i++) a[i] = pa[(f * 4 + i) * {LANES} + lane];" if of.registers else ""}
    const unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(s));
    const unsigned long long left = descriptors[2 * f] + (start >> 4), right = descriptors[2 * f + 1] + (start >> 4);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "{{ .reg .pred p; setp.ne.b32 p, %{place + 1}, 0;"
        " {of.name} {{{listed}}}, {a_operand}, %{place}, p{tail}; }}"
        : {results} : {sources}, "l"(right), "r"(scale_d));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < {of.words}; i++)
        pd[(f * {of.words} + i) * {LANES} + lane] = d[i];
}}
"""


@dataclass(frozen=True)
class Cases:
    """Inputs of ``kernel``: (case, ...) each; ``d`` is D before the product."""

    memory: Array
    a: Array
    descriptors: Array
    d: Array


def given(of: WgmmaForm, style: str, count: int, seed: int = 1) -> Cases:
    """Return cases: numbers of one style everywhere, and layouts drawn for each case."""
    d, a, b = of.types
    draw = stream(seed * 1000 + 10 * STYLES.index(style) + of.n, count * 8).reshape(count, 8)

    def numbers(kind: str, operand: str, salt: int, each: int) -> Array:
        raw = stream(seed * 1000 + 10 * STYLES.index(style) + salt, count * each)
        return _codes(kind, style, operand, raw).reshape(count, each)

    bytes_of = [
        np.ascontiguousarray(numbers(kind, operand, salt, room * 8 // BITS[kind])).view(np.uint8)
        for kind, operand, salt, room in ((a, "a", 0, LEFT), (b, "b", 1, SHARED - LEFT))
    ]
    memory = np.concatenate(bytes_of, axis=1)
    registers = np.ascontiguousarray(numbers(a, "a", 3, LANES * 16 * 8 // BITS[a])).view(np.uint32)
    before = np.ascontiguousarray(numbers(d, "c", 2, of.words * LANES * 32 // BITS[d])).view(np.uint32)
    found = np.zeros((count, 2), np.uint64)
    for number in range(count):
        found[number, 0] = _descriptor(draw[number, :4], 64, of.transposed[0], 0, LEFT)
        found[number, 1] = _descriptor(draw[number, 4:], of.n, of.transposed[1], LEFT, SHARED - LEFT)
    return Cases(
        np.ascontiguousarray(memory), registers.reshape(count, 4, LANES), found, before.reshape(count, of.words, LANES)
    )


def _descriptor(drawn: Array, rows: int, transposed: bool, start: int, room: int) -> int:
    """Return a descriptor whose layout is within ``room`` bytes from ``start``; ``rows`` is M or N."""
    mode = int(drawn[0] % 4)
    width = SWIZZLES[mode] or 16  # bytes of a row of an atom
    if transposed:
        if mode and rows * 2 % width:
            mode, width = 0, 16
        strips = -(-rows * 2 // width)
        atom = 8 * width
        if mode:  # stride: the next 8 of k; leading: the next strip of columns
            stride = atom * int(1 + drawn[1] % 2)
            leading = max(room // strips // atom // 2, 1) * atom if strips > 1 else atom
            if strips * leading + 2 * stride > room:
                stride, leading = atom, 2 * atom
        else:  # stride: the next 8 rows; leading: the next 8 of k
            stride, leading = 128 * int(1 + drawn[1] % 2), 128 * int(rows // 4 + drawn[2] % 3)
            if (strips - 1) * stride + leading + 128 > room:
                stride = 128
        offset = 0
    else:
        groups = rows // 8
        atom = 8 * width
        stride = atom * int(1 + drawn[1] % 2) if groups * atom * 2 <= room else atom
        leading = 128 * int(1 + drawn[2] % 3) if not mode else 16 * int(drawn[2] % 4)
        if not mode:
            stride, leading = 128 * int(1 + drawn[1] % 3), 128 * int(1 + drawn[2] % 3)
            if groups * stride + leading > room:
                stride, leading = 128, 128
        offset = K_BYTES * int(drawn[3] % (width // K_BYTES)) if mode else 0  # a step of k inside the atom
    return (start + offset) >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62
