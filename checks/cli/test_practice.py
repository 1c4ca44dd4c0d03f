"""Predict, then run; find the bug: driven through the real binary."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from checks import forks
from checks.cli.tiny_course import SOLUTION, STUB, TEXT, Run, environment

QUESTIONS = """\
[products]
ask = "How many multiply-adds?"
answer = "ffma"
why = "One for each element and k."

[barriers]
ask = "Barriers: less, the same or more?"
answer = "barriers"
than = "ffma"

[loads]
ask = "How many requests?"
answer = "global_load_requests"
"""


@pytest.fixture
def asking(course: Path) -> Path:
    """Lesson 01, with questions and a text that answers them."""
    folder = course / "lessons" / "01_first"
    (folder / "predict.toml").write_text(QUESTIONS)
    (folder / "README.md").write_text(TEXT.format(what="first") + "\n## What comes out\n\nIt is 512.\n\n## Pitfalls\n")
    return folder


def test_predict_then_run(run: Run, course: Path, asking: Path, kernel: Path) -> None:
    before = run("read", "01").out
    assert "512" not in before
    assert "gemm-lessons predict 01" in before
    assert "Pitfalls" in before
    assert "It is 512" in run("read", "01", "--all").out
    assert "It is 512" in run("read", "01", "--raw").out
    assert "gemm-lessons predict 01" in run("start", "01").out
    assert "gemm-lessons predict 01" in run("start", "01").out, "as long as nothing was counted"
    predicted = run("predict", "01", "M * N * K", "fewer", "-")
    assert predicted.code == 0
    assert "2 of 3 predicted" in predicted.out
    kernel.write_text(STUB)
    assert "redictions" not in run("run", "01").out, "what a wrong kernel counts is no answer"
    kernel.write_text(SOLUTION)
    scored = run("run", "01", "--details").out
    assert "Your predictions: 2 of 2 right" in scored
    assert "One for each element and k." in scored
    stored = json.loads((course / ".gemm-lessons" / "progress.json").read_text())["lessons"]["01_first"]
    assert stored["guesses"] == {"products": 512, "barriers": "less"}
    assert stored["counted"] == {"products": 512, "barriers": "less", "loads": 32}
    assert "It is 512" in run("read", "01").out
    assert "redictions" not in run("run", "01").out, "told once"
    assert "gemm-lessons predict 01" not in run("start", "01").out
    assert "2 of 2 right" in run("predict", "01").out
    assert run("predict", "01", "1").code == 2
    assert "1 of 3 predicted" in run("predict", "01", "100", "--again").out
    again = run("run", "01", "--details").out
    assert "0 of 1 right" in again
    assert "off" in again


def test_questions_that_break_later_hide_no_verdict(run: Run, asking: Path, kernel: Path) -> None:
    assert run("predict", "01", "512").code == 0
    kernel.write_text(SOLUTION)
    (asking / "predict.toml").write_text("[products")
    done = run("run", "01")
    assert done.code == 0, done.err
    assert "PASSED" in done.out
    assert "note: " in done.err
    assert "predict.toml:1: not valid TOML" in done.err


def test_who_passes_without_predicting_reads_all(run: Run, asking: Path, kernel: Path) -> None:
    kernel.write_text(SOLUTION)
    assert "redictions" not in run("run", "01").out
    assert "It is 512" in run("read", "01").out


def test_answers_are_asked_for_and_kept_one_by_one(run: Run, course: Path, asking: Path) -> None:
    def typed(text: str) -> subprocess.CompletedProcess[str]:
        return forks.run(["predict", "01"], cwd=course, env=environment(), text=text)

    wrong = typed("512\nmany\n")
    assert wrong.returncode == 2
    assert '"many" is none of less, the same, more' in wrong.stderr
    more = typed("\nmore\n")
    assert more.returncode == 0
    assert "so far: 512; Enter keeps it" in more.stdout
    assert "2 of 3 predicted" in more.stdout
    assert "At M, N, K = 8, 16, 4" in more.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("01", "x"), "question 1 (How many multiply-adds?)"),
        (("01", "1", "less", "3", "4"), "asks 3 questions, but you gave 4 answers"),
        (("02",), "lesson 02_second has no questions"),
        (("01", "more"), '"more" is not an answer here: this question asks for a number'),
    ],
)
def test_wrong_answers_to_the_command(run: Run, asking: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run("predict", *arguments)
    assert result.code == 2
    assert message in result.err


def test_broken_questions_are_named(run: Run, asking: Path) -> None:
    (asking / "predict.toml").write_text("[a]\nask = 3\n")
    result = run("predict", "01")
    assert result.code == 3
    assert "predict.toml:1: [a] answer: is missing" in result.err


DRILLS = """\
[double]
ask = "What is {n} + {n}?"
answer = "n + n"
why = "{working}."
draw = { n = [21] }

