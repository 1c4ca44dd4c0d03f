"""The way from lesson to lesson: where one stands, what comes next, hints, differences, tiles, and the way back."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from checks.cli.tiny_course import SOLUTION, STUB, Run
from gemm_lessons.course.folder import Course, any_course
from gemm_lessons.course.progress import LessonProgress, Progress, load_progress, save_progress
from gemm_lessons.course.tiles import retiled
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gemm.time_model import Estimate
from gemm_lessons.judging.evidence import Checked, Speed
from gemm_lessons.judging.verdict import Passed
from gemm_lessons.report.run import gain_in_words
from gemm_lessons.running.outcome import Row, RunOutcome
from gemm_lessons.running.speedup import Measured, gain_over, load_measured


def test_from_the_first_lesson_to_the_second(run: Run, course: Path, kernel: Path) -> None:
    alone = run()
    assert alone.code == 0
    assert "0 of 2 passed" in alone.out
    assert "The first lesson" in alone.out
    assert alone.out.count("\n  gemm-lessons ") == 3
    opened = run("next")
    assert kernel.read_text() == STUB
    assert "line 6  TODO(1)" in opened.out
    at_work = run().out
    assert "TODO(1) in line 6 of lessons/01_first/kernel.cu: add up the K products" in at_work
    kernel.write_text(SOLUTION)
    passed = run("run", "1", "--details").out
    assert "Compare with the reference: gemm-lessons diff 01" in passed
    assert "The second lesson" in run().out
    kernel.write_text(SOLUTION.replace("+=", "-="))
    assert "Gain: " not in run("run", "1", "--details").out
    listed = run("list").out
    assert "1 of 2 passed" in listed
    assert re.search(r"broken +01_first", listed)
    assert re.search(r"tried 2 times, last: wrong answer, broken since \d+ \w+, \d\d:\d\d", " ".join(listed.split()))
    assert "it passed before, but no longer does" in run().out
    assert run("start", "2").code == 0
    assert "The second lesson" in run().out
    assert "kept as it is" in run("next").out


def test_list_says_how_long_a_lesson_takes(run: Run, course: Path) -> None:
    assert "min" not in run("list").out
    toml = course / "lessons" / "02_second" / "lesson.toml"
    toml.write_text("minutes = 25\n" + toml.read_text())
    listed = run("list").out
    assert "The minutes are roughly what a first pass takes." in listed
    assert re.search(r"02_second +25 min +Everything about the second idea\.", listed)
    assert re.search(r"01_first +Everything about the first idea\.", listed)
    toml.write_text(toml.read_text().replace("minutes = 25", 'minutes = "long"'))
    assert "lesson.toml:1: minutes: must be a whole number above 0, not 'long'" in run("list").err


def test_a_narrow_list_cuts_no_word(run: Run, course: Path) -> None:
    listed = run("list", env={"COLUMNS": "40"}).out
    assert "\u2026" not in listed
    assert re.search(r"next +01_first *\n +\w", listed), "the idea is below the name"


def test_alone_outside_of_a_course_it_says_how_to_get_one(run: Run, tmp_path: Path) -> None:
    result = run(cwd=tmp_path)
    assert result.code == 0
    assert "gemm-lessons init my-course" in result.out
    assert run("next", cwd=tmp_path).code == 2


def test_when_all_is_passed_nothing_is_next(run: Run, course: Path) -> None:
    done = LessonProgress(passed=True)
    assert save_progress(Course(course), Progress({"01_first": done, "02_second": done}, "02_second")) is None
    assert "Every lesson is passed" in run().out
    assert "Every lesson is passed" in run("next").out


def test_hints_are_for_the_first_open_todo(run: Run, course: Path, kernel: Path) -> None:
    stub = course / "lessons" / "01_first" / "stub.cu"
    toml = course / "lessons" / "01_first" / "lesson.toml"
    stub.write_text(STUB.replace("    if (row", "    // TODO(2): store it.\n    if (row"))
    toml.write_text(toml.read_text() + '[[todo]]\nnumber = 2\nhints = ["store"]\n')
    assert "a nudge" in run("hint", "01").out
    second = run("hint", "01").out
    assert "more [than] a nudge" in second
    assert "hint 2 of 3" in second
    kernel.write_text(stub.read_text().replace("    // TODO(2)", "    acc = 1;\n    // TODO(2)"))
    assert "TODO(2), hint 1 of 1" in run("hint", "01").out
    kernel.write_text(kernel.read_text().replace("store it.", "store it.\n    acc = 2;"))
    table = run("hint", "01").out
    assert "filled in  2 of 3 hints seen" in table
    assert "hint 01 --todo 1" in table
    assert "nearly the code" in run("hint", "01", "--todo", "1").out
    last = run("hint", "01", "--todo", "1").out
    assert "nearly the code" in last
    assert "gemm-lessons diff 01 --peek" in last
    assert "a nudge" in run("hint", "01", "--todo", "1", "--level", "1").out
    assert "3 of 3 hints seen" in run("hint", "01", "--list").out
    assert "4 hints" in run("list").out


def test_a_wrong_kernel_gets_the_hint_for_an_empty_todo(run: Run, course: Path, kernel: Path) -> None:
    stub, toml = (course / "lessons" / "01_first" / name for name in ("stub.cu", "lesson.toml"))
    first = next(line for line in STUB.splitlines() if "TODO(1)" in line)
    stub.write_text(STUB.replace(first, f"{first}\n    // TODO(2): twice."))
    toml.write_text(toml.read_text() + '[[todo]]\nnumber = 2\nhints = ["two"]\n')
    kernel.write_text(stub.read_text().replace("twice.", "twice.\n    acc = 2;"))
    assert "hint 01 --todo 1" in run("hint", "01").out, "it may be elsewhere"
    save_progress(Course(course), Progress({"01_first": LessonProgress(last="faulted")}))
    assert "TODO(1)" in run("hint", "01", "--list").out.partition("A hint for ")[2]
    assert "a nudge" in run("hint", "01").out


def test_the_reference_is_shown_after_a_pass_or_when_asked_for(run: Run, course: Path, kernel: Path) -> None:
    assert run("diff", "01").code == 2, "nothing of mine"
    kernel.write_text(SOLUTION.replace("acc +=", "acc -="))
    refused = run("diff", "01")
    assert refused.code == 2
    assert "--peek" in refused.err
    assert not (course / ".gemm-lessons").exists()
    shown = run("diff", "01", "--peek")
    assert shown.code == 0
    assert "-            acc -= A[row * K + k] * B[k * N + col];\n+            acc += A" in shown.out
    assert "reference seen" in run("list").out
    assert run("diff", "01").out == shown.out
    kernel.write_text(SOLUTION.replace("\n", "  \n"))
    save_progress(Course(course), Progress({"01_first": LessonProgress(passed=True)}))
    assert "the same, line by line" in run("diff", "01").out
    assert not load_progress(Course(course)).of("01_first").revealed


def test_two_lessons_side_by_side(run: Run, course: Path, kernel: Path) -> None:
    spoiled = run("compare", "1", "2")
    assert spoiled.code == 0
    assert re.search(r"01 reference +02 reference", spoiled.out)
    assert re.search(r"answer +right +right", spoiled.out)
    assert re.search(r"what the gates look at\s+barriers +0 +1 *\n", spoiled.out)
    assert re.search(r"global load sectors +\d+ +\d+ *\n", spoiled.out)
    assert "__syncthreads" not in spoiled.out
    assert "--peek" in spoiled.err
    kernel.write_text(SOLUTION.replace("acc +=", "acc -="))
    shown = run("compare", "first", "second", "--peek")
    assert "- 01 yours: lessons/01_first/kernel.cu\n+ 02 reference: lessons/02_second/solution.cu" in shown.out
    assert "-            acc -= A[row * K + k] * B[k * N + col];" in shown.out
    assert re.search(r"answer +wrong +right", shown.out)
    assert load_progress(Course(course)).of("02_second").revealed
    assert not load_progress(Course(course)).of("01_first").revealed
    assert run("compare", "1", "01").code == 2


def test_settings_that_are_not_the_course_s(run: Run, tmp_path: Path) -> None:
    """In a folder made by ``init``: a run says so, and there is a way back."""
    assert run("init", "mine", cwd=tmp_path).code == 0
    mine = tmp_path / "mine"
    toml = mine / "lessons" / "01_naive" / "lesson.toml"
    original = toml.read_text()
    toml.write_text(original.replace("[tile]\nBM = 32", "[tile]\nBM = 16").replace("at_most = 3", "at_most = 4"))
    assert toml.read_text() != original
    kernel = mine / "lessons" / "01_naive" / "kernel.cu"
    kernel.write_text("int x;\n")
    said = " ".join(run("run", "1", cwd=mine).out.split())
    assert "lesson.toml differs from the course's: BM = 16, not 32, [[gates]]." in said
    assert "gemm-lessons reset 01 --settings" in said
    back = run("reset", "1", "--settings", cwd=mine)
    assert toml.read_text() == original
    assert "lesson.toml.bak-1" in back.out
    assert kernel.read_text() == "int x;\n"
    assert "not the course's" not in run("run", "1", cwd=mine).out

    (mine / "lessons" / "common" / "matrix.cuh").unlink()
    toml.write_text("title =")
    everything = run("reset", "--all", cwd=mine)
    assert everything.code == 0, everything.err
    assert "01_naive/kernel.cu  is as it came; yours is kept as kernel.cu.bak-1" in everything.out
    assert (mine / "lessons" / "common" / "matrix.cuh").is_file()
    assert toml.read_text() == original
    assert kernel.read_text() == kernel.with_name("stub.cu").read_text()
    assert not list(mine.rglob("solution*"))
    assert "nothing was changed" in run("reset", "1", "--all", cwd=mine).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a lesson"),
        (("01", "--settings", "--all"), "give one"),
        (("01", "--all"), "no such lesson"),
        (("01", "--settings"), "no such lesson"),
    ],
)
def test_a_reset_that_cannot_be(run: Run, arguments: tuple[str, ...], message: str) -> None:
    result = run("reset", *arguments)
    assert result.code == 2
    assert message in result.err


def test_other_tiles_for_one_run(run: Run, course: Path, kernel: Path) -> None:
    kernel.write_text(SOLUTION)
    result = run("run", "01", "--tile", "BM=2", "--tile", "BN=16")
    assert result.code == 0
    assert "Tile: BM = 2, BN = 16, for this run only" in result.out
    assert not (course / ".gemm-lessons").exists(), "it is no pass"
    compiled = json.loads(run("run", "01", "--tile", "BM=16,BN=16", "--json").out)
    assert compiled["verdict"] == "passed"


@pytest.mark.parametrize(
    ("tile", "message"),
    [
        ("BK=16", "has no tile size BK; it has BM, BN"),
        ("BNN=16", "did you mean BN?"),
        ("BM=0", "is not a tile size"),
        ("BM", "is not a tile size"),
        ("BM=1024,BN=1024", "1048576 threads per block"),
    ],
)
def test_tiles_that_cannot_be(run: Run, tile: str, message: str) -> None:
    result = run("run", "01", "--solution", "--tile", tile)
    assert result.code == 2
    assert message in result.err


def test_a_promise_of_whole_tiles_follows_the_tile() -> None:
    lesson = any_course().lesson("warp_tile")
    had, now = lesson.shapes, retiled(lesson, {"BK": 16}).shapes
    assert now.multiple_of == replace(had.multiple_of, k=16)
    assert {shape.k % 16 for shape in (*now.check, now.count)} == {0}
    assert [(shape.m, shape.n) for shape in now.check] == list(dict.fromkeys((shape.m, shape.n) for shape in had.check))
    guarded = any_course().lesson("block_tile")
    assert retiled(guarded, {"BK": 32}).shapes == guarded.shapes


SIZE = Shape(4096, 4096, 4096)


def outcome(speed: Speed, lesson: str, *others: Row, kind: str = "simulator", name: str = "simulator") -> RunOutcome:
    kernel = Row("kernel", "your kernel", "", "", Checked(Passed()), speed=speed)
    found = any_course().lesson(lesson)
    return RunOutcome(found, kind, name, "H200", 1, SIZE, SIZE, (kernel, *others))  # type: ignore[arg-type]


def test_what_a_pass_gains() -> None:
    names = [name for name in any_course().names if name[:2] != "00"]
    data = Measured({(names[0], 4096): 0.5, (names[2], 4096): 9.0, ("cublas", 4096): 50.0})
    fast = Speed(Estimate("H200", SIZE, 1.0, 10_000.0, "issue", {}))
    gain = gain_over(outcome(fast, "03"), names[0], data)
    assert gain is not None
    assert (gain.before, gain.times, gain.of_cublas, gain.measured) == (names[0], 20.0, 0.2, False)
    assert "20% of cuBLAS on an H200" in gain_in_words(gain)
    assert ", 104% of cuBLAS" in gain_in_words(replace(gain, of_cublas=1.04))
    first = gain_over(outcome(fast, "01"), names[0], replace(data, tflops={**data.tflops}))
    assert first is not None
    assert first.times is None
    slow = Row(
        "previous",
        "02 coalesced",
        "",
        "",
        Checked(Passed()),
        speed=Speed(Estimate("H200", SIZE, 1.0, 5e3, "issue", {})),
    )
    elsewhere = gain_over(outcome(fast, "03", slow, kind="gpu", name="NVIDIA T4"), names[0], data)
    assert elsewhere is not None
    assert (elsewhere.before, elsewhere.times, elsewhere.of_cublas) == ("02 coalesced", 2.0, None)
    assert gain_over(outcome(Speed(), "03"), names[0], data) is None


def test_the_measurements_are_there() -> None:
    data = load_measured()
    first, third = any_course().names[1], any_course().names[3]
    fraction = (data.of(third, 4096) or 0) / (data.of("cublas", 4096) or 1)
    assert 0.15 < fraction < 0.25
    assert (data.of(third, 4096) or 0) > 5 * (data.of(first, 4096) or 1e9)
    assert data.of(first, 4097) is None
    assert [data.knows(name) for name in any_course().names[:2]] == [False, True], "a sum is not measured"


def test_without_a_name_a_run_is_of_the_folder_or_of_the_last_kernel(run: Run, course: Path, kernel: Path) -> None:
    """After a pass, the next lesson has no kernel yet: the same command runs the same kernel again."""
    second = course / "lessons" / "02_second"
    assert run("start", "1").code == 0
    kernel.write_text(SOLUTION)
    assert run("run").code == 0
    assert "The first lesson" in run("run").out
    there = run("run", cwd=second)
    assert there.code == 2
    assert "kernel.cu does not exist yet; make it: gemm-lessons start 02" in there.err
    assert run("next").code == 0
    assert "The second lesson" in run("run").out
