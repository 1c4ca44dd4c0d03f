"""``run``, end to end, over the tiny course: verdicts, JSON, the table at every width, colours."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from checks import forks
from checks.cli.tiny_course import GATE, KERNEL, SOLUTION, STUB, Run, environment
from gemm_lessons.cli.run import RunCommand, _still_open, options
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.judging.verdict import Passed
from gemm_lessons.running.outcome import RunOutcome

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_a_solved_lesson_passes(run: Run, kernel: Path) -> None:
    kernel.write_text(SOLUTION)
    result = run("run", "01", "--details")
    assert result.code == 0
    assert result.err == ""
    assert "PASSED" in result.out
    assert "Next, lesson 02: gemm-lessons next" in result.out
    assert "\x1b" not in result.out


def test_a_pass_at_another_shape_names_the_run_that_counts(run: Run, kernel: Path) -> None:
    kernel.write_text(SOLUTION)
    result = run("run", "01", "--shape", "3,5,7", "--details")
    assert result.code == 0
    assert "To pass the lesson: gemm-lessons run 01\n" in result.out
    assert "gemm-lessons next" not in result.out


def test_a_pass_at_another_shape_leads_on_once_the_lesson_has_passed(run: Run, kernel: Path) -> None:
    kernel.write_text(SOLUTION)
    run("run", "01")
    assert "Next: gemm-lessons next" in run("run", "01", "--shape", "3,5,7").out


@pytest.mark.parametrize(("solved", "says"), [(4, "TODO(5) to TODO(8)"), (7, "TODO(8)"), (8, "")])
def test_what_is_open_for_another_type_is_named(tmp_path: Path, solved: int, says: str) -> None:
    course = packaged_course()
    lesson = load_lesson(course.lessons_dir / course.resolve("dp4a"))
    path = tmp_path / "kernel.cu"
    done = rf"(// TODO\([1-{solved}]\).*\n)"
    path.write_text(re.sub(done, r"\1        written();\n", lesson.stub_path.read_text()))
    right = cast(RunOutcome, SimpleNamespace(verdict=Passed()))
    command = RunCommand(course, lesson, path, None, (), "", counts=True, is_plain=True)
    said = f"Still open: {says}, for gemm-lessons run 25 --type halves" if says else ""
    assert _still_open(command, right) == said
    assert not _still_open(replace(command, counts=False), right)


def test_a_stub_does_not(run: Run, kernel: Path) -> None:
    kernel.write_text(STUB)
    result = run("run", "01", "--details")
    assert result.code == 1
    assert "NOT FINISHED: 0 of 1 TODO written" in result.out
    assert "TODO(1) in line 6 is still open" in result.out
    assert "Wrong elements" not in result.out
    assert "gemm-lessons hint 01" in result.out
    assert kernel.read_text() == STUB


def test_the_previous_method_misses_the_gate(run: Run, course: Path) -> None:
    result = run("run", "02", "--file", "lessons/01_first/solution.cu", "--details")
    assert result.code == 1
    assert "GATE MISSED" in result.out
    assert "missed  barriers" in result.out
    assert "This lesson is about barriers." in " ".join(result.out.split())


def test_a_gate_missed_by_other_tiles_needs_no_hint(run: Run, course: Path) -> None:
    shutil.copy(course / "lessons/01_first/solution.cu", course / "lessons/02_second/kernel.cu")
    assert "Stuck: gemm-lessons hint 02" in run("run", "02").out
    assert "With the lesson's own settings: gemm-lessons run 02" in run("run", "02", "--tile", "BM=8").out


def test_the_reference_passes_and_invites(run: Run) -> None:
    result = run("run", "02", "--solution", "--details")
    assert result.code == 0
    assert re.search(r"reference +passed", result.out)
    assert re.search(r"lesson 01 +gate missed", result.out)
    assert "gemm-lessons start 02" in result.out


def test_only_some_tiles_are_wrong(run: Run, kernel: Path) -> None:
    kernel.write_text(SOLUTION.replace("C[row * N + col] = acc;", "C[row * N + col] = row == 5 ? 0.0f : acc;"))
    result = run("run", "01")
    assert "16 of 144 elements" in result.out
    assert "  . . \n  + + \n  . . \n" in result.out


def test_one_shape(run: Run) -> None:
    result = run("run", "01", "--solution", "--shape", "5x6x7", "--json")
    shapes = [(shape["m"], shape["n"], shape["k"]) for shape in json.loads(result.out)["shapes"]]
    assert shapes[0] == (5, 6, 7)
    assert set(shapes) <= {(5, 6, 7), (8, 16, 4)}


def test_a_shape_of_ones_own_is_no_pass_of_the_lesson(run: Run, course: Path, kernel: Path) -> None:
    kernel.write_text(SOLUTION)
    assert run("run", "01", "--shape", "5,6,7").code == 0
    assert not (course / ".gemm-lessons").exists()


def test_a_type_brings_what_it_names(run: Run, course: Path) -> None:
    toml = course / "lessons" / "01_first" / "lesson.toml"
    toml.write_text(f"{toml.read_text()}\n[types.strict]\n{GATE.replace('[[gates]]', '[[types.strict.gates]]')}")
    done = run("run", "01", "--solution", "--type", "strict", "--json")
    assert (done.code, json.loads(done.out)["verdict"]) == (1, "gate_missed")


def test_the_seed_repeats_the_inputs(run: Run, kernel: Path) -> None:
    kernel.write_text(STUB)
    first = run("run", "01", "--seed", "7").out
    assert run("run", "01", "--seed", "7").out == first
    assert "--seed 7" in first
    assert run("run", "01", "--seed", "8").out != first


def test_another_gpu_is_another_estimate(run: Run) -> None:
    outcomes = [json.loads(run("run", "01", "--solution", "--json", "--gpu", gpu).out) for gpu in ("h200", "p100")]
    assert [outcome["estimate"]["gpu"] for outcome in outcomes] == ["H200", "P100"]
    assert outcomes[0]["estimate"]["time_us"] < outcomes[1]["estimate"]["time_us"]


def test_json_keeps_the_contract(run: Run) -> None:
    result = run("run", "02", "--solution", "--json", "--device", "sim")
    assert result.err == ""
    outcome = json.loads(result.out)
    assert set(outcome) == set(
        "schema lesson kernel device verdict shapes compile time_us gflops fraction_of_cublas estimate counters lines "
        "findings gates hints no_estimate".split()
    )
    assert outcome["schema"] == "gemm-lessons/run/1"
    assert outcome["lesson"] == "02_second"
    assert outcome["kernel"] == "lessons/02_second/solution.cu"
    assert outcome["device"] == {"kind": "simulator", "name": "simulator"}
    assert outcome["verdict"] == "passed"
    assert set(outcome["shapes"][0]) == {"m", "n", "k", "verdict", "max_error", "tolerance"}
    assert 0 <= outcome["shapes"][0]["max_error"] <= outcome["shapes"][0]["tolerance"]
    compiled = {"arch", "registers", "shared_bytes", "spill_bytes", "occupancy", "diagnostics"}
    assert set(outcome["compile"]) == compiled
    assert outcome["time_us"] is outcome["gflops"] is outcome["fraction_of_cublas"] is None
    assert set(outcome["estimate"]) == {"gpu", "time_us", "gflops", "limiter", "basis"}
    assert outcome["counters"]["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 8 * 16 * 4
    assert set(outcome["lines"][0]) == {"line", "source", "metric", "value", "ideal"}
    assert any("A[row * K + k]" in line["source"] for line in outcome["lines"])
    gate = {"id": "barriers", "name": "barriers", "limit": 1.0, "value": 1.0}
    assert outcome["gates"] == [{**gate, "passed": True, "note": None, "integrity": False}]


def test_json_of_what_is_not_a_number(run: Run, kernel: Path) -> None:
    """A kernel that writes nothing leaves NaN behind, which JSON cannot say."""
    kernel.write_text(KERNEL.replace("BODY", "").replace("C[row * N + col] = acc;", "acc = 1;"))
    outcome = json.loads(run("run", "01", "--json").out, parse_constant=lambda name: pytest.fail(name))
    assert outcome["verdict"] == "wrong_answer"
    assert outcome["shapes"][0]["max_error"] is None


def test_json_of_findings(run: Run, kernel: Path) -> None:
    kernel.write_text(KERNEL.replace("BODY", "    acc = A[M * K + 100];"))
    outcome = json.loads(run("run", "01", "--json").out)
    assert outcome["verdict"] == "faulted"
    (finding,) = (finding for finding in outcome["findings"] if finding["kind"] == "out_of_bounds")
    assert set(finding) == {"kind", "severity", "line", "message", "count"}
    assert (finding["severity"], finding["line"]) == ("error", 6)


def on_terminal(
    course: Path, columns: int, *arguments: str, program: Sequence[str] = (), **env: str
) -> tuple[int, str]:
    """Run on a pseudo-terminal of that many columns; its exit code and everything that it printed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 200, columns, 0, 0))
    process: forks.Forked | subprocess.Popen[bytes]
    if program:
        process = subprocess.Popen(
            [*program, *arguments], cwd=course, env=environment(**env), stdin=theirs, stdout=theirs, stderr=theirs
        )
    else:
        process = forks.start(arguments, (theirs, theirs, theirs), cwd=course, env=environment(**env))
    os.close(theirs)
    output = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not more:
            break
        output += more
    os.close(ours)
    return process.wait(timeout=60), output.decode().replace("\r\n", "\n")


