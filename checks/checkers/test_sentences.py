"""What findings say: their data in words, where no kernel of the other tests comes by."""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from gemm_lessons.devices.gpu import trouble
from gemm_lessons.engine.process.bounds import Starved
from gemm_lessons.engine.records.facts import (
    Actor,
    ArrivedAgain,
    AtBarrier,
    AtMbarrier,
    Came,
    Cause,
    DescriptorFix,
    Details,
    Elements,
    Endless,
    Hang,
    Location,
    Mbarrier,
    MbarrierMisuse,
    Missed,
    Missing,
    Misuse,
    OfMbarrier,
    PartOfK,
    PastAll,
    PastEnd,
    Quoted,
    Race,
    Refusal,
    Refused,
    RegisterCause,
    Stopped,
    Threads,
)
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.report import sentences
from gemm_lessons.gemm.problem import Overwritten, RowOverrun
from gemm_lessons.running.measuring import Overran

ONE, OTHER = Actor((3, 1), (0,), 9, "store", 4), Actor((0, 2), (0,), 12, "load", 4)
AS = Location("shared", "As", 64, 4096)


def finding(kind: str, case: str = "", *actors: Actor, **more: Any) -> Finding:
    return Finding(kind, "error", case, actors=actors, **more)


def refused(case: str, value: int = 0, limit: int = 0, **more: Any) -> Finding:
    return finding("launch_failed", "refused", facts=Refused((Refusal(f"refused {case}", value, limit, **more),)))


def missed(place: Location, case: str = "array", others: int | None = None, window: int | None = None) -> str:
    return finding("out_of_bounds", case, replace(ONE, width=16), place=place, facts=Missed(others, window)).message


