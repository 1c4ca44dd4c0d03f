"""Which iterations of a long loop are left out of a trace, on executions written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from gemm_lessons.engine.sass.long_loops import Cut, cut


def sums(found: Cut | None, weights: Sequence[int]) -> tuple[int, int, float]:
    """Return the weights of the short trace, of the long one, and of the whole by extrapolation."""
    assert found is not None
    short, long = (
        sum(weight for weight, kept in zip(weights, trace, strict=True) if kept) for trace in (found.short, found.long)
    )
    return short, long, long + found.beyond * (long - short)


def test_a_loop_keeps_its_first_iterations_and_its_last() -> None:
    blocks = [0, *[1, 2] * 100, 3]
    weights = [5, *[10, 20] * 100, 7]
    found = cut(blocks, weights, 1010)
    short, long, whole = sums(found, weights)
    assert (short, long, whole) == (5 + 17 * 30 + 7, 5 + 33 * 30 + 7, sum(weights))
    assert found.long[:5].all()
    assert found.long[-3:].all()
    assert not found.long[-5:-3].any()


def test_every_run_of_an_inner_loop_is_cut_where_an_outer_iteration_is_too_long() -> None:
    inner = [1, *[2] * 50, 3]
    blocks = [0, *inner * 3, 4]
    weights = [10] * len(blocks)
    short, long, whole = sums(cut(blocks, weights, 400), weights)
    assert whole == sum(weights)
    assert long <= 400
    assert long - short == short - 10 * (len(blocks) - 3 * 49)


def test_an_outer_loop_is_cut_if_its_iterations_are_short() -> None:
    blocks = [0, *[1, 2, 2, 3] * 100, 4]
    weights = [1] * len(blocks)
    found = cut(blocks, weights, 200)
    assert found is not None
    assert sums(found, weights)[2] == sum(weights)
    assert all(found.long[1:5]), "an iteration of the outer loop is whole"


def test_nothing_is_cut_where_nothing_repeats() -> None:
    assert cut(range(100), [10] * 100, 500) is None
    assert cut([0, 1, 1, 2], [10] * 4, 5) is None
