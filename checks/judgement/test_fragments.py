"""Halves and tensor cores: what is allowed, with its derivation; and the mistakes that are recognised."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from checks.judgement.cases import Array, Product, judged, problem
from gemm_lessons.engine.semantics.matrix_products import multiply
from gemm_lessons.gemm.shapes import TileSizes
from gemm_lessons.judging.verdict import judge

UNIT = 2.0**-24
DEPTH = 16  # products that one instruction sums


def halves(k: int) -> Product:
    return problem(16, 16, k, a="float16", b="float16")


def on_tensor_cores(it: Product, depth: int = DEPTH, sums: str = "f32", restart: int = 0) -> Array:
    """C as a chain of matrix instructions, as an H200 computes them; from ``restart`` to ``restart`` products in the
    narrow sums, and these added in float32."""
    zero = np.zeros((1, 16, 16), {"f32": np.float32, "f16": np.float16}[sums])
    total, part = np.zeros((16, 16), np.float32), zero
    for k in range(0, it.shape.k, depth):
        part = multiply((sums, "f16", "f16"), it.a[None, :, k : k + depth], it.b[None, k : k + depth], part)
        if restart and (k + depth) % restart == 0:
            total, part = total + part[0].astype(np.float32), zero
    return total + part[0].astype(np.float32)


def of_an_old_gpu(it: Product) -> Array:
    """Four products at once, and no bit below the 23rd of the largest number, as a V100 sums."""
    (a, b), total = it.factors, np.zeros((16, 16))
    for k in range(0, it.shape.k, 4):
        terms = np.concatenate([a[:, k : k + 4, None] * b[None, k : k + 4], total[:, None]], axis=1)
        scale = 2.0 ** (23 - np.frexp(np.abs(terms).max(axis=1))[1] + 1)
        total = np.trunc(terms * scale[:, None]).sum(axis=1) / scale
        exponent = 2.0 ** (24 - np.frexp(total)[1])
        total = np.trunc(total * exponent) / exponent
    return total


@pytest.mark.parametrize("k", [16, 32, 64, 256, 1024, 4096])
def test_tensor_cores_pass(k: int) -> None:
    it = halves(k)
    for depth in (8, 16):
        assert judge(it, on_tensor_cores(it, depth), TileSizes()).passed
    assert judge(it, of_an_old_gpu(it).astype(np.float32), TileSizes()).passed


@pytest.mark.parametrize("k", [16, 32, 64, 128, 256])  # as many as lessons are checked with
@pytest.mark.parametrize("restart", [0, 16, 32])
def test_sums_in_half_fail(k: int, restart: int) -> None:
    it = halves(k)
    wrong = judge(it, on_tensor_cores(it, sums="f16", restart=restart), TileSizes()).wrong
    assert wrong > 32, "of 256, and not by luck of a few"


@pytest.mark.parametrize("k", [16, 64, 1024, 4096])
def test_what_is_allowed_holds_every_cut_at_its_worst(k: int) -> None:
    """The derivation in ``Problem.tolerance``: 17 cuts of a step, each below 2^-25 of the largest number, and one of
    its result below 2^-23 of it, all of them in the same direction."""
    it = halves(k)
    a, b = it.factors
    sums = np.array([a[:, :last] @ b[:last] for last in range(0, k + 1, DEPTH)])
    steps = np.array([np.abs(a[:, k0 : k0 + DEPTH]) @ np.abs(b[k0 : k0 + DEPTH]) for k0 in range(0, k, DEPTH)])
    largest = np.maximum(np.maximum(np.abs(sums[:-1]), np.abs(sums[1:])), steps / DEPTH * 2)
    assert ((10.5 * UNIT * largest).sum(axis=0) <= it.tolerance).all()


def turned(matrix: Array) -> Array:
    rows, cols = matrix.shape
    return matrix.reshape(rows // 16, 16, cols // 16, 16).transpose(0, 3, 2, 1).reshape(rows, cols)


MISTAKES: list[tuple[str, Callable[[Product], Array], str]] = [
    ("half_sums", lambda it: it.reference.astype(np.float16).astype(np.float64), "the sums were made in half"),
    ("fragments_turned", lambda it: turned(it.factors[0]) @ it.factors[1], "each 16 x 16 of A was read"),
    ("fragments_turned", lambda it: it.factors[0] @ turned(it.factors[1]), "each 16 x 16 of B was read"),
    ("fragments_turned", lambda it: turned(it.reference), "each 16 x 16 of C is transposed"),
]


@pytest.mark.parametrize(("name", "kernel", "says"), MISTAKES)
def test_a_mistake_and_its_twin(name: str, kernel: Callable[[Product], Array], says: str) -> None:
    it = problem(48, 32, 64, a="float16", b="float16")
    pattern = judged(it, kernel(it)).pattern
    assert pattern.name == name
    assert says in pattern.explanation
    twin = kernel(it).copy()
    twin[30, 11] += 0.251  # one element that is no number of 16 bits, nor another one's sum
    other = judged(it, twin).pattern
    assert other is None or other.name != name
