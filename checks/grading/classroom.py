"""A plausible class, the same every time: ``python -m checks.grading.classroom --students 200``.

    --out DIR            make the class there, and leave it
    --time [N ...]       grade classes of these sizes: a table of seconds, processor seconds and memory
    --lessons 01-09      of these lessons (default: of all)
    --ray N --kill 2     with N workers of Ray on this machine, two of which are killed while they judge
    --beside N           grade N students without Ray, too: exit code 1 if one of their grades differs

A student solves the first lessons, gets some wrong, has some half done and leaves the rest. Submissions have the usual
layouts: the course's own folder, flat files, archives, a clone, a download from Moodle. The kinds of kernels repeat
every 60 students, so that classes of 60, 120 and 240 differ in size alone, but each student's text is different. The
workers of Ray have no common parent, so with ``--ray`` processor seconds are those of the whole machine: run nothing
else on it.
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
from dataclasses import replace
from pathlib import Path

from gemm_lessons.course.folder import packaged_course, read_source
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.pitfalls import load_pitfalls, without_steps
from gemm_lessons.grading.results import Grade, load_grades, load_grading
from gemm_lessons.grading.rubric import parse_lessons

KINDS = ("right", "wrong", "half", "stub", "broken", "missing")
WEIGHTS = (62, 12, 8, 6, 7, 5)
LAYOUTS = ("course", "flat", "numbers", "zip", "tar.gz", "tar.xz", "clone", "moodle")
NAMES = ("ana", "bo", "chidi", "dina", "emil", "fatou", "goran", "hana", "ivan", "jun", "kofi", "lena")
SIZES = (25, 50, 100, 200)
ALIKE = 60  # students, after whom the kinds of kernels repeat
KIB = 1024
TICKS = os.sysconf("SC_CLK_TCK")  # of processor time, in a second
BUSY = (1, 2, 3, 6, 7)  # fields of /proc/stat's first line: user, nice, system, and interrupts
APART = 3.0  # seconds between the deaths of two workers

Grades = Mapping[tuple[str, str], Grade]


def make_class(out: Path, students: int, lessons: Sequence[str] = ()) -> Mapping[tuple[str, str], str]:
    """Write the submissions of a class; (student, lesson) -> the kind of kernel that was handed in."""
    course = packaged_course()
    facts: dict[tuple[str, str], str] = {}
    chosen = [course.lesson(name) for name in lessons or course.names]
    for number in range(students):
        draw = random.Random(f"student {number % ALIKE}")
        name = f"{NAMES[number % len(NAMES)]}{number:03}"
        skill = draw.choice((len(chosen), len(chosen), max(1, len(chosen) * 2 // 3)))
        files: dict[str, str] = {}
        for i, lesson in enumerate(chosen):
            kind = draw.choices(KINDS, WEIGHTS)[0] if i < skill else draw.choice(("stub", "missing"))
            facts[name, lesson.name] = kind
            if kind != "missing":
                files[lesson.name] = in_own_words(kernel(lesson, kind, draw), number, name)
        hand_in(out, name, LAYOUTS[number % len(LAYOUTS)], files, number)
    return facts


def kernel(lesson: Lesson, kind: str, draw: random.Random) -> str:
    """A kernel of this kind."""
    stub, solution = read_source(lesson.stub_path), read_source(lesson.solution_path)
    if kind == "stub":
        return stub
    if kind == "half":
        return half(stub, solution)
    text = solution
    if kind == "wrong":
        pitfalls = [it for it in load_pitfalls(lesson.directory / "pitfalls.toml").values() if it.bug]
        text = draw.choice(pitfalls).source(solution) if pitfalls else text.replace("+=", "-=", 1)
    text = "\n".join(without_steps(text.splitlines()))
    if kind == "broken":
        forgotten = re.sub(r"^(\s+\w[^/\n]*);$", r"\1", text, count=1, flags=re.MULTILINE)
        text = forgotten if draw.random() < 0.5 else text[: len(text) * 2 // 3]
    return f"{text}\n"


def in_own_words(text: str, number: int, author: str) -> str:
    """The kernel with a comment, a renamed variable and a test that never holds, which differ by student. A stub stays
    as it is."""
    if "TODO(1)" in text:  # a stub, which is recognised as such
        return text
    draw = random.Random(f"words {number}")
    text = re.sub(r"\bacc\b", draw.choice(("acc", "sum", "result", "total_of_products")), text)
    own = rf"\g<0>\n    if (blockIdx.x > {(1 << 31) - 1 - number}u)\n        return;"
    return f"// {author} {number}\n" + re.sub(r"__global__[^{;]*\{", own, text, count=1)


def half(stub: str, solution: str) -> str:
    """The stub with the first half of its TODOs filled in from the solution."""
    steps = len(set(re.findall(r"TODO\((\d+)\)", stub)))
    if steps < 2:
        return stub
    last = re.search(rf"// \({steps // 2 + 1}\)", solution)
    rest = re.search(rf"// TODO\({steps // 2 + 1}\)", stub)
    return stub if last is None or rest is None else solution[: last.start()] + stub[rest.start() :]


def hand_in(out: Path, name: str, layout: str, files: Mapping[str, str], number: int) -> None:
    """Write a student's kernels in a layout."""
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
    folder: Path, students: int, lessons: Sequence[str], processes: int | None, executor: str = "local", kills: int = 0
) -> tuple[float, float, float]:
    """Grade a class in ``folder`` with empty caches: wall seconds, processor seconds, MB of the largest process."""
    submissions = folder / "submissions"
    submissions.mkdir(parents=True)
    make_class(submissions, students, lessons)
    command = [sys.executable, "-m", "gemm_lessons", "grade", str(submissions), "--out", str(folder / "grades")]
    command += ["--lessons", ",".join(lessons), "--seed", "1", "--executor", executor]
    began, busy = time.monotonic(), machine_seconds()
    process = subprocess.Popen(
        [*command, *(["--processes", str(processes)] if processes else [])],
        env={**os.environ, "XDG_CACHE_HOME": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    due = began + APART
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        time.sleep(0.2)
        if kills and time.monotonic() > due and (victims := [*_judging(process.pid)]):
            os.kill(victims[0], signal.SIGKILL)
            kills, due = kills - 1, time.monotonic() + APART
    _, status, used = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3) or kills:
        raise SystemExit(f"grading {students} students: exit code {process.returncode}, {kills} workers left to kill")
    took = used.ru_utime + used.ru_stime if executor == "local" else machine_seconds() - busy
    return time.monotonic() - began, took, used.ru_maxrss / KIB


def machine_seconds() -> float:
    """The processor seconds that this machine has worked since its start."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return sum(int(fields[i]) for i in BUSY) / TICKS


def grades_of(out: Path) -> Grades:
    """The grades of a class, without the time that judging took."""
    return {(it.student, it.lesson): replace(it, seconds=0.0) for it in load_grades(out, load_grading(out))}


def _judging(root: int) -> Iterator[int]:
    """Yield the ids of Ray's processes below ``root`` that are judging a kernel."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    for pid in sorted(family):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::judge"):
                yield pid


def main() -> int:
    """Make a class, or time some."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=200)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--time", type=int, nargs="*")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--lessons", default="")
    parser.add_argument("--ray", type=int, metavar="N")
    parser.add_argument("--kill", type=int, default=0)
    parser.add_argument("--beside", type=int, metavar="N")
    asked = parser.parse_args()
    course = packaged_course()
    lessons = parse_lessons(course, [asked.lessons]) if asked.lessons else course.names
    if asked.out is not None:
        asked.out.mkdir(parents=True)
        make_class(asked.out, asked.students, lessons)
        return 0
    sizes = asked.time or ([asked.students] if asked.time is None else SIZES)
    runs = [(size, "ray" if asked.ray else "local", asked.kill) for size in sizes]
    runs += [(asked.beside, "local", 0)] if asked.beside else []
    found: list[Grades] = []
    print("executor  students  kernels  seconds    CPU s  CPU s a kernel  largest MB")
    for size, executor, kills in runs:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            seconds, used, largest = timed(place, size, lessons, asked.ray or asked.processes, executor, kills)
            grades = grades_of(place / "grades")
        ran = sum(it.verdict is not None for it in grades.values())
        print(
            f"{executor:<8}  {size:8}  {ran:7}  {seconds:7.1f}  {used:7.1f}  {used / ran:14.3f}  {largest:10.0f}",
            flush=True,
        )
        found.append(grades)
    if not asked.beside:
        return 0
    both = [(grade, found[-1][case]) for grades in found[:-1] for case, grade in grades.items() if case in found[-1]]
    differ = [f"{grade.student}/{grade.lesson}" for grade, alone in both if grade != alone]
    print(f"grades that differ from those without Ray: {len(differ)} of {len(both)}", *differ[:5])
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
