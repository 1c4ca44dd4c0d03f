"""``gemm-lessons grade``, driven through the real binary over a tiny course."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from checks import forks
from checks.cli.tiny_course import BINARY, SOLUTION, STUB, WITH_BARRIER, Ran, environment, write_course

WRONG = SOLUTION.replace("+=", "-=")
Grade = Callable[..., Ran]


def grade_in(folder: Path, *arguments: str) -> Ran:
    done = subprocess.run(
        [*BINARY, "grade", *arguments], cwd=folder, env=environment(), capture_output=True, text=True, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)


def write_class(folder: Path) -> Path:
    write_course(folder / "course")
    for path in (folder / "course").rglob("lesson.toml"):  # the hidden shapes of a graded run are small
        path.write_text(path.read_text().replace("check = [", "at_most = { M = 64, N = 64, K = 64 }\ncheck = [", 1))
    for name, text in {
        "ana/01.cu": SOLUTION,
        "ana/02.cu": WITH_BARRIER,
        "bo/lessons/01_first/kernel.cu": WRONG,
        "bo/lessons/02_second/kernel.cu": SOLUTION,
        "chidi/01.cu": STUB,
    }.items():
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "in" / "roster.csv").write_text("id,name\nana,Ana Lima\nbo,Bo Li\nchidi,\ndan,Dan Roe\n")
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class that is not graded."""
    return write_class(tmp_path_factory.mktemp("written"))


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A class, and what grading it said."""
    folder = write_class(tmp_path_factory.mktemp("graded"))
    return folder, grade_in(folder, "in", "--course", "course", "--lessons", "01-02", "--seed", "5", "--out", "out")


@pytest.fixture
def grade(graded: tuple[Path, Ran]) -> Grade:
    return lambda *arguments: grade_in(graded[0], *arguments)


def test_a_class_is_graded(graded: tuple[Path, Ran]) -> None:
    folder, ran = graded
    assert ran.code == 0, ran.err
    assert ran.err.startswith("4 students, 2 lessons, seed 5\n")
    rows = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines() if line.strip()}
    assert rows["ana"] == ["20", "+", "+"]
    assert rows["bo"] == ["9", "w", "g"]
    assert rows["chidi"] == rows["dan"] == ["0", ".", "."]
    assert max(map(len, ran.out.splitlines())) <= 80
    result = json.loads((folder / "out" / "results" / "bo" / "02_second.json").read_text())
    assert (result["name"], result["status"], result["verdict"]) == ("Bo Li", "graded", "gate_missed")
    assert result["file"] == result["outcome"]["kernel"] == "lessons/02_second/kernel.cu"
    assert str(folder) not in json.dumps(result), "nothing depends on where it lay"
    untouched = json.loads((folder / "out" / "results" / "chidi" / "01_first.json").read_text())
    assert untouched["message"] == "the stub as it came: nothing is filled in"
    for name in ("grades.csv", "grading.json", "index.html"):
        assert (folder / "out" / name).is_file()


def test_the_rest_is_kept_and_a_case_can_be_repeated(graded: tuple[Path, Ran], grade: Grade) -> None:
    folder, _ = graded
    before = {path: path.stat().st_mtime_ns for path in (folder / "out" / "results").rglob("*.json")}
    again = grade("in", "--course", "course", "--lessons", "01-02", "--out", "out")
    assert (again.code, "seed 5" in again.err, "8 of 8 were already graded" in again.err) == (0, True, True)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    once = grade("in", "--course", "course", "--out", "out", "--again", "bo", "--lesson", "second")
    assert once.code == 0, once.err
    assert "the same as before" in once.out
    assert "barriers: 0 of 3: it is 0; it must be at least 1." in once.out


def test_shards_and_another_number_of_processes_give_the_same_grades(graded: tuple[Path, Ran], tmp_path: Path) -> None:
    folder, _ = graded
    for part in ("1", "2"):
        ran = grade_in(
            folder, "in", "--course", "course", "--seed", "5", "--shard", f"{part}/2", "--out", str(tmp_path / part),
            "--processes", "1",
        )  # fmt: skip
        assert ran.code == 0, ran.err
        assert f"shard {part} of 2: 4 kernels" in ran.err
    lone = grade_in(folder, "merge", str(tmp_path / "1"), "--out", str(tmp_path / "half"))
    assert (lone.code, "4 of 8 grades are missing; shard 2/2 is not among the folders" in lone.err) == (3, True)
    both = grade_in(folder, "merge", str(tmp_path / "2"), str(tmp_path / "1"), "--out", str(tmp_path / "both"))
    assert both.code == 0, both.err
    assert _without_seconds(tmp_path / "both") == _without_seconds(folder / "out")
    assert (tmp_path / "both" / "grades.csv").read_text() == (folder / "out" / "grades.csv").read_text()


def _without_seconds(out: Path) -> dict[str, dict[str, object]]:
    found = {str(path.relative_to(out)): json.loads(path.read_text()) for path in out.glob("results/*/*.json")}
    return {name: grade | {"seconds": None} for name, grade in found.items()}


def test_the_same_judgement_through_pytest(graded: tuple[Path, Ran], tmp_path: Path) -> None:
    """What the command has judged is not judged again, so this shows that both have the same cases."""
    folder, _ = graded
    (folder / "test_other.py").write_text("def test_other(): assert False, 'no test but those of the class is run'")
    out = tmp_path / "grades"
    shutil.copytree(folder / "out", out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.json")}
    command = [sys.executable, "-m", "pytest", "-p", "gemm_lessons.grading.plugin", "-rs", "--submissions", "in"]
    for more in ((), ("-n", "2")):
        done = subprocess.run(
            [*command, "--course", "course", "--lessons", "01-02", "--grades", str(out), *more], cwd=folder,
            env=environment(), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 1, done.stdout + done.stderr
        assert "2 failed, 2 passed, 4 skipped" in done.stdout
        assert "barriers: it is 0; it must be at least 1. This lesson is about barriers." in done.stdout
        assert "nothing was handed in for this lesson" in done.stdout
        assert "Traceback" not in done.stdout
    assert {path: path.stat().st_mtime_ns for path in before} == before
    done = subprocess.run([*command, "--lessons", "99"], cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 4
    assert "no lesson" in done.stderr


WRONG_COMMANDS = {
    (): "Missing argument",
    ("nowhere",): "no such file",
    ("in", "--lessons", "99"): "no lesson",
    ("in", "--shard", "4/3"): "is not a shard",
    ("in", "--shard", "1/3"): "need one seed",
    ("in", "--format", "excel"): 'there is no format "excel"',
    ("in", "--again", "ana"): "belong together",
    ("in", "--again", "eve", "--lesson", "01", "--out", "out"): "has no grade of eve",
    ("in", "--out", "in/grades"): "is inside the submissions",
    ("in", "--course", "in"): "is not a course",
    ("in", "--executor", "slurm"): "there is no executor",
    ("in", "--config", "nowhere.toml"): "not found",
    ("in", "--roster", "nowhere.csv"): "no such file",
    ("merge", "nowhere"): "is not a folder of gemm-lessons grade",
    ("merge",): "Missing argument",
}


@pytest.mark.parametrize("arguments", WRONG_COMMANDS, ids=" ".join)
def test_wrong_commands(request: pytest.FixtureRequest, arguments: tuple[str, ...]) -> None:
    """Only those that name a folder with grades wait for grading, which takes seconds in each process of pytest."""
    folder = request.getfixturevalue("graded")[0] if "out" in arguments else request.getfixturevalue("written")
    more = () if "--course" in arguments or arguments[:1] in ((), ("merge",)) else ("--course", "course")
    ran = forks.run(["grade", *arguments, *more], cwd=folder, env=environment())
    assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
    assert WRONG_COMMANDS[arguments].lower() in ran.stderr.lower()
    assert "Traceback" not in ran.stderr


def test_ctrl_c_ends_it_all_and_it_goes_on(tmp_path: Path) -> None:
    folder = write_class(tmp_path)
    slow = SOLUTION.replace("acc +=", "for (volatile int i = 0; i < 100000000; i++) acc +=")
    (folder / "in" / "ana" / "02.cu").write_text(slow)
    arguments = ("in", "--course", "course", "--seed", "5", "--out", "out", "--processes", "1")
    process = subprocess.Popen(
        [*BINARY, "grade", *arguments], cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    first = folder / "out" / "results" / "ana" / "01_first.json"
    until = time.monotonic() + 120
    while not first.exists() and time.monotonic() < until:
        time.sleep(0.05)
    workers = _below(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command resumes from there" in err
    assert "Traceback" not in err
    assert workers
    until = time.monotonic() + 20
    while any(map(_lives, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in workers if _lives(pid)], "no kernel runs on"
    assert json.loads(first.read_text())["verdict"] == "passed"
    (folder / "in" / "ana" / "02.cu").write_text(WITH_BARRIER)
    ran = grade_in(folder, *arguments)
    assert ran.code == 0
    assert " of 8 were already graded" in ran.err


def _below(pid: int) -> list[int]:
    """All processes that a process has started, and theirs."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_below(child)]
    return found


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_help_stands_for_the_command(grade: Grade) -> None:
    ran = grade("--help")
    assert ran.code == 0
    assert "gemm-lessons grade submissions --lessons 01-09 --out grades" in ran.out
    assert ran.out.startswith("Usage: gemm-lessons grade [OPTIONS]")
