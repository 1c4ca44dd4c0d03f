"""Real runs of kernels that go wrong on hidden shapes alone: nothing that students get has a number of these."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from checks.grading.test_pages import Tags
from gemm_lessons.cli.app import whole
from gemm_lessons.course.folder import packaged_course

COURSE = packaged_course()
LESSON = COURSE.lesson("block_tile")
STORE = "if (row < M && col < N)"
SHAPES = (LESSON.shapes.count, *LESSON.shapes.check)
KNOWN = " || ".join(f"(M == {shape.m} && N == {shape.n} && K == {shape.k})" for shape in SHAPES)
BROKEN = {
    "wrong": (STORE, f"if (({KNOWN}) && row < M && col < N)"),
    "out": ("float acc = 0.0f;", f"float acc = ({KNOWN}) ? 0.0f : A[M * K + 5];"),
    "endless": ("float acc = 0.0f;", f"float acc = 0.0f; while (!({KNOWN})) C[0] = K;"),
}
LINES = 60  # numbers up to here are those of lines, points and threads, too
FORMATS = ("gradescope", "github-action", "junit")


def told(path: Path) -> str:
    """What can be read of a file, without what a page's style and a hash hold."""
    text = path.read_text()
    if path.suffix == ".html":
        page = Tags(text)
        text = "\n".join((page.text.rpartition("}")[2], *page.links))
    return re.sub(r"[0-9a-f]{64}", "", text).replace(",", "")


@pytest.mark.slow
def test_hidden_shapes_stay_hidden(tmp_path: Path) -> None:
    solution = (LESSON.directory / "solution.cu").read_text()
    for student, (before, after) in BROKEN.items():
        assert before in solution
        path = tmp_path / "submissions" / student / "block_tile.cu"
        path.parent.mkdir(parents=True)
        path.write_text(solution.replace(before, after, 1))
    out = tmp_path / "grades"
    options = [word for name in FORMATS for word in ("--format", name)]
    done = CliRunner().invoke(
        whole(),
        ["grade", str(tmp_path / "submissions"), "--lessons", "block_tile", "--seed", "7", "--out", str(out), *options],
    )
    assert done.exit_code == 0, done.output
    for student in BROKEN:
        grade = json.loads((out / "results" / student / f"{LESSON.name}.json").read_text())
        assert grade["verdict"] != "passed"
        shown = {size for shape in SHAPES for size in (shape.m, shape.n, shape.k)}
        m, n, k = grade["case"]["count_shapes"][-1]
        secrets = {m, n, k, m * n, m * k, n * k, 4 * m * n, 4 * m * k, 4 * n * k, m - 1, n - 1} - shown
        secrets = {it for it in secrets if it > LINES} | {grade["case"]["seed"]}
        assert len(secrets) > 4
        files = [path for name in ("reports", *FORMATS) for path in (out / name).rglob("*") if path.is_file()]
        mine = [path for path in files if path.suffix != ".base64" and (student in path.parts or path.suffix == ".xml")]
        assert len(mine) == 7
        for path in mine:
            numbers = set(map(int, re.findall(r"(?<![\w.])\d+(?!\w)", told(path))))
            assert not numbers & secrets, (path, numbers & secrets)
