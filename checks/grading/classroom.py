"""A plausible class, the same every time: ``python -m checks.grading.classroom --students 200``.

    --out DIR            make the class there, and leave it
    --time [N ...]       grade classes of these sizes: a table of seconds, processor seconds and memory
    --lessons 01-09      of these lessons (default: of all)
    --ray N --kill 2     with N workers of Ray on this machine, two of which are killed while they judge

A student solves the first lessons, gets one wrong now and then, has one half done and leaves the rest. Layouts are
those that classes come in: the course's own folder, flat files, archives, a clone, a download from Moodle.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gemm_lessons.course.bugs import without_steps
from gemm_lessons.course.folder import packaged_course, read_source
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.pitfalls import load_pitfalls
from gemm_lessons.grading.rubric import parse_lessons

KINDS = ("right", "wrong", "half", "stub", "broken", "missing")
WEIGHTS = (62, 12, 8, 6, 7, 5)
LAYOUTS = ("course", "flat", "numbers", "zip", "tar.gz", "tar.xz", "clone", "moodle")
NAMES = ("ana", "bo", "chidi", "dina", "emil", "fatou", "goran", "hana", "ivan", "jun", "kofi", "lena")
SIZES = (25, 50, 100, 200)
KIB = 1024
TICKS = os.sysconf("SC_CLK_TCK")  # of processor time, in a second
APART = 15.0  # seconds between the deaths of two workers


def make_class(out: Path, students: int, lessons: Sequence[str] = ()) -> Mapping[tuple[str, str], str]:
    """Write the submissions of a class; (student, lesson) -> the kind of kernel that was handed in."""
    course = packaged_course()
    facts: dict[tuple[str, str], str] = {}
    chosen = [course.lesson(name) for name in lessons or course.names]
    for number in range(students):
        draw = random.Random(f"student {number}")
        name = f"{NAMES[number % len(NAMES)]}{number:03}"
        skill = draw.choice((len(chosen), len(chosen), max(1, len(chosen) * 2 // 3)))
        files: dict[str, str] = {}
        for i, lesson in enumerate(chosen):
            kind = draw.choices(KINDS, WEIGHTS)[0] if i < skill else draw.choice(("stub", "missing"))
            facts[name, lesson.name] = kind
            if kind != "missing":
                files[lesson.name] = kernel(lesson, kind, f"{name} {number}", draw)
        hand_in(out, name, LAYOUTS[number % len(LAYOUTS)], files, number)
    return facts


def kernel(lesson: Lesson, kind: str, author: str, draw: random.Random) -> str:
    """A kernel of this kind, in somebody's hand."""
    stub, solution = read_source(lesson.stub_path), read_source(lesson.solution_path)
    if kind == "stub":
        return stub
    if kind == "half":
        return f"// {author}\n{half(stub, solution)}"
    text = solution
    if kind == "wrong":
        pitfalls = [it for it in load_pitfalls(lesson.directory / "pitfalls.toml").values() if it.bug]
        text = draw.choice(pitfalls).source(solution) if pitfalls else text.replace("+=", "-=", 1)
    text = "\n".join(without_steps(text.splitlines()))
    text = re.sub(r"\bacc\b", draw.choice(("acc", "sum", "result", "total_of_products")), text)
    if kind == "broken":
        forgotten = re.sub(r"^(\s+\w[^/\n]*);$", r"\1", text, count=1, flags=re.MULTILINE)
        text = forgotten if draw.random() < 0.5 else text[: len(text) * 2 // 3]
    return f"// {author}\n{text}\n"


def half(stub: str, solution: str) -> str:
    """The stub with what the solution has at the first half of its steps."""
    steps = len(set(re.findall(r"TODO\((\d+)\)", stub)))
    if steps < 2:
        return stub
    last = re.search(rf"// \({steps // 2 + 1}\)", solution)
    rest = re.search(rf"// TODO\({steps // 2 + 1}\)", stub)
    return stub if last is None or rest is None else solution[: last.start()] + stub[rest.start() :]


def hand_in(out: Path, name: str, layout: str, files: Mapping[str, str], number: int) -> None:
    """Write somebody's kernels as they would hand them in."""
    inside = {f"lessons/{lesson}/kernel.cu": text for lesson, text in files.items()}
    if layout == "zip":
        with zipfile.ZipFile(out / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path, text in inside.items():
                archive.writestr(zipfile.ZipInfo(f"my-course/{path}"), text)
        return
    if layout.startswith("tar"):
        kind = layout.partition(".")[2]
        with tarfile.open(out / f"{name}.{layout}", f"w:{kind}") as packed:  # type: ignore[call-overload]
            for path, text in inside.items():
                info = tarfile.TarInfo(path)
                info.size = len(text.encode())
                packed.addfile(info, io.BytesIO(text.encode()))
        return
    folder = out / (f"{name}_{100_000 + number}_assignsubmission_file_" if layout == "moodle" else name)
    flat = {f"{lesson}.cu": text for lesson, text in files.items()}
    short = {f"lesson{lesson[:2]}.cu": text for lesson, text in files.items()}
    for path, text in {"flat": flat, "moodle": flat, "numbers": short}.get(layout, inside).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    folder.mkdir(exist_ok=True)
    if layout == "clone":
        (folder / ".git").mkdir()
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "README.md").write_text("my course\n")


def timed(
    students: int, lessons: Sequence[str], processes: int | None, executor: str = "local", kills: int = 0
) -> tuple[float, float, float]:
    """Grade a class with nothing kept from before: seconds, processor seconds, MB of the largest process."""
    with tempfile.TemporaryDirectory() as folder:
        submissions, out = Path(folder, "submissions"), Path(folder, "grades")
        submissions.mkdir()
        make_class(submissions, students, lessons)
        command = [sys.executable, "-m", "gemm_lessons", "grade", str(submissions), "--out", str(out), "--seed", "1"]
        command += ["--lessons", ",".join(lessons)]
        began = time.monotonic()
        process = subprocess.Popen(
            [*command, "--executor", executor, *(["--processes", str(processes)] if processes else [])],
            env={**os.environ, "XDG_CACHE_HOME": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        most, due = 0.0, began + APART
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            time.sleep(0.2)
            below = dict(_below(process.pid))
            most = max(most, sum(used for _, used in below.values()))
            victims = [pid for pid, (name, _) in below.items() if name.startswith("ray::judge")]
            if kills and victims and time.monotonic() > due:
                os.kill(victims[0], signal.SIGKILL)
                kills, due = kills - 1, time.monotonic() + APART
        _, status, used = ended
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 3) or kills:
            raise SystemExit(
                f"grading {students} students: exit code {process.returncode}, {kills} workers left to kill"
            )
        return time.monotonic() - began, max(most, used.ru_utime + used.ru_stime), used.ru_maxrss / KIB


def _below(root: int) -> Iterator[tuple[int, tuple[str, float]]]:
    """Yield a process and those that it started: (name, processor seconds with those of ended children)."""
    found: dict[int, tuple[int, str, float]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            name = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found[int(path.name)] = (int(fields[1]), name, sum(map(int, fields[11:15])) / TICKS)
    family = {root}
    while more := {pid for pid, (parent, _, _) in found.items() if parent in family} - family:
        family |= more
    yield from ((pid, found[pid][1:]) for pid in family if pid in found)


def main() -> None:
    """Make a class, or time some."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=200)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--time", type=int, nargs="*")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--lessons", default="")
    parser.add_argument("--ray", type=int, metavar="N")
    parser.add_argument("--kill", type=int, default=0)
    asked = parser.parse_args()
    course = packaged_course()
    lessons = parse_lessons(course, [asked.lessons]) if asked.lessons else course.names
    if asked.out is not None:
        asked.out.mkdir(parents=True)
        make_class(asked.out, asked.students, lessons)
        return
    print(f"{'students':>8}  {'kernels':>7}  {'seconds':>7}  {'CPU s':>7}  {'CPU s a student':>15}  {'largest MB':>10}")
    for size in asked.time or ([asked.students] if asked.time is None else SIZES):
        executor = "ray" if asked.ray else "local"
        seconds, used, largest = timed(size, lessons, asked.ray or asked.processes, executor, asked.kill)
        kernels = size * len(lessons)
        print(f"{size:8}  {kernels:7}  {seconds:7.1f}  {used:7.1f}  {used / size:15.2f}  {largest:10.0f}", flush=True)


if __name__ == "__main__":
    main()
