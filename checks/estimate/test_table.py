"""The estimate against measurements: the aims that it is held to, on data of GPUs that this machine need not have."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import pickle
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.course.kernel import GPU_ARCH
from checks.course.loops import FED, compile_loop
from checks.course.tables import tables
from checks.estimate import table
from checks.estimate.edits import all_edits, judged, page_table
from checks.estimate.table import Compared
from checks.estimate.texts import PAGE
from checks.readings.estimate import boxes
from checks.readings.estimate.boxes import Probe
from gemm_lessons.engine.estimate.profile import GPC
from gemm_lessons.engine.estimate.recording import record
from gemm_lessons.engine.estimate.timeline import play
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar, TensorMap
from gemm_lessons.engine.sass.trace import traceable
from gemm_lessons.engine.simulator import Simulator

pytestmark = pytest.mark.slow

# Nothing in the model tells why these two are slower than it says. The naive kernel loses more at 4096 than caches and
# DRAM explain; the other is printed as 0.06 ms, and its neighbours of the same size are slower than estimated, too.
BEYOND = {("naive 32x32", 4096), ("V1 16x16", 256)}
TENSOR = ("tensor_cores", "async_copy", "mma", "precision")
BEHIND = {name: (file, way, (name,)) for file, way, names in table.OTHERS for name in names}
SELDOM = ("beat_cublas", "beat_cublas tma")  # in -m long: each takes a minute
Behind = Callable[[str], list[Compared]]


def once(places: pytest.TempPathFactory, name: str, make: Callable[[], Iterator[Compared]]) -> list[Compared]:
    """A result that the first process of this session computes and the others read."""
    worker = "PYTEST_XDIST_WORKER" in os.environ
    path = (places.getbasetemp().parent if worker else places.getbasetemp()) / f"{name}.pickle"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_bytes(pickle.dumps(list(make())))
        found: list[Compared] = pickle.loads(path.read_bytes())
        return found


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> list[Compared]:
    """At the sizes that the aims are for; the page has others, too."""
    return once(tmp_path_factory, "lessons", partial(table.lessons, table.SIZES))


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Behind:
    """The lessons after any_shape, one at a time, so that several processes share them."""
    return lambda name: once(tmp_path_factory, name, partial(table.typed, [BEHIND[name]]))


@pytest.fixture(scope="module")
def articles(tmp_path_factory: pytest.TempPathFactory) -> list[Compared]:
    return once(tmp_path_factory, "articles", table.articles)


@pytest.fixture(scope="module")
def varied() -> list[Compared]:
    return list(table.variants())


def median(found: Sequence[Compared]) -> float:
    return statistics.median(abs(one.error) for one in found)


def test_every_lesson_at_every_size(lessons: list[Compared]) -> None:
    assert len(lessons) == len({one.kernel for one in lessons}) * len(table.SIZES) >= 8 * 4


# ESTIMATE.md says why.
WRONG_ORDER = {1024: [("any_shape", "two_warps")], 4096: [("warp_tile", "two_warps")]}


@pytest.mark.parametrize("size", table.SIZES)
def test_lessons_come_in_the_right_order(lessons: list[Compared], size: int) -> None:
    """Of two that no run has in another order, and whose times overlap in none: most pairs."""
    runs = table.repeated()
    pairs = list(itertools.combinations(sorted({one.kernel for one in lessons if (one.kernel, size) in runs}), 2))
    assert len(pairs) >= 36
    assert sum(table.order_of(*pair, size, runs) != 0 for pair in pairs) >= 0.85 * len(pairs)
    assert table.out_of_order(lessons, size) == WRONG_ORDER.get(size, [])


@pytest.mark.long
def test_lessons_come_in_the_right_order_at_the_largest_size() -> None:
    size = table.ORDERED[-1]
    test_lessons_come_in_the_right_order(list(table.lessons([size])), size)


def test_two_have_an_order_where_all_runs_agree() -> None:
    runs = {("a", 8): {1: (1.0, 2.0), 2: (1.0, 2.0)}, ("b", 8): {1: (3.0, 4.0), 2: (3.0, 4.0)}}
    assert table.order_of("a", "b", 8, runs) == -1 == -table.order_of("b", "a", 8, runs)
    overlapping = {**runs, ("b", 8): {1: (3.0, 4.0), 2: (1.9, 4.0)}}
    changing = {**runs, ("b", 8): {1: (3.0, 4.0), 2: (0.1, 0.2)}}
    assert table.order_of("a", "b", 8, overlapping) == table.order_of("a", "b", 8, changing) == 0
    assert table.order_of("a", "c", 8, runs) == 0


@pytest.mark.long
def test_lesson_mma_by_tma() -> None:
    """Too fast at 1024 and 2048, where a cold L2 counts, which is not in the model; at 4096 and 8192 the chip's clock
    is 1.7 GHz for f16 (``h200_pipes.json``), 1.755 here."""
    found = list(table.by_tma())
    assert len(found) == 4 * len(table.BY_TMA)
    assert max(abs(one.error) for one in found) <= 0.20


def test_lessons_on_the_h200(lessons: list[Compared]) -> None:
    assert median(lessons) <= 0.05
    assert max(abs(one.error) for one in lessons) <= 0.15


@pytest.mark.parametrize("name", [pytest.param(it, marks=[pytest.mark.long] * (it in SELDOM)) for it in BEHIND])
def test_a_lesson_behind_them(behind: Behind, name: str) -> None:
    """Tensor cores, fp64, packed bytes, an epilogue with a short loop, tiles chosen by shape."""
    assert len(behind(name)) >= 4
    assert max(abs(one.error) for one in behind(name)) <= 0.20


def test_the_lessons_behind_them(lessons: list[Compared], behind: Behind) -> None:
    every = {name: behind(name) for name in BEHIND if name not in SELDOM}
    assert median([*lessons, *itertools.chain(*every.values())]) <= 0.05
    assert median([one for name, found in every.items() if name.startswith(TENSOR) for one in found]) <= 0.10


def test_loops_of_multiply_adds_take_what_was_measured() -> None:
    """Registers that they read and that loads bring: of the same file, two a clock. Over the loop that reads two."""
    measured = {
        row["kernel"]: 1 / row["cold"]["tflops"]
        for row in json.loads((table.ROOT / "lessons/measured/h200_squares.json").read_text())["rows"]
        if not row["size"]
    }
    plain = "loop 8x8 registers"
    names = [f"{plain} row by row", "loop 8x8 b from shared", "loop 8x8 both from shared", "loop 8x16 both from shared"]
    loops = tables()["squares"].loops
    base = loop_clocks(loops[plain]["tiles"][0])
    for name in names:
        played = loop_clocks(loops[name]["tiles"][0]) / base
        assert played == pytest.approx(measured[name] / measured[plain], rel=0.04), name


def loop_clocks(tile: Sequence[int]) -> float:
    """Simulated clocks of a multiply-add."""
    compiled = compile_loop("loop", tile)
    blocks, threads = FED.blocks_per_sm, FED.threads
    kernel = traceable(compiled, Simulator().kernel(compiled))
    clocks = []
    for turns in (2, 6):
        given = [Buffer("in", np.ones(1 << 16, np.float32)), Buffer("out", np.ones(blocks * threads, np.float32), True)]
        found = kernel.trace(Grid((blocks, 1, 1), (threads, 1, 1)), [*given, Scalar("turns", np.int32(turns))], blocks)
        clocks.append(play(found, blocks, GPUS["h200"]).clocks)
    return (clocks[1] - clocks[0]) / (tile[0] * tile[1])


# In the model, the port of a multiprocessor that copies alone is as slow as that of one among many: 15 to 25% too slow.
ALONE = [probe for probe in boxes.probes() if probe.blocks == 1 < probe.stages and probe.copies * probe.rows > 128]
OVERLAPPING = Probe(64, 4, 6, 132, 16)  # six boxes of a block and those of its neighbours: 41% too slow


NEARER = (Probe(way=1), Probe(8), Probe(64, 4, 1, 132, 16))
PROBES = [it for it in boxes.probes() if it.way != 2 and it not in (*ALONE, OVERLAPPING)]
OFTEN = [*NEARER, *PROBES[::2]]


@pytest.mark.parametrize(
    "probe", [pytest.param(it, marks=[pytest.mark.long] * (it not in OFTEN)) for it in PROBES], ids=str
)
def test_boxes_take_what_was_measured(probe: Probe) -> None:
    """Boxes one at a time, several in flight, and mbarriers alone; blocks that copy the same, or parts of it."""
    measured = json.loads(boxes.SOURCE.with_name("boxes_h200.json").read_text())["clocks"]
    assert box_clocks(probe) == pytest.approx(measured[probe.name], rel=0.14), probe.name
    if probe in NEARER:
        assert box_clocks(probe) == pytest.approx(measured[probe.name], rel=0.10), probe.name


def box_clocks(probe: Probe) -> float:
    """Simulated clocks of an iteration, between the two reads of the clock."""
    compiled = must_compile(
        boxes.SOURCE.read_text(), path="boxes.cu", defines=probe.defines, include_dirs=(boxes.COMMON,), arch=GPU_ARCH
    )
    matrix, sizes = np.zeros((boxes.SIDE, boxes.SIDE), np.float32), {"apart": probe.apart}
    sizes |= {"rows": boxes.SIDE, "cols": boxes.SIDE}
    given: list[Argument] = [
        TensorMap(matrix, (probe.rows, boxes.COLS), 128, name="map", pointer=Buffer("matrix", matrix)),
        Buffer("clocks", np.zeros(512, np.int64), True),
        Buffer("sink", np.zeros(128, np.uint32), True),
        *(Scalar(name, np.int32(size)) for name, size in sizes.items()),
    ]
    shared = probe.stages * probe.copies * probe.rows * 128
    found = traceable(compiled, Simulator().kernel(compiled)).trace(Grid((1, 1, 1), (128, 1, 1), shared), given, 1)
    played = record(found, 1, GPUS["h200"], asked_of_l2(probe))
    looks = [
        it.start for it in played.spans if (it.warp, it.state) == (0, "issue") and "CLOCK" in played.code[it.place].text
    ]
    return (looks[-1] - looks[0]) / boxes.TURNS


def asked_of_l2(probe: Probe) -> float:
    """Return the share of a turn's boxes that L2 is asked for, by rows of the matrix, as ``CopiedBoxes.asked`` does."""
    rows = (np.arange(probe.copies * probe.rows) + probe.apart * np.arange(GPC)[:, None]) % boxes.SIDE
    at_once = sum(np.unique(place).size for place in rows.T)
    return (at_once + np.unique(rows).size) / 2 / rows.size * probe.blocks / GPUS["h200"].sms


