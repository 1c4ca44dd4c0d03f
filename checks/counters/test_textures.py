"""What the simulator counts of fetches from textures beside what Nsight Compute counted, and of reading registers."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.readings.counters.textures import CHANNELS, SOURCE, STORED, TEXELS, probes
from gemm_lessons import simulate
from gemm_lessons.engine.api import arguments
from gemm_lessons.engine.compiler.compile import Compiled, compile_source
from gemm_lessons.engine.compiler.sass import SassInstruction
from gemm_lessons.engine.records.launch import Grid, Texture
from gemm_lessons.engine.records.results import Counters
from gemm_lessons.engine.sass import registers
from gemm_lessons.engine.sass.operands import decode
from gemm_lessons.engine.simulator import Simulator


@cache
def stored() -> dict[str, list[int]]:
    """Of each probe: requests, sectors, instructions."""
    found: dict[str, list[int]] = json.loads(STORED.read_text())["probes"]
    return found


def texture(channels: int) -> Texture:
    return Texture(np.zeros((TEXELS, channels) if channels > 1 else TEXELS, np.float32), channels)


@cache
def compiled() -> Compiled:
    """All probes, of which any is the entry."""
    return must_compile(SOURCE.read_text(), path=str(SOURCE), entry="one_row")


def counted(probe: str, channels: int, out: Any) -> Counters:
    made, device = replace(compiled(), entry=probe), Simulator()
    given = arguments(device.kernel(made), [texture(channels), out])
    return device.launch(made, Grid((1, 1, 1), (32, 1, 1)), given).counters


@pytest.mark.parametrize("kind", CHANNELS)
def test_requests_and_sectors_are_those_of_the_texture_unit(kind: str) -> None:
    channels = CHANNELS[kind]
    names = [name for name in probes() if name.startswith(f"{kind}_")]
    for name in names:
        counters = counted(name, channels, np.zeros((32, channels), np.float32))
        assert not counters.obstacle
        found = [counters["texture_requests"], counters["texture_sectors"]]
        assert found == stored()[name][:2], name


def test_what_a_fetch_brings_is_read_from_global_memory() -> None:
    out = np.zeros((32, 4), np.float32)
    counters = counted("four_half_outside", 4, out)
    assert counters["texture_bytes"] == counters["global_bytes_read"] == 16 * 16, "none comes from outside"
    assert (counters["global_accesses"], counters["global_load_requests"]) == (2, 0), "a fetch and a store"


OBJECTS = """
extern "C" __global__ void k(cudaTextureObject_t a, float4 *out, cudaTextureObject_t b)
{
    const int i = threadIdx.x;
    const float4 one = tex1Dfetch<float4>(b, 2 * i), other = tex1Dfetch<float4>(i < 16 ? a : b, i + LAST - 24);
    out[i] = make_float4(one.x + other.x, one.y + other.y, one.z + other.z, one.w + other.w);
}
"""


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89"])
def test_objects_are_found_among_the_parameters_and_in_registers(arch: str) -> None:
    """Before compute capability 9.0, where an object has to be the same for all lanes."""
    made, device = compile_source(OBJECTS, path="k.cu", entry="k", defines={"LAST": TEXELS}, arch=arch), Simulator()
    assert isinstance(made, Compiled)
    given = arguments(device.kernel(made), [texture(4), np.zeros((32, 4), np.float32), texture(4)])
    counters = device.launch(made, Grid((1, 1, 1), (32, 1, 1)), given).counters
    assert not counters.obstacle
    assert (counters["texture_requests"], counters["texture_bytes"]) == (8 + 6, 16 * (32 + 24))


def test_who_reads_a_part_of_a_texel_is_told_that_it_is_not_counted() -> None:
    source = 'extern "C" __global__ void k(cudaTextureObject_t t, float *out) {'
    source += " out[threadIdx.x] = tex1Dfetch<float4>(t, threadIdx.x).y; }"
    counters = simulate(source, "k", 1, 32, [texture(4), np.zeros(32, np.float32)]).counters
    assert "whose texels are what is fetched" in counters.obstacle


@pytest.mark.parametrize(("mine", "most"), [("t < 32", 1), ("t < 32 || t % 2", 2), ("true", 1)])
def test_from_how_many_textures_a_warp_fetches(mine: str, most: int) -> None:
    source = (
        'extern "C" __global__ void k(cudaTextureObject_t a, cudaTextureObject_t b, float *out) { int t = threadIdx.x;'
    )
    source += f" if ({mine}) out[t] = tex1Dfetch<float>(a, t); else out[t] = tex1Dfetch<float>(b, t); }}"
    texels = np.zeros(64, np.float32)
    counters = simulate(
        source, "k", 3, 64, [Texture(texels), Texture(texels.copy()), np.zeros(64, np.float32)]
    ).counters
    assert not counters.obstacle
    assert counters["textures_of_a_warp"] == most


def decoded(*texts: str) -> list[Any]:
    return [decode(i, SassInstruction("FFMA", 0, "", None, 16 * i, 0, text)) for i, text in enumerate(texts)]


def test_three_operands_in_one_bank_cost_a_clock_unless_one_was_kept() -> None:
    first, second = "FFMA R1, R2.reuse, R3, R5", "FFMA R9, R2, R4, R6"
    assert registers.conflicts(decoded(first, second)) == (0, 0)
    assert registers.conflicts(decoded(second)) == (1,)
    assert registers.conflicts(decoded("FFMA R1, R3, R2.reuse, R5", second)) == (0, 1), "in the same place only"
    assert [registers.reuse_flags(d) for d in decoded(first, second)] == [1, 0]