WIDTHS = (60, 80, 100, 120, 200)
# One process and one terminal, made narrower and wider between the reports of one run.
AT_EVERY_WIDTH = """
import fcntl, struct, sys, termios
from gemm_lessons.__main__ import main
from gemm_lessons.running import pipeline
run_lesson, known = pipeline.run_lesson, []
def once(request, progress):
    known[:] = known or [run_lesson(request, progress)]
    return known[0]
pipeline.run_lesson = once
for columns in WIDTHS:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 200, columns, 0, 0))
    try:
        main()
    except SystemExit:
        pass
    print("END OF RUN", flush=True)
"""


@pytest.mark.parametrize("details", [(), ("--details",)], ids=["screen", "details"])
@pytest.mark.parametrize("which", ["stub", "solution"])
def test_nothing_overflows_the_terminal(course: Path, which: str, details: tuple[str, ...]) -> None:
    program = [sys.executable, "-c", AT_EVERY_WIDTH.replace("WIDTHS", str(WIDTHS))]
    arguments = ("run", "02", f"--{which}", *details)
    _, out = on_terminal(course, 200, *arguments, program=program, TERM="xterm-256color")
    *runs, rest = CONTROL.sub("", out).split("END OF RUN\n")
    assert len(runs) == len(WIDTHS)
    assert not rest
    for columns, plain in zip(WIDTHS, runs, strict=True):
        assert "\x1b" not in plain
        assert "PASSED" in plain or "NOT FINISHED" in plain
        # Paths and commands are meant to be copied, so they are never broken into lines.
        wide = [line for line in plain.splitlines() if len(line.rstrip()) > columns and str(course) not in line]
        assert not wide, columns
        assert "…" not in plain.split("Bank conflicts")[0], f"{columns}: cells must not be cut"
    assert not details or len(set(runs)) == len(runs), "each width has a layout of its own"


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_has_one_row_for_each_kernel(course: Path, columns: int) -> None:
    _, out = on_terminal(course, columns, "run", "02", "--stub", "--details", NO_COLOR="1")
    rows = re.findall(
        r"^(stub|lesson 01|01 first|reference)\s+(wrong|gate missed|passed) ", CONTROL.sub("", out), re.MULTILINE
    )
    assert [verdict for _, verdict in rows] == ["wrong", "gate missed", "passed"]
    for header in ("verdict", "est.", "TFLOP", "/FMA", "gates"):
        assert header in out


