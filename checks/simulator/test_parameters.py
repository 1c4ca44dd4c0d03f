"""Values for parameters: converted by the parameter's type, or refused with words; never passed bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from gemm_lessons import simulate
from gemm_lessons.engine.records.launch import Texture

TOGETHER = True

HEAD = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
"""
KERNEL = 'extern "C" __global__ void k(double *o, {type_} x, const {type_} *p) {{ o[0] = (double)x; }}'
TYPES = {
    "float": np.float32, "double": np.float64, "int": np.int32, "unsigned": np.uint32, "long long": np.int64,
    "unsigned long long": np.uint64, "short": np.int16, "unsigned char": np.uint8, "bool": np.bool_,
    "__half": np.float16, "__nv_bfloat16": np.uint16,
}  # fmt: skip
FITS = [  # parameter, value, what arrives
    ("float", 3, 3), ("float", -1, -1), ("float", np.int32(7), 7), ("float", np.float64(0.5), 0.5),
    ("float", 0.1, float(np.float32(0.1))), ("float", True, 1), ("float", np.float16(1.5), 1.5),
    ("double", 3, 3), ("double", np.float32(0.25), 0.25), ("double", np.int64(-9), -9), ("float", float("inf"), np.inf),
    ("int", 3.0, 3), ("int", np.float32(-2), -2), ("int", np.int64(5), 5), ("int", np.uint8(200), 200),
    ("int", True, 1), ("int", -5, -5), ("unsigned", 0xFFFFFFFF, 0xFFFFFFFF), ("unsigned", np.int32(-1), 0xFFFFFFFF),
    ("long long", 1 << 40, 1 << 40), ("long long", np.int32(-3), -3),
    ("unsigned long long", (1 << 64) - 4096, 2.0**64 - 4096),
    ("short", -7, -7), ("unsigned char", 255, 255), ("bool", True, 1), ("bool", 1, 1),
    ("__half", 3, 3), ("__half", 0.5, 0.5), ("__nv_bfloat16", 3, 3), ("__nv_bfloat16", -0.375, -0.375),
]  # fmt: skip
LOST = [
    ("float", (1 << 24) + 1), ("float", np.float64(0.1)), ("float", 1e39), ("double", (1 << 53) + 1), ("int", 1.5),
    ("int", np.float32(0.5)), ("int", 1 << 31), ("unsigned", 1 << 32), ("unsigned", -1), ("short", 40000),
    ("unsigned char", 256), ("unsigned char", -1), ("bool", 2), ("int", float("nan")), ("int", 1j), ("float", "3"),
    ("float", np.complex64(1)), ("int", None), ("__half", 1e6), ("float", np.zeros(1, np.float32)),
    ("long long", np.zeros(1, np.int64)),
]  # fmt: skip


@pytest.mark.parametrize("type_", TYPES)
def test_a_number_is_converted_to_the_type_of_its_parameter(run, type_):
    source = HEAD + KERNEL.format(type_=type_)
    pointee: np.ndarray = np.zeros(4, TYPES[type_])
    for value, expected in [(value, expected) for kind, value, expected in FITS if kind == type_]:
        out = np.zeros(1)
        run(source, 1, 1, [out, value, pointee])
        assert out[0] == expected, (type_, value)
    for value in [value for kind, value in LOST if kind == type_]:
        with pytest.raises(ValueError, match="argument 1"):
            run(source, 1, 1, [np.zeros(1), value, pointee])


ELEMENTS = [  # what the parameter points to, an array's type, whether it may be passed
    ("float", "f4", True), ("float", "f8", False), ("float", "i4", False), ("float", "c8", True),
    ("double", "f4", False), ("double", "f8", True),
    ("int", "i4", True), ("int", "u4", True), ("int", "i8", False), ("int", "f4", False), ("unsigned char", "i1", True),
    ("bool", "?", True), ("bool", "i4", False), ("float4", "f4", True), ("float4", "f8", False), ("int2", "i4", True),
    ("longlong2", "i8", True), ("longlong2", "i4", False), ("__half", "f2", True), ("__half", "f4", False),
    ("__half2", "f2", True), ("__nv_bfloat16", "u2", True), ("__nv_bfloat16", "f2", False), ("size_t", "u8", True),
    ("void", "f8", True), ("S", "f8", True), ("T", "f8", True), ("uint8_t", "u1", True), ("uint8_t", "u2", False),
]  # fmt: skip