def test_each_step_gains_what_was_measured(lessons: list[Compared]) -> None:
    """The gains in the table of a run agree with the measured numbers of the texts."""
    found = table.gains(lessons, table.SIZES[-1])
    assert len(found) == len({one.kernel for one in lessons}) - 1 >= 8
    wrong = {step: both for step, both in found.items() if not abs(both[0] / both[1] - 1) <= 0.10}
    assert not wrong


def test_a_search_ranks_the_fastest_tile_among_its_first() -> None:
    """Of the stored ones, or one that is 2% behind; their estimates are those of the day when they were made."""
    rows = [line.split("|")[1:-1] for line in table.searches().splitlines()[2:]]
    assert {row[0].strip() for row in rows} == {"double_buffer", "dgemm", "beat_cublas"}
    for _, right, timed, _, behind in rows:
        assert int(right) == int(timed) >= 2 * table.FIRST
        assert float(behind.strip().rstrip("%")) <= 2


@pytest.mark.parametrize(("gpu", "times"), [("P100 PCIe", 24), ("V100 PCIe", 60)])
def test_articles(articles: list[Compared], gpu: str, times: int) -> None:
    found = [one for one in articles if one.table == gpu]
    assert len(found) == times
    assert median(found) <= 0.20


def test_none_is_far_off_but_these(articles: list[Compared]) -> None:
    far = {(one.kernel, one.size): one.error for one in articles if abs(one.error) > table.FAR}
    assert set(far) == BEYOND, far
    assert all(abs(error) < 0.45 for error in far.values())


