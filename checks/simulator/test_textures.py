"""Texture and surface objects: what an H100 answered, and what is refused or found."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from checks.readings import FOLDER
from checks.simulator import texture_cases as cases
from gemm_lessons import simulate
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.launch import Surface, Texture

TOGETHER = True

# Of the difference between the largest and the smallest texel: weights of 8 bits, and their products rounded again.
BLUR = 1 / 256


@cache
def hardware() -> dict[str, str]:
    """Raw answers of an H100 (record_textures.py), in hexadecimal; those of gathers are an H200's."""
    found: dict[str, str] = json.loads((FOLDER / "simulator" / "textures.json").read_text())
    return found


def recorded(name: str, like: Any) -> Any:
    return np.frombuffer(bytes.fromhex(hardware()[name]), like.dtype).reshape(like.shape)


def texture(case: cases.Case) -> Texture:
    return Texture(
        case.values(), case.channels, case.filter, case.address, case.normalized, case.read, bool(case.layers)
    )


def asked(case: cases.Case) -> Any:
    out = case.out()
    launched = simulate(case.kernel(), "k", 1, cases.LANES, [texture(case), *case.coordinates(), out])
    assert launched.fault is None, launched.fault
    assert all("textures" in why for why in launched.counters.inexact.values())
    assert launched.counters.inexact
    return out


@pytest.mark.counted
@pytest.mark.parametrize("case", [c for c in cases.every_case() if c.name in hardware()], ids=lambda c: c.name)
def test_texture_gives_what_hardware_gave(case: cases.Case) -> None:
    """Points exactly, and lines of texels filtered; with more coordinates hardware rounds the products of weights."""
    got = asked(case)
    want = recorded(case.name, got)
    if case.filter == "point" or case.gathered is not None or (case.dims == 1 and case.dtype == "float32"):
        assert np.array_equal(got, want)
        return
    values = case.values().astype(np.float64)
    span = values.max() - values.min()
    if case.read != "element":
        span /= np.iinfo(case.dtype).max
    assert np.abs(got.astype(np.float64) - want).max() <= span * BLUR
    assert not np.array_equal(got, np.zeros_like(got))


def test_fetch_by_integer() -> None:
    out = np.zeros(cases.LANES, np.float32)
    simulate(cases.FETCH, "k", 1, cases.LANES, [Texture(cases.Case(1).values()), cases.fetched(), out])
    assert np.array_equal(out, recorded("fetch", out))


@pytest.mark.parametrize(("case", "asked"), cases.QUERIES)
def test_a_texture_says_how_large_it_is(case: cases.Case, asked: tuple[str, ...]) -> None:
    out = np.zeros(len(asked), np.uint32)
    assert simulate(cases.query(asked), "k", 1, 1, [texture(case), out]).fault is None
    assert out.tolist() == case.sizes()


def test_surface_gives_what_hardware_gave() -> None:
    values = np.arange(117, dtype=np.uint32).reshape(cases.SURFACE_SHAPE) * np.uint32(0x01030507)
    answers = np.zeros(4 * cases.LANES, np.uint32)
    launched = simulate(cases.SURFACE, "k", 1, cases.LANES, [Surface(values), *cases.indices(), answers])
    assert launched.fault is None, launched.fault
    assert np.array_equal(answers, recorded("surface reads", answers))
    assert np.array_equal(values, recorded("surface after", values))


BLOCKS = """
extern "C" __global__ void k(cudaTextureObject_t t, cudaTextureObject_t u, cudaSurfaceObject_t s, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cudaTextureObject_t mine = i % 3 ? t : u;
    const float v = tex1Dfetch<float>(mine, i);
    float *p = nullptr;
    if (v < 0) *p = v;
    surf2DLayeredwrite(make_float2(v, -v), s, i % 4 * 8, i / 4 % 2, i / 8);
}
"""


def test_objects_chosen_by_lane_and_layers_of_pairs() -> None:
    a, b = np.arange(40, dtype=np.float32), np.arange(40, dtype=np.float32) + 100
    out = np.zeros((5, 2, 4, 2), np.float32)
    surface = Surface(out, channels=2, layered=True)
    launched = simulate(BLOCKS, "k", 5, 8, [Texture(a), Texture(b), surface, 39])
    assert launched.fault is None, launched.fault
    i = np.arange(40)
    want = np.where(i % 3 == 0, b, a)
    want[39] = 0
    assert np.array_equal(out.reshape(40, 2), np.stack([want, -want], axis=1))


