"""``a * b + c`` of ``half`` is one multiply-add where ptxas makes it one, and is rounded once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.readings.simulator import record_scaled
from checks.readings.simulator.record_fragments import fingerprint
from checks.simulator import joined
from gemm_lessons.engine.api import arguments, simulate
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.semantics.table import lookup
from gemm_lessons.engine.simulator import Simulator

SOURCE = (Path(__file__).parent / "sources" / "joining.cu").read_text()


@pytest.mark.parametrize("joins", [True, False])
def test_products_and_sums_are_rounded_as_machine_code_rounds_them(joins: bool) -> None:
    options = () if joins else ("-fmad=false",)
    compiled = must_compile(SOURCE, options=options)
    rng = np.random.default_rng(3)
    A, B, C = (rng.uniform(-2, 2, 64).astype(np.float16) for _ in range(3))
    x = rng.uniform(0, 1, 96).astype(np.float32)
    out, single = np.zeros((32, 13), np.float16), np.zeros(32, np.float32)
    device = Simulator()
    given = arguments(device.kernel(compiled), [A, B, C, out, x, single])
    launched = device.launch(compiled, Grid((1, 1, 1), (32, 1, 1)), given)
    assert launched.fault is None
    assert not launched.findings
    once = np.float64  # the product is exact
    apart = np.float16
    a, b, c, d, e = A[:32], B[:32], C[:32], A[32:], B[32:]

    def times(one: np.ndarray, other: np.ndarray, to: type = once if joins else apart) -> np.ndarray:
        return (one.astype(np.float64) * other).astype(to)

    expected = [
        times(a, b) + c, c - times(a, b), times(a, b) - c, times(a, b) + times(d, e, apart),
        times(b, c, apart), times(b, c, apart) + a, times(a, c) + b, times(a, c) - d,
        times(d, e) + times(b, d, apart), times(b, d, apart) + c,
        times(a, e, apart) + c, np.where(x[:32] > 0.5, times(b, e, apart) + c, times(b, e, apart)), times(c, e) + a,
    ]  # fmt: skip
    wrong = [n for n, values in enumerate(expected) if (values.astype(np.float16) != out[:, n]).any()]
    assert not wrong
    product = x[32:64].astype(np.float64) * x[64:]
    assert (single == ((product if joins else product.astype(np.float32)) + x[:32]).astype(np.float32)).all()
    made = [i.text for i in compiled.sass if re.match("[FH]FMA", i.opcode) and not re.search(r"RZ|, 1, 1,", i.text)]
    assert bool(made) == joins


# Of random programs. The rules have no architecture: for another one they change with the compiler alone.
COUNTS = ((100, [pytest.mark.slow]), (400, [pytest.mark.slow, pytest.mark.long]))
MORE = {"sm_80": [pytest.mark.long], "sm_90": []}
FIRST = {("f32", "sm_90"): 60, ("f16x2", "sm_90"): 30}  # without the slow tests


@pytest.mark.parametrize(
    ("kind", "arch", "count"),
    [*((*of, count) for of, count in FIRST.items()),
     *(pytest.param(kind, arch, count, marks=[*marks, *MORE[arch]]) for kind in joined.TYPES for arch in MORE
       for count, marks in COUNTS if (kind, arch) not in (("bf16", "sm_80"), ("bf16x2", "sm_80")))],
)  # fmt: skip
def test_random_programs_have_the_bits_of_their_machine_code(kind: str, arch: str, count: int) -> None:
    first = FIRST.get((kind, arch), 0) if count > 60 else 0  # those before it are another test's
    found, joins = joined.different([joined.program(seed, kind) for seed in range(first, count)], arch)
    assert not found
    assert len(joins) > (count - first) // 3


LINES = (  # products v7 = v0 * v1 and so on, one line each; what it is that a compiler leaves
    ("mul.{} v7, v0, v1;", "neg.{} v8, v7;", "add.{} v9, v8, v2;"),  # a turned product
    ("mul.{} v7, v0, v1;", "add.{} v8, v7, v2;", "mul.{} v9, v3, v4;", "add.{} v10, v7, v9;", "mul.{} v9, v8, v10;"),
    ("mul.{} v7, v0, v1;", "mov.b32 v9, v2;", "@p0 sub.{} v9, v9, v7;"),  # a sum with a guard
    ("mul.{} v7, v0, v1;", "add.{} v8, v7, v3;", "add.{} v9, v7, v2;"),  # a sum that nobody reads
)


LOOP = ("mov.u32 x, y;", "L:", "membar.gl;", "{}", "sub.s32 x, x, 1;", "setp.gt.s32 p2, x, 0;", "@p2 bra L;")


def looped(first: str, body: str, last: str = "") -> tuple[str, ...]:
    """A loop that ptxas neither unrolls nor empties."""
    return (first, "mov.b32 v9, v1;", *(line.format(body) for line in LOOP), *filter(None, [last]))


IN_BLOCKS = [  # and whether the product is joined with a sum
    (looped("mul.f32 v7, v0, 0f3F19999A;", "sub.f32 v9, v9, v7;"), True),  # by a number: in every block
    (looped("mul.f32 v7, v0, 0f3F19999A;", "sub.f32 v9, v9, v7;", "add.f32 v9, v9, v7;"), True),
    (looped("mul.f32 v7, v0, 0f3F19999A;", "sub.f32 v9, v9, v7;", "mul.f32 v9, v9, v7;"), False),
    (looped("mul.f32 v7, v0, v2;", "sub.f32 v9, v9, v7;"), False),
    (looped("mul.f32 v7, v0, 0f3F19999A;", "sub.f32 v9, v9, v7; mov.b32 v0, v9;"), True),  # v0 as it was before
    (("mul.f32 v7, v0, v1;", "mov.b32 v0, v2;", "add.f32 v9, v7, v0;"), True),
]


def test_products_by_a_number_are_joined_in_other_blocks() -> None:
    programs = [joined.Program("f32", lines, 11, ("v9",)) for lines, _ in IN_BLOCKS]
    assert joined.different(programs, "sm_90") == ([], [n for n, (_, joins) in enumerate(IN_BLOCKS) if joins])


def test_a_product_by_a_parameter_is_joined_in_a_loop() -> None:
    source = (
        'extern "C" __global__ void k(const float *x, float *y, float alpha, int n) { int i = threadIdx.x; float p = '
        'alpha * x[i], r = x[i + 32]; _Pragma("unroll 1") for (int j = 0; j < n; j++) r = fabsf(r) + p; y[i] = r; }'
    )
    x, y, alpha = np.random.default_rng(2).uniform(0.5, 2, 64).astype(np.float32), np.zeros(32, np.float32), 0.7
    assert not simulate(source, "k", 1, 32, [x, y, alpha, 3]).findings
    expected = x[32:]
    for _ in range(3):
        expected = (np.abs(expected).astype(np.float64) + np.float64(np.float32(alpha)) * x[:32]).astype(np.float32)
    assert (y == expected).all()


HALF = "0f3F000000"
POWERS = (HALF, "0f3E800000", "0f3E000000", "0f40000000", "0f40800000", "0f41000000")
SCALED = (
    *(("mul.f32 v7, v0, v1;", f"mul.f32 v9, v7, {power};") for power in POWERS),
    ("mul.f32 v7, v0, v1;", "mov.b32 v9, v2;", f"@p0 mul.rn.f32 v9, {HALF}, v7;"),
    ("mul.f32 v7, v0, v1;", f"mul.f32 v8, v7, {HALF};", f"mul.f32 v9, v8, {HALF};"),  # the second by itself
    ("mul.rn.f32 v7, v0, v1;", f"mul.f32 v9, v7, {HALF};"),  # no product that may be joined
    ("mul.f32 v7, v0, v1;", f"mul.f32 v8, v7, {HALF};", "min.f32 v9, v7, v8;"),  # used twice
    ("mul.f32 v7, v0, v1;", "mul.f32 v9, v7, 0f41800000;"),  # by 16
)


@pytest.mark.parametrize("scale", [2.0**-63, 2.0**63])
def test_a_scaled_product_is_one_instruction(scale: float) -> None:
    programs = [joined.Program("f32", lines, 11, ("v9",)) for lines in SCALED]
    assert joined.different(programs, "sm_90", scale)[0] == []


@pytest.mark.parametrize(("power", "exponents"), [*record_scaled.cases()])
def test_a_scaled_product_is_rounded_as_an_h200_rounds_it(power: str, exponents: str) -> None:
    kept = json.loads(record_scaled.KEPT.read_text())["fingerprints"]
    operation = lookup("mul", (record_scaled.INSTRUCTIONS[power].removeprefix("FMUL.").lower(), "f32"))
    assert operation is not None
    out = np.empty(record_scaled.COUNT, np.float32)
    with np.errstate(over="ignore"):
        operation.function(out, *record_scaled.factors(record_scaled.EXPONENTS[exponents]))
    assert fingerprint(out) == kept[f"{power} {exponents}"]


@pytest.mark.parametrize("size", [1.0, 1e-20, 2e19])
def test_a_scaled_product_is_rounded_once_where_it_is_tiny_or_huge(size: float) -> None:
    source = (
        'extern "C" __global__ void k(const float *x, float *y) { int i = threadIdx.x; y[i] = x[i] * x[i + 32] / 2; }'
    )
    x, y = np.random.default_rng(1).uniform(1, 1.2, 64).astype(np.float32) * np.float32(size), np.zeros(32, np.float32)
    x[::3] *= -1
    launched = simulate(source, "k", 1, 32, [x, y])
    assert not launched.findings
    assert not launched.counters.obstacle
    assert (y == (x[:32].astype(np.float64) * x[32:] * 0.5).astype(np.float32)).all()


@pytest.mark.parametrize("option", ["-G", "-fmad=false", "--ptxas-options=-O0", "--ptxas-options=--opt-level=0"])
def test_nothing_is_joined_where_ptxas_is_told_so(option: str) -> None:
    source = """
