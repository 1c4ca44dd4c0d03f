"""Every form of machine instruction against the PTX it was made of and against what a GPU answered."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from checks.simulator import machine_forms as forms
from checks.simulator import semantics_cases as cases
from gemm_lessons import simulate
from gemm_lessons.engine.compiler.sass import SassInstruction, width_of
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.sass import Uncountable, conversions, floats, functions, integers
from gemm_lessons.engine.sass import cross_lane as exchange
from gemm_lessons.engine.sass.flow import reads, results
from gemm_lessons.engine.sass.lanes import Geometry, Lanes
from gemm_lessons.engine.sass.operands import Decoded, decode
from gemm_lessons.engine.semantics.floats import float_state

RULES = {**integers.TABLE, **floats.TABLE, **conversions.TABLE, **functions.TABLE}
UNFOLLOWED_FORMS = {"HMMA.16816.F32", "HMMA.1688.F32"}


def decoded(text: str) -> Decoded:
    opcode = re.sub(r"^@\S+ ", "", text).split()[0]
    return decode(0, SassInstruction(opcode, width_of(opcode), "", None, 0, 0, text))


def lanes(**registers: Any) -> Lanes:
    made = Lanes(Geometry(Grid((1, 1, 1), (32, 1, 1)), 0, 1), {0: bytes(range(256)) * 4})
    for name, value in registers.items():
        row = np.atleast_1d(np.array(value))
        made.registers[name] = row if row.dtype == np.bool_ else row.astype(np.int64).astype(np.uint32)
    return made


def values_of(text: str, **registers: Any) -> list[Any]:
    """The values that an instruction writes: for each register a list by lane."""
    d = decoded(text)
    names, _ = results(d)
    reader = lanes(**registers)
    with float_state():
        if d.name in RULES:
            found = RULES[d.name](reader.sources(d))()
        else:
            found = exchange.TABLE[d.name](reader, lambda: np.ones(32, np.bool_), d)()
    assert len(found) == len(names)
    return [np.atleast_1d(value).tolist() for value in found]


# -- against PTX and hardware ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def covered() -> dict[str, set[str]]:
    """The forms that tests of this file have compared, by architecture."""
    return {}


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100", "sm_120"])
def test_machine_code_gives_what_hardware_gave(arch: str, covered: dict[str, set[str]]) -> None:
    chosen = [(name, count) for name, count in forms.kept()["cases"][arch if arch == "sm_75" else "sm_90"]]
    known = covered.setdefault(arch, set())
    for case, made, problem in forms.proved(chosen, arch):
        assert not problem, f"{case}: {problem}"
        known |= made


@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_90", "sm_100", "sm_120"])
def test_both_engines_agree_on_kernels(arch: str, covered: dict[str, set[str]]) -> None:
    code = forms.kernels(arch)
    for entry in code.kernels:
        problem = forms.disagreement(arch, entry)
        assert not problem, f"{entry}: {problem}"
        covered.setdefault(arch, set()).update(code.forms(entry))


def test_every_form_seen_in_the_suite_is_tested(covered: dict[str, set[str]]) -> None:
    """Or moves data, which the suite's own counts test, or is refused. Uniform twins share their rules."""
    if len(covered) < 5:
        pytest.skip("needs the tests above")
    tested = set().union(*covered.values())
    tested |= {"U" + form for form in tested}
    left = set()
    for form in forms.kept()["seen"]:
        name = form.split(".")[0]
        if form not in tested and name not in forms.FOLLOWED:
            left.add(form)
    assert left == UNFOLLOWED_FORMS | {"P2R"}, left  # P2R: below


def test_hardware_answers_are_those_of_the_simulator() -> None:
    """The kernels of machine_forms.cu, run on a GPU: fingerprints of all their answers."""
    kept = forms.kept().get("hardware")
    if kept is None:
        pytest.skip("not recorded")
    got = {entry: forms.fingerprint("sm_90", entry) for entry in forms.kernels("sm_90").kernels}
    assert got == kept


# -- what is not known is refused --------------------------------------------------------------------------------------

