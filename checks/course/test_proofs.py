"""Each proof can fail: a lesson made by ``dev new`` is proven, every mistake in it is told once, by file and line."""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_group

from gemm_lessons.authoring.candidate import Shared
from gemm_lessons.authoring.pitfalls import the_tool_prints_what_is_quoted
from gemm_lessons.authoring.prove import PROOFS, prove_lesson
from gemm_lessons.authoring.questions import fill_in
from gemm_lessons.authoring.skeleton import new_lesson
from gemm_lessons.cli.app import whole
from gemm_lessons.course.folder import CommandError, Course, packaged_course
from gemm_lessons.course.lesson import LessonError
from gemm_lessons.report.screen import printed

RUNNING = ("stub", "solution", "previous", "numbers", "answers", "edits", "quotes", "bugs")  # proofs that run kernels
READING = [proof for proof in PROOFS if proof.name not in RUNNING]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """A course of two lessons, both from the skeleton. The second one's idea is a barrier."""
    root = tmp_path_factory.getbasetemp() / "teacher"
    (root / "lessons").mkdir(parents=True)
    shutil.copytree(packaged_course().lessons_dir / "common", root / "lessons" / "common")
    course = Course(root)
    for name in ("21_before", "22_after"):
        for path in new_lesson(course, name).iterdir():
            path.write_text(path.read_text().replace("REPLACE: ", "Well, ").replace("REPLACE", "Now, "))
    folder = root / "lessons" / "22_after"
    for name in ("stub.cu", "solution.cu"):
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace("    // Write", "    __syncthreads();\n\n    // Write"))
    toml = (folder / "lesson.toml").read_text()
    (folder / "lesson.toml").write_text(toml.replace('value = "ffma / (M * N * K)"', 'value = "barriers"'))
    return Shared.of(Course(root), printed, get_group(whole()).commands)


def test_a_lesson_from_the_skeleton_is_proven(shared: Shared) -> None:
    made = prove_lesson(shared, "22_after")
    assert not [flaw for proof in made for flaw in proof.flaws or ()]
    assert all(proof.holds for proof in made)
    assert not fill_in(shared.course.lesson("22"), shared.numbers), "it came with its numbers"


@dataclass(frozen=True)
class Slip:
    """An edit of the good lesson, and what is said of it: ``slips.toml``."""

    file: str
    old: str
    new: str
    finds: str
    says: str
    running: bool = False

    def __str__(self) -> str:
        return f"{self.finds}-{self.file}-{self.new[:20]}"


SLIPS = [Slip(**slip) for slip in tomllib.loads((Path(__file__).parent / "slips.toml").read_text())["slip"]]


def slipped(shared: Shared, slip: Slip) -> list[tuple[str, str]]:
    """The flaws of the lesson with that slip, each with its proof."""
    path = shared.course.lessons_dir / "22_after" / slip.file
    good = path.read_text()
    assert slip.old in good
    path.write_text(good.replace(slip.old, slip.new, 1))
    try:
        proofs = PROOFS if slip.running else READING
        made = prove_lesson(Shared.of(shared.course, printed, shared.commands), "22_after", proofs)
    finally:
        path.write_text(good)
    return [(proof.proof, flaw) for proof in made for flaw in proof.flaws or ()]


@pytest.mark.parametrize("slip", SLIPS, ids=str)
def test_a_mistake_is_told_once_with_file_and_line(shared: Shared, slip: Slip) -> None:
    [(proof, flaw)] = slipped(shared, slip)
    assert proof == slip.finds, flaw
    assert re.search(slip.says, flaw), flaw


SUM = "if (row < M && col < N) for (int k = 0; k < K; k++) acc += a(row, k) * b(k, col); // TODO(1)"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("// TODO(1)", SUM, "stub.cu: its answer is right already; leave the idea out"),
        ("float acc = 0.0f;", "float acc = 0.0f", r"stub.cu:\d+: does not compile: expected a"),
        ("c(row, col) =", "c(row + 9, col) =", r"stub.cu:\d+: at 96x64x80: C: byte .* a stub compiles"),
        ("// TODO(1)", "if (row < 0); // TODO(1)", r'stub.cu: a run of it says something else before TODO.1.: "line'),
        ("// TODO(1)", "// later", r"stub.cu: a run of it does not name TODO.1. first; mark the gaps"),
    ],
    ids=["right", "broken", "faulting", "distracting", "unmarked"],
)
def test_a_stub_that_is_none(shared: Shared, old: str, new: str, says: str) -> None:
    """The same slip is in the solution's lines, too: only what the kernel does is looked at."""
    path = shared.course.lessons_dir / "22_after" / "stub.cu"
    good = path.read_text()
    path.write_text(good.replace(old, new, 1))
    try:
        made = prove_lesson(shared, "22_after", [proof for proof in PROOFS if proof.name == "stub"])
    finally:
        path.write_text(good)
    [flaw] = [flaw for proof in made for flaw in proof.flaws or ()]
    assert re.search(says, flaw), flaw


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("My Idea!", r"two digits, _, a name in lower case. Perhaps 01_my_idea\?"),
        ("23-x", r"Perhaps 01_x\?"),
        ("22_other", "22 is 22_after already; nothing was changed. Free: 23, 24, 25"),
    ],
)
def test_names_that_are_none(shared: Shared, name: str, says: str) -> None:
    with pytest.raises(CommandError, match=says):
        new_lesson(shared.course, name)
    assert len(list(shared.course.lessons_dir.iterdir())) == 3


