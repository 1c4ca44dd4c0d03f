"""Atomics of lanes that share addresses, against the same lanes one after the other in plain Python."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from checks.simulator.property.scalar import ATOMICS
from gemm_lessons.engine.api import simulate
from gemm_lessons.engine.machine import atomics
from gemm_lessons.engine.records.metrics import TOTALS
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.semantics.operation import DTYPES

KINDS = {
    **dict.fromkeys(("add", "min", "max"), ("u32", "s32", "u64", "s64")),
    **dict.fromkeys(("and", "or", "xor", "exch", "cas"), ("b32", "b64")), "inc": ("u32",), "dec": ("u32",),
}  # fmt: skip


def updates(name: str, kind: str) -> atomics.Updates:
    operation = atomics.operation_of(name, kind)
    assert operation is not None
    return atomics.Updates(name, kind, operation)


@pytest.mark.parametrize("places", [1, 5, 40, 300])
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in KINDS.items() for kind in kinds])
def test_lanes_update_one_after_the_other(name, kind, places, random):
    dtype = np.dtype(DTYPES[kind])
    info = np.iinfo(dtype)
    view = random.integers(0, 4, places).astype(dtype)
    index = random.integers(0, places, 200) if places < 300 else random.permutation(places)[:200]
    wide = random.integers(info.min, info.max, 200, dtype, endpoint=True)
    given = [np.where(random.random(200) < 0.5, wide, random.integers(0, 4, 200).astype(dtype)) for _ in range(2)]
    given = given[: 2 if name == "cas" else 1]
    memory, found = view.tolist(), []
    for place, *operands in zip(index.tolist(), *(g.tolist() for g in given), strict=True):
        found.append(memory[place])
        memory[place] = int(np.array(ATOMICS[name](memory[place], *operands) & (1 << 64) - 1, np.uint64).astype(dtype))
    old = updates(name, kind).apply(view, index, given)
    assert old.tolist() == found
    assert view.tolist() == memory


@pytest.mark.parametrize(("kind", "special"), list(itertools.product(("f32", "f64", "f16"), (False, True))))
@pytest.mark.parametrize("places", [1, 3, 90])
def test_floats_are_added_in_the_order_of_lanes(kind, special, places, random):
    dtype = np.dtype(DTYPES[kind])
    view = random.normal(size=places).astype(dtype)
    index = random.integers(0, places, 200)
    value = random.normal(size=200).astype(dtype)
    if special:
        value[50:200:10] = random.choice([np.inf, -np.inf, np.nan, -0.0], 15)
    memory, found = view.copy(), np.empty_like(value)
    add = semantics.lookup("add", ("rn", kind)) or semantics.lookup("add", (kind,))
    assert add is not None
    with semantics.float_state():
        for lane, place in enumerate(index.tolist()):
            found[lane] = memory[place]
            add.function(memory[place : place + 1], found[lane : lane + 1], value[lane : lane + 1])
        old = updates("add", kind).apply(view, index, [value])
    assert old.tobytes() == found.tobytes()
    assert view.tobytes() == memory.tobytes()


def test_one_operand_for_all_lanes():
    view = np.array([7, 7], np.uint32)
    assert updates("add", "u32").apply(view, np.array([1, 1, 0]), [np.array(2, np.uint32)[()]]).tolist() == [7, 9, 7]
    assert view.tolist() == [9, 11]


@pytest.mark.counted
@pytest.mark.parametrize(
    ("index", "floats", "doubles"),  # as an H200 counted them
    [
        ("0", 32, 32),
        ("i", 4, 8),
        ("i // 2", 4, 8),
        ("i // 4", 4, 8),
        ("i % 2", 16, 16),
        ("i % 2 * 8", 32, 32),
        ("2 * i", 8, 16),
        ("i % 31", 5, 9),
        ("min(i, 29)", 6, 10),
    ],
)
def test_sectors_of_a_reduction_count_once_for_each_lane_at_their_busiest_address(index, floats, doubles):
    for kind, sectors in (("float", floats), ("unsigned", floats), ("double", doubles)):
        add = f"atomicAdd(x + at[threadIdx.x], ({kind})1);"
        source = f'extern "C" __global__ void k({kind} *x, const int *at) {{ {add} }}'
        at = [eval(index, {"i": i, "min": min}) for i in range(32)]
        x = np.zeros(32 * 8, {"float": "f4", "unsigned": "u4", "double": "f8"}[kind])
        launched = simulate(source, "k", 1, 32, [x, np.array(at, np.int32)])
        assert launched.counters["global_reduction_sectors"] == sectors


VECTORS = """
extern "C" __global__ void k(float *x, float *y, float *old, const float *by, int gap)
{
    const float4 b = reinterpret_cast<const float4 *>(by)[threadIdx.x];
    const float4 found = atomicAdd(reinterpret_cast<float4 *>(x + gap) + threadIdx.x % 3, b);
    reinterpret_cast<float4 *>(old)[threadIdx.x] = found;
    atomicAdd(reinterpret_cast<float2 *>(y) + threadIdx.x % 5, make_float2(b.x, b.y));
}
"""


@pytest.mark.counted
def test_four_floats_in_one_access(random):
    """Each of them is an update of its own; Hopper does them as one access."""
    x, y, old, by = (random.integers(-9, 9, n).astype(np.float32) for n in (16, 10, 128, 128))
    expected, pairs, before = x[:12].reshape(3, 4).copy(), y.reshape(5, 2).copy(), np.empty((32, 4), np.float32)
    for lane, row in enumerate(by.reshape(32, 4)):
        before[lane] = expected[lane % 3]
        expected[lane % 3] += row
        pairs[lane % 5] += row[:2]
    launched = simulate(VECTORS, "k", 1, 32, [x, y, old, by, 0])
    assert not launched.findings
    assert (x[:12].reshape(3, 4) == expected).all()
    assert (y.reshape(5, 2) == pairs).all()
    assert (old.reshape(32, 4) == before).all()
    assert launched.counters["global_reductions"] == 1, "nobody reads what the second one returns"
    assert TOTALS["global_reduction_sectors"] in launched.counters.inexact
    fault = simulate(VECTORS, "k", 1, 32, [x, y, old, by, 1]).fault
    assert fault.kind == "misaligned"


@pytest.mark.parametrize(("where", "kind"), [("x", ""), ("s", "illegal_access")])
def test_four_floats_at_an_address_that_names_no_memory(where, kind):
    """As compilers write it of a pointer that they cannot follow. Shared memory has no such access."""
    source = """extern "C" __global__ void k(float *x) {
        __shared__ float s[8]; s[threadIdx.x] = 0; __syncthreads();
        asm volatile("red.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(WHERE), "f"(1.0f)); }""".replace("WHERE", where)
    x = np.arange(4, dtype=np.float32)
    fault = simulate(source, "k", 1, 8, [x]).fault
    assert (fault.kind if fault else "") == kind
    assert x.tolist() == ([8, 9, 10, 11] if not kind else [0, 1, 2, 3])


def test_four_floats_by_atomics_and_by_a_store_race():
    source = VECTORS.replace("    atomicAdd(reinterpret_cast<float2", "    x[3] = 1; atomicAdd(reinterpret_cast<float2")
    x, y, old, by = (np.zeros(n, np.float32) for n in (16, 10, 128, 128))
    launched = simulate(source, "k", 1, 32, [x, y, old, by, 0])
    assert "race" in {finding.kind for finding in launched.findings}


WIDE = (Path(__file__).parent / "sources" / "wide_atomics.cu").read_text()


def test_128_bits_are_exchanged_as_one():
    counter, sums = np.array([0, (1 << 64) - 1], np.uint64), np.zeros(4, np.uint64)
    launched = simulate(WIDE, "k", 1, 96, [counter, sums])
    assert launched.fault is None
    assert not [found for found in launched.findings if found.severity == "error"]
    assert counter.tolist() == [96, (1 << 64) - 1 - 96]
    total = 96 * 97 // 2
    assert [sums[0] + sums[2], sums[1] + sums[3]] == [total, 2 * total]  # whatever the order
