"""Structs by value, given by their fields from Python and as text. Layouts are those of the compiler's debug
information."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemm_lessons import engine
from gemm_lessons.engine import inspection
from gemm_lessons.engine.arguments.text import ArgumentError, build
from gemm_lessons.engine.compiler.cubin import parameter_places
from gemm_lessons.engine.compiler.elf import sections
from gemm_lessons.engine.compiler.layouts import read_layouts
from gemm_lessons.engine.compiler.source import without_bodies
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.records.metrics import COUNTED
from gemm_lessons.engine.simulator import Simulator

SOURCE = (Path(__file__).parent / "sources" / "struct_arguments.cu").read_text()
ENTRY = "add<Params, Empty>"
X, Y = np.arange(64, dtype=np.float32), np.zeros(32, np.float32)
GIVEN: dict[str, Any] = {
    "alpha": 0.5, "h": 0.25, "side": [{"x": X, "stride": 1}, (X[4:], 2)], "y": Y, "shape": {"size": [3, 7]},
    "twice": True, "low": 5, "high": 3, "signs": -2, "mode": -1, "real": 1.5, "inner": {"b": 9},
    "grid": np.arange(6.0).reshape(2, 3), "four": [0, 0, 0, 8], "nothing": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def kernel():
    return engine.compile(SOURCE, ENTRY)


def test_fields_go_where_the_compiler_has_them(kernel):
    launched = kernel.launch(1, 32, [GIVEN, {}, 30])
    assert launched.fault is None
    assert not launched.findings
    i = np.arange(30)
    assert (-Y[:30] == 3 * i + 4 + 500 + 3000 - 2 + 7 + 1.5 + 0.25 + 9 + 5 + 8).all()
    assert (Y[30:] == 0).all()


def test_the_layout_is_that_of_the_machine_code():
    layouts = read_layouts(SOURCE, path="kernel.cu", entry=ENTRY, arch="sm_90")
    assert layouts is not None
    offsets = {it.name: it.offset for it in layouts[0].fields}
    assert [it.size for it in layouts] == [160, 1, 4]
    assert list(offsets)[:4] == ["alpha", "h", "side", "y"]
    assert [offsets[name] for name in ("whole", "real", "inner", "grid", "four")] == [64, 64, 68, 72, 128]
    assert layouts[1].is_struct
    assert not layouts[1].fields


WRONG: dict[str, dict[str, Any]] = {
    "side[0].n: there is no such field in Side": {"side": [{"n": 1}]},
    r"sides: there is no such field \(did you mean side\?\)": {"sides": 1},
    r"side: 3 values were given for Side\[2\]": {"side": [(), (), ()]},
    "low: 9 does not fit a bit-field of 3 bits": {"low": 9},
    "signs: 8 does not fit a bit-field of 4 bits": {"signs": 8},
    r"side\[1\].x: an array of int64 was given for": {"side": [{}, {"x": np.zeros(4, np.int64)}]},
    "y: 3 was given for": {"y": 3},
    "alpha: str does not fit": {"alpha": "1"},
    "alpha: a dict was given for float": {"alpha": {}},
    "shape.size: one value was given": {"shape": 7},
    "inner: one value was given for": {"inner": 7},
    "twice: 3 does not fit": {"twice": 3},
    "h: 100000.0 would be rounded": {"h": 100000.0},
    "(whole|real) and argument 0.(real|whole) are members of a union": {"whole": 1},
    "four: 5 values were given for float4": {"four": [1] * 5},
}


def test_layouts_need_no_bodies() -> None:
    """The body would compile with ``-G``, too, but slowly. Lines and what is outside of it stay."""
    source = """
