"""Fork server for submissions: it loads all modules once and forks a fresh process for each job.

    worker --question--> fork server --fork--> job (in a folder of its own) --> answer --> worker

It runs no submission itself. Each job has its own pipes and its own empty folder. After its answer or its timeout the
job and all its child processes are killed, and the folder is deleted.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import pkgutil
import resource
import signal
import warnings
from pathlib import Path
from typing import Any

from gemm_lessons.engine.compiler import nvrtc, tools
from gemm_lessons.engine.process import bounds
from gemm_lessons.engine.process.child import ChildDied, ChildHung, Parent
from gemm_lessons.engine.process.orphans import adopt_orphans, end_orphans
from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.grading import job
from gemm_lessons.grading.scratch import remove_leftovers, scratch

ROOMS = ("course", "engine", "gemm", "judging", "running")


def main(parent: Parent) -> None:
    """Load all modules, then answer questions until the parent exits."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    adopt_orphans()
    # The only other thread waits for the parent to exit; a fork does not inherit it.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    remove_leftovers()
    _load()
    while True:
        question, sources = parent.receive()
        parent.send(_judge(question, sources))


def _load() -> None:
    for room in ROOMS:
        package = importlib.import_module(f"gemm_lessons.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    with contextlib.suppress(KitError):  # compiling will report the error
        tools.prepare(nvrtc.CUDA_MAJORS[0])
    gc.collect()
    gc.freeze()  # keeps pages of long-lived objects shared with the forks


def _judge(question: dict[str, Any], sources: list[bytes]) -> dict[str, Any]:
    with scratch("job") as folder:
        try:
            return _judge_in(folder, question, sources)
        finally:
            end_orphans()


def _judge_in(folder: Path, question: dict[str, Any], sources: list[bytes]) -> dict[str, Any]:
    most = bounds.SLOW * (question["seconds"] + bounds.Bounds(question["seconds"]).grace)
    before = _used()
    with job.start(question, sources, folder) as child:
        try:
            return child.receive(most)[0]
        except ChildHung:
            return {"error": "timeout"}
        except ChildDied as died:
            # Linux kills a process that ignores SIGXCPU a little later.
            by = abs(died.code or 0)
            late = by == signal.SIGXCPU or (by == signal.SIGKILL and _used() - before >= question["seconds"])
            if died.code == 1 and "Traceback" in died.last_words:  # an uncaught exception is a bug of the kit
                last = died.last_words.splitlines()[-1]
                return {"error": "kit", "text": f"this is a bug in gemm-lessons ({last})"}
            return {"error": "timeout"} if late else {"error": "crash", "text": str(died)}


def _used() -> float:
    """Return the processor seconds of all finished jobs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
