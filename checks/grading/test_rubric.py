"""grading.toml: what it says counts, and what is wrong with it is named by line; points follow from outcomes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gemm_lessons.course.folder import CommandError, packaged_course
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.grading.request import assignment_of
from gemm_lessons.grading.rubric import LessonRubric, NearMiss, Points, Rubric, load_rubric, parse_lessons
from gemm_lessons.grading.score import ELSEWHERE, out_of, score

COURSE = packaged_course()
LESSON = COURSE.lesson("block_tile")
GATES = [gate.id for gate in LESSON.gates]
WHOLE = f"""\
seed = 4711
seeds = 2
lessons = ["01-03", "warp_tile"]
near_miss = {{ within = 0.2, worth = 0.25 }}

[points]
compiles = 0
right_values = 6.5

[lesson.block_tile]
points = {{ gates = 4 }}
gates = {{ "{GATES[0]}" = 3 }}
shapes = [[65, 33, 40]]

[lesson.04]
seeds = [7]

[limits]
seconds = 5
"""


def load(folder: Path, text: str) -> Rubric:
    path = folder / "grading.toml"
    path.write_text(text)
    return load_rubric(path, COURSE)


def test_all_that_it_may_say(tmp_path: Path) -> None:
    found = load(tmp_path, WHOLE)
    assert found.lessons == ("01_naive", "02_coalesced", "03_block_tile", "08_warp_tile")
    assert (found.seed, found.seeds, found.seconds, found.memory_gib) == (4711, 2, 5.0, 2.0)
    assert found.near_miss == NearMiss(0.2, 0.25)
    tile = found.by_lesson["03_block_tile"]
    assert tile == LessonRubric(Points(0, 1, 6.5, 4, ((GATES[0], 3.0),)), (Shape(65, 33, 40),))
    assert tile.points.of_gates(LESSON) == dict(zip(GATES, (3.0, 0.5, 0.5), strict=True))
    assert found.by_lesson["04_thread_column"].seeds == (7,)
    assert found.by_lesson["09_double_buffer"].points == Points(0, 1, 6.5, 3)


def test_limits_of_a_lesson(tmp_path: Path) -> None:
    text = "[limits]\nseconds = 50\n[lesson.naive]\nlimits = { seconds = 5 }\n[lesson.03.limits]\nmemory_gib = 1.5\n"
    found = load(tmp_path, text)
    limits = {name: (it.seconds, it.memory_gib) for name, it in found.by_lesson.items()}
    assert limits["01_naive"] == (5, None)
    assert limits["03_block_tile"] == (None, 1.5)
    assert limits["02_coalesced"] == (None, None)
    assert found.seconds == 50
    told: Any = found.as_json()["lessons"]
    assert told["01_naive"]["limits"] == {"seconds": 5, "memory_gib": None}
    with pytest.raises(CommandError, match=r"limits: memory_gib: must be a number from 0.25 to 64, not 0.1"):
        load(tmp_path, "[lesson.naive]\nlimits = { memory_gib = 0.1 }")
    with pytest.raises(CommandError, match=r"second: unknown key; did you mean seconds"):
        load(tmp_path, "[lesson.naive]\nlimits = { second = 1 }")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed = ", r"grading\.toml:1: not valid TOML"),
        ("\nsed = 1", r"grading\.toml:2: sed: unknown key; did you mean seed\?"),
        ("seed = -1", r"grading\.toml:1: seed: -1 is not a seed"),
        ("seed = 1.5", r"grading\.toml:1: seed: 1.5 is not a seed"),
        ("seeds = 0", r"grading\.toml:1: seeds: must be a whole number from 1 to 10"),
        ("lessons = 3", r"grading\.toml:1: lessons: must be a list of lessons"),
        ('lessons = ["blok_tile"]', r"grading\.toml:1: lessons: .*block_tile"),
        ('lessons = ["71-72"]', r"grading\.toml:1: lessons: no lesson from 71-72"),
        ('lessons = ["01-90"]', r"grading\.toml:1: lessons: 01-90; the course has 00 to 27"),
        ("[points]\nruns = -1", r"grading\.toml:2: \[points\] runs: must be a number from 0"),
        ("[points]\nruns = nan", r"grading\.toml:2: \[points\] runs: must be a number"),
        ("[points]\nruns = true", r"grading\.toml:2: \[points\] runs: must be a number"),
        ("[limits]\nseconds = inf", r"grading\.toml:2: \[limits\] seconds: must be a number from 1 to 3600"),
        ("near_miss = 3", r"grading\.toml:1: near_miss: must be a table"),
        ("[lesson.nothing]", r"grading\.toml:1: lesson.nothing: there is no lesson"),
        ("[lesson.03]\n[lesson.block_tile]", r"grading\.toml:2: lesson.block_tile: is lesson 03_block_tile"),
        ("[lesson.03]\nshapes = [[1, 2]]", r"grading\.toml:2: .*is not a shape"),
        ("[lesson.05]\nshapes = [[1, 2, 3]]", r"grading\.toml:2: .*cannot take"),
        ("[lesson.01]\nshapes = [[4096, 4096, 4096]]", r"grading\.toml:2: .*too much work"),
        ('[lesson.03]\ngates = { "barrier" = 1 }', r"grading\.toml:2: .*unknown key"),
        (f'[lesson.03]\ngates = {{ "{GATES[0]}" = 4 }}', r"grading\.toml:2: .*these are 4 points"),
        ("a = " + "[" * 5000, r"grading\.toml"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(CommandError, match=words) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="not found; name the file"):
        load_rubric(tmp_path / "grading.toml", COURSE)
    (tmp_path / "grading.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="not UTF-8"):
        load_rubric(tmp_path / "grading.toml", COURSE)


def test_a_lesson_of_one_s_own_is_known_by_the_course_that_has_it(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r'no lesson "40".*to judge by your own: --course DIR'):
        assignment_of(tmp_path / "in", tmp_path / "out", lessons=["40"])
    root = packaged_course().root
    with pytest.raises(CommandError, match=r'no lesson "40"(?!.*--course)'):
        assignment_of(tmp_path / "in", tmp_path / "out", lessons=["40"], course=root)


def test_lessons_as_people_write_them() -> None:
    for texts in (["02-03"], ["3", "coalesced"], ["03_block_tile,2"], ["3,2..2"]):
        assert parse_lessons(COURSE, texts) == ("02_coalesced", "03_block_tile")


def outcome(verdict: str, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"shapes": [], "compile": {"diagnostics": []}, "findings": [], "gates": []}
    return {"verdict": verdict, **empty, **more}


def test_a_gate_may_be_given_by_its_name(tmp_path: Path) -> None:
    """Rubrics of before had names; the same rubric with ids is equal."""
    by_name = WHOLE.replace(GATES[0], LESSON.gates[0].name)
    assert by_name != WHOLE
    assert load(tmp_path, by_name) == load(tmp_path, WHOLE)


def gates(*values: float) -> list[dict[str, Any]]:
    return [
        {"id": gate.id, "name": gate.name, "limit": gate.at_most, "value": value, "passed": gate.holds(value)}
        for gate, value in zip(LESSON.gates, values, strict=True)
    ]


def test_points_for_how_far_a_kernel_gets() -> None:
    def points(outcome: dict[str, Any], near_miss: NearMiss | None = None) -> float:
        scored = score(outcome, LESSON, LessonRubric(), near_miss or NearMiss())
        assert sum(part.out_of for part in scored.parts) == 10
        assert scored.points == sum(part.points for part in scored.parts)
        assert all(part.why for part in scored.parts)
        return scored.points

    limit = LESSON.gates[0].at_most
    assert limit is not None
    assert points(outcome("compile_failed")) == 0
    assert points(outcome("timed_out")) == points(outcome("faulted")) == 1
    assert points(outcome("wrong_answer")) == 2
    assert points(outcome("gate_missed", gates=gates(limit * 1.05, 1.0, 1.0))) == 9
    assert points(outcome("gate_missed", gates=gates(limit * 1.05, 1.0, 1.0)), NearMiss(0.1, 0.5)) == 9.5
    assert points(outcome("gate_missed", gates=gates(limit * 1.2, 1.0, 1.0)), NearMiss(0.1, 0.5)) == 9
    assert points(outcome("passed", gates=gates(limit, 1.0, 1.0))) == 10


def test_points_add_up_whatever_the_number_of_gates() -> None:
    """Three points for seven gates: what rounding gives one of them, another does without."""
    for number in range(1, 12):
        lesson = replace(LESSON, gates=tuple(replace(LESSON.gates[0], id=f"gate_{n}") for n in range(number)))
        met = [{"id": gate.id, "name": gate.name, "value": 0.0, "passed": True} for gate in lesson.gates]
        scored = score(outcome("passed", gates=met), lesson, LessonRubric(), NearMiss())
        assert scored.points == out_of(lesson, LessonRubric()) == 10
        assert len({part.out_of for part in scored.parts[3:]}) <= 2


def test_a_lesson_without_gates_gives_their_points_for_right_values(tmp_path: Path) -> None:
    plain = replace(LESSON, gates=())
    assert score(outcome("passed"), plain, LessonRubric(), NearMiss()).points == 10
    assert score(outcome("wrong_answer"), plain, LessonRubric(), NearMiss()).points == 2


def test_messages_tell_no_hidden_shape() -> None:
    known, hidden = LESSON.shapes.check[0], Shape(77, 5, 3)

    def said(*wrong: Shape) -> str:
        shapes = [{"m": it.m, "n": it.n, "k": it.k, "verdict": "wrong_answer"} for it in wrong]
        scored = score(outcome("wrong_answer", shapes=shapes), LESSON, LessonRubric(), NearMiss())
        return " ".join((scored.message, *(part.why for part in scored.parts)))

    assert str(known) in said(known, hidden)
    assert ELSEWHERE in said(hidden)
    for text in (said(known, hidden), said(hidden)):
        assert "77" not in text

    fault = {"severity": "error", "line": 7, "message": "C: byte 1540 of 1540"}
    there = [{"m": 77, "n": 5, "k": 3, "verdict": "faulted", "hidden": True}]
    scored = score(outcome("faulted", findings=[fault], shapes=there), LESSON, LessonRubric(), NearMiss())
    assert scored.message == f"it was stopped by a fault on {ELSEWHERE}: line 7"

    fault = {"severity": "error", "line": 7, "message": "As: \x1b[31mout of bounds\n here"}
    scored = score(outcome("faulted", findings=[fault]), LESSON, LessonRubric(), NearMiss())
    assert scored.message.startswith("it was stopped by a fault: line 7: As: ")
    assert scored.message.isprintable()


def test_lanes_that_decide_are_for_the_teacher_to_look_at() -> None:
    note = {"kind": "active_lanes", "severity": "note", "line": 7, "message": "which lanes run together"}
    scored = score(outcome("passed", findings=[note]), LESSON, LessonRubric(), NearMiss())
    (said,) = (it for it in scored.look_at if "lanes" in it)
    assert said.startswith("line 7: ")
    assert "lanes" not in "".join(score(outcome("passed"), LESSON, LessonRubric(), NearMiss()).look_at)
