"""Loads that ptxas moves: only they are excused, and the line that holds them does hold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.grading.fixtures import cheats, honest
from checks.judgement.test_hidden import run
from gemm_lessons.course.folder import any_course

LESSON = any_course().lesson("double_buffer")
KERNELS = {it.label: it for it in (*honest(), *cheats()) if it.lesson == LESSON.name}
BRANCH = "        if (k0 != 0)\n            fetch(k0 - BK);\n"
MOVED = KERNELS["double_buffer/from_the_last_tile"].source
LATE = KERNELS["double_buffer/additions_hide"].source


def judged(tmp_path: Path, source: str) -> tuple[bool, list[str]]:
    path = tmp_path / "kernel.cu"
    path.write_text(source)
    outcome = run(LESSON, path, graded=False)
    waited = next(gate for gate in outcome.kernel.checked.gates if gate.id == "tiles_waited_for")
    return bool(waited.passed), [it for it in outcome.kernel.hints if it.startswith("tiles waited for")]


def test_moved_loads_are_told_with_the_line_that_holds_them(tmp_path: Path) -> None:
    assert MOVED.count(BRANCH) == 1
    passed, (hint,) = judged(tmp_path, MOVED)
    assert not passed
    line = int(hint.split("in line ")[1].split()[0])
    assert "float4_at(" in MOVED.splitlines()[line - 1]
    assert "the compiler has moved these loads past the products" in hint
    passed, hints = judged(tmp_path, MOVED.replace(BRANCH, f"{BRANCH}        __syncwarp();\n"))
    assert (passed, hints) == (True, [])


@pytest.mark.parametrize("source", [LATE], ids=["products before the loads"])
def test_loads_that_are_late_in_the_source_are_not_excused(tmp_path: Path, source: str) -> None:
    passed, (hint,) = judged(tmp_path, source)
    assert not passed
    assert "the compiler has moved" not in hint
    assert "Issue the loads of the next tile before the arithmetic" in hint
