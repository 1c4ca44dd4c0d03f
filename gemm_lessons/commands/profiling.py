"""Nsight Compute and Nsight Systems on a run: the command line, and the results.

    plan(...) -> ProfilePlan: the command     profile(plan) -> Profiled: hardware counters beside the simulator's

The command profiles ``gemm-lessons run --json`` itself. The process that owns the GPU opens an NVTX range around every
launch (``ranges``), so a filter by range names selects exactly one kernel of the run: the kernel under test on the
shape whose counters the simulator gives, in the same run, with the same machine code.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from gemm_lessons.course import Lesson
from gemm_lessons.devices import DOMAIN
from gemm_lessons.engine import KitError
from gemm_lessons.engine.records import METRICS, dataclass
from gemm_lessons.gemm import Shape

Tool = Literal["ncu", "nsys"]

# The simulator's counters, by Nsight Compute's names.
COUNTED = tuple(name for name in METRICS.values() if not name.startswith("simulator__"))
# Useful metrics that the simulator does not count.
CONTEXT = (
    "gpu__time_duration.sum",
    "launch__registers_per_thread",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "dram__bytes.sum",
)
MENTIONED = re.compile(r"\b(?:sm|smsp|l1tex|lts|dram|gpu|launch)__[a-z0-9_]+(?:\.[a-z0-9_]+)*")
SPECIAL = re.compile(r"([\\@,\[\]/*+])")  # characters with a meaning in ncu's filter
FORBIDDEN = "ERR_NVGPUCTRPERM"
INSTALLED_IN: Mapping[Tool, tuple[str, ...]] = {
    "ncu": ("/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*"),
    "nsys": ("/usr/local/cuda*/bin", "/opt/nvidia/nsight-systems/*/bin"),
}


@dataclass(frozen=True)
class ProfilePlan:
    """A command to profile with. ``program`` is the tool's path, None when it is not installed here."""

    tool: Tool
    command: tuple[str, ...]
    report: Path
    program: str | None
    metrics: tuple[str, ...]
    shape: Shape
    counting: bool  # whether the simulator counts ``shape`` too

    @property
    def text(self) -> str:
        """Return the command for a shell."""
        return shlex.join(self.command)


@dataclass(frozen=True)
class Profiled:
    """ncu's metrics of the one kernel, and the simulator's counters."""

    kernel: str
    hardware: Mapping[str, float]
    units: Mapping[str, str]
    simulated: Mapping[str, int]  # empty when the shape was not the counting shape
    verdict: str


def plan(
    tool: Tool, lesson: Lesson, label: str, options: Sequence[str], shape: Shape | None, output: Path | None
) -> ProfilePlan:
    """Return the command that profiles ``gemm-lessons run LESSON OPTIONS`` on a GPU.

    ``label`` is the run's name of its kernel; ``shape`` replaces the counting shape; ``output`` is the report's name.
    """
    program = find(tool)
    suffix = ".ncu-rep" if tool == "ncu" else ".nsys-rep"
    report = (output or Path(lesson.name)).with_suffix(suffix)
    run = [sys.executable, "-m", "gemm_lessons", "run", f"{lesson.number:02}", "--device", "gpu", *options]
    count = lesson.shapes.count
    counting = shape is None or shape == count
    at = count if shape is None else shape
    stage = f"count {at}" if at == count else f"check {at}"
    if shape is not None:
        run += ["--shape", f"{at.m},{at.n},{at.k}"]
    metrics = metrics_of(lesson)
    if tool == "ncu":
        flags = [
            "--target-processes", "all",  # a child of the command launches the kernel
            "--nvtx", "--nvtx-include", f"{DOMAIN}@{escape(label)}/{escape(stage)}/",
            "--clock-control", "none",
            "--metrics", ",".join(metrics),
            "--force-overwrite", "--export", str(report),
        ]  # fmt: skip
        run.append("--json")
    else:
        flags = [
            "profile", "--trace", "cuda,nvtx,cublas", "--sample", "none", "--cpuctxsw", "none",
            # From the first range to the end of the run, not to the end of the range: each process has its own ranges.
            "--capture-range", "nvtx", "--nvtx-capture", f"lesson {lesson.name}@{DOMAIN}",
            "--capture-range-end", "none", "--env-var", "NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
            "--force-overwrite", "true", "--output", str(report),
        ]  # fmt: skip
    return ProfilePlan(tool, (program or tool, *flags, *run), report, program, metrics, at, counting)