BOTH_WRITE = finding("race", "shared order", ONE, replace(OTHER, effect="store"), place=AS, facts=Race(True))
FULL = Mbarrier("full", 1)
WAITING = (Missing, AtBarrier, AtMbarrier, Cause, RegisterCause, Came, Threads)
HANGING = Threads("threads one", 1, (3, 1), (3, 1), (0,))
SAID = {
    "As, byte 64 of 4096: written by thread (3, 1) in line 9 and read by thread (0, 2) in line 12 of block 0, with no"
    " __syncwarp() between them; threads of one warp need not run in step, so put __syncwarp() between the two": (
        finding("race", "shared warp", ONE, OTHER, place=AS, facts=Race())
    ),
    "As, byte 64 of 4096: written by thread (3, 1) in line 9 and written by thread (0, 2) in line 12 of block 0, with"
    " no __syncthreads() between them; all of them store the same value (line 9 is of a.cuh, line 12 of k.cu)": replace(
        BOTH_WRITE, line=9, other_line=12, file="/x/a.cuh", other_file="/x/k.cu"
    ),
    "global address 0xff: updated by thread 1 of block (0, 2) in an unknown line and read asynchronously by thread"
    " (0, 2) of block 0 in line 12, threads of one warp with no __syncwarp() between them": finding(
        "race",
        "global warp",
        Actor((1,), (0, 2), None, "atomic", 4),
        replace(OTHER, effect="copy"),
        place=Location("global", "", 255),
        facts=Race(),
    ),
    "shared memory, byte 8: overwritten by thread (0, 2) of block 0 in line 12, which has not seen the bulk copy of"
    " thread (3, 1) by cp.async arrive: every thread that accesses the bytes must first see the end of their phase of"
    " the mbarrier at byte 40 of shared memory, or synchronise with a thread that has": finding(
        "async_in_flight",
        "reported load",
        ONE,
        replace(OTHER, effect="atomic"),
        place=Location("shared", "", 8),
        facts=OfMbarrier(Mbarrier(byte=40)),
    ),
    "no mbarrier.expect_tx announces the copies for the mbarrier full[1] (4,096 arrived by copies of line 9). Thread"
    " (3, 1) of block 0 waits in line 8 for the end of phase 2 of the mbarrier full[1], which still needs 1 of 4"
    " arrivals (3 came in line 7) and mbarrier.expect_tx for 4,096 bytes that arrived; and 2 more waits; no"
    " running thread can arrive": finding(
        "deadlock",
        "hang",
        replace(ONE, line=None),
        facts=Hang(
            (
                AtMbarrier(
                    "waiting mbarrier",
                    HANGING,
                    FULL,
                    2,
                    (
                        Missing("missing arrivals", 1, 4, (Came("came arrived", 3, 7),)),
                        Missing("missing expect_tx", 4096),
                    ),
                    8,
                ),
            ),
            Cause("cause no expect_tx", FULL, HANGING, 2, 9, (Came("came reported", 4096, 9),)),
            2,
        ),
    ),
    "the mbarrier full[1] gets 1 arrival, but its phase needs 0 more, by thread (3, 1) in block 0 in"
    " line 9 (mbarrier.arrive)": finding(
        "mbarrier", "arrived", ONE, facts=MbarrierMisuse(FULL, "mbarrier.arrive", 1, 0)
    ),
    "line 9 arrives at the mbarrier full[1] in phase 2, in which the same thread has arrived in line 7: let it wait"
    " first until the stage is free. The mbarrier full[1] gets 1 arrival, but its phase needs 0 more, by thread (3, 1)"
    " in block 0 in line 9 (mbarrier.arrive)": finding(
        "mbarrier",
        "arrived",
        ONE,
        facts=MbarrierMisuse(FULL, "mbarrier.arrive", 1, 0, ArrivedAgain("arrived again", FULL, 2, 9, 7)),
    ),
    "the mbarrier was overwritten by another store, by thread (3, 1) in block 0 in line 9 (mbarrier.x)": (
        finding("mbarrier", "overwritten", ONE, facts=MbarrierMisuse(Mbarrier(), "mbarrier.x"))
    ),
    "thread (3, 1) in block 0 and 1 more thread wait in a loop for something that no thread will do: a lock that"
    " is not released, or a flag that is not set": finding("timeout", "loop", ONE, facts=Endless(others=1)),
    "thread (3, 1) in block 0 waits in a loop for something that no thread will do: a lock that is not released,"
    " or a flag that is not set": finding("timeout", "loop", ONE, facts=Endless()),
    "still running after 500 instructions (first: thread (3, 1) in block 0): the condition of the loop in line 7"
    " compares the same values in each iteration": finding("timeout", "same values", ONE, line=7, facts=Endless(500)),
    "still running after 500 instructions (first: thread (3, 1) in block 0): once entered, the loop around line 7"
    " never ends": finding("timeout", "no exit", ONE, line=7, facts=Endless(500)),
    "still running after 500 instructions (first: thread (3, 1) in block 0), in the loop around lines 7 to 9": finding(
        "timeout", "in a loop", ONE, line=7, facts=Endless(500, last_line=9)
    ),
    "the run took longer than 3 s and was stopped, in line 7; more: --timeout": finding(
        "timeout", "bounds", line=7, facts=Quoted("the run took longer than 3 s and was stopped", "; more: --timeout")
    ),
    "the run was stopped after 12 s: the machine is busy, and gave it 1.0 s of processor time, in line 7": finding(
        "timeout", "starved", line=7, facts=Quoted(Starved(12, 1).text)
    ),
    "the kernel stopped itself (trap) in thread (3, 1) in block 0: f: why": finding(
        "trap", "stop", ONE, facts=Stopped("f: why")
    ),
    "cp.async.bulk by thread (3, 1) in block 0: its first coordinate, the column, places the box 4 bytes into a row of"
    " T, which is not a multiple of 16": finding("misaligned", "box", ONE, facts=Misuse("cp.async.bulk", "T", 4, 16)),
    "a or b: byte 96 of 96 of all, 4 bytes written by thread (3, 1) in block 0, line 9: just past its end; 3 more"
    " threads likewise": finding(
        "out_of_array",
        "one of several",
        ONE,
        place=Location("local", "", 96, 96),
        facts=PastAll(3, candidates=("a", "b")),
    ),
    "a thread's own array: byte -4 of 16, written by thread (3, 1) of block 0 in line 9, before its start (that is in"
    " another of its arrays)": finding(
        "out_of_array", "local", ONE, place=Location("local", "", -4, 16), facts=PastEnd()
    ),
    "a GPU refuses this launch: clusters of 2 x 1 x 1 blocks, but the kernel is compiled for 4 x 1 x 1": refused(
        "cluster", sizes=(2, 1, 1), wanted=(4, 1, 1)
    ),
    "a GPU refuses this launch: clusters, which sm_80 does not support (sm_90 or newer does)": refused(
        "cluster arch", limit=90, arch="sm_80"
    ),
    "a GPU refuses this launch: clusters of 16 blocks, at most 8": refused("cluster size", 16, 8),
    "a GPU refuses this launch: a grid of 3 x 1 x 1 blocks cannot be cut into clusters of 2 x 1 x 1": refused(
        "cluster grid", sizes=(3, 1, 1), wanted=(2, 1, 1)
    ),
    "the kernel changed its input A: 1 element, first A[3, 4]. Only C may be written.": finding(
        "input_overwritten", facts=Overwritten("A", 1, (3, 4), "C")
    ),
    "the kernel stores to its input A, and leaves each number as it was: another block may read it in between. Only C"
    " may be written.": finding("input_overwritten", "restored", facts=Overwritten("A", 0, (), "C")),
    "the kernel wrote B beyond the end of a column: 2 elements, first column 5, row 33 of 32. Columns are ldb = 36"
    " apart, only the first 32 belong to B.": finding(
        "row_overrun", "column", facts=RowOverrun("B", 2, 5, 33, 32, 36, "32")
    ),
    "the kernel wrote beyond the ends of C at 8x8x8": finding("out_of_bounds", "measured", facts=Overran("C", "8x8x8")),
    "a load or store was not aligned to its size, CUDA error 716. The GPU cannot say where; --device sim names line,"
    " block and thread.": trouble.fault(716, "", None),
    "the GPU refused the launch of (2048, 1, 1) blocks of (32, 1, 1) threads with 0 bytes of dynamic shared memory:"
    " invalid": trouble.fault(9, "invalid", Grid((2048, 1, 1), (32, 1, 1))),
    "the GPU refused the launch: invalid": trouble.fault(9, "invalid", None),
    "the kernel did not end within 2.5 s; it was stopped": trouble.timeout(2.5),
}