[place]
ask = "In which row and column is thread {t}, {C} in a row?"
answer = ["t // C", "t % C"]
why = "{working}."
draw = { C = [8], t = [20] }

[sectors]
ask = "Lane l loads float l * {s}. How many sectors?"
sectors = "lane * s"
why = "They are {4 * s} bytes apart."
draw = { s = [2] }
"""


@pytest.fixture
def drilling(course: Path) -> Path:
    path = course / "lessons" / "01_first" / "drills.toml"
    path.write_text(DRILLS)
    return path


def drill(course: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    return forks.run(["drill", "01", *options], cwd=course, env=environment(), text=text)


def test_drill_says_what_is_right(course: Path, drilling: Path) -> None:
    done = drill(course, "42\n2 4\n9\n")
    assert done.returncode == 0, done.stderr
    assert "What is 21 + 21?" in done.stdout
    assert done.stdout.count("right\n") == 3
    assert "It is 8. They are 8 bytes apart." in done.stdout
    assert "2 of 3 right" in done.stdout
    assert not (course / ".gemm-lessons" / "progress.json").exists(), "a drill is not kept"
    wrong = drill(course, "43\n(2, 5)\n8\n").stdout
    assert "It is 42. 21 + 21 = 42." in wrong
    assert "It is 2, 4. 20 / 8 = 2, 20 % 8 = 4." in wrong
    assert "1 of 3 right" in wrong


@pytest.mark.parametrize(("text", "said"), [("", "0 of 0"), ("\n-\n8\n", "1 of 1"), ("42", "1 of 1")])
def test_a_drill_skipped_gives_nothing_away(course: Path, drilling: Path, text: str, said: str) -> None:
    done = drill(course, text)
    assert done.returncode == 0
    assert f"{said} right" in done.stdout
    assert "It is" not in done.stdout


def test_closed_stdin_skips_every_question(course: Path, drilling: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *forks.BINARY, "drill", "01"]
    done = subprocess.run(closed, cwd=course, env=environment(), capture_output=True, text=True)
    assert (done.returncode, "0 of 0 right" in done.stdout) == (0, True), done.stderr


def test_a_drill_s_seed_repeats_its_numbers(course: Path, drilling: Path) -> None:
    drilling.write_text(DRILLS.replace("[21]", '"1 .. 100000"'))
    first, other = (drill(course, "", "--seed", seed).stdout for seed in ("1", "2"))
    assert first == drill(course, "", "--seed", "1").stdout
    assert first.splitlines()[:6] != other.splitlines()[:6]
    drawn = drill(course, "").stdout
    again = drawn.partition("gemm-lessons drill 01 --seed ")[2].strip()
    assert drill(course, "", "--seed", again).stdout == drawn


def test_what_a_drill_cannot_read(run: Run, course: Path, drilling: Path) -> None:
    refused = drill(course, "42\nmany\n")
    assert refused.returncode == 2
    assert 'question 2 (In which row and column is thread 20, 8 in a row?): "many" is not an answer' in refused.stderr
    assert "It is" not in refused.stdout
    none = run("drill", "02")
    assert none.code == 2
    assert "lesson 02_second has no drills; its text: gemm-lessons read 02" in none.err
    drilling.write_text(DRILLS.replace("n + n", "n - 22"))
    broken = drill(course, "")
    assert broken.returncode == 3
    assert 'drills.toml:1: [double] "n - 22" is -1' in broken.stderr
    drilling.write_text("[a]\nask = 3\n")
    assert "drills.toml:1: a: needs one of answer" in drill(course, "").stderr


def test_start_and_next_name_the_drill(run: Run, course: Path, drilling: Path) -> None:
    assert "To warm up: gemm-lessons drill 01" in run("next").out
    assert "drill" not in run("start", "02").out
    assert "drill" not in run("start", "01").out, "only before the kernel"


PITFALLS = """\
[not_added]
bug = "acc was set, not added to."
edits = [["acc += A", "acc = A"]]