FOUND = """
extern "C" __global__ void k(cudaSurfaceObject_t s, cudaTextureObject_t t, float *out, int x) {
    BODY;
}
"""


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("surf2Dwrite(1.0f, s, x * 4, 0)", None),
        ("surf2Dwrite(1.0f, s, x * 20, 0)", "out_of_bounds"),
        ("surf2Dwrite(1.0f, s, x * 20, 0, cudaBoundaryModeZero)", None),
        ("surf2Dwrite(1.0f, s, x, 0)", "misaligned"),
        ("out[0] = surf2Dread<float>(t, 0, 0)", "illegal_access"),
        ("out[0] = tex2D<float>(s, 0, 0)", "illegal_access"),
        ("out[0] = tex2D<float>(t, 0, 0)", None),
    ],
)
def test_faults(body: str, kind: str | None) -> None:
    arguments = [Surface(np.zeros((3, 4), np.float32)), Texture(np.zeros((3, 4), np.float32)), np.zeros(1, np.float32)]
    launched = simulate(FOUND.replace("BODY", body), "k", 1, 1, [*arguments, 1])
    assert (launched.fault.kind if launched.fault else None) == kind, launched.fault
    if launched.fault:
        assert launched.fault.line == 3


@pytest.mark.parametrize(
    "body",
    [
        "int4 v = tex2Dgather<int4>(t, 0, 0); out[0] = v.x",
        "out[0] = texCubemap<float>(t, 0, 0, 1)",
        "out[0] = tex1D<float>(t, 0)",
        "out[0] = tex2D<int>(t, 0, 0)",
        "out[0] = tex2D<float4>(t, 0, 0).y",
        "out[0] = surf1Dread<float>(s, 0)",
        'asm("txq.depth.b32 %0, [%1];" : "=r"(x) : "l"(t)); out[0] = x',
        'asm("txq.num_samples.b32 %0, [%1];" : "=r"(x) : "l"(t)); out[0] = x',
    ],
)
def test_what_is_not_known_is_refused(body: str) -> None:
    arguments = [Surface(np.zeros((3, 4), np.float32)), Texture(np.zeros((3, 4), np.float32)), np.zeros(1, np.float32)]
    with pytest.raises(UnsupportedKernel) as refused:
        simulate(FOUND.replace("BODY", body), "k", 1, 1, [*arguments, 1])
    assert refused.value.line == 3


@pytest.mark.parametrize(
    "given",
    [
        Texture(np.zeros((2, 2), np.float64)),
        Texture(np.zeros((2, 3), np.float32), channels=3),
        Texture(np.zeros((2, 2), np.int32), filter="linear"),
        Texture(np.zeros((2, 2), np.int32), read="normalized_float"),
        Texture(np.zeros((2, 2), np.float32), address="repeat"),
        Texture(np.zeros((1, 2, 2, 2), np.float32)),
        Surface(np.zeros((0, 2), np.float32)),
    ],
)
def test_objects_that_cannot_be(given: Texture | Surface) -> None:
    arguments = [Surface(np.zeros((3, 4), np.float32)), given, np.zeros(1, np.float32), 1]
    with pytest.raises(ValueError, match="argument 1"):
        simulate(FOUND.replace("BODY", "out[0] = x"), "k", 1, 1, arguments)
    with pytest.raises(ValueError, match="4 bytes, 8 were given"):
        simulate('extern "C" __global__ void k(int t) {}', "k", 1, 1, [given])


def test_an_unset_coordinate_is_told_of() -> None:
    body = 'float y; asm volatile("" : "=f"(y)); out[0] = tex2D<float>(t, 0, y)'
    arguments = [Surface(np.zeros((3, 4), np.float32)), Texture(np.zeros((3, 4), np.float32)), np.zeros(1, np.float32)]
    launched = simulate(FOUND.replace("BODY", body), "k", 1, 1, [*arguments, 1])
    assert [f.kind for f in launched.findings] == ["unset"]
    launched = simulate(FOUND.replace("BODY", body.replace("0, y", "0, 1")), "k", 1, 1, [*arguments, 1])
    assert not launched.findings


def test_without_objects_the_kernel_is_refused_before_it_runs() -> None:
    """``inspect`` cannot give any; that is no fault of the kernel."""
    out = np.zeros(1, np.float32)
    with pytest.raises(UnsupportedKernel, match="no texture or surface object"):
        simulate(FOUND.replace("BODY", "out[0] = 5; out[0] = tex2D<float>(t, 0, 1)"), "k", 1, 1, [0, 0, out, 1])
    assert out[0] == 0


@pytest.mark.counted
def test_counts_are_those_of_the_other_accesses() -> None:
    """Texture reads are no requests of global memory; filtered ones are not followed in machine code, which is said."""
    out = np.zeros(64, np.float32)
    source = 'extern "C" __global__ void k(cudaTextureObject_t t, float *out) {'
    source += " out[threadIdx.x] = tex1D<float>(t, threadIdx.x); }"
    counters = simulate(source, "k", 1, 64, [Texture(np.ones(64, np.float32)), out]).counters
    assert (counters["global_load_requests"], counters["global_store_requests"]) == (0, 2)
    assert "textures and surfaces are not followed" in next(iter(counters.inexact.values()))
