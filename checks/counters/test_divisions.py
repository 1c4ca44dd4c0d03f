"""Divisions and roots of float64 are followed without their results, and counted as if with them.

Of a division of float32, the exponents tell which way it takes.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.readings.counters.divisions import FRACTIONS, STORED
from gemm_lessons import simulate
from gemm_lessons.engine import sass as machinecode
from gemm_lessons.engine.api import compile as compile_kernel
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.events import LaunchInfo
from gemm_lessons.engine.machine.memory import GlobalMemory
from gemm_lessons.engine.ptx import parser
from gemm_lessons.engine.records.launch import Buffer, Grid
from gemm_lessons.engine.records.results import Counters
from gemm_lessons.engine.sass import planning
from gemm_lessons.engine.sass import slicing as relevance
from gemm_lessons.engine.sass.divisions import DECIDED
from gemm_lessons.engine.semantics.division import takes_slow_path

KERNEL = """
extern "C" __global__ void k(const double *a, const double *b, double *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double sum = a[i] / b[i];
    if (i & 1) sum += (a[i] + 1) / sum;
    out[i] = sum;
}
"""
Counted = list[tuple[machinecode.Code, Sums, Sums]]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """For each launch: its code, and the counters with and without the fast path."""
    seen: Counted = []
    real = machinecode.count

    def count(code: machinecode.Code, *rest: Any, **named: Any) -> Sums:
        sums = real(code, *rest, **named)
        seen.append((code, sums, real(code.with_full_divisions, *rest, **named)))
        return sums

    monkeypatch.setattr(machinecode, "count", count)
    return seen


def numbers(kind: str, size: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    a, b = (np.ldexp(rng.choice([-1, 1], size) * (rng.random(size) + 1), rng.integers(-390, 390, size)) for _ in "ab")
    if kind == "zero":
        a[::3] = 0.0
        a[1::9] = -0.0
    strange = {"divisor": 0.0, "subnormal": 5e-324, "infinite": np.inf, "nan": np.nan, "tiny": 2.0**-1021}
    if kind in strange:
        b[5] = strange[kind]
    if kind == "quotient":
        a[7], b[7] = 2.0**-600, 2.0**421
    return a, b


def costs(sums: Sums) -> dict[tuple[int, str], tuple[int, ...]]:
    return {key: (it.executed, it.warps, it.lanes, it.cost, it.ideal) for key, it in sums.tallies.items()}


@pytest.mark.parametrize("kind", ["ordinary", "zero", "divisor", "subnormal", "infinite", "nan", "tiny", "quotient"])
def test_a_division_is_counted_as_if_its_quotient_were_computed(kind: str, counted: Counted) -> None:
    size = 100  # of 128 threads: those that return hold nothing
    a, b = numbers(kind, size)
    with np.errstate(all="ignore"):
        launched = simulate(KERNEL, "k", 2, 64, [a, b, np.zeros(size), size])
    assert launched.fault is None
    assert not launched.counters.inexact
    ((code, short, careful),) = counted
    assert code.plan is not None
    assert code.with_full_divisions.plan is not None
    assert sum(d.modifiers == (DECIDED,) for d in code.plan.program.code) == 2
    assert sum(code.plan.executed) < sum(code.with_full_divisions.plan.executed) - 10
    assert short.issued == careful.issued
    assert (short.ffma, short.dfma) == (careful.ffma, careful.dfma)
    assert costs(short) == costs(careful)


def test_what_is_known_is_decided_and_what_is_not_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The twin: without the careful way a strange divisor ends the count."""
    monkeypatch.setattr(machinecode, "Undecided", ZeroDivisionError)  # which nobody raises
    for kind, known in (("ordinary", True), ("zero", True), ("divisor", False), ("tiny", False)):
        a, b = numbers(kind, 64)
        with np.errstate(all="ignore"):
            launched = simulate(KERNEL.replace("if (i & 1)", "if (i < 0)"), "k", 1, 64, [a, b, np.zeros(64), 64])
        assert (not launched.counters.inexact) == known, kind
        assert known or "division near the ends" in str(launched.counters.inexact)


SINGLE = """
extern "C" __global__ void k(const float *a, const float *b, float *out)
{
    out[threadIdx.x] = a[threadIdx.x] / b[threadIdx.x];
}
"""


def test_exponents_tell_as_read_which_division_of_float32_is_slow() -> None:
    fast = np.zeros((256, 256), bool)
    for dividend, divisors in enumerate(json.loads(STORED.read_text())["fast"]):
        if divisors:
            fast[dividend, divisors[0] : divisors[1] + 1] = True
    assert fast.sum() == 44246
    a, b = np.meshgrid(*[np.arange(256, dtype=np.uint32) << np.uint32(23)] * 2, indexing="ij")
    for sign in (0, 0x80000000):
        for fraction in FRACTIONS:
            assert (takes_slow_path(a | np.uint32(sign | fraction), b | np.uint32(fraction)) == ~fast).all()


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (1, 1e-45), (1e-45, 1), (np.inf, 2), (np.nan, 1), (1e-30, 1e30)])
def test_a_slow_division_of_float32_is_counted(a: float, b: float) -> None:
    ones = np.ones(32, np.float32)
    strange = [ones.copy(), ones.copy()]
    strange[0][3], strange[1][3] = a, b
    name = "smsp__inst_executed.sum"
    usual, slow = (simulate(SINGLE, "k", 1, 32, [*pair, ones.copy()]).counters for pair in ([ones, ones], strange))
    assert not usual.inexact
    assert not slow.inexact
    assert slow[name] > usual[name] + 10


