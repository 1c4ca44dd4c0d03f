"""Every mistake of ``mistakes.py`` is named with its sentence, and nothing is said of right kernels in other styles."""

from __future__ import annotations

import pytest

from checks.judgement.mistakes import MISTAKES, Mistake, source_of, told


def test_every_edit_matches_its_lesson() -> None:
    for it in MISTAKES:
        assert source_of(it)


@pytest.mark.slow  # a run each; test_fits.py has the same mistakes in NumPy
@pytest.mark.parametrize("it", MISTAKES, ids=lambda it: f"{it.lesson}-{it.name}")
def test_a_mistake_is_named(it: Mistake) -> None:
    assert it.says in told(it)
