"""The table of mistakes: each row recognises an answer, each sentence can be filled, and advice reads no sentence."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from checks.judgement import test_fits, test_fragments, test_parts, test_residues, test_verdict
from checks.judgement.cases import PLAIN, TILES, Array, Product, problem, stored
from checks.judgement.mistakes import lesson_named
from checks.judgement.test_data import GIVEN
from checks.judgement.test_fits import from_k, from_places, same, weighted
from checks.judgement.test_hints import facts
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.engine.compiler.compile import Resources
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.gemm.data import DataSpec, TensorMapSpec
from gemm_lessons.gemm.formula import Formula, Value
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging import mistakes, unfinished
from gemm_lessons.judging.evidence import Evidence, ShapeResult
from gemm_lessons.judging.hints import hints_for
from gemm_lessons.judging.named_sentence import PHRASES
from gemm_lessons.judging.pattern import Pattern
from gemm_lessons.judging.unfinished import SENTENCES, sentence
from gemm_lessons.judging.verdict import WrongAnswer, judge

GIBBERISH = "Qwx zrt vlmp."
Answer = tuple[Problem, Array]


def plain(kernel: Callable[[Product], Array], k: int = 24, shape: tuple[int, int] = (48, 32), **types: Any) -> Answer:
    it = problem(*shape, k, **types)
    return it, stored(it, kernel(it))


def turned(matrix: Array, side: int) -> Array:
    rows, cols = matrix.shape
    return matrix.reshape(rows // side, side, cols // side, side).transpose(0, 3, 2, 1).reshape(rows, cols)


def quarters_exchanged(matrix: Array) -> Array:
    rows, cols = matrix.shape
    return matrix.reshape(rows // 16, 2, 8, cols // 16, 2, 8).transpose(0, 4, 2, 3, 1, 5).reshape(rows, cols)


def of_halves(of_a: Callable[[Array], Array], of_b: Callable[[Array], Array]) -> Answer:
    return plain(lambda it: of_a(it.factors[0]) @ of_b(it.factors[1]), 64, a="float16", b="float16")


def in_layout(layout: str, of_a: Callable[[Array], Array], of_b: Callable[[Array], Array]) -> Answer:
    """Halves in another layout, with partial fragments at the edges, filled up with zeros."""
    it = Problem(DataSpec.plain(PLAIN, a="float16", b="float16").in_layout(layout), Shape(41, 25, 43), 5)
    a, b = (np.pad(it.values[name].value, [(0, -size % 16) for size in it.values[name].value.shape]) for name in "AB")
    return it, stored(it, (of_a(a) @ of_b(b))[:41, :25])


def of_integers(kernel: Callable[[Product], Array]) -> Answer:
    return plain(kernel, 96, a="int8", b="int8", c="int32", accumulate="int32")


def in_pairs_of_columns(b: Array) -> Array:
    """Fragments of two rows of four halves each, loaded in order and read as four columns of two."""
    found = np.empty_like(b)
    for k, col in product(range(0, len(b), 2), range(0, b.shape[1], 4)):
        found[k : k + 2, col : col + 4] = b[k : k + 2, col : col + 4].reshape(4, 2).T
    return found


def unwritten(errors: float, *where: slice) -> Answer:
    it = problem()
    answer = stored(it, it.reference)
    answer[0, 0] += errors
    answer[where] = it.c[:, :32][where]
    return it, answer


def bytes_exchanged(it: Product) -> Array:
    a, b = it.factors
    held = b.copy()
    held[0::4, 1::4], held[1::4, 1::4] = b[1::4, 1::4], b[0::4, 1::4]
    return a @ held


def epilogue(other: str = "", part: int = 0, **values: Any) -> Answer:
    """Another formula, or other values: in every column, or in the last of every ``part``."""
    it = Problem(DataSpec.plain(("A", "B", "C", "bias", "alpha", "beta"), formula=GIVEN), Shape(40, 48, 9), 5)
    given = {name: v(it.values[name].value) if callable(v) else np.array(v) for name, v in values.items()}
    changed = it.evaluated({**it.values, **{name: Value.exact(value) for name, value in given.items()}})
    answer = it.answer_of(Formula(f"C = {other}")).value if other else changed.value
    if part:
        answer = np.where(np.arange(48) % part == part - 1, answer, it.reference)
    return it, answer.astype(np.float32)


def scaled(**values: Callable[[Array], Array]) -> Answer:
    """Lesson fp8's formula with other scales."""
    it = Problem(lesson_named("fp8").data, Shape(32, 256, 256), 5)
    given = {name: Value.exact(change(it.values[name].value)) for name, change in values.items()}
    return it, stored(it, it.evaluated({**it.values, **given}).value)


