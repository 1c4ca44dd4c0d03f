"""The table of opcodes: complete, used by all modules, and an opcode without a row blocks every optimisation."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from gemm_lessons import engine, simulate
from gemm_lessons.engine.machine import decode
from gemm_lessons.engine.machine.machine import Machine
from gemm_lessons.engine.machine.prepared import prepare
from gemm_lessons.engine.ptx import cfg, opcodes, parser, schedule
from gemm_lessons.engine.ptx import records as ptx
from gemm_lessons.engine.ptx.anticipated import always_needed
from gemm_lessons.engine.ptx.expansions import VIDEO
from gemm_lessons.engine.ptx.opcodes import TABLE, UNKNOWN
from gemm_lessons.engine.ptx.operand_check import check
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.simulator import Setting

HEAD = ".version 8.0\n.target sm_90\n.entry k()\n{ .reg .pred %p<9>; .reg .b32 %r<40>; .reg .f32 %f<40>;\n"


def kernel(body: str) -> ptx.Kernel:
    return parser.parse(f"{HEAD}{body} ret; }}").kernels["k"]


def test_every_row_is_bound_and_everything_bound_has_a_row() -> None:
    elsewhere = {
        name
        for name, row in TABLE.items()
        if row.ends_block or row.effect in opcodes.NOTHING_TO_DO or name in opcodes.computed()
    }
    own = {"mov", "cvta"}  # of the table of semantics, but the machine does more
    rewritten = {name for name in TABLE if name.startswith("wmma.")} | VIDEO
    assert set(decode.BINDERS) == set(TABLE) - (elsewhere - own) - rewritten


def test_a_row_says_what_fits_together() -> None:
    for name, row in TABLE.items():
        assert row.name == name
        if row.operands is not None:
            assert row.shape is not None
        assert row.ends_block <= (not row.writes), name
        assert bool(row.moved) == (row.undefined == "moved"), name
        assert (row.undefined == "ignored") == (row.effect in (*opcodes.NOTHING_TO_DO, "group")), name
        if row.undefined in ("spread", "moved", "upwards", "bitwise", "compared", "chosen", "copied"):
            assert row.computes, name
        assert row.ffma <= 0 or row.computes, name


@pytest.mark.parametrize(
    "text", ["vote.ballot.b32 %r1, %p1;", "vote.all.pred %p1, %p2;", "shfl.up.b32 %r1, %r2, 1, 0;"]
)
def test_what_the_lanes_did_before_masks_is_refused_by_name(text: str) -> None:
    source = f"{HEAD.replace('k()', 'k')} {text} ret; }}"
    with pytest.raises(UnsupportedKernel, match="unsupported PTX: " + text.partition(" ")[0]):
        simulate(source, "k", 1, 32, [])


def test_rows_of_opcodes_that_only_compute_name_opcodes_of_the_semantics() -> None:
    elsewhere = {"isspacep", "createpolicy", "mapa", "getctarank"} | VIDEO
    assert {name for name, row in TABLE.items() if row.computes} - opcodes.computed() == elsewhere


UNKNOWN_ONES = [
    "frobnicate.sync %r3, [%r5];",
    "ldmatrix_of_tomorrow.sync.shared.b16 [%r5], {%r3};",
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %r3, %r5;",
    "cp.frobnicate %r3, %r5;",
    "discard.global.L2 [%r5], 128;",  # known, and no hint: what was there is not any more
]


@pytest.mark.parametrize("unknown", UNKNOWN_ONES)
def test_what_has_no_row_is_a_barrier_to_every_optimisation(unknown: str) -> None:
    """Loads and multiply-adds before it stay before it, also where registers do not tell; its registers are read and
    written; its results are needed; and no kernel with it runs."""
    k = check(
        kernel(f"ld.shared.f32 %f1, [%r1]; fma.rn.f32 %f4, %f5, %f6, %f7; {unknown} fma.rn.f32 %f8, %f5, %f6, %f7;")
    )
    odd = k.instructions[2]
    assert odd.row is UNKNOWN
    mentioned = {name for operand in odd.operands for name in ptx.registers_in(operand)}
    assert cfg.reads(odd) == cfg.writes(odd) == mentioned
    order = [i.index for s in schedule.schedule(cfg.build(k)[0]) for i in members(s)]
    assert order == [0, 1, 2, 3]
    assert odd.index in always_needed(cfg.build(k))
    with pytest.raises(UnsupportedKernel, match=odd.opcode):
        Machine(prepare(k, ()), Grid((1, 1, 1), (32, 1, 1)), [], [], {}, Setting())


def members(step: schedule.Step) -> tuple[ptx.Instruction, ...]:
    return (step.instruction,) if isinstance(step, schedule.Single) else step.instructions


def test_a_row_is_looked_up_once_for_each_instruction() -> None:
    instruction = kernel("add.s32 %r1, %r2, %r3;").instructions[0]
    assert instruction.row is instruction.row is TABLE["add"]
    assert "row" in vars(instruction)


# Who names opcodes beside the table, and why: recognises the very instructions that it runs in groups; writes PTX
# anew; runs the ends of basic blocks; tells the members of its own family apart; draws them; computes ranges instead of
# values (block_classes).
NAMED = {
    "counters/counters.py": 1, "counters/cross_check.py": 1, "estimate/items.py": 1, "machine/block_classes.py": 25,
    "machine/clusters.py": 1,
    "machine/convergence.py": 1,
    "machine/heap.py": 1, "machine/machine.py": 3, "machine/mbarriers.py": 1, "machine/prepared.py": 1,
    "machine/sizes_alone.py": 12, "machine/undefined.py": 4, "machine/unset.py": 2, "machine/warps.py": 6,
    "ptx/addresses.py": 4, "ptx/anticipated.py": 1, "ptx/cfg.py": 2, "ptx/expansions.py": 1,
    "ptx/fma_contraction.py": 2, "ptx/inline.py": 6, "ptx/pointer_calls.py": 3, "ptx/recursion.py": 5,
    "ptx/schedule.py": 3, "ptx/unset.py": 1, "ptx/wide_registers.py": 3,
    "ptx/wmma.py": 3, "second_opinion/agreement.py": 2,
    "pictures/fragments.py": 2,
}  # fmt: skip


def test_nobody_else_names_opcodes() -> None:
    """Comparisons of an instruction's opcode with names, by module."""
    root = Path(engine.__file__).parent
    found: Counter[str] = Counter()
    for path in root.rglob("*.py"):
        if {"sass", "semantics"} & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                named = [s for s in sides if "opcode" in (getattr(s, "attr", ""), getattr(s, "id", ""))]
                if named and any(
                    isinstance(c, ast.Constant) and isinstance(c.value, str) for s in sides for c in ast.walk(s)
                ):
                    found[path.relative_to(root).as_posix()] += 1
    assert found == NAMED