#define GLOBAL __global__
template <class T> struct Pair { T a, b; };
GLOBAL void __launch_bounds__(32) one(Pair<short> p); // declared
GLOBAL void __launch_bounds__(32) one(Pair<short> p)
{
#if 1
    if (p.a) { unknown(p); }
#endif
}
__device__ int kept() { return 1; }
"""
    assert without_bodies(source) == source.replace("#if 1", "     ").replace("#endif", "      ").replace(
        "if (p.a) { unknown(p); }", " " * 24
    )
    (pair,) = read_layouts(source, path="kernel.cu", entry="one", arch="sm_90") or ()
    assert [(it.name, it.offset) for it in pair.fields] == [("a", 0), ("b", 2)]


@pytest.mark.parametrize("says", WRONG)
def test_a_field_that_does_not_fit_is_named(kernel, says):
    with pytest.raises(ValueError, match=rf"argument 0\.{says.replace('side[0].n', r'side.0..n')}"):
        kernel.launch(1, 32, [GIVEN | WRONG[says], {}, 30])


def test_what_is_left_out_is_zero_and_a_null_pointer_faults(kernel):
    launched = kernel.launch(1, 32, [{name: GIVEN[name] for name in GIVEN if name != "side"}, {}, 30])
    assert launched.fault.kind == "out_of_bounds"


@pytest.mark.parametrize(("position", "value"), [(0, 5), (2, [30]), (2, {"n": 30}), (1, {"n": 30})])
def test_numbers_and_fields_are_not_confused(kernel, position, value):
    args = [GIVEN, {}, 30]
    args[position] = value
    with pytest.raises(ValueError, match=f"argument {position}"):
        kernel.launch(1, 32, args)


def test_two_structs_share_an_array():
    source = """struct To { float *y; }; struct From { const float *x; int n; };
        extern "C" __global__ void k(From a, To b) { b.y[threadIdx.x] = a.x[threadIdx.x] + a.n; }"""
    x = np.arange(64, dtype=np.float32)
    engine.simulate(source, "k", 1, 32, [{"x": x, "n": 1}, {"y": x[32:]}])
    assert (x[32:] == np.arange(32) + 1).all()
    engine.simulate(source, "k", 1, 32, [(x, 2), [x[32:]]])  # all fields in order
    assert (x[32:] == np.arange(32) + 2).all()


def test_ptx_tells_its_fields_only_with_debug_information():
    source = 'struct S { int *o, n; }; extern "C" __global__ void k(S s) { *s.o = s.n; }'
    with_names = engine.compile(source, "k", options=["-G"]).ptx
    out = np.zeros(1, np.int32)
    engine.simulate(with_names, "k", 1, 1, [{"o": out, "n": 7}])
    assert out[0] == 7
    with pytest.raises(ValueError, match=r"argument 0: the fields .* are not known without debug information"):
        engine.simulate(engine.compile(source, "k").ptx, "k", 1, 1, [{"o": out, "n": 7}])


TEXT = (
    "p={alpha=0.5, side={{x=index f32[3*n], stride=1}, {p.side[0].x+4, 2}}, y=out f32[n], twice=1, low=m}, "
    "f={}, n=30, m:=5"
)


def inspected(arguments: str, expect: str | None = None) -> inspection.Inspection:
    grid = Grid((1, 1, 1), (32, 1, 1))
    return inspection.inspect(inspection.InspectRequest(SOURCE, "kernel.cu", ENTRY, grid, arguments, expect))


def test_a_struct_as_text():
    assert inspected(TEXT).clean
    text = TEXT.replace("p.side[0].x+4, 2", "x=f32[n], stride=1").replace("index f32[3*n]", "f32[n]")
    formula = "p.y = 2 * p.alpha * (p.side[0].x + p.side[1].x) + p.inner.b"
    assert inspected(text.replace("low=m", "inner={b=m}"), formula).clean
    assert not inspected(text.replace("low=m", "inner={a=m, b=2*a+1}"), formula.replace("inner.b", "inner.a")).clean


BAD = {
    "argument p.sid: there is no such field (did you mean side?)": TEXT.replace("side={", "sid={"),
    "argument p.y: an array of int32 was given": TEXT.replace("out f32[n]", "out i32[n]"),
    "argument p.alpha: float takes no array": TEXT.replace("alpha=0.5", "alpha=f32[3]"),
    "argument p.low: 9 does not fit a bit-field": TEXT.replace("low=m", "low=m+4"),
    "argument n: a brace of {, m:=5 is not closed": TEXT.replace("n=30", "n={"),
    "gives some fields by name": TEXT.replace("twice=1", "1"),
    "argument p.y: a view is an argument": TEXT.replace("out f32[n]", "view f32[3,3]"),
    'argument p.y: "q.x": q.x is not allowed': TEXT.replace("out f32[n]", "q.x"),
    "argument n: a list was given for int": TEXT.replace("n=30", "n={30}"),
    "argument p is an array, but that parameter has 160 bytes": "p=f32[3], f={}, n=30",
    "argument p: int does not fit a parameter of 160 bytes": "p=3, f={}, n=30",
}


@pytest.mark.parametrize("says", BAD)
def test_a_field_that_is_not_understood_is_named(says):
    with pytest.raises(ArgumentError) as raised:
        inspected(BAD[says])
    assert says in str(raised.value)


MAPS = (Path(__file__).parent / "sources" / "struct_maps.cu").read_text()
WHOLE = np.arange(32 * 24, dtype=np.float32).reshape(32, 24)


@pytest.fixture(scope="module")
def copy():
    return engine.compile(MAPS, "copy<Params>")


def strided(array: np.ndarray[Any, Any]) -> engine.TensorMap:
    """Return columns 0 to 7 and rows 0, 2, 4, ... of an array, as boxes of 8 x 8."""
    rows, width = array.shape
    view = np.lib.stride_tricks.as_strided(array, (rows // 2, 8), (2 * width * 4, 4))
    return engine.TensorMap(view, (8, 8))


@pytest.mark.parametrize("which", [0, 1])
def test_tensor_maps_in_structs_share_memory_with_a_pointer_beside_them(copy, which):
    y = np.zeros(64, np.float32)
    whole = engine.TensorMap(WHOLE, (8, 8))
    given = {"n": 0, "after": 4, "from": {"raw": WHOLE, "rows": 1000, "maps": [whole, {"desc": strided(WHOLE)}]}}
    launched = copy.launch(1, 64, [given, y, which])
    assert launched.fault is None
    assert not launched.findings
    assert (y.reshape(8, 8) == 1000 + (WHOLE[4:12, :8], WHOLE[8:24:2, :8])[which]).all()


def test_a_map_of_its_own_array_in_a_struct(copy):
    y = np.zeros(64, np.float32)
    given = {"n": 8, "from": {"maps": [engine.TensorMap(WHOLE, (8, 8))]}}
    launched = copy.launch(1, 64, [given, y, 0])
    assert not launched.findings
    assert (y.reshape(8, 8) == WHOLE[:8, 8:16]).all()
    launched = copy.launch(1, 64, [given, y, 1])  # the other is left out
    assert launched.fault is not None


def test_the_only_map_of_a_struct_is_found():
    y = np.zeros(64, np.float32)
    launched = engine.compile(MAPS, "one").launch(1, 64, [engine.TensorMap(WHOLE, (8, 8)), y])
    assert not launched.findings
    assert (y.reshape(8, 8) == WHOLE[8:16, :8]).all()


def test_a_map_that_fits_no_field_or_several_is_refused(copy):
    given, y = engine.TensorMap(WHOLE, (8, 8)), np.zeros(64, np.float32)
    with pytest.raises(ValueError, match=r"argument 0: .* Params.*; it has room for 2: give each by its field"):
        copy.launch(1, 64, [given, y, 0])
    with pytest.raises(ValueError, match=r"argument 0.from.rows: .* Dim.*; it has no room for one"):
        copy.launch(1, 64, [{"from": {"rows": given}}, y, 0])


AS_TEXT = (
    "p={n=0, after=4, from={raw=index f32[32,24], rows=0, maps={{desc=f32[32,24] box[8,8] at p.from.raw},"
    " f32[16,8] strides[48,1] box[8,8] at p.from.raw}}}, y=out f32[64], which=1"
)


@pytest.mark.parametrize(
    ("before", "after", "first", "step"),
    [
        ("", "", 8 * 24, 48),
        ("which=1", "which=0", 4 * 24, 24),
        ("at p.from.raw}}}", "at p.from.raw+12}}}", 8 * 24 + 12, 48),
        ("f32[16,8] strides[48,1]", "f32[24,16]", 4 * 16, 16),
    ],
)
def test_maps_in_structs_as_text(copy, before, after, first, step):
    device, compiled = Simulator(), copy._compiled
    kernel = device.kernel(compiled)
    arguments = AS_TEXT.replace(before, after)
    given = build(arguments, [], kernel, partial(device.variable, compiled), 0, layouts=lambda: copy._layouts)
    launched = device.launch(compiled, Grid((1, 1, 1), (64, 1, 1)), given.arguments, given.symbols)
    assert not launched.findings
    wanted = first + step * np.arange(8)[:, None] + np.arange(8)
    assert (given.arrays["y"].reshape(8, 8) == wanted).all()


BAD_MAPS = {
    "maps[1].desc: p.from.row is no array of another argument": ("at p.from.raw}}}", "at p.from.row}}}"),
    "maps[1].desc: it ends 4133 elements after p.from.raw, where 768 are": ("strides[48", "strides[275"),
    "argument p.from.maps[1].desc: p.from.raw is an array of another type": ("f32[16,8]", "f16[16,8]"),
    "argument p.from.maps[1].desc: rows must begin at multiples of 16": ("strides[48", "strides[46"),
    "argument y: at and strides are of a tensor map": ("y=out f32[64]", "y=f32[64] at p.from.raw"),
    "argument p is a tensor map of 128 bytes": (AS_TEXT[: AS_TEXT.index(", y=")], "p=f32[8,8] box[8,8]"),
    "argument p.from.raw: a view is an argument": ("index f32[32,24], rows", "view f32[32,24], rows"),
    "argument p.from.rows: a tensor map was given for Dim": ("rows=0", "rows=f32[32,24] box[8,8]"),
}


@pytest.mark.parametrize("says", BAD_MAPS)
def test_a_map_in_text_that_does_not_fit_is_named(says):
    arguments = AS_TEXT.replace(*BAD_MAPS[says])
    with pytest.raises(ArgumentError) as raised:
        inspection.inspect(
            inspection.InspectRequest(MAPS, "kernel.cu", "copy<Params>", Grid((1, 1, 1), (64, 1, 1)), arguments)
        )
    assert says in str(raised.value)


NUMBERS = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace lib {
struct alignas(2) half_t { unsigned short storage; };
struct alignas(2) bfloat16_t { unsigned short storage; };
}
struct Scale { lib::half_t by; };
struct Pair { short x, y; };
template <typename T> struct Bits { T storage; };
template <typename A, typename B>
__global__ void k(A a, B b, Scale c, Bits<unsigned char> d, unsigned short *y)
{
    y[0] = a.storage;
    y[1] = b.storage;
    y[2] = c.by.storage;
    y[3] = d.storage;
}
__global__ void two(Pair p, unsigned short *y) { y[0] = p.x; }
"""