def test_the_elements_of_an_array_are_what_the_pointer_points_to(run):
    names = dict.fromkeys(element for element, _, _ in ELEMENTS)
    parameters = ", ".join(f"const {name} *__restrict__ p{i}" for i, name in enumerate(names))
    source = f"""{HEAD} #include <cstdint>
        struct S {{ int a; }}; typedef double T;
        extern "C" __global__ void k({parameters}) {{}}"""
    right = {element: dtype for element, dtype, fits in reversed(ELEMENTS) if fits}
    for element, dtype, fits in ELEMENTS:
        args = [np.zeros(4, dtype if name == element else right[name]) for name in names]
        if fits:
            run(source, 1, 1, args)
        else:
            with pytest.raises(ValueError, match=f"an array of .* was given for .*{element}"):
                run(source, 1, 1, args)


def test_pointers_take_arrays_or_nothing(run):
    source = 'extern "C" __global__ void k(const float *a, int *o) { o[0] = a == nullptr; }'
    for value in (None, 0):
        out = np.zeros(1, np.int32)
        run(source, 1, 1, [value, out])
        assert out[0] == 1
    for number in (5, 1.5, True, np.float32(0)):
        with pytest.raises(ValueError, match="pointers take arrays"):
            run(source, 1, 1, [number, np.zeros(1, np.int32)])


def test_where_the_source_does_not_tell_numbers_still_follow_the_ptx(run):
    source = """#define REAL float
        template <typename T> __global__ void k(T *o, T x, REAL y, int z) { o[0] = x + y + z; }"""
    out = np.zeros(1, np.float32)
    run(source, 1, 1, [out, 1, 2, 3.0], entry="k<float>")
    assert out[0] == 6
    run(source, 1, 1, [np.zeros(1), 1, 2, 3], entry="k<double>")


def test_a_struct_takes_its_bytes(run):
    source = (
        """struct P { short a; }; extern "C" __global__ void k(int *o, P p, float2 q) { o[0] = p.a; o[1] = q.y; }"""
    )
    out = np.zeros(2, np.int32)
    run(source, 1, 1, [out, np.int16(-5), np.array([1, 2], np.float32).tobytes()])
    assert out.tolist() == [-5, 2]
    for value in ((b"\1\0", 1), (b"\1\0", 1.5)):
        with pytest.raises(ValueError, match="a struct takes its fields or bytes"):
            run(source, 1, 1, [out, *value])


@pytest.mark.parametrize("type_", [">i4", "<i4", ">f4", ">c8"])
def test_an_array_of_any_byte_order_keeps_its_numbers_and_its_order(run, type_):
    kind = "int" if "i" in type_ else "float"
    x = np.arange(8).astype(type_)
    before = x.copy()
    count = x.size * x.itemsize // 4
    run(f'extern "C" __global__ void k({kind} *x) {{ x[threadIdx.x] *= 3; }}', 1, count, [x])
    assert x.dtype == before.dtype
    assert (x == 3 * before).all()


def test_structs_variables_and_textures_of_any_byte_order():
    fields = np.dtype([("a", ">i4"), ("b", "<f4")])
    struct, variable = np.array([(3, 0.5), (4, 1.5)], fields), np.zeros(2, ">i4")
    source = """
    struct S { int a; float b; };
    __constant__ int c[2];
    __device__ int d[2];
    __global__ void k(S *s, S one) { int t = threadIdx.x; s[t].b += s[t].a; d[t] = 10 * c[t] + one.a; }"""
    symbols = {"c": np.array([5, 6], ">i4"), "d": variable}
    simulate(source, "k", 1, 2, [struct, struct[1]], symbols=symbols)
    assert struct.tolist() == [(3, 3.5), (4, 5.5)]
    assert variable.tolist() == [54, 64]
    out = np.zeros(4, ">f4")
    source = (
        "__global__ void k(float *o, cudaTextureObject_t t) { o[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x); }"
    )
    simulate(source, "k", 1, 4, [out, Texture(np.arange(4, dtype=">f4"))])
    assert out.tolist() == [0, 1, 2, 3]


def test_pointers_into_an_array_of_foreign_byte_order_are_refused():
    x = np.arange(8, dtype=">i4")
    with pytest.raises(ValueError, match="foreign byte order"):
        simulate("__global__ void k(int *x, int *y) { x[0] = y[0]; }", "k", 1, 1, [x, x[4:]])
