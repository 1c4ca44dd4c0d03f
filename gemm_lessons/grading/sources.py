"""Store the judged kernels beside their grades, for comparison and for later inspection.

OUT/results/STUDENT/NN_name.cu
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from gemm_lessons.course import write_atomically, writing
from gemm_lessons.grading.results import Grade, grade_path


def keep_source(out: Path, student: str, lesson: str, data: bytes) -> None:
    """Write a kernel beside its grade. Raises ``WriteError``."""
    path = _path(out, student, lesson)
    with writing(path):
        if path.is_file() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data)


def load_source(out: Path, grade: Grade) -> bytes | None:
    """Return the kernel of a grade; None if it is missing or has another hash."""
    if grade.sha256 is None:
        return None
    try:
        data = _path(out, grade.student, grade.lesson).read_bytes()
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == grade.sha256 else None


def _path(out: Path, student: str, lesson: str) -> Path:
    return grade_path(out, student, lesson).with_suffix(".cu")
