"""Tables of a benchmark: no text is cut, no kernel is missing; lessons by range; notes are merged."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from checks import forks
from checks.gpu import stored_points
from gemm_lessons.cli.gpu import parse_lessons, parse_parts, squares
from gemm_lessons.commands import points as table_points
from gemm_lessons.commands.bench import BenchRequest, Note, Result, bench_as_json
from gemm_lessons.commands.points import CUBLAS, grouped
from gemm_lessons.course.folder import CommandError
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.report.bench import show_bench, summed_up
from gemm_lessons.report.table import kernel_name

COURSE = stored_points.COURSE
POINTS, TYPES = stored_points.points(), stored_points.types()
ESTIMATES = [replace(it, kind="estimated", of_cublas=None) for it in POINTS if it.series != CUBLAS]
DOUBTS = [
    *(
        Note("scatter", f"At {size}: The times of 0{i} scatter.", f"0{i}", str(size))
        for i in range(7)
        for size in (1, 2)
    ),
    *(Note("slow clock", f"At {size}: The GPU slowed down.", "", str(size)) for size in (1, 2, 4)),
]
REFUSED = [
    Note("shape refused", f"{name} cannot take {size}: M.", name, str(size))
    for name in ("14_async_copy", "15_mma", "26_beat_cublas") for size in (128, 192)
]  # fmt: skip


def printed(result: Result, width: int, shapes: Sequence[Shape] = (), verbose: bool = False) -> list[str]:
    from rich.console import Console

    from gemm_lessons.report.console import THEME

    out = io.StringIO()
    console = Console(file=out, width=width, theme=THEME, highlight=False, markup=False)
    lessons = [COURSE.lesson(name) for name in COURSE.names]
    asked = shapes or squares(stored_points.SIZES)
    request = BenchRequest(COURSE, lessons, asked, Simulated(), find_gpu("h200"))
    show_bench(console, request, result, verbose)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("points", [POINTS, ESTIMATES], ids=["measured", "estimated"])
def test_nothing_is_cut_and_every_kernel_is_there(points: list, width: int) -> None:  # type: ignore[type-arg]
    lines = printed(Result(tuple(points), types=TYPES), width)
    table = [line for line in lines if not line.startswith(("TFLOP/s on", "Share of"))]
    assert max(map(len, table)) <= width
    if width >= 80:
        assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    tables = 2 if points is POINTS else 1
    headers = [line.split() for line in lines if line.strip() and not set(line) - set(" 0123456789")]
    assert [it for line in headers for it in line] == [str(size) for size in stored_points.SIZES] * tables
    for name in COURSE.names:
        rows = [line.removeprefix(kernel_name(name)) for line in lines if line.startswith(f"{kernel_name(name)} ")]
        assert len(rows) == len(headers), "once in each block of columns"
        cells = [cell for row in rows for cell in row.split()]
        assert len(cells) == len(stored_points.SIZES) * tables
        known = {point.shape.m for point in points if point.series == name}
        assert sum(cell != "-" for cell in cells) == len(known) * tables


def test_each_number_type_is_beside_its_own_cublas() -> None:
    groups = grouped(POINTS, TYPES)
    assert [group.title for group in groups] == ["fp32", "fp16, bf16", "fp8", "int8", "fp64"]
    for group in groups:
        libraries = {line.type: line for line in group.lines if line.is_cublas}
        assert ", ".join(libraries) == ("" if group.title == "fp8" else group.title), "cuBLAS has none here for fp8"
        for of, library in libraries.items():
            assert {point.kernel for point in library.points.values()} == {of}
        assert all(TYPES[line.name] == line.type for line in group.lines if not line.is_cublas)
    assert sorted(line.name for group in groups for line in group.lines if not line.is_cublas) == sorted(COURSE.names)


def test_another_gpu_is_beside_the_h200_of_the_course() -> None:
    """Kernels in fp32 at squares that were measured; an H200 itself, estimates and other shapes have no such table."""
    title = "Share of cuBLAS on the H200 of the course, its solutions"
    assert title not in printed(Result(tuple(POINTS), types=TYPES), 120)
    there = Result(
        tuple(replace(it, gpu="Tesla T4", of_cublas=it.of_cublas and it.of_cublas / 2) for it in POINTS), types=TYPES
    )
    lines = printed(there, 120)
    table = lines[lines.index(title) + 1 :]
    [stored] = [line.split() for line in table if line.startswith("05 thread tile")]
    [here] = [line.split() for line in lines[: -len(table)] if line.startswith("05 thread tile") and "%" in line]
    for ours, theirs in zip(here[3:], stored[3:], strict=True):
        assert abs(2 * float(ours.strip("%")) - float(theirs.strip("%"))) < 0.6, "half of the same measurement"
    assert len([line for line in table if line[:2].isdigit()]) == 12, "no halves, no Hopper"
    estimated = [replace(it, gpu="Tesla T4") for it in ESTIMATES]
    assert title not in printed(Result(tuple(estimated), types=TYPES), 120)
    other = [replace(it, shape=Shape(128, 128, 8192)) for it in there.points]
    assert title not in printed(Result(tuple(other), types=TYPES), 120, [Shape(128, 128, 8192)])


def test_two_types_of_one_group_have_a_line_of_cublas_each() -> None:
    halves = [replace(it, kernel="bf16") for it in POINTS if (it.series, it.kernel) == (CUBLAS, "fp16")]
    groups = grouped([*POINTS, *halves], TYPES)
    assert [line.name for line in groups[1].lines][-2:] == ["cuBLAS fp16", "cuBLAS bf16"]
    assert groups[1].title == "fp16, bf16"


def test_a_kernel_without_any_number_has_a_row() -> None:
    lines = printed(Result(tuple(it for it in POINTS if it.series != "05_thread_tile"), types=TYPES), 80)
    assert [line.split()[3:] for line in lines if line.startswith("05 thread tile")] == [["-"] * 7] * 2


def test_a_scattered_time_says_so_in_its_row() -> None:
    calm = [replace(it, q1_us=0.97 * it.time_us, q3_us=1.03 * it.time_us) for it in POINTS]
    assert "±" not in "".join(printed(Result(tuple(calm), types=TYPES), 80))
    wide = [replace(it, q1_us=0.9 * it.time_us, q3_us=1.2 * it.time_us) for it in POINTS if it.shape.m == 128]
    lines = printed(Result(tuple(wide), types=TYPES), 80, squares([128]))
    [row] = [line for line in lines if line.startswith("09 double buffer") and "%" not in line.replace("±15%", "")]
    assert row.endswith(" ±15%")


def test_clock_and_power_are_below_each_type() -> None:
    powered = [replace(it, watts=700.0, clock_mhz=1410) for it in POINTS]
    lines = printed(Result(tuple(powered), types=TYPES), 120)
    timed = [group for group in grouped(POINTS, TYPES) if any(line.points for line in group.lines)]
    assert sum(line.startswith("  lowest clock, MHz") for line in lines) == len(timed) == 4
    assert next(line.split()[2:] for line in lines if line.startswith("  power, W")) == ["700"] * 7
    unknown = [replace(it, clock_mhz=None) for it in POINTS]
    assert not any("clock" in line for line in printed(Result(tuple(unknown), types=TYPES), 120))


def test_a_file_without_power_is_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "older.csv"
    table_points.append(path, POINTS[:2])
    rows = [line.rsplit(",", 1)[0] for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    table_points.append(path, [replace(POINTS[2], watts=650.0)])
    again = table_points.read(path)
    assert [it.series for it in again] == [it.series for it in POINTS[:3]]
    assert [it.watts for it in again] == [None] * 3
    fresh = tmp_path / "fresh.csv"
    table_points.append(fresh, [replace(POINTS[2], watts=650.0)])
    assert table_points.read(fresh)[0].watts == 650


def test_other_shapes_continue_in_blocks() -> None:
    shapes = [Shape(128, 128, 8192), Shape(4096, 4096, 4096), Shape(64, 4096, 4096, layout="TN"), Shape(1, 2, 3)] * 2
    points = [replace(POINTS[0], shape=shape, series="01_naive") for shape in shapes]
    lines = printed(Result(tuple(points), types={"01_naive": "fp32"}), 60, shapes)
    assert max(map(len, lines[1:])) <= 60
    for shape in shapes:
        assert any(str(shape) in line for line in lines)


def test_notes_are_summed_up_in_two_lines() -> None:
    result = Result(tuple(POINTS), (*DOUBTS, *REFUSED), types=TYPES)
    lines = summed_up(result)
    assert lines == [
        "Numbers are missing for 14, 15, 26: shape refused (6).",
        "Doubtful times at 3 sizes: scatter (14), slow clock (3). --verbose lists all.",
    ]
    assert printed(result, 80)[-2:] == lines
    told = printed(result, 200, verbose=True)
    assert [note.text for note in result.remarks] == told[-len(result.remarks) :]


def test_few_notes_are_printed_in_full() -> None:
    assert summed_up(Result(tuple(POINTS), tuple(REFUSED[:2]))) == [note.text for note in REFUSED[:2]]
    assert printed(Result((), tuple(REFUSED)), 200) == [note.text for note in REFUSED], "without a table, all"


def test_json_has_points_types_and_every_note() -> None:
    told = json.loads(json.dumps(bench_as_json(Result(tuple(POINTS), (*DOUBTS, *REFUSED), types=TYPES))))
    assert told["schema"] == "gemm-lessons/bench/1"
    assert len(told["points"]) == len(POINTS)
    assert {it["type"] for it in told["points"] if it["series"] == CUBLAS} == {"fp32", "fp16", "bf16", "int8", "fp64"}
    assert [it["text"] for it in told["notes"]] == [note.text for note in (*DOUBTS, *REFUSED)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("03-05", [3, 4, 5]),
        ("3, 05", [3, 5]),
        ("block_tile-thread_tile,01", [3, 4, 5, 1]),
        ("03-04,04,03", [3, 4]),
        ("naive", [1]),
    ],
)
def test_lessons_by_range(text: str, numbers: list[int]) -> None:
    assert [int(name[:2]) for name in parse_lessons(COURSE, text)] == numbers


def test_lessons_by_part() -> None:
    first, second = COURSE.parts[:2]
    assert parse_parts(COURSE, "1") == list(first.names)
    assert parse_parts(COURSE, "1-2") == parse_parts(COURSE, "1, 2") == [*first.names, *second.names]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "--lessons"),
        ("03-", "write lessons and ranges"),
        ("-03", "write lessons and ranges"),
        ("09-03", "write 03-09"),
        ("03-99", 'no lesson "99"'),
        ("03,,05", "write lessons and ranges"),
        ("block_tyle", "did you mean 03_block_tile"),
    ],
)
def test_ranges_that_cannot_be(text: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        parse_lessons(COURSE, text)


@pytest.mark.parametrize(
    ("text", "said"), [("", "--part"), ("x", "--part"), ("3-1", "--part"), ("0", "no part 0"), ("9", "no part 9")]
)
def test_parts_that_cannot_be(text: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        parse_parts(COURSE, text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lessons", "09-03"], "comes after"),
        (["--part", "9"], "there is no part 9; the course has 1 (From naive"),
        (["03", "--part", "1"], "in one way"),
    ],
)
def test_a_wrong_choice_is_a_wrong_command(arguments: list[str], said: str) -> None:
    done = forks.run(["bench", *arguments])
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