def test_a_number_for_a_wrapper_is_converted_to_its_type():
    entry, y = "k<lib::half_t, lib::bfloat16_t>", np.zeros(4, np.uint16)
    engine.compile(NUMBERS, entry).launch(1, 1, [1.5, 1.5, 2, 7, y])
    assert y.tolist() == [0x3E00, 0x3FC0, 0x4000, 7]
    device, made = Simulator(), engine.compile(NUMBERS, entry)
    text, kernel = "a=1.5,b=1.5,c=2,d=7,y=out u16[4]", device.kernel(made._compiled)
    given = build(text, [], kernel, partial(device.variable, made._compiled), 0, layouts=lambda: made._layouts)
    device.launch(made._compiled, Grid((1, 1, 1), (1, 1, 1)), given.arguments, given.symbols)
    assert given.arrays["y"].tolist() == y.tolist()


def test_a_number_for_a_struct_of_two_is_refused():
    with pytest.raises(ValueError, match=r"one value was given for Pair, which has x \(short\), y \(short\)"):
        engine.compile(NUMBERS, "two").launch(1, 1, [3, np.zeros(1, np.uint16)])


ALIGNED = """
struct alignas(64) Big { int n; int rest[20]; };
extern "C" __global__ void k(int *y, const __grid_constant__ Big a, int n, const __grid_constant__ Big b, int m)
{
    const int t = threadIdx.x, wanted[] = {a.n, n, b.n, m, b.rest[19]};
    for (int i = 0; i < 5; i++)
        if (wanted[i] == i + 1)
            y[32 * i + t] = 1;
}
"""


@pytest.mark.counted
def test_machine_code_reads_aligned_parameters_where_the_cubin_places_them():
    kernel, y = engine.compile(ALIGNED, "k", arch="sm_90"), np.zeros(160, np.int32)
    parts = list(sections(kernel._compiled.cubin))
    places = [it.offset for it in Simulator().kernel(kernel._compiled).parameters]
    assert (places, parameter_places(parts, "k")) == ([0, 64, 192, 256, 384], (0, 48, 176, 240, 368))
    given = [y, {"n": 1}, 2, {"n": 3, "rest": [0] * 19 + [5]}, 4]
    launched = kernel.launch(1, 32, given)
    assert y.all()
    assert not launched.counters.obstacle
    assert launched.counters.totals[COUNTED["global_store_instructions"]] == 5
