"""Commands for Nsight, and reading what it says: on a stored output of a real one, and through a stand-in for ncu."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checks.readings import FOLDER
from gemm_lessons.commands import profiling
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.engine.records.metrics import METRICS
from gemm_lessons.gemm.shapes import Shape

COURSE = packaged_course()
CONFLICTS = COURSE.lesson("bank_conflicts")
DATA = FOLDER / "gpu"
RAW = (DATA / "ncu_h200.csv").read_text()
INSTALLED = profiling.find("ncu") is not None


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(profiling, "INSTALLED_IN", {"ncu": (), "nsys": ()})


def option(command: tuple[str, ...], name: str) -> str:
    return command[command.index(name) + 1]


def test_ncu_selects_one_kernel_of_the_run() -> None:
    plan = profiling.plan("ncu", CONFLICTS, "reference", ["--solution"], None, None)
    # On an H200 this filter took 1 kernel of a run where "gemm-lessons@count .../" took 3.
    assert option(plan.command, "--nvtx-include") == f"gemm-lessons@reference/count {CONFLICTS.shapes.count}/"
    assert option(plan.command, "--target-processes") == "all"
    assert option(plan.command, "--metrics").split(",") == list(plan.metrics)
    assert option(plan.command, "--export") == f"{CONFLICTS.name}.ncu-rep"
    run = plan.command[plan.command.index(sys.executable) :]
    assert run[1:] == ("-m", "gemm_lessons", "run", CONFLICTS.name[:2], "--device", "gpu", "--solution", "--json")
    assert (plan.program, plan.command[0], plan.counting) == (None, "ncu", True)


def test_another_shape_is_a_check_of_the_run() -> None:
    plan = profiling.plan("ncu", COURSE.lesson("03"), "your kernel", [], Shape(64, 96, 32), Path("a/b"))
    assert option(plan.command, "--nvtx-include") == "gemm-lessons@your kernel/check 64x96x32/"
    assert option(plan.command, "--shape") == "64,96,32"
    assert plan.report == Path("a/b.ncu-rep")
    assert not plan.counting


def test_nsys_captures_the_lessons_range() -> None:
    plan = profiling.plan("nsys", CONFLICTS, "your kernel", [], None, None)
    assert plan.command[:2] == ("nsys", "profile")
    assert option(plan.command, "--nvtx-capture") == f"lesson {CONFLICTS.name}@gemm-lessons"
    assert option(plan.command, "--capture-range-end") == "none", "the GPU's process opens and closes that range often"
    assert option(plan.command, "--output") == f"{CONFLICTS.name}.nsys-rep"
    assert "--json" not in plan.command


def test_the_command_survives_a_shell(tmp_path: Path) -> None:
    plan = profiling.plan("ncu", CONFLICTS, "your kernel", ["--file", "it's.cu"], None, None)
    script = f"ncu() {{ printf '%s\\n' ncu \"$@\"; }}; {plan.text}"
    done = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, check=True)
    assert tuple(done.stdout.splitlines()) == plan.command


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("your kernel", "your kernel"), ("a/b", r"a\/b"), ("x@y,z*+", r"x\@y\,z\*\+"), ("[1]", r"\[1\]"), ("\\", r"\\")],
)
def test_names_are_escaped_for_the_filter(name: str, escaped: str) -> None:
    assert profiling.escape(name) == escaped


def test_metrics_are_those_of_the_simulator_and_those_the_text_mentions(tmp_path: Path) -> None:
    import shutil
    from dataclasses import replace

    folder = tmp_path / "03_block_tile"
    shutil.copytree(COURSE.lessons_dir / "03_block_tile", folder)
    (folder / "README.md").write_text("see `lts__t_sectors_op_read.sum` and simulator__blocks.sum, not __syncthreads()")
    metrics = profiling.metrics_of(replace(COURSE.lesson("03"), directory=folder))
    assert {name for name in METRICS.values() if not name.startswith("simulator__")} <= set(metrics)
    assert metrics[-1] == "lts__t_sectors_op_read.sum"
    assert len(set(metrics)) == len(metrics)
    assert not any("simulator" in name or "syncthreads" in name for name in metrics)


def test_reading_what_ncu_wrote() -> None:
    ((kernel, values, units),) = profiling.parse_raw("==PROF== noise\n" + RAW)
    assert kernel == "gemm"
    assert values["memory_l1_wavefronts_shared"] == 26_624
    assert values["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 4_194_304
    assert units["gpu__time_duration.sum"] == "ns"
    later = {METRICS["warp_instructions"]}  # is asked for since this report was made
    assert set(profiling.COUNTED) - later <= set(values)
    assert profiling.parse_raw("==ERROR== nothing here") == []


# A stand-in for ncu: runs no program; says what a real one said, or fails as one does.
FAKE_NCU = """#!{python}
import os, sys
from pathlib import Path
arguments = sys.argv[1:]
after = lambda name: arguments[arguments.index(name) + 1]
if "--import" in arguments:
    assert Path(after("--import")).read_text() == "report"
    header, units, kernel = Path({raw!r}).read_text().splitlines()
    print("\\n".join([header, units] + [kernel] * int(os.environ.get("TIMES", 1))))
