"""Each rule of the hints: the smallest thing that triggers it, and a twin that must not."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checks.compiling import must_compile
from gemm_lessons import simulate
from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.todos import Stub, open_todos
from gemm_lessons.devices.device import Binaries
from gemm_lessons.devices.gpu.trouble import fault
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled, Resources, compile_source
from gemm_lessons.engine.compiler.diagnostics import Diagnostic
from gemm_lessons.engine.hardware.occupancy import Occupancy
from gemm_lessons.engine.records.facts import AtMbarrier, Cause, Hang, Link
from gemm_lessons.engine.records.findings import Finding, Severity
from gemm_lessons.engine.records.launch import Buffer, Grid
from gemm_lessons.engine.records.metrics import COUNTED, METRICS
from gemm_lessons.engine.records.results import Counters, LineCount
from gemm_lessons.engine.simulator import Simulator
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gemm.time_model import Estimate
from gemm_lessons.judging.advice import advice, remedy
from gemm_lessons.judging.evidence import Built, Checked, Evidence, ShapeResult
from gemm_lessons.judging.hints import COALESCING, CONFLICTS, LIMITS, SHOWN, hints_for
from gemm_lessons.judging.unfinished import sentence
from gemm_lessons.judging.verdict import CompileFailed, GateMissed, GateResult, Passed, WrongAnswer, judge

from .cases import TILES, problem
from .findings import access, race

LESSONS = Path(__file__).parents[2] / "lessons"
SIZE = Shape(4096, 4096, 4096)
KINDS, CAUSES, BYTES, ENDS = map(advice, ("kinds", "causes", "bytes", "ends"))


def facts(**changes: Any) -> Evidence:
    """The facts of a passed run, with fields of any of their records changed."""
    return changed(Evidence(any_course().lesson("block_tile"), source="", gpu="H200", sms=132, shape=SIZE), **changes)


def changed(it: Evidence, **changes: Any) -> Evidence:
    """Each of ``changes`` goes into the record that has a field of this name."""
    named = {field.name for field in fields(Checked)}
    checked = replace(it.checked, **{name: changes.pop(name) for name in named & changes.keys()})
    speed = replace(it.speed, estimate=changes.pop("estimate", it.speed.estimate))
    built = it.built
    if changes.keys() & {"resources", "occupancy"}:
        resources = changes.pop("resources", Resources(0, 0, 0, 0))
        code = Compiled("", "k.cu", "k", "sm_90", "", b"", resources, (), "")
        fit = changes.pop("occupancy", None)
        built = Built(it.lesson, Binaries((code,), (code,)), (fit,) if fit else ())
    stub = Stub.of(changes.pop("stub")) if "stub" in changes else it.stub
    return replace(it, checked=checked, speed=speed, built=built, stub=stub, **changes)


def said(**changes: Any) -> str:
    return "\n".join(hints_for(facts(**changes)))


def counted(body: str) -> Evidence:
    """The facts of one 32-thread block that runs ``body`` on ``float *x``, 1024 elements."""
    source = f'extern "C" __global__ void k(float *x)\n{{\n    int t = threadIdx.x;\n{body}\n}}\n'
    compiled = must_compile(source)
    x = Buffer("x", np.ones(4096, np.float32), output=True)
    launched = Simulator().launch(compiled, Grid((1, 1, 1), (32, 1, 1)), [x])
    assert launched.fault is None
    return facts(source=source, counters=launched.counters, findings=launched.findings, resources=compiled.resources)


def wrong_answer() -> WrongAnswer:
    it = problem()
    return WrongAnswer(it.shape, judge(it, it.c, TILES))


CONFLICT = """\
    __shared__ float s[32][{width}];
    s[t][0] = x[t];
    __syncthreads();
    x[t] = s[31 - t][0];"""


def test_bank_conflicts_name_line_lanes_bank_share_and_section() -> None:
    hints = hints_for(counted(CONFLICT.format(width=32)))
    text = "\n".join(hints)
    assert len(hints) == 2
    assert "line 5 writes s with a 32-way bank conflict: lanes 0, 1, 2, 3, ... want different words of bank 0" in text
    assert re.search(r"line 7 reads( s)? with a 32-way bank conflict", text)
    assert "[x[t] = s[31 - t][0];]" in text
    assert "48% of the shared-memory wavefronts" in text  # 31 of 64 each
    assert f"'{CONFLICTS[1]}': gemm-lessons read {CONFLICTS[0]}" in hints[0]


def test_padding_silences_the_conflict_hint() -> None:
    assert hints_for(counted(CONFLICT.format(width=33))) == ()


def test_uncoalesced_loads_and_stores() -> None:
    text = "\n".join(hints_for(counted("    x[t] = x[32 * t];")))
    assert "line 4 reads 32 sectors per request where 4 would do" in text
    assert "[x[t] = x[32 * t];]" in text
    assert f"'{COALESCING[1]}': gemm-lessons read {COALESCING[0]}" in text
    assert "writes 32 sectors per request" in "\n".join(hints_for(counted("    x[32 * t] = x[t];")))
    assert hints_for(counted("    x[t] = x[t + 32];")) == ()


def test_beside_a_missed_gate_the_line_is_named() -> None:
    it = counted("    x[t] = x[32 * t];")

    def beside(expression: str) -> str:
        gate = GateResult("sectors", "sectors", 32.0, 3.0, True, False, "Read on.", expression)
        return hints_for(changed(it, verdict=GateMissed((gate,))))[-1]

    hint = beside("global_sectors_read / (M * K)")
    assert "line 4 reads 32 sectors per request where 4 would do" in hint
    assert "See" not in hint, "the gate has said where to read"
    other = beside("barriers")
    assert "where 4 would do" in other
    assert "See" in other


def test_eight_ways_take_another_article() -> None:
    body = CONFLICT.format(width=32).replace("s[t]", "s[t / 4]").replace("31 - t", "t / 4")
    assert "an 8-way bank conflict" in "\n".join(hints_for(counted(body)))


def test_stores_matter_less_when_k_grows() -> None:
    it = counted("    x[32 * t] = x[t];")
    assert hints_for(replace(it, counted=SIZE))
    assert not hints_for(replace(it, counted=Shape(128, 128, 64), shape=SIZE))


@pytest.mark.parametrize("heading", [COALESCING, CONFLICTS])
def test_sections_exist(heading: tuple[str, str]) -> None:
    lesson, section = heading
    (text,) = LESSONS.glob(f"??_{lesson}/README.md")
    headings = [line.lstrip("# ").strip() for line in text.read_text().splitlines() if line.startswith("#")]
    assert section in headings


def test_spills() -> None:
    assert "64 bytes per thread are spilled" in said(resources=Resources(255, 0, 64, 64))
    assert said(resources=Resources(255, 0, 0, 0)) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_findings_get_a_remedy(kind: str) -> None:
    finding = Finding(kind, "error", line=1)
    text = said(findings=[finding], source="As[0] = 1;")
    assert KINDS[kind] in text
    assert "line 1: " in text
    assert "[As[0] = 1;]" in text
    assert said(findings=[replace(finding, severity="note")]) == ""


HANG = """
#include "tma.cuh"
extern "C" __global__ void k(int *x)
{
    __shared__ Barrier full;
    if (threadIdx.x == 0)
        init(full, 2);
    __syncthreads();
    if (threadIdx.x == 0)
        arrive(full);
    WAIT
    x[threadIdx.x] = 1;
}
"""


@pytest.mark.parametrize(
    ("wait", "at_mbarrier"),
    [("await(full, 0);", True), ('if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");', False)],
)
def test_a_hang_gets_the_remedy_of_its_barrier(wait: str, at_mbarrier: bool) -> None:
    source = HANG.replace("WAIT", wait)
    found = simulate(source, "k", 1, 64, [np.zeros(64, np.int32)], include_dirs=[LESSONS / "common"]).fault
    assert found is not None
    assert (ENDS["cause count"] in said(findings=[found])) == at_mbarrier
    assert (remedy("of_a_count") in said(findings=[found])) != at_mbarrier
    todo, open_ = "    // TODO(1): arrive.\n", "TODO(1) in line 1 is still open, and the phase"
    assert (open_ in said(findings=[found], source=todo, stub=todo)) == at_mbarrier
    assert open_ not in said(findings=[found], source=todo + "    arrive(full);\n", stub=todo)


def test_a_remedy_is_said_once() -> None:
    race = Finding("race", "error", line=3)
    assert said(findings=[race, replace(race, line=4)]).count(KINDS["race"]) == 1


@pytest.mark.parametrize(
    ("effects", "remedy"),
    [
        ("global store store", "Every element needs one owner: check row and col"),
        ("global load store", KINDS["race"]),
        ("shared store store", "Two threads write the same element of a shared array"),
        ("shared store load", KINDS["race"]),
        ("shared copy load", KINDS["race"]),
    ],
)
def test_the_remedy_of_a_race_fits_its_memory(effects: str, remedy: str) -> None:
    text = said(findings=[race(1, None, effects)])
    assert remedy in text
    assert ("__syncthreads()" in text) == (effects != "global store store")


def test_races_say_which_memory_they_are_in() -> None:
    swapped = counted("    x[t / 2] = t;")
    assert [finding.effects for finding in swapped.checked.findings] == ["global store store"]
    assert "check row and col" in "\n".join(hints_for(swapped))


@pytest.mark.parametrize("cause", ["exited_before_barrier", "out_of_array"])
def test_what_follows_from_a_cause_gets_no_advice_of_its_own(cause: str) -> None:
    found = [Finding("uninitialised", "warning", line=2), Finding(cause, "warning", line=9)]
    assert [hint.split(".")[0] for hint in hints_for(facts(findings=found))] == [f"line 9: {cause.replace('_', ' ')}"]
    both = hints_for(facts(findings=[found[0], replace(found[1], kind="unset")]))
    assert [hint.split(".")[0] for hint in both] == ["line 9: unset", "line 2: uninitialised"]
    (alone,) = hints_for(facts(findings=found[:1]))
    assert alone.startswith("line 2: uninitialised")


def test_a_guard_is_advised_only_where_one_can_be_missing() -> None:
    def remedy(number: str, array: str, byte: int, size: int, **tile: int) -> str:
        lesson = any_course().lesson(number)
        sizes = tuple({**lesson.tile.defines, **tile}.items())
        finding = access("out_of_bounds", array, byte, size, line=1) if array else fault(700, "", None)
        return said(lesson=replace(lesson, tile=replace(lesson.tile, sizes=sizes)), findings=[finding])

    guard = KINDS["out_of_bounds"]
    assert guard in remedy("block_tile", "A", 3828, 3828)
    assert guard in remedy("block_tile", "", 0, 0)
    shared = remedy("block_tile", "As", 8448, 4224)
    assert guard not in shared
    assert "As belongs to the block: check each index" in shared
    whole = remedy("vector_loads", "C", 131072, 131072)
    assert guard not in whole
    assert "Every tile is whole in this lesson" in whole
    ahead = remedy("fp8", "scale_B", 72, 72)
    assert "If this line loads for a later tile, test that there is one, below K." in ahead
    assert "Every tile is whole in this lesson, so no guard is missing" in remedy("fp8", "", 0, 0)
    promise = remedy("vector_loads", "A", 73728, 73728, BK=16)
    assert "Tiles of BK = 16 do not fit a promise of K = 8" in promise


def test_where_row_and_column_changed_places_no_guard_is_advised() -> None:
    it = problem(32, 32, 32)
    a, b = it.factors
    swapped = WrongAnswer(it.shape, judge(it, (a.T @ b.T).astype(np.float32), TILES))
    finding = access("out_of_bounds", "A", 3828, 3828, line=1)
    assert "a guard would only hide it" in said(verdict=swapped, findings=[finding])
    assert KINDS["out_of_bounds"] in said(verdict=wrong_answer(), findings=[finding])


def test_an_unexplained_wrong_answer_is_narrowed_down_by_the_smallest_shape() -> None:
    lesson = any_course().lesson("vector_loads")
    noise = np.asarray(np.random.default_rng(3).uniform(1, 2, problem().reference.shape), np.float32)
    verdict = WrongAnswer(SIZE, judge(problem(), noise, TILES))
    assert verdict.judgement.pattern is None

    def narrowed(**changes: Any) -> str:
        return said(**{"lesson": lesson, "verdict": verdict, **changes})

    tile = Shape(128, 128, 8)
    wrong, right, other = ShapeResult(tile, "wrong_answer"), ShapeResult(tile, "passed"), ShapeResult(SIZE, "faulted")
    assert "(128x128x8) is already wrong" in narrowed(shapes=(wrong, other))
    assert "(128x128x8) is right, but more of them are not" in narrowed(shapes=(right, other))
    assert "no known mistake gives exactly this C" in narrowed(shapes=(other,))
    named = WrongAnswer(SIZE, judge(problem(), np.zeros_like(noise), TILES))
    assert narrowed(shapes=(wrong,), verdict=named) == "", "the pattern says more"
    finding = Finding("uninitialised", "warning", line=2)
    assert "is already wrong" not in narrowed(shapes=(wrong,), findings=[finding])
    stub = lesson.stub_path.read_text()
    assert "is already wrong" not in narrowed(shapes=(wrong,), source=stub, stub=stub)
    assert narrowed(shapes=(wrong,), verdict=Passed()) == ""


def test_a_wrong_answer_need_not_be_fast() -> None:
    slow = changed(counted(CONFLICT.format(width=32)), resources=Resources(255, 0, 64, 64), blocks=4)
    assert len(hints_for(slow)) == SHOWN
    assert hints_for(changed(slow, verdict=wrong_answer())) == ()


def test_missed_gates_say_value_limit_and_why() -> None:
    gate = GateResult("loads", "loads per multiply-add", 2.0, 0.3, True, False, "Reuse them.", "a / b")
    assert (
        said(verdict=GateMissed((gate,)))
        == "loads per multiply-add is 2; this lesson requires at most 0.3. Reuse them."
    )
    other = replace(gate, value=None, at_most=False, note="a / b divides by zero")
    assert "is a / b divides by zero; this lesson requires at least 0.3" in said(verdict=GateMissed((other,)))
    assert said(verdict=Passed()) == ""


def test_undefined_tile_sizes() -> None:
    def failed(name: str) -> CompileFailed:
        message = f'identifier "{name}" is undefined'
        return CompileFailed("", (Diagnostic("k.cu", 7, 3, "error", message),))

    assert "line 7: TM is not a tile size of this lesson. lesson.toml defines BM = 32" in said(verdict=failed("TM"))
    assert "bk is not a tile size" in said(verdict=failed("bk"))
    assert said(verdict=failed("acc")) == ""


@pytest.mark.parametrize(("kind", "header"), [("half", "cuda_fp16.h"), ("__nv_bfloat16", "cuda_bf16.h")])
def test_a_number_of_two_bytes_is_converted_before_arithmetic_with_another_type(kind: str, header: str) -> None:
    def told(type_: str, statement: str) -> bool:
        source = f'#include <{header}>\nusing Number = {type_};\nextern "C" __global__ void k(float *x, Number *y)\n'
        source += f"{{ float f = x[0]; Number h = y[0]; {statement}; x[1] = f; }}\n"
        failed = compile_source(source, path="k.cu", entry="k")
        assert isinstance(failed, NotCompiled)
        verdict = CompileFailed("", failed.diagnostics)
        return "several operators: convert it by float(x)." in said(verdict=verdict, source=source)

    for statement in ("f = f + h", "f = h * f", "h = h - 1", "f += h"):
        assert told(kind, statement)
    assert not told(kind, "f = h + unknown")
    assert not told("struct { float f; }", "f = f + h")


def test_semicolons_that_end_a_loop_are_told_from_those_that_do_not() -> None:
    for source in (
        "while (f(1));",
        "for (;;) { }",
        "if (a) b();",
        "// if (a);",
        "x = if_(a);",
        "for (int i : f(a)) g(a);",
    ):
        assert said(verdict=wrong_answer(), source=source) == "", source
    assert "line 2: the semicolon after for" in said(verdict=wrong_answer(), source="\nfor (i = f(g(0)); ; i++) ;")
    assert said(verdict=Passed(), source="if (a);") == ""


def test_blocks_of_two_dimensions_where_a_lesson_has_one() -> None:
    assert "threadIdx.y is always 0" in said(verdict=wrong_answer(), source="int y = threadIdx.y;")
    for source in ("i += blockDim.x", "blockIdx.y * BM", "// threadIdx.y"):
        assert said(verdict=wrong_answer(), source=source) == "", source
    assert said(verdict=Passed(), source="threadIdx.y") == ""


TWO_LAUNCHES = """
__global__ void partial_products(const float *A, float *P)
{{
    P[{first}] = A[0];
}}