@pytest.mark.parametrize(
    ("source", "head", "row", "says"),
    [
        ("simulator 64,64", "22", "`ffma`", "a shape is wanted, like simulator 128,128,64"),
        ("simulator 64,64,32", "22", "ffma", 'the row "ffma" ends with no `expression`'),
        ("simulator 64,64,32", "22", "`fma`", "did you mean ffma"),
        ("simulator 64,64,32", "99", "`ffma`", 'there is no lesson "99"'),
        ("simulator 64,64,32", "22 BK=16", "`ffma`", "has no tile size BK; it has BM, BN"),
        ("simulator 64,64,32", "22 BM=x", "`ffma`", "write tile sizes like 22 BK=16"),
        ("simulator 64,64,32", "22 slow", "`ffma`", r"22_after/pitfalls.toml has no \[slow\]"),
        ("simulator 64,64,0", "22", "`ffma`", "K = 0 is below 1"),
        ("h200 cold", "512", "22_after", "cold is not a unit: tflops, percent, ms, us"),
        ("h200 tflops", "512", "22_after", "h200.json is not there"),
        ("ncu 4096", "22", "`sm_cycles`", "h200_ncu.json is not there"),
        ("machinecode 64,64,32", "dropped", "22", "'dropped' is not there; the source is simulator M,N,K"),
        ("", "22", "`ffma`", "'' is not a source; write simulator M,N,K"),
    ],
)
def test_tables_that_cannot_be_filled(shared: Shared, source: str, head: str, row: str, says: str) -> None:
    with pytest.raises(LessonError, match=says):
        shared.numbers.filled(source, f"| x | {head} |\n|---|---:|\n| {row} | |\n")


@pytest.mark.parametrize(
    ("file", "data", "says"),
    [
        ("README.md", b" \n", "README.md: is empty; write the text"),
        ("stub.cu", b"caf\xe9", r"stub.cu:1: not UTF-8 text"),
        ("solution.cu", None, "solution.cu: is not there; write the stub with its TODOs filled in"),
        ("predict.toml", b"\xe9", r"predict.toml: not UTF-8 text"),
        ("pitfalls.toml", b"[", r"pitfalls.toml:1: not valid TOML"),
    ],
)
def test_files_that_cannot_be_read(shared: Shared, file: str, data: bytes | None, says: str) -> None:
    path = shared.course.lessons_dir / "22_after" / file
    good = path.read_bytes()
    path.unlink() if data is None else path.write_bytes(data)
    try:
        made = prove_lesson(Shared.of(shared.course, printed, shared.commands), "22_after")
    finally:
        path.write_bytes(good)
    [flaw] = [flaw for proof in made for flaw in proof.flaws or ()]
    assert re.search(says, flaw), flaw


@pytest.mark.parametrize(
    ("quote", "timed", "missing"),
    [
        ("missed  2  <= 1", False, []),
        ("missed  2  <= 1\n...\ntime  3.2 us", True, []),
        ("missed  3  <= 1\ntime  3.2 us", True, ["missed  3  <= 1"]),
        ("missed  2  <= 1\ntime  3.3 us", True, ["time  3.3 us"]),
    ],
)
def test_a_pitfall_is_estimated_where_a_quote_needs_it(quote: str, timed: bool, missing: list[str]) -> None:
    runs: list[bool] = []
    ahead: list[str] = []

    def run(name: str, *, estimating: bool) -> str:
        assert ahead == ["a"]
        runs.append(estimating)
        return "missed 2 <= 1" + "\ntime 3.2 us" * estimating

    candidate: Any = SimpleNamespace(
        text=f"<!-- pitfall: a -->\n```\n{quote}\n```\n",
        pitfalls={"a": None},
        lesson=SimpleNamespace(text_path=Path("README.md")),
        pitfall_run=run,
        disassemble_pitfalls=ahead.extend,
        printer=str,
    )
    said = [it.partition(" does not print: ")[2] for it in the_tool_prints_what_is_quoted(candidate)]
    assert said == missing
    assert runs == [False, True][: 1 + timed]
