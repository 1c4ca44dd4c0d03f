"""The timeline shows the estimate's simulation: the same clocks, each in one state, each wait at its line."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from checks.estimate.test_timeline import FREE, H200, ffma, instruction, lds, shared
from checks.estimate.test_timeline import trace as traced
from gemm_lessons.engine.estimate.recording import StateSpan, record
from gemm_lessons.engine.estimate.timeline import play
from gemm_lessons.engine.pictures.timeline import WIDE, timeline_of, trace_file
from gemm_lessons.engine.sass.operands import decode
from gemm_lessons.engine.sass.trace import Traffic
from gemm_lessons.view import Side

LDG = ("LDG.E R2, [R4.64]", replace(FREE, sets=1), Traffic("global", True, 1, 1, (7,)))
USE = ("FADD R3, R2, R2", replace(FREE, waits=(1,)), None)
BAR = ("BAR.SYNC.DEFER_BLOCKING 0x0", FREE, None)


def spans(lines, warps: int = 1) -> list[StateSpan]:
    return [span for span in record(traced(lines, warps), 1, H200).spans if span.warp == 0]


def test_a_wait_names_what_it_waits_for() -> None:
    found = spans([LDG, *ffma(3), USE])
    (wait,) = [span for span in found if span.state == "global"]
    assert (wait.place, wait.cause) == (4, 0)
    assert wait.end - wait.start > 250, "L2 is that far away"
    assert [span.state for span in found if span.end <= wait.start].count("issue") == 2, "a load, a run of FFMA"


def test_shared_memory_and_fixed_latencies() -> None:
    found = spans([lds(shared(4)), *ffma(1, stall=4), ("FADD R3, R8, R8", replace(FREE, waits=(0,)), None)])
    states = [span.state for span in found]
    assert states == ["issue", "issue", "fixed", "shared", "issue"]


def test_a_barrier_waits_for_the_last_warp() -> None:
    recording = record(traced([*ffma(40, stall=4), BAR, *ffma(1)], warps=2), 1, H200)
    waits = [span for span in recording.spans if span.state == "barrier"]
    assert len(waits) == 2
    assert {span.place for span in waits} == {40}
    assert len({span.end for span in waits}) == 1


def test_a_full_pipe_is_arithmetic_and_a_full_queue_is_memory() -> None:
    assert "math" in {span.state for span in record(traced(ffma(64), warps=16), 1, H200).spans}
    many = [lds(shared(32), sets=None)] * 30
    assert "queue" in {span.state for span in spans(many)}


def test_a_play_is_the_estimate_s(clean: Side) -> None:
    recording = clean.recording
    profile = clean.row.speed.estimator.profiles[0]
    assert recording
    trace = next(trace for k, trace in profile.traces if clean.played.endswith(f"x{k}"))
    assert recording.clocks == play(trace, profile.blocks_per_sm, H200).clocks
    issued = [span for span in recording.spans if span.state == "issue"]
    assert sum(span.end - span.start for span in issued) == sum(len(warp) for warp in trace.warps[: recording.warps])
    for warp in range(recording.warps):
        mine = [span for span in recording.spans if span.warp == warp]
        assert mine[0].start == 0
        assert all(before.end == after.start for before, after in itertools.pairwise(mine))


def test_strips_keep_the_time(clean: Side) -> None:
    drawn, recording = clean.timeline, clean.recording
    assert drawn
    assert recording
    assert len(drawn.strips) == recording.warps
    assert sum(drawn.shares.values()) == pytest.approx(1)
    for warp, strip in enumerate(drawn.strips):
        end = max(span.end for span in recording.spans if span.warp == warp)
        assert 0 <= sum(stretch.ticks for stretch in strip) * drawn.tick - end <= drawn.tick
    at_lines = sum(sum(of_line.clocks.values()) for of_line in drawn.stalls)
    assert at_lines == pytest.approx(sum(span.end - span.start for span in recording.spans))
    used = sum(drawn.issued) / 100 * drawn.clocks / WIDE * drawn.schedulers
    assert used == pytest.approx(drawn.shares["issue"] * at_lines, rel=0.02)
    barrier = max(drawn.stalls, key=lambda it: it.clocks.get("barrier", 0))
    assert "__syncthreads" in clean.row.source_line(barrier.line)


def test_instructions_of_headers_have_no_line() -> None:
    code = [decode(0, replace(instruction(0, "FADD R3, R2, R2"), file="matrix.cuh", line=7))]
    recording = replace(record(traced(ffma(1)), 1, H200), code=tuple(code))
    drawn = timeline_of(recording, H200, "kernel.cu", {})
    assert [it.line for it in drawn.stalls] == [0]


def test_a_trace_that_viewers_open(clean: Side) -> None:
    row, recording, drawn = clean.row, clean.recording, clean.timeline
    assert drawn
    assert recording
    file = json.loads(trace_file(recording, drawn, row.path, row.source, row.label, "2048"))
    events = file["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "b", "e", "C"}
    threads = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert len(threads) == recording.warps
    slices = [event for event in events if event["ph"] == "X"]
    assert {(event["pid"], event["tid"]) for event in slices} == threads
    assert all(event["dur"] > 0 for event in slices)
    assert max(event["ts"] + event["dur"] for event in slices) * 1e3 == pytest.approx(
        max(span.end for span in recording.spans)
    )
    flights = {kind: [event["id"] for event in events if event["ph"] == kind] for kind in "be"}
    assert flights["b"] == flights["e"] == list(range(len(recording.flights)))
    waits = [event for event in slices if event["name"] == "waits for global memory"]
    assert any("float4_at" in event["args"]["waits for"] for event in waits)