def test_an_error_is_judged_by_what_the_printed_time_may_stand_for(articles: list[Compared]) -> None:
    first = articles[0]
    assert first.precision_us == 5.0
    printed = first.measured_us
    assert first.error == pytest.approx(first.estimate.time_us / (printed - 5.0) - 1)


@pytest.fixture(scope="module")
def others() -> list[Compared]:
    return list(table.matrices())


@pytest.mark.long
def test_small_and_skinny_shapes() -> None:
    """Shares of the K tiles, two launches and atomics, L2 cold. With one block for each multiprocessor the first
    loads take longer than anything else, and DRAM's answer is not in the model."""
    found = list(table.splits())
    assert len(found) == 8
    assert median(found) <= 0.10
    far = {one.kernel for one in found if abs(one.error) > 0.12}
    assert far == {"split_k 128x128x8192", "split_k atomics 128x128x8192"}
    assert all(abs(one.error) <= table.FAR for one in found)


@pytest.mark.long
def test_kernels_for_other_units(others: list[Compared]) -> None:
    """Tensor cores, fp64, packed bytes, splits by atomics and by two launches, ragged edges."""
    assert len({one.kernel for one in others}) >= 20
    assert len(others) >= 60
    assert median(others) <= 0.10
    assert max(abs(one.error) for one in others) <= table.FAR


