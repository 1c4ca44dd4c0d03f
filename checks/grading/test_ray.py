"""The same class on a cluster of Ray: four workers, one of which is killed on the way."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from checks.grading.test_grade import write_class
from gemm_lessons.course.folder import Course
from gemm_lessons.grading.classroom import Classroom
from gemm_lessons.grading.executors import RayExecutor, open_executor
from gemm_lessons.grading.request import assignment_of
from gemm_lessons.grading.results import load_grades, load_grading

WORKERS = 4


def workers() -> list[int]:
    """The processes of this machine that judge for Ray, right now, and are below us."""
    found = []
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"ray::judge" in status.read_bytes():
                found.append(int(status.parent.name))
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_cluster_that_loses_a_worker_has_the_same_grades(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra [ray] is not installed")
    folder = write_class(tmp_path)
    killed: list[int] = []

    def tell(done: int, total: int) -> None:
        if not killed and (there := workers()):
            os.kill(there[0], signal.SIGKILL)
            killed.append(there[0])

    grades = []
    for name, executor, heard in (("local", open_executor("local", 2), None), ("ray", RayExecutor(WORKERS), tell)):
        asked = assignment_of(folder / "in", folder / name, course=Course(folder / "course").root, seed=5)
        with executor as judges:
            Classroom.of(asked).grade(judges, *([heard] if heard else []))
        found = load_grades(folder / name, load_grading(folder / name))
        grades.append([(it.student, it.lesson, it.points, it.verdict, it.message, it.case, it.outcome) for it in found])
    assert killed, "a worker was there to be killed"
    assert grades[0] == grades[1]
    assert len(grades[0]) == 8