@pytest.mark.parametrize("words", SAID)
def test_findings_say(words: str) -> None:
    assert SAID[words].message == words


def test_how_far_outside_is_said_of_the_array() -> None:
    who = "16 bytes written by thread (3, 1) in block 0, line 9"
    assert (
        missed(Location("shared", "As", 4092, 4096))
        == f"As: byte 4092 of 4096, {who}: its last 12 bytes are past the end"
    )
    assert missed(Location("global", "A", -8, 4096)) == f"A: byte -8 of 4096, {who}: 8 bytes before its start"
    assert missed(Location("global", "A", 4096, 4096)) == f"A: byte 4096 of 4096, {who}: just past its end"
    assert missed(Location("shared", "", 4100, 4096), others=1, window=8192) == (
        f"shared memory: byte 4100 of 4096, {who}: 4 bytes past its end; the block has 8,192 bytes of shared memory"
        "; 1 more thread likewise"
    )
    assert missed(Location("global", "", 16), "null") == (
        f"address 0x10, {who}: not in any buffer, an index into a null pointer"
    )
    local = missed(Location("local", "", 20, 16), "local")
    assert local == f"a thread's own arrays: byte 20 of 16, {who}: 4 bytes past its end"


@pytest.mark.parametrize("code", trouble.FAULTS)
def test_every_fault_of_a_gpu_has_a_sentence(code: int) -> None:
    assert f"CUDA error {code}" in trouble.fault(code, "", None).message


def families(of: type[Any]) -> Iterator[type[Any]]:
    yield of
    for one in of.__subclasses__():
        yield from families(one)


def test_templates_ask_for_what_findings_know() -> None:
    """Each field is one of theirs, a phrase, or another template."""
    parts = (ArrivedAgain, Mbarrier, Location, Elements, DescriptorFix, PartOfK)
    records = (*families(Details), Finding, Refusal, *WAITING, *parts)
    known = {field.name for record in records for field in fields(record)}
    known |= {"first", "other", "across", *sentences.PHRASES, *sentences.templates()}
    text = "".join(
        sentences.OPTIONAL.sub(lambda it: f"{it[1]}{it[2] or ''}", one) for one in sentences.templates().values()
    )
    asked = [(name, spec) for _, name, spec, _ in string.Formatter().parse(text) if name]
    assert len(asked) > 200
    assert {name.partition(".")[0] for name, _ in asked} <= known
    assert {spec for name, spec in asked if name.endswith(".effect")} == set(sentences.VERBS)
