"""The versions that ``pyproject.toml`` allows are the versions that are tested: ``python -m checks.versions``.

    python -m checks.versions                                 every row of the table below, on every Python found here
    python -m checks.versions --only oldest --python 3.11     some rows, on one Python
    python -m checks.versions --only oldest --tests course    what .ci/run does: the course and the random programs

Each row is a fresh environment with the wheel of this checkout, made by uv, whose resolver finds the lowest version
of each dependency that ``pyproject.toml`` allows. uv is taken from the PATH, else pip installs it; it asks the
indexes that pip is configured for. The tests run from a copy without the package's source, so it is the wheel that
they test. Numbers stored with one compiler are skipped with another, visibly (``checks/conftest.py``). Exit code 1: a
row failed. A Python that is not installed is a row that says so.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
COMPILER = ("nvidia-cuda-nvrtc",)
HEADERS = ("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-runtime")
MINORS = ("13.1", "13.2", "13.3", "13.4")  # between the ends
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "hatchling")  # of the extra [test]; the others need a checkout

# The tests of a row, slow ones included. "course" tests the lessons, without what .ci/run does with the newest
# versions; "all" is everything that versions can affect. RANDOM runs the random programs of the simulator's tests.
COURSE = ("checks/course/test_lessons.py",)
TESTS: Mapping[str, Sequence[str]] = {
    "course": ("-m", "not newest", *COURSE),
    "all": (
        "-m", "", *COURSE, "checks/course/test_lesson_records.py", "checks/judgement", "checks/checkers",
        "checks/simulator", "checks/counters", "checks/compiler", "checks/inspect", "checks/cli", "checks/nvtx",
        "checks/view/test_site.py",
    ),
}  # fmt: skip
# .ci/run runs more of them.
RANDOM = "-m checks.simulator.property --seed 0 --programs 150 --kernels 4 --processes 2".split()
# The first builds a wheel itself, and needs a checkout; versions do not affect the second.
LEFT_OUT = ("--ignore=checks/cli/test_package.py", "-k", "not another_gpu_changes_the_estimate_alone")


# An option of pip -> the same option of uv.
OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}


@dataclass(frozen=True)
class Row:
    """One environment: which Python, requirements that are met by their lowest versions, and constraints."""

    name: str
    python: str
    lowest: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """Result of a row. ``versions`` by package; ``counts`` by outcome; ``failures`` are names of tests or a reason why
    none ran; ``skipped``: reason -> number of tests."""

    row: Row
    versions: Mapping[str, str]
    counts: Mapping[str, int]
    failures: Sequence[str]
    skipped: Mapping[str, int]
    seconds: float


def name_of(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match
    return match[0]


def rows() -> Iterator[Row]:
    """Oldest and newest versions on each Python; each minor version of the compiler; an old compiler with new packages
    and the reverse, as upgrading one of them leaves it."""
    every = tuple(PROJECT["dependencies"])
    for python in PYTHONS:
        yield Row("oldest", python, every)
    for python in PYTHONS:
        yield Row("newest", python)
    for minor in MINORS:
        yield Row(f"nvrtc-{minor}", PYTHONS[0], (), tuple(f"{name}=={minor}.*" for name in (*COMPILER, *HEADERS)))
    compiler = tuple(line for line in every if name_of(line) in COMPILER)
    yield Row("old-compiler", PYTHONS[0], compiler)
    yield Row("new-compiler", PYTHONS[0], tuple(line for line in every if line not in compiler))


class Uv:
    """The program uv, set up to use the indexes and certificates of pip's configuration."""

    def __init__(self, folder: Path) -> None:
        self.program = shutil.which("uv") or str(folder / "uv" / "bin" / "uv")
        pip = [sys.executable, "-m", "pip"]
        if not Path(self.program).exists():
            subprocess.run([*pip, "install", "-q", "--target", str(folder / "uv"), "uv"], check=True)
        configured = configuration(subprocess.run([*pip, "config", "list"], capture_output=True, text=True).stdout)
        self.indexes = ["--index-strategy", "unsafe-best-match"]  # the best version of all indexes, as pip does
        for option, flag in OPTIONS.items():
            for value in configured.get(option, ()):
                self.indexes += [flag, value]
        pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
        pythons = [str(place) for place in sorted(pyenv.glob("*/bin"))]
        path = os.pathsep.join([*pythons, os.environ["PATH"]])
        self.environment = {**os.environ, "PATH": path, "UV_PYTHON_DOWNLOADS": "never"}
        if "cert" in configured:
            self.environment.setdefault("SSL_CERT_FILE", configured["cert"][0])

    def run(self, *words: str | Path) -> str:
        """Run uv; return its output. Raises ``CalledProcessError`` with its error output."""
        command = [self.program, *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=self.environment).stdout

    def install(self, python: Path, *words: str | Path) -> None:
        self.run("pip", "install", "-q", "--python", python, "--only-binary=:all:", *self.indexes, *words)

    def interpreter(self, version: str) -> Path | None:
        """A Python of this version on the PATH or among pyenv's, else None."""
        try:
            return Path(self.run("python", "find", "--system", "--no-project", version).strip())
        except subprocess.CalledProcessError:
            return None


