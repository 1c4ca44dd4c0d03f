"""A run fits one screen: every lesson's solution and stub, and what a broken kernel says. Its words are explained."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from checks.cli.tiny_course import GATE, KERNEL, SOLUTION, STUB, Run
from gemm_lessons.course.documents import entries, glossary_path
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson import LIMITERS, Lesson
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.gemm.shapes import Tile
from gemm_lessons.judging.advice import advice
from gemm_lessons.judging.figures import PER_FMA, PER_MMA, SECTORS
from gemm_lessons.judging.hints import LIMITS
from gemm_lessons.judging.verdict import TileMap
from gemm_lessons.report.console import THEME
from gemm_lessons.report.figures import BOTTLENECKS
from gemm_lessons.report.run import map_part
from gemm_lessons.report.screen import ScreenContext, show_screen
from gemm_lessons.report.trouble import in_elements
from gemm_lessons.running.outcome import RunOutcome
from gemm_lessons.running.pipeline import RunRequest, run_lesson

COURSE = packaged_course()
LINES, COLUMNS = 23, 80  # the prompt has the last line of a terminal
WORDS = entries(glossary_path(COURSE).read_text())
VERDICTS = "passed, wrong answer, gate missed, faulted, timed out, compile failed, not finished".split(", ")
BROKEN = {
    "wrong": (SOLUTION.replace("acc +=", "acc -="), "WRONG ANSWER"),
    "fault": (KERNEL.replace("BODY", "    acc = A[M * K + 100];"), "FAULTED"),
    "race": (KERNEL.replace("BODY", "    C[0] = threadIdx.x + blockIdx.x;"), "FAULTED"),
    "syntax": (SOLUTION.replace("float acc", "flot acc"), "COMPILE FAILED"),
    "parameters": (SOLUTION.replace(", int K)", ", int K, int extra)"), "COMPILE FAILED"),
    "endless": (KERNEL.replace("BODY", "    while (M > 0) acc += clock();"), "TIMED OUT"),
    "stub": (STUB, "NOT FINISHED"),
}


def screen(outcome: RunOutcome, columns: int = COLUMNS) -> str:
    """Return what a terminal of so many columns shows."""
    out = io.StringIO()
    console = Console(file=out, width=columns, theme=THEME, highlight=False, markup=False, emoji=False)
    show_screen(console, outcome, ScreenContext("99_next", f"gemm-lessons run {outcome.lesson.number:02}"))
    return out.getvalue()


def fits(text: str, columns: int = COLUMNS) -> bool:
    lines = text.splitlines()
    return len(lines) <= LINES and max(len(line.rstrip()) for line in lines) <= columns


def labels(text: str) -> list[str]:
    """The table's first column, without the size of the times."""
    table = text.split("\n\n")[1].splitlines()[1:]
    return [re.split(r" at |  ", line)[0] for line in table]


# One of each kind of table: GB/s, shared memory, tensor cores, integers. The slow tests have every third lesson that
# takes seconds, and the long ones all. The words of every lesson's table are looked up without a run, below.
KINDS = ("first_kernel", "block_tile", "tensor_cores", "dp4a")
SELDOM = ("clusters", "ozaki")  # each takes as long as all others
BESIDE = "block_tile"  # runs on all shapes and with the lesson before


def in_all_columns(lesson: Lesson) -> RunOutcome:
    """Run the solution on the counting shape alone. Its numbers also fill the column of the lesson before."""
    lesson = replace(lesson, shapes=replace(lesson.shapes, check=(lesson.shapes.count,)))
    made = run_lesson(RunRequest(COURSE, lesson, lesson.solution_path, Simulated(), find_gpu("h200"), beside=False))
    before = COURSE.start_of(lesson)
    if before is None:
        return made
    previous = replace(made.kernel, role="previous", label=before.replace("_", " ", 1))
    return replace(made, rows=(made.kernel, previous))


def marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    if name[3:] in KINDS:
        return ()
    often = int(name[:2]) % 3 == 0 and name[3:] not in SELDOM
    return (pytest.mark.slow,) if often else (pytest.mark.slow, pytest.mark.long)


