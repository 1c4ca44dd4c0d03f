"""What sums of 8-bit floats may lose: right kernels promote, and those that do not are refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.arguments.expression import ExpressionError
from gemm_lessons.engine.semantics import matrix_products
from gemm_lessons.gemm.formula import Formula, Value
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.promotion import lost
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.widths import whole_numbers

COURSE = packaged_course()
LESSON = COURSE.lesson("fp8")
E4M3 = ("f32", "e4m3", "e4m3")


def summed(problem: Problem, promote: int) -> Any:
    """C of a kernel that promotes every so many k, or rescales the tensor core's sum where the scale changes."""
    of_a, of_b = (problem.layouts[name].matrix(problem.arrays[name]) for name in "AB")
    row, block = (problem.values[name].value for name in ("scale_A", "scale_B"))
    scales = [row[:, [k]] * np.repeat(block[[k]], 128, axis=1) for k in range(row.shape[1])]
    total, c = np.zeros((of_a.shape[0], of_b.shape[1])), np.zeros((1, of_a.shape[0], of_b.shape[1]), np.float32)
    for k in range(0, of_a.shape[1], 32):
        if k % 128 == 0 and k:
            c = (c * (scales[k // 128 - 1] / scales[k // 128])).astype(np.float32)
        c = matrix_products.multiply_async(E4M3, of_a[None, :, k : k + 32], of_b[None, k : k + 32], c)
        if (k + 32) % promote == 0 or k + 32 == of_a.shape[1]:
            total, c = total + scales[k // 128] * c[0], np.zeros_like(c)
    element = problem.answer.element
    return element.decode(element.encode(total))


@pytest.mark.parametrize(("promote", "right"), [(64, True), (128, True), (1 << 20, False)])
def test_a_kernel_without_promotion_is_refused(promote: int, right: bool) -> None:
    for shape in (it for it in LESSON.shapes.check if it.k > 1000):
        problem = Problem(LESSON.at(shape).data, shape, 7)
        error = np.abs(summed(problem, promote) - problem.reference)
        assert (error <= problem.tolerance).all() == right


def test_more_is_lost_in_longer_sums() -> None:
    assert [round(lost(k) * 2**13) for k in (32, 128, 1152)] == [5, 80, 862]


def test_repeat_has_each_number_several_times() -> None:
    x = np.arange(6.0).reshape(2, 3) - 2
    formula = Formula.parse("C = repeat(repeat(x, 2, axis=0), 3, axis=1)", ["C", "x"])
    found = formula.value({"x": Value.exact(x)})
    assert np.array_equal(found.value, np.kron(x, np.ones((2, 3))))
    assert np.array_equal(found.magnitude, np.abs(found.value))
    assert formula.shape({"x": (2, 3)}) == (4, 9)
    assert not formula.has_functions


@pytest.mark.parametrize("text", ["repeat(x)", "repeat(x, 2)", "repeat(x, 0, axis=1)", "repeat(x, y, axis=1)"])
def test_repeat_needs_a_number_and_an_axis(text: str) -> None:
    with pytest.raises(ExpressionError, match="repeat takes a matrix, a number and an axis"):
        Formula.parse(f"C = {text}", ["C", "x", "y"])


def test_scaled_factors_are_those_of_the_product() -> None:
    assert [it.name for it in LESSON.data.factors] == ["A", "B"]
    assert LESSON.data.formula.product is None


def test_large_bfloat16_numbers_are_whole_without_an_int() -> None:
    shape = Shape(128, 256, 1152, layout="NT")
    problem = Problem(LESSON.at(shape).data, shape, 7)
    wrong: Any = SimpleNamespace(problem=problem, got=np.trunc(1.2 * problem.reference))
    assert not [*whole_numbers(wrong)]
