"""Parsing, basic blocks and scheduling: what must hold before anything runs."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from checks.compiling import must_compile
from gemm_lessons.engine import simulator
from gemm_lessons.engine.machine import prepared
from gemm_lessons.engine.ptx import cfg, parser, schedule
from gemm_lessons.engine.ptx import records as ptx
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar
from gemm_lessons.engine.simulator import Setting, Simulator

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 k_param_0)\n{\n"
REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<40>; .reg .f32 %f<200>; .reg .b64 %rd<9>; .reg .f64 %d<20>;\n"


def kernel(body: str) -> ptx.Kernel:
    return parser.parse(HEAD + REGISTERS + body + "\n}\n").kernels["k"]


def test_every_part_of_an_instruction_is_read():
    k = kernel("@!%p1 ld.global.nc.v4.f32 {%f1, _, %f3, %f4}, [%rd1+-16];\n.loc 1 7 3\nsetp.lt.s32 %p1|%p2, %r1, 0x1F;")
    load, compare = k.instructions
    assert (load.opcode, load.modifiers, load.guard, load.guard_negated) == (
        "ld", ("global", "nc", "v4", "f32"), ptx.Register("%p1"), True,
    )  # fmt: skip
    assert load.operands[0] == ptx.Vector((ptx.Register("%f1"), None, ptx.Register("%f3"), ptx.Register("%f4")))
    assert load.operands[1] == ptx.Address(ptx.Register("%rd1"), -16)
    assert compare.operands == (
        ptx.PredicatePair(ptx.Register("%p1"), ptx.Register("%p2")), ptx.Register("%r1"), ptx.Immediate(31),
    )  # fmt: skip
    assert compare.source.line == 7


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("0f3F800000", ptx.Immediate(0x3F800000, True)),
        ("0d3FF0000000000000", ptx.Immediate(0x3FF0000000000000, True, True)),
        ("-5", ptx.Immediate(-5)), ("0xffU", ptx.Immediate(255)), ("017", ptx.Immediate(15)),
        ("array+8", ptx.Symbol("array", 8)),
        ("!%p3", ptx.PredicatePair(ptx.Register("%p3"), negated=True)), ("%tid.x", ptx.Register("%tid.x")),
        ("[64]", ptx.Address(None, 64)), ("[array+4]", ptx.Address(ptx.Symbol("array"), 4)),
    ],
)  # fmt: skip
def test_operands(text, operand):
    k = kernel(f"mov.b32 %r1, {text};")
    assert k.instructions[0].operands[1] == operand


def test_registers_of_inline_assembly_stay_in_their_braces():
    k = kernel("{ .reg .b32 t; mov.b32 t, 1; mov.b32 %r1, t; }\n{ .reg .b32 t; mov.b32 t, 2; mov.b32 %r2, t; }")
    first, second = k.instructions[0].operands[0], k.instructions[2].operands[0]
    assert first != second
    assert {first.name, second.name} <= set(k.registers)


def test_variables_and_parameters():
    module = parser.parse(
        ".target sm_90\n.const .align 4 .b8 table[8] = {1, 2, 255};\n.extern .shared .align 16 .b8 dynamic [];\n"
        ".entry k(.param .u32 n, .param .align 8 .b8 view[24], .param .u64 .ptr .global .align 4 p)\n"
        "{ .shared .align 16 .b8 tile[64]; .local .align 8 .b8 depot[16]; ret; }"
    )
    k = module.kernels["k"]
    assert [(p.name, p.offset, p.size) for p in k.parameters] == [("n", 0, 4), ("view", 8, 24), ("p", 32, 8)]
    assert [(v.name, v.space, v.size) for v in k.variables] == [("tile", "shared", 64), ("depot", "local", 16)]
    assert [(v.name, v.size, v.initial) for v in module.variables] == [
        ("table", 8, b"\1\2\xff"), ("dynamic", 0, b""),
    ]  # fmt: skip


AROUND = """.version 8.0
.target sm_90, debug
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b)
;
.weak .global .align 4 .u32 numbers[2] = {1, 2};
.global .texref picture;
.local .u32 old;
.reg .u32 %older<4>;
.func twice { ret; }
.func twice { exit; }
.visible .entry k .maxntid 64 { ret; }
.func nothing { ret; }
.alias a, b;
"""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("", ""),
        ("\0", ""),  # as compilers that hand over a C string write it
        ("add.s32 %r1, %r1, 1;", "outside of kernels and functions: add.s32"),
        ("}", "outside of kernels and functions: }"),
        (".entry k { exit; }", "two bodies of one name: k"),
    ],
)
@pytest.mark.parametrize("place", [".extern", ".weak", ".visible", ".func nothing", "$"])
def test_what_stands_outside_of_functions_is_known(changed: str, words: str, place: str):
    text = re.sub(rf"(?m)^(?={re.escape(place)})" if place != "$" else r"\Z", changed + "\n", AROUND)
    if words:
        with pytest.raises(ptx.PtxSyntaxError, match=re.escape(words)):
            parser.parse(text).kernels["k"]
    else:
        module = parser.parse(text)
        assert len(module.kernels["k"].instructions) == 1
        assert list(module.functions) == ["twice", "nothing"]


def test_blocks_of_a_loop_come_before_what_follows_it():
    # The exit stands before the loop body in the text.
    body = (
        "bra $HEAD; $EXIT: mov.b32 %r9, 9; ret; $BODY: add.s32 %r1, %r1, 1;"
        "$HEAD: setp.lt.s32 %p1, %r1, 4; @%p1 bra $BODY; bra $EXIT;"
    )
    k = kernel(body)
    blocks = cfg.build(k)
    number = {i.index: block.number for block in blocks for i in block.instructions}
    exit_block = number[k.labels["$EXIT"]]
    assert exit_block > number[k.labels["$BODY"]]
    assert exit_block > number[k.labels["$HEAD"]]
    assert [block.number for block in blocks] == list(range(len(blocks)))


def test_a_barrier_ends_its_block():
    blocks = cfg.build(kernel("mov.b32 %r1, 1; bar.sync 0; mov.b32 %r2, 2; ret;"))
    assert [len(block.instructions) for block in blocks] == [2, 2]


def fma(d: int, a: int, b: int, c: int) -> str:
    return f"fma.rn.f32 %f{d}, %f{a}, %f{b}, %f{c};"


def steps(body: str) -> list[schedule.Step]:
    return [s for block in cfg.build(kernel(body)) for s in schedule.schedule(block)]


def test_an_outer_product_becomes_one_group_whatever_the_order_of_factors():
    body = "".join(
        fma(100 + 3 * i + j, *((i, 10 + j) if (i + j) % 2 else (10 + j, i)), 100 + 3 * i + j)
        for i in range(4)
        for j in range(3)
    )
    (group,) = steps(body + "ret;")[:1]
    assert isinstance(group, schedule.FmaGroup)
    assert {len(group.rows), len(group.columns)} == {3, 4}
    assert len(group.instructions) == 12


@pytest.mark.parametrize(("kind", "letter"), [("fma.rn.f64", "d"), ("dp4a.s32.s32", "r")])
def test_other_multiply_adds_are_grouped_each_kind_by_itself(kind: str, letter: str):
    other = "".join(f"{kind} %{letter}{i + 9}, %{letter}{i}, %{letter}{i + 1}, %{letter}{i + 9};" for i in range(4))
    groups = [s for s in steps(fma(1, 2, 3, 1) + other + fma(4, 5, 6, 4) + "ret;") if isinstance(s, schedule.FmaGroup)]
    assert [(group.kind, len(group.instructions)) for group in groups] == [(kind, 4)]


def product(d: int, a: int, b: int, c: int) -> str:
    def registers(first: int, count: int, letter: str) -> str:
        return "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}"

    parts = registers(d, 4, "f"), registers(a, 4, "r"), registers(b, 2, "r"), registers(c, 4, "f")
    return f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {', '.join(parts)};"


def products(body: str) -> list[list[int]]:
    """Return the instructions (indices) of each step of products, in their order."""
    found = []
    for step in steps(body):
        members = (
            step.instructions if isinstance(step, schedule.ProductGroup) else (getattr(step, "instruction", None),)
        )
        if members[0] is not None and members[0].opcode == "mma":
            found.append([it.index for it in members])
    return found


def test_independent_products_are_one_step():
    assert products(product(10, 0, 8, 10) + product(20, 0, 8, 20) + product(30, 4, 8, 30) + "ret;") == [[0, 1, 2]]


def test_products_that_need_one_another_stay_in_order():
    needs = product(10, 0, 8, 10) + product(20, 4, 8, 20) + product(10, 4, 8, 10) + product(30, 4, 8, 20)
    assert products(needs + "ret;") == [[0, 1], [2, 3]]
    overwrites = product(10, 0, 8, 20) + product(20, 0, 8, 30)
    assert products(overwrites + "ret;") == [[0], [1]]


def test_products_pass_arithmetic_but_neither_what_they_need_nor_memory():
    first, second = product(10, 0, 8, 10), product(20, 0, 8, 20)
    assert products(first + "mov.b32 %r70, 1;" + second + "ret;") == [[0, 2]]
    assert products(first + "mov.b32 %r0, 1;" + second + "ret;") == [[0], [2]]
    assert products(first + "st.shared.b32 [%r70], 1;" + second + "ret;") == [[0], [2]]
    assert products(first + "@%p1 bra L; " + second + "L: ret;") == [[0], [2]]


def test_dependent_fmas_stay_in_order():
    body = fma(1, 2, 3, 1) + fma(1, 4, 5, 1) + fma(6, 1, 1, 6) + "ret;"
    order = [
        s.instruction.index for s in steps(body) if isinstance(s, schedule.Single) and s.instruction.opcode == "fma"
    ]
    assert order == [0, 1, 2]


def test_a_value_that_is_read_is_computed_first():
    body = fma(1, 2, 3, 1) + fma(4, 5, 6, 4) + "st.shared.f32 [%r1], %f1; mov.f32 %f2, %f4; ret;"
    kinds = [type(s).__name__ for s in steps(body)]
    assert kinds.index("FmaGroup") < kinds.index("Single")


def test_loads_do_not_pass_stores():
    body = (
        "ld.shared.f32 %f1, [%r1]; ld.shared.f32 %f2, [%r1+4]; st.shared.f32 [%r1], %f9; ld.shared.f32 %f3, [%r1]; ret;"
    )
    kinds = [type(s).__name__ if isinstance(s, schedule.LoadGroup) else s.instruction.opcode for s in steps(body)]
    assert kinds[:3] == ["LoadGroup", "st", "ld"]


def test_moves_that_feed_each_other_are_not_merged():
    found = steps("mov.f32 %f1, %f2; mov.f32 %f2, %f3; mov.f32 %f4, %f1; ret;")
    assert [len(s.instructions) for s in found if isinstance(s, schedule.MoveGroup)] == [2]


GEMM = """
extern "C" __global__ void k(const float *A, const float *B, float *C, int K)
{
    __shared__ float As[64][8], Bs[8][64];
    const int t = threadIdx.x, r = t / 8 * 8, c = t % 8 * 8;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = 0; i < 8; i++) { As[t][i] = A[t * K + k0 + i]; Bs[i][t] = B[(k0 + i) * 64 + t]; }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; k++)
            for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) acc[i][j] += As[r + i][k] * Bs[k][c + j];
        __syncthreads();
    }
    for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) C[(r + i) * 64 + c + j] = acc[i][j];
}
"""


def one_by_one(block: cfg.Block) -> tuple[schedule.Step, ...]:
    body = block.instructions[:-1] if block.terminator else block.instructions
    return tuple(schedule.Single(i) for i in body)


def test_groups_give_the_very_bits_of_single_instructions(monkeypatch, random):
    """Tiny and huge magnitudes on purpose: subnormal and tied results are where grouped rounding could go wrong."""
    compiled = must_compile(GEMM)
    a = (random.standard_normal((64, 24)) * 10.0 ** random.integers(-23, 18, (64, 24))).astype(np.float32)
    b = (random.standard_normal((24, 64)) * 10.0 ** random.integers(-23, 18, (24, 64))).astype(np.float32)

    def result() -> np.ndarray:
        simulator._program.cache_clear()
        c = np.full((64, 64), np.nan, np.float32)
        arguments: list[Argument] = [Buffer("A", a), Buffer("B", b), Buffer("C", c, True), Scalar("K", np.int32(24))]
        Simulator(Setting(counting=False)).launch(compiled, Grid((1, 1, 1), (64, 1, 1)), arguments)
        return c

    grouped = result()
    monkeypatch.setattr(prepared, "schedule", one_by_one)
    single = result()
    simulator._program.cache_clear()
    assert np.isfinite(grouped).all()
    assert (grouped.view(np.uint32) == single.view(np.uint32)).all()


def test_blocks_in_flight_do_not_change_results_or_counters(random):
    source = GEMM.replace("A[t * K", "A[(blockIdx.x * 64 + t) * K").replace("C[(r + i)", "C[(blockIdx.x * 64 + r + i)")
    compiled = must_compile(source)
    a, b = random.random((7 * 64, 16), np.float32), random.random((16, 64), np.float32)
    seen = []
    for limit in (1, 3, None):
        c = np.full((7 * 64, 64), np.nan, np.float32)
        arguments: list[Argument] = [Buffer("A", a), Buffer("B", b), Buffer("C", c, True), Scalar("K", np.int32(16))]
        launched = Simulator(Setting(block_limit=limit)).launch(compiled, Grid((7, 1, 1), (64, 1, 1)), arguments)
        assert launched.fault is None
        seen.append((c.tobytes(), dict(launched.counters.totals), launched.findings))
    for one, other in itertools.pairwise(seen):
        assert one == other


def test_where_both_branches_of_a_loop_head_meet_comes_after_both():
    """It was once numbered before one of them, and the lanes of a warp went through it twice."""
    k = kernel(
        "mov.u32 %r0, %tid.x;\nagain: setp.lt.u32 %p0, %r0, 5;\n@%p0 bra other;\nneg.s32 %r1, %r0;\nbra.uni join;\n"
        "other: not.b32 %r1, %r0;\njoin: min.s32 %r0, %r0, %r1;\nsetp.gt.s32 %p1, %r0, 3;\n@%p1 bra again;\nret;"
    )
    place = {i.opcode: block.number for block in cfg.build(k) for i in block.instructions}
    assert max(place["neg"], place["not"]) < place["min"] < place["ret"]