EXAMPLES = (
    "IADD3 R0, P0, R1, R2, R3", "IADD3.X R0, R1, R2, R3, P0, !PT", "VIADD R0, R1, R2", "IMAD R0, R1, R2, R3",
    "IMAD.WIDE.U32 R4, R1, R2, R6", "IMAD.HI.U32 R0, R1, R2, R4", "IMAD.X R0, R1, R2, R3, P0",
    "LEA R0, P0, R1, R2, 0x2", "LEA.HI.X.SX32 R0, R1, R2, 0x2, P0", "LEA.HI R0, R1, R2, R3, 0x2",
    "LOP3.LUT R0, R1, R2, R3, 0x96, !PT", "PLOP3.LUT P0, PT, P1, P2, PT, 0x80, 0x0", "SHF.L.U32 R0, R1, R2, RZ",
    "SHF.R.S64 R0, R1, R2, R3", "ISETP.GE.AND P0, PT, R0, R1, PT", "ISETP.GE.U32.AND.EX P0, PT, R0, R1, PT, P1",
    "SEL R0, R1, R2, P0", "VIMNMX.U32 R0, R1, R2, PT", "IMNMX R0, R1, R2, PT", "VIADDMNMX R0, R1, R2, R3, PT",
    "VIMNMX3 R0, R1, R2, R3, PT",
    "IABS R0, R1", "PRMT R0, R1, R2, R3", "POPC R0, R1", "FLO.U32 R0, R1", "BREV R0, R1", "BMSK R0, R1, R2",
    "SGXT R0, R1, R2", "VABSDIFF R0, R1, R2, R3", "IDP.4A.S8.U8 R0, R1, R2, R3", "MOV R0, R1", "FADD.FTZ R0, R1, R2",
    "FMUL R0, R1, R2", "FFMA R0, R1, R2, R3", "FMNMX R0, R1, R2, PT", "FSEL R0, R1, R2, P0",
    "FSETP.GT.AND P0, PT, R1, R2, PT", "FSET.BF.GT.AND R0, R1, R2, PT", "FCHK P0, R1, R2", "DADD R0, R2, R4",
    "DFMA R0, R2, R4, R6", "DSETP.GT.AND P0, PT, R2, R4, PT", "HADD2 R0, R1, R2", "HFMA2.MMA R0, R1, R2, R3",
    "HMNMX2 R0, R1, R2, PT", "HSET2.BF.GT.AND R0, R1, R2, PT", "HSETP2.GT.AND P0, PT, R1, R2, PT", "I2F.RP R0, R1",
    "F2I.TRUNC.NTZ R0, R1", "F2F.F32.F64 R0, R2", "FRND R0, R1", "F2FP.F16.F32.PACK_AB R0, R1, R2",
    "I2I.S8.S32.SAT R0, R1", "MUFU.RCP R0, R1", "S2R R0, SR_TID.X", "LDC R0, c[0x0][0x10]", "P2R R0, PR, RZ, 0x7f",
    "R2P PR, R0, 0x7f", "R2UR UR4, R0", "VOTE.ANY R0, PT, P0", "SHFL.IDX PT, R0, R1, R2, R3", "REDUX.SUM UR4, R0",
    "MATCH.ANY R0, R1",
)  # fmt: skip


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_unknown_modifier_or_operand_is_refused(text: str) -> None:
    registers: dict[str, Any] = {f"R{i}": 0x3F800000 + i for i in range(8)} | {f"P{i}": i % 2 == 0 for i in range(3)}
    values_of(text, **registers)
    opcode, _, operands = text.partition(" ")
    for wrong in (f"{opcode}.XYZ {operands}", f"{text}, R7", f"{text}, P2"):
        with pytest.raises(Uncountable):
            values_of(wrong, **registers)