[past_the_end]
bug = "the guard let too many rows in."
edits = [["    if (row < M && col < N)\\n        for", "    if (row <= M && col < N)\\n        for"]]

[shown_only]
edits = [["float acc = 0.0f;", "float acc = 1.0f;"]]
"""


@pytest.fixture
def bugs(course: Path) -> Path:
    folder = course / "lessons" / "01_first"
    (folder / "pitfalls.toml").write_text(PITFALLS)
    (folder / "solution.cu").write_text(SOLUTION.replace("// TODO(1):", "// (1)"))
    return folder / "bug.cu"


def test_find_the_bugs(run: Run, course: Path, bugs: Path) -> None:
    assert run("run", "01", "--bug").code == 2
    first = run("bug", "01")
    assert first.code == 0
    assert "gemm-lessons run 01 --bug" in first.out
    handed = bugs.read_text()
    assert "(1)" not in handed
    assert "for threads inside" not in handed, "what a step does would give it away"
    assert ("acc = A" in handed) != ("row <= M" in handed), "one thing is wrong, and it is a bug"
    said = run("run", "01", "--bug")
    assert said.code == 1
    assert "gemm-lessons run 01 --bug" in said.out
    assert "Fixed" not in said.out
    assert "gemm-lessons hint" not in said.out, "hints are about TODOs"
    bugs.write_text(handed + "// mine\n")
    second = run("bug", "01", "--seed", "1")
    assert "kept as lessons/01_first/bug.cu.bak-1" in second.out
    assert bugs.with_name("bug.cu.bak-1").read_text() == handed + "// mine\n"
    same = bugs.read_text()
    assert "kept as" not in run("bug", "01", "--seed", "1").out
    assert bugs.read_text() == same, "a seed is a bug"
    bugs.write_text((bugs.parent / "solution.cu").read_text())
    mended = run("run", "01", "--bug", "--details")
    assert mended.code == 0
    what = "acc was set, not added to." if "acc = A" in same else "the guard let too many rows in."
    assert f"Fixed: {what}" in mended.out
    assert "1 of 2 bugs" in mended.out
    assert "gemm-lessons next" not in mended.out, "a bug that is mended is no lesson passed"
    assert "Fixed" not in run("run", "01", "--bug").out, "told once"
    assert "1 of 2 bugs of this lesson fixed" in run("bug", "01").out
    other = bugs.read_text()
    assert other != same, "one that was mended does not come again while there are others"
    stored = json.loads((course / ".gemm-lessons" / "progress.json").read_text())["lessons"]["01_first"]
    assert len(stored["mended"]) == 1
    assert stored["bug"] not in stored["mended"]
    assert not stored["passed"]


def test_a_lesson_without_bugs_says_so(run: Run, course: Path) -> None:
    result = run("bug", "02")
    assert result.code == 2
    assert "lesson 02_second has no bugs to find" in result.err


def test_a_course_of_ones_own_gets_bugs_from_the_package(run: Run, tmp_path: Path) -> None:
    assert run("init", "mine", cwd=tmp_path).code == 0
    mine = tmp_path / "mine"
    assert not list(mine.rglob("pitfalls*"))
    assert run("bug", "01", "--seed", "3", "--peek", cwd=mine).code == 0
    assert "This kernel has one bug" in (mine / "lessons" / "01_naive" / "bug.cu").read_text()
