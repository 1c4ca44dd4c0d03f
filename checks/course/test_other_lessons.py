"""Lessons unlike the course's, without Python: halves, column-major B, scratch, an epilogue, two launches; and a
formula of rows, without a product."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from checks.disassembly import Groups, groups_of
from gemm_lessons.authoring.candidate import kernels_of
from gemm_lessons.course.folder import Course, packaged_course
from gemm_lessons.course.lesson import LessonError
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.estimate.chip import LAUNCH_US, NEXT_US
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gemm.time_model import estimate_at
from gemm_lessons.judging.verdict import Faulted, WrongAnswer
from gemm_lessons.running.outcome import RunOutcome
from gemm_lessons.running.pipeline import RunRequest, run_lesson

SOFTMAX = Path(__file__).parent / "kernels" / "92_row_softmax"
FOLDER = Path(__file__).parent / "kernels" / "90_split_k"
COURSE = Course(Path(__file__).resolve().parents[2])
LESSON = load_lesson(FOLDER)


def requested(path: Path, **changes: object) -> RunRequest:
    request = RunRequest(COURSE, LESSON, path, Simulated(), GPUS["h200"], seed=5, beside=False)
    return replace(request, **changes)  # type: ignore[arg-type]


def run(path: Path, **changes: object) -> RunOutcome:
    return run_lesson(requested(path, **changes))


@cache
def solved() -> RunOutcome:
    return run(FOLDER / "solution.cu")


def test_it_passes_and_is_counted_over_both_launches() -> None:
    row = solved().kernel
    assert row.checked.verdict.kind == "passed", row.checked
    assert [result.shape for result in row.checked.shapes] == [*LESSON.shapes.check, LESSON.shapes.count]
    counters, (m, n, k) = row.checked.counters, (64, 64, 128)
    assert counters is not None
    products, adding = m * n * k, m * n * (4 + 1)
    assert counters["global_load_bytes"] == products * 4 + adding * 4, "two halves a product; four slices and a bias"
    assert counters["global_store_bytes"] == m * n * 4 * (4 + 1), "four slices of P, and C"
    assert counters["ffma"] == products
    assert counters["blocks"] == 16 * 4 + 32
    lines = {line.line for line in counters.lines if line.metric == "global_load_sectors" or "sector" in line.metric}
    assert len(lines) >= 2, "lines of both kernels"


def test_it_is_estimated_with_its_own_types_and_both_launches() -> None:
    speed = solved().kernel.speed
    assert speed.estimator is not None
    assert speed.estimate is not None
    first, second = speed.estimator.profiles
    shape = Shape(4096, 4096, 4096)
    square = 4096.0**2
    assert (first.traffic.left, first.traffic.right, first.traffic.target) == (2, 2, 4)
    assert (first.traffic.read(shape), first.traffic.written(shape)) == (2 * square * 2, 4 * square * 4)
    assert (second.traffic.read(shape), second.traffic.written(shape)) == (4 * square * 4 + 4096 * 4, square * 4)
    assert not second.traffic.tiled
    first_grid, second_grid = LESSON.grids(shape)
    times = [
        estimate_at(first, shape, first_grid.grid, GPUS["h200"]).time_us,
        estimate_at(second, shape, second_grid.grid, GPUS["h200"]).time_us,
    ]
    assert speed.estimate.time_us == pytest.approx(sum(times) - LAUNCH_US + NEXT_US)
    assert times[1] > 5 * square * 4 / 4.8e12 * 1e6, "the reduction cannot be faster than its memory"


def test_the_stub_answers_wrongly_and_each_todo_counts(tmp_path: Path) -> None:
    stub = (FOLDER / "stub.cu").read_text()
    assert isinstance(run(FOLDER / "stub.cu").verdict, WrongAnswer)
    first = stub.replace("int begin = 0;", "int begin = blockIdx.z * depth;")
    second = stub.replace("// TODO(2): add", "for (int s = 0; s < SLICES; ++s) sum += P[s * M * N + i]; //")
    for text in (first, second):
        assert text != stub
        path = tmp_path / "kernel.cu"
        path.write_text(text)
        assert isinstance(run(path).verdict, WrongAnswer), "half of it is not enough"


def test_scratch_that_was_never_written_is_found(tmp_path: Path) -> None:
    text = (FOLDER / "solution.cu").read_text()
    path = tmp_path / "kernel.cu"
    store = "P[(blockIdx.z * M + row) * N + col] = sum;"
    assert store in text
    path.write_text(text.replace(store, f"if (blockIdx.z < 3) {store}"))
    assert isinstance(run(path).verdict, WrongAnswer), "the poison of scratch reaches the answer"


def test_a_fault_in_the_second_launch_is_its_own(tmp_path: Path) -> None:
    text = (FOLDER / "solution.cu").read_text()
    path = tmp_path / "kernel.cu"
    path.write_text(text.replace("for (int s = 0; s < SLICES; ++s)", "for (int s = 0; s <= SLICES; ++s)"))
    verdict = run(path).verdict
    assert isinstance(verdict, Faulted)
    assert verdict.finding.kind == "out_of_bounds"
    assert "P" in verdict.finding.message


def test_a_kernel_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text((FOLDER / "solution.cu").read_text().replace("add_slices", "add_all"))
    verdict = run(path).verdict
    assert verdict.kind == "compile_failed"
    assert "add_slices(float *P, const float *bias, float *C, int M, int N)" in verdict.message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('type = "float16"', 'type = "half"', r"lesson.toml:14: \[buffers.A\] type: 'half'"),
        ('order = "column"', 'order = "columns"', r"lesson.toml:20: \[buffers.B\] order: 'columns' is none"),
        ('role = "scratch"', 'role = "temp"', r"\[buffers.P\] role: 'temp' is none of in, out, inout, scratch"),
        ('shape = ["N"]', 'shape = ["Q"]', r"\[buffers.bias\] shape: .*uses Q,"),
        ('shape = ["N"]', "shape = []", r"\[buffers.bias\] shape: must be a list of one to three"),
        ('formula = "C = relu(A @ B + bias)"', 'formula = "C = relu(A @ X)"', r"toml:11: .kernel. formula: .*uses X,"),
        ('formula = "C = relu(A @ B + bias)"', 'formula = "P = A @ B"', r"\[buffers.P\] role: P holds the answer"),
        ('accumulate = "float32"', 'accumulate = "int32"', "A is float16, but sums are made in int32"),
        ('accumulate = "float32"', 'accumulate = "bfloat16"', "accumulate: 'bfloat16' is none of float64, float32"),
        ('entry = "add_slices"', "", r"\[\[launches\]\] number 2: entry: is missing"),
        ('"P", "bias", "C"', '"P", "bias"', "C is missing"),
        ('"P", "bias", "C"', '"P", "bias", "D"', r'toml:39: \[\[launches\]\] number 2: parameters: "D" is none'),
        ('block = ["128"]', 'block = ["1280"]', r"\[\[launches\]\] number 2: block: 1280 threads"),
        ("[shapes]", '[launch]\ngrid = ["1"]\n[shapes]', "keep one of the two"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = tmp_path / "90_split_k"
    shutil.copytree(FOLDER, folder)
    text = (folder / "lesson.toml").read_text()
    assert old in text
    (folder / "lesson.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(LessonError, match=message):
        load_lesson(folder)


# What becomes of the row softmax, which starts from its solution: an edit, and the verdict.
SOFTMAXES = [
    ("", "", "passed"),
    ("float top = X[row * N];", "float top = -INFINITY;", "wrong_answer"),  # of a row of one number
    ("int col = 0; col < N; col++)\n        sum", "int col = N - 1; col >= 0; col--)\n        sum", "passed"),
    ("- largest[i / N]) / sums[i / N]", "- largest[i / N]) * (1.0f / sums[i / N])", "passed"),
    ("expf(X[row * N + col] - top)", "exp2f(1.44269504f * (X[row * N + col] - top))", "passed"),
    ("for (int col = 1; col < N; col++)\n        top", "for (int col = 1; col < 1; col++)\n        top", "passed"),
    ("int col = 0; col < N", "int col = 1; col < N", "wrong_answer"),
    ("int col = 0; col < N", "int col = 0; col < N - 1", "wrong_answer"),
    ("expf(X[row * N + col] - top)", "expf(X[row * N + col])", "wrong_answer"),
    ("largest[i / N]) / sums[i / N]", "largest[i / N]) / sums[i % M]", "wrong_answer"),
    ("result = expf(", "result = __half2float(hexp(__float2half(", "wrong_answer"),
    (" / sums[i / N]", "", "wrong_answer"),
]


def softmax(edit: tuple[str, str, str], folder: Path) -> RunRequest:
    """Write the edited solution. Return a run of it."""
    old, new, _ = edit
    text = (SOFTMAX / "solution.cu").read_text()
    assert old in text
    text = text.replace(old, new, 1)
    if "hexp" in new:
        text = "#include <cuda_fp16.h>\n" + text.replace("largest[i / N]) /", "largest[i / N]))) /")
    path = folder / "kernel.cu"
    path.write_text(text)
    return requested(path, lesson=load_lesson(SOFTMAX), estimating=False)


@pytest.fixture(scope="module")
def softmaxes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Groups:
    def compiled(edit: tuple[str, str, str]) -> list[Compiled]:
        return kernels_of(softmax(edit, tmp_path_factory.mktemp("softmax")))

    return groups_of(request, tmp_path_factory, "test_a_softmax_by_toml_alone_is_judged", "edit", compiled)


@pytest.mark.parametrize("edit", SOFTMAXES)
def test_a_softmax_by_toml_alone_is_judged(tmp_path: Path, edit: tuple[str, str, str], softmaxes: Groups) -> None:
    softmaxes.need(edit)
    verdict = run_lesson(softmax(edit, tmp_path)).kernel.checked.verdict
    assert verdict.kind == edit[2], verdict


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("range = [84.0, 92.0]", "range = [92, 84]", r"lesson.toml:14: \[buffers.X\] range: must be two numbers"),
        ("range = [84.0, 92.0]", 'range = [84, "N"]', r"\[buffers.X\] range: must be two numbers"),
        (
            "range = [84.0, 92.0]",
            'range = [84, 92]\nfill = "zeros"',
            r"range: must be .* of random numbers that are float",
        ),
        (', axis=1)"', ', axis=0)"', None),
        (', axis=1)"', ')"', "formula: .*sum of one argument takes axis=1, of each row"),
        ("exp(X - max", "pow(X - max", r"formula: .*pow\(.* is not allowed; allowed: .*exp\(x\)"),
        ('"C = exp(X', '"C = max(X, axis=1) * exp(sums', "formula: .*64 x 1 and 64 do not fit|gives"),
    ],
)
def test_mistakes_in_a_formula_of_rows_are_named(tmp_path: Path, old: str, new: str, message: str | None) -> None:
    folder = tmp_path / "92_row_softmax"
    shutil.copytree(SOFTMAX, folder)
    text = (folder / "lesson.toml").read_text()
    assert old in text
    (folder / "lesson.toml").write_text(text.replace(old, new, 1))
    if message is None:
        load_lesson(folder)
        return
    with pytest.raises(LessonError, match=message):
        load_lesson(folder)


def test_a_range_is_for_formulas_with_functions(tmp_path: Path) -> None:
    folder = tmp_path / "90_split_k"
    shutil.copytree(FOLDER, folder)
    text = (folder / "lesson.toml").read_text()
    (folder / "lesson.toml").write_text(text.replace('shape = ["N"]', 'shape = ["N"]\nrange = [1, 2]'))
    with pytest.raises(LessonError, match=r"range: numbers of a product have many exponents as they are"):
        load_lesson(folder)
    (folder / "lesson.toml").write_text(
        text.replace('shape = ["N"]', 'shape = ["N"]\nrange = [1, 2]').replace(
            "relu(A @ B + bias)", "tanh(A @ B + bias)"
        )
    )
    assert load_lesson(folder).data.by_name["bias"].range == (1.0, 2.0)


def test_factors_with_a_range_have_rows_and_columns_of_one_size() -> None:
    data = packaged_course().lesson("ozaki").data
    values = Problem(data, Shape(128, 256, 128, layout="NT"), 5).values
    for matrix in (values["A"].value, values["B"].value.T):
        largest, typical = np.abs(matrix).max(axis=1), np.median(np.abs(matrix), axis=1)
        assert (typical > largest / 8).all()
        assert largest.max() > 1000 * largest.min(), "rows differ"
