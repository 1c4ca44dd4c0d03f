"""A run that cannot hurt: bounds of time and memory, exit codes that stay true, files that are whole or not there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checks.cli.tiny_course import BINARY, KERNEL, SOLUTION, Run, environment
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.process.bounds import Bounds, OutOfTime, _Clock
from gemm_lessons.report.run import summary_of
from gemm_lessons.running.checking import stopped_by
from gemm_lessons.running.outcome import ended_by

# It counts, so that it never comes back to the same state; and it is no loop that the instruction budget ends soon.
SLOW = KERNEL.replace(
    "BODY", "    for (int n = 0; n < 1000000; n++) {\n        acc = acc * 1.5f + n;\n        C[0] = acc;\n    }"
)
LARGE = KERNEL.replace(
    "BODY",
    "    float own[100000];\n    for (int n = 0; n < 9; n++) own[int(A[n] * 9999)] = n;\n    acc = own[int(B[0])];",
)
WITHOUT_PROC = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
LITTLE_DISK = [
    sys.executable,
    "-c",
    "import os, resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    f"os.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'gemm_lessons', *sys.argv[1:]])",
]


def test_time_is_bounded_and_the_line_is_named(run: Run, kernel: Path) -> None:
    kernel.write_text(SLOW)
    told = run("run", "01", "--json", "--time-limit", "0.7")
    assert (told.code, told.err) == (1, "")
    outcome = json.loads(told.out)
    assert outcome["verdict"] == "timed_out"
    (found,) = outcome["findings"]
    own = "the run took longer than 0.7 s and was stopped"
    busy = r"the run was stopped after [23]\.\d s: the machine is busy, and gave it 0\.\d s of processor time"
    assert re.match(f"({own}|{busy}), in line ", found["message"])
    assert "acc" in kernel.read_text().splitlines()[found["line"] - 1]
    assert "--time-limit" in found["message"]


def test_threads_of_numpy_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 32 cores a product of NumPy's takes 32 s of their time in each second: a run ended after 4 s."""
    times = {"process_time": 0.0, "monotonic": 0.0}
    for name in times:
        monkeypatch.setattr(f"time.{name}", lambda name=name: times[name])
    clock = _Clock(Bounds(seconds=10))
    for passed, used in ((5, 160), (100, 0), (4, 128)):  # in between it was stopped
        times["monotonic"] += passed
        times["process_time"] += used
        clock.tick(0, None)
    times["monotonic"] += 2
    times["process_time"] += 2
    with pytest.raises(OutOfTime, match="the run took longer than 10 s and was stopped") as ended:
        clock.tick(0, None)
    assert ended.value.case == "bounds"