__global__ void add_slices(const float *P, float *C, int M, int N)
{{
    C[{second}] = P[0];
}}
"""
FLAT = "blockIdx.x * blockDim.x + threadIdx.x"


def split_lesson() -> Lesson:
    """Two launches: a tile of 32 x 32 by 1,024 threads, then blocks of 256 threads that cover C row by row."""
    lesson = any_course().lesson("block_tile")
    names = ("M", "N", "BM", "BN")

    def three(*texts: str) -> tuple[Expression, ...]:
        return tuple(Expression.parse(text, names) for text in texts)

    (tiles,) = lesson.launches
    products = replace(tiles, entry="partial_products")
    sums = replace(tiles, entry="add_slices", grid=three("(M * N + 255) // 256"), block=three("256"))
    return replace(lesson, launches=(products, sums))


def test_a_flat_index_is_right_where_blocks_form_a_row() -> None:
    lesson = split_lesson()

    def told(**indices: str) -> str:
        source = TWO_LAUNCHES.format(**{"first": "0", "second": "0", **indices})
        return said(verdict=wrong_answer(), lesson=lesson, source=source)

    assert told(second=FLAT) == ""
    assert told(second="(threadIdx.x + N) / blockDim.x") == ""
    assert "line 4: this kernel's blocks are one row of 1,024 threads, so blockDim.x is 1,024, not a tile size" in told(
        first=FLAT
    )
    assert "line 4: " in told(first=FLAT, second=FLAT)
    assert "line 9: this kernel's blocks are one row of 256 threads, so threadIdx.y is" in told(second="threadIdx.y")
    assert "line 9: this kernel's blocks are one row of 256" in told(second="threadIdx.x / blockDim.x")
    single = any_course().lesson("block_tile")
    assert "this lesson's blocks" in said(verdict=wrong_answer(), lesson=single, source=f"int i = {FLAT};")


def test_a_flat_index_is_right_where_blocks_cover_a_side_of_the_matrix() -> None:
    lesson = any_course().lesson("block_tile")
    (tiles,) = lesson.launches
    wide = tuple(Expression.parse(text, ("M", "N", "BM", "BN")) for text in ("(N + BM * BN - 1) // (BM * BN)", "M"))
    rows = replace(lesson, launches=(replace(tiles, grid=wide),))
    assert said(verdict=wrong_answer(), lesson=rows, source=f"int col = {FLAT};") == ""
    assert "not a tile size" in said(verdict=wrong_answer(), lesson=lesson, source=f"int col = {FLAT};")


def test_an_open_todo_comes_before_a_block_of_two_dimensions() -> None:
    stub = any_course().lesson("block_tile").stub_path.read_text()
    source = stub.replace("// TODO(1)", "const int col = blockIdx.x * blockDim.x;\n    // TODO(1)")
    open_first, flat = hints_for(facts(verdict=wrong_answer(), source=source, stub=stub))[:2]
    assert open_first.startswith("TODO(")
    assert "so blockDim.x is 1,024" in flat
    solved = any_course().lesson("block_tile").solution_path.read_text()
    (first, *_) = hints_for(facts(verdict=wrong_answer(), source=f"{solved}\nint x = threadIdx.y;", stub=stub))
    assert "threadIdx.y is always 0" in first


def test_a_header_of_the_stubs_that_is_not_included() -> None:
    failed = CompileFailed("", (Diagnostic("k.cu", 7, 3, "error", "Matrix is not a template"),))
    stub = '#include "a.cuh"\n#include <b.cuh>\n'
    assert said(verdict=failed, stub=stub, source='#include "b.cuh"').startswith(
        'the stub begins with #include "a.cuh":'
    )
    assert said(verdict=failed, stub=stub, source=stub) == said(verdict=wrong_answer(), stub=stub, source="") == ""


def estimate(limiter: str) -> Estimate:
    return Estimate("H200", SIZE, 1.0, 1.0, limiter, {})


@pytest.mark.parametrize("limiter", LIMITS)
def test_the_limiter_points_to_the_next_lesson_or_says_what_to_try(limiter: str) -> None:
    what, untold = LIMITS[limiter]
    assert f": {what}. Next: {untold}." in said(estimate=estimate(limiter))
    text = said(estimate=estimate(limiter), attacker="04 (Thread columns)")
    assert f": {what}. Lesson 04 (Thread columns) attacks it." in text
    assert untold not in text, "that may be what a later lesson is about"
    assert said(estimate=estimate("something else")) == ""
    assert said(estimate=estimate(limiter), verdict=wrong_answer()) == "", "a wrong kernel need not be fast"


def executing(instructions: int) -> Counters:
    """Counters of a warp with 100 multiply-adds among ``instructions`` instructions."""
    return Counters(
        {**dict.fromkeys(COUNTED.values(), 0), METRICS["warp_instructions"]: instructions, METRICS["ffma"]: 3200}
    )


def test_more_instructions_than_the_reference() -> None:
    best = Checked(Passed(), counters=executing(130))
    text = said(counters=executing(169), reference=best)
    assert "executes 1.69 instructions per multiply-add, the reference 1.30" in text
    assert said(counters=executing(140), reference=best) == ""
    assert said(counters=executing(169)) == "", "nothing to compare with"
    assert "instructions per multiply-add" not in said(counters=executing(169), reference=best, verdict=wrong_answer())
    assert said(counters=executing(169), reference=Checked(Passed(), counters=Counters({}))) == ""


def test_low_occupancy() -> None:
    assert "0.125 (8 warps on an SM), limited by registers" in said(occupancy=Occupancy(1, 8, 0.125, "registers"))
    assert said(occupancy=Occupancy(2, 32, 0.5, "registers")) == ""


@pytest.mark.parametrize(("limiter", "says"), [("latency", "The estimate shows stalls"), ("shared", "fine here")])
def test_low_occupancy_is_a_fault_where_the_kernel_waits(limiter: str, says: str) -> None:
    found = said(occupancy=Occupancy(2, 16, 0.25, "registers"), estimate=estimate(limiter))
    assert says in found


def test_small_grids() -> None:
    text = said(blocks=4, shape=Shape(256, 256, 64))
    assert "at 256x256x64 the grid has 4 blocks and an H200 has 132 SMs: 128 of them idle" in text
    assert said(blocks=132) == ""
    assert "the grid has 1 block and" in said(blocks=1)


STUB = """\
__global__ void gemm()
{
    float acc = 0;
    // TODO(1): load
    // both tiles.

    // TODO(2): sum.
    for (;;) {
        // TODO(3): store.
    }
}
"""


@pytest.mark.parametrize(
    ("change", "still_open"),
    [
        ((), {1: 4, 2: 7, 3: 9}),
        (("both tiles.\n", "both tiles.\n    load();\n"), {2: 8, 3: 10}),
        (("    // TODO(1): load", "    load();\n    // TODO(1): load"), {2: 8, 3: 10}),
        (("    // TODO(2): sum.", "    load();\n    sum();\n    // TODO(2): sum."), {2: 9, 3: 11}),  # or is it closed?
        (("    // TODO(1): load\n    // both tiles.\n\n", "    load();\n"), {2: 5, 3: 7}),  # comment gone, solved
        (("    // TODO(1): load\n    // both tiles.\n\n", ""), {2: 4, 3: 6}),  # comment gone, nothing in its place
        (("// TODO(2): sum.", "// TODO(2): sum.\n    acc += 1;"), {3: 10}),
        (
            ("// TODO(2): sum.", "// TODO(2): sum.\n    for (;;) {\n        acc += 1;\n    }"),
            {3: 12},
        ),
        (("        // TODO(3): store.", "        store();"), {1: 4, 2: 7}),
        (("        // TODO(3): store.", "        store();\n        // TODO(3): store."), {1: 4, 2: 7}),
        (("        // TODO(3): store.", "        store(); // TODO(3): store."), {1: 4, 2: 7}),
        (("        // TODO(3): store.", "        // TODO(3): store. (Where?)\n\n"), {1: 4, 2: 7, 3: 9}),
        (("float acc = 0;", "float acc = 1;\n"), {2: 8, 3: 10}),
        (("__global__ void gemm()", "// my kernel\n__global__ void gemm(int M)"), {1: 5, 2: 8, 3: 10}),
    ],
)
def test_open_todos(change: tuple[str, str] | tuple[()], still_open: dict[int, int]) -> None:
    assert open_todos(STUB.replace(*change) if change else STUB, Stub.of(STUB)) == still_open


def test_adjacent_todos_are_closed_one_by_one() -> None:
    lesson = any_course().lesson("block_tile")
    stub = lesson.stub_path.read_text()

    def solved(*numbers: int, above: bool = False) -> set[int]:
        lines = []
        for line in stub.splitlines():
            mine = any(f"TODO({number})" in line for number in numbers)
            lines += [line, "x();"][:: -1 if above else 1] if mine else [line]
        return set(open_todos("\n".join(lines), Stub.of(stub)))

    for above in (False, True):
        assert solved(above=above) == {1, 2, 3, 4, 5}
        assert solved(1, above=above) == {2, 3, 4, 5}
        assert solved(1, 2, 3, above=above) == {4, 5}
        assert solved(1, 2, 3, 4, 5, above=above) == set()
    assert solved(2) == {3, 4, 5}, "both copies in one loop"


def test_a_todo_with_nothing_below_it_is_asked_for() -> None:
    stub = any_course().lesson("block_tile").stub_path.read_text()

    def asked(*numbers: int, above: bool = False) -> str:
        lines = []
        for line in stub.splitlines():
            mine = any(f"TODO({number})" in line for number in numbers)
            lines += [line, "x();"][:: -1 if above else 1] if mine else [line]
        return said(verdict=wrong_answer(), source="\n".join(lines), stub=stub)

    line = next(i for i, text in enumerate(stub.splitlines(), 1) if "TODO(1)" in text)
    assert f"TODO(1) in line {line} is empty. Did you write that step elsewhere?" in asked(2, 3, 4, 5)
    assert "TODO(3) in line" in asked(1, 2, 4)
    for right in (asked(1, 2, 3, 4, 5), asked(1, 2, 3), asked(1, 2, 3, 4, 5, above=True), asked()):
        assert "is empty. Did you write" not in right


def test_one_tile_that_is_right_is_said_before_what_memory_holds() -> None:
    verdict = wrong_answer()
    assert isinstance(verdict, WrongAnswer)
    vague = replace(verdict, judgement=replace(verdict.judgement, pattern=None))
    tile = ShapeResult(Shape(32, 32, 64), "passed")
    sums = sentence("right_sums", array="acc")
    assert "is right, but more of them are not" in said(verdict=vague, shapes=(tile,), contents=(sums,))
    wrong = replace(tile, kind="wrong_answer")
    moved = "acc holds the right sums. So only their places in C are wrong."
    assert moved in said(verdict=vague, shapes=(wrong,), contents=(sums,))
    asks = "Is that what should be there?"
    assert f"acc holds the right sums. {asks}" in said(verdict=vague, contents=(sums,)), "one K tile was not tried"
    assert asks in said(verdict=vague, shapes=(wrong,), contents=(sums, sentence("nothing_stored")))


def test_a_fault_comes_before_an_open_todo_and_a_warning_after() -> None:
    stub = any_course().lesson("block_tile").stub_path.read_text()

    def first(severity: Severity) -> str:
        finding = Finding("race", severity, line=1)
        return said(verdict=wrong_answer(), source=stub, stub=stub, findings=[finding])

    assert first("error").startswith("line 1: race.")
    assert "TODO(1)" in first("error")
    assert first("warning").startswith("TODO(1)")


def test_an_open_todo_comes_before_a_missing_barrier_of_a_cluster() -> None:
    stub = any_course().lesson("clusters").stub_path.read_text()
    finding = Finding("cluster_memory", "error", line=1)
    told = said(verdict=wrong_answer(), source=stub, stub=stub, findings=[finding])
    assert re.match(r"TODO\(1\) in line \d+ is still open \(6 are open\), which may be the cause\.", told)
    assert "TODO" not in said(verdict=wrong_answer(), source="", stub="", findings=[finding])


def test_a_hang_that_lacks_bytes_asks_for_the_mask_of_a_multicast() -> None:
    source = HANG.replace("WAIT", "await(full, 0);")
    found = simulate(source, "k", 1, 64, [np.zeros(64, np.int32)], include_dirs=[LESSONS / "common"]).fault
    assert found is not None
    assert isinstance(found.facts, Hang)
    assert isinstance(found.facts.waiting[0], AtMbarrier)
    it = found.facts.waiting[0]
    for case, lacks in (("cause too few bytes", True), ("cause no copy", True), ("cause count", False)):
        hang = replace(found, facts=replace(found.facts, cause=Cause(case, it.mbarrier, it.who, 0)))
        assert (remedy("left_out") in said(findings=[hang], source="share_box(x);")) == lacks
        assert remedy("left_out") not in said(findings=[hang], source="copy_box(x); // not share_box")


def test_a_hang_blames_an_open_todo_only_where_a_step_may_be_missing() -> None:
    source = HANG.replace("WAIT", "await(full, 0);")
    found = simulate(source, "k", 1, 64, [np.zeros(64, np.int32)], include_dirs=[LESSONS / "common"]).fault
    assert found is not None
    assert isinstance(found.facts, Hang)
    it = found.facts.waiting[0]
    assert isinstance(it, AtMbarrier)
    todo = "    // TODO(1): arrive.\n"
    for case in (*CAUSES, *BYTES, "cause count", "cause first wait", "cause remote", "cause ended"):
        hang = replace(found, facts=replace(found.facts, cause=Cause(case, it.mbarrier, it.who, 0)))
        told = said(findings=[hang], source=todo, stub=todo)
        maybe = case not in (*CAUSES, *BYTES)
        assert ("TODO(1) in line 1 is still open, and the phase may need" in told) == maybe
        assert ("TODO(1)" in told) == (case not in CAUSES)
        assert {**CAUSES, **BYTES, **ENDS}.get(case, ENDS[""]) in told


def test_a_cycle_without_a_cause_gets_its_own_question() -> None:
    source = HANG.replace("WAIT", "await(full, 0);")
    found = simulate(source, "k", 1, 64, [np.zeros(64, np.int32)], include_dirs=[LESSONS / "common"]).fault
    assert found is not None
    assert isinstance(found.facts, Hang)
    facts = replace(found.facts, cause=None, cycle=(Link("link", 8, 9), Link("link", 9, 8)))
    assert ENDS["cycle"] in said(findings=[replace(found, facts=facts)])
    assert ENDS["cycle"] not in said(findings=[replace(found, facts=replace(facts, cycle=()))])


def test_the_first_open_todo_is_the_first_hint() -> None:
    lesson = any_course().lesson("block_tile")
    stub = lesson.stub_path.read_text()
    conflict = counted(CONFLICT.format(width=32))
    hints = hints_for(changed(conflict, verdict=wrong_answer(), source=stub, stub=stub))
    line = next(i for i, text in enumerate(stub.splitlines(), 1) if "TODO(1)" in text)
    assert hints[0].startswith(f"TODO(1) in line {line} is still open ({len(lesson.todos)} are open). ")
    assert lesson.todos[0].hints[0] in hints[0]
    solution = lesson.solution_path.read_text()
    assert "TODO" not in "".join(hints_for(changed(conflict, verdict=wrong_answer(), source=solution, stub=stub)))


@pytest.mark.parametrize("name", any_course().names)
def test_every_todo_of_every_stub_is_open_and_of_no_solution(name: str) -> None:
    lesson = any_course().lesson(name)
    stub = lesson.stub_path.read_text()
    assert set(open_todos(stub, Stub.of(stub))) == {todo.number for todo in lesson.todos}
    assert open_todos(lesson.solution_path.read_text(), Stub.of(stub)) == {}


def test_nobody_is_flooded() -> None:
    many = [Finding(kind, "error", line=1) for kind in KINDS]
    assert len(hints_for(facts(findings=many))) == SHOWN


def test_nothing_to_say() -> None:
    assert hints_for(facts(counters=Counters())) == ()


def test_todos_between_the_same_lines_are_not_one_step() -> None:
    """Two functions of one TODO each have the same lines around it."""
    stub = "void f()\n{\n    // TODO(1): one\n}\nvoid g()\n{\n    // TODO(2): two\n}\n"
    assert open_todos(stub, Stub.of(stub)) == {1: 3, 2: 7}
    assert open_todos(stub.replace("two\n", "two\n    h();\n"), Stub.of(stub)) == {1: 3}
    assert open_todos(stub.replace("one\n", "one\n    h();\n"), Stub.of(stub)) == {2: 8}


def test_a_gate_on_wavefronts_names_the_line_that_loses_most() -> None:
    gate = GateResult("w", "w", 2.0, 1.0, True, False, "Why.", "shared_wavefronts / shared_wavefronts_ideal")
    metric = METRICS["shared_wavefronts"]
    lines = (LineCount(1, metric, 10, 10), LineCount(2, metric, 40, 10), LineCount(3, metric, 60, 50))
    source = "pad\ncopy\nload\n"

    def hint(gate: GateResult, lines: tuple[LineCount, ...]) -> str:
        return said(source=source, verdict=GateMissed((gate,)), counters=Counters(lines=lines))

    assert "Why. Most is lost in line 2 [copy]: 40 wavefronts, where 10 would be ideal." in hint(gate, lines)
    assert "Most is lost" not in hint(gate, lines[:1]), "nothing is lost"
    assert "Most is lost" not in hint(replace(gate, expression="barriers"), lines), "of something else"
