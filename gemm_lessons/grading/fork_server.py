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
import warnings
from pathlib import Path
from typing import Any

from gemm_lessons.engine import KitError
from gemm_lessons.engine.compiler import nvrtc, tools
from gemm_lessons.engine.process import (
    ChildDied,
    ChildHung,
    Parent,
    adopt_orphans,
    bounds,
    end_orphans,
    remove_leftovers,
    scratch,
    seconds_of_children,
)
from gemm_lessons.grading import job

ROOMS = ("course", "engine", "gemm", "judging", "running")
# New objects after which the garbage collector runs. It finds next to nothing: machines and checkers have no cycles.
FRESH_OBJECTS = 1_000_000


def main(parent: Parent) -> None:
    """Load all modules, then answer questions until the parent exits."""
    bounds.leave_no_core()
    gc.set_threshold(FRESH_OBJECTS, 10, 10)
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
    before = seconds_of_children()
    with job.start(question, sources, folder) as child:
        try:
            return child.receive(most)[0]
        except ChildHung:
            return {"error": "timeout"}
        except ChildDied as died:
            # Linux kills a process that does not end by itself a little later.
            late = died.out_of_time or (died.killed and seconds_of_children() - before >= question["seconds"])
            if died.code == 1 and "Traceback" in died.last_words:  # an uncaught exception is a bug of the kit
                lines = died.last_words.splitlines()
                where = next((it.partition(", line ")[2] for it in reversed(lines) if it.startswith('  File "')), "")
                return {"error": "kit", "text": f"this is a bug in gemm-lessons ({lines[-1]}; line {where})"}
            return {"error": "timeout"} if late else {"error": "crash", "text": str(died)}