def configuration(listed: str) -> dict[str, list[str]]:
    """Options from ``pip config list``. The environment's value wins, then that of ``[install]``, then ``[global]``."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, option = key.rpartition(".")
        found[section, option] = str(literal_eval(value)).split()
    sections = ("global", "install", ":env:")
    return {option: values for section in sections for (of, option), values in found.items() if of == section}


def too_new(row: Row, versions: Mapping[str, str]) -> list[str]:
    """Packages that are not at their lower bound: it has no wheel, or another package needs a newer one."""
    bounds: dict[str, set[str]] = {}
    for requirement in row.lowest:
        bound = re.search(r">=\s*([\w.]+)", requirement)
        assert bound, f"{requirement}: a dependency has a lower bound"
        bounds.setdefault(name_of(requirement), set()).add(bound[1])
    return [
        f"{name} {versions[name]} is not the lowest: {', '.join(sorted(lowest))}"
        for name, lowest in bounds.items()
        if without_zeros(versions[name]) not in map(without_zeros, lowest)
    ]


def without_zeros(version: str) -> str:
    """2.0.0 and 2.0 are the same version."""
    return re.sub(r"(\.0)+$", "", version)


def environment(folder: Path) -> dict[str, str]:
    """The caller's environment without variables that lead to this checkout or its coverage, and with a new cache."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("COV", "PYTEST", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"))
    }
    return {**kept, "XDG_CACHE_HOME": str(folder / "cache")}


def built(folder: Path) -> tuple[Path, Path]:
    """Build the wheel of this checkout; copy what its tests need, without the package itself."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    place = folder / "copy"
    for name in ("checks", "lessons"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "kernel.cu*"))
    shutil.copy(ROOT / "pyproject.toml", place)
    return wheel, place


def installed(row: Row, uv: Uv, base: Path, wheel: Path, folder: Path) -> Path:
    """The row's Python with the wheel and the tools in it. Raises ``CalledProcessError`` with uv's error output."""
    uv.run("venv", "-q", "--no-project", "--python", base, folder / "venv")
    python = folder / "venv" / "bin" / "python"
    if row.lowest:  # what is installed stays where it is new enough
        uv.install(python, "--resolution=lowest-direct", *row.lowest)
    limits = folder / "constraints.txt"
    limits.write_text("\n".join(row.constraints) + "\n")
    tools = [line for line in PROJECT["optional-dependencies"]["test"] if name_of(line) in TOOLS]
    uv.install(python, "--constraint", limits, wheel, *tools)
    return python


def versions_of(uv: Uv, python: Path) -> dict[str, str]:
    listed = uv.run("pip", "freeze", "--python", python)
    found = dict(line.split("==") for line in listed.splitlines() if line.count("==") == 1)
    said = subprocess.run([python, "-c", "import platform; print(platform.python_version())"], capture_output=True)
    return {**found, "python": said.stdout.decode().strip()}


def tested(
    row: Row, uv: Uv, base: Path, wheel: Path, place: Path, folder: Path, tests: Sequence[str], processes: int
) -> Result:
    """Make the environment, run the tests."""
    start = time.monotonic()
    try:
        python = installed(row, uv, base, wheel, folder)
        versions = versions_of(uv, python)
    except subprocess.CalledProcessError as error:
        text = (error.stderr or "").strip().splitlines()
        return Result(row, {}, Counter(), [f"uv: {line}" for line in text[-3:]], {}, time.monotonic() - start)
    report = folder / "report.xml"
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests, *LEFT_OUT]
    if processes:
        command += ["-n", str(processes), "--dist", "worksteal"]
    log = folder / "log.txt"
    with log.open("w") as file:
        done = subprocess.run(command, cwd=place, env=environment(folder), stdout=file, stderr=subprocess.STDOUT)
    random = subprocess.run(
        [str(python), *RANDOM], cwd=place, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    (folder / "random.txt").write_text(random.stdout)
    spent = time.monotonic() - start
    if not report.is_file():
        return Result(row, versions, Counter(), log.read_text().splitlines()[-5:], {}, spent)
    counts, failures, skipped = read(report)
    if done.returncode and not failures:
        failures = [f"pytest ended with {done.returncode}"]
    if random.returncode:
        failures += [f"random programs: {line}" for line in random.stdout.splitlines()[-5:]]
    return Result(row, versions, counts, [*too_new(row, versions), *failures], skipped, spent)


def read(report: Path) -> tuple[Counter[str], list[str], Counter[str]]:
    """Counts by outcome, names of failed tests, reasons of skipped ones, from pytest's JUnit file."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    skipped: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        outcome = "passed"
        for child in case:
            if child.tag in ("failure", "error"):
                outcome = "failed"
                said = (child.get("message") or "").splitlines() or [""]
                failures.append(f"{case.get('classname')}::{case.get('name')}: {said[0][:160]}")
            elif child.tag == "skipped":
                outcome = "skipped"
                skipped[child.get("message") or ""] += 1
        counts[outcome] += 1
    return counts, failures, skipped