ROOTS = """
extern "C" __global__ void k(const double *a, double *out)
{
    double x = a[threadIdx.x], sum = 0;
    for (int n = 0; n < 8; n++) { sum += __dsqrt_rd(x); sum += __dsqrt_rd(x + 1); x += 0.5; }
    out[threadIdx.x] = sum;
}
"""


def compiled() -> Compiled:
    return must_compile(ROOTS, arch="sm_90")


def launched(given: np.ndarray[Any, Any]) -> Counters:
    machinecode.prepare.cache_clear()
    return simulate(ROOTS, "k", 1, 64, [given, np.zeros(64)]).counters


def test_what_a_function_gives_is_needed_only_behind_the_calls_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.linspace(-1, 50, 64)
    given[3] = 5e-324
    code = machinecode.prepare(compiled())
    assert code.plan.paired
    assert not [
        d for d, needed in zip(code.plan.program.code, code.plan.executed, strict=True) if needed and d.name == "MUFU"
    ]
    apart = launched(given)
    monkeypatch.setattr(relevance, "call_by_call", lambda program: None)
    monkeypatch.setattr(planning, "call_by_call", lambda program: None)
    together = launched(given)
    machinecode.prepare.cache_clear()
    assert not apart.inexact
    assert apart == together


def test_a_function_that_returns_elsewhere_is_not_followed() -> None:
    made = compiled()
    moves = [i for i in made.sass if re.match(r"MOV R\d+, 0x[0-9a-f]+$", i.text)]
    addresses = {i.text.rpartition(" ")[2] for i in moves}
    assert len(addresses) > 1
    first, second = (i.text.rpartition(" ")[2] for i in moves[:2])
    wrong = tuple(replace(i, text=i.text.replace(first, second)) if i is moves[0] else i for i in made.sass)
    changed = replace(made, path="changed.cu")
    vars(changed)["sass"] = wrong
    code = machinecode.prepare(changed)
    kernel = parser.parse(made.ptx).kernels["k"]
    memory = GlobalMemory([Buffer("a", np.ones(64)), Buffer("out", np.zeros(64))], [])
    parameters = np.array([a.base for a in memory.allocations], np.uint64).tobytes()
    launch = LaunchInfo(kernel, Grid((1, 1, 1), (64, 1, 1)), parameters=parameters)
    with pytest.raises(machinecode.Uncountable, match="not after the call"):
        machinecode.count(code, launch, lambda: memory)
    machinecode.count(machinecode.prepare(made), launch, lambda: memory)


def test_a_dividend_of_zero_goes_the_long_way() -> None:
    """An H200 counted 35 instructions more for each warp with one, in two public kernels."""
    single = KERNEL.replace("double", "float").replace("    if (i & 1) sum += (a[i] + 1) / sum;\n", "")
    a, b = np.ones(64, np.float32), np.full(64, 3, np.float32)
    totals = []
    for zero in ((), (7,), (7, 9), (7, 40)):
        a[list(zero)] = 0
        launched = simulate(single, "k", 1, 64, [a, b, np.zeros(64, np.float32), 64])
        assert not launched.counters.inexact
        totals.append(launched.counters["warp_instructions"])
    assert [total - totals[0] for total in totals] == [0, 35, 35, 70]


@pytest.mark.parametrize("quotient", ["n / 9.0", "9.0 / n", "n / -1e-3", "n / 9.0 * n / 7.0"])
def test_a_division_by_a_constant_may_decide_how_often_a_loop_runs(quotient: str) -> None:
    of = {"n / 9.0": lambda n: n / 9, "9.0 / n": lambda n: 9 / n, "n / -1e-3": lambda n: n / 1e-3}
    source = f"""
extern "C" __global__ void k(int *out, int first)
{{
    const double n = blockIdx.x + first;
    const int often = fabs({quotient});
    for (int i = 0; i < often; i++)
        __syncthreads();
    out[blockIdx.x] = often;
}}
"""
    out = np.zeros(12, np.int32)
    simulate(source, "k", 12, 64, [out, np.int32(3)])  # raises Disagreement if the machine code is followed wrongly
    expected = of.get(quotient, lambda n: n / 9 * n / 7)
    assert out.tolist() == [int(expected(n + 3)) for n in range(12)]


MOVED = """
extern "C" __global__ void k(const float *x, float *out)
{
    __shared__ __align__(16) float tile[32];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    unsigned bits;
    const unsigned from = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x % 8 * 4]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(bits) : "r"(from));
    out[threadIdx.x] = FUNCTION(__uint_as_float(bits));
}
"""


@pytest.mark.parametrize(("function", "slow"), [("__frcp_rn", (0.0, 1e-40, 1e38, np.inf)),
                                                ("sqrtf", (0.0, -1.0, 1e-31, np.inf)),
                                                ("1.0f / ", (0.0, 1e-40, 1e38))])  # fmt: skip
@pytest.mark.parametrize("arch", ["sm_90", "sm_120"])
def test_what_ldmatrix_moves_decides_only_slow_reciprocals_and_roots(
    function: str, slow: tuple[float, ...], arch: str
) -> None:
    """Attentions divide by sums of such values. All was counted on PTX, and there was no estimate."""
    kernel = compile_kernel(MOVED.replace("FUNCTION", function), "k", arch=arch)
    ones, out = np.full(32, 3.0, np.float32), np.zeros(32, np.float32)
    usual = kernel.launch(1, 32, [ones, out]).counters
    assert not usual.inexact
    assert kernel.estimate(1, 32, [ones, out], gpu={"sm_90": "h200", "sm_120": "rtx5090"}[arch]).time_us > 0
    for value in slow:
        strange = ones.copy()
        strange[5] = value
        found = kernel.launch(1, 32, [strange, out]).counters
        assert "a division takes its slow path" in found.inexact["smsp__inst_executed.sum"], value
