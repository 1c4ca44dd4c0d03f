"""Registers of PTX that hold vectors, loads that also read padding, and literals that only the machine code has."""

from __future__ import annotations

import numpy as np
import pytest

from gemm_lessons import engine
from gemm_lessons.engine.ptx import parser
from gemm_lessons.engine.ptx.records import PtxSyntaxError

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
    .reg .b64 %rd<6>; .reg .b32 %r<8>; .reg .b16 %h<6>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
"""


def run(body: str, x: np.ndarray, y: np.ndarray) -> engine.Launched:
    return engine.compile(f"{HEAD}{body}\n    ret;\n}}\n", "k").launch(1, 1, [x, y])


@pytest.mark.parametrize("names", ["t", "t<2>"])
def test_a_vector_register_is_its_elements(names: str) -> None:
    body = f"""
    .reg .v4 .b32 {names};
    ld.global.v4.b32 T, [%rd1];
    add.s32 T.x, T.x, T.w;
    st.global.v4.b32 [%rd2], T;
    st.global.v2.b32 [%rd2+16], {{T.z, T.y}};
    """.replace("T", "t" if names == "t" else "t1")
    y = np.zeros(6, np.int32)
    run(body, np.array([1, 2, 3, 40], np.int32), y)
    assert y.tolist() == [41, 2, 3, 40, 3, 2]


@pytest.mark.parametrize(("used", "found"), [("%h3", 0), ("%h4", 1)])
def test_padding_that_is_loaded_along_is_not_read(used: str, found: int) -> None:
    """NVRTC loads three bytes of a struct and one of padding as a vector, whose last element nothing uses."""
    body = f"""
    .local .align 4 .b8 own[4];
    mov.b64 %rd3, own;
    mov.b16 %h1, 5;
    st.local.u8 [%rd3], %h1; st.local.u8 [%rd3+1], %h1; st.local.u8 [%rd3+2], %h1;
    ld.local.v4.u8 {{%h1, %h2, %h3, %h4}}, [%rd3];
    add.s16 %h1, %h1, %h2; add.s16 %h1, %h1, {used};
    st.global.u8 [%rd2], %h1;
    """
    got = run(body, np.zeros(4, np.uint8), np.zeros(4, np.uint8))
    assert [it.kind for it in got.findings] == ["uninitialised"] * found


@pytest.mark.parametrize(("change", "words"), [("64", ""), ("32", "32 bits")])
def test_addresses_of_32_bits_are_named(change: str, words: str) -> None:
    text = f"{HEAD}ret;\n}}\n".replace("address_size 64", f"address_size {change}")
    if not words:
        assert parser.parse(text).kernels["k"].name == "k"
        return
    with pytest.raises(PtxSyntaxError, match=words):
        parser.parse(text)


def test_parameters_in_registers_are_named() -> None:
    function = ".func (.reg .b32 a) twice(.reg .b32 b)\n{\n add.s32 a, b, b;\n ret;\n}\n"
    call = "call (%r1), twice, (%r2);\n ret;\n}\n"
    text = HEAD.replace(".visible", f"{function}.visible") + call
    with pytest.raises(Exception, match=r"in registers \(.reg\)"):
        engine.compile(text, "k").launch(1, 1, [np.zeros(1, np.int32)] * 2)


POWER = """
extern "C" __global__ void power(const float *x, float *y, float e)
{
    const float value = powf(x[threadIdx.x], e);
    y[threadIdx.x] = value > 1.0f ? sqrtf(value) : value / 3.1f;
}
"""


@pytest.mark.counted
def test_a_kernel_with_powf_is_counted() -> None:
    """nvdisasm prints the NaN of powf as QNAN: its bits are in the machine code."""
    x, y = np.linspace(0.1, 3, 32, dtype=np.float32), np.zeros(32, np.float32)
    got = engine.compile(POWER, "power").launch(1, 32, [x, y, 1.5])
    assert not got.counters.inexact
    power = x.astype(np.float64) ** 1.5
    np.testing.assert_allclose(y, np.where(power > 1, np.sqrt(power), power / 3.1), rtol=1e-5)


PACK = """
extern "C" __global__ void pack(const int *x, unsigned *y, const int *table)
{
    unsigned low, both;
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(low) : "r"(x[0]), "r"(x[1]));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(both) : "r"(x[2]), "r"(x[3]), "r"(low));
    asm("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(low) : "r"(x[4]), "r"(x[5]));
    y[0] = both;
    y[1] = low;
    y[2] = table[low & 31];
}
"""


@pytest.mark.counted
def test_integers_are_saturated_and_packed_by_both_engines() -> None:
    x, y = np.array([-200, 100, 300, -1, 40000, -2], np.int32), np.zeros(3, np.uint32)
    got = engine.compile(PACK, "pack").launch(1, 1, [x, y, np.arange(32, dtype=np.int32)])
    assert [hex(it) for it in y] == ["0x8064ff00", "0x7ffffffe", "0x1e"]
    assert not got.counters.inexact
