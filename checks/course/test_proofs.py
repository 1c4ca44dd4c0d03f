"""Each proof can fail: a lesson made by ``dev new`` is proven, every mistake in it is told once, by file and line."""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.main import get_group

from gemm_lessons.cli.app import app
from gemm_lessons.course.folder import CommandError, Course, packaged_course
from gemm_lessons.proofs.candidate import Shared
from gemm_lessons.proofs.filling import fill_in
from gemm_lessons.proofs.prove import PROOFS, prove
from gemm_lessons.proofs.skeleton import new_lesson
from gemm_lessons.report.run import printed

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
    return Shared.of(Course(root), printed, get_group(app).commands)


def test_a_lesson_from_the_skeleton_is_proven(shared: Shared) -> None:
    made = prove(shared, "22_after")
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
        made = prove(Shared.of(shared.course, printed, shared.commands), "22_after", proofs)
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
    ],
    ids=["right", "broken", "faulting"],
)
def test_a_stub_that_is_none(shared: Shared, old: str, new: str, says: str) -> None:
    """The same slip is in the solution's lines, too: only what the kernel does is looked at."""
    path = shared.course.lessons_dir / "22_after" / "stub.cu"
    good = path.read_text()
    path.write_text(good.replace(old, new, 1))
    try:
        made = prove(shared, "22_after", [proof for proof in PROOFS if proof.name == "stub"])
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