def escape(name: str) -> str:
    """Escape a range's name for ncu's filter."""
    return SPECIAL.sub(r"\\\1", name)


def metrics_of(lesson: Lesson) -> tuple[str, ...]:
    """Return the metrics to ask ncu for: the simulator's counters, and those in the lesson's text and gates."""
    text = lesson.text_path.read_text(encoding="utf-8") if lesson.text_path.is_file() else ""
    return tuple(dict.fromkeys((*COUNTED, *CONTEXT, *MENTIONED.findall(text))))


def find(tool: Tool) -> str | None:
    """Return the tool's path: on PATH, of ``CUDA_HOME``, or where NVIDIA installs it (the newest)."""
    places = [Path(home) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    places += [folder for pattern in INSTALLED_IN[tool] for folder in sorted(Path("/").glob(pattern[1:]), reverse=True)]
    return shutil.which(tool) or next(
        (str(place / tool) for place in places if os.access(place / tool, os.X_OK) and (place / tool).is_file()), None
    )


def trace(plan: ProfilePlan) -> None:
    """Run nsys; its output goes to the terminal. Raise ``KitError``."""
    done = _run(plan.command, capture=False)
    if not plan.report.is_file():
        raise KitError(f"{plan.tool} wrote no report (exit code {done.returncode}); its messages are above")


def profile(plan: ProfilePlan) -> Profiled:
    """Run ncu and read its report. Raise ``KitError`` with ncu's words when there is no report."""
    with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
        done = _run((plan.command[0], "--log-file", log.name, *plan.command[1:]), capture=True)
        said = log.read()
    if FORBIDDEN in said:
        raise KitError(
            "the driver keeps the hardware counters for root (ERR_NVGPUCTRPERM). Ask your administrator to allow them: "
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
        )
    outcome = _outcome(done.stdout)
    if outcome is None:
        raise KitError(f"the run under ncu failed: {(done.stderr or said).strip()[-1000:]}")
    if not plan.report.is_file():
        raise KitError(f"ncu profiled no kernel; the run's verdict is {outcome['verdict']}. ncu said: {said[-1000:]}")
    assert plan.program is not None
    raw = _run((plan.program, "--import", str(plan.report), "--csv", "--page", "raw", "--print-units", "base"), True)
    rows = parse_raw(raw.stdout)
    if len(rows) != 1:
        raise KitError(f"ncu profiled {len(rows)} kernels where one was meant: {plan.text}")
    kernel, hardware, units = rows[0]
    simulated = outcome["counters"] if plan.counting else {}
    asked = {name: hardware[name] for name in plan.metrics if name in hardware}  # ncu adds 200 facts about the GPU
    return Profiled(kernel, asked, units, simulated, outcome["verdict"])


def parse_raw(text: str) -> list[tuple[str, dict[str, float], dict[str, str]]]:
    """Parse ``ncu --page raw --csv``: the kernel's name, its metrics and their units, for each kernel.

    The first line that begins with ``"ID"`` has the columns, the next one their units. Numbers may have thousands
    separators; columns without numbers are omitted.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    header, units, *rows = csv.reader(io.StringIO("\n".join(lines[start:])))
    found = []
    for row in rows:
        cells = dict(zip(header, row, strict=False))
        values = {}
        for name, cell in cells.items():
            if "__" in name or name.startswith("memory_"):
                try:
                    values[name] = float(cell.replace(",", ""))
                except ValueError:
                    continue
        names = dict(zip(header, units, strict=False))
        found.append((cells.get("Kernel Name", ""), values, {name: names[name] for name in values}))
    return found


def _run(command: Sequence[str], capture: bool) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=capture, text=True, check=False)
    except OSError as error:
        raise KitError(f"{command[0]} cannot be started: {error}") from error


def _outcome(stdout: str) -> dict[str, Any] | None:
    """Return the JSON object that the run printed among other output."""
    start = stdout.find("{")
    try:
        outcome, _ = json.JSONDecoder().raw_decode(stdout[max(start, 0) :])
    except json.JSONDecodeError:
        return None
    return outcome if isinstance(outcome, dict) and "verdict" in outcome else None