else:
    Path(after("--log-file")).write_text(os.environ.get("SAYS", "==PROF== fine"))
    if "REPORT" in os.environ:
        Path(after("--export")).write_text("report")
    sys.stdout.write(os.environ.get("PRINTS", ""))
    sys.stderr.write("error: the run's own words")
"""
OUTCOME = json.dumps({"verdict": "passed", "counters": {"memory_l1_wavefronts_shared": 26_624}}, indent=2)


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    program = tmp_path / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text(FAKE_NCU.format(python=sys.executable, raw=str(DATA / "ncu_h200.csv")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("PRINTS", "==WARNING== noise\n" + OUTCOME + "\n")
    monkeypatch.setenv("REPORT", "1")
    monkeypatch.chdir(tmp_path)
    return monkeypatch


def profile() -> profiling.Profiled:
    return profiling.profile(profiling.plan("ncu", CONFLICTS, "reference", ["--solution"], None, None))


def test_profiling_puts_hardware_beside_the_simulator(fake_ncu: pytest.MonkeyPatch) -> None:
    profiled = profile()
    assert profiled.hardware["memory_l1_wavefronts_shared"] == 26_624
    assert set(profiled.hardware) <= set(profiling.metrics_of(CONFLICTS))  # of 300 columns
    assert profiled.simulated == {"memory_l1_wavefronts_shared": 26_624}
    assert profiled.verdict == "passed"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SAYS": "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"}, "keeps the hardware counters"),
        ({"PRINTS": ""}, "run under ncu failed: error: the run's own words"),
        ({"PRINTS": '{"not": "an outcome"}'}, "run under ncu failed"),
        ({"REPORT": "", "SAYS": "==WARNING== No kernels were profiled."}, "profiled no kernel.*passed.*No kernels"),
        ({"TIMES": "2"}, "profiled 2 kernels where one was meant"),
    ],
)
def test_what_can_go_wrong_has_words(fake_ncu: pytest.MonkeyPatch, environment: dict[str, str], said: str) -> None:
    for name, value in environment.items():
        fake_ncu.setenv(name, value)
    if environment.get("REPORT") == "":
        fake_ncu.delenv("REPORT")
    with pytest.raises(KitError, match=f"(?s){said}"):
        profile()


def test_the_command_line_shows_both(fake_ncu: pytest.MonkeyPatch) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gemm_lessons", "profile", "bank_conflicts", "--solution"],
        capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("memory_l1_wavefronts_shared "))
    assert line.split()[1:] == ["26,624", "26,624", "equal"]
    assert "ncu-ui" in done.stdout


@pytest.mark.skipif(INSTALLED, reason="Nsight Compute is installed here, and found without PATH")
def test_without_the_tool_the_command_is_printed() -> None:
    for extra in ([], ["--print"]):
        done = subprocess.run(
            [sys.executable, "-m", "gemm_lessons", "profile", "bank_conflicts", "--solution", *extra],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0
        assert done.stdout.startswith("ncu --target-processes all --nvtx ")
        assert done.stdout.count("\n") == 1
        assert ("not installed here" in done.stderr) is (extra == [])
