"""Row distances of fragments and views that differ from those of their arrays, each with twins that do not."""

from __future__ import annotations

import pytest

from checks.judgement.findings import race
from checks.judgement.mistakes import lesson_named
from checks.judgement.test_hints import changed
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.evidence import Evidence
from gemm_lessons.judging.strides import wrong_stride, wrong_view
from gemm_lessons.judging.verdict import Faulted, Passed

TILE = "__shared__ half As[BM][BK + PAD];\nMatrix<float> c{C, M, N, N, 1};\n"
LOAD = "wmma::load_matrix_sync(f, &As[row + 16 * i][k], {});"
STORE = "wmma::store_matrix_sync(&c(row, col), acc[i][j], {}, wmma::mem_row_major);"


def evidence(lesson: str, source: str, right: bool = False) -> Evidence:
    verdict = Passed() if right else Faulted(Shape(128, 128, 32), race(5, 6))
    return changed(Evidence(lesson_named(lesson), source=source), verdict=verdict)


@pytest.mark.parametrize("call", [LOAD.format("BN"), LOAD.format("BK"), STORE.format("BN"), STORE.format("M")])
def test_a_row_distance_of_another_array_is_found(call: str) -> None:
    found = wrong_stride(evidence("tensor_cores", TILE + call))
    assert found.line == 3
    assert found.apart == ("BK + PAD" if "As" in call else "N")
    assert wrong_stride(evidence("tensor_cores", TILE + call, right=True)) is None


@pytest.mark.parametrize(
    "call",
    [LOAD.format(it) for it in ("BK + PAD", "PAD + BK", "A_ROW", "40")] + [STORE.format("N"), STORE.format("ld")],
)
def test_the_array_s_own_distance_is_not(call: str) -> None:
    assert wrong_stride(evidence("tensor_cores", TILE + call)) is None
    assert wrong_stride(evidence("tensor_cores", f"{TILE}// {LOAD.format('BN')}")) is None
    assert wrong_stride(evidence("tensor_cores", LOAD.format("BN"))) is None, "the array is unknown"


@pytest.mark.parametrize("distances", ["M, 1", "1, K", "1, M"])
def test_a_view_with_other_distances_is_found(distances: str) -> None:
    found = wrong_view(evidence("naive", f"const Matrix<const float> a{{A, M, K, {distances}}};"))
    assert (found.view, found.matrix, found.apart) == ("a", "A", "K")


@pytest.mark.parametrize(
    "view", ["a{A, M, K, K, 1}", "a{A, M, K, lda, 1}", "a{A, M, K, T ? 1 : K, 1}", "t{As, M, K, M, 1}"]
)
def test_other_views_are_not(view: str) -> None:
    assert wrong_view(evidence("naive", f"const Matrix<const float> {view};")) is None
    assert wrong_view(evidence("naive", "const Matrix<const float> a{A, M, K, M, 1};", right=True)) is None