def through_boxes() -> Answer:
    """Boxes of 8 x 16 of B, requested with row and column exchanged."""
    box = tuple(Expression.parse(size, ()) for size in ("8", "16"))
    it = Problem(DataSpec.plain(PLAIN, maps=(TensorMapSpec("map_B", "B", box),)), Shape(48, 32, 24), 7)
    a, b = it.values["A"].value, it.values["B"].value
    wide, found = np.pad(b, 32), np.zeros_like(b)
    for k, col in product(range(0, 24, 8), range(0, 32, 16)):
        found[k : k + 8, col : col + 16] = wide[32 + col : 40 + col, 32 + k : 48 + k]
    return it, stored(it, a @ found)


def carried(it: Product) -> Array:
    a, b = it.factors
    return a @ (b * np.repeat([3, 2, 1], 8)[:, None])


def gathered(it: Product) -> Array:
    sums = it.reference.reshape(6, 2, 4, 32)
    return np.stack([sums.sum(1), np.zeros((6, 4, 32))], 1).reshape(48, 32)


def first_of(width: int, bias: Array) -> Array:
    return np.repeat(bias[::width], width)


def one_tile_twice(it: Product, k: int) -> Array:
    return it.reference + test_verdict.partial(it, slice(k, k + 8))


def sharp() -> Answer:
    it = Problem(DataSpec.plain(PLAIN), Shape(48, 32, 24), 3, sharp=True)
    return it, (it.reference + np.where(it.tolerance == 0, 0.5 * it.rounding, 0)).astype(np.float32)


