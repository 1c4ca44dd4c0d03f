"""Matrix instructions: products of fragments bit for bit as an H200 answers them, wmma, ldmatrix's kin, and who must
take part."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.readings.simulator.record_fragments import KEPT, fingerprint, simulated
from checks.simulator.fragment_cases import FIRST, LANES, MMA, STYLES, Form, given, loads
from gemm_lessons import simulate
from gemm_lessons.engine.api import arguments
from gemm_lessons.engine.records import encodings
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.semantics import matrix_products
from gemm_lessons.engine.semantics.matrix_products import multiply
from gemm_lessons.engine.simulator import Setting, Simulator

TOGETHER = True

READINGS = json.loads(KEPT.read_text())


@pytest.mark.parametrize("name", MMA)
def test_products_are_those_of_an_h200_bit_for_bit(name: str) -> None:
    form = Form(name)
    fragments = [given(form, style, FIRST) for style in STYLES]
    together = {operand: np.concatenate([one[operand] for one in fragments]) for operand in "abc"}
    answers = np.split(simulated(form, together), len(STYLES))
    found = {style: fingerprint(answer) for style, answer in zip(STYLES, answers, strict=True)}
    assert found == {style: kept[0] for style, kept in READINGS["products"][name].items()}


@pytest.mark.parametrize("cols", [8, 136, 256])
@pytest.mark.parametrize("saturate", [False, True])
def test_whole_numbers_wrap_or_saturate_in_any_number_of_columns(cols: int, saturate: bool) -> None:
    rng = np.random.default_rng(cols)
    a, b = (rng.integers(low, low + 256, size) for low, size in ((-128, (3, 64, 32)), (0, (3, 32, cols))))
    c = rng.choice([-(2**31), 0, 2**31 - 1], (3, 64, cols))
    total = a @ b + c
    expected = np.clip(total, -(2**31), 2**31 - 1) if saturate else (total + 2**31) % 2**32 - 2**31
    assert (expected != total).any()
    found = multiply(("s32", "s8", "u8"), a.astype("i1"), b.astype("u1"), c.astype("i4"), saturate=saturate)
    assert np.array_equal(found, expected)


def test_a_sum_too_small_for_float16_is_no_negative_zero() -> None:
    """An H200 answers so in every one of 26 such elements, found by the fingerprints of whole pieces."""
    least = np.array([[[2.0**-24]]], np.float16)
    zero = multiply(("f16", "f16", "f16"), -least, least, np.zeros_like(least))
    assert zero.view(np.uint16).item() == 0


def subnormal_sums() -> tuple[Any, Any, Any]:
    """Return a (cases, 1, 16), b (cases, 16, 1) and an H200's answers: sums in float16 of less than 2**-23."""
    cases = json.loads(KEPT.with_name("subnormal_sums.json").read_text())["cases"]
    a, b, d = (np.array([np.frombuffer(bytes.fromhex(it[i]), ">u2") for it in cases], np.uint16) for i in range(3))
    return a.view(np.float16)[:, None, :], b.view(np.float16)[:, :, None], d.view(np.float16)[:, :, None]


def test_subnormal_sums_in_float16_keep_no_bit_below_2_to_the_minus_46() -> None:
    """Each case distinguishes this from at least one other bound between 2**-44 and 2**-49."""
    a, b, d = subnormal_sums()
    assert np.array_equal(multiply(("f16", "f16", "f16"), a, b, np.zeros_like(d)), d)


