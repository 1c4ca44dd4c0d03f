"""PTX that NVRTC 13.0 or inline assembly writes and that was once taken for impossible: bases of another width than the
data, registers wider than the type, predicates that are overwritten, special registers in odd places.

Each case is the body of a kernel that leaves a word per thread in %r0; lanes, loops and batches do the rest.
"""

from __future__ import annotations

import numpy as np
import pytest

from gemm_lessons import simulate
from gemm_lessons.engine.events import Batch, Observer
from gemm_lessons.engine.machine.machine import Machine
from gemm_lessons.engine.machine.prepared import prepare
from gemm_lessons.engine.machine.state import Fault
from gemm_lessons.engine.ptx import parser
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.launch import Buffer, Grid
from gemm_lessons.engine.simulator import Setting

TOGETHER = True

THREADS = 64
HEAD = """
.version 8.8
.target sm_90
.address_size 64
.const .align 4 .b8 table[512];
.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1)
{
.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %rd<40>;
.shared .align 16 .b8 tile[1024];
ld.param.u64 %rd30, [k_param_0];
ld.param.u64 %rd31, [k_param_1];
mov.u32 %r30, %tid.x; mov.u32 %r31, %ctaid.x; mov.u32 %r32, tile;
mad.lo.s32 %r33, %r31, 64, %r30;
mul.wide.s32 %rd32, %r33, 4; add.s64 %rd33, %rd30, %rd32;
// tile[i] = 1000 + i, four words a thread
shl.b32 %r34, %r30, 2; add.s32 %r35, %r32, %r34; add.s32 %r36, %r30, 1000;
st.shared.u32 [%r35], %r36; add.s32 %r36, %r36, 64; st.shared.u32 [%r35+256], %r36;
add.s32 %r36, %r36, 64; st.shared.u32 [%r35+512], %r36; add.s32 %r36, %r36, 64; st.shared.u32 [%r35+768], %r36;
cvt.u64.u32 %rd35, %r35; cvt.u64.u32 %rd34, %r32;
bar.sync 0;
"""
TAIL = "st.global.u32 [%rd33], %r0; ret;\n}\n"
LOOP = "mov.u32 %r0, 0; mov.u32 %r1, 0; $L: {} add.s32 %r1, %r1, 1; setp.lt.s32 %p8, %r1, 3; @%p8 bra $L;"


class Executions(Observer):
    """Counts the lanes that executed each instruction."""

    lanes: np.ndarray | None = None

    def begin(self, launch):
        pass

    def begin_batch(self, batch: Batch):
        pass

    def epoch(self, batch, records, boundary):
        pass

    def end_batch(self, batch, executions, lane_executions):
        self.lanes = lane_executions + (0 if self.lanes is None else self.lanes)


def launch(body: str, blocks: int = 3, observer: Observer | None = None, other: np.ndarray | None = None) -> np.ndarray:
    """The value of %r0 of every thread. One block per batch, so that cached patterns are reused by other blocks."""
    module = parser.parse(HEAD + body + TAIL)
    out = np.full(blocks * THREADS, -1, np.int32)
    arguments = [Buffer("out", out, True), Buffer("other", np.zeros(64, np.int32) if other is None else other)]
    program = prepare(module.kernels["k"], module.variables)
    observers = [observer] if observer else []
    one = Machine(program, Grid((blocks, 1, 1), (THREADS, 1, 1)), arguments, observers, {}, Setting(block_limit=1))
    one.run()
    one.memory.write_back()
    return out.reshape(blocks, THREADS)


