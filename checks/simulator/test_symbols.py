"""What the host sets and reads by name, and pointers into the middle of buffers, as on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from gemm_lessons import simulate
from gemm_lessons.engine.machine.symbols import source_name
from gemm_lessons.engine.records.launch import Buffer, Pointer, StructWithBuffers

SYMBOLS = """
__constant__ float weights[4];
__constant__ int shift[2] = {32, 0};
__constant__ float scale = 2.0f;
__device__ int total = 5;
__device__ int place[32];
struct Pair { int a; float b; };
__constant__ Pair pair;
namespace ns { __constant__ double d; namespace { __device__ float quiet; } }
static __device__ unsigned long long big;
extern "C" __global__ void k(const float *x, float *y)
{
    const int i = threadIdx.x;
    y[i] = x[i] * scale + weights[i % 4] + pair.a * pair.b;
    y[place[i] + shift[0]] = x[i];
    atomicAdd(&total, i);
    if (i == 0) { ns::quiet = ns::d * 2; big += 1; }
}
"""
LANE = np.arange(32)


def launch(symbols, source=SYMBOLS, entry="k", **options):
    x, y = np.arange(32, dtype=np.float32), np.zeros(96, np.float32)
    return simulate(source, entry, 1, 32, [x, y], symbols=symbols, **options), x, y


def test_variables_get_the_values_of_the_host_and_are_read_back():
    total, big, quiet = np.array([100], np.int32), np.array(7, np.uint64), np.zeros(1, np.float32)
    place = LANE[::-1].astype(np.int32).copy()
    fixed = np.array([1, 2, 3, 4], np.float32)
    fixed.flags.writeable = False
    symbols = {
        "weights": fixed, "scale": 3.0, "total": total, "place": place, "ns::d": np.float64(1.5), "ns::quiet": quiet,
        "pair": np.int32(2).tobytes() + np.float32(0.25).tobytes(), "big": big, "shift": np.array([64, 0], np.int32),
    }  # fmt: skip
    launched, x, y = launch(symbols)
    assert launched.fault is None
    assert not launched.findings
    assert y[:32].tolist() == (x * 3 + fixed[LANE % 4] + 0.5).tolist()
    assert y[64:].tolist() == x[::-1].tolist()
    assert not y[32:64].any()
    assert [total[0], big, quiet[0]] == [100 + LANE.sum(), 8, 3.0]
    assert place.tolist() == LANE[::-1].tolist()


def test_without_symbols_variables_have_the_values_of_the_source():
    launched, x, y = launch({})
    assert launched.fault is None
    assert y[:32].tolist() == (x * 2).tolist()
    assert y[32] in x


ADDRESSES = """
__constant__ int offset;
__device__ int place[32];
extern "C" __global__ void k(const float *x, float *y) { y[threadIdx.x] = x[place[threadIdx.x] + offset]; }
"""


@pytest.mark.counted
@pytest.mark.parametrize(
    ("places", "sectors", "arch"), [(LANE, 8, "sm_90"), (LANE % 8, 5, "sm_75"), (LANE * 0, 5, "sm_89")]
)
def test_the_machine_code_sees_the_same_values(places, sectors, arch):
    """Addresses made from variables: 4 sectors of places, and those of x that they name. Cubins before sm_90 write
    down otherwise where the address of ``place`` goes."""
    launched, _, y = launch({"place": places.astype(np.int32), "offset": 0}, ADDRESSES, arch=arch)
    assert launched.counters.inexact == {}
    assert launched.counters["global_load_sectors"] == sectors
    assert y[:32].tolist() == places.tolist()
    shifted, _, _ = launch({"place": np.zeros(32, np.int32), "offset": 31}, ADDRESSES)
    assert shifted.fault is None
    outside, _, _ = launch({"place": np.zeros(32, np.int32), "offset": 32}, ADDRESSES)
    assert outside.fault.kind == "out_of_bounds"


@pytest.mark.parametrize(
    ("symbols", "words"),
    [
        ({"weight": np.zeros(4, np.float32)}, "no __constant__ or __device__ variable of that name.*weights"),
        ({"weights": np.zeros(3, np.float32)}, "the variable has 16 bytes, the array 12"),
        ({"weights": np.zeros(4, object)}, "Python objects"),
        ({"scale": np.array([2], np.int32)}, "a floating-point number, the array of type int32"),
        ({"total": np.array([2], np.float32)}, "an integer, the array of type float32"),
        ({"weights": 1.0}, "float does not fit"),
        ({"pair": "text"}, "str does not fit"),
        ({"ns::d": np.zeros(1), "_ZN2ns1dE": np.zeros(1)}, "given twice"),
    ],
)
def test_what_does_not_fit_is_named(symbols, words):
    with pytest.raises(ValueError, match=f"symbol.*{words}"):
        launch(symbols)


def test_names_of_the_source():
    assert source_name("weights") == "weights"
    assert source_name("_ZN2ns1dE") == "ns::d"
    assert source_name("_ZL6hidden") == "hidden"
    assert source_name("_ZN31_INTERNAL_00000000_4_c_cu_scale2ns33_GLOBAL__N__00000000_4_c_cu_scale1fE") == "ns::f"
    for unknown in ("_Z2tvILi3EE", "_ZZ1kE2st"):
        assert source_name(unknown) == unknown


# -- pointers ---------------------------------------------------------------------------------------------------------

BLOCK = bytearray(256)
COPY = 'extern "C" __global__ void k(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }'
HALO = """extern "C" __global__ void k(const float *x, float *y)
{ const int i = threadIdx.x; y[i] = x[i - 1] + x[i + 1]; }"""
AGAIN = """extern "C" __global__ void k(float *x, float *y)
{ x[threadIdx.x] = 1; __syncthreads(); y[threadIdx.x] += 1; }"""


def data(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


ROW = data(64)


def test_views_of_one_array_are_pointers_into_one_memory():
    x = data(4, 32)
    launched = simulate(COPY, "k", 1, 32, [x[1], x[3]])
    assert launched.fault is None
    assert not launched.findings
    assert x.tolist() == np.stack([data(4, 32)[i] for i in (0, 1, 2, 1)]).tolist()
    # What is written through one is read through the other; whole arrays of another shape too.
    for first, second in (((0, 64), (16, 64)), ((0, 64), (0, 64)), ((16, 64), (0, 64)), ((8, 40), (32, 64))):
        x, wanted = data(8, 8), data(64)
        wanted[slice(*first)][:32] = 1
        wanted[slice(*second)][:32] += 1
        launched = simulate(AGAIN, "k", 1, 32, [x.reshape(-1)[slice(*first)], x.reshape(-1)[slice(*second)]])
        assert launched.fault is None
        assert x.reshape(-1).tolist() == wanted.tolist()


def test_a_view_reaches_all_of_its_array_and_no_more():
    x, y = data(34), np.zeros(32, np.float32)
    launched = simulate(HALO, "k", 1, 32, [x[1:33], y])
    assert launched.fault is None
    assert y.tolist() == (x[:-2] + x[2:]).tolist()
    for start, place in ((0, "byte -4 of 136"), (2, "byte 136 of 136")):
        launched = simulate(HALO, "k", 1, 32, [x[start:], y])
        assert launched.fault.kind == "out_of_bounds"
        assert place in launched.fault.message
    assert simulate(HALO, "k", 1, 32, [x[1:33].copy(), y]).fault.kind == "out_of_bounds"


def test_races_between_two_pointers_are_found_and_disjoint_ones_are_clean():
    def kinds(*views):
        return {finding.kind for finding in simulate(COPY, "k", 2, 64, views).findings}

    x = data(256)
    assert kinds(x, x[128:]) == {"race"}  # both blocks store the same elements
    shifted = COPY.replace("threadIdx.x", "blockIdx.x * 64 + threadIdx.x")
    assert not simulate(shifted, "k", 2, 64, [x, x[128:]]).findings
    assert simulate(shifted, "k", 2, 64, [x, x[32:]]).findings


@pytest.mark.counted
def test_counters_follow_the_pointer():
    x, y = data(256), np.zeros(64, np.float32)
    for start, sectors in ((0, 4), (8, 4), (1, 5)):
        launched = simulate(COPY, "k", 1, 32, [x[start:], y])
        assert launched.counters.inexact == {}
        assert launched.counters["global_load_sectors"] == sectors
    wide = 'extern "C" __global__ void k(const float4 *x, float4 *y) { *y = *x; }'
    assert simulate(wide, "k", 1, 1, [x[4:], y]).fault is None
    assert simulate(wide, "k", 1, 1, [x[1:], y]).fault.kind == "misaligned"


def test_read_only_views_are_left_alone_unless_another_may_be_written():
    x = data(64)
    view = x[32:]
    view.flags.writeable = False
    simulate(COPY, "k", 1, 32, [data(32), view])
    assert x.tolist() == data(64).tolist()
    simulate(COPY, "k", 1, 32, [x, view])
    assert x[32:].tolist() == data(32).tolist()


def test_orders_and_owners_of_memory():
    x = np.asfortranarray(data(8, 8))
    simulate(COPY, "k", 1, 16, [data(16), x.T[2:4]])
    assert x.T[2:4].reshape(-1).tolist() == data(16).tolist()
    block = bytearray(256)
    x = np.frombuffer(block, np.float32)
    simulate(COPY, "k", 1, 32, [data(32), x[16:48]])
    assert np.frombuffer(block, np.float32)[16:48].tolist() == data(32).tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([np.frombuffer(BLOCK, np.float32), np.frombuffer(BLOCK, np.float32)], "share memory"),
        ([Buffer("a", ROW), Buffer("b", ROW[32:], True)], "a and b share memory"),
        ([data(8, 8)[:, :4], data(64)], "argument 0.*not C-contiguous"),
        ([np.zeros(4, object), data(64)], "argument 0.*Python objects"),
    ],
)
def test_what_cannot_be_one_memory_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        simulate(COPY, "k", 1, 32, arguments)


def test_explicit_pointers_also_in_structs():
    source = """struct Two { float *from; float *to; };
    extern "C" __global__ void k(Two t, float *x) { t.to[threadIdx.x] = t.from[threadIdx.x] + x[0]; }"""
    x = Buffer("x", data(64), True)
    pair = StructWithBuffers("t", bytes(16), {0: x, 8: Pointer("to", x, 128)})
    launched = simulate(source, "k", 1, 32, [pair, Pointer("x", x, 4)])
    assert launched.fault is None
    assert x.array[32:].tolist() == (data(32) + 1).tolist()