HEAD = ("set", "Python", "NVRTC", "NumPy", "Typer", "bindings", "passed", "failed", "skipped", "seconds")
WIDTHS = (13, 8, 9, 7, 7, 9, 7, 7, 8, 8)


def line_of(cells: Sequence[object]) -> str:
    return "".join(f"{cell!s:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def shown(result: Result) -> str:
    """The row of the table, with what failed below it."""
    found = [result.versions.get(name, "-") for name in ("nvidia-cuda-nvrtc", "numpy", "typer", "cuda-bindings")]
    counts = [result.counts[kind] for kind in ("passed", "failed", "skipped")]
    python = result.versions.get("python", result.row.python)
    lines = [line_of([result.row.name, python, *found, *counts, f"{result.seconds:.0f}"])]
    return "\n".join([*lines, *(f"    FAILED {failure}" for failure in result.failures)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m checks.versions", description="The tests, in many environments.")
    names = list(dict.fromkeys(row.name for row in rows()))
    parser.add_argument("--only", action="append", metavar="SET", choices=names, help=f"one of {' '.join(names)}")
    parser.add_argument("--python", action="append", metavar="X.Y", choices=PYTHONS, help="only on this Python")
    parser.add_argument("--tests", choices=TESTS, default="all", help="course: lessons, pitfalls and random programs")
    parser.add_argument("--processes", type=int, default=3, help="of pytest at a time, for two cores")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the environments and their logs there")
    options = parser.parse_args()
    failed, ran = False, 0
    reasons: Counter[str] = Counter()
    with TemporaryDirectory() as temporary:
        top = Path(temporary)
        wheel, place = built(top)
        uv = Uv(top)
        print(line_of(HEAD), flush=True)
        for row in rows():
            if (options.only and row.name not in options.only) or (options.python and row.python not in options.python):
                continue
            base = uv.interpreter(row.python)
            if base is None:
                print(
                    f"{row.name:<13}{row.python:<8}SKIPPED: no Python {row.python} on the PATH or in pyenv", flush=True
                )
                continue
            folder = (options.keep or top).resolve() / f"{row.name}-{row.python}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            result = tested(row, uv, base, wheel, place, folder, TESTS[options.tests], options.processes)
            print(shown(result), flush=True)
            failed |= bool(result.failures)
            ran += 1
            reasons.update(result.skipped)
            if not options.keep:
                shutil.rmtree(folder)
    for reason, count in reasons.most_common():
        print(f"skipped {count}: {reason}")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    raise SystemExit(main())