@pytest.mark.parametrize(
    "text",
    [
        "IADD3 R0, |R1|, R2, R3", "IADD3.X R0, -R1, R2, R3, P0, !PT", "LEA.HI R0, -R1, R2, R3, 0x2",
        "IMAD.WIDE R4, -R1, R2, R6", "IMAD.WIDE R4, R1, R2, 0x5", "SHF.L.U32 R0, -R1, R2, RZ",
        "IADD3 R0, R1.H1, R2, R3", "FSEL R0, R1, +QNAN, P0", "DADD R0, R2, +QNAN", "FADD R0, R1.H0_H0, R2",
        "F2I.TRUNC R0, R1", "PRMT R0, -R1, R2, R3", "FMNMX.XORSIGN R0, R1, R2, PT", "MOV R0, c[0x0][0x10].H0_H0",
        "MOV R0, 1.5", "FADD R0, R1, ~R2", "MUFU.XYZ R0, R1", "ISETP.GE.AND P0, PT, -R0, R1, PT",
        "FADD R0, c[0x0][0xffff], R1", "FRND.F64.FTZ R0, R2",
    ],
)  # fmt: skip
def test_an_operand_whose_meaning_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(Uncountable):
        values_of(text, P0=True, **{f"R{i}": i for i in range(8)})


@pytest.mark.parametrize("text", ["LDG.E.ENL2.256 R0, [R2.64]", "STS.XYZ [R2], R0", "RED.E.ADD.F8x4 [R2.64], R0"])
def test_an_unknown_memory_instruction_is_refused(text: str) -> None:
    with pytest.raises(Uncountable):
        results(decoded(text))


# -- pairs of registers, since compute capability 10 ------------------------------------------------------------------

PAIRED = """
extern "C" __global__ void k(int *places, const unsigned long long *x, long long m)
{
    const int t = threadIdx.x;
    const long long a = x[t], b = x[t + 64], c = x[t + 128];
    unsigned __int128 sum = (unsigned __int128)a + b, rest = (unsigned __int128)a - b;
    sum += (unsigned __int128)m << 64 | c;
    rest -= c;
    const long long all[] = {a - b, a > b ? a : b, a < m ? 3 : 4, a + 5, -a, a != b, min(a, m), a * b + m,
                             (long long)sum, (long long)(sum >> 64), (long long)(rest >> 64), a + 0x90000000ll,
                             a - 0x90000000ll, a + 0x7012345678ll,
                             (unsigned long long)a >= (unsigned long long)b ? a + 7 : c};
    for (int i = 0; i < sizeof(all) / sizeof(*all); i++)
        places[i * 16384 + t * 256 + ((all[i] ^ all[i] >> 31 ^ all[i] >> 57) & 255)] = 1;
}
"""