def test_colours_on_a_terminal_only_where_wanted(course: Path) -> None:
    assert "\x1b[" in on_terminal(course, 80, "run", "01", "--solution")[1]
    for arguments, env in ((("--no-color",), {}), ((), {"NO_COLOR": "1"}), ((), {"TERM": "dumb"})):
        code, out = on_terminal(course, 80, "run", "01", "--solution", *arguments, **env)
        assert code == 0
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]", out), "no colours"


def test_a_long_text_goes_through_the_pager(course: Path) -> None:
    (course / "lessons" / "01_first" / "README.md").write_text("# Title\n\n" + "A line.\n\n" * 300)
    code, out = on_terminal(course, 80, "read", "01", PAGER="tail -n 1")
    assert code == 0
    assert out.count("A line.") == 1
    assert "gemm-lessons start 01" in out


def test_an_ascii_terminal(run: Run) -> None:
    result = run("run", "02", "--solution", env={"PYTHONIOENCODING": "ascii"})
    assert result.code == 0, result.err
    assert result.out.isascii()
    assert "?" not in result.out.split("Gates")[0]


def test_a_long_run_says_what_it_does(course: Path, kernel: Path) -> None:
    """More than a second of work shows a spinner on the terminal, which is gone at the end; a pipe sees none."""
    kernel.write_text(SOLUTION)
    code, out = on_terminal(course, 80, "run", "01", "--shape", "600,600,600")
    assert code == 0
    assert re.search(r"check 600 ?x", CONTROL.sub("", out))


def test_what_is_too_long_for_a_terminal_is_not_torn_apart(course: Path, kernel: Path) -> None:
    kernel.write_text(SOLUTION)
    code, out = on_terminal(course, 60, "diff", "01")
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()]
    assert code == 2
    assert lines[-1] == "  gemm-lessons diff 01 --peek"
    assert " ".join(lines[:-1]).endswith("would spoil it; to see it anyway:")
    assert max(len(line) for line in lines) <= 60


def test_a_command_can_be_typed_again_as_it_is_shown() -> None:
    said = options(solution=False, bug=True, file=None, tile=["BM = 64,TM=4", "BK=16"], shape="96,64,80")
    assert said == " --bug --tile 'BM = 64,TM=4' --tile BK=16 --shape 96,64,80"
    assert options(file=Path("my kernel.cu"), layout="TN") == " --file 'my kernel.cu' --layout TN"