def test_a_busy_machine_is_told_apart_from_a_kernel_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that gets an eighth of the processor has used a fraction of its time when it is stopped."""
    now = {"process_time": 0.0, "monotonic": 0.0}
    for name in now:
        monkeypatch.setattr(f"time.{name}", lambda name=name: now[name])
    clock = _Clock(Bounds(seconds=10))
    for _ in range(160):
        now["monotonic"] += 0.25
        now["process_time"] += 0.25 / 8
        clock.tick(0, None)
    now["monotonic"] += 0.25
    with pytest.raises(OutOfTime) as ended:
        clock.tick(0, None)
    finding = stopped_by(ended.value, Bounds(seconds=10, advice="; --time-limit SECONDS allows more"))
    assert finding.message == (
        "the run was stopped after 40 s: the machine is busy, and gave it 5.0 s of processor time;"
        " --time-limit SECONDS allows more"
    )
    lesson = packaged_course().lesson("00")
    (row,) = ended_by(finding, lesson, lesson.solution_path).rows
    assert summary_of(row) == f"not finished at {lesson.shapes.count}"


def test_memory_is_bounded(run: Run, kernel: Path) -> None:
    kernel.write_text(LARGE)
    told = run("run", "01", "--json", "--memory-limit", "0.06")
    assert told.code == 1, told.err
    outcome = json.loads(told.out)
    assert outcome["verdict"] == "faulted"
    assert outcome["findings"][0]["message"].startswith("the run needed more than 0.06 GiB of memory and was stopped")


def test_two_files_are_compared_within_a_limit(run: Run, tmp_path: Path) -> None:
    """The limit of both together; an estimate of so many iterations ended after 18 times as long."""
    files = [str(tmp_path / name) for name in ("a.cu", "b.cu")]
    for file in files:
        Path(file).write_text(
            'extern "C" __global__ void k(float *y, int n) {\n'
            "    for (int i = 0; i < n; i++) y[i & 31] = y[i & 31] * 0.5f + n;\n}\n"
        )
    launch = ("--grid", "1", "--block", "32", "--args", "y=inout f32[32], n=100000000")
    start = time.monotonic()
    told = run("compare", *files, *launch, env={"GEMM_LESSONS_TIME_LIMIT": "1"})
    assert (told.code, told.out, told.err.count("\n")) == (1, "", 1)
    own = "the run took longer than 1 s and was stopped"
    busy = r"the run was stopped after 4\.\d s: the machine is busy, and gave it 0\.\d s of processor time"
    assert re.match(f"error: ({own}|{busy}); GEMM_LESSONS_TIME_LIMIT and ", told.err)
    assert time.monotonic() - start < 30, "the parent ends it after 38 s"


@pytest.mark.parametrize("limit", ["nan", "inf", "0", "-1"])
def test_no_limit_is_no_limit(run: Run, limit: str) -> None:
    told = run("run", "01", "--solution", f"--time-limit={limit}")
    assert told.code == 2
    assert told.err.count("\n") == 1
    assert "is not a limit" in told.err
    assert run("run", "01", "--solution", env={"GEMM_LESSONS_MEMORY_LIMIT": limit}).code == 2


def test_who_closes_a_pipe_early_changes_no_exit_code(course: Path, kernel: Path) -> None:
    kernel.write_text(KERNEL.replace("BODY", ""))
    for arguments, code in ((("list",), 0), (("run", "01", "--solution"), 0), (("run", "01", "--json"), 1)):
        process = subprocess.Popen(
            [*BINARY, *arguments], cwd=course, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.close()
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (code, b""), arguments


def test_a_signal_ends_all_of_it(course: Path, kernel: Path) -> None:
    kernel.write_text(SLOW)
    process = subprocess.Popen(
        [*BINARY, "run", "01"], cwd=course, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (theirs := children.read_text().split()):
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (128 + signal.SIGTERM, "")
    assert not [pid for pid in theirs if os.path.exists(f"/proc/{pid}")]
    assert not list(course.rglob("*.tmp"))
    assert kernel.read_text() == SLOW


def test_a_file_is_whole_or_not_there(run: Run, course: Path, kernel: Path) -> None:
    """Files may have 100 bytes here: less than a stub has."""
    started = run("start", "01", prefix=LITTLE_DISK)
    assert started.code == 3
    assert "cannot be written: file too large" in started.err
    assert not kernel.exists()
    kernel.write_text(SOLUTION)
    assert run("reset", "01", prefix=LITTLE_DISK).code == 3
    assert kernel.read_text() == SOLUTION
    assert not [path for path in kernel.parent.iterdir() if "bak" in path.name or "tmp" in path.name]


def test_what_is_no_file_is_waited_for_by_nobody(run: Run, course: Path, kernel: Path) -> None:
    toml = course / "lessons" / "01_first" / "lesson.toml"
    text = toml.read_text()
    toml.write_text(text + "x = " + "[" * 100_000)
    assert "is nested too deeply" in run("run", "01", "--solution").err
    toml.unlink()
    os.mkfifo(toml)
    assert "is not a file; restore it" in run("list").err
    toml.unlink()
    toml.symlink_to(toml.name)
    assert "too many levels of symbolic links" in run("run", "01", "--solution").err.lower()
    toml.unlink()
    toml.write_text(text)
    kernel.symlink_to(kernel.name)
    for command in ("run", "start"):
        told = run(command, "01")
        assert (told.code, told.err.count("\n")) == (2, 1)
    kernel.unlink()
    progress = course / ".gemm-lessons" / "progress.json"
    progress.parent.mkdir(exist_ok=True)
    os.mkfifo(progress)
    assert run("list").code == 0


def test_a_system_without_proc_will_do(run: Run, kernel: Path) -> None:
    """As in a bare chroot. What tells how much is taken, and keeps addresses and names of folders, lies in there."""
    if subprocess.run([*WITHOUT_PROC, "true"], capture_output=True, check=False).returncode:
        pytest.skip("nobody may hide /proc here")
    kernel.write_text(SOLUTION)
    result = run("run", "01", prefix=[*WITHOUT_PROC, sys.executable, "-m", "gemm_lessons"])
    assert (result.code, result.err) == (0, "")
