"""Warp instructions with member masks: groups, who waits for whom, what is undefined; against one thread at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gemm_lessons import engine, simulate
from gemm_lessons.engine.machine.convergence import EXCHANGES
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.simulator import Simulator

TOGETHER = True
Array = np.ndarray[Any, Any]

HEAD = """extern "C" __global__ void k(const int *a, int *o, int n) {
    const int t = threadIdx.x, lane = t & 31; int v = a[t];"""


def launch(run, body, threads=64, n=0, head="", **options):
    a = np.random.default_rng(5).integers(0, 8, threads).astype(np.int32)
    out = np.full(threads, -1, np.int32)
    a.setflags(write=False)
    launched = run(f"{head} {HEAD} {body} }}", 1, threads, [a, out, n], **options)
    return a.tolist(), out.tolist(), [(f.kind, f.severity) for f in launched.findings]


MASKS = {  # C++ expression of a lane's mask, and the same in Python
    "tile<2>": ("3u << (lane & ~1)", lambda lane, a: 3 << (lane & ~1)),
    "tile<4>": ("15u << (lane & ~3)", lambda lane, a: 15 << (lane & ~3)),
    "tile<8>": ("255u << (lane & ~7)", lambda lane, a: 255 << (lane & ~7)),
    "tile<16>": ("0xffffu << (lane & 16)", lambda lane, a: 0xFFFF << (lane & 16)),
    "warp": ("0xffffffffu", lambda lane, a: 0xFFFFFFFF),
    "odd and even": ("lane & 1 ? 0xaaaaaaaau : 0x55555555u", lambda lane, a: 0xAAAAAAAA if lane & 1 else 0x55555555),
    "label": ("__match_any_sync(0xffffffffu, v)", lambda lane, a: sum(1 << i for i in range(32) if a[i] == a[lane])),
    "binary": (
        "__ballot_sync(0xffffffffu, v > 3) ^ (v > 3 ? 0u : 0xffffffffu)",
        lambda lane, a: sum(1 << i for i in range(32) if (a[i] > 3) == (a[lane] > 3)),
    ),
}
ANSWERS = {  # what a lane gets, from its mask, the values of its warp and itself
    "__ballot_sync(m, v & 1)": lambda m, a, i: sum(1 << j for j in range(32) if m >> j & 1 and a[j] & 1),
    "__any_sync(m, v == 5)": lambda m, a, i: any(a[j] == 5 for j in range(32) if m >> j & 1),
    "__all_sync(m, v != 5)": lambda m, a, i: all(a[j] != 5 for j in range(32) if m >> j & 1),
    "__match_any_sync(m, v & 3)": lambda m, a, i: sum(
        1 << j for j in range(32) if m >> j & 1 and a[j] & 3 == a[i] & 3
    ),
    "__match_all_sync(m, v >> 2, &p) + 2 * p": lambda m, a, i: (
        m + 2 if len({a[j] >> 2 for j in range(32) if m >> j & 1}) == 1 else 0
    ),
    "__reduce_add_sync(m, v)": lambda m, a, i: sum(a[j] for j in range(32) if m >> j & 1),
    "__reduce_min_sync(m, v - 3)": lambda m, a, i: min(a[j] - 3 for j in range(32) if m >> j & 1),
    "__reduce_max_sync(m, (unsigned)v)": lambda m, a, i: max(a[j] for j in range(32) if m >> j & 1),
    "__reduce_xor_sync(m, v)": lambda m, a, i: int(np.bitwise_xor.reduce([a[j] for j in range(32) if m >> j & 1])),
    "__reduce_and_sync(m, v)": lambda m, a, i: int(np.bitwise_and.reduce([a[j] for j in range(32) if m >> j & 1])),
    "__shfl_sync(m, v, __ffs(m) - 1)": lambda m, a, i: a[(m & -m).bit_length() - 1],
    "__popc(__activemask())": lambda m, a, i: 32,
}  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
def test_each_group_of_one_mask_is_answered_for_itself(run, mask):
    expression, of = MASKS[mask]
    body = f"int p; const unsigned m = {expression}; int r = 0;"
    body += "".join(f"r = r * 31 + (int)({answer});" for answer in ANSWERS)
    a, out, found = launch(run, f"{body} o[t] = r;")
    assert not found
    for t in range(64):
        values = a[t // 32 * 32 :][:32]
        expected = 0
        for answer in ANSWERS.values():
            expected = (expected * 31 + int(answer(of(t % 32, values), values, t % 32))) & 0xFFFFFFFF
        assert out[t] & 0xFFFFFFFF == expected, (t, mask)


@pytest.mark.parametrize("threads", [64, 40])
def test_groups_in_divergent_code(run, threads):
    """Each branch, and a loop that lanes leave at different times, with masks of the lanes that take part."""
    body = """int r = 0; const unsigned all = __activemask();
        const unsigned odd = __ballot_sync(all, v & 1);
        if (v & 1) r = __reduce_add_sync(odd, v); else { r = 100 * __popc(__ballot_sync(all & ~odd, v > 2)); }
        for (int i = 0; i < 8; i++) { const unsigned m = __ballot_sync(all, i < v); if (i < v) r += __popc(m) << 8; }
        o[t] = r;"""
    a, out, found = launch(run, body, threads)
    assert not found
    for t in range(threads):
        warp = a[t // 32 * 32 : min(t // 32 * 32 + 32, threads)]
        r = sum(x for x in warp if x & 1) if a[t] & 1 else 100 * sum(x > 2 for x in warp if not x & 1)
        r += sum(sum(i < x for x in warp) << 8 for i in range(8) if i < a[t])
        assert out[t] == r


WAITS = {
    # lanes come round a loop by paths of different lengths and meet at the same shuffle
    "paths": ("""int r = 0; for (int i = 0; i < 5; i++) {
            if ((v + i) % 3 == 0) { for (int j = 0; j <= v; j++) r += j * n; }
            else if ((v ^ i) & 1) r += 1; if (v + i == 7 && n) continue;
            asm volatile("" ::: "memory"); r += __shfl_xor_sync(0xffffffffu, v + i, 16); } o[t] = r;""",
        lambda a, t: sum(((a[t] ^ i) & 1 if (a[t] + i) % 3 else 0) + a[t ^ 16] + i for i in range(5))),
    # two ways back to the head of a loop, one of them longer
    "back edges": (
        """{ .reg .pred p; .reg .u32 i, x, y, r; mov.u32 i, 0; mov.u32 r, 0;
            again: add.u32 x, %1, i; shfl.sync.bfly.b32 y, x, 16, 31, -1; add.u32 r, r, y; add.u32 i, i, 1;
            setp.ge.u32 p, i, 5; @p bra done; add.u32 x, %1, i; and.b32 x, x, 1; setp.eq.u32 p, x, 0; @p bra again;
            add.u32 r, r, 1; bra again; done: mov.u32 %0, r; }""",
        lambda a, t: sum(a[t ^ 16] + i + (i > 0 and (a[t] + i) & 1) for i in range(5)),
    ),
    # a do-while whose condition differs: the early ones go on to a ballot that names the late ones
    "late": ("""int i = 0; do { i++; if (i > v) break; asm volatile("" ::: "memory"); } while (true);
            o[t] = __popc(__ballot_sync(0xffffffffu, i > 4)) + i;""",
        lambda a, t: sum(x + 1 > 4 for x in a[t // 32 * 32 :][:32]) + a[t] + 1),
    # tiles that are at different rounds of one loop
    "tiles": ("""const unsigned m = 15u << (lane & ~3); int r = 0; const int rounds = __reduce_max_sync(m, v);
            for (int i = 0; i < rounds; i++) r += __reduce_add_sync(m, v > i ? v : 0); o[t] = r;""",
        lambda a, t: sum(sum(x for x in a[t & ~3 :][:4] if x > i) for i in range(max(a[t & ~3 :][:4])))),
    # those who are named but have returned are not waited for
    "returned": ("if (v == 3) return; o[t] = __popc(__ballot_sync(0xffffffffu, 1));",
        lambda a, t: -1 if a[t] == 3 else sum(x != 3 for x in a[t // 32 * 32 :][:32])),
}  # fmt: skip


@pytest.mark.parametrize("case", WAITS)
def test_named_threads_that_come_later_are_waited_for(run, case):
    body, expected = WAITS[case]
    if body.startswith("{ .reg"):
        body = "asm volatile(" + " ".join(f'"{line}"' for line in body.splitlines()) + ' : "=r"(o[t]) : "r"(v));'
    a, out, found = launch(run, body)
    assert out == [int(expected(a, t)) for t in range(64)]
    assert not found


GROUPS = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__device__ int largest(int bucket, int *best, int value) {
    cg::coalesced_group same = cg::labeled_partition(cg::coalesced_threads(), bucket);
    const int result = cg::reduce(same, value, cg::greater<int>());
    if (same.thread_rank() == 0) atomicMax(&best[bucket], result);
    return result; }
template <int N> __device__ int tile(int v) {
    auto t = cg::tiled_partition<N>(cg::this_thread_block()); int r = v;
    for (int s = N / 2; s; s /= 2) r += t.shfl_down(r, s);
    return t.shfl(r, 0) * 100 + __popc(t.ballot(v & 1)) + (t.any(v == 5) ? 50 : 0) + t.meta_group_rank(); }
extern "C" __global__ void k(const int *a, int *o, int *best) {
    const int t = threadIdx.x, v = a[t]; auto w = cg::tiled_partition<32>(cg::this_thread_block());
    o[t] = tile<16>(v); o[t + 64] = tile<8>(v); o[t + 128] = tile<4>(v); o[t + 192] = tile<2>(v);
    auto half = cg::binary_partition(w, v > 3); o[t + 256] = cg::reduce(half, v, cg::plus<int>()) * 100 + half.size();
    if (v & 1) { auto g = cg::coalesced_threads();
        o[t + 320] = g.size() * 100 + g.thread_rank() + 10000 * g.shfl(v, 0); }
    o[t + 384] = largest(v, best, t * 7 % 64); }"""


def test_cooperative_groups(run):
    """Tiles, binary and labelled partitions, coalesced groups; the last as calculateMaxInEachBuckets does it."""
    a = np.random.default_rng(3).integers(0, 8, 64).astype(np.int32)
    out, best = np.full(448, -1, np.int32), np.zeros(8, np.int32)
    launched = run(GROUPS, 1, 64, [a, out, best])
    assert not launched.findings
    expected = []
    for n in (16, 8, 4, 2):
        for t in range(64):
            mine = a[t // n * n :][:n]
            expected.append(int(mine.sum()) * 100 + int((mine & 1).sum()) + 50 * int(5 in mine) + t // n)
    for t in range(64):
        same = [x for x in a[t // 32 * 32 :][:32].tolist() if (x > 3) == (a[t] > 3)]
        expected.append(sum(same) * 100 + len(same))
    for t in range(64):
        odd = [i for i in range(t // 32 * 32, t // 32 * 32 + 32) if a[i] & 1]
        expected.append(len(odd) * 100 + odd.index(t) + 10000 * int(a[odd[0]]) if a[t] & 1 else -1)
    for t in range(64):
        expected.append(max(i * 7 % 64 for i in range(t // 32 * 32, t // 32 * 32 + 32) if a[i] == a[t]))
    assert out.tolist() == expected
    assert best.tolist() == [max((i * 7 % 64 for i in range(64) if a[i] == b), default=0) for b in range(8)]


APART = {
    "each branch": "if (lane < 16) v = __ballot_sync(0xffffffffu, 1); else v = 2 * __ballot_sync(0xffffffffu, 1);",
    "overlapping masks": "v = __ballot_sync(lane < 16 ? 0xffffffffu : 0xffff0000u, 1);",
    "left the loop": "for (int i = 0; i < v; i++) v += __shfl_xor_sync(0xffffffffu, v, 1) & 0; __syncwarp(); v++;",
    "at a barrier": "if (lane < 16) __syncwarp(); else __syncthreads(); __syncthreads();",
}


@pytest.mark.parametrize("case", APART)
def test_named_threads_that_never_come_are_a_finding(run, case):
    _, _, found = launch(run, f"{APART[case]} o[t] = v;")
    assert ("divergent_warp", "warning") in found


OUTSIDE = {  # what is shuffled -> whether an undefined value is used
    "if (t >= 40) return; v += __shfl_down_sync(0xffffffffu, v, 8);": True,
    "if (lane < 16) v = __shfl_sync(0xffffu, v, 16);": True,
    "v = __shfl_xor_sync(255u << (lane & ~7), v, 8);": True,
    "if (v & 1) v = __shfl_sync(__activemask(), v, lane ^ 1);": True,
    "if (lane < 16) { v = __shfl_sync(0xffffu, v, 16); if (v > 3) o[t] = 7; return; }": True,
    # read, but nobody looks at what came
    "if (lane < 16) { int w = __shfl_down_sync(0xffffu, v, 8); v = lane < 8 ? v + w : v; }": False,
    "for (int s = 4; s; s /= 2) v += __shfl_down_sync(255u << (lane & ~7), v, s); v = lane & 7 ? 0 : v;": False,
    # right: one's own value at the edge of the segment, the width of the tile, who takes part
    "for (int s = 16; s; s /= 2) v += __shfl_down_sync(0xffffffffu, v, s);": False,
    "for (int s = 4; s; s /= 2) v += __shfl_xor_sync(255u << (lane & ~7), v, s, 8);": False,
    "for (int s = 1; s < 8; s *= 2) { int w = __shfl_up_sync(0xffffffffu, v, s, 8); if ((lane & 7) >= s) v += w; }":
        False,
    "if (lane < 20) v = __shfl_sync(0xfffffu, v, (lane + 1) % 20);": False,
}  # fmt: skip


@pytest.mark.parametrize("body", OUTSIDE)
def test_a_shuffle_from_a_thread_that_does_not_take_part_is_undefined(run, body):
    _, _, found = launch(run, f"{body} o[t] = v;")
    assert [kind for kind, _ in found] == ["shuffle_source"] * OUTSIDE[body]


def test_the_finding_names_line_thread_and_lane(run):
    source = """extern "C" __global__ void k(int *o) {
        const int t = threadIdx.x; if (t >= 40) return;
        o[t] = __shfl_down_sync(0xffffffffu, t,
            4); }"""
    launched = run(source, 1, 64, [np.zeros(64, np.int32)])
    (found,) = launched.findings
    assert (found.line, found.count) == (3, 4)
    assert "thread 36 in block 0" in found.message
    assert "lane 8" in found.message


def test_a_mask_that_leaves_its_thread_out_is_a_fault(run):
    launch(run, "o[t] = __ballot_sync(0xffu, 1);", fault="warp_mask")


SYNC = """__shared__ int s[64]; const unsigned m = MASK; s[t] = v; __syncwarp(m); o[t] = s[t ^ FAR];"""


@pytest.mark.parametrize(
    ("mask", "far", "races"),
    [
        ("0xffffffffu", 31, False), ("0xffffu << (lane & 16)", 15, False), ("0xffffu << (lane & 16)", 16, True),
        ("255u << (lane & 24)", 4, False), ("255u << (lane & 24)", 8, True),
        ("lane & 1 ? 0xaaaaaaaau : 0x55555555u", 2, False), ("lane & 1 ? 0xaaaaaaaau : 0x55555555u", 1, True),
    ],
)  # fmt: skip
def test_a_sync_of_some_lanes_orders_only_these(run, mask, far, races):
    body = SYNC.replace("MASK", mask).replace("FAR", str(far))
    assert launch(run, body)[2] == [("race", "warning")] * races
    back = "s[t] = v; __syncwarp(); int w = s[t ^ FAR]; __syncwarp(m); s[t] = w; __syncwarp(); v += s[t ^ 1]; o[t] = v;"
    body = f"__shared__ int s[64]; const unsigned m = {mask}; " + back.replace("FAR", str(far))
    assert launch(run, body)[2] == [("race", "warning")] * races


def test_a_guarded_sync_orders_those_who_execute_it(run):
    body = """__shared__ int s[64]; s[t] = v; asm volatile("{ .reg .pred p; setp.lt.u32 p, %0, LIMIT;
        @p bar.warp.sync 0xffff; }" :: "r"(lane) : "memory"); if (lane < 16) v = s[t ^ 15]; o[t] = v;"""
    body = body.replace("LIMIT;\n       ", "LIMIT;")
    assert launch(run, body.replace("LIMIT", "16"))[2] == []
    assert ("divergent_warp", "warning") in launch(run, body.replace("LIMIT", "8"))[2]


def test_the_other_half_is_not_ordered_by_a_sync_of_one_half(run):
    both = """__shared__ int s[32]; if (t < 16) { s[t] = v; __syncwarp(0xffffu); v += s[15 - t]; }
        SYNC v += s[t & 15]; o[t] = v;"""
    assert launch(run, both.replace("SYNC", ""), 32)[2] == [("race", "warning")]
    assert launch(run, both.replace("SYNC", "__syncwarp();"), 32)[2] == []


def test_order_is_handed_on_from_group_to_group(run):
    """Lane 0 meets lane 1, then lane 1 meets lane 2: lane 2 may read what lane 0 wrote."""
    body = """__shared__ int s[64]; if (lane == 0) s[t] = v; if (lane < 2) __syncwarp(3); SKIP
        if (lane == 1 || lane == 2) __syncwarp(6); if (lane == 2) v += s[t - 2]; o[t] = v;"""
    assert launch(run, body.replace("SKIP", ""))[2] == []
    late = body.replace("SKIP", "if (lane == 0) s[t] = v + 1;")
    assert launch(run, late)[2] == [("race", "warning")]


COUNTED = {  # what an address depends on, for masks of 16 lanes
    "__popc(__ballot_sync(m, v & 1))": lambda m, a, i: ANSWERS["__ballot_sync(m, v & 1)"](m, a, i).bit_count(),
    "__any_sync(m, v == 5) * 40": lambda m, a, i: 40 * ANSWERS["__any_sync(m, v == 5)"](m, a, i),
    "__popc(__match_any_sync(m, v))": lambda m, a, i: sum(m >> j & 1 and a[j] == a[i] for j in range(32)),
    "__reduce_add_sync(m, v)": ANSWERS["__reduce_add_sync(m, v)"],
    "__reduce_max_sync(m, v - 9) + 9": lambda m, a, i: ANSWERS["__reduce_max_sync(m, (unsigned)v)"](m, a, i),
    "__shfl_sync(m, v, __ffs(m) + 1)": lambda m, a, i: a[(m & -m).bit_length() + 1],
}


@pytest.mark.counted
@pytest.mark.parametrize("answer", COUNTED)
def test_machine_code_answers_each_group_for_itself(run, answer):
    """Stored sectors, counted on machine code, depend on the result of each group."""
    source = f"""extern "C" __global__ void k(const int *a, int *o) {{ const int t = threadIdx.x, lane = t & 31;
        const int v = a[t]; const unsigned m = 0xffffu << (lane & 16); const int r = {answer};
        if (v & 1) o[32 * r + v] = t; else o[32 * r + 2048 + 8 * (t & 7)] = t; }}"""
    a = np.random.default_rng(5).integers(0, 8, 64).astype(np.int32)
    a[[3, 20, 40]] = 5
    a[16:32] &= 3
    launched = run(source, 1, 64, [a, np.zeros(1 << 13, np.int32)])
    metric = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
    assert metric not in launched.counters.inexact
    expected = 0
    for warp in (a[:32].tolist(), a[32:].tolist()):
        places = [32 * int(COUNTED[answer](0xFFFF << (i & 16), warp, i)) for i in range(32)]
        odd = {(place + warp[i]) // 8 for i, place in enumerate(places) if warp[i] & 1}
        even = {(place + 2048 + 8 * (i & 7)) // 8 for i, place in enumerate(places) if not warp[i] & 1}
        expected += len(odd) + len(even)
    assert launched.counters.totals[metric] == expected


@pytest.mark.counted
def test_machine_code_waits_at_warpsync(run):
    """Lanes from different branches store together after a __syncwarp: one instruction of each warp."""
    source = """extern "C" __global__ void k(const int *a, int *o, int n) { const int t = threadIdx.x; int v = a[t];
        for (int i = 0; i < n; i++) { if (v & 1) { v = a[v]; if (v & 2) v = a[v + 8] + 1; } else v = a[v + 16];
            __syncwarp(); o[t + 64 * i] = v; } }"""
    a = np.random.default_rng(5).integers(0, 8, 64).astype(np.int32)
    launched = run(source, 1, 64, [a, np.zeros(64 * 5, np.int32), 5])
    metric = "smsp__inst_executed_op_global_st.sum"
    assert metric not in launched.counters.inexact
    assert launched.counters.totals[metric] == 10


REDUX = """
extern "C" __global__ void k(const float *x, float *y)
{
    const unsigned mask = threadIdx.x < 16 ? 0xFFFF : 0xFFFF0000;
    asm volatile("redux.syncFORM %0, %1, %2;" : "=f"(y[threadIdx.x]) : "f"(x[threadIdx.x]), "r"(mask));
}
"""
NAN = 0x7FFFFFFF


@pytest.mark.parametrize("propagates", [False, True])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("name", ["min", "max"])
def test_the_least_and_the_greatest_float_of_a_warp(name, absolute, propagates):
    form = f".{name}{'.abs' * absolute}{'.NaN' * propagates}.f32"
    source = REDUX.replace("FORM", form)
    for lower, upper in (((-0.0, 0.0, 1e-45, -1e-45), (np.nan, 3.0, -4.0, np.inf)), ((np.nan,) * 4, (0.0, -0.0) * 2)):
        x, y = np.array([*lower * 4, *upper * 4], np.float32), np.zeros(32, np.float32)
        simulate(source, "k", 1, 32, [x, y], arch="sm_100a")
        for half in (slice(0, 16), slice(16, 32)):
            numbers = np.abs(x[half]) if absolute else x[half]
            kept = numbers[~np.isnan(numbers)]
            if not kept.size or (propagates and kept.size < numbers.size):
                want = NAN
            else:
                best = (min if name == "min" else max)(kept.tolist(), key=lambda v: (v, np.copysign(1, v)))
                want = int(np.float32(best).view(np.uint32))
            assert y.view(np.uint32)[half].tolist() == [want] * 16


def test_floats_are_not_reduced_before_sm_100():
    ptx = """.version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k()
{ .reg .f32 %f<2>; mov.f32 %f0, 0f3F800000;
redux.sync.max.f32 %f1, %f0, -1; ret; }"""
    with pytest.raises(UnsupportedKernel, match=r"sm_90 has no: redux\.sync\.max\.f32"):
        simulate(ptx, "k", 1, 32, [])


UNSWITCHED = """extern "C" __global__ void k(const float *x, float *y, int n, int rows) {
    int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    for (int row = 0; row < rows; row++) {
        float v = 0;
        for (int c = threadIdx.x; c < n; c += 32) v += x[row * n + c];
        for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
        if (lane == 0) y[threadIdx.y * rows + row] = v;
    }
}"""


@pytest.mark.parametrize("warps", [1, 3])
def test_a_shuffle_that_the_compiler_has_put_into_two_loops(warps: int) -> None:
    """Lane 0 has a loop of its own, with a copy of each shuffle: it does not see that %laneid differs (faiss)."""
    kernel = engine.compile(UNSWITCHED, "k")
    assert kernel.ptx.count("shfl.sync") >= 10  # each of the five twice
    x, y = np.random.default_rng(0).random((7, 96)).astype(np.float32), np.zeros((warps, 7), np.float32)
    launched = kernel.launch(1, (32, warps), [x, y, 96, 7])
    assert launched.fault is None
    assert np.allclose(y, x.sum(1))
    assert not [it for it in launched.findings if it.severity != "note"]


# What lanes exchange, and the new values of a warp's v (32,), as an H200 has them (CUDA 13.0's ptxas).
EXCHANGED: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "shfl": ("__shfl_xor_sync(~0u, v, 1)", lambda v: v[np.arange(32) ^ 1]),
    "ballot": ("__ballot_sync(~0u, v & 2)", lambda v: bits(v & 2 != 0)),
    "any": ("__any_sync(~0u, v % 97 == 3)", lambda v: np.any(v % 97 == 3, keepdims=True)),
    "all": ("__all_sync(~0u, v % 97 < 95)", lambda v: np.all(v % 97 < 95, keepdims=True)),
    "match": ("__match_any_sync(~0u, v & 3)", lambda v: np.concatenate([bits(v & 3 == it & 3) for it in v])),
    "redux": ("__reduce_add_sync(~0u, v & 255)", lambda v: np.sum(v & 255, keepdims=True)),
}


def bits(truth: Array) -> Array:
    return np.packbits(truth, bitorder="little").view(np.uint32)


@pytest.mark.parametrize("name", EXCHANGED)
def test_an_exchange_that_the_compiler_has_put_into_two_loops(name: str) -> None:
    call, exchanged = EXCHANGED[name]
    source = """extern "C" __global__ void k(const unsigned *x, unsigned *y, unsigned *total, int n, int rows) {
        int lane;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        unsigned t = 0;
        for (int row = 0; row < rows; row++) {
            unsigned v = 0;
            for (int c = threadIdx.x; c < n; c += 32) v += x[row * n + c];
            v += CALL;
            if (lane == 0) y[row] = v;
            t = t * 3 + v;
        }
        total[threadIdx.x] = t;
    }"""
    kernel = engine.compile(source.replace("CALL", call), "k")
    opcodes = [it.opcode for it in Simulator().kernel(kernel._compiled).instructions]
    assert sum(it in EXCHANGES for it in opcodes) == 2
    x = np.random.default_rng(3).integers(0, 1 << 20, (7, 96)).astype(np.uint32)
    y, total, expected = np.zeros(7, np.uint32), np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    launched = kernel.launch(1, 32, [x, y, total, 96, 7])
    assert launched.fault is None
    assert not [it for it in launched.findings if it.severity != "note"]
    for row, stored in zip(x, y, strict=True):
        v = row.reshape(-1, 32).sum(0, dtype=np.uint32)
        v += exchanged(v).astype(np.uint32)
        assert v[0] == stored
        expected = expected * np.uint32(3) + v
    assert np.array_equal(total, expected)


@pytest.mark.parametrize("name", EXCHANGED)
def test_two_exchanges_of_the_source_meet_and_are_told(name: str) -> None:
    call, exchanged = EXCHANGED[name]
    source = """extern "C" __global__ void k(const unsigned *x, unsigned *y) {
        const int lane = threadIdx.x;
        unsigned v = x[lane];
        if (lane == 0)
            y[lane] = CALL + 1000;
        else
            y[lane] = CALL ^ 3;
    }"""
    x, y = np.random.default_rng(3).integers(0, 1 << 20, 32).astype(np.uint32), np.zeros(32, np.uint32)
    launched = engine.simulate(source.replace("CALL", call), "k", 1, 32, [x, y])
    assert "divergent_warp" in {it.kind for it in launched.findings}
    together = np.broadcast_to(exchanged(x), 32).astype(np.uint32)
    assert np.array_equal(y, np.where(np.arange(32) == 0, together + np.uint32(1000), together ^ np.uint32(3)))