@pytest.mark.parametrize("name", [pytest.param(it, marks=marks(it)) for it in COURSE.names])
def test_every_solution_fits_and_its_words_are_explained(name: str) -> None:
    lesson = COURSE.lesson(name)
    if name[3:] == BESIDE:
        outcome = run_lesson(RunRequest(COURSE, lesson, lesson.solution_path, Simulated(), find_gpu("h200")))
    else:
        outcome = in_all_columns(lesson)
    narrow, wide = screen(outcome), screen(outcome, 120)
    assert fits(narrow)
    assert fits(wide, 120)
    assert "PASSED" in narrow.splitlines()[-2], "the verdict comes last but for the next step"
    assert labels(narrow) == labels(wide)
    assert "\u2026" not in narrow
    found = labels(narrow)
    assert {"estimated time", "bank conflicts", "occupancy"} <= set(found)
    assert any(label in found for label in ("estimated GFLOPS", "estimated GOPS", "estimated GB/s"))
    assert not [label for label in found if label.lower() not in WORDS]


def test_each_word_that_can_come_is_explained() -> None:
    figures = [figure.label for name in COURSE.names for figure in load_lesson(COURSE.lessons_dir / name).figures]
    own = [it.label for it in (PER_FMA, PER_MMA, SECTORS)]
    kinds = [kind.replace("_", " ") for kind in advice("kinds")]
    said = [*figures, *own, *kinds, *BOTTLENECKS.values(), *VERDICTS, "time", "GFLOPS", "GOPS", "of cuBLAS"]
    assert not [word for word in said if word.lower() not in WORDS]
    named = {match for text in WORDS.values() for match in re.findall(r"\((\w+)\)\n$", text)}
    assert not named - {name[3:] for name in COURSE.names}, "an entry names its lesson"
    assert all(re.search(r"\(\w+\)\n$", text) for text in WORDS.values())


def test_limiters_are_those_of_the_estimate() -> None:
    assert set(LIMITERS) == {*LIMITS, "launch"} == set(BOTTLENECKS)


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_kernel_fits(run: Run, kernel: Path, what: str) -> None:
    source, title = BROKEN[what]
    kernel.write_text(source)
    done = run("run", "01")
    assert done.code == 1
    assert fits(done.out), done.out
    assert done.out.splitlines()[-1].endswith("--details")
    assert re.search(rf"^{title}  ", done.out, re.MULTILINE)
    if what in ("fault", "race", "syntax"):
        assert re.search(r"^ +\d+ \| .*\n +\^$", done.out, re.MULTILINE), "source with a caret"
    assert " byte " not in done.out


FIRST_KERNELS = {
    "no block": ("i = threadIdx.x;", "", ["Out of bounds at 7x1x1: A[7]", "The launch has 256 threads, A 7 elements"]),
    "no block, guarded": ("i = threadIdx.x;", "if (i < M * N)", ["  . .", "  # #", "; rows 15 to 19 of 32"]),
    "no guard": (
        "i = blockIdx.x * blockDim.x + threadIdx.x;",
        "",
        ["Out of bounds: ", "[1023], read by", "at 33x31x1"],
    ),
}


@pytest.mark.parametrize("what", FIRST_KERNELS)
def test_where_a_kernel_goes_wrong_is_on_the_screen(tmp_path: Path, what: str) -> None:
    """The map shows wrong elements, and a finding names its shape where the verdict names another one."""
    index, guard, said = FIRST_KERNELS[what]
    kernel = tmp_path / "kernel.cu"
    head = 'extern "C" __global__ void add(const float *A, const float *B, float *C, int M, int N)'
    kernel.write_text(f"{head}\n{{\n    int {index}\n    {guard}\n    C[i] = A[i] + B[i];\n}}\n")
    lesson = COURSE.lesson("00_first_kernel")
    text = screen(run_lesson(RunRequest(COURSE, lesson, kernel, Simulated(), find_gpu("h200"))))
    assert fits(text)
    assert not [it for it in said if it not in text]


def test_a_warning_of_the_compiler_is_on_the_screen_of_a_wrong_kernel(run: Run, kernel: Path) -> None:
    """The one that may be the cause, before those about unused names; none while a TODO is open."""
    wrong = SOLUTION.replace("float acc", "int unused; float acc").replace("acc +=", "acc += (1 << 40) * M +")
    kernel.write_text(wrong)
    said = run("run", "01").out
    assert re.search(r"^Compiler warning, line \d+: shift count is too large$", said, re.MULTILINE), said
    assert fits(said)
    kernel.write_text(SOLUTION.replace("acc +=", "acc -="))
    assert "Compiler warning" not in run("run", "01").out


