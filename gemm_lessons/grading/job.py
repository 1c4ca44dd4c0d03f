"""Judge one submission in a process of its own: enter the sandbox, run the kernel, send one answer.

The question is ``{"submission": {...}, "files": [names], "memory_bytes":, "seconds":}`` with the files' contents. The
answer is the outcome, or the reason why there is none, the names of the active protections (walls), and what was used.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gemm_lessons.course import CommandError, Course
from gemm_lessons.devices import Device, open_device
from gemm_lessons.engine import KitError, UnsupportedKernel, find_gpu
from gemm_lessons.engine.compiler import tools
from gemm_lessons.engine.process import (
    Bounds,
    Forked,
    OutOfTime,
    Parent,
    bounds,
    confine,
    go_on_in_child,
    leave_namespaces,
    limit,
    meter,
)
from gemm_lessons.gemm import Shape, ShapeError
from gemm_lessons.grading import sandbox
from gemm_lessons.running import RunRequest, as_json, fixed, run_lesson

RESERVE_BYTES = 32 << 20  # freed when memory runs out, so that the error can still be reported
ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "GEMM_LESSONS_NO_CACHE": "1", "OPENBLAS_NUM_THREADS": "1"}
Question = Mapping[str, Any]


def start(question: Question, sources: Sequence[bytes], folder: Path) -> Forked:
    """Fork a process for this job, in ``folder``; it sends one message."""
    return Forked(lambda parent: _run_as_first_process(parent, question, sources, folder))


def _run_as_first_process(parent: Parent, question: Question, sources: Sequence[bytes], folder: Path) -> None:
    """Enter new namespaces, where Linux allows them, and run the job as their first process. The process of a GPU stays
    outside, because CUDA does not work inside."""
    parent.no_more_questions()
    device = _device(question["submission"])
    if not leave_namespaces():
        parent.send(_answer(question, sources, folder, device, ()))
        return
    go_on_in_child(lambda: parent.send(_answer(question, sources, folder, device, ("names",))))


def _device(submission: Question) -> Device | KitError:
    """Open the device; return the error if that fails."""
    try:
        return open_device(submission["device"], submission["gpu_index"])
    except KitError as error:
        return error


def _answer(
    question: Question, sources: Sequence[bytes], folder: Path, device: Device | KitError, walls: tuple[str, ...]
) -> dict[str, Any]:
    os.chdir(folder)
    tempfile.tempdir = str(folder)
    reserve = bytearray(RESERVE_BYTES)
    try:
        with bounds.within(Bounds(question["seconds"], question["memory_bytes"])):
            return _judged(question, sources, folder, device, walls)
    except MemoryError:
        reserve.clear()
        return {"error": "memory"}
    except OutOfTime:
        return {"error": "timeout"}
    except UnsupportedKernel as error:
        return {"error": "unsupported", "text": str(error), "line": error.line}
    except (CommandError, ShapeError) as error:
        return {"error": "command", "text": str(error)}
    except KitError as error:
        return {"error": "kit", "text": str(error)}


def _judged(
    question: Question, sources: Sequence[bytes], folder: Path, device: Device | KitError, walls: tuple[str, ...]
) -> dict[str, Any]:
    if isinstance(device, KitError):
        raise device
    submission = question["submission"]
    course = Course(Path(submission["course"]))
    lesson = course.lesson(submission["lesson"])
    _ = course.names, course.architecture  # read before the sandbox forbids it
    os.environ.clear()
    os.environ.update(ENVIRONMENT, HOME=str(folder), TMPDIR=str(folder))
    reach = sandbox.reach_of(lesson, folder)
    given = [*zip(question["files"], sources, strict=True)]
    for name, source in reversed(given):  # written last, so that the kernel wins if two files share a name
        if name != question["files"][0]:  # a header: its macros for date, time and file get fixed values
            source = fixed(source.decode(errors="surrogateescape"))[0].encode(errors="surrogateescape")
        (folder / name).write_bytes(source)
    path = folder / question["files"][0]
    used = meter()
    bounded = limit(question["memory_bytes"], question["seconds"] + Bounds(question["seconds"]).grace)
    tools.open_for_me(lambda starts: confine(reach, starts))
    stand = {"walls": (*confine(reach), *bounded, *walls)}
    if "python" in question:
        return {"got": _run_foreign_code(question["python"]), **stand}
    request = RunRequest(
        course=course,
        lesson=lesson,
        path=path,
        device=device,
        gpu=find_gpu(submission["gpu"]),
        shape=None if submission["shape"] is None else Shape(*submission["shape"]),
        seed=submission["seed"],
        beside=False,
        estimating=False,
        bounds=bounds.current(),
        graded=True,
        secret=tuple(Shape(*sizes) for sizes in submission["secret"]),
    )
    outcome = as_json(run_lesson(request))
    tools.close()
    return {"outcome": outcome, "used": used(), **stand}


def _run_foreign_code(code: str) -> object:
    """Run Python code in place of a submission, as an attacker could after a break-out. Return its ``got``."""
    scope: dict[str, Any] = {}
    exec(code, scope)
    return scope.get("got")
