"""Generate ``test_lessons.py``: each lesson as a unit test, so that VS Code's Testing view shows the course as a tree.

VS Code's extension for Python discovers the file by ``unittest``, which is part of Python; pytest finds it, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from gemm_lessons.course import CoursePart

FILE = "test_lessons.py"
SETTINGS = {
    "python.testing.unittestEnabled": True,
    "python.testing.unittestArgs": ["-s", ".", "-p", FILE],
}
HEAD = '''"""Each lesson as a test, for VS Code's Testing view: a test runs the kernel.cu of its lesson.

Other runners find them, too: python -m unittest test_lessons. A lesson without a kernel.cu is skipped.
"""

import subprocess
import sys
import unittest
from pathlib import Path

COURSE = Path(__file__).resolve().parent


class Lesson(unittest.TestCase):
    def run_kernel(self, name):
        if not (COURSE / "lessons" / name / "kernel.cu").exists():
            self.skipTest(f"not started: gemm-lessons start {name}")
        command = [sys.executable, "-m", "gemm_lessons", "run", name, "--problems"]
        done = subprocess.run(command, cwd=COURSE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            self.fail("\\n" + done.stdout)
'''


def text(parts: Sequence[CoursePart]) -> str:
    """Return the text of ``test_lessons.py``: a class for each part of the course, a test for each lesson."""
    return HEAD + "".join(_part(part) for part in parts)


def _part(part: CoursePart) -> str:
    name = f"Part{part.number}" if part.number else "OtherLessons"
    tests = (f'    def test_{lesson}(self):\n        self.run_kernel("{lesson}")\n' for lesson in part.names)
    return f'\n\nclass {name}(Lesson):\n    """{part.title}"""\n\n' + "\n".join(tests)
