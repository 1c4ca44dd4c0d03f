"""``ldmatrix``: its results, its faults, and its findings and counters."""

from __future__ import annotations

import numpy as np
import pytest

from checks.simulator import matrix_cases as cases
from checks.simulator.conftest import Run
from gemm_lessons.engine.records.errors import UnsupportedKernel

TOGETHER = True

WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"


@pytest.mark.parametrize("form", cases.FORMS)
def test_every_lane_gets_its_fragment(run: Run, form: str) -> None:
    words, rows, out = cases.given()
    launched = run(cases.kernel(form), 2, cases.THREADS, [words, rows, out])
    assert np.array_equal(out, cases.answer(form))
    assert not launched.counters.inexact
    assert not [f for f in launched.findings if f.severity != "note"]


BODY = """
extern "C" __global__ void k(unsigned *o)
{
    __shared__ __align__(16) unsigned tile[WORDS];
    const int t = threadIdx.x;
    unsigned out[4] = {0, 0, 0, 0};
    unsigned at = (unsigned)__cvta_generic_to_shared(tile);
    BODY
    o[t] = out[0] + out[1] + out[2] + out[3];
}
"""


def body(text: str, form: str = "x4", words: int = 128) -> str:
    text = text.replace("LOAD", "{ " + cases.statement(form) + " }")
    return BODY.replace("WORDS", str(words)).replace("BODY", text)


FILL = "for (int i = t; i < 128; i += blockDim.x) tile[i] = i;"

UNSET = """unsigned mine;  // in the lanes from 8 on
    asm volatile("{ .reg .b32 u; .reg .pred p; setp.lt.u32 p, %1, 8; @p mov.b32 u, 0; and.b32 %0, u, 0x70; }"
                 : "=r"(mine) : "r"(t % 32));"""


@pytest.mark.parametrize("space", ["shared", "shared::cta"])
def test_both_names_of_the_space(run: Run, space: str) -> None:
    words, rows, out = cases.given(1)
    run(cases.kernel("x2", space), 1, cases.THREADS, [words, rows, out])
    assert np.array_equal(out, cases.answer("x2", 1))


@pytest.mark.parametrize("effect", ["ld", "st"])
def test_without_a_space_addresses_are_generic(run: Run, effect: str) -> None:
    source = cases.kernel("x2").replace(".shared.b16", ".b16").replace('"r"(at)', '"l"(at)')
    source = source.replace("unsigned at", "void *at").replace("(unsigned)__cvta_generic_to_shared", "")
    words, rows, out = cases.given(1)
    if effect == "st":  # what is loaded from a tile of the block is stored where it was
        back = 'asm volatile("stmatrix.sync.aligned.m8n8.x2.b16 [%0], {%1, %2};" :: "l"(at), "r"(out[0]), "r"(out[1]));'
        source = source.replace('"memory");', '"memory"); ' + back, 1)
    launched = run(source, 1, cases.THREADS, [words, rows, out], arch="sm_90")
    assert np.array_equal(out, cases.answer("x2", 1))
    assert effect == "st" or not [f for f in launched.findings if f.severity == "error"]  # rows are drawn: some twice


@pytest.mark.parametrize(("ours", "order"), [("m8n8.x4", "x4.m8n8"), ("m8n8.x4.trans", "x4.trans.m8n8")])
def test_what_stands_between_may_stand_in_any_order(run: Run, ours: str, order: str) -> None:
    form = ours.partition(".")[2]
    words, rows, out = cases.given(1)
    source = cases.kernel(form)
    assert f".{ours}." in source
    run(source.replace(f".{ours}.", f".{order}."), 1, cases.THREADS, [words, rows, out])
    assert np.array_equal(out, cases.answer(form, 1))


@pytest.mark.parametrize(
    ("text", "form", "threads", "kind", "says"),
    [
        ("at += 16 * t + 16; LOAD", "x4", 32, "out_of_bounds", "byte 512 of 512, 16 bytes read by thread 31"),
        ("at += 16 * t + 4 * (t == 9); LOAD", "x4", 32, "misaligned", "a multiple of 16"),
        ("at += 16 * t; if (t < 16) LOAD", "x4", 32, "warp_mask", "lane 16 of its warp"),
        ("at += 16 * t; LOAD", "x4", 24, "warp_mask", "lane 24 of its warp"),
    ],
)
def test_faults(run: Run, text: str, form: str, threads: int, kind: str, says: str) -> None:
    launched = run(body(FILL + "__syncthreads();" + text, form), 1, threads, [np.zeros(threads, np.uint32)], fault=kind)
    assert says in launched.fault.message


def test_only_lanes_that_give_a_row_need_an_address(run: Run) -> None:
    """The others' may lie anywhere, be misaligned or undefined; a block of 8 threads has none."""
    for text, threads in (
        ("at += t < 8 ? 16 * t : 3 * t + 100000; LOAD", 32),
        ("at += 16 * t; LOAD", 8),
        ("unsigned mine; if (t < 8) mine = at + 16 * t; at = mine; LOAD", 32),
    ):
        out = np.zeros(threads, np.uint32)
        launched = run(body(FILL + "__syncthreads();" + text, "x1"), 1, threads, [out])
        assert np.array_equal(out, np.arange(threads)), text
        assert not [f for f in launched.findings if f.severity != "note"], text


