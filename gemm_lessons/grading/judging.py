"""Judge one student's kernel of one lesson. A ``Job`` holds everything that decides the outcome.

    Job --judge--> Judged: the outcome of ``run --json``, or why there is none

A job is self-contained and includes the source, so any process on any machine can run it. Its ``key`` is a hash of its
contents and of the judging versions; two runs with the same key have the same outcome.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gemm_lessons import __version__
from gemm_lessons.course import CommandError, Course, packaged_course
from gemm_lessons.devices import Choice
from gemm_lessons.engine import KitError, UnsupportedKernel
from gemm_lessons.engine.process import GIB, scratch
from gemm_lessons.engine.records import dataclass
from gemm_lessons.grading.escaping import one_line
from gemm_lessons.grading.reference import nearest_lessons
from gemm_lessons.grading.results import GradeStatus
from gemm_lessons.grading.worker import Limits, Submission, judge_submission

SEED_BYTES = 4
LARGEST = 100_000  # characters; a longer file is not tried as a kernel of another lesson


@dataclass(frozen=True)
class Job:
    """A kernel, its lesson and its inputs. ``course`` is None for the lessons of the package, wherever it is
    installed. ``seeds``: one run for each, until one does not pass."""

    student: str
    lesson: str
    lesson_hash: str
    file: str
    data: bytes
    headers: Mapping[str, bytes] = field(default_factory=dict)  # the student's own headers, in the kernel's folder
    seeds: tuple[int, ...] = (0,)
    shapes: tuple[tuple[int, int, int], ...] = ()
    seconds: float = 60.0
    memory_gib: float = 2.0
    device: Choice = "sim"
    course: Path | None = None

    @property
    def sha256(self) -> str:
        """Return the hash of the kernel's bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def key(self) -> str:
        """Return a hash of everything that decides the outcome."""
        facts = {
            "lesson": self.lesson,
            "lesson_hash": self.lesson_hash,
            "source": self.sha256,
            "headers": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(self.headers.items())},
            "seeds": self.seeds,
            "shapes": self.shapes,
            "limits": (self.seconds, self.memory_gib),
            "device": self.device,
            "versions": {name: it for name, it in versions().items() if name != "python"},
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Judged:
    """The result of a job. ``seed`` is that of the run that decided it."""

    status: GradeStatus
    message: str
    outcome: dict[str, Any] | None
    seed: int
    seconds: float
    passes: str = ""  # another lesson that the kernel passes


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of the judging software of this machine."""
    found = {"gemm_lessons": __version__, "python": platform.python_version()}
    for name, package in (("nvrtc", "nvidia-cuda-nvrtc"), ("numpy", "numpy")):
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def seed_for(class_seed: int, student: str, lesson: str, number: int = 0) -> int:
    """Derive the seed of a student's inputs: unknown without the seed of the class, the same on every machine."""
    text = f"{class_seed}\0{student}\0{lesson}\0{number}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:SEED_BYTES], "big")


def judge(job: Job) -> Judged:
    """Judge one kernel. Never raises for the kernel's behaviour or for features that the kit does not support."""
    began = time.monotonic()
    status: GradeStatus = "graded"
    message, outcome, seed, passes = "", None, job.seeds[0], ""
    try:
        with scratch("kernel") as folder:
            path = folder / "kernel.cu"
            for name, data in {**job.headers, path.name: job.data}.items():
                (path.parent / name).write_bytes(as_utf8(data))
            course = packaged_course() if job.course is None else Course(job.course)
            for seed in job.seeds:
                outcome = _judge_once(job, course, path, seed)
                if outcome["verdict"] != "passed":
                    if outcome["verdict"] != "timed_out":
                        passes = _passes_another(job, course, path, seed)
                    break
    except UnsupportedKernel as error:
        where = f"line {error.line}: " if error.line else ""
        status, message = "unsupported", f"the simulator cannot run this kernel: {where}{error}"
    except CommandError as error:
        status, message = "unreadable", str(error).replace(str(folder), "").lstrip("/")
    except (KitError, OSError) as error:
        status, message = "kit_error", str(error)
    except Exception as error:  # a bug of ours with one kernel must not stop the whole class
        if os.environ.get("GEMM_LESSONS_DEBUG"):
            raise
        status, message = "kit_error", f"this is a bug in gemm-lessons ({type(error).__name__}: {error})"
    return Judged(status, one_line(message), outcome, seed, round(time.monotonic() - began, 2), passes)


def _passes_another(job: Job, course: Course, path: Path, seed: int) -> str:
    """Return the lesson that the kernel passes instead, as a file under a wrong name does; an empty string if none.
    Only lessons whose stub and reference are nearer to the kernel than those of its own lesson are tried. The verdict
    of its own lesson stands if that fails."""
    text = path.read_bytes().decode(errors="replace")
    if len(text) > LARGEST:
        return ""
    for lesson in nearest_lessons(course, job.lesson, text):
        with contextlib.suppress(UnsupportedKernel, CommandError, KitError):
            if _judge_once(replace(job, lesson=lesson, shapes=()), course, path, seed)["verdict"] == "passed":
                return lesson
    return ""


def _judge_once(job: Job, course: Course, path: Path, seed: int) -> dict[str, Any]:
    beside = tuple(path.parent / name for name in sorted(job.headers))
    submission = Submission(
        course.root, job.lesson, path, device=job.device, seed=seed, beside=beside, secret=job.shapes
    )
    limits = Limits(seconds=job.seconds, memory_bytes=int(job.memory_gib * GIB))
    outcome = dict(judge_submission(submission, limits))
    # The temporary path is meaningless and differs from run to run.
    text = json.dumps(outcome | {"kernel": job.file}).replace(str(path), json.dumps(job.file)[1:-1])
    found: dict[str, Any] = json.loads(text.replace(f"{path.parent}/", ""))
    return found


def as_utf8(data: bytes) -> bytes:
    """Convert a text file to UTF-8: from UTF-16 if it has a byte-order mark, else from UTF-8, else from Windows-1252.
    A file that is not text is returned unchanged; the caller judges it."""
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16").encode()
        data.decode("utf-8")
    except UnicodeError:
        if b"\0" not in data:
            return data.decode("cp1252", errors="replace").encode()
    return data
