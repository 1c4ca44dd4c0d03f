"""Instructions that are several others in one: scalar video instructions, extremes of three, pairs of float32.

Each video form is held to one lane in plain Python, by the manual's pseudocode, and to ptxas's machine code. No GPU has
answered yet; a test marked ``gpu`` would ask one.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.simulator import semantics_reference as reference
from checks.simulator.whole_code import Cubin
from gemm_lessons import simulate
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.launch import Grid

Array = np.ndarray[Any, Any]
LANES = 128
EDGES = [0, 1, 2, 31, 32, 33, 127, 128, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x80818283]
SAME = ("s32.s32.s32", "u32.u32.u32")
MIXED = ("s32.u32.s32", "u32.s32.u32", "s32.s32.u32", "u32.u32.s32")

VIDEO = [
    *(f"{op}.{types} %0, %1{a}, %2{b};" for op in ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
      for types, a, b in (*((it, ".h1", ".b3") for it in MIXED), (SAME[0], "", ".b2"), (SAME[1], ".b1", ""))),
    *(f"{op}.{types}{what} %0, {sources};" for op in ("vmin", "vmax", "vabsdiff") for types in SAME
      for what, sources in ((".sat", "%1, %2"), (".sat", "%1.h0, %2"), (".min", "%1, %2, %3"),
                            (".max", "%1, %2, %3"), (".add", "%1.h0, %2.h1, %3"))),
    *(f"{op}.s32.s32.s32{what} %0, {sources};" for op in ("vadd", "vsub")
      for what, sources in ((".sat", "%1, %2"), (".sat", "%1.h0, %2"), (".add", "%1.h0, %2, %3"))),
    *(f"{op}.{types}.add %0, %1.h0, %2.h1, %3;" for op in ("vadd", "vsub") for types in (SAME[1], *MIXED)),
    *(f"{op}.{types} %0.{into}, %1.h1, %2.b0, %3;" for op in ("vadd", "vmax", "vabsdiff") for types in MIXED[:2]
      for into in ("b2", "h1")),
    *(f"{op}.{types}.u32.{how} %0, %1, %2{b};" for op in ("vshl", "vshr") for types in ("u32.s32", "s32.u32")
      for how in ("clamp", "wrap") for b in (".b0", "")),
    *(f"vshl.u32.u32.u32.clamp{what};" for what in (".add %0, %1.b3, %2.b0, %3", " %0.b1, %1.h0, %2.b0, %3")),
    *(f"vset.{types}.{how}{rest};" for types in ("s32.u32", "u32.s32", "s32.s32") for how in ("lt", "ge", "eq", "ne")
      for rest in (" %0, %1.b0, %2.h1", ".add %0, %1, %2, %3", ".max %0, %1, %2, %3", " %0.b3, %1, %2.b3, %3")),
    *(f"vmad.{types}{rest};" for types in (*SAME, *MIXED)
      for rest in (" %0, %1.h0, %2.h1, %3", ".po %0, %1, %2.b3, %3")),
    *(f"vmad.s32.s32.s32{rest};" for rest in (
        ".sat %0, %1, %2.h0, %3", ".shr7 %0, %1, -%2.h0, %3", ".sat.shr15 %0, -%1, %2, %3", " %0, %1, %2, -%3",
        ".po.sat.shr7 %0, %1, %2, %3", ".sat %0, -%1.b0, -%2.b3, %3")),
]  # fmt: skip


def words(seed: int) -> Array:
    """Numbers of 32 bits, most of them edges."""
    random = np.random.default_rng(seed)
    any_of = random.integers(0, 1 << 32, LANES, dtype=np.uint64)
    return np.where(random.random(LANES) < 0.7, random.choice(np.array(EDGES, np.uint64), LANES), any_of).astype(
        np.uint32
    )


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def part(word: int, kind: str, selector: str) -> int:
    size = {"": 32, "b": 8, "h": 16}[selector[:1]]
    field = word >> size * int(selector[1:] or 0) & (1 << size) - 1
    return signed(field, size) if kind == "s32" else field


def of_manual(form: str, a: int, b: int, c: int) -> int:
    """One lane, as the PTX manual's pseudocode."""
    head, _, tail = form.rstrip(";").partition(" ")
    opcode, *options = head.split(".")
    given = [re.fullmatch(r"(-?)%\d(?:\.(..))?", text.strip()) for text in tail.split(",")]
    minus, selectors = [bool(it and it[1]) for it in given], [(it and it[2]) or "" for it in given]
    types = [word for word in options if word in ("s32", "u32")]
    kind, of_a, of_b = types if len(types) == 3 else ("u32", *types)
    x, y = part(a, of_a, selectors[1]), part(b, of_b, selectors[2])
    low, high = (-(1 << 31), (1 << 31) - 1) if kind == "s32" else (0, (1 << 32) - 1)
    if opcode == "vmad":
        product = -(x * y) if minus[1] != minus[2] else x * y
        total = product + (-1 if minus[3] else 1) * signed(c, 32) + ("po" in options)
        total >>= next((int(word[3:]) for word in options if word.startswith("shr")), 0)
        return (min(max(total, low), high) if "sat" in options else total) & 0xFFFFFFFF
    if opcode == "vset":
        value = int(reference.ORDERED[next(word for word in options if word in reference.ORDERED)](x, y))
        kind = of_a
    elif opcode in ("vshl", "vshr"):
        distance = min(y, 32) if "clamp" in options else y & 31
        value = x << distance if opcode == "vshl" else x >> distance
    else:
        value = {"vadd": x + y, "vsub": x - y, "vabsdiff": abs(x - y), "vmin": min(x, y), "vmax": max(x, y)}[opcode]
    value = min(max(value, low), high) if "sat" in options else value
    if selectors[0]:
        size = 8 if selectors[0][0] == "b" else 16
        mask = (1 << size) - 1 << size * int(selectors[0][1])
        return c & ~mask | value << size * int(selectors[0][1]) & mask
    then = next((word for word in options if word in ("add", "min", "max")), "")
    other = part(c, kind, "")
    return {"": value, "add": value + other, "min": min(value, other), "max": max(value, other)}[then] & 0xFFFFFFFF