@pytest.mark.parametrize("arch", ["sm_90", "sm_100", "sm_120"])
def test_pairs_are_added_compared_and_chosen(arch: str) -> None:
    """Where each thread stores depends on every bit, and the machine code must store where the PTX does."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 1 << 64, 192, np.uint64)
    x[::7], x[3::11], x[5::13] = 0, 1 << 63, 0x90000000
    launched = simulate(PAIRED, "k", 1, 64, [np.zeros(15 * 16384, np.int32), x, np.int64(0x123456789)], arch=arch)
    assert launched.fault is None
    assert launched.counters.obstacle == ""
    assert not launched.counters.inexact


def test_pairs_carry() -> None:
    """-b is ~b + 1, so that subtracting 0 carries, too; an immediate has the sign or the upper half that is written."""
    held = {"R2": 5, "R3": 0x80000000, "R4": 0, "R5": 0, "R6": 7, "R7": 0x80000000}
    assert values_of("IADD.64 RZ, P0, R2, -R4", **held) == [[5], [0x80000000], [True]]
    assert values_of("IADD.64 RZ, P0, R2, R6", **held) == [[12], [0], [True]]
    assert values_of("IADD.64.X R8, R2, ~R6, P1", P1=True, **held) == [[0xFFFFFFFE], [0xFFFFFFFF]]
    assert values_of("IADD.64 R8, R4, -0x90000000", **held) == [[0x70000000], [0xFFFFFFFF]]
    assert values_of("IADD.64 R8, R4, 0x90000000", **held) == [[0x90000000], [0]]
    assert values_of("UMOV.64 UR8, 0x7f70000000") == [[0x70000000], [0x7F]]
    assert values_of("IADD.X R0, ~R2, R6, P1", P1=True, **held) == [[2]]
    for text in (
        "IADD.64 R8, |R2|, R4",
        "IMNMX.S64 P0, PT, R8, R2, R4, PT, !PT",
        "IMNMX.S64 PT, PT, R8, R2, R4, PT, P1",
    ):
        with pytest.raises(Uncountable):
            values_of(text, **held)


# -- operands that compilers rarely write ------------------------------------------------------------------------------

WORDS = [0, 1, 2, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678]


@pytest.mark.parametrize("a", WORDS)
@pytest.mark.parametrize("b", WORDS)
def test_sums_carry(a: int, b: int) -> None:
    """Minus is ~x + 1: subtracting 0 carries. Two carries come out of three summands."""
    full = 1 << 32
    held = {"R1": a, "R2": b, "R3": 0xFFFFFFFE}
    assert values_of("IADD3 R0, P0, R1, R2, RZ", **held) == [[(a + b) % full], [a + b >= full]]
    assert values_of("IADD3 R0, P0, R1, -R2, RZ", **held) == [[(a - b) % full], [a >= b]]
    total = a + b + 0xFFFFFFFE
    assert values_of("IADD3 R0, P0, P1, R1, R2, R3", **held) == [[total % full], [total >= full], [total >= 2 * full]]
    total = a + (~b % full) + 1
    assert values_of("IADD3.X R0, P0, R1, ~R2, RZ, P2, !PT", P2=True, **held) == [[total % full], [total >= full]]
    constant = int.from_bytes(bytes(range(16, 20)), "little")
    total = a + (~constant % full) + 1
    assert values_of("IADD3 R0, P0, R1, -c[0x0][0x10], RZ", **held) == [[total % full], [total >= full]]
    total = (a << 4) % full + b
    assert values_of("LEA R0, P0, R1, R2, 0x4", **held) == [[total % full], [total >= full]]
    total = (~(a << 4) % full) + 1 + b
    assert values_of("LEA R0, P0, -R1, R2, 0x4", **held) == [[total % full], [total >= full]]
    total = ((b << 32 | a) << 3 >> 32) % full + 0xFFFFFFFE + 1
    assert values_of("LEA.HI.X R0, R1, R3, R2, 0x3, P2", P2=True, **held) == [[total % full]]
    product = a * b + (5 << 32 | 7)
    held |= {"R4": 7, "R5": 5}
    found = values_of("IMAD.WIDE.U32.X R6, P0, R1, R2, R4, P2", P2=True, **held)
    assert found == [[(product + 1) % full], [(product + 1) // full % full], [product + 1 >= full * full]]


@pytest.mark.parametrize("a", WORDS)
@pytest.mark.parametrize("c", WORDS)
def test_extremes_of_three(a: int, c: int) -> None:
    held = {"R1": a, "R2": 3, "R3": c}
    signed = [value - (value >> 31 << 32) for value in (a, 3, c)]
    assert values_of("VIMNMX3 R0, R1, R2, R3, PT", **held) == [[min(signed) % (1 << 32)]]
    assert values_of("VIMNMX3 R0, R1, R2, R3, !PT", **held) == [[max(signed) % (1 << 32)]]
    assert values_of("VIMNMX3.U32 R0, R1, R2, R3, PT", **held) == [[min(a, 3, c)]]
    assert values_of("VIMNMX3.U32 R0, R1, R2, R3, !PT", **held) == [[max(a, 3, c)]]
    assert values_of("VIMNMX3.RELU R0, R1, R2, R3, PT", **held) == [[max(min(signed), 0)]]


@pytest.mark.parametrize("divisor", [180.0, -3.0, 2.5e300, 0.7])
def test_a_reciprocal_of_a_float64_that_is_written_out(divisor: float) -> None:
    """The literal is the float64, of which the instruction takes the upper half."""
    upper = int(np.array([divisor]).view(np.uint64)[0] >> np.uint64(32))
    for name in ("RCP64H", "RSQ64H")[: 1 + (divisor > 0)]:
        assert values_of(f"MUFU.{name} R3, {divisor!r}") == values_of(f"MUFU.{name} R3, R1", R1=upper)


@pytest.mark.counted
@pytest.mark.parametrize("divisor", ["180.0", "-7.0", "0.3"])
def test_addresses_that_depend_on_a_float64_over_a_number(divisor: str) -> None:
    source = f"""
    __global__ void k(const double *x, const int *table, int *y) {{
        y[threadIdx.x] = table[(int)fabs(x[threadIdx.x] / {divisor}) & 63];
    }}"""
    x = np.random.default_rng(4).uniform(-8000, 8000, 64)
    table, y = np.arange(64, dtype=np.int32)[::-1].copy(), np.zeros(64, np.int32)
    got = simulate(source, "k", 1, 64, [x, table, y])
    assert y.tolist() == table[np.abs(x / float(divisor)).astype(np.int64) & 63].tolist()
    assert not got.counters.inexact


@pytest.mark.counted
def test_addresses_of_three_minima_are_counted() -> None:
    """The machine code has one instruction for both minima; the addresses must be those of the PTX."""
    source = """
    __global__ void k(const int *x, int *y) {
        int i = threadIdx.x;
        y[i] = x[min(min(x[i], x[i + 32]), x[i + 64]) & 31] + x[max(max(x[i], x[i + 32]), x[i + 64]) & 31];
    }"""
    x = np.random.default_rng(3).integers(-1000, 1000, 96).astype(np.int32)
    y = np.zeros(32, np.int32)
    got = simulate(source, "k", 1, 32, [x, y])
    low, high = x.reshape(3, 32).min(0), x.reshape(3, 32).max(0)
    assert y.tolist() == (x[low & 31] + x[high & 31]).tolist()
    assert not got.counters.inexact


def test_packed_predicates() -> None:
    held = {"P0": True, "P1": False, "P2": True}
    assert values_of("P2R R0, PR, R1, 0x7", R1=0xFFFFFFFF, **held) == [[0xFFFFFFFD]]
    assert values_of("P2R.B2 R0, PR, R1, 0x7", R1=0x11111111, **held) == [[0x11151111]]
    assert values_of("R2P PR, R1.B1, 0x6", R1=0x0400) == [[False], [True]]


def test_uniform_registers_take_one_value_a_warp() -> None:
    assert values_of("R2UR UR4, R1", R1=[7] * 32) == [[7] * 32]
    with pytest.raises(Uncountable, match="differ in a warp"):
        values_of("R2UR UR4, R1", R1=range(32))
    # The predicate says of each lane whether its value is another one; OR keeps what it said before.
    told = [lane < 4 for lane in range(32)]
    assert values_of("R2UR P1, UR4, R1", R1=[7] * 32, P1=told) == [[False] * 32, [7] * 32]
    assert values_of("R2UR.OR P1, UR4, R1", R1=[7] * 32, P1=told) == [told, [7] * 32]
    odd = [5 if lane < 6 else 7 for lane in range(32)]
    others = [lane >= 6 for lane in range(32)]
    assert values_of("R2UR P1, UR4, R1", R1=odd, P1=told) == [others, [5] * 32]
    assert values_of("R2UR.OR P1, UR4, R1", R1=odd, P1=told) == [
        [lane < 4 or lane >= 6 for lane in range(32)],
        [5] * 32,
    ]
    left = [False] + [True] * 31
    assert values_of("@P0 R2UR P1, UR4, R1", R1=range(32), P0=left, P1=told)[1] == [1] * 32


def test_registers_that_a_warp_asks_for_are_granted() -> None:
    assert values_of("USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8") == [[True] * 32]
    assert values_of("USETMAXREG.DEALLOC.CTAPOOL 0x28") == []


def test_floats_are_rounded_once_and_zeros_ordered() -> None:
    """Regression test of the two errors that these tests were first written for."""
    a, b, c = (int(np.float32(x).view(np.uint32)) for x in (1 + 2**-12, 1 + 2**-12, 2**-60))
    twice = np.float32(np.float64(np.float32(1 + 2**-12)) ** 2 + 2**-60)
    (once,) = values_of("FFMA R0, R1, R2, R3", R1=a, R2=b, R3=c)
    assert once[0] == int(twice.view(np.uint32)) + 1
    minus = 0x80000000
    for x, y in ((0, minus), (minus, 0)):
        assert values_of("FMNMX R0, R1, R2, PT", R1=x, R2=y) == [[minus]]
        assert values_of("FMNMX R0, R1, R2, !PT", R1=x, R2=y) == [[0]]
    assert values_of("FADD R0, R1, 3.40282346638528859812e+38", R1=0) == [[0x7F7FFFFF]]
    assert values_of("FADD R0, R1, +INF ", R1=0) == [[0x7F800000]]


def test_pairs_of_registers_are_read_and_written_whole() -> None:
    for text, written, read in (
        ("DSETP.GT.AND P0, PT, R2, R4, PT", {"P0"}, {"R2", "R3", "R4", "R5"}),
        ("F2F.F32.F64 R0, R2", {"R0"}, {"R2", "R3"}), ("F2F.F64.F32 R0, R2", {"R0", "R1"}, {"R2"}),
        ("I2F.U64.RP R0, R2", {"R0"}, {"R2", "R3"}), ("I2F.F64 R0, R2", {"R0", "R1"}, {"R2"}),
        ("F2I.U64.TRUNC R0, R2", {"R0", "R1"}, {"R2"}), ("F2I.F64.TRUNC R0, R2", {"R0"}, {"R2", "R3"}),
        ("FRND.F64 R0, R2", {"R0", "R1"}, {"R2", "R3"}), ("MUFU.RCP64H R1, R3", {"R1"}, {"R3"}),
        ("ATOMG.E.ADD.F64.RN.STRONG.GPU PT, R4, [R6], R8", {"R4", "R5"}, {"R6"}),
    ):  # fmt: skip
        d = decoded(text)
        assert {name for name in results(d)[0] if name} == written, text
        assert read <= set(reads(d)), text
    assert width_of("REDG.E.ADD.F32x4.FTZ.RN.STRONG.GPU") == 16
    assert width_of("RED.E.ADD.F64.RN.STRONG.GPU") == 8


# -- functions of the special function unit ----------------------------------------------------------------------------

BRANCH = """
extern "C" __global__ void k(const float *a, float *c) {
    float x = exp2f(a[threadIdx.x]);
    if (x LIMIT) c[threadIdx.x] = a[threadIdx.x + 32] + 1.0f;
    else c[threadIdx.x + 64] = a[threadIdx.x + 128] * x + a[threadIdx.x + 160];
}
"""


@pytest.mark.counted
def test_branches_on_the_last_bit_of_a_power_are_those_of_hopper() -> None:
    """An H200 gives 0x1.306fe2p+0 for exp2f(0.25f); its neighbour 0x1.306fe0p+0 is nearer to the power."""
    a = np.full(256, 0.25, np.float32)
    for limit, loads in (("== 0x1.306fe2p+0f", 2), ("== 0x1.306fe0p+0f", 3)):
        counted = simulate(BRANCH, "k", 1, 32, [a, np.zeros(256, np.float32)], defines={"LIMIT": limit}).counters
        assert not counted.inexact
        assert counted.get("global_load_requests") == loads


ELECTED = """
extern "C" __global__ void k(int *y) {
    int lane = -1, one = 0;
    if (threadIdx.x >= 5)
        asm volatile("{ .reg .pred p; elect.sync %0|p, 0xFFFFFFE0; selp.s32 %1, 1, 0, p; }" : "=r"(lane), "=r"(one));
    if (one) y[64 + 16 * lane] = 7;
    y[threadIdx.x] = lane;
}
"""


@pytest.mark.counted
def test_the_elected_lane_has_a_number() -> None:
    """ELECT P0, UR6, PT: an address depends on it."""
    y = np.zeros(256, np.int32)
    counted = simulate(ELECTED, "k", 1, 32, [y]).counters
    assert y[:32].tolist() == 5 * [-1] + 27 * [5]
    assert np.flatnonzero(y == 7).tolist() == [64 + 16 * 5]
    assert not counted.inexact
    assert counted.get("global_store_sectors") == 5


def test_operands_of_cases_hold_the_edges() -> None:
    """The comparison above is worth something only on such operands."""
    row = cases.operand("u32", 0, 3, 11)
    assert {0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF} <= set(row.tolist())
