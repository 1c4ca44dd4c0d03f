"""Every instruction of the semantics table against a scalar reference, and against what an H200 answered.

One case per (opcode, type, modifiers): edge operands, all lanes, bit for bit. Approximate instructions are held to a
bound instead: to the reference (they are the rounded true value here) and to the hardware (``HARDWARE_BOUND``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from checks.readings import FOLDER
from checks.readings.simulator.record_semantics import fingerprint, is_approximate, key_of, modules, recordable
from checks.simulator import semantics_cases as cases
from checks.simulator import semantics_reference as reference
from checks.simulator import whole_code
from gemm_lessons import simulate
from gemm_lessons.engine.sass.operands import Uncountable
from gemm_lessons.engine.semantics import floats
from gemm_lessons.engine.semantics import table as semantics

Array = np.ndarray[Any, Any]

NEAR = {"rsqrt.approx.f64": 1}  # approximate functions that are computed otherwise: units in the last place


@cache
def hardware() -> dict[str, Any]:
    """Recorded by ``record_semantics.py``: fingerprints, and raw results (hex) of approximate instructions."""
    data: dict[str, Any] = json.loads((FOLDER / "simulator" / "semantics_h200.json").read_text())
    return data


RECORD = "python -m checks.readings.simulator.record_semantics out.npz, on a machine with a GPU; then --keep out.npz"


def reading(name: str, results: int) -> Any:
    """The stored answer of an H200, None if the instruction is in ``UNRECORDED``. Raises ``AssertionError`` if it is in
    neither."""
    kept = hardware()["approximate" if is_approximate(name) else "results"].get(key_of(name, results))
    known = kept is not None or name in cases.UNRECORDED
    assert known, f"no GPU has answered it: enter it in semantics_cases.UNRECORDED, or run {RECORD}"
    return kept


def ulp(value: float, code: str) -> float:
    """Distance between neighbours of ``value`` in the format."""
    exponent_bits, fraction_bits = reference.FORMATS[code]
    lowest = 2 - (1 << (exponent_bits - 1))
    exponent = max(math.frexp(value)[1] - 1, lowest) if value else lowest
    return math.ldexp(1.0, exponent - fraction_bits)


def near(bits: int, value: float, code: str, ulps: int, absolute: float = 0.0) -> bool:
    """Whether a result is that close to a value; infinities and signs of zeros must be the same."""
    got = reference.as_float(reference.decode(bits, code))
    if got != got or value != value:
        return got != got and value != value
    largest = reference.as_float(reference.decode(reference.infinity(code, False) - 1, code))
    if abs(value) > largest + ulp(largest, code) / 2 or math.isinf(got):
        return abs(value) >= largest and abs(got) >= largest and (got > 0) == (value > 0)
    if value == 0 and absolute == 0:
        return got == 0 and math.copysign(1, got) == math.copysign(1, value)
    return abs(got - value) <= max(ulps * ulp(value, code), absolute)


def matches(got: int, want: Any) -> bool:
    if isinstance(want, reference.Approximately):
        return near(got, want.value, want.code, want.ulps, want.absolute)
    if isinstance(want, reference.Halves):
        return matches(got & 0xFFFF, want.low) and matches(got >> 16, want.high)
    return bool([got] == want)


CASES = cases.every_case()


def of_opcode(opcode: str) -> list[tuple[str, int]]:
    return [case for case in CASES if case[0].split(".")[0] == opcode]


def wrong_ones(some: list[tuple[str, int]], check: Callable[[str, int], None]) -> list[str]:
    """Every case that fails, with the first line of what it says: one test for an opcode, not for each of 4,900."""
    found = []
    for name, results in some:
        try:
            check(name, results)
        except AssertionError as error:
            found.append(f"{name} ({results} results): {(str(error).splitlines() or ['?'])[0]}")
    return found


OPCODES = sorted({name.split(".")[0] for name, _ in CASES})
each_opcode = pytest.mark.parametrize("opcode", OPCODES)


@each_opcode
def test_instructions(opcode: str) -> None:
    assert wrong_ones(of_opcode(opcode), check_instruction) == []


@pytest.mark.slow
@pytest.mark.long
@each_opcode
def test_the_reference_in_every_lane(opcode: str) -> None:
    assert wrong_ones(of_opcode(opcode), partial(check_instruction, every=1)) == []


def check_instruction(name: str, results: int, every: int = 4) -> None:
    """In all lanes against the GPU, if it was recorded; then the reference need not look at all of them, too."""
    operation = cases.operation_of(name, results)
    rows = cases.operands(name, operation)
    got = cases.run(operation, cases.views(operation, rows))
    proven = recordable(name) and not is_approximate(name)
    step = every if proven and fingerprint(got) == reading(name, results) else 1
    sources = list(zip(*(np.broadcast_to(row, cases.LANES).tolist() for row in rows), strict=True))
    answers = list(zip(*(g.tolist() for g in got), strict=True))
    for lane in range(len(name) % step, cases.LANES, step):
        answer, raw = answers[lane], sources[lane]
        want = reference.expected(name, [int(x) for x in raw], results)
        ok = matches(int(answer[0]), want) if len(answer) == 1 else [int(x) for x in answer] == want
        assert ok, f"lane {lane}: {[hex(x) for x in raw]} gave {[hex(x) for x in answer]}, not {want}"
    if recordable(name) and reading(name, results) is not None:
        compare_with_hardware(name, results, operation, got)


def compare_with_hardware(name: str, results: int, operation: semantics.Operation, got: list[Array]) -> None:
    if not is_approximate(name):
        assert fingerprint(got) == reading(name, results), "not what an H200 answered"
        return
    recorded = np.frombuffer(bytes.fromhex(reading(name, results)), got[0].dtype)
    ours, theirs = got[0].view(f"u{recorded.itemsize}").tolist(), recorded.view(f"u{recorded.itemsize}").tolist()
    if name not in NEAR:
        assert ours == theirs, "not what an H200 answered"
        return
    for mine, its in zip(ours, theirs, strict=True):
        value = reference.as_float(reference.decode(its, operation.result[0]))
        assert near(mine, value, operation.result[0], NEAR[name], 1e-300), (hex(mine), hex(its))


EVERY_SEVENTH = frozenset(CASES[::7])


@each_opcode
def test_aliased_and_scalar_operands(opcode: str) -> None:
    """A result may overwrite any of its sources, and any source may be one NumPy scalar for all lanes."""
    assert wrong_ones([case for case in of_opcode(opcode) if case in EVERY_SEVENTH], check_aliased) == []


def check_aliased(name: str, results: int) -> None:
    operation = cases.operation_of(name, results)
    rows = cases.operands(name, operation)
    views = cases.views(operation, rows)
    plain = cases.run(operation, views)
    dtypes = cases.result_dtypes(operation)
    for i, view in enumerate(views):
        if len(dtypes) == 1 and view.shape and view.dtype.itemsize == np.dtype(dtypes[0]).itemsize:
            copies = [np.array(v) if v.shape else v for v in views]
            with semantics.float_state():
                operation.function(copies[i].view(dtypes[0]), *copies)
            assert np.array_equal(copies[i].view(plain[0].dtype), plain[0]), f"source {i} overwritten"
    for lane in (3, 10, 17):
        scalars = [view[lane] if view.shape else view for view in views]
        everywhere = cases.run(operation, scalars)
        for out, full in zip(everywhere, plain, strict=True):
            assert (out == full[lane]).all()
        for i, scalar in enumerate(scalars):
            mixed = [*views[:i], scalar, *views[i + 1 :]]
            filled = [*views[:i], np.full(cases.LANES, scalar), *views[i + 1 :]]
            if name != "lop3.b32":
                assert all(map(np.array_equal, cases.run(operation, mixed), cases.run(operation, filled)))


@pytest.mark.parametrize("opcode", [opcode for opcode in OPCODES if not opcode.startswith("set")])
def test_ordinary_operands_alone(opcode: str) -> None:
    """No NaN, infinity or extreme exponent in any lane: the short cuts that need that must give the same."""
    assert wrong_ones(of_opcode(opcode), check_ordinary) == []


def check_ordinary(name: str, results: int) -> None:
    operation = cases.operation_of(name, results)
    views = cases.views(operation, cases.operands(name, operation))
    lanes = [lane for lane in range(136, cases.LANES) if lane % 4 != 3]
    everything = cases.run(operation, views)
    alone = cases.run(operation, [view[lanes] if view.shape else view for view in views], len(lanes))
    same = all(np.array_equal(part, whole[lanes]) for part, whole in zip(alone, everything, strict=True))
    assert same, "another answer than among extreme operands"


def test_every_instruction_has_a_case_and_a_reading() -> None:
    covered = {name for name, _ in CASES}
    assert covered == set(semantics.supported())
    readings = hardware()["results"].keys() | hardware()["approximate"].keys()
    wanted = {key_of(name, n): name for name, n in CASES if recordable(name)}
    assert readings <= wanted.keys()
    assert {wanted[key] for key in wanted.keys() - readings} == set(cases.UNRECORDED), f"to record them: {RECORD}"


@pytest.mark.parametrize("name", cases.UNRECORDED)
def test_unrecorded(name: str) -> None:
    """Skipped for lack of an answer of hardware, so that the report shows how many there are."""
    assert any(name == one for _, part in modules() for _, one, _ in part), "the recorder does not ask for it"
    count = len(cases.UNRECORDED)
    pytest.skip(f"unrecorded: no GPU has answered {name} ({count} of {len(CASES):,} instructions). {RECORD}")


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_what_is_unrecorded_is_what_its_machine_code_does(arch: str) -> None:
    chosen = [case for case in CASES if case[0] in cases.UNRECORDED]
    for code, part in whole_code.modules(chosen, arch):
        for (name, results), entry in part.items():
            operation = cases.operation_of(name, results)
            mine = cases.run(operation, cases.views(operation, cases.operands(name, operation)))
            try:
                found = whole_code.answer(code, entry, name, results)
            except Uncountable as obstacle:
                pytest.skip(f"{name}: {obstacle}")
            if is_approximate(name):
                continue  # its last bits are the table's on both sides
            for got, want in zip(mine, found, strict=True):
                assert got.tolist() == want.tolist(), name


def test_an_instruction_without_a_reading_says_what_to_do() -> None:
    with pytest.raises(AssertionError, match=r"no GPU has answered it: enter it in semantics_cases.UNRECORDED, or run"):
        reading("popc.b32", 7)
    assert reading("popc.b32", 1) == hardware()["results"]["popc.b32"]


@pytest.mark.parametrize(
    ("base", "offset"), [(3, 1), (3, -1), (2, 1), (2, -1), (3, 0), (2, 0), (9, 3), (9, -3), (0, 17)]
)
def test_the_nth_set_bit_in_a_kernel(base: int, offset: int) -> None:
    """The first four are the examples of the PTX manual."""
    source = (
        "__global__ void k(unsigned *y, unsigned m, int b, int n)"
        " { y[threadIdx.x] = __fns(m, b, n - (int)threadIdx.x); }"
    )
    y = np.zeros(2, np.uint32)
    launched = simulate(source, "k", 1, 2, [y, 0xAAAAAAAA, base, offset])
    assert launched.fault is None
    assert y.tolist() == [reference.nth_set_bit(0xAAAAAAAA, base, (offset - t) & 0xFFFFFFFF) for t in (0, 1)]
    known = {(3, 1): 3, (3, -1): 3, (2, 1): 3, (2, -1): 1}
    assert y[0] == known.get((base, offset), y[0])


def test_unknown_instructions_have_no_operation() -> None:
    assert semantics.lookup("add", ("q32",)) is None
    assert semantics.lookup("tex", ()) is None
    assert semantics.lookup("add", ("s32",), results=2) is None


def test_every_lookup_table_of_lop3() -> None:
    operation = cases.operation_of("lop3.b32", 1)
    rows = [cases.operand("b32", i, 3, 5) for i in range(3)]
    for table in range(256):
        (got,) = cases.run(operation, [*rows, np.uint32(table)])
        want = [
            reference.bitwise("lop3", ["b32"], [int(x), int(y), int(z), table]) for x, y, z in zip(*rows, strict=True)
        ]
        assert got.tolist() == want


# ---- fused multiply-add: operands made to be rounded twice ----


def floats_of(seed: int, count: int, lowest: int, highest: int) -> Array:
    """float32 with biased exponents in [lowest, highest), every other one with few significant bits."""
    random = cases.stream(seed, 3 * count).reshape(3, count)
    fraction = random[0] & np.uint64(0x7FFFFF)
    keep = random[1] % np.uint64(24)
    fraction = np.where(random[1] >> np.uint64(40) & np.uint64(1), fraction >> keep << keep, fraction)
    exponent = np.uint64(lowest) + random[2] % np.uint64(highest - lowest)
    sign = random[2] >> np.uint64(63)
    return (sign << np.uint64(31) | exponent << np.uint64(23) | fraction).astype(np.uint32).view(np.float32)


def triples(seed: int, count: int) -> list[tuple[Array, Array, Array]]:
    def some(i: int, low: int, high: int) -> Array:
        return floats_of(seed * 100 + i, count, low, high)

    a, b = some(0, 120, 130), some(1, 120, 130)
    with np.errstate(all="ignore"):
        cancelling = -(a.astype(np.float64) * b.astype(np.float64)).astype(np.float32)
    ties = some(2, 120, 150)
    # c so much smaller than the product that only its sign matters, and the product half way between two float32.
    odd = (some(3, 127, 128).view(np.uint32) | np.uint32(1)).view(np.float32)
    three_halves = np.full(count, 1.5, np.float32)
    return [
        (some(4, 0, 255), some(5, 0, 255), some(6, 0, 255)),
        (a, b, cancelling),
        (a, b, ties),
        (odd, three_halves, some(7, 20, 100)),
        (odd, three_halves, some(8, 0, 2)),
        (some(9, 40, 80), some(10, 25, 70), some(11, 0, 4)),  # subnormal results
        (some(12, 180, 200), some(13, 180, 200), some(14, 250, 255)),  # overflow
    ]


def exact_fma(a: int, b: int, c: int) -> int:
    return reference.arithmetic("fma", "f32", "rn", False, [a, b, c])


def check_fma(seed: int, count: int) -> int:
    """Compare with exact arithmetic; how many lanes rounding twice would have got wrong."""
    caught = 0
    operation = cases.operation_of("fma.rn.f32", 1)
    for a, b, c in triples(seed, count):
        (got,) = cases.run(operation, [a, b, c], count)
        bits = [x.view(np.uint32).tolist() for x in (a, b, c)]
        want = np.array([exact_fma(*lane) for lane in zip(*bits, strict=True)], np.uint32)
        assert np.array_equal(got, want)
        with np.errstate(all="ignore"):
            twice = (a.astype(np.float64) * b.astype(np.float64) + c).astype(np.float32)
        caught += int(np.count_nonzero((twice.view(np.uint32) != want) & ~np.isnan(twice)))
    return caught


def test_fma_is_rounded_once() -> None:
    assert check_fma(1, 3000) > 100, "the operands do not show the difference"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.long)])
def test_fma_is_rounded_once_many_times(seed: int) -> None:
    reference.decode.cache_clear()
    assert check_fma(seed, 10_000) > 160


def test_fix_double_rounding_in_batches() -> None:
    """As the machine uses it: many rows at once, preallocated scratch, under one floating-point state."""
    parts = triples(8, 2000)
    a, b, c = (np.stack(x) for x in zip(*parts, strict=True))
    scratch = np.empty(a.shape, np.int64)
    with semantics.float_state():
        p = a.astype(np.float64) * b.astype(np.float64)
        s = p + c
        result = np.empty_like(c)
        floats.UNDERFLOW.seen = False
        np.copyto(result, s, casting="unsafe")
        before = result.copy()
        semantics.fix_double_rounding(p, c, s, result, scratch)
    want = [[exact_fma(*lane) for lane in zip(*(x[i].view(np.uint32).tolist() for x in (a, b, c)), strict=True)]
            for i in range(len(a))]  # fmt: skip
    finite = ~np.isnan(result)
    assert np.array_equal(result.view(np.uint32)[finite], np.array(want, np.uint32)[finite])
    assert np.count_nonzero((before != result) & finite) > 100


def test_fix_double_rounding_leaves_easy_sums_alone() -> None:
    p = np.linspace(1, 2, 1024)
    c = np.ones(1024, np.float32)
    s = p + c
    result = s.astype(np.float32)
    kept = s.copy(), result.copy()
    floats.UNDERFLOW.seen = False
    semantics.fix_double_rounding(p, c, s, result)
    assert np.array_equal(s, kept[0])
    assert np.array_equal(result, kept[1])


def test_underflow_is_noted_by_a_cast() -> None:
    """The detection of subnormal results depends on this."""
    for value, tiny in ((2.0**-130 * 1.0000001, True), (2.0**-130, False), (1.5, False), (0.0, False)):
        with semantics.float_state():
            floats.UNDERFLOW.seen = False
            np.copyto(np.empty(64, np.float32), np.full(64, value), casting="unsafe")
            assert floats.UNDERFLOW.seen is tiny


def test_double_fma_at_extreme_exponents() -> None:
    random = cases.stream(77, 3 * 600).reshape(3, 600)
    rows = [r.copy() for r in random]
    rows[2][::2] = (-(rows[0].view(np.float64) * 0.5)).view(np.uint64)[::2]
    rows[1][::2] = np.array(0.5).view(np.uint64)
    rows[2][1::2] &= np.uint64(0x801FFFFFFFFFFFFF)  # tiny addends
    (got,) = cases.run(cases.operation_of("fma.rn.f64", 1), [r.view(np.float64) for r in rows], 600)
    want = [
        reference.arithmetic("fma", "f64", "rn", False, list(x)) for x in zip(*(r.tolist() for r in rows), strict=True)
    ]
    assert got.tolist() == want


def test_double_fma_halfway() -> None:
    """Sums that are halfway between two float64 but for something tiny, more lanes than are worked on at once."""
    count = 3000
    random = cases.stream(78, 4 * count).reshape(4, count)
    fraction = np.uint64((1 << 52) - 1)
    one = np.uint64(1023 << 52)
    c = (random[0] & fraction | one).view(np.float64)  # in [1, 2): halves are multiples of 2**-53
    a = (random[1] & fraction | one).view(np.float64)
    b = 1 / a  # the product is 1 but for less than 2**-53
    a = np.ldexp(a, np.where(random[2] & np.uint64(1), -53, -54)) * (random[3] & np.uint64(3)).astype(np.float64)
    rows = [a, b, np.where(random[2] >> np.uint64(9) & np.uint64(1), c, -c)]
    (got,) = cases.run(cases.operation_of("fma.rn.f64", 1), rows, count)
    bits = [row.view(np.uint64).tolist() for row in rows]
    want = [reference.arithmetic("fma", "f64", "rn", False, list(x)) for x in zip(*bits, strict=True)]
    assert got.tolist() == want
    naive = (rows[0] * rows[1] + rows[2]).view(np.uint64)
    assert np.count_nonzero(naive != got) > 100
    scalar = cases.run(cases.operation_of("fma.rn.f64", 1), [rows[0], np.float64(1.5), rows[2]], count)
    filled = cases.run(cases.operation_of("fma.rn.f64", 1), [rows[0], np.full(count, 1.5), rows[2]], count)
    assert np.array_equal(scalar[0], filled[0])


def test_reference_rounds_like_python() -> None:
    """The reference's own rounding, checked on what Python rounds correctly by itself."""
    for numerator in (1, 3, 2**53 + 1, 2**54 + 2, 10**40 + 1, 7):
        for denominator in (1, 3, 10**25, 2**1074, 2**1075, 2**1060 + 1):
            bits = reference.encode(Fraction(numerator, denominator), "f64")
            assert np.uint64(bits).view(np.float64) == numerator / denominator