@cache
def answers() -> list[Answer]:
    """Wrong answers, at least one for each row of the table."""
    found = [plain(kernel, k, (m, n)) for _, (m, n, k), kernel in test_verdict.MISTAKES]
    found += [plain(kernel) for _, kernel, _ in test_fits.MISTAKES]
    found += [plain(kernel, 64, a="float16", b="float16") for _, kernel, _ in test_fragments.MISTAKES]
    no_relu = GIVEN.partition("relu")[2]
    return [
        *found,
        (problem(), problem().c),
        unwritten(0, slice(3, None, 16), slice(5, None, 16)),
        unwritten(0, slice(32, None)),
        unwritten(1, slice(3, None, 16), slice(5, None, 16)),
        plain(lambda it: np.full_like(it.reference, np.nan)),
        sharp(),
        plain(test_fits.in_floats, a="float64", b="float64", c="float64", accumulate="float64"),
        plain(test_fits.in_whole_sums),
        of_integers(test_fits.in_16_bits),
        *(of_integers(test_fits.without_signs(of_a)) for of_a in (False, True)),
        of_integers(test_fits.squares_of_b),
        of_halves(same, in_pairs_of_columns),
        of_integers(bytes_exchanged),
        plain(lambda it: np.trunc(it.factors[0]) @ it.factors[1]),
        plain(test_fits.with_rows_of(48, 32), 96),
        plain(test_fits.with_rows_of(24, 24)),
        *(of_halves(partial(turned, side=size), same) for size in (8, 16)),
        *(of_halves(same, partial(turned, side=size)) for size in (8, 16)),
        plain(lambda it: turned(it.factors[0], 4) @ it.factors[1]),
        of_halves(quarters_exchanged, same),
        of_halves(same, quarters_exchanged),
        in_layout("TN", partial(turned, side=8), same),
        in_layout("NT", same, partial(turned, side=8)),
        *(in_layout(layout, partial(turned, side=8), partial(turned, side=8)) for layout in ("NN", "TN")),
        in_layout("TN", quarters_exchanged, same),
        in_layout("TT", quarters_exchanged, quarters_exchanged),
        plain(lambda it: turned(it.reference, 8), 64, a="float16", b="float16"),
        plain(lambda it: quarters_exchanged(it.reference), 64, a="float16", b="float16"),
        plain(lambda it: it.reference * (np.arange(48) < 40)[:, None], 40),
        plain(lambda it: it.reference * (np.arange(32) < 24), 24),
        *(plain(partial(one_tile_twice, k=k)) for k in (0, 16)),
        plain(lambda it: it.factors[0] @ np.tile(it.factors[1][:8].T, 3).T),
        through_boxes(),
        plain(carried),
        plain(gathered),
        plain(lambda it: np.where(np.arange(32) % 8, 0, it.reference.reshape(48, 4, 8).sum(2).repeat(8, 1))),
        *(epilogue("", part, **{name: value}) for name, value in NEUTRAL.items() for part in (0, 2, 4)),
        scaled(scale_A=np.ones_like, scale_B=np.ones_like),
        scaled(scale_A=lambda scale: scale[:, [0, 0]]),
        scaled(scale_A=lambda scale: scale[np.arange(32) & ~8]),
        epilogue(beta=1),
        *(epilogue(no_relu, part=part) for part in (0, 2)),
        epilogue("relu(alpha * (A @ B) + beta * C) + bias"),
        epilogue("relu(alpha * (A @ B + beta * C) + bias)"),
        epilogue("A @ B"),
        *(epilogue(bias=partial(first_of, width)) for width in (2, 4)),
        epilogue(bias=lambda bias: bias[np.arange(48) % 16]),
        epilogue(bias=lambda bias: bias[:40, None]),
        plain(weighted(0, 0, *[1] * 6)),
        plain(weighted(*2.0 ** np.arange(8)[::-1]), 8),
        *(plain(from_k(*(way if it == of else same for it in "AB"))) for way in OTHER_K for of in "AB"),
        *(plain(from_places(*(way if it == of else same for it in "AB"))) for way in OTHER_LINES for of in "AB"),
        plain(from_places(lambda i: i % 16, lambda j: j - j % 4)),
        plain(from_places(same, lambda j: j % 16), shape=(48, 48)),
        plain(lambda it: it.reference * (np.arange(48) != 5)[:, None]),
        plain(lambda it: it.reference * (np.arange(32) != 5)),
        plain(lambda it: it.reference * (1 + (np.arange(48) == 5))[:, None]),
        plain(lambda it: test_verdict.with_error(it, (slice(None), np.arange(32) % 16 > 7))),
    ]