@pytest.mark.parametrize("d", ["f32", "f16"])
def test_whole_numbers_are_summed_as_others_are(d: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small whole numbers need no truncation; large numbers, fractions, infinities and NaN may."""
    rng = np.random.default_rng(3)
    dtype = np.float32 if d == "f32" else np.float16
    for most, odd in ((31, 0.0), (2048, 0.0), (60000, 0.0), (31, 0.5), (31, np.inf), (31, np.nan)):
        a, b = (rng.integers(-most, most + 1, (6, *shape)).astype(np.float16) for shape in ((16, 16), (16, 8)))
        c = rng.integers(-60000, 60001, (6, 16, 8)).astype(dtype)
        b[3, 2, 1] += np.float16(odd)
        with np.errstate(all="ignore"):
            quick = multiply((d, "f16", "f16"), a, b, c)
            with monkeypatch.context() as patch:
                patch.setattr(matrix_products, "_is_exact", lambda *factors: False)
                assert quick.tobytes() == multiply((d, "f16", "f16"), a, b, c).tobytes()


def _scaled(rng: np.random.Generator, shape: tuple[int, ...], lines: Any, of_k: Any, zeros: float) -> Any:
    """Return numbers from 0.5 to 1 of any sign, some of them 0, times powers of two: by line, and by k."""
    numbers = rng.uniform(0.5, 1, shape) * rng.choice([-1, 1], shape) * (rng.random(shape) > zeros)
    return numbers * 2.0 ** (lines + of_k)


@pytest.mark.parametrize(
    ("d", "kind"), [("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "tf32"), ("f32", "e4m3")]
)
def test_sums_of_whole_products_are_those_of_products_one_by_one(
    d: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers as problems have them, whose products are of one size, and others; sums far above and below them."""
    encode = {
        "f16": lambda it: it.astype(np.float16),
        "bf16": lambda it: (it.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16),
        "tf32": lambda it: it.astype(np.float32).view(np.uint32),
        "e4m3": lambda it: encodings.encode("float8_e4m3", "u1", it),
    }[kind]
    rng, used = np.random.default_rng(5), []
    usual = matrix_products._of_whole_products

    def watched(*given: Any) -> Any:
        found = usual(*given)
        used.append(found is not None)
        return found

    for (fragments, rows, cols), zeros, reach in itertools.product([(2, 64, 40), (30, 16, 8)], (0, 0.02, 0.6), (0, 2)):
        of_rows = rng.integers(-reach, reach + 1, (fragments, rows, 1))
        of_cols = rng.integers(-reach, reach + 1, (fragments, 1, cols))
        of_k = rng.integers(-reach, reach + 1, (fragments, 1, 16))
        a = encode(_scaled(rng, (fragments, rows, 16), of_rows, of_k, zeros))
        b = encode(_scaled(rng, (fragments, 16, cols), of_cols, -of_k.swapaxes(1, 2), zeros))
        for low, high in ((-1, 2), (-40, 1), (3, 12), (-150, -120)):
            shape = fragments, rows, cols
            scale = 2.0 ** (rng.integers(low, high, shape) + of_rows + of_cols)
            with np.errstate(all="ignore"):
                c = (rng.standard_normal(shape) * scale).astype("f4" if d == "f32" else "f2")
            for function in (matrix_products.multiply, matrix_products.multiply_async):
                with monkeypatch.context() as patch, np.errstate(all="ignore"):
                    patch.setattr(matrix_products, "_of_whole_products", watched)
                    quick = function((d, kind, kind), a, b, c)
                    again = function((d, kind, kind), a, b, quick)
                    patch.setattr(matrix_products, "_of_whole_products", lambda *given: None)
                    assert quick.tobytes() == function((d, kind, kind), a, b, c).tobytes()
                    assert again.tobytes() == function((d, kind, kind), a, b, quick).tobytes()
    assert any(used)


@pytest.mark.parametrize("fragments", [3, 30])
@pytest.mark.parametrize("kind", ["f16", "bf16", "tf32"])
def test_sums_are_truncated_as_exact_fractions_are(kind: str, fragments: int) -> None:
    """Of any exponent, some not finite, in passes along fragments or columns."""
    rng = np.random.default_rng(11)
    reach = 12 if kind == "f16" else 58
    bits = {"f16": 16, "bf16": 16, "tf32": 0}[kind]

    def draw(*shape: int) -> tuple[Any, Any]:
        values = (rng.standard_normal(shape) * 2.0 ** rng.integers(-reach, reach, shape)).astype(np.float32)
        values[rng.random(shape) < 0.1] = 0
        values[rng.random(shape) < 0.01] = np.inf
        if kind == "f16":
            half = values.astype(np.float16)
            return half, half.astype(np.float64)
        keep = np.uint32(0xFFFF0000 if kind == "bf16" else 0xFFFFE000)
        held = values.view(np.uint32) & keep
        return (held >> bits).astype(np.uint16 if bits else np.uint32), held.view(np.float32).astype(np.float64)

    (a, left), (b, right) = draw(fragments, 5, 8), draw(fragments, 8, 6)
    c = (rng.standard_normal((fragments, 5, 6)) * 2.0 ** rng.integers(-reach, reach, (fragments, 5, 6))).astype("f4")
    with np.errstate(all="ignore"):
        found = multiply(("f32", kind, kind), a, b, c)
    least = -14 if kind == "f16" else -126
    for place in np.ndindex(c.shape):
        pairs = list(zip(left[place[0], place[1]], right[place[0], :, place[2]], strict=True))
        if not np.isfinite([it for pair in pairs for it in pair]).all():
            assert not np.isfinite(found[place])
            continue
        exponents = [sum(max(math.frexp(it)[1] - 1, least) for it in pair) for pair in pairs if 0 not in pair]
        peak = max([*exponents, math.frexp(float(c[place]))[1] - 1, -133])
        terms = [Fraction(float(x)) * Fraction(float(y)) for x, y in pairs] + [Fraction(float(c[place]))]
        total = sum(int(it * Fraction(2) ** (25 - peak)) for it in terms)
        wanted = math.ldexp(total, peak - 25)
        rounded = np.float32(wanted)
        if abs(float(rounded)) > abs(wanted):
            rounded = np.nextafter(rounded, np.float32(0))
        assert found[place] == rounded, place


def test_wmma_holds_each_element_where_an_h200_holds_it() -> None:
    device, found = Simulator(Setting(counting=False)), dict[str, list[str]]()
    kernels = [load.kernel().replace("void k(", f"void k{i}(") for i, load in enumerate(loads())]
    compiled = must_compile("".join(kernels), path="loads.cu", entry="k0")
    for number, load in enumerate(loads()):
        one = dataclasses.replace(compiled, entry=f"k{number}")
        found[load.name] = []
        for part in range(load.parts):
            out = np.zeros((load.words, LANES), f"u{load.width}")
            launched = device.launch(
                one, Grid((1, 1, 1), (LANES, 1, 1), 0), arguments(device.kernel(one), [load.numbered(part), out])
            )
            assert launched.fault is None, launched.fault
            found[load.name].append(fingerprint(out))
    assert found == READINGS["layouts"]


WMMA = """
#include <mma.h>
using namespace nvcuda;
template <int ROW> struct Lies { typedef wmma::row_major how; };
template <> struct Lies<0> { typedef wmma::col_major how; };
extern "C" __global__ void k(const TA *a, const TA *b, const TC *c, TC *d, int lda, int ldb, int ldc)
{
    __shared__ __align__(32) TA tile[1024];
    for (int i = threadIdx.x; i < M * K; i += 32) {
        int line = A_ROW ? i / K : i / M, place = A_ROW ? i % K : i % M;
        tile[line * (A_ROW ? K + 16 : M + 16) + place] = a[line * lda + place];
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, M, N, K, TW, Lies<A_ROW>::how> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, TW, Lies<B_ROW>::how> fb;
    wmma::fragment<wmma::accumulator, M, N, K, TC> fc;
    wmma::load_matrix_sync(fa, tile, A_ROW ? K + 16 : M + 16);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(fc, c, ldc, C_ROW ? wmma::mem_row_major : wmma::mem_col_major);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] + fc.x[i];
    wmma::store_matrix_sync(d, fc, ldc, C_ROW ? wmma::mem_row_major : wmma::mem_col_major);
}
"""
# element type of a and b, its C name, wmma's name, of c, its C name, shape, which matrices lie row by row
CASES = {
    "half rows": (np.float16, "half", "half", np.float32, "float", (16, 16, 16), (1, 1, 1)),
    "half columns": (np.float16, "half", "half", np.float32, "float", (16, 16, 16), (0, 0, 0)),
    "half tall": (np.float16, "half", "half", np.float16, "half", (32, 8, 16), (1, 0, 0)),
    "half wide": (np.float16, "half", "half", np.float16, "half", (8, 32, 16), (0, 1, 1)),
    "bytes": (np.int8, "signed char", "signed char", np.int32, "int", (16, 16, 16), (0, 1, 0)),
    "bytes tall": (np.int8, "signed char", "signed char", np.int32, "int", (32, 8, 16), (1, 1, 1)),
    "bytes wide": (np.uint8, "unsigned char", "unsigned char", np.int32, "int", (8, 32, 16), (1, 0, 1)),
    "double": (np.float64, "double", "double", np.float64, "double", (8, 8, 4), (1, 1, 1)),
    "tf32": (np.float32, "float", "wmma::precision::tf32", np.float32, "float", (16, 16, 8), (1, 0, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_wmma_multiplies(case: str) -> None:
    kind, name, chosen, total, total_name, (m, n, k), rows = CASES[case]
    rng = np.random.default_rng(3)
    a, b, c = (
        rng.integers(0, 8, shape).astype(dtype) for shape, dtype in (((m, k), kind), ((k, n), kind), ((m, n), total))
    )
    stored = [
        np.ascontiguousarray(np.pad(matrix if row else matrix.T, ((0, 0), (0, 16))))
        for matrix, row in zip((a, b, c), rows, strict=True)
    ]
    d = np.zeros_like(stored[2])
    defines: dict[str, Any] = {"TA": name, "TW": chosen, "TC": total_name, "M": m, "N": n, "K": k}
    defines |= dict(zip(("A_ROW", "B_ROW", "C_ROW"), rows, strict=True))
    strides = [matrix.shape[1] for matrix in stored]
    launched = simulate(WMMA, "k", 1, 32, [*stored, d, *strides], defines=defines)
    assert launched.fault is None, launched.fault
    assert not launched.findings
    answer = d[:, :-16] if rows[2] else d[:, :-16].T
    assert np.array_equal(answer, 2 * (a.astype(np.float64) @ b.astype(np.float64) + c))


PRODUCT = """
__device__ void multiply(float (&d)[4], unsigned (&a)[4], unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
extern "C" __global__ void k(const unsigned *in, float *out)
{
    unsigned a[4], b[2] = {in[0], in[1]};
    float d[4] = {0, 0, 0, 0};
    const int lane = threadIdx.x % 32;
    BODY
    STORE
}
"""
FILL = "for (int i = 0; i < 4; i++) a[i] = in[i];"
STORE = "for (int i = 0; i < 4; i++) out[4 * threadIdx.x + i] = d[i];"


def product(body: str, store: str = STORE, threads: int = 32) -> Any:
    source = PRODUCT.replace("BODY", body).replace("STORE", store)
    return simulate(source, "k", 1, threads, [np.full(8, 0x3C003C00, np.uint32), np.zeros(4 * threads, np.float32)])


@pytest.mark.parametrize(
    ("body", "threads", "lane"),
    [(FILL + "if (lane != 5) multiply(d, a, b);", 64, 5), (FILL + "multiply(d, a, b);", 40, 8)],
    ids=["left out", "not there"],
)
def test_a_product_without_all_lanes_is_a_fault(body: str, threads: int, lane: int) -> None:
    launched = product(body, threads=threads)
    assert launched.fault.kind == "warp_mask"
    assert f"lane {lane} of its warp, which holds a part of the matri" in launched.fault.message


def test_undefined_elements_spoil_their_row_and_no_other() -> None:
    """a[1] and a[3] hold rows 8 to 15, of which nothing is stored."""
    half = "a[0] = in[0]; a[2] = in[1]; multiply(d, a, b);"
    assert not product(half, "out[2 * lane] = d[0]; out[2 * lane + 1] = d[1];").findings
    found = product(half).findings
    assert [finding.kind for finding in found] == ["unset"]


MOVES = """
extern "C" __global__ void k(const uint4 *in, unsigned *out)
{
    __shared__ __align__(16) uint4 rows[32];
    const unsigned at = (unsigned)__cvta_generic_to_shared(&rows[threadIdx.x]);
    unsigned r[4];
    for (int i = 0; i < 4; i++) r[i] = ((const unsigned *)in)[32 * i + threadIdx.x];
    asm volatile("FORM" :: "r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(r[0]));
    __syncwarp();
    for (int i = 0; i < 4; i++) out[4 * threadIdx.x + i] = ((unsigned *)rows)[4 * threadIdx.x + i];
    out[128 + threadIdx.x] = r[0];
}
"""


@pytest.mark.counted
@pytest.mark.parametrize("how", ["", ".trans"])
def test_stmatrix_and_movmatrix(how: str) -> None:
    form = f"stmatrix.sync.aligned.m8n8.x4{how}.shared.b16 [%0], {{%1, %2, %3, %4}};"
    words = np.random.default_rng(4).integers(0, 1 << 32, 128, np.uint32)
    out = np.zeros(160, np.uint32)
    launched = simulate(MOVES.replace("FORM", form), "k", 1, 32, [words, out])
    assert launched.fault is None, launched.fault
    assert not launched.findings
    held = words.reshape(4, 32).view(np.uint16).reshape(4, 8, 8)  # lane t: row t / 4, columns 2 (t % 4) and the next
    expected = held.swapaxes(1, 2) if how else held
    assert np.array_equal(out[:128].view(np.uint16).reshape(4, 8, 8), expected)
    assert np.array_equal(out[128:].view(np.uint16).reshape(8, 8), held[0].T)
    assert launched.counters.totals["memory_l1_wavefronts_shared"] == 4 + 4


FLOATS, WORDS = "{%0,%1,%2,%3}", "{%4,%5,%6,%7}"
TWICE = "{%0,%1,%2,%3,%0,%1,%2,%3}"


@pytest.mark.parametrize(
    "form",
    [
        f"mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {TWICE}, {{%4,%5}}, {{%6,%7}}, {TWICE};",
        f"mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {WORDS}, {WORDS}, {{%4,%5}}, {WORDS};",
        f"mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {WORDS}, {WORDS}, {{%4,%5}}, {WORDS};",
        f"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {FLOATS}, {{%4,%5}}, {{%6,%7}}, {FLOATS}, %4, 0x0;",
    ],
    ids=["volta", "s4", "b1", "sparse"],
)
def test_what_is_not_known_is_named(form: str) -> None:
    registers = ", ".join([*(f'"+f"(d[{i}])' for i in range(4)), *(f'"+r"(v[{i}])' for i in range(4))])
    body = f'unsigned v[4] = {{in[0], in[1], in[2], in[3]}}; asm volatile("{form}" : {registers});'
    with pytest.raises(UnsupportedKernel, match=form.split(" ")[0].replace(".", r"\.")):
        product(body)
