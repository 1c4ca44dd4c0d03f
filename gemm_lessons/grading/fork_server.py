"""The process that submissions are forked from: everything is loaded once, and nothing of one reaches the next.

    worker --question--> nursery --fork--> job (in a folder of its own) --> answer --> worker

It runs no submission itself. Each job has pipes and an empty folder of its own; when it has answered, or its time is
over, it is killed with all that it started, and the folder goes.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import pkgutil
import resource
import shutil
import signal
import tempfile
import warnings
from pathlib import Path
from typing import Any

from gemm_lessons.engine.compiler import nvrtc, tools
from gemm_lessons.engine.process import bounds
from gemm_lessons.engine.process.child import ChildDied, ChildHung, Parent
from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.grading import job

ROOMS = ("course", "engine", "gemm", "judging", "running")
ADOPT_ORPHANS = 36  # prctl
PREFIX = "gemm-lessons-job-"


def main(parent: Parent) -> None:
    """Load, then answer until the parent goes away."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    # The one other thread waits for our parent's end, and is not there in a fork.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    _load()
    while True:
        question, sources = parent.receive()
        parent.send(_judge(question, sources))


def _load() -> None:
    for room in ROOMS:
        package = importlib.import_module(f"gemm_lessons.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    with contextlib.suppress(KitError):  # whoever compiles will be told
        tools.prepare(nvrtc.CUDA_MAJORS[0])
    gc.collect()
    gc.freeze()  # the pages of what lives on stay shared


def _judge(question: dict[str, Any], sources: list[bytes]) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    most = bounds.SLOW * (question["seconds"] + bounds.Bounds(question["seconds"]).grace)
    before = _used()
    try:
        with job.start(question, sources, folder) as child:
            try:
                return child.receive(most)[0]
            except ChildHung:
                return {"error": "timeout"}
            except ChildDied as died:
                # Who is deaf to SIGXCPU is killed by Linux a little later.
                by = abs(died.code or 0)
                late = by == signal.SIGXCPU or (by == signal.SIGKILL and _used() - before >= question["seconds"])
                if died.code == 1 and "Traceback" in died.last_words:  # whatever led to it, the mistake is ours
                    last = died.last_words.splitlines()[-1]
                    return {"error": "kit", "text": f"this is a bug in gemm-lessons ({last})"}
                return {"error": "timeout"} if late else {"error": "crash", "text": str(died)}
    finally:
        _end_orphans()
        shutil.rmtree(folder, ignore_errors=True)


def _used() -> float:
    """Processor seconds of all jobs so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _end_orphans() -> None:
    """What a job has left behind is our child now."""
    with contextlib.suppress(OSError):
        while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            for pid in map(int, children):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in map(int, children):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
