"""Which remedy a finding gets, and which findings are one: what else is known decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checks.judgement.cases import judged, problem
from checks.judgement.findings import access, race
from checks.judgement.mistakes import lesson_named
from checks.judgement.test_hints import changed
from gemm_lessons.engine.compiler.compile import Resources
from gemm_lessons.engine.process.bounds import Starved
from gemm_lessons.engine.records.facts import Actor, InFlight, Location, Quoted
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.metrics import METRICS
from gemm_lessons.engine.records.results import Counters
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.advice import advice
from gemm_lessons.judging.evidence import Evidence, ShapeResult
from gemm_lessons.judging.pattern import Pattern
from gemm_lessons.judging.remedies import remedies, restated
from gemm_lessons.judging.verdict import Faulted, Judgement, WrongAnswer
from gemm_lessons.running.checking import of_one_barrier

WHOLE, RAGGED = Shape(96, 64, 80), Shape(33, 31, 29)


def said(lesson: str, *findings: Finding, **changes: Any) -> list[str]:
    error = next((it for it in findings if it.severity == "error"), None)
    changes.setdefault("verdict", Faulted(changes.pop("at", WHOLE), error or Finding("race", "error")))
    facts = changed(Evidence(lesson_named(lesson), changes.pop("source", "")), findings=findings, **changes)
    return [text for _, text in remedies(facts)]


UNINITIALISED = access("uninitialised", "As", 256, 8192, line=9, thread=32)


def test_a_race_within_one_line_is_no_missing_barrier() -> None:
    (text,) = said("block_tile", race(5, 5), UNINITIALISED)
    assert "Several threads, such as 0 and 9, store to the same element of As in line 5" in text
    assert "A barrier does not fix that" in text
    assert "put a __syncthreads()" in "".join(said("block_tile", race(5, 6)))
    note = race(5, 5, severity="note")
    (text,) = said("block_tile", note, UNINITIALISED)
    assert text.startswith("line 9: uninitialised. Several threads")


def test_a_barrier_that_some_skip_is_not_said_to_be_missing() -> None:
    skipped = Finding("divergent_barrier", "warning", "places", 9, 7)
    (text,) = said("block_tile", race(5, 6), skipped)
    assert "that in line 9 or that in line 7 is inside an if" in text
    assert "put a __syncthreads() between" in said("block_tile", race(5, 6))[0]
    (text,) = said("block_tile", replace(skipped, other_line=None))
    assert text.endswith("move it out of the if.")


BARRIER_IN_AN_IF = "for (;;) {\n    if (row < M)\n        __syncthreads();\n    __syncthreads();\n}"


def test_threads_that_end_without_a_barrier_in_an_if_have_not_returned_early() -> None:
    ended = Finding("exited_before_barrier", "warning", "", 3)
    (text,) = said("block_tile", race(5, 6), ended, source=BARRIER_IN_AN_IF)
    assert text.endswith("move it out of the if.")
    texts = said("block_tile", race(5, 6), replace(ended, line=4), source=BARRIER_IN_AN_IF)
    assert any("no return before a __syncthreads()" in text for text in texts)
    assert any("put a __syncthreads() between" in text for text in texts)
    diverged = Finding("divergent_barrier", "error", "places", 4, 3)
    (text,) = said("block_tile", race(5, 6), diverged, ended, source=BARRIER_IN_AN_IF)
    assert "that in line 3 is inside an if" in text


STAGE = Finding("async_in_flight", "error", "waited too little", 5, 6, facts=InFlight(0))


@pytest.mark.parametrize(("wrong", "most", "named"), [(4, 0, True), (0, 0, False), (4, 1, False)])
def test_a_stage_is_wrong_where_no_wait_makes_c_right(wrong: int, most: int, named: bool) -> None:
    found = replace(STAGE, facts=InFlight(most))
    shapes = (ShapeResult(WHOLE, "faulted", Judgement(wrong, 9, 1.0, 0.1), (found,)),)
    (text,) = said("async_copy", found, shapes=shapes)
    assert ("the stage is the wrong one" in text) == named
    facts = changed(
        Evidence(lesson_named("async_copy"), source=""), findings=(found,), shapes=shapes, verdict=Faulted(WHOLE, found)
    )
    told = restated(facts)
    assert isinstance(told.verdict, Faulted)
    assert told.verdict.finding == told.findings[0]
    assert told.findings[0].case == ("wrong place" if named else found.case)


def test_a_busy_machine_is_no_loop_without_end() -> None:
    finding = Finding("timeout", "error", "starved", line=7, facts=Quoted(Starved(40, 5).text))
    (busy,) = said("block_tile", finding)
    (endless,) = said("block_tile", replace(finding, case="bounds"))
    assert "This says nothing about your kernel." in busy
    assert "loop" not in busy
    assert "Is a loop endless, or does it only take long?" in endless


@pytest.mark.parametrize("line", ["acc += As[k][thread_row] * x;", "acc += As[thread_row][k] * x;"])
def test_indices_in_the_wrong_order_are_named(line: str) -> None:
    source = f"__shared__ float As[BM][BK];\n{line}"
    (text,) = said("block_tile", access("out_of_array", "As", 8192, 8192, line=2), source=source)
    assert ("has the row first, then k" in text) == line.startswith("acc += As[k]")


def test_nan_has_the_suspects_that_are_left() -> None:
    def sentence(*gaps: tuple[str, ...], scratch: tuple[str, ...] = ("P",), findings: tuple[Finding, ...] = ()) -> str:
        patterns = [Pattern("nan", "of {count}", {"count": 4, "scratch": scratch, "gaps": it}) for it in gaps]
        judged = [Judgement(4, 4, 1.0, 0.1, pattern=it) for it in patterns]
        shapes = tuple(ShapeResult(WHOLE, "wrong_answer", it) for it in judged)
        facts = changed(
            Evidence(lesson_named("split_k"), source=""),
            verdict=WrongAnswer(WHOLE, judged[0]),
            shapes=shapes,
            findings=findings,
            counters=Counters({}),
        )
        verdict = restated(facts).verdict
        assert isinstance(verdict, WrongAnswer)
        return verdict.judgement.pattern.text

    assert "the sum read P where no thread stored the value, in an earlier launch" in sentence(("A",), ())
    assert "is a row, a column or k too large" in sentence(("A",), scratch=())
    assert "value, or A past the end of a line" in sentence(("A",))
    assert all(sentence(*gaps).endswith("and where in P it is?") for gaps in ((("A",), ()), (("A",),)))
    assert "So an operation made it: inf - inf, 0 / 0, or bits of two numbers" in sentence((), scratch=())
    assert sentence((), findings=(UNINITIALISED,)) == "of 4"


def test_what_runs_over_the_next_array_is_no_race_of_its_own() -> None:
    ran_over = access("out_of_array", "As", 8192, 8192, line=5)
    hit = race(5, 9, place=Location("shared", "Bs", 4, 8192))
    (text,) = said("block_tile", hit, ran_over)
    assert "Line 5 reads past the end of As, into Bs" in text
    apart = replace(hit, line=7)
    assert len(said("block_tile", apart, ran_over)) == 2
    # Nor does its own sentence recommend a barrier, or that of a race within one line.
    for finding, barrier in ((hit, False), (apart, True), (race(5, 5), False), (race(5, 6), True)):
        verdict = Faulted(WHOLE, finding)
        facts = changed(Evidence(lesson_named("block_tile"), source=""), verdict=verdict, findings=(finding, ran_over))
        told = restated(facts)
        assert isinstance(told.verdict, Faulted)
        assert ("put a barrier" in told.verdict.finding.message) is barrier
        assert told.findings[0] == told.verdict.finding


def test_who_stores_to_others_elements_lacks_no_guard() -> None:
    outside = replace(access("out_of_bounds", "C", 8908, 8908, line=5, thread=544), severity="warning")
    (text,) = said("naive", race(5, 5, "global store store"), outside)
    assert "Every element needs one owner" in text
    assert len(said("naive", race(5, 5, "global store store"), replace(outside, line=6))) == 2


def test_a_row_of_the_matrix_may_stand_in_an_index_of_the_tile() -> None:
    elsewhere = access("out_of_bounds", "As", 16384, 8192, line=40, block=(0, 2))
    assert "not 0 in block (0, 2)" in said("block_tile", elsewhere)[0]
    first = access("out_of_bounds", "As", 16384, 8192, line=40, block=(0, 0))
    assert "holds one tile at a time" not in said("block_tile", first)[0]
    below = access("out_of_bounds", "As", -4, 8192, line=40, block=(0, 2))
    assert "The index is below 0 there" in said("block_tile", below)[0]
    matrix = access("out_of_bounds", "A", 16384, 8192, line=40, block=(0, 2))
    assert "holds one tile at a time" not in said("block_tile", matrix)[0]


def test_where_the_tile_starts_is_no_index_of_the_tile() -> None:
    over = access("out_of_array", "As", 4096, 4096, line=1, thread=240, block=(0, 1))
    for index in ("[row][k0 + k]", "[row][k0]", "[k + k0]"):
        (text,) = said("vector_loads", over, source=f"x = As{index};")
        assert text.endswith("Leave k0 out of this index.")
    for line in ("x = As[k0 / BK % 2][k];", "As[row][k] = a(row, k0 + k);"):
        assert "Leave k0" not in said("vector_loads", over, source=line)[0]


def test_an_array_of_each_thread_may_want_to_be_shared() -> None:
    own = replace(UNINITIALISED, case="local", place=Location("local", "", 4))
    (text,) = said("block_tile", own)
    assert "declare it __shared__" in text
    assert "__shared__" not in said("block_tile", UNINITIALISED)[0]


def test_c_is_not_to_be_added_to() -> None:
    read = replace(access("uninitialised", "C", 0, 24576, line=9), severity="error")
    (text,) = said("block_tile", read)
    assert "instead of adding to it (+=)" in text
    assert "copy" not in text
    assert "syncthreads" not in text


def test_zeros_are_missing_where_only_ragged_shapes_are_wrong() -> None:
    tile, wrong = Shape(32, 32, 64), ShapeResult(RAGGED, "wrong_answer", None, (UNINITIALISED,))
    right = ShapeResult(tile, "passed")
    (text,) = said("block_tile", UNINITIALISED, shapes=(right, wrong))
    assert "Store 0 for elements outside the matrix" in text
    for shapes in ((wrong,), (ShapeResult(tile, "wrong_answer"), wrong), (ShapeResult(RAGGED, "passed"), wrong)):
        (text,) = said("block_tile", UNINITIALISED, shapes=shapes)
        assert advice("kinds")["uninitialised"] in text


def test_a_barrier_for_every_tile_means_the_wrong_buffer() -> None:
    two = Resources(64, 2 * (64 + 128) * 8 * 4, 0, 0)
    clash = race(5, 9, "shared store load")

    def told(barriers: int, **more: Any) -> str:
        counters = Counters({METRICS["barriers"]: barriers})
        values = {"counters": counters, "resources": two, "counted": Shape(256, 256, 64), **more}
        return "\n".join(said("double_buffer", clash, UNINITIALISED, **values))

    assert "the buffer is the wrong one" in told(8)
    assert "uninitialised" not in told(8)
    assert "is missing between the write" in told(1)
    assert "is missing between the write" in told(8, resources=replace(two, shared_bytes=two.shared_bytes // 2))
    loop = "\n\n\nfor (int k0 = 0; k0 < K; k0 += BK)\n    turn(k0);\n"
    assert "the buffer is the wrong one" in told(8, source=f"\n\n\n\n\n{loop}")
    assert "is missing between the write" in told(8, source=loop), "the sums are stored there after the main loop"
    met = told(8, source=f'{loop}asm volatile("bar.sync 1, 64;");')
    assert "the numbered one of this kernel (bar.sync)" in met


def test_past_k_the_loop_is_to_blame_and_no_guard() -> None:
    beyond = access("out_of_bounds", "B", 20480, 20480, line=3)
    assert "the loop over k first (k < K)" in "".join(said("naive", beyond))
    assert "Guard the access" in "".join(said("naive", beyond, at=RAGGED))
    assert "Guard the access" in "".join(said("block_tile", beyond)), "K = 80 is not a whole number of tiles"
    assert "the loop over k0 first (k0 < K)" in "".join(said("thread_tile", beyond, at=Shape(128, 128, 8)))
    shared = access("out_of_bounds", "Bs", 8192, 8192, line=3)
    source = "__shared__ float As[BM][BK];\n__shared__ float Bs[BK][BN];"
    assert "Bs[BK][BN] is the block's own" in "".join(said("block_tile", shared, source=source))


def test_a_bound_that_the_answer_shows_needs_no_guard() -> None:
    it = problem(48, 20, 24)
    a, b = it.factors
    short = WrongAnswer(it.shape, judged(it, a[:, :20] @ b[:20]))
    beyond = access("out_of_bounds", "B", 20480, 20480, line=3)
    (text,) = said("naive", beyond, verdict=short)
    assert "a guard would only hide it" in text


def test_a_lane_is_no_thread() -> None:
    outside = access("out_of_bounds", "C", 8, 8, line=9, thread=64)
    wrong = "const int lane = threadIdx.x;"
    (text,) = said("warp_tile", UNINITIALISED, outside, race(5, 6), source=wrong, at=Shape(64, 128, 8))
    assert text.startswith("line 9: out of bounds.")
    assert "threadIdx.x % 32" in text
    right = said("warp_tile", outside, source=wrong.replace(";", " % 32;"), at=Shape(64, 128, 8))
    assert "lane" not in "".join(right)


def test_what_a_local_array_does_in_a_line_is_said_once() -> None:
    local = Location("local", "acc", 256, 256)
    past = replace(access("out_of_array", "acc", 256, 256, line=5), severity="error", case="own", place=local)
    (text,) = said("thread_tile", past, race(5, 5, "global store store"))
    assert "A thread's own array is too short" in text
    assert len(said("thread_tile", past, race(6, 6, "global store store"))) == 2
    another = replace(past, place=replace(local, array="b_frag"))
    assert said("thread_tile", past, another) == said("thread_tile", past), "two arrays in one line, none left out"


def test_races_of_one_barrier_are_one_finding() -> None:
    first = [race(44, 62, "shared store load"), race(45, 62, "shared store load"), race(50, 58, "shared store load")]
    (one,) = of_one_barrier(first)
    assert one.message.endswith("The same barrier is missing between lines 45 and 62, 50 and 58")
    assert (one.line, one.other_line, one.count) == (44, 62, 3)
    back = [race(62, 44, "shared load store"), race(58, 50, "shared load store")]
    assert len(of_one_barrier(back)) == 1
    assert len(of_one_barrier([*first, *back])) == 2, "one barrier is missing before, another behind the loop's body"
    (round_again,) = of_one_barrier([*first[::2], *back])  # in the next iteration the same lines the other way round
    assert round_again.also == ((50, 58),)


def test_other_findings_stay_apart() -> None:
    pairs = [race(5, 9, "shared store load"), race(10, 12, "shared store load")]
    assert len(of_one_barrier(pairs)) == 2, "a barrier between 5 and 9 does not stand between 10 and 12"
    alike = [race(5, 5), race(6, 6)]
    assert of_one_barrier(alike) == tuple(alike)
    different = [race(5, 9, "shared store load"), race(6, 9, "global store load")]
    assert len(of_one_barrier(different)) == 2
    assert of_one_barrier([UNINITIALISED, UNINITIALISED]) == (UNINITIALISED, UNINITIALISED)


def test_an_atomic_needs_a_c_that_is_zero() -> None:
    read = access("uninitialised", "C", 0, 8192, line=1)
    (text,) = said("split_k", read, source="atomic_add<WIDTH_C>(c(row, col), acc[i][j]);")
    assert "set it to 0 in an earlier launch" in text
    (text,) = said("split_k", read, source="c(row, col) += acc[i][j];")
    assert "store the sum (=)" in text


def test_two_tiles_an_iteration_have_two_bounds() -> None:
    beyond = access("out_of_bounds", "A", 8192, 8192, line=1)
    second = "k0 + BK < K for the second tile of an iteration"
    at = Shape(128, 128, 8)
    assert second in "".join(said("thread_tile", beyond, at=at, source="for (; k0 < K; k0 += 2 * BK) {"))
    assert second not in "".join(said("thread_tile", beyond, at=at, source="for (; k0 < K; k0 += BK) {"))


def test_a_given_line_gets_its_values_from_elsewhere() -> None:
    beyond, given = access("out_of_bounds", "A", 8192, 8192, line=1), "as the stub has it"
    line = "next[r] = there ? floats_at<WIDTH>(from) : Floats<WIDTH>{};"
    assert given in "".join(said("any_shape", beyond, at=RAGGED, source=line, stub=f"    {line}"))
    assert given not in "".join(said("any_shape", beyond, at=RAGGED, source="next[r] = from;", stub=f"    {line}"))


def test_a_wide_access_of_the_stub_starts_where_the_learners_lines_say() -> None:
    line, clamped = "next[r] = floats_at<WIDTH>(from);", "row = min(row, rows - 1);"
    actor = Actor((3,), (0,), 1, "load", 8)
    finding = Finding("misaligned", "error", line=1, place=Location("global", "A", 276, 9000), actors=(actor,))
    given, stop = "multiple of 2. Do your lines count in steps of 2?", "must stop 2 before the end, not 1"
    for source, stub, told in (
        (f"{line}\n{clamped}", line, [given, stop]),
        (f"{line}\n{clamped}", f"{line}\n{clamped}", [given]),
        (f"{line}\n{clamped}", "next[r] = from;", []),
    ):
        (text,) = said("any_shape", finding, at=RAGGED, source=source, stub=stub)
        assert [it for it in (given, stop) if it in text] == told
