"""``%load_ext gemm_lessons`` in a real kernel: a cell gets the verdict that ``gemm-lessons run`` gives its text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from checks.cli.tiny_course import SOLUTION, write_course
from gemm_lessons.course.folder import Course, packaged_course
from gemm_lessons.course.progress import load_progress
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.running import contract
from gemm_lessons.running.pipeline import RunRequest, run_lesson

nbformat = pytest.importorskip("nbformat", reason="the extra [test] has what runs notebooks")
nbclient = pytest.importorskip("nbclient")

START = Path(__file__).resolve().parents[2] / "notebooks" / "start.ipynb"
SEED = 7
CELLS = {
    "passed": SOLUTION,
    "wrong_answer": re.sub(r"// TODO.*", "// done", SOLUTION).replace("acc +=", "acc -="),
    "faulted": SOLUTION.replace("if (row < M && col < N)", "if (row < M + 1)"),
    "compile_failed": SOLUTION.replace("float acc", "flot acc"),
}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return Course(write_course(tmp_path_factory.mktemp("notebook") / "course"))


@pytest.fixture(scope="module")
def said(course: Course) -> dict[str, list[Any]]:
    """What each cell put out, by its source: one kernel for all of them."""
    notebook = nbformat.read(START, as_version=4)
    sources = [f"%cd -q {course.root}", "%lesson 01", "%hint 01"]
    for kernel in CELLS.values():
        sources += [
            f"%%lesson 01 --seed {SEED} --device sim\n{kernel}",
            f"print(__import__('json').dumps(_.json))  # {kernel[-400:]!r}",
        ]
    sources += [
        "%hint 01 1",
        "%lesson 99",
        "%%lesson 01 --gpu gtx\nx",
        "%%lesson 01 --shape 2,2\nx",
        "%%lesson 01 --seed x\nx",
    ]
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in sources]
    where = {"metadata": {"path": str(course.root.parent)}}
    nbclient.NotebookClient(notebook, timeout=120, allow_errors=True, kernel_name="python3", resources=where).execute()
    return {cell.source: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def outputs(said: dict[str, list[Any]], start: str) -> list[Any]:
    [found] = [found for source, found in said.items() if source.startswith(start)]
    return found


class Cells(HTMLParser):
    """The cells of a page's tables; fails on tags that are not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


@pytest.mark.parametrize("verdict", CELLS)
def test_a_cell_gets_the_verdict_of_the_command(
    said: dict[str, list[Any]], course: Course, tmp_path: Path, verdict: str
) -> None:
    source = f"%%lesson 01 --seed {SEED} --device sim\n{CELLS[verdict]}"
    [result] = said[source]
    [printed] = outputs(said, f"print(__import__('json').dumps(_.json))  # {CELLS[verdict][-400:]!r}")
    path = tmp_path / "kernel.cu"
    path.write_text(f"\n{CELLS[verdict]}")  # the magic is a line of the cell, too
    request = RunRequest(course, course.lesson("01"), path, Simulated(), GPUS["h200"], seed=SEED)
    expected = json.loads(json.dumps(contract.as_json(run_lesson(request))))
    found = json.loads(printed["text"])
    assert found["verdict"] == verdict
    assert {**found, "kernel": ""} == {**expected, "kernel": ""}
    assert result["output_type"] == "execute_result"
    assert verdict.upper().replace("_", " ") in result["data"]["text/plain"]
    page = result["data"]["text/html"]
    assert f"{verdict.upper().replace('_', ' ')}" in page
    cells = Cells(page).cells
    if verdict == "compile_failed":
        line = source.splitlines().index("    flot acc = 0.0f;") + 1
        assert f"cell of lesson 01:{line}:5" in page, "lines are those of the cell"
    else:
        table = {"you", "reference", "estimated GFLOPS", "bank conflicts", "occupancy"}
        assert (table <= set(cells)) == (verdict == "passed"), "a wrong kernel has no numbers to compare"


def test_commands_are_those_of_a_notebook(said: dict[str, list[Any]]) -> None:
    pages = [
        output["data"]["text/html"]
        for found in said.values()
        for output in found
        if "text/html" in output.get("data", {})
    ]
    assert len(pages) >= len(CELLS) + 3
    assert not [page for page in pages if "gemm-lessons " in page]
    assert any("%lesson 02" in page for page in pages), "what comes after a pass"
    assert any("%hint 01" in page for page in pages)


def test_reading_shows_the_text_and_hints_go_on(said: dict[str, list[Any]]) -> None:
    [text] = said["%lesson 01"]
    assert text["data"]["text/markdown"].startswith("# The first lesson")
    assert "<!--" not in text["data"]["text/markdown"]
    [first], [second] = said["%hint 01"], said["%hint 01 1"]
    assert "TODO(1), hint 1 of 3" in first["data"]["text/html"]
    assert "TODO(1), hint 2 of 3" in second["data"]["text/html"]
    assert "more [than] a nudge" in second["data"]["text/html"]


def test_mistakes_are_one_line(said: dict[str, list[Any]]) -> None:
    for source, message in (
        ("%lesson 99", 'there is no lesson "99"'),
        ("%%lesson 01 --gpu gtx", "--gpu: "),
        ("%%lesson 01 --shape 2,2", '--shape "2,2" is not a shape'),
        ("%%lesson 01 --seed x", "invalid int value"),
    ):
        [found] = [output for output in outputs(said, source) if output["output_type"] == "stream"]
        assert message in found["text"]
        assert "Traceback" not in found["text"]


def test_a_pass_counts_in_the_learner_s_course(said: dict[str, list[Any]], course: Course) -> None:
    assert load_progress(course).of("01_first").passed
    assert not (course.lessons_dir / "01_first" / "kernel.cu").exists(), "no file of theirs is touched"


def test_the_first_cell_says_what_was_found(said: dict[str, list[Any]]) -> None:
    """It installs nothing where the kit is there."""
    [found] = outputs(said, "import ctypes\n")
    page = found["data"]["text/html"]
    for word in ("GPU driver", "CuPy", "NVRTC", "packaged lessons"):
        assert word in page


def test_the_notebook_to_start_from_is_the_first_lesson(said: dict[str, list[Any]]) -> None:
    first = packaged_course().names[0]
    stub = (packaged_course().lessons_dir / first / "stub.cu").read_text()
    source = f"%%lesson {first[:2]}\n{stub.rstrip()}"
    assert source in said, "its cell is the stub"
    [result] = said[source]
    assert re.search("WRONG ANSWER|NOT FINISHED", result["data"]["text/plain"])
