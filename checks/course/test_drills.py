"""Drills: numbers are drawn anew, answers are the engine's, and mistakes in drills.toml are named."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemm_lessons.authoring.candidate import Candidate, Shared
from gemm_lessons.authoring.questions import FEWEST, MOST, numbers_can_be_drawn
from gemm_lessons.course.drills import FIELD, Drawn, Drill, load_drills
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson import Lesson, LessonError
from gemm_lessons.engine.arguments.expression import ExpressionError
from gemm_lessons.engine.costs import banks

COURSE = packaged_course()
HEAD = '[a]\nask = "x {n}"\nwhy = "y"\ndraw = { n = [1, 2] }\n'


def lesson_with(tmp_path: Path, text: str) -> Lesson:
    folder = tmp_path / "03_block_tile"
    folder.mkdir(exist_ok=True)
    (folder / "drills.toml").write_text(text)
    return replace(COURSE.lesson("block_tile"), directory=folder)


def the_drill(tmp_path: Path, text: str) -> Drill:
    [drill] = load_drills(lesson_with(tmp_path, text))
    return drill


def drawn(tmp_path: Path, keys: str, **values: int) -> Drawn:
    names = ", ".join(f"{name} = [{value}]" for name, value in values.items())
    return the_drill(tmp_path, f'[a]\nask = "x"\nwhy = "y"\ndraw = {{ {names} }}\n{keys}').at(values)


def flaws(lesson: Lesson, tmp_path: Path) -> list[str]:
    return list(numbers_can_be_drawn(Candidate(Shared.of(COURSE, str, ()), lesson, tmp_path)))


@pytest.mark.parametrize("name", COURSE.names)
def test_a_lesson_s_drills_can_be_drawn(name: str, tmp_path: Path) -> None:
    lesson = COURSE.lesson(name)
    assert FEWEST <= len(load_drills(lesson)) <= MOST
    assert flaws(lesson, tmp_path) == []
    assert f"`gemm-lessons drill {lesson.number:02}`" in lesson.text_path.read_text().partition("\n## Predict\n")[0]


@pytest.mark.parametrize("name", COURSE.names)
def test_texts_have_all_their_numbers(name: str) -> None:
    for drill in load_drills(COURSE.lesson(name)):
        for seed in range(20):
            question = drill.drawn(random.Random(seed))
            assert not FIELD.search(question.ask + question.why)
            assert all(type(number) is int and number >= 0 for number in question.answer)


@pytest.mark.parametrize("stride", [1, 2, 3, 7, 8, 32, 33])
@pytest.mark.parametrize("vector", [1, 2, 4])
def test_answers_are_the_engine_s(tmp_path: Path, stride: int, vector: int) -> None:
    addresses = np.array([[lane * stride * vector * 4 for lane in range(32)]])
    keys = f'"lane * {stride} * V"\nvector = "V"\n'
    assert drawn(tmp_path, f"sectors = {keys}", V=vector).answer == (banks.sectors(addresses, None, 4 * vector)[0],)
    for access in ("load", "store"):
        [cost] = banks.wavefronts(addresses, None, 4 * vector, access)[0]
        assert drawn(tmp_path, f'wavefronts = {keys}access = "{access}"', V=vector).answer == (cost,)


def test_what_can_be_counted_on_fingers(tmp_path: Path) -> None:
    assert drawn(tmp_path, 'bank = "r * 33 + 5"', r=3).answer == (8,)
    assert drawn(tmp_path, 'bank = "r"\nelement = 8', r=17).answer == (2,)
    assert drawn(tmp_path, 'sectors = "lane * s"', s=1).answer == (4,)
    assert drawn(tmp_path, 'sectors = "lane * s"\nelement = 1', s=1).answer == (1,)
    assert drawn(tmp_path, 'wavefronts = "lane * s"', s=32).answer == (32,)
    assert drawn(tmp_path, 'wavefronts = "lane * s"\nelement = 2\nvector = 8\naccess = "matrix"', s=64).answer == (32,)
    assert drawn(tmp_path, 'answer = ["t // 8", "xor(t % 8, 5)"]', t=30).answer == (3, 3)


def test_a_text_shows_c_with_numbers(tmp_path: Path) -> None:
    text = '[a]\nask = "{n}, {n * 2 + 1}, {index}"\nwhy = "{answer}"\nsectors = "xor(lane // n, lane) * n"\n'
    question = the_drill(tmp_path, text + "draw = { n = [4] }").drawn(random.Random(1))
    assert question.ask == "4, 9, (lane / 4 ^ lane) * 4"
    assert question.why == str(*question.answer)
    working = drawn(tmp_path, 'answer = ["n // (2 + 1) * 2", "n"]', n=7).drill
    assert replace(working, why="{working}; {answer}").at({"n": 7}).why == "7 / (2 + 1) * 2 = 4, 7 = 7; 4, 7"


def test_numbers_are_drawn_within_their_bounds(tmp_path: Path) -> None:
    text = HEAD.replace("n = [1, 2]", 'n = [4, "2 * 4"], m = "n .. 2 * n", s = "m * n", z = 3') + 'answer = "s"'
    drill = the_drill(tmp_path, text)
    seen = [drill.drawn(random.Random(seed)).values for seed in range(300)]
    assert {it["n"] for it in seen} == {4, 8}
    assert {it["m"] for it in seen} == set(range(4, 17))
    assert all(it["n"] <= it["m"] <= 2 * it["n"] and it["s"] == it["m"] * it["n"] and it["z"] == 3 for it in seen)
    assert drill.drawn(random.Random(5)) == drill.drawn(random.Random(5))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("12", (12,)), (" 3 * 4 ", (12,)), ("1,024", (1024,)), ("37 / 16", (2,)), ("37 // 16", (2,)), ("-1", (-1,)),
        ("8.0", None), ("2.5", None), ("1 2", None), ("x", None), ("1,2", None), ("2 ^ 3", None), ("1 / 0", None),
        ("many", None), ("9" * 400, None), ("()", None),
    ],
)  # fmt: skip
def test_what_one_number_may_look_like(tmp_path: Path, text: str, answer: tuple[int] | None) -> None:
    parsed(drawn(tmp_path, 'answer = "n"', n=1), text, answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("3, 4", (3, 4)), ("3,4", (3, 4)), ("3 4", (3, 4)), ("(3, 4)", (3, 4)), ("[3, 2 + 2]", (3, 4)),
        ("2 + 1, (2 + 2) * 1", (3, 4)), ("3", None), ("3 4 5", None), ("3, 4, 5", None), ("3,", None), ("", None),
    ],
)  # fmt: skip
def test_what_two_numbers_may_look_like(tmp_path: Path, text: str, answer: tuple[int, int] | None) -> None:
    parsed(drawn(tmp_path, 'answer = ["n", "n"]', n=1), text, answer)


def parsed(question: Drawn, text: str, answer: tuple[int, ...] | None) -> None:
    if answer is not None:
        assert question.parse(text) == answer
        return
    with pytest.raises(ExpressionError):
        question.parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = 1", r"drills.toml:1: a: must be a table"),
        ("[a", r"drills.toml:1: not valid TOML"),
        (HEAD, r"drills.toml:1: a: needs one of answer, sectors, bank, wavefronts; it has none"),
        (HEAD + 'bank = "n"\nsectors = "n"', r"drills.toml:1: a: needs one of .*; it has sectors and bank"),
        (HEAD + 'answer = "m"', r"drills.toml:5: \[a\] answer: .*uses m,"),
        (HEAD + 'answer = "lane"', r"drills.toml:5: \[a\] answer: .*uses lane,"),
        (HEAD + 'answer = "n / 2"', r"drills.toml:5: \[a\] answer: .*write // for C's division"),
        (HEAD + 'answer = "n * 2.0"', r"drills.toml:5: \[a\] answer: .*not arithmetic of whole numbers"),
        (HEAD + "answer = []", r"drills.toml:5: \[a\] answer: must be an expression"),
        (HEAD + 'bank = ["n", "n"]', r"drills.toml:5: \[a\] bank: must be an expression"),
        (HEAD + 'answer = "n"\nvector = 2', r"drills.toml:6: \[a\] vector: belongs to sectors, bank, wavefronts"),
        (HEAD + 'bank = "n"\nelement = 3', r"drills.toml:6: \[a\] element: 3 is none of 1, 2, 4, 8, 16"),
        (HEAD + 'bank = "n"\naccess = "lod"', r"drills.toml:6: \[a\] access: 'lod' is none of load, store, matrix"),
        (HEAD + 'answer = "n"\nwithin = 3', r"drills.toml:6: \[a\] within: unknown key"),
        (HEAD.replace("{n}", "{m}") + 'answer = "n"', r"drills.toml:2: \[a\] ask: .*uses m,"),
        (HEAD.replace("{n}", "{index}") + 'answer = "n"', r"drills.toml:2: \[a\] ask: .*uses index,"),
        (HEAD.replace("{n}", "{answer}") + 'answer = "n"', r"drills.toml:2: \[a\] ask: .*uses answer,"),
        (HEAD.replace('"y"', '"{working}"') + 'bank = "n"', r"drills.toml:3: \[a\] why: .*uses working,"),
        (HEAD.replace('"y"', '"{}"') + 'bank = "n"', r"drills.toml:3: \[a\] why: .*is not arithmetic"),
        (HEAD.replace("n = [1, 2]", "") + 'answer = "1"', r"\[a\] draw: draws nothing"),
        (HEAD.replace("[1, 2]", "[]") + 'answer = "n"', r"drills.toml:4: \[a\] draw: n: has nothing to draw from"),
        (HEAD.replace("[1, 2]", '"1 .. k"') + 'answer = "n"', r"drills.toml:4: \[a\] draw: n: .*uses k,"),
        (HEAD.replace("[1, 2]", "true") + 'answer = "n"', r"drills.toml:4: \[a\] draw: n: must be an expression"),
        (HEAD.replace("[1, 2]", "[1], answer = 2") + 'bank = "n"', r"\[a\] draw: answer: is not a name for a number"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(LessonError, match=says):
        load_drills(lesson_with(tmp_path, text))


OTHER = HEAD.replace("[a]", "[b]") + 'answer = "n"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + 'answer = "n - 2"', r'drills.toml:1: \[a\] has no answer for some numbers: "n - 2" is -1'),
        (HEAD + 'answer = "4 // (n - 1)"', r"\[a\] has no answer for some numbers: .* is inf"),
        (HEAD.replace("[1, 2]", '"4 .. 3"') + 'answer = "n"', "n has nothing to draw from 4 to 3"),
        (HEAD + 'sectors = "lane + n"\nvector = 2', "not aligned to the 8 bytes"),
        (HEAD + 'sectors = "lane"\nvector = "3 * n"', "a lane accesses (12|24) bytes"),
        (HEAD.replace("{n}", "") + 'answer = "n"', r"\[a\] asks the same each time"),
        (
            HEAD.replace("{n}", "{BM}").replace("n = [1, 2]", "BM = [16, 32]") + 'answer = "BM"',
            r"\[a\] may ask about the lesson's own tile, BM = 32",
        ),
    ],
)
def test_a_drill_that_cannot_be_drawn_is_a_flaw(tmp_path: Path, text: str, says: str) -> None:
    [flaw] = flaws(lesson_with(tmp_path, f"{text}\n{OTHER}"), tmp_path)
    assert re.search(says, flaw), flaw


def test_a_good_one_is_no_flaw(tmp_path: Path) -> None:
    text = HEAD.replace("{n}", "{BM} {BN}").replace("n = [1, 2]", "BM = [16, 32], BN = [16, 64]") + 'answer = "BM * BN"'
    assert flaws(lesson_with(tmp_path, f"{text}\n{OTHER}"), tmp_path) == []
    assert "asks 1 questions; ask 2 to 5" in str(flaws(lesson_with(tmp_path, text), tmp_path))


def test_a_lesson_may_have_none(tmp_path: Path) -> None:
    lesson = replace(COURSE.lesson("block_tile"), directory=tmp_path / "03_block_tile")
    assert load_drills(lesson) == ()
    assert flaws(lesson, tmp_path) == []