#include <cuda_fp16.h>
extern "C" __global__ void k(const float *x, float *y) {
    float p = x[threadIdx.x] * 0.6f, r = x[threadIdx.x + 32];
    _Pragma("unroll 1") for (int j = 0; j < (int)x[64]; j++) r = fabsf(r) + p;
    y[threadIdx.x] = r;
    y[threadIdx.x + 32] = x[threadIdx.x] * p * 0.5f;
    y[threadIdx.x + 64] = __half2float(__float2half(r) * __float2half(p) + __float2half(p));
}"""
    compiled = must_compile(source, options=[option])
    assert not [it.text for it in compiled.sass if re.match("[FH]FMA2? |FMUL.D2", it.text) and "RZ" not in it.text]
    kernel = Simulator().kernel(compiled)
    assert not [it.text for it in kernel.instructions if it.opcode == "fma" or "d2" in it.modifiers]


@pytest.mark.slow
@pytest.mark.parametrize("count", [100, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("kind", "scale"),
    [("f32", 1.0), ("f64", 1.0), ("bf16x2", 1.0),
     *(pytest.param(*it, marks=pytest.mark.long) for it in [("f32", 2.0**-63), ("f16", 1.0)])],
)  # fmt: skip
def test_random_programs_of_several_blocks(kind: str, scale: float, count: int) -> None:
    """Some still differ: ptxas moves what only later blocks need into them, and the product once more."""
    found, joins = joined.different([joined.spread(seed, kind) for seed in range(count)], "sm_90", scale)
    assert len(found) <= count // 100
    assert len(joins) > count // 3


@pytest.mark.parametrize("kind", ["f32", "f16x2"])
def test_each_rule_by_itself(kind: str) -> None:
    programs = [joined.Program(kind, tuple(line.format(kind) for line in lines), 11, ("v9",)) for lines in LINES]
    assert joined.different(programs, "sm_90") == ([], [*range(len(programs))])
