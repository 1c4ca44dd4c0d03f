"""Products by residues: a wrong answer is explained by the first launch that errs, and by how."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

from checks.judgement.cases import PLAIN, TILES, Array
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.engine.records.elements import ELEMENTS
from gemm_lessons.gemm.data import BufferSpec, DataSpec
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.pattern import Pattern
from gemm_lessons.judging.residues import largest_moduli
from gemm_lessons.judging.verdict import Judgement, judge

MODULI = largest_moduli(15)
PRODUCT = prod(MODULI)
WEIGHTS = [PRODUCT // m * pow(PRODUCT // m, -1, m) for m in MODULI]
M, N, K = 32, 48, 128
DOUBLE = ELEMENTS["float64"]
BITS = 54  # as lesson ozaki has for K = 128


def nearest(x: Array, m: int) -> Array:
    return x - (2 * x + m) // (2 * m) * m


def signed_byte(x: Array) -> Array:
    return np.asarray(x).astype(np.int64).astype(np.uint8).astype(np.int8)


def added(x: Array, m: int) -> Array:
    rest = (x + (2 * x + m) // (2 * m) * m).astype(np.float64)
    return (rest + 1.5 * 2.0**52).view(np.int64)


def rounded_twice(x: Array, m: int) -> Array:
    return x - np.rint(x.astype(np.float64) * (1 / m)).astype(np.int64) * m


def join(residues: Array) -> Array:
    """Return the whole numbers of C, as Python's."""
    weighted = sum(r.astype(object) * w for r, w in zip(residues, WEIGHTS, strict=True))
    return np.asarray(weighted - (2 * weighted + PRODUCT) // (2 * PRODUCT) * PRODUCT)


def in_doubles(residues: Array) -> Array:
    """The same in doubles, added before the multiple is subtracted."""
    weighted = sum(r.astype(np.float64) * float(w) for r, w in zip(residues, WEIGHTS, strict=True))
    return np.asarray(weighted - np.rint(weighted / PRODUCT) * PRODUCT)


def by_residues(
    bits: int = BITS,
    residue: Callable[[Array, int], Array] = nearest,
    rows: Callable[[int], tuple[int, int]] = lambda i: (i * M, i * N),
    kept: Callable[[Array, int], Array] = lambda sums, m: sums % m,
    numbers: Callable[[Array], Array] = join,
    scaled: str = "AB",
) -> Judgement:
    """Judge a product by residues, with this part of it another way."""
    height, width, depth = (Expression.parse(size, "MNK") for size in "MNK")
    inputs = [  # both with their k side by side
        BufferSpec("A", DOUBLE, (height, depth), range=(-1.0, 1.0)),
        BufferSpec("B", DOUBLE, (depth, width), "column", range=(-1.0, 1.0)),
    ]
    it = Problem(DataSpec.plain(PLAIN, c="float64", accumulate="float64", buffers=inputs), Shape(M, N, K), seed=7)
    a, b = it.values["A"].value, it.values["B"].value
    scales, residues = {}, {}
    for of, x in (("A", a), ("B", b.T)):
        scales[of] = 2.0 ** (np.frexp(np.abs(x).max(1))[1] - bits)
        whole = np.rint(x / scales[of][:, None]).astype(np.int64)
        residues[of] = np.concatenate([signed_byte(residue(whole, m)) for m in MODULI])
    of_c = []
    for i, m in enumerate(MODULI):
        starts = zip("AB", rows(i), (M, N), strict=True)
        left, right = (residues[of].astype(np.int64)[start : start + size] for of, start, size in starts)
        padded = [np.pad(x, ((0, size - len(x)), (0, 0))) for x, size in ((left, M), (right, N))]
        of_c.append(kept(padded[0] @ padded[1].T, m).astype(np.uint8))
    by = [scales[of] if of in scaled else np.ones_like(scales[of]) for of in "AB"]
    c = numbers(np.array(of_c)).astype(np.float64) * by[0][:, None] * by[1]
    buffers = {f"{of}_residues": x for of, x in residues.items()} | {f"{of}_scales": x for of, x in scales.items()}
    return judge(it, c, TILES, {**buffers, "C_residues": np.concatenate(of_c)})


CASES: dict[str, dict[str, Any]] = {
    "whole_too_long": {"bits": 58},
    "residue_unsigned": {"residue": lambda x, m: x % m},
    "residue_halves": {"residue": rounded_twice},
    "residue_added": {"residue": added},
    "residue_nothing": {"residue": lambda x, m: np.zeros_like(x)},
    "residue_wrong": {"residue": lambda x, m: nearest(x, m) + (m == 251)},
    "residue_low_byte": {"kept": lambda sums, m: sums % 256},
    "residue_rows": {"rows": lambda i: (i * M, i * M)},
    "residue_products": {"kept": lambda sums, m: (sums + (m == 251)) % m},
    "residue_positive": {"numbers": lambda residues: join(residues) % PRODUCT},
    "residue_sum": {
        "numbers": lambda residues: sum(r.astype(object) * w for r, w in zip(residues, WEIGHTS, strict=True))
    },
    "residue_scales": {"scaled": "A"},
    "whole_too_short": {"bits": 24},
    "residue_digits": {"numbers": in_doubles},
    "residue_join": {"numbers": lambda residues: join(residues[:, :, ::-1])},
}


@cache
def recognised() -> list[Pattern]:
    """The pattern of each case."""
    return [pattern for case in CASES.values() if (pattern := by_residues(**case).pattern)]


@pytest.mark.parametrize("name", CASES)
def test_the_first_launch_that_errs_is_named(name: str) -> None:
    assert by_residues(**CASES[name]).pattern.name == name


@pytest.mark.parametrize("bits", [BITS, BITS - 1])
def test_right_residues_are_not_accused(bits: int) -> None:
    assert by_residues(bits).passed


def test_bits_that_fit_are_not_blamed_for_a_later_mistake() -> None:
    for bits in (BITS, 40, 8):
        assert by_residues(bits, scaled="B").pattern.facts == {"missing": ("A_scales",)}
        assert by_residues(bits, rows=lambda i: (0, i * N)).pattern.facts == {"a": "0", "b": "i * N"}


def test_an_example_can_be_followed() -> None:
    facts = by_residues(**CASES["residue_wrong"]).pattern.facts
    assert facts["right"] == nearest(np.array(facts["x"]), facts["m"])
    assert facts["got"] == facts["right"] + 1


def test_the_moduli_are_those_of_the_lesson() -> None:
    assert MODULI == (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197)