T, B = np.arange(THREADS), np.arange(3)[:, None]
MOVING = "ld.shared.u32 %r2, [{0}]; ld.shared.u32 %r3, [{0}+4]; add.s32 %r0, %r0, %r2; add.s32 %r0, %r0, %r3;"
RIGHT = {
    "two loads from a 64-bit base that moves": (
        LOOP.format(MOVING.format("%rd35") + "add.s64 %rd35, %rd35, 256;"),
        sum(2 * (1000 + T + 64 * i) + 1 for i in range(3)),
    ),
    "the same from a 32-bit base": (
        LOOP.format(MOVING.format("%r35") + "add.s32 %r35, %r35, 256;"),
        sum(2 * (1000 + T + 64 * i) + 1 for i in range(3)),
    ),
    "64-bit and 32-bit bases side by side": (
        LOOP.format(
            "ld.shared.u32 %r2, [%rd35]; ld.shared.u32 %r3, [%r35]; ld.shared.u32 %r4, [%rd35+4];"
            "ld.shared.u32 %r5, [%r35+4]; add.s32 %r0, %r0, %r2; add.s32 %r0, %r0, %r3; sub.s32 %r0, %r0, %r4;"
            "sub.s32 %r0, %r0, %r5; add.s32 %r0, %r0, %r2; add.s64 %rd35, %rd35, 256;"
        ),
        sum(1000 + T + 64 * i - 2 for i in range(3)),
    ),
    "a base that other instructions than sums move": (
        LOOP.format(
            MOVING.format("%rd36").replace("ld", "and.b32 %r6, %r1, 1; shl.b32 %r6, %r6, 8; add.s32 %r6, %r6, %r35;"
            "mov.b64 %rd36, {%r6, 0}; ld", 1)
        ),
        sum(2 * (1000 + T + 64 * (i % 2)) + 1 for i in range(3)),
    ),
    "a base that is loaded with its neighbour": (
        "add.s32 %r2, %r35, 256; st.shared.u32 [%r35], %r2;" + LOOP.format(
            "ld.shared.u32 %r3, [%r35]; ld.shared.u32 %r4, [%r35+512]; ld.shared.u32 %r5, [%r3]; "
            "ld.shared.u32 %r6, [%r3+256]; add.s32 %r0, %r0, %r5; add.s32 %r0, %r0, %r6;"
            "add.s32 %r7, %r3, 256; st.shared.u32 [%r35], %r7; sub.s32 %r7, %r7, 512; mov.u32 %r8, %r4;"
            "setp.eq.s32 %p1, %r1, 1; @%p1 st.shared.u32 [%r35], %r2;"
        ),
        (2 * (1000 + T) + 192) + (2 * (1000 + T) + 320) + (2 * (1000 + T) + 192),
    ),
    "loads into registers twice as wide": (
        "ld.shared.u32 %rd1, [%r35]; ld.shared.b32 %rd2, [%r35+256]; add.s64 %rd3, %rd1, %rd2; cvt.u32.u64 %r0, %rd3;"
        "shr.u64 %rd3, %rd3, 32; cvt.u32.u64 %r1, %rd3; add.s32 %r0, %r0, %r1;",
        2 * (1000 + T) + 64,
    ),
    "signed loads into registers twice as wide": (
        "neg.s32 %r1, %r36; st.shared.u32 [%r35], %r1; ld.shared.s32 %rd1, [%r35]; ld.shared.s32 %rd2, [%r35+256];"
        "add.s64 %rd3, %rd1, %rd2; cvt.u32.u64 %r0, %rd3; shr.s64 %rd1, %rd1, 32; cvt.u32.u64 %r2, %rd1;"
        "add.s32 %r0, %r0, %r2;",
        -(1000 + T + 192) + (1000 + T + 64) - 1,
    ),
    "special registers among moves": (
        "mov.u32 %r1, %laneid; mov.u32 %r2, %r30; mov.u32 %r3, %warpid; mov.b32 %r4, %r3; add.s32 %r0, %r1, %r2;"
        "mad.lo.s32 %r0, %r4, 1000, %r0;",
        T % 32 + T + T // 32 * 1000,
    ),
    "a special register of another width": (
        "mov.u16 %rs1, %ctaid.x; cvt.u32.u16 %r1, %rs1; mov.u16 %rs2, %tid.x; cvt.u32.u16 %r2, %rs2;"
        "mad.lo.s32 %r0, %r1, 100, %r2;",
        100 * B + T,
    ),
    "a 32-bit address whose offset wraps": (
        "add.s32 %r1, %r35, 8; ld.shared.u32 %r2, [%r1+4294967288]; ld.shared.u32 %r3, [%r1+-4];"
        "sub.s32 %r0, %r3, %r2; mov.u32 %r4, -8; add.s32 %r4, %r4, %r35; ld.shared.u32 %r5, [%r4+8];"
        "add.s32 %r0, %r0, %r5;",
        1 + 1000 + T,
    ),
    "one register in braces, as Triton writes it": (
        "ld.shared.b32 { %r1 }, [ %r35 + 0 ]; mov.b32 {%r2}, %r1; st.shared.b32 [%r35+256], { %r2 };"
        "ld.shared.b32 %r0, [%r35+256];",
        1000 + T,
    ),
    "a guard that is overwritten": (
        "mov.u32 %r0, 0; setp.lt.s32 %p1, %r30, 10; @%p1 add.s32 %r0, %r0, 1; setp.lt.s32 %p1, %r30, 20;"
        "@%p1 add.s32 %r0, %r0, 10; @!%p1 setp.gt.s32 %p1, %r30, 40; @%p1 add.s32 %r0, %r0, 100;",
        (T < 10) * 1 + (T < 20) * 10 + ((T < 20) | (T > 40)) * 100,
    ),
    "a vote as an address": (
        LOOP.format(
            "add.s32 %r2, %r1, 1; setp.lt.s32 %p1, %r30, %r2; bar.red.popc.u32 %r3, 0, %p1; shl.b32 %r3, %r3, 2;"
            "add.s32 %r3, %r3, %r32; ld.shared.u32 %r4, [%r3]; ld.shared.u32 %r5, [%r3+4]; add.s32 %r0, %r0, %r4;"
            "sub.s32 %r0, %r0, %r5; add.s32 %r0, %r0, %r4;"
        ),
        sum(1000 + (i + 1) - 1 for i in range(3)) + 0 * T,
    ),
    "a vote that is the address": (
        "st.shared.u32 [%r35], %r30;" + LOOP.format(
            "bar.sync 0; add.s32 %r2, %r1, 1; shl.b32 %r2, %r2, 2; setp.lt.s32 %p1, %r30, %r2;"
            "bar.red.popc.u32 %r3, 0, %p1; ld.shared.u32 %r4, [%r3+1024]; add.s32 %r0, %r0, %r4;"
        ),
        (1 + 2 + 3) + 0 * T,
    ),
    "an exchange as an address": (
        "add.s32 %r3, %r35, 256;" + LOOP.format(
            "st.shared.u32 [%r35], %r3; atom.shared.exch.b32 %r3, [%r35], 7; ld.shared.u32 %r4, [%r3];"
            "ld.shared.u32 %r5, [%r3+256]; add.s32 %r0, %r0, %r4; sub.s32 %r0, %r0, %r5; xor.b32 %r3, %r3, 0;"
            "add.s32 %r3, %r3, 4; shfl.sync.idx.b32 %r3, %r3, %r30, 31, -1; sub.s32 %r3, %r3, 4;"
        ),
        -64 * 3 + 0 * T,
    ),
    "memory that only some threads may write, in two arrays at once": (
        "setp.lt.s32 %p1, %r30, 32; selp.b64 %rd1, %rd33, %rd31, %p1; mov.u32 %r1, 77; st.global.u32 [%rd1], %r1;"
        "ld.global.u32 %r2, [%rd31]; mov.u32 %r0, %r2;",
        77 + 0 * T,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_odd_but_right(name):
    body, expected = RIGHT[name]
    assert (launch(body) == np.broadcast_to(expected, (3, THREADS))).all()


def test_an_input_that_only_later_lanes_write_is_written_back():
    other = np.zeros(64, np.int32)
    launch(RIGHT["memory that only some threads may write, in two arrays at once"][0], other=other)
    assert other[0] == 77


def test_constant_memory_is_not_written_by_later_lanes():
    body = "setp.lt.s32 %p1, %r30, 32; mov.u64 %rd2, table; selp.b64 %rd1, %rd33, %rd2, %p1; st.global.u32 [%rd1], 1;"
    with pytest.raises(Fault, match="write to constant memory table"):
        launch(body + "mov.u32 %r0, 0;")


def test_what_is_remembered_ends_with_its_blocks():
    """The base is set by the first block alone; what a register holds before that is no address at all."""
    body = "setp.eq.s32 %p1, %r31, 0; @!%p1 bra $S; mov.u32 %r1, %r35; $S: ld.shared.u32 %r0, [%r1];"
    assert launch(body, 1).tolist() == [(1000 + T).tolist()]
    with pytest.raises(Fault, match="tile: byte -1025 of 1024"):
        launch(body, 2)


def test_guards_are_counted_when_they_hold():
    observer = Executions()
    launch(RIGHT["a guard that is overwritten"][0], 1, observer)
    assert observer.lanes is not None
    guarded = [
        i
        for i in parser.parse(HEAD + RIGHT["a guard that is overwritten"][0] + TAIL).kernels["k"].instructions
        if i.guard
    ]
    assert [int(observer.lanes[i.index]) for i in guarded] == [10, 20, 44, 43]


@pytest.mark.parametrize(
    "unknown", ["frobnicate.sync %r3, [%r35];", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r35], {%r3};"]
)
def test_loads_do_not_pass_what_is_not_known(unknown):
    kernel = parser.parse(HEAD + f"ld.shared.u32 %r1, [%r35]; {unknown} mov.u32 %r0, %r1;" + TAIL).kernels["k"]
    program = prepare(kernel, ())
    order = [s.instruction.opcode for steps in program.steps for s in steps]
    assert order.index("ld", order.index("bar") if "bar" in order else 20) < order.index(unknown.partition(".")[0])


@pytest.mark.parametrize(
    "body",
    [
        "ld.shared.f32 %rd1, [%r35]; mov.u32 %r0, 1;",
        "ld.shared.u64 %r0, [%r35];",
        "ld.shared.u32 %r0, [%rs1];",
        "ld.shared.u32 %r0, [%undeclared];",
        "ld.shared.u32 %p1, [%r35]; mov.u32 %r0, 1;",
        "st.shared.u64 [%r35], %r30; mov.u32 %r0, 1;",
        "mov.u64 %rd1, %ctaid.x; cvt.u32.u64 %r0, %rd1;",
        "mov.b32 %r0, %rs1;",
        "mov.b32 %rd1, %r30; mov.b32 %r0, %r30;",
    ],
)
def test_registers_that_do_not_fit_are_refused_by_name(body):
    with pytest.raises(UnsupportedKernel) as caught:
        launch(body)
    assert body.partition(";")[0] in str(caught.value)


@pytest.mark.parametrize(
    ("form", "number"),
    [
        ("fractional.L2::evict_first.b64 p, 1.0;", 0x12F0),  # what ptxas writes
        ("fractional.L2::evict_normal.b64 p;", 0x16F0),
        ("fractional.L2::evict_last.L2::evict_first.b64 p, 0.25;", 0x1530),
        ("fractional.L2::evict_unchanged.b64 p, 0.3;", 0x1040),
    ],
)
def test_a_cache_policy_is_a_number_and_changes_nothing(form, number):
    copy = "cp.async.cg.shared.global.L2::cache_hint [%1], [%2], 16, p; cp.async.wait_all;"
    source = f"""extern "C" __global__ void k(const float4 *x, float4 *y, unsigned long long *policy) {{
        __shared__ float4 s[32];
        unsigned at = __cvta_generic_to_shared(s + threadIdx.x);
        unsigned long long made;
        asm volatile("{{ .reg .b64 p; createpolicy.{form} {copy} mov.b64 %0, p; }}"
                     : "=l"(made) : "r"(at), "l"(x + threadIdx.x));
        y[threadIdx.x] = s[threadIdx.x];
        policy[threadIdx.x] = made; }}"""
    x, y, policy = np.arange(128, dtype=np.float32), np.zeros(128, np.float32), np.zeros(32, np.uint64)
    launched = simulate(source, "k", 1, 32, [x, y, policy])
    assert not launched.findings
    assert not launched.counters.obstacle
    assert (x == y).all()
    assert (policy == number << 48).all()


def test_a_range_of_a_cache_policy_is_not_supported():
    body = 'asm volatile("{.reg .b64 p; createpolicy.range.global.L2::evict_last.b64 p, [%0], 64, 64;}" :: "l"(x));'
    with pytest.raises(UnsupportedKernel, match="createpolicy"):
        simulate(f'extern "C" __global__ void k(float *x) {{ {body} x[0] = 1; }}', "k", 1, 1, [np.zeros(1, np.float32)])
