"""The tables of what to measure fit the solutions and what is stored; all of measuring but the GPU's own work."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checks.course import bytes as of_bytes
from checks.course import epilogues, fake_gpu, guard, measure, power
from checks.course.bench import HGEMM, OF_CUBLAS, TORCH, Bench, kind_of, rates, spread, takes, tile_of
from checks.course.kernel import Kernel
from checks.course.loops import REPEATS, measure_loops
from checks.course.tables import ROOT, STORED, WARM, Problem, Table, Variant, tables
from gemm_lessons.authoring.numbers import Numbers
from gemm_lessons.course.folder import Course
from gemm_lessons.course.lesson import LessonError
from gemm_lessons.gemm.shapes import Shape

VARIANTS = [variant for table in tables().values() for variant in table.variants]


def name_of(it: Any) -> str:
    return it.name


def stored(table: Table) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((STORED / table.file).read_text())
    return found


def rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stored(tables()[name])["rows"]
    return found


# -- what is listed


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_the_edits_of_a_variant_match_its_solution(variant: Variant) -> None:
    kernel = variant.kernel()
    changed = kernel.source != kernel.lesson.solution_path.read_text()
    assert changed == bool(variant.edits or variant.pitfall)
    assert changed or variant.tile or variant.type or " " not in variant.name, "a variant changes something"


def planned(table: Table) -> dict[tuple[str, int | str], int]:
    """How often each kernel and cuBLAS is launched at each size."""
    found, lessons, library = {}, table.lessons(), of_bytes.LIBRARY.get(table.name)
    for problem in table.problems():
        names = [name for name, it in lessons.items() if kind_of(it) == problem.kind and takes(it, problem.shape)]
        for name in (library or table.library(problem.kind), *names):
            layout = f" {problem.shape.layout}" if table.layouts and not library else ""
            found[name + layout, problem.size] = table.launches(name, problem)
    return {key: rounds for key, rounds in found.items() if rounds}


def besides(table: Table) -> set[str]:
    """Rows that are measured besides kernels and cuBLAS."""
    made_of_two = {*epilogues.PAIRS.values(), "cublas fused", "epilogue kernel alone"}
    reading = {f"epilogue{words} beta" for words in ("", " bias each row", " row by row")}
    return {
        *table.transposed,
        *table.loops,
        *({measure.IN_FLOAT32} if table.precise else ()),
        *({TORCH} if table.torch else ()),
        *({HGEMM} if table.hgemm else ()),
        *({of_bytes.PROMOTED} if of_bytes.LIBRARY.get(table.name) == "torch fp8" else ()),
        *(made_of_two | reading if table.name == epilogues.TABLE else ()),
    }


@pytest.mark.parametrize("table", tables().values(), ids=name_of)
def test_everything_that_is_listed_was_measured_as_often_as_it_says_and_nothing_else(table: Table) -> None:
    measured = {(row["kernel"], row["size"]): row.get("repeats", 1) for row in stored(table)["rows"]}
    plan = planned(table)
    assert plan.items() <= measured.items()
    assert {name for name, _ in measured.keys() - plan.keys()} == besides(table) - {name for name, _ in plan}


@pytest.mark.parametrize("table", tables().values(), ids=name_of)
def test_a_stored_file_says_how_it_is_renewed_and_what_it_is(table: Table) -> None:
    found = stored(table)
    command = f"python -m checks.course.measure compile DIR {table.name}; python -m checks.course.measure run DIR"
    assert found["command"] == f"{command} {table.name}"
    assert (found["what"], found["how"]) == (table.what, table.how)


def test_what_was_built_elsewhere_says_from_where() -> None:
    for row in json.loads((STORED / "h200_anchors.json").read_text())["rows"]:
        if row["kernel"].split()[0] in ("cutlass", "leimao"):
            assert len(row["commit"]) == 40
            assert row["source"].startswith("github.com/")


@pytest.mark.parametrize("name", ["solutions", "variants", "halves", "two_warps"])
@pytest.mark.parametrize("way", ["warm", "cold"])
def test_rates_follow_from_the_times(name: str, way: str) -> None:
    found = [row for row in rows(name) if way in row]  # some are there for their errors alone
    base = {row["size"]: row[way]["median_us"] for row in found if row["kernel"] == "cublas"}
    for row in found:
        n = row["size"]
        here, expected = row[way], rates(row[way]["median_us"], Shape(n, n, n), base[n])
        assert here["tflops"] == pytest.approx(expected["tflops"], abs=0.002)
        assert here["percent_of_cublas"] == pytest.approx(expected["percent_of_cublas"], abs=0.02)
        assert here["p10_us"] <= here["median_us"] <= here["p90_us"]


def test_tensor_cores_round_as_cublas_does() -> None:
    by_place = {(row["kernel"], row["size"]): row for row in rows("halves")}
    ours, half, plain = (
        by_place[name, 4096] for name in ("tensor_cores", "tensor_cores half sums", measure.IN_FLOAT32)
    )
    assert ours["error"] == by_place["cublas", 4096]["error"], "the same sums, cut off at the same places"
    assert plain["error"] < ours["error"] < half["error"] / 100
    assert ours["error_positive"] > 10 * plain["error_positive"], "cuts do not cancel"


def test_spread() -> None:
    assert spread([5.0, 1.0, 3.0, 2.0, 4.0]) == {"median_us": 3.0, "p10_us": 1.0, "p90_us": 5.0}


def test_a_column_may_say_its_own_way() -> None:
    [row] = [row for row in rows("solutions") if (row["kernel"], row["size"]) == ("cublas", 1024)]
    filled = Numbers(Course(ROOT)).filled
    table = filled("h200 us", "| us | 1024 warm | 1024 cold |\n|---|---:|---:|\n| cublas | | |\n")
    assert f"| {row['warm']['median_us']:.1f} | {row['cold']['median_us']:.1f} |" in table
    with pytest.raises(LessonError, match="hot"):
        filled("h200 us", "| us | 1024 hot |\n|---|---:|\n| cublas | |\n")


@pytest.mark.parametrize("page", sorted((ROOT / "lessons/common").glob("*.md")), ids=lambda it: it.stem)
def test_numbers_of_pages_are_what_their_source_gives(page: Path) -> None:
    """``dev check`` proves those of the lessons' own texts."""
    text = page.read_text()
    assert Numbers(Course(ROOT)).rewritten(text) == text