@pytest.mark.parametrize(
    ("text", "form", "found"),
    [
        (f"{FILL} __syncthreads(); at += 16 * (t % 32); LOAD", "x4", set()),
        (f"{FILL} at += 16 * (t % 32); LOAD", "x4", {"race"}),
        ("for (int i = t; i < 124; i += 64) tile[i] = i; __syncthreads(); at += 16 * (t % 32); LOAD", "x4",
         {"uninitialised"}),
        ("for (int i = t; i < 124; i += 64) tile[i] = i; __syncthreads(); at += 16 * (t % 32); LOAD", "x2", set()),
        (f"{FILL} __syncthreads(); {UNSET} at += mine; LOAD", "x2", {"unset"}),
        (f"{FILL} __syncthreads(); {UNSET} at += mine; LOAD", "x1", set()),
        (f"{FILL} __syncthreads(); at += 16 * (t % 8); if (t % 32 < 8) LOAD", "x1", {"divergent_warp"}),
        (f"{FILL} __syncthreads(); at += 16 * (t % 8); LOAD tile[t % 32] = out[0];", "x1", {"race"}),
    ],
)  # fmt: skip
def test_findings_are_those_of_the_rows_that_are_read(run: Run, text: str, form: str, found: set[str]) -> None:
    launched = run(body(text, form), 1, 64, [np.zeros(64, np.uint32)])
    assert {f.kind.removeprefix("shared_") for f in launched.findings if f.severity != "note"} == found


COSTS = [  # form, stride, wavefronts
    ("x4", 16, 4), ("x4", 128, 32), ("x4", 144, 4), ("x2.trans", 64, 8), ("x2", 32, 4), ("x1", 128, 8), ("x1", 0, 1),
]  # fmt: skip
# Without and with the load, all in one program, which is disassembled once.
COSTING = "".join(
    body(f"tile[t] = t; __syncthreads(); at += {stride} * t; {load}", form, 32 * max(stride, 16) // 4).replace(
        "void k(", f"void {kind}_{number}("
    )
    for number, (form, stride, _) in enumerate(COSTS)
    for kind, load in (("before", "out[0] = at;"), ("after", "LOAD"))
)


@pytest.mark.counted
@pytest.mark.parametrize(("form", "stride", "wavefronts"), COSTS)
def test_each_matrix_costs_as_many_wavefronts_as_its_rows_meet_in_a_bank(
    run: Run, form: str, stride: int, wavefronts: int
) -> None:
    number = COSTS.index((form, stride, wavefronts))
    before, after = (run(COSTING, 1, 32, [np.zeros(32, "u4")], f"{kind}_{number}") for kind in ("before", "after"))
    assert not after.counters.inexact
    cost = after.counters["shared_wavefronts"] - before.counters["shared_wavefronts"]
    ideal = after.counters["shared_wavefronts_ideal"] - before.counters["shared_wavefronts_ideal"]
    assert (cost, ideal) == (wavefronts, int(form[1]))
    assert after.counters["shared_load_instructions"] == before.counters["shared_load_instructions"]
    conflicts = [c for c in after.counters.conflicts if not c.store]
    assert bool(conflicts) == (wavefronts > int(form[1]))


@pytest.mark.counted
def test_an_address_that_comes_from_a_fragment_is_not_counted_silently(run: Run) -> None:
    text = f"{FILL} __syncthreads(); at += 16 * t; LOAD out[1] = tile[out[0] & 127];"
    launched = run(body(text), 1, 32, [np.zeros(32, np.uint32)])
    assert "ldmatrix" in " ".join(launched.counters.inexact.values())


@pytest.mark.parametrize(
    "name",
    [
        "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%0}, [%1];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b8 {%0}, [%1];",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {%0}, [%1];",
    ],
)
def test_other_forms_are_refused(name: str) -> None:
    from gemm_lessons.engine.ptx import parser
    from gemm_lessons.engine.ptx.operand_check import check

    text = name.replace("%0", "%r1").replace("%1", "%r2")
    head = ".version 8.0\n.target sm_90\n.entry k()\n{ .reg .b32 %r<4>;"
    kernel = check(parser.parse(f"{head} {text} ret; }}").kernels["k"])
    with pytest.raises(UnsupportedKernel, match=text.partition(" ")[0].replace(".", r"\.")):
        _prepared(kernel)


def _prepared(kernel: object) -> None:
    from gemm_lessons.engine.machine.machine import Machine
    from gemm_lessons.engine.machine.prepared import prepare
    from gemm_lessons.engine.records.launch import Grid
    from gemm_lessons.engine.simulator import Setting

    Machine(prepare(kernel, ()), Grid((1, 1, 1), (32, 1, 1)), [], [], {}, Setting())  # type: ignore[arg-type]