def kernel(*forms: str) -> str:
    """Return a kernel ``k`` that stores each form's results in a row of ``o``."""
    return (
        'extern "C" __global__ void k(const unsigned *a, const unsigned *b, const unsigned *c, unsigned *o)'
        "{ const int t = threadIdx.x; unsigned r;\n"
        + "".join(
            f'asm volatile("{form}" : "=r"(r) : "r"(a[t]), "r"(b[t]), "r"(c[t])); o[{i * LANES} + t] = r;\n'
            for i, form in enumerate(forms)
        )
        + "}\n"
    )


def test_video_instructions_are_those_of_the_manual_and_of_their_machine_code() -> None:
    source = kernel(*VIDEO)
    compiled = must_compile(source, path="video.cu")
    a, b, c = (words(seed) for seed in range(3))
    mine = np.zeros((len(VIDEO), LANES), np.uint32)
    assert simulate(source, "k", 1, LANES, [a, b, c, mine]).fault is None
    theirs = Cubin.of(compiled).run("k", Grid((1, 1, 1), (LANES, 1, 1)), [a, b, c, np.zeros_like(mine)])[-1]
    wrong = []
    for form, ours, machine in zip(VIDEO, mine.tolist(), theirs.tolist(), strict=True):
        manual = [of_manual(form, *lane) for lane in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
        if not ours == machine == manual:
            wrong.append(form)
    assert wrong == []


STRANGE = [
    "vadd.s32.s32.s32.sat %0.b1, %1, %2, %3;", "vadd.u32.u32.s32.sat %0, %1, %2;", "vadd.u32.u32.u32.sat %0, %1, %2;",
    "vadd.s32.s32.s32.max %0, %1, %2, %3;",
    "vshl.u32.u32.u32.sat.wrap %0, %1, %2;", "vsub.u32.u32.u32.min %0, %1, %2, %3;",
    "vadd.u32.s32.s32.max %0, %1, %2, %3;", "vmad.u32.u32.u32.sat %0, %1, %2, %3;",
]  # fmt: skip


@pytest.mark.parametrize("form", STRANGE)
def test_forms_in_which_ptxas_and_the_manual_differ_are_refused(form: str) -> None:
    operands = [words(0), words(1), words(2), np.zeros(LANES, np.uint32)]
    with pytest.raises(UnsupportedKernel, match=form.partition(" ")[0].replace(".", r"\.")):
        simulate(kernel(form), "k", 1, LANES, operands)


def test_a_video_instruction_of_an_inlined_function_and_a_guard() -> None:
    text = """
__device__ __noinline__ int most(int a, int b, int c)
{ int r;
  asm("{ .reg .s32 q; mov.s32 q, %1; vmax.s32.s32.s32.max %0, q, %2.h0, %3; }" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r; }
extern "C" __global__ void k(int *o, int n)
{ const int t = threadIdx.x; int r = most(t, n, -5);
  asm("{ .reg .pred p; setp.lt.s32 p, %1, 4; @p vadd.s32.s32.s32 %0, %1, 100; }" : "+r"(r) : "r"(t)); o[t] = r; }
"""
    found = np.zeros(32, np.int32)
    assert simulate(text, "k", 1, 32, [found, 7]).fault is None
    assert found.tolist() == [100 + t if t < 4 else max(t, 7) for t in range(32)]


FLOATS = np.array([
    0x0, 0x80000000, 0x3F800000, 0xBF800001, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00005, 0x1, 0x80000003,
    0x7F7FFFFF, 0x00800000, 0x40490FDB, 0xC0490FDB, 0x33800000, 0x4B800001,
], np.uint32)  # fmt: skip


def floats(seed: int, count: int = LANES) -> Array:
    return np.random.default_rng(seed).choice(FLOATS, count)


OF_THREE = (".f32", ".ftz.f32", ".NaN.f32", ".abs.f32", ".ftz.NaN.abs.f32")


@pytest.mark.parametrize("name", [opcode + how for opcode in ("min", "max") for how in OF_THREE])
def test_the_extreme_of_three(name: str) -> None:
    text = kernel(f"{name} %0, %1, %2, %3;").replace('"=r"(r)', '"=f"(f)').replace("unsigned r;", "float f;")
    text = re.sub(r'"r"\((.)\[t\]\)', r'"f"(__uint_as_float(\1[t]))', text).replace(
        "+ t] = r", "+ t] = __float_as_uint(f)"
    )
    rows, found = [floats(seed) for seed in range(3)], np.zeros(LANES, np.uint32)
    assert simulate(text, "k", 1, LANES, [*rows, found], arch="sm_100a").fault is None
    opcode, *words = name.split(".")
    two = ".".join([opcode, *(word for word in words if word != "abs")])
    for *sources, got in zip(*(row.tolist() for row in rows), found.tolist(), strict=True):
        if "abs" in words:
            sources = [one("abs.ftz.f32" if "ftz" in words else "abs.f32", it) for it in sources]
        assert got == one(two, one(two, *sources[:2]), sources[2])


def one(name: str, *sources: int) -> int:
    """The reference's only result."""
    found = reference.expected(name, list(sources))
    assert isinstance(found, list)
    return found[0]


@pytest.mark.parametrize("name", ["fma.rn", "fma.rz.ftz", "add.rn", "add.rp.ftz", "sub.rm", "mul.rn", "mul.rz.ftz"])
def test_pairs_of_floats(name: str) -> None:
    count = 3 if name.startswith("fma") else 2
    inputs = ", ".join(f'"l"({row}[t])' for row in "abc"[:count])
    text = (
        'extern "C" __global__ void k(const long long *a, const long long *b, const long long *c, long long *o)'
        f'{{ const int t = threadIdx.x; asm volatile("{name}.f32x2 %0, {", ".join(f"%{i + 1}" for i in range(count))};"'
        f' : "=l"(o[t]) : {inputs}); }}'
    )
    rows, found = [floats(seed, 2 * LANES) for seed in range(3)], np.zeros(LANES, np.int64)
    assert simulate(text, "k", 1, LANES, [*(row.view(np.int64) for row in rows), found], arch="sm_100a").fault is None
    for *sources, got in zip(*(row.tolist() for row in rows[:count]), found.view(np.uint32).tolist(), strict=True):
        assert [got] == reference.expected(f"{name}.f32", sources)