# -- compiling, and measuring on a GPU that is not there


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    fake_gpu.installed(monkeypatch)
    return monkeypatch


@pytest.fixture
def quickly(without_gpu: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Replace compiling: it writes files without machine code."""
    resources = SimpleNamespace(registers=1, spill_bytes=0, shared_bytes=0)
    made = SimpleNamespace(cubin=b"", resources=resources, compiler="NVRTC")
    without_gpu.setattr(Kernel, "compiled", lambda _: made)
    without_gpu.setattr(measure, "compiled", lambda *_: made)
    without_gpu.setattr("checks.course.loops.compiled", lambda *_: made)
    without_gpu.setattr("checks.course.epilogues.compiled", lambda *_: made)
    without_gpu.setattr("checks.course.loops.reads_of", lambda *_: {"three": 0.0, "bank": 0.0, "other": 0.0})
    without_gpu.setattr("checks.course.loops.NUMBERS", 64)
    return without_gpu


@pytest.mark.parametrize("table", tables().values(), ids=name_of)
def test_whatever_is_launched_was_compiled(table: Table, quickly: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measure.compile_table(table, tmp_path)
    bench = Bench(table, tmp_path)
    checks = [Problem("", Shape(*sizes), kind) for sizes in table.checks for kind in table.kinds]
    for problem in (*table.problems(), *checks):
        for name in bench.names(problem.kind, problem.shape):
            lesson = bench.lessons[name].at(problem.shape)
            assert (name, tile_of(lesson)) in bench.modules
            assert all(grid.threads <= 1024 for grid in lesson.grids(problem.shape))


def small(table: Table) -> Table:
    """The table with sizes that are small enough for a CPU."""
    sizes = {"split": {"128x256x128": 3}, "layouts": {"255": 3, "256": 3}, "registers": {"768": 3}}.get(
        table.name, {"256": 3}
    )
    precise = table.precise and replace(table.precise, sizes=[256])
    return replace(table, rounds=sizes, side=table.side and 256, fewer={}, checks=table.checks[:1], precise=precise)


def ready(table: Table, folder: Path, kind: type[Bench] = fake_gpu.Multiplied) -> Bench:
    measure.compile_table(table, folder)
    return kind(table, folder)


def keys(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The keys of a row, in order. A product of smaller parts is NaN for the largest inputs, which is left out."""
    here = {key: value for key, value in row.items() if not key.endswith("up_8")}
    return tuple((key, *value) if isinstance(value, dict) else key for key, value in here.items())


@pytest.mark.parametrize(  # without PyTorch there is nothing to compare the others with
    "table", [table for table in tables().values() if table.name not in of_bytes.LIBRARY], ids=name_of
)
def test_measuring_stores_what_is_stored(table: Table, quickly: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before, target = stored(table), tmp_path / table.file
    ready(small(table), tmp_path)
    quickly.setattr(measure, "Bench", fake_gpu.Multiplied)
    quickly.setattr(epilogues, "Lt", fake_gpu.Lt)
    quickly.setattr(epilogues, "unfused", fake_gpu.unfused)
    quickly.setattr(power, "Driver", fake_gpu.Driver)
    quickly.setattr(power, "SECONDS", 0.01)
    measure.run_table(small(table), tmp_path, target)
    after = json.loads(target.read_text())
    assert [*after] == [key for key in before if key != "added"]
    assert {row["kernel"] for row in after["rows"]} == {row["kernel"] for row in before["rows"]} - left_out(table)
    known = {(row["kernel"], keys(row)) for row in before["rows"]}
    assert {(row["kernel"], keys(row)) for row in after["rows"]} <= known


def left_out(table: Table) -> set[str]:
    """What the small size is not for: the tile of 48 is no part of 256, and PyTorch is not there."""
    return {"two_warps 6x6", TORCH}


def test_a_wrong_answer_is_refused_where_it_is_not_known_to_be_wrong(
    quickly: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = small(tables()["halves"])
    bench = ready(table, tmp_path)
    assert isinstance(bench, fake_gpu.Multiplied)
    [problem] = table.problems()
    bench.broken = "tensor_cores half sums"
    measure.measure_problem(bench, problem, 0.0)
    bench.broken = "async_copy"
    with pytest.raises(AssertionError, match="async_copy 256x256x256: relative error nan"):
        measure.measure_problem(bench, problem, 0.0)
    bench.broken = "tensor_cores"
    with pytest.raises(AssertionError, match="tensor_cores 512x256x96: relative error nan"):
        measure.check_all(bench)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("kind", OF_CUBLAS)
def test_cublas_is_asked_for_the_same_product(
    kind: str, layout: str, quickly: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench = ready(replace(small(tables()["mma"]), variants=()), tmp_path)
    problem = Problem("", Shape(8, 12, 20, layout=layout), kind)
    a, b, c = bench.given(kind, problem.shape)
    exact = bench.product(kind, a, b, layout)
    bench.compare({"cublas": bench.library(kind, a, b, c, layout)}, c, exact, problem)
    off_by_one = exact.copy()
    off_by_one[3, 4] += 1
    with pytest.raises(AssertionError, match="cublas 8x12x20"):
        bench.compare({"cublas": bench.library(kind, a, b, c, layout)}, c, off_by_one, problem)


def test_rounds_have_an_order_of_their_own(quickly: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = ready(replace(small(tables()["variants"]), variants=()), tmp_path)
    ran: list[str] = []
    calls = {name: (lambda name=name: ran.append(name)) for name in "abcdef"}
    c = bench.empty("float32", 4, 4)
    times = bench.times(calls, c, {**dict.fromkeys(calls, 5), "f": 2})
    assert [*times] == ["warm", "cold"]
    assert {name: len(found) for name, found in times["cold"].items()} == {**dict.fromkeys("abcde", 5), "f": 2}
    assert Counter(ran) == {**dict.fromkeys("abcde", 10), "f": 4}
    orders = [tuple(ran[6 * number :][:6]) for number in (0, 2)]  # of the first two rounds, warm
    assert orders[0] != orders[1]
    assert all(sorted(order) == [*"abcdef"] for order in orders)


def test_only_what_is_to_be_hidden_is_behind_a_kernel_that_spins(quickly: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = ready(replace(small(tables()["solutions"]), solutions=False), tmp_path)
    c = bench.empty("float32", 4, 4)
    for way in ("idle", "cold", "warm"):
        assert bench.timed(lambda: None, way, c) == 250.0  # microseconds; events tell milliseconds
    assert [(name, arguments) for name, _, _, arguments, _ in fake_gpu.Function.launches] == [("spin", (80_000,))]


def test_all_launches_of_a_lesson_are_one_call(quickly: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the one with a warp more, too, which is another kernel with more threads than the solution's."""
    table = small(tables()["squares"])
    bench = ready(table, tmp_path)
    [problem] = table.problems()
    a, b, c = bench.given("float32", problem.shape)
    shown = {}
    for name in ("beat_cublas", "beat_cublas tma", "beat_cublas tma producer"):
        fake_gpu.Function.launches.clear()
        Bench.kernel(bench, name, a, b, c)()
        shown[name] = [(entry, block) for entry, _, block, _, _ in fake_gpu.Function.launches]
    assert [entry for entry, _ in shown["beat_cublas"]] == ["gemm", "combine"]
    assert [entry for entry, _ in shown["beat_cublas tma"]] == ["turn", "gemm_by_tma", "combine"]
    assert [entry for entry, _ in shown["beat_cublas tma producer"]] == ["turn", "gemm_by_producer", "combine"]
    threads = {name: found[1][1][0] for name, found in shown.items()}
    assert threads["beat_cublas tma producer"] == threads["beat_cublas tma"] + 32
    _, grid, _, arguments, shared = fake_gpu.Function.launches[1]
    lesson = bench.lessons["beat_cublas tma producer"].at(problem.shape)
    assert (grid, shared) == (lesson.grids(problem.shape)[1].grid, lesson.grids(problem.shape)[1].dynamic_shared)
    assert arguments[2] is c
    assert [int(it) for it in arguments[-3:]] == [256, 256, 256]


def test_a_loop_stores_its_fastest_tile(quickly: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = ready(replace(tables()["types"], variants=()), tmp_path)
    of_tiles = (2000.0, 1000.0, 3000.0, 500.0, 800.0, 700.0, 900.0)  # three, one and three
    times = iter([time for time in of_tiles for _ in range(REPEATS)])
    quickly.setattr(Bench, "timed", lambda *_: next(times))
    found = {row["kernel"]: row for row in measure_loops(bench)}
    assert {name: row["tile"] for name, row in found.items()} == {
        "loop float64": "2x8", "fed float64": "8x8", "loop int8": "2x8",
    }  # fmt: skip
    assert found["loop float64"]["cold"]["tflops"] == round(2 * 132 * 256 * (1 << 20) / 1000.0 / 1e6, 3)


@pytest.mark.parametrize("table", tables().values(), ids=name_of)
def test_a_file_is_written_as_it_is_stored(table: Table, tmp_path: Path) -> None:
    found = stored(table)
    listed, schema = found.pop("rows"), found.pop("schema")
    measure.write(tmp_path / table.file, found, listed)
    assert schema == "gemm-lessons/measured/2"
    assert (tmp_path / table.file).read_text() == (STORED / table.file).read_text()


def test_a_run_of_order_is_added_to_those_before(tmp_path: Path) -> None:
    times = {"median_us": 2.0, "p10_us": 1.0, "p90_us": 3.0}
    row = {"kernel": "naive", "size": 512, "repeats": 9, WARM: {**times, "tflops": 4.0, "percent_of_cublas": 50.0}}
    target = tmp_path / "h200_order.json"
    for run in (1, 2):
        found = measure.one_more_run([row], target)
        measure.write(target, {}, found)
        assert found[-1] == {"kernel": "naive", "size": 512, "run": run, "repeats": 9, WARM: times}
    assert len(found) == 2


def test_same_bits_are_one_answer(quickly: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = ready(replace(small(tables()["split"]), variants=()), tmp_path)
    c = bench.empty("float32", 2, 2)
    values = iter([1.0, 2.0, 1.0, -0.0, 0.0])
    assert measure.answers(bench, lambda: c.fill(next(values)), c, 5) == 4


def test_an_unknown_table_is_a_wrong_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        measure.main(["compile", "somewhere", "halfs"])
    assert "halfs: only of solutions, order, variants" in capsys.readouterr().err


def test_tables_are_processes_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def process(command: list[str], check: bool) -> SimpleNamespace:
        asked.append(command[3:])
        return SimpleNamespace(returncode=int("order" in command))

    monkeypatch.setattr(subprocess, "run", process)
    with pytest.raises(SystemExit, match="failed: order"):
        measure.main(["run", str(tmp_path), "order", "split"])
    where = ["--into", str(tmp_path / "measured")]
    assert asked == [["run", str(tmp_path), name, *where] for name in ("order", "split")]


def test_one_table_is_compiled_here_and_its_machine_code_is_found_there(
    without_gpu: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen = [it for it in tables()["split"].variants if it.name in ("split_k", "split_k narrow atomics")]
    loop = {"loop 8x8 registers": tables()["squares"].loops["loop 8x8 registers"]}
    table = replace(
        small(tables()["squares"]), name="split", rounds={"128x256x128": 1}, variants=tuple(chosen), loops=loop
    )
    bench = ready(table, tmp_path)
    assert {name for name, _ in bench.modules} == {"split_k", "split_k narrow atomics"}
    assert all((tmp_path / kernel["file"]).read_bytes()[:4] == b"\x7fELF" for kernel in bench.compiled["kernels"])
    assert [*bench.resources["split_k"]] == ["registers", "spill_bytes", "shared_bytes", "three", "bank", "other"]
    assert bench.compiled["loops"][0]["resources"]["three"] < 12.5


def test_between_guard_zones_every_kernel_that_is_chosen_was_compiled_and_nothing_may_be_touched(
    quickly: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a stand-in: the right product passes, an unwritten C and a number written beyond its lines do not."""
    measure.compile_kernels(guard.TABLE, guard.kernels(), tmp_path)

    def multiply(beyond: int) -> Callable[..., None]:
        def launch(_: object, grid: object, block: object, arguments: tuple[Any, ...]) -> None:
            a, b, c, _, n, k, *_ = arguments
            c[:, :n] = a[:, :k] @ b[:, :n]
            c[:, n : n + beyond] = 0

        return launch

    quickly.setattr(guard, "LAYOUTS", ("NN",))
    quickly.setattr(fake_gpu.Function, "__call__", multiply(0))
    guard.run(tmp_path, 20)
    quickly.setattr(fake_gpu.Function, "__call__", multiply(1))
    with pytest.raises(AssertionError, match="written outside C"):
        guard.run(tmp_path, 20)
    quickly.setattr(fake_gpu.Function, "__call__", lambda *_: None)
    with pytest.raises(AssertionError, match="error nan"):
        guard.run(tmp_path, 20)