def test_the_part_of_a_map_starts_before_the_first_wrong_tile() -> None:
    def part(rows: int, cols: int, *wrong: tuple[int, int]) -> tuple[range, range]:
        tiles = [[int((row, col) in wrong) for col in range(cols)] for row in range(rows)]
        return map_part(TileMap(1, 1, tuple(map(tuple, tiles))), 5, 8)

    assert part(3, 4, (2, 3)) == (range(3), range(4))
    assert part(32, 8, (0, 0), (31, 7)) == (range(5), range(8))
    assert part(32, 20, (16, 9)) == (range(15, 20), range(8, 16))
    assert part(32, 20, (31, 19)) == (range(27, 32), range(12, 20))


def test_a_missed_gate_is_named_and_met_ones_are_silent(run: Run, course: Path) -> None:
    toml = course / "lessons" / "02_second" / "lesson.toml"
    other = GATE.replace('"barriers"\nvalue = "barriers"', '"blocks"\nvalue = "blocks"')
    toml.write_text(toml.read_text().replace("[[todo]]", f"{other}\n[[todo]]"))
    done = run("run", "02", "--file", "lessons/01_first/solution.cu")
    assert done.code == 1
    assert fits(done.out)
    assert "Missed: barriers is 0; it must be at least 1. This lesson is about barriers." in done.out
    assert "GATE MISSED  3 of 3 shapes, 1 of 2 gates" in done.out
    assert "blocks" not in done.out
    assert "blocks" in run("run", "02", "--file", "lessons/01_first/solution.cu", "--details").out


def test_what_a_kernel_prints_is_shown(run: Run, kernel: Path) -> None:
    kernel.write_text(SOLUTION.replace("float acc", 'if (threadIdx.x == 0) printf("here %d\\n", M);\n    float acc'))
    done = run("run", "01")
    assert "here " in done.out
    assert fits(done.out)


def test_explain(run: Run) -> None:
    done = run("run", "--explain", "Bank Conflicts")
    assert done.code == 0
    assert "Passes of shared memory" in done.out
    wrong = run("run", "--explain", "bank conflict")
    assert wrong.code == 2
    assert 'did you mean "bank conflicts"?' in wrong.err
    assert run("run", "--explain", "qqqq").code == 2
    assert "occupancy" in run("read", "glossary").out


ARRAYS = """
__shared__ float As[BM][BK + 1];
constexpr int N4 = BN / 4;
__shared__ float4 Bs[2][N4];
extern __shared__ float flat[];
extern __shared__ char raw[];
struct Stage { half a[BM][BK]; int round; float4 b[N4]; }; // 192 + 4 + 12 of padding + 32 bytes
extern __shared__ __align__(16) Stage stages[];
struct Odd { Unknown u[2]; };
__shared__ Odd odd[3];
"""


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("As, byte 36 of 432: read", "As[1][0] is read"),
        (
            "As, byte 36 of 432: written by thread 0 in line 3 and read by thread 1 in line 4",
            "As[1][0] is written by thread 0 in line 3 and read by thread 1 in line 4",
        ),
        (
            "As: byte 432 of 432, 4 bytes read by thread 0: just past its end",
            "As[12][0], read by thread 0: just past its end",
        ),
        ("Bs, byte 16 of 64: read", "Bs[0][1] is read"),
        (
            "A: byte 400 of 240, 4 bytes read by thread 0: 160 bytes past its end",
            "A[100], read by thread 0: 40 elements past its end",
        ),
        ("A: byte 4464 of 240: 4,224 bytes past its end", "A[1116]: 1,056 elements past its end"),
        ("flat, byte 36 of 432: 4 bytes read", "flat[9] is read"),
        ("stages, byte 256 of 480: 16 bytes read", "stages[1].a[1][0]: 16 bytes read"),
        ("stages, byte 192 of 480: read", "stages[0].round is read"),
        ("stages, byte 464 of 480: 16 bytes past its end", "stages[1].b[1]: 16 bytes past its end"),
        ("raw, byte 36 of 432: read", "raw, byte 36 of 432: read"),
        ("odd, byte 36 of 432: read", "odd, byte 36 of 432: read"),
        ("unknown, byte 4 of 8: read", "unknown, byte 4 of 8: read"),
    ],
)
def test_elements_not_bytes(course: Path, message: str, text: str) -> None:
    lesson: Lesson = load_lesson(course / "lessons" / "01_first", "")
    lesson = replace(lesson, tile=Tile((("BM", 12), ("BN", 8), ("BK", 8))))
    assert in_elements(message, ARRAYS, lesson, None) == text
