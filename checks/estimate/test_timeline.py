"""The multiprocessor model, by hand: short pieces of machine code whose clocks can be counted on paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean, median
from typing import Any

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.readings import FOLDER
from gemm_lessons.engine.compiler.sass import SassInstruction, width_of
from gemm_lessons.engine.estimate.chip import BETWEEN_US, LAST_US
from gemm_lessons.engine.estimate.items import Step, streams_of, unknown_units
from gemm_lessons.engine.estimate.profile import GPC
from gemm_lessons.engine.estimate.timeline import MainLoop, Multiprocessor, play, play_apart, run
from gemm_lessons.engine.hardware.sheets import GPUS, pipes_of
from gemm_lessons.engine.records.launch import Buffer, Grid, Scalar
from gemm_lessons.engine.sass.operands import Uncountable, decode
from gemm_lessons.engine.sass.registers import conflicts, reads
from gemm_lessons.engine.sass.trace import Control, Signal, Touch, Trace, Traffic, box_of, controls, traceable
from gemm_lessons.engine.simulator import Simulator

H200 = GPUS["h200"]
HOPPER = pipes_of(H200)
FREE = Control(stall=1, sets=None, reads=None, waits=())
Line = tuple[str, Control, Touch | None]


def instruction(index: int, text: str) -> SassInstruction:
    words = text.split()
    opcode = words[1] if words[0].startswith("@") else words[0]
    return SassInstruction(opcode, width_of(opcode), "", None, 16 * index, 0, text)


def trace(lines: Sequence[Line], warps: int = 1, blocks: int = 1) -> Trace:
    """Every warp of every block executes ``lines`` one after the other."""
    code = tuple(decode(index, instruction(index, text)) for index, (text, _, _) in enumerate(lines))
    warp = tuple((index, touch) for index, (_, _, touch) in enumerate(lines))
    return Trace(
        code, tuple(control for _, control, _ in lines), reads(code), (warp,) * (warps * blocks), warps
    )  # fmt: skip


def ffma(count: int, stall: int = 1) -> list[Line]:
    return [("FFMA R4, R2, R2, R5", replace(FREE, stall=stall), None)] * count  # two registers


def lds(touch: Traffic, sets: int | None = 0, opcode: str = "LDS") -> Line:
    return f"{opcode} R8, [R1]", replace(FREE, sets=sets), touch


def shared(passes: int, ideal: int | None = None) -> Traffic:
    return Traffic("shared", True, passes, passes if ideal is None else ideal)


def clocks(lines: Sequence[Line], warps: int = 1, blocks: int = 1, gpu: str = "h200") -> float:
    return play(trace(lines, warps, blocks), blocks, GPUS[gpu]).clocks


def test_a_dependent_chain_takes_its_stalls() -> None:
    assert clocks(ffma(100, stall=4)) == 400
    assert clocks(ffma(100)) == 100


def test_other_warps_fill_the_stalls_until_the_pipe_is_full() -> None:
    assert clocks(ffma(100, stall=4), warps=4) == 400, "one warp a scheduler"
    assert clocks(ffma(100, stall=4), warps=8) == pytest.approx(400, abs=4)
    assert clocks(ffma(100, stall=4), warps=64) == pytest.approx(100 * 16, rel=0.01), "16 warps, one a clock"


def test_half_the_lanes_take_twice_as_long() -> None:
    assert clocks(ffma(96), warps=16, gpu="v100") == pytest.approx(2 * clocks(ffma(96), warps=16), rel=0.02)


def test_operands_in_one_bank_cost_a_clock_and_reuse_saves_it() -> None:
    def three(text: str) -> tuple[int, ...]:
        return conflicts([decode(0, instruction(0, text))])

    assert three("FFMA R10, R2, R4, R6") == (1,)
    assert three("FFMA R10, R2, R4, R7") == (0,)
    assert three("FFMA R10, R2, R2, R6") == (0,), "one register is read once"
    pair = [decode(0, instruction(0, "FFMA R10, R2.reuse, R4, R7")), decode(1, instruction(1, "FFMA R12, R2, R6, R8"))]
    assert conflicts(pair) == (0, 0)
    assert clocks([("FFMA R10, R2, R4, R6", FREE, None)] * 100, warps=4) == pytest.approx(200, abs=2)


@pytest.mark.parametrize(("gpu", "each"), [("h200", 1.5), ("rtx4090", 1.5), ("a100", 2.0), ("v100", 2.0)])
def test_a_third_register_takes_half_a_clock_where_there_is_a_multiply_add_every_clock(gpu: str, each: float) -> None:
    line: Line = ("FFMA R10, R2, R4, R7", FREE, None)
    assert clocks([line] * 100, warps=16, gpu=gpu) == pytest.approx(100 * 4 * each, rel=0.01)
    kept: Line = ("FFMA R10, R2.reuse, R4, R7", FREE, None)
    assert clocks([kept] * 100, warps=16, gpu=gpu) == pytest.approx(100 * 4 * (each - each % 1), rel=0.02)


def test_who_waits_for_a_load_goes_on_when_it_is_there() -> None:
    wait: Line = ("FFMA R4, R8, R8, R5", replace(FREE, waits=(0,)), None)
    assert clocks([lds(shared(1)), wait]) == 1 + HOPPER.shared + 1 == 24, "23 clocks of an LDS, as read"
    assert clocks([lds(shared(4), opcode="LDS.128"), wait]) == 30, "29 of an LDS.128"
    assert clocks([lds(shared(1)), *ffma(60), wait]) == pytest.approx(62, abs=1), "hidden behind arithmetic"


def test_wavefronts_pass_one_by_one_and_the_first_conflicts_of_wide_accesses_more_slowly() -> None:
    def each(passes: int, ideal: int, opcode: str) -> float:
        return clocks([lds(shared(passes, ideal), None, opcode)] * 50, warps=16) / (50 * 16)

    assert each(4, 4, "LDS.128") == pytest.approx(4, rel=0.02)
    assert each(8, 4, "LDS.128") == pytest.approx(8 + 4 * HOPPER.replay, rel=0.02)
    assert each(32, 4, "LDS.128") == pytest.approx(32 + 4 * HOPPER.replay, rel=0.02)
    assert each(32, 1, "LDS") == pytest.approx(32, rel=0.02)


def test_returning_registers_take_the_write_port_of_the_fp32_pipe() -> None:
    """Half a clock each on Hopper, if requests do not exceed the bandwidth of shared memory."""
    mixed = [lds(shared(2), None, "LDS.128"), *ffma(15)] * 30
    assert clocks(mixed, warps=8) == pytest.approx(30 * 2 * (15 + 4 * HOPPER.write_port), rel=0.05)
    assert HOPPER.write_port == HOPPER.register == 0.5
    packed = [mixed[0], *[("IDP.4A.S8.S8 R4, R8, R10, R4", FREE, None)] * 15] * 30
    assert clocks(packed, warps=8) == pytest.approx(30 * 2 * 15 * HOPPER.dot, rel=0.02), "free every second clock"


def test_a_sector_is_fetched_once() -> None:
    wait: Line = ("FFMA R4, R8, R8, R5", replace(FREE, waits=(0,)), None)

    def load(first: int) -> Line:
        return "LDG.E R8, [R2.64]", replace(FREE, sets=0), Traffic("global", True, 1, 1, tuple(range(first, first + 4)))

    once = clocks([load(0), wait])
    assert once == pytest.approx(HOPPER.l2, abs=6)
    assert clocks([load(0), wait, load(0), wait]) == pytest.approx(once + HOPPER.l1, abs=4)
    assert clocks([load(0), wait, load(4), wait]) == pytest.approx(2 * once, abs=4)


def test_lines_and_small_requests_of_the_load_store_unit() -> None:
    def stream(touch: Traffic) -> float:
        return clocks([("LDG.E R8, [R2.64]", FREE, touch)] * 40, warps=16)

    scattered = Traffic("global", True, 32, 32, tuple(range(0, 128, 4)))
    assert stream(scattered) == pytest.approx(40 * 16 * 32, rel=0.05)
    assert stream(Traffic("global", True, 1, 1, (0,))) == pytest.approx(40 * 16 * HOPPER.request, rel=0.1)


def global_load(first: int, count: int, opcode: str = "LDG.E.128", **more: Any) -> Line:
    sectors = tuple(range(first, first + count))
    return f"{opcode} R8, [R2.64]", FREE, Traffic("global", True, 4, 4, sectors, **more)


def test_what_is_fetched_into_l1_is_written_there() -> None:
    """A sector takes a quarter of a clock, while shared memory waits; sectors that are already in L1 take none."""
    reads = [lds(shared(4), None, "LDS.128")] * 40
    fetched = [global_load(16 * i, 16) for i in range(40)]
    again = clocks([*[global_load(0, 16)] * 40, *reads], warps=4)
    assert clocks([*fetched, *reads]) - clocks([*[global_load(0, 16)] * 40, *reads]) == pytest.approx(39 * 4, rel=0.3)
    assert again >= 40 * 4 * (4 + 4), "lines and wavefronts, one by one"


@pytest.mark.parametrize(("lanes", "pad", "written"), [(8, 0, 4), (8, 16, 10), (4, 0, 8), (4, 16, 15)])
def test_a_load_waits_for_copies_past_l1_that_its_scheduler_has_issued(lanes: int, pad: int, written: int) -> None:
    """Read of bursts of 8 copies: all of them pass before the load behind the last one does."""
    read = json.loads((FOLDER / "estimate/copies_h200.json").read_text())["copies"]
    [row] = [it for it in read if (it["lanes"], it["pad"]) == (lanes, pad)]
    touch = Traffic("global", True, 32 // lanes, 32 // lanes, range(16), written=written, past=True)
    burst: list[Line] = [("LDGSTS.E.BYPASS.128 [R8], [R2.64]", replace(FREE, stall=2), touch)] * 8
    waiting: Line = ("FFMA R4, R8, R8, R5", replace(FREE, waits=(0,)), None)
    for warps, (alone, all_copy) in zip((8, 16), row["behind"][1:], strict=True):
        loaded = clocks([*burst, lds(shared(1), 0), waiting], warps=warps)
        assert 0.7 * all_copy <= loaded <= 1.35 * alone


def test_loads_and_copies_past_l1_do_not_hold_each_other_up() -> None:
    """As 16 warps that do both: a copy beside a load of four wavefronts takes as long as the slower of the two."""
    read = json.loads((FOLDER / "estimate/copies_h200.json").read_text())["copies"]
    assert all(
        both <= 1.25 * max(each, 4) + 0.6
        for row in read
        for both, each in zip(row["with_loads"], row["each"], strict=True)
    )
    copies = [global_load(16 * i, 16, "LDGSTS.E.BYPASS.128", written=8, past=True) for i in range(40)]
    loads = [lds(shared(8), None, "LDS.128")] * 40
    both = [it for pair in zip(copies, loads, strict=True) for it in pair]
    assert clocks(both, warps=16) < 1.1 * clocks(loads, warps=16)


def test_copies_past_l1_keep_their_registers_until_l1_has_looked_them_up() -> None:
    """Not until L2 has sent them: the next address is computed in the registers of the previous copy."""
    far = [global_load(16 * i, 16, "LDGSTS.E.BYPASS.128", written=4, past=True) for i in range(40)]
    copies = [(text, replace(FREE, reads=0), touch) for text, _, touch in far]
    waiting: Line = ("FFMA R4, R8, R8, R5", replace(FREE, waits=(0,)), None)
    assert clocks([*copies, waiting]) == pytest.approx(40 * 4, rel=0.1)


def test_copies_past_l1_take_the_latency_of_dram_where_l2_does_not_hold_the_matrices() -> None:
    copy = global_load(0, 16, "LDGSTS.E.BYPASS.128", written=4, past=True)
    waiting: Line = ("FFMA R4, R8, R8, R5", replace(FREE, waits=(0,)), None)
    copied = trace([copy, ("LDGDEPBAR", replace(FREE, sets=0), None), waiting])
    assert play(copied, 1, H200, from_dram=True).clocks == play(copied, 1, H200).clocks + HOPPER.dram


def test_loads_take_the_latency_of_dram_where_no_other_block_hides_it() -> None:
    """A block multiplies while another waits, if both have barriers; the model plays them in step and leaves it out."""
    text, _, touch = global_load(0, 16)
    waits = [(text, replace(FREE, sets=0), touch), ("FFMA R4, R8, R8, R5", replace(FREE, waits=(0,)), None)]
    meets = [*waits, ("BAR.SYNC.DEFER_BLOCKING 0x0", FREE, None)]

    def longer(lines: Sequence[Line], blocks: int) -> float:
        near, far = (play(trace(lines, 4, blocks), blocks, H200, from_dram=it).clocks for it in (False, True))
        return far - near

    assert longer(waits, 1) == longer(meets, 1) == longer(waits, 2) == HOPPER.alone - HOPPER.l2
    assert longer(meets, 2) == 0
    a100 = GPUS["a100"]
    near, far = (play(trace(waits, 4), 1, a100, from_dram=it).clocks for it in (False, True))
    assert far == near, "where it was not read"


def test_blocks_apart_wait_for_their_tiles_in_turn() -> None:
    """One multiplies while another waits for DRAM; in step both would wait at once. Their tiles differ."""

    def of(tiles: int) -> Trace:
        lines: list[Line] = []
        for tile in range(tiles):
            text, _, touch = global_load(16 * tile, 16)
            meet: Line = ("BAR.SYNC.DEFER_BLOCKING 0x0", replace(FREE, waits=(0,), stall=6), None)
            lines += [(text, replace(FREE, sets=0), touch), meet, *ffma(300)]
        return trace(lines, 4, 2)

    def clocks(blocks: int, **also: bool) -> float:
        return play_apart(of(16), of(8), 8, blocks, H200, 1000.0, **also) / 8

    multiplying = 300
    alone, both, near = clocks(1, from_dram=True), clocks(2, from_dram=True), clocks(2)
    assert alone == pytest.approx(multiplying + HOPPER.alone, rel=0.08)
    assert both == pytest.approx(alone, rel=0.1), "the second block costs little"
    assert both < 0.9 * (2 * multiplying + HOPPER.alone), "as long as they would take in step"
    assert 2 * multiplying < near < 0.9 * (2 * multiplying + HOPPER.l2)


def test_a_fence_waits_for_copies_in_flight() -> None:
    touch = Traffic("global", True, 4, 4, range(16), written=4, past=True)
    copy: Line = ("LDGSTS.E.BYPASS.128 [R8], [R2.64]", FREE, touch)
    assert clocks([copy, ("MEMBAR.SC.GPU", FREE, None), *ffma(1)]) > HOPPER.l2
    assert clocks([("MEMBAR.SC.GPU", FREE, None), copy, *ffma(1)]) < HOPPER.l2


@pytest.mark.parametrize("each", [1, 2, 4])
def test_a_volatile_load_brings_its_sectors_from_l2_as_was_read(each: int) -> None:
    read = json.loads((FOLDER / "estimate/volatile_h200.json").read_text())["clocks"]
    found = [it for name, it in read.items() if name.startswith(f"{each} of a line")]
    sectors = [4 * (lane // each) + lane % each for lane in range(32)]
    touch = Traffic("global", True, 32 // each, 32 // each, sectors, strong=True)
    load: Line = ("LDG.E.STRONG.SYS R8, [R2.64]", replace(FREE, sets=0, waits=(0,)), touch)
    made = clocks([load] * 40, warps=32) / (40 * 32 * 32)
    assert made == pytest.approx(median(found), rel=0.2)


def test_what_l1_cannot_hold_of_local_memory_is_read_from_l2() -> None:
    """Loads and stores of 1024 threads that go through 256 to 768 KB, beside an H200, less those that fit."""
    read = json.loads((FOLDER / "estimate/local_h200.json").read_text())["clocks"]
    lines = [("STL [R1], R8", FREE, None), ("LDL R8, [R1]", replace(FREE, sets=0), None)] * 100

    def each(size: int) -> float:
        made = replace(trace(lines, warps=32), local=size)
        return play(made, 1, H200).clocks / (32 * 100)

    assert each(128) == each(0)
    for size in (512, 768):  # bytes of a thread, KB of a block
        more = [read[f"stores and loads, {it} KB, 132 blocks of 1024"] for it in (size, 128)]
        assert each(size) - each(0) == pytest.approx(more[0] - more[1], rel=0.25)


def test_lanes_with_indices_of_their_own_have_lines_of_their_own() -> None:
    source = """extern "C" __global__ void k(float *y, int n)
    {
        float room[8] = {};
        for (int i = 0; i < n; i++)
            room[(i + threadIdx.x) % 8] += i;
        y[threadIdx.x] = room[n % 8];
    }"""
    compiled = must_compile(source)
    arguments = (Buffer("y", np.zeros(32, np.float32)), Scalar("n", np.int32(20)))
    warp = traceable(compiled, Simulator().kernel(compiled)).trace(Grid((1, 1, 1), (32, 1, 1)), arguments, 1).warps[0]
    local = [touch for _, touch in warp if isinstance(touch, Traffic) and touch.space == "local"]
    assert {it.passes for it in local if it.load} == {8, 1}
    assert max(it.written for it in local) == 32


def test_a_store_to_local_memory_takes_l2_as_long_as_was_read() -> None:
    """All of them pass L1: on all multiprocessors a store takes a share of L2, whatever it has room for."""
    read = json.loads((FOLDER / "estimate/local_h200.json").read_text())
    found = [it for name, it in read["clocks"].items() if " 132 blocks" in name]
    each = clocks([("STL [R1], R8", FREE, None)] * 200, warps=8) / (200 * 8)
    assert min(found) < each < max(found)
    assert each == pytest.approx(median(found), rel=0.12)
    assert clocks([("LDL R8, [R1]", replace(FREE, sets=0), None)] * 200, warps=8) / (200 * 8) < each / 3
    counted = read["counted"]
    assert counted["lts__t_sectors_op_write.sum"] >= 4 * counted["smsp__inst_executed_op_local_st.sum"], "every sector"


def elsewhere(once: Trace, turns: int = 1) -> Trace:
    """The trace with stores of which ``turns`` of a warp after the other go to the same sectors, and no others."""

    def at(warp: int, number: int, touch: Touch | None) -> Touch | None:
        if not isinstance(touch, Traffic):
            return touch
        first = 1000 * (len(once.code) * warp + number // turns)
        return replace(touch, sectors=range(first, first + len(touch.sectors)))

    return replace(
        once,
        warps=tuple(
            tuple((number, at(warp, number, touch)) for number, touch in steps) for warp, steps in enumerate(once.warps)
        ),
    )


def stores(lines: int, sectors: int, warps: int, turns: int = 1, *, partial: bool = True) -> float:
    """Clocks of a store of each of so many warps, of which ``turns`` after the other go to the same sectors."""
    touch = Traffic("global", False, lines, lines, range(sectors), partial=partial)
    once = trace([("STG.E [R2.64], R8", FREE, touch)] * 64, warps)
    return play(elsewhere(once, turns), 1, H200).clocks / (64 * warps)


@pytest.mark.parametrize(
    ("name", "lines", "sectors"),
    [
        ("1 x 4 of 4", 32, 32),
        ("1 x 16 of 16", 32, 32),
        ("4 x 4 of 4", 8, 8),
        ("2 x 16 of 16", 16, 16),
        ("8 x 4 of 4", 4, 4),
        ("32 x 4 of 4", 1, 4),
        ("8 x 16 of 16", 4, 16),
    ],
)
def test_stores_take_l2_as_long_as_was_read(name: str, lines: int, sectors: int) -> None:
    """A line takes time besides its sectors, and more where a sector is stored in part."""
    read = json.loads((FOLDER / "estimate/parts_h200.json").read_text())["clocks"]["16 warps"]
    lanes, width = int(name.split()[0]), int(name.split()[-1])
    each = stores(lines, sectors, 16, partial=lanes * width < 32 * sectors // lines)
    assert each == pytest.approx(read[f"stores {name}, fresh, 132 blocks"], rel=0.15)


@pytest.mark.parametrize("warps", [4, 8, 16, 24, 32])
@pytest.mark.parametrize(("width", "turns"), [(4, 4), (8, 2)])
def test_stores_to_the_last_lines_are_merged(warps: int, width: int, turns: int) -> None:
    """All that can be merged is where four warps store."""
    read = json.loads((FOLDER / "estimate/parts_h200.json").read_text())
    name, found = f"stores 8 x 16 of {width}", read["clocks"][f"{warps} warps"]
    fill, fresh = (found[f"{name}, {it}, 132 blocks"] for it in ("fill", "fresh"))
    least = read["clocks"]["4 warps"][f"{name}, fill, 132 blocks"]
    merged = (1 - stores(4, 16, warps, turns) / stores(4, 16, warps)) / (1 - 1 / turns)
    assert merged == pytest.approx(max(fresh - fill, 0) / (fresh - least), abs=0.12)
    if turns == 4 and (counted := read["counted"].get(str(warps))):
        assert counted / 16 == pytest.approx(fill / fresh, abs=0.07), "L1 merges them: L2 gets fewer sectors"


@pytest.mark.parametrize("warps", [4, 8])
def test_pairs_of_stores_to_eight_rows_are_not_merged(warps: int) -> None:
    """As products by mma.sync store their tiles of C."""
    sectors = json.loads((FOLDER / "estimate/lines_h200.json").read_text())["tails"][f"{warps} warps"]
    assert stores(8, 8, warps, 2) / stores(8, 8, warps) == pytest.approx(sectors / 16, abs=0.01)


@pytest.mark.parametrize("lanes", [4, 2, 1])
def test_l1_looks_up_several_lines_of_a_copy_in_a_clock(lanes: int) -> None:
    """As it takes one multiprocessor alone; sectors of single lanes are too many for L2 if all copy. Whole lines that
    are copied again and again come faster than others (copies_h200.json)."""
    found = json.loads((FOLDER / "estimate/lines_h200.json").read_text())["copies"]
    read = [found[f"{lanes} lanes in a line, {warps} warps, 1 blocks"] for warps in (8, 16)]
    count = 32 // lanes
    touch = Traffic("global", True, count, count, range(max(16, count)), written=4, past=True)
    each = play(trace([("LDGSTS.E.BYPASS.128 [R8], [R2.64]", FREE, touch)] * 40, 8), 1, H200).busy["l1"] / (40 * 8)
    assert each == pytest.approx(min(read), rel=0.14)


def test_l2_is_asked_for_a_volatile_sector_each_time() -> None:
    def busy(strong: bool) -> float:
        touch = Traffic("global", True, 1, 1, (1, 2, 3, 4), strong=strong)
        lines: list[Line] = [("LDG.E R8, [R2]", replace(FREE, sets=0), touch)] * 100
        return play(trace(lines, 4), 1, H200).busy["l2"]

    assert busy(True) == pytest.approx(400 * busy(False))


def test_the_latency_of_dram_is_what_was_read_of_copied_tiles() -> None:
    read: dict[str, Any] = json.loads((FOLDER / "estimate/tiles_h200.json").read_text())["clocks"]
    longer = [
        clocks - read[name.replace("from DRAM", "in L2")]
        for name, clocks in read.items()
        if name.startswith("copies at head") and "from DRAM" in name
    ]
    assert H200.tensor_clock_hz is not None
    at_work = [clocks * H200.tensor_clock_hz / H200.clock_hz for clocks in longer]
    assert len(longer) == 6
    assert min(at_work) < HOPPER.dram < max(at_work)


@pytest.mark.parametrize("length", [31, 34, 36, 64])  # KB; 32 fit
def test_a_loop_longer_than_the_instruction_cache_is_fetched_again(length: int) -> None:
    read = json.loads((FOLDER / "estimate/fetching_h200.json").read_text())["clocks"]
    assert fetched(length, 1) == pytest.approx(read[f"{length} KB: 4 warps, in step"]["last"], rel=0.06)


@pytest.mark.parametrize(("name", "behind"), [("in step", 0), ("each 4 16 KB behind", 16), ("each 4 32 KB behind", 32)])
def test_warps_share_code_that_one_of_them_has_fetched_a_while_ago(name: str, behind: int) -> None:
    """A line leaves the cache when both have begun as many bytes as it holds: one is half of them ahead."""
    read = json.loads((FOLDER / "estimate/fetching_h200.json").read_text())["clocks"]
    assert fetched(64, 2, behind) == pytest.approx(read[f"64 KB: 8 warps, {name}"]["last"], rel=0.05)


def fetched(length: int, blocks: int, behind: int = 0) -> float:
    """The clocks of an instruction in a loop of ``length`` KB that begins within a line, in blocks of a warp for each
    scheduler. Each block begins when the one before is so many KB ahead."""
    turns, instructions, before = 6, 1024 * length // 16, 4
    lines = [*ffma(before + instructions - 1), ("@P0 BRA `(.L_x_1)", FREE, None)]
    once = trace(lines, 4, blocks)
    labelled = decode(before, replace(once.code[before].source, labels=(".L_x_1",)))
    code = (*once.code[:before], labelled, *once.code[before + 1 :])
    warps = tuple(warp[before:] * turns for warp in once.warps)
    streams = streams_of(replace(once, code=code, warps=warps), blocks, H200)
    items = [stream.of(warp) for stream, warp in streams]
    part = range(len(items[0]) // turns, len(items[0]) * (turns - 1) // turns)  # without the first turn and the last
    alone = (HOPPER.code_line + HOPPER.code_latency) / 8  # clocks of an instruction
    starts = [block * behind * 64 * alone for block in range(blocks)]
    return run([MainLoop([part] * len(items), starts, items, 4, H200)]).clocks / (turns - 2) / instructions


def test_blocks_move_up_when_their_stores_have_left() -> None:
    store: Line = ("STG.E.128 [R2.64], R8", FREE, Traffic("global", False, 4, 4, tuple(range(16))))
    lines = [*ffma(2000), *[store] * 32]
    both = elsewhere(trace(lines, 4, 2))
    idle = tuple(it[:2000] for it in both.warps[:4])
    apart = replace(both, warps=idle + both.warps[4:])  # the first block stores nothing
    stores = 4 * 32 * (4 * HOPPER.stored_line_ns + 16 * HOPPER.stored_sector_ns) * H200.clock_hz / 1e9

    def takes(of: Trace, waves: int, blocks: int = 2) -> float:
        return play(of, blocks, H200, waves).clocks

    assert takes(both, 2, 1) == pytest.approx(2 * takes(both, 1, 1) + HOPPER.move_up, rel=0.01), "a block alone"
    assert takes(apart, 1) == pytest.approx(2 * 2000 + stores, rel=0.05)
    assert takes(apart, 2) < 2 * takes(apart, 1) - 0.8 * min(2000, stores), "the other multiplies meanwhile"


@pytest.mark.parametrize(("warps", "apart"), [(8, False), (16, True)])
def test_of_many_warps_those_of_the_older_block_go_first(warps: int, apart: bool) -> None:
    """Two blocks at once, as turns_h200.json has them: of four warps a scheduler all take turns, of eight not."""
    read = json.loads((FOLDER / "estimate/turns_h200.json").read_text())["clocks"]
    kinds = ("words", "four words", "words and 64", "two words and 16")
    pairs = [read[f"{kind}: 2 x {warps * 32} threads, {warps // 2} warps a scheduler"] for kind in kinds]
    shares = [first["over"][1] / second["over"][1] for first, second in pairs]
    assert all(share < 0.85 if apart else share > 0.85 for share in shares)
    stream = streams_of(trace([lds(shared(1), None)] * 200), 1, H200)[0][0].items
    played = Multiprocessor([[(item, shared(1)) for item in stream]] * (2 * warps), warps, H200, together=True)
    run([played])
    assert played.over[0] / played.over[1] < 0.85 if apart else played.over[0] / played.over[1] > 0.95


def test_blocks_of_one_launch_begin_one_after_the_other() -> None:
    """As those of turns_h200.json do that have few warps."""
    read = json.loads((FOLDER / "estimate/turns_h200.json").read_text())["clocks"]
    few = [blocks for kind, blocks in read.items() if ": 2 x 256 threads" in kind]
    assert HOPPER.apart == median(second["begun"][0] - first["begun"][0] for first, second in few)
    alone, both = (trace(ffma(2000), blocks=blocks) for blocks in (1, 2))
    assert play(both, 2, H200, together=True).clocks - play(alone, 1, H200).clocks == pytest.approx(HOPPER.apart, abs=2)
    assert play(both, 2, H200).clocks == pytest.approx(play(alone, 1, H200).clocks, abs=2)


def test_a_t4_moves_half_the_bytes_a_clock() -> None:
    loads = [lds(shared(4), None, "LDS.128")] * 50
    assert clocks(loads, warps=16, gpu="t4") == pytest.approx(2 * clocks(loads, warps=16, gpu="v100"), rel=0.02)


def test_a_barrier_waits_for_the_last_warp() -> None:
    barrier: Line = ("BAR.SYNC.DEFER_BLOCKING 0x0", FREE, None)
    for warps in (4, 8, 32):  # as read: 12 clocks and two for each warp
        many = clocks([barrier] * 50, warps=warps) / 50
        assert many == pytest.approx(12 + 2 * warps, abs=1)
    two_blocks = clocks([barrier] * 50, warps=8, blocks=2) / 50
    assert two_blocks == pytest.approx(30, abs=3), "blocks do not wait for each other"


def test_memory_beside_arithmetic_on_pascal_only() -> None:
    mixed = [*ffma(6), ("SHFL.IDX PT, R5, R2, R3, R4", FREE, None)] * 50
    assert clocks(mixed, warps=16, gpu="p100") == pytest.approx(clocks(ffma(300), warps=16, gpu="p100"), rel=0.03)
    assert clocks(mixed, warps=16) == pytest.approx(clocks(ffma(350), warps=16), rel=0.03)


def test_units_without_known_rates_are_named() -> None:
    code = [
        instruction(0, text)
        for text in ("HMMA.16816.F32 R4, R8, R10, R4", "DFMA R2, R4, R6, R2", "HGMMA.64x64x16.F32 R24, gdesc[UR4], R24",
                     "UTMASTG.2D [UR4], [UR8]")
    ]  # fmt: skip
    assert unknown_units([instruction(0, "UBLKCP [UR4], [UR8], UR10")], H200) == {"UBLKCP"}
    assert unknown_units(code, H200) == set()
    assert unknown_units(code[2:], GPUS["a100"]) == {"HGMMA", "UTMASTG"}, "which has none"
    assert unknown_units(code[:2], GPUS["p100"]) == {"HMMA"}, "which has none"


def grouped(columns: int, ends: bool = True, source: str = "gdesc[UR4]") -> Line:
    return f"HGMMA.64x{columns}x16.F32.BF16 R24, {source}, R24{', gsb0' * ends}", FREE, None


def left(groups: int) -> Line:
    return f"WARPGROUP.DEPBAR.LE gsb0, {groups:#x}", FREE, None


def test_products_of_a_warpgroup_go_on_while_its_warps_do_something_else() -> None:
    for columns in (64, 128, 256):
        alone = clocks([grouped(columns), left(0)] * 20, warps=4) / 20
        assert alone == pytest.approx(columns * HOPPER.grouped + HOPPER.grouped_latency, abs=5)
        many = clocks([*[grouped(columns, ends=False)] * 19, grouped(columns), left(0)], warps=4) / 20
        assert many == pytest.approx(columns * HOPPER.grouped + HOPPER.grouped_latency / 20, abs=1)
    beside = clocks([grouped(256), left(1)] * 20, warps=4) / 20
    assert beside == pytest.approx(256 * HOPPER.grouped, abs=4), "the next is there before the last is done"
    covered = [grouped(256), *ffma(50), left(0)]
    assert clocks(covered * 20, warps=4) == pytest.approx(clocks([grouped(256), left(0)] * 20, warps=4), rel=0.02)
    two = clocks([grouped(256), left(0)] * 20, warps=8) / 20
    assert two == pytest.approx(256, abs=5), "while one warpgroup waits, another multiplies"


def test_narrow_products_wait_for_shared_memory_unless_a_is_in_registers() -> None:
    shared, registers = (
        clocks([*[grouped(32, False, source)] * 39, grouped(32, True, source), left(0)], warps=4) / 40
        for source in ("gdesc[UR4]", "R4")
    )
    assert shared == pytest.approx(24, abs=1.5), "64 rows of A and 32 of B, 32 bytes each, over 128 bytes a clock"
    assert registers == pytest.approx(16, abs=1.5)


def test_a_named_barrier_is_for_some_warps() -> None:
    met: Line = ("BAR.SYNC.DEFER_BLOCKING R2, 0x40", FREE, Signal("met", 1, 64))
    passed: Line = ("BAR.ARV R2, 0x40", FREE, Signal("passed", 1, 64))
    both = trace([met, *ffma(300), passed, *ffma(300)], 2)
    code = both.warps[0]
    meets, works, passes = code[:1], code[1:301], code[301:302]
    latency = HOPPER.barrier + 2 * HOPPER.barrier_warp

    def took(*warps: tuple[Step, ...]) -> float:
        return play(replace(both, warps=warps), 1, H200).clocks

    assert took(meets + works, works + passes) == pytest.approx(600 + latency, abs=8)
    assert took(works + meets, passes + works) == pytest.approx(300 + latency, abs=8), "one only arrives and goes on"
    with pytest.raises(Uncountable, match="too few warps"):
        took(meets, works)


def test_a_box_is_stored_while_the_warp_goes_on_until_it_waits() -> None:
    sectors = 1024
    store: Line = ("UTMASTG.2D [UR4], [UR8]", FREE, box_of(sectors, load=False))
    commit: Line = ("UTMACMDFLUSH", replace(FREE, sets=0), None)
    wait: Line = ("DEPBAR.LE SB0, 0x0", FREE, None)
    read = sectors / 4 + HOPPER.shared
    assert clocks([store, commit, *ffma(2500)]) == pytest.approx(2500, abs=20)
    assert clocks([store, commit, wait, *ffma(2500)]) == pytest.approx(read + 2500, abs=20), "read, but not yet stored"


PRODUCTS = {  # machine code -> the PTX whose clocks were read
    "HMMA.16816.F32": "m16n8k16.row.col.f32.f16.f16.f32",
    "HMMA.1688.F32": "m16n8k8.row.col.f32.f16.f16.f32",
    "HMMA.16816.F16": "m16n8k16.row.col.f16.f16.f16.f16",
    "HMMA.1688.F32.TF32": "m16n8k8.row.col.f32.tf32.tf32.f32",
    "HMMA.1684.F32.TF32": "m16n8k4.row.col.f32.tf32.tf32.f32",
    "IMMA.16832.S8.S8": "m16n8k32.row.col.s32.s8.s8.s32",
    "IMMA.16816.S8.S8": "m16n8k16.row.col.s32.s8.s8.s32",
    "DMMA.16x8x4": "m16n8k4.row.col.f64.f64.f64.f64",
    "DMMA.16x8x8": "m16n8k8.row.col.f64.f64.f64.f64",
    "DMMA.16x8x16": "m16n8k16.row.col.f64.f64.f64.f64",
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_take_the_clocks_that_were_read(name: str) -> None:
    """One after the other with the same sums, and many at once."""
    read = json.loads((FOLDER / "estimate/pipes_h200.json").read_text())["clocks"]
    form = f"mma.sync.aligned.{PRODUCTS[name]}"
    many = next(it for it in (f"{form} 8 chains 4 warps", f"{form} 4 chains 4 warps") if it in read)
    board = replace(FREE, sets=0, waits=(0,)) if name.startswith("DMMA") else FREE
    chain: list[Line] = [(f"{name} R8, R40, R44, R8", board, None)]
    apart: list[Line] = [(f"{name} R{8 + 8 * i}, R200, R204, R{8 + 8 * i}", FREE, None) for i in range(8)]
    if name != "DMMA.16x8x16":  # whose result takes 16 clocks longer than the model says
        assert clocks(chain * 101) - clocks(chain) == pytest.approx(100 * read[f"{form} 1 chains 1 warps"], rel=0.03)
    assert clocks(apart * 20, warps=16) / (160 * 4) == pytest.approx(read[many], rel=0.03)


def test_fp64_and_packed_bytes_take_the_clocks_that_were_read() -> None:
    read = json.loads((FOLDER / "estimate/pipes_h200.json").read_text())["clocks"]
    for text, name in (("DFMA R4, R8, R10, R4", "dfma"), ("IDP.4A.S8.S8 R4, R8, R10, R4", "dp4a")):
        each = clocks([(text, FREE, None)] * 200, warps=16) / (200 * 4)
        assert each == pytest.approx(read[f"{name} 8 chains 4 warps"], rel=0.03)


def test_what_ptxas_wrote_into_the_instructions() -> None:
    """A load sets a scoreboard that the instruction with its result waits for; arithmetic waits by its stall."""
    source = """extern "C" __global__ void k(float *p)
    { float x = p[threadIdx.x]; for (int i = 0; i < 8; i++) x = x * x + 1.0f; p[threadIdx.x] = x; }"""
    compiled = must_compile(source, arch="sm_90")
    fields = controls(compiled)
    names = [i.opcode.split(".")[0] for i in compiled.sass]
    load = names.index("LDG")
    first = names.index("FFMA")
    assert fields[load].sets is not None
    assert fields[load].sets in fields[first].waits
    chain = [fields[i].stall for i, name in enumerate(names) if name == "FFMA"]
    assert len(chain) == 8
    assert all(stall >= 4 for stall in chain), "each needs the one before, four clocks later"


def test_latencies_are_those_read_on_hardware() -> None:
    """Latencies of ``hardware/pipes.py`` agree with the readings."""
    readings = json.loads((FOLDER / "estimate/h200.json").read_text())
    clocks, rates = readings["clocks"], readings["gb_per_s"]
    assert clocks["latency_shared_32"] == pytest.approx(HOPPER.shared + 1, abs=0.5)
    assert clocks["latency_l1"] == pytest.approx(HOPPER.l1 + 1, abs=1)
    assert clocks["latency_l2_16mb"] == pytest.approx(HOPPER.l2, abs=5)
    assert clocks["latency_dram"] == pytest.approx(HOPPER.alone, abs=5)
    assert clocks["latency_branch"] == pytest.approx(HOPPER.branch, abs=0.5)
    for threads in (128, 256, 512, 1024):
        modelled = HOPPER.barrier + HOPPER.barrier_warp * threads / 32  # arrivals are noted one after the other
        assert clocks[f"latency_barrier_{threads}"] == pytest.approx(modelled, abs=0.5)
    assert 0 < clocks["next_block"] - HOPPER.move_up < 60, "which has a block's begin and end in it"
    assert max(rates.values()) == pytest.approx(H200.l2_bytes_per_s / 1e9, rel=0.01)


def test_sectors_of_boxes_take_what_was_read_while_all_copy() -> None:
    """With enough in flight: the port's clocks, where all copy the same, and L2's time, where none do, at any clock."""
    read = json.loads((FOLDER / "estimate/flights_h200.json").read_text())["read"]

    def rates(kind: str, least: int) -> list[dict[str, float]]:
        words = {name: name.split() for name in read if f"132 blocks, {kind}" in name}
        return [read[name] for name, (slots, _, size, *_) in words.items() if int(slots) * int(size) >= least]

    assert HOPPER.box_sector == pytest.approx(mean(32 / it["bytes"] for it in rates("same", 128)), rel=0.01)
    own = rates("own", 64)
    assert HOPPER.box_ns == pytest.approx(mean(32 / (it["bytes"] * it["ghz"]) for it in own), rel=0.01)
    assert min(it["ghz"] for it in own) < 1.45 < 1.95 < max(it["ghz"] for it in own)


def test_l2_sends_a_box_once_to_blocks_of_a_gpc_and_again_to_each_other_gpc() -> None:
    """16 blocks in a row are on one, so two of those that are 8 apart are."""
    read = json.loads((FOLDER / "estimate/flights_h200.json").read_text())["read"]
    for flight in ("4 x 16 KB", "8 x 8 KB", "3 x 32 KB"):
        kinds = ("own", f"{GPC} apart", "66 apart", "pairs", "8 apart")
        own, *others, pairs, near = (read[f"{flight}, 132 blocks, {kind}"]["bytes"] for kind in kinds)
        assert others == pytest.approx([own] * 2, rel=0.06)
        assert min(pairs, near) > 1.5 * own


def test_tiles_are_stored_at_the_rate_that_was_read_while_all_store() -> None:
    """Lines of one sector, of part of one, and of four."""
    found = json.loads((FOLDER / "estimate/ends_h200.json").read_text())
    read = {name.removesuffix(", 128 blocks"): it["each"] / 2048 for name, it in found["stores"].items()}
    line, sector, part = HOPPER.stored_line_ns, HOPPER.stored_sector_ns, HOPPER.stored_part_ns
    assert read["16 bytes of a row"] == pytest.approx(2 * (line + sector + part), rel=0.02), "twice as many lines"
    assert read["32 bytes of a row"] == pytest.approx(line + sector, rel=0.02)
    assert read["whole lines"] == pytest.approx(line / 4 + sector, rel=0.02)
    assert read["boxes"] == pytest.approx(line / 4 + sector, rel=0.02)
    few = [it["one"] - it["each"] for name, it in found["stores"].items() if "128" not in name]
    assert pytest.approx(mean(few) / 1e3, abs=0.05) == LAST_US
    launches = {name: us for name, us in found["launches"].items() if "132" in name}
    assert list(launches.values()) == pytest.approx([BETWEEN_US] * 2, rel=0.02), "clusters start as fast as blocks"


def signal(told: Signal, sets: int | None = None) -> Line:
    opcode = {"made": "SYNCS.EXCH.64 URZ,", "arrived": "SYNCS.ARRIVE.TRANS64 RZ,", "awaited": "SYNCS.PHASECHK P0,"}
    return f"{opcode[told.kind]} [R1], R2", replace(FREE, sets=sets), told


def test_a_phase_is_over_when_all_have_arrived_and_the_box_is_there() -> None:
    sectors = 512
    made, awaited = signal(Signal("made", 8, 1)), signal(Signal("awaited", 8), sets=0)
    sent: list[Line] = [
        signal(Signal("arrived", 8, 1, 32 * sectors)),
        ("UTMALDG.2D [UR4], [UR6]", FREE, Traffic("global", True, 128, 128, range(sectors), past=True, barrier=8)),
    ]
    then: Line = ("FFMA R4, R2, R2, R5", replace(FREE, waits=(0,)), None)
    took = clocks([made, *sent, awaited, then])
    assert took == pytest.approx(HOPPER.box + HOPPER.box_sector * sectors + HOPPER.look, abs=10)
    before = signal(Signal("awaited", 8, parity=1), sets=0)
    assert clocks([made, *sent, before, then]) < HOPPER.box / 2, "the phase before the first"
    late = [made, *sent, awaited, then, signal(Signal("awaited", 8, parity=1), sets=0), then]
    with pytest.raises(Uncountable, match="do not end"):
        clocks(late)


def test_warps_meet_at_an_mbarrier() -> None:
    """Both warps continue when the slower one arrives."""
    warps, made = 2, signal(Signal("made", 8, 2))
    lines = [made, *ffma(300), signal(Signal("arrived", 8, 1)), signal(Signal("awaited", 8), sets=0)]
    lines.append(("FFMA R4, R2, R2, R5", replace(FREE, waits=(0,)), None))
    both = trace(lines, warps)
    code = both.warps[0]
    late, early = code, code[301:]  # which comes at once
    took = play(replace(both, warps=(late, early)), 1, H200).clocks
    assert took == pytest.approx(300 + HOPPER.signal + HOPPER.look, abs=10)


def cluster(lines: Sequence[Line], warps: int, cut: int) -> Trace:
    """Two blocks of one cluster; the second begins ``cut`` lines later in the code, and so is ahead of the first."""
    both = trace(lines, warps, blocks=2)
    return replace(both, warps=(*both.warps[:warps], *(it[cut:] for it in both.warps[warps:])), cluster=2)


def test_blocks_of_a_cluster_meet_at_its_barrier() -> None:
    met: list[Line] = [("UCGABAR_ARV", FREE, None), ("UCGABAR_WAIT", FREE, None)]
    then: Line = ("FFMA R4, R2, R2, R5", FREE, None)
    took = play(cluster([*ffma(500), *met, then], 2, 500), 1, H200)
    assert took.clocks == pytest.approx(500 + HOPPER.cluster + 2 * HOPPER.cluster_warp, abs=10)
    ended = play(cluster([*met, *ffma(500), ("EXIT", FREE, None)], 2, 2), 1, H200).clocks
    assert ended == pytest.approx(500 + 500 + HOPPER.cluster + HOPPER.cluster_warp, abs=10), "an ended block arrives"
    stored: Line = ("STG [R2], R4", FREE, Traffic("global", False, 8, 8, range(8), partial=True))
    product = grouped(256)  # with which stores take L2's own time
    all_of = [product, *[stored] * 50, *met, then]
    took = play(cluster(all_of, 1, 0), 1, H200)
    stores = 50 * 8 * (HOPPER.stored_line_ns + HOPPER.stored_sector_ns + HOPPER.stored_part_ns) * H200.clock_hz / 1e9
    assert took.clocks == pytest.approx(stores + HOPPER.cluster + HOPPER.cluster_warp, abs=30), "after what it stored"


def test_a_box_for_two_blocks_comes_to_both_and_an_arrival_at_another_block_takes_longer() -> None:
    sectors = 512
    box = box_of(sectors, barrier=8, which=(0,), to=(0, 1))
    then: Line = ("FFMA R4, R2, R2, R5", replace(FREE, waits=(0,)), None)
    made = signal(Signal("made", 8, 1))
    announced = signal(Signal("arrived", 8, 1, 2 * 32 * sectors))
    copied: Line = ("UTMALDG.2D.MULTICAST [UR4], [UR6], UR8", FREE, box)
    took = play(cluster([made, announced, *ffma(5), copied, signal(Signal("awaited", 8), sets=0), then], 1, 0), 1, H200)
    alone = HOPPER.box + HOPPER.multicast + HOPPER.look
    assert took.clocks == pytest.approx(alone + 2 * HOPPER.box_sector * sectors, abs=15), "each block gets both"
    assert took.busy["l2"] == pytest.approx(2 * HOPPER.box_sector * sectors)

    def pair(to: tuple[int, ...]) -> float:
        both, awaited = signal(Signal("made", 8, 2)), signal(Signal("awaited", 8), sets=0)
        arrived = signal(Signal("arrived", 8, sum(to) or 2, to=to))
        return play(cluster([both, *ffma(50), arrived, awaited, then], 1, 0), 1, H200).clocks

    assert pair((1, 1)) - pair(()) == pytest.approx(HOPPER.remote_signal - HOPPER.signal, abs=2)


def test_stores_to_another_block_leave_one_after_the_other_and_report_to_its_mbarrier() -> None:
    def pair(opcode: str, times: int, threads: int, width: int) -> float:
        each = threads * width
        made = signal(Signal("made", 8, 1))
        sent: Line = (f"{opcode} [R2.64], R4", FREE, Signal("sent", 8, threads, each, to=(each, each)))
        awaited = signal(Signal("awaited", 8), sets=0)
        then: Line = ("FFMA R4, R2, R2, R5", replace(FREE, waits=(0,)), None)
        announced = signal(Signal("arrived", 8, 1, 2 * times * each))  # both blocks send to both
        return play(cluster([made, announced, *ffma(50), *times * [sent], awaited, then], 1, 0), 1, H200).clocks

    least = 50 + HOPPER.remote_store + HOPPER.look
    assert pair("STAS", 1, 1, 4) == pytest.approx(least, abs=10)
    for opcode, threads, width in (("STAS", 32, 4), ("STAS.128", 32, 16), ("STAS", 1, 4), ("REDAS.ADD", 32, 4)):
        clocks = max(threads * width / (HOPPER.reduced if "RED" in opcode else HOPPER.sent), HOPPER.send_least * width)
        assert pair(opcode, 100, threads, width) == pytest.approx(least + 100 * clocks, rel=0.02)


def test_stores_to_another_block_are_those_read_on_hardware() -> None:
    read = json.loads((FOLDER / "estimate/clusters_h200.json").read_text())["clocks"]
    for name, opcode in (("st.async", HOPPER.sent), ("red.async", HOPPER.reduced)):
        for width in (4, 16) if name == "st.async" else (4,):
            of_warps = {lanes: read[f"{name}, 12 warps, {lanes} lanes of {width} bytes"] / 12 for lanes in (1, 32)}
            assert of_warps[32] == pytest.approx(32 * width / opcode, rel=0.05)
            assert of_warps[1] == pytest.approx(HOPPER.send_least * width, rel=0.2)
    for what in ("store", "reduction"):
        both = read[f"{what} and answer, cluster of 2, 64 threads"] / 2
        assert both == pytest.approx(HOPPER.remote_store + HOPPER.look, abs=20)


def test_latencies_of_clusters_are_those_read_on_hardware() -> None:
    found = json.loads((FOLDER / "estimate/clusters_h200.json").read_text())
    read = found["clocks"]
    both = read["arrival and answer, cluster of 2, 64 threads"] / 2
    assert both == pytest.approx(HOPPER.remote_signal + HOPPER.look, abs=5)
    assert read["load, cluster of 2, 64 threads"] == pytest.approx(HOPPER.remote, abs=10)
    for threads in (64, 384):
        modelled = HOPPER.cluster + HOPPER.cluster_warp * threads / 32
        assert read[f"barrier, cluster of 2, {threads} threads"] == pytest.approx(modelled, abs=25)
    for size, clusters in found["resident"].items():
        assert H200.sms_for(int(size)) == int(size) * clusters
    one, two = (read[f"cluster of {n}, 64 rows, 1 stages, {n} blocks, 0 apart"] for n in (1, 2))
    assert two - one == pytest.approx(HOPPER.multicast, abs=10)
