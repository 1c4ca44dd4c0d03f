"""No number and no quoted output in a lesson's text that its source does not give."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.conftest import STORED_WITH, compiler
from checks.course.lesson_numbers import TABLE, filled, missing_quotes, rewritten, texts


@pytest.mark.slow
@pytest.mark.stored
@pytest.mark.parametrize("readme", texts(), ids=lambda path: path.parent.name)
def test_the_numbers_are_what_their_source_gives(readme: Path) -> None:
    text = readme.read_text()
    assert TABLE.search(text), "every lesson shows counters and times"
    assert rewritten(text) == text, "run: python -m checks.course.lesson_numbers --write"


@pytest.mark.slow
@pytest.mark.parametrize("readme", texts(), ids=lambda path: path.parent.name)
def test_the_tool_prints_what_the_pitfalls_quote(readme: Path) -> None:
    """With another compiler than the one of the stored numbers the same sentences with other numbers."""
    assert not missing_quotes(readme, numbers=compiler() == STORED_WITH)


def test_a_wrong_number_is_noticed() -> None:
    table = "| | 01 |\n|---|---:|\n| `global_load_sectors / global_load_requests` | 16.4 |\n"
    assert "16.5" in filled("simulator 128,128,64", table)