@pytest.mark.long
def test_variants_of_the_lessons(varied: list[Compared]) -> None:
    """Other tiles and one edit each: what a learner's kernel may look like."""
    assert len(varied) > 100
    assert median(varied) <= 0.10
    assert not {(one.kernel, one.size) for one in varied if abs(one.error) > table.FAR}


@pytest.mark.long
def test_the_page_shows_what_is_computed(
    varied: list[Compared], articles: list[Compared], others: list[Compared]
) -> None:
    text = PAGE.read_text()
    found = table.tables(list(table.lessons()), list(table.typed()), varied, articles, others, list(table.by_tma()))
    assert {match[1] for match in table.TABLE.finditer(text)} == found.keys() | {"edits", "causes"}
    assert table.rewritten(text, found) == text, "run: python -m checks.estimate.table --write"


@pytest.mark.slow
@pytest.mark.parametrize("lessons", [["block_tile"], pytest.param([], marks=pytest.mark.long)], ids=["some", "all"])
def test_the_page_shows_what_is_computed_of_slow_edits(lessons: list[str]) -> None:
    found = all_edits(lessons)
    rows = (page_table(found) + judged(found)).splitlines()
    assert {*(rows[:3] if lessons else rows)} <= {*PAGE.read_text().splitlines()}, (
        "run: python -m checks.estimate.edits --write"
    )


@pytest.mark.parametrize("size", [1024, 2048, *(pytest.param(it, marks=pytest.mark.long) for it in (4096, 8192))])
def test_several_launches_of_several_products(size: int) -> None:
    """Lesson ozaki: two launches that split, one that multiplies fifteen times, and one that joins."""
    [kernel] = [it for it in tables()["ozaki"].kernels() if it.name == "ozaki"]
    rows = json.loads((table.ROOT / "lessons/measured/h200_ozaki.json").read_text())["rows"]
    [row] = [it for it in rows if (it["kernel"], it["size"]) == ("ozaki NT", size)]
    [(_, found)] = table.estimated(kernel, [row | {"kernel": "ozaki", "size": f"{size}x{size}x{size} NT"}])
    assert found.time_us == pytest.approx(row["warm"]["median_us"], rel=0.08)