NEUTRAL = {"alpha": 1.0, "beta": 0.0, "bias": 0.0}
OTHER_K = (lambda k: k - k % 8, lambda k: k - k % 4, lambda k: k - k % 8 + k % 4, lambda k: np.maximum(k, 1))
OTHER_LINES = (lambda i: i % 16, lambda i: i - i % 4, lambda i: i - i % 16 // 8 * 8, lambda i: i ^ 1)


@cache
def recognised() -> list[Pattern]:
    return [pattern for it, answer in answers() if (pattern := judge(it, answer, TILES).pattern)]


def test_each_row_recognises_an_answer() -> None:
    rows = {(row.name, row.sentence) for row in mistakes.MISTAKES}
    assert rows == {
        (it.name, it.sentence) for it in (*recognised(), *test_residues.recognised(), *test_parts.recognised())
    }


def test_each_sentence_can_be_filled() -> None:
    for text in (*(row.sentence for row in mistakes.MISTAKES), *SENTENCES.values()):
        specs = {spec for _, name, spec, _ in string.Formatter().parse(text) if name and spec}
        assert specs <= {*PHRASES, ","}
    for it in (*recognised(), *test_residues.recognised(), *test_parts.recognised()):
        assert not set("{}") & set(it.explanation)
        assert len(it.explanation) > 40


def test_what_was_recognised_at_another_shape_says_so() -> None:
    it = replace(recognised()[0], shape=Shape(7, 8, 9))
    assert it.explanation == f"at 7x8x9, {recognised()[0].explanation}"


def test_rows_and_columns_that_are_repeated_have_a_sentence_each() -> None:
    it = problem()
    pattern = judge(it, stored(it, from_places(lambda i: i % 16, lambda j: j - j % 4)(it)), TILES).pattern
    assert pattern.name == "rows_repeated"
    assert pattern.also.name == "columns_repeated"
    assert pattern.explanation == f"{pattern.text} {pattern.also.text}"
    assert "The row index of A lacks blockIdx.y. columns 1 to 3 repeat column 0" in pattern.explanation


OUTSIDE = Finding("out_of_bounds", "error", "A: byte 3828 of 3828, 4 bytes read by thread 31", line=1)
UNSET = Finding("uninitialised", "warning", "As: byte 8 of 64, 4 bytes read by thread 1", line=1)


def runs(verdict: WrongAnswer) -> list[Evidence]:
    """Runs that have this verdict, with a finding or without, and with room for one tile or for two."""
    tile = ShapeResult(Shape(32, 32, 64), "wrong_answer")
    return [
        facts(verdict=verdict, findings=found, resources=Resources(0, shared, 0, 0), shapes=(tile,))
        for found, shared in product(((), (OUTSIDE,), (UNSET,)), (0, 1 << 16))
    ]


def advice() -> list[tuple[str, tuple[str, ...]]]:
    """Name and hints for each answer, in each run."""
    said = []
    for it, answer in answers():
        verdict = WrongAnswer(it.shape, judge(it, answer, TILES))
        name = verdict.judgement.pattern.name if verdict.judgement.pattern else ""
        said += [(name, hints_for(run)) for run in runs(verdict)]
    return said


def test_advice_is_the_same_whatever_the_sentences_say(monkeypatch: pytest.MonkeyPatch) -> None:
    before = advice()
    assert len(set(before)) > len(mistakes.MISTAKES), "it depends on the pattern"
    rows = [replace(row, sentence=GIBBERISH) for row in mistakes.MISTAKES]
    monkeypatch.setattr(mistakes, "MISTAKES", rows)
    assert advice() == before
    it, answer = answers()[0]
    assert judge(it, answer, TILES).pattern.explanation == GIBBERISH


def test_two_buffers_are_told_from_a_missing_k0_by_the_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [replace(row, sentence="the first tile of A and of B") for row in mistakes.MISTAKES]
    monkeypatch.setattr(mistakes, "MISTAKES", rows)
    said = {}
    for it, answer in answers():
        judged = judge(it, answer, TILES)
        if judged.pattern and judged.pattern.name == "same_k_tile":
            said[judged.pattern.facts["of"]] = "\n".join(hints_for(runs(WrongAnswer(it.shape, judged))[1]))
    assert "the kernel has two buffers" in said["A", "B"]
    assert "its index lacks k0" in said["A",]
    assert "its index lacks k0" in said["B",]


@pytest.mark.parametrize("name", SENTENCES)
def test_what_memory_holds_is_asked_about_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    it = problem()
    judged = replace(judge(it, np.zeros_like(it.c), TILES), pattern=None)
    monkeypatch.setattr(unfinished, "SENTENCES", dict.fromkeys(SENTENCES, GIBBERISH))
    run = runs(WrongAnswer(it.shape, judged))[0]
    (hint,) = hints_for(replace(run, checked=replace(run.checked, contents=(sentence(name),))))
    assert hint.startswith(f"after one block and one K tile, in memory: {GIBBERISH}")
    assert hint.endswith("So only their places in C are wrong.") == (name == "right_sums")
