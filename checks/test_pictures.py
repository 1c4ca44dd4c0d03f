"""The pictures of README.md show what the commands show now."""

from __future__ import annotations

import re

import pytest

from checks.pictures import AFTER, BEFORE, PICTURES, ROOT, banks_picture, content, run_picture
from checks.view.browser import chromium

AGAIN = "python -m checks.pictures draws it anew"


@pytest.mark.stored
def test_the_picture_of_a_run_is_current() -> None:
    assert content((PICTURES / "run.svg").read_text()) == content(run_picture()), AGAIN


@pytest.mark.stored
@pytest.mark.skipif(chromium() is None, reason="needs Chromium, which is not here")
def test_the_bank_maps_are_current() -> None:
    assert content((PICTURES / "banks.svg").read_text()) == content(banks_picture()), AGAIN


def test_the_comparison_sees_texts_and_cells() -> None:
    run, banks = (content((PICTURES / name).read_text()) for name in ("run.svg", "banks.svg"))
    assert any(words.startswith("PASSED") for words, *_ in run)
    kinds = [kind for *_, kind in banks if kind]
    assert (kinds.count("one"), kinds.count("clash")) == (64 + 128, 64), "128 words, half of them in conflict, and 128"
    assert {BEFORE, AFTER} <= {part for words, *_ in banks for part in re.findall(r"Bs\[k.*?\]\[.*?\]", words)}


def test_readme_shows_them_and_they_load_nothing() -> None:
    shown = re.findall(r"!\[[^\]]+\]\((.*?)\)", (ROOT / "README.md").read_text())
    assert {ROOT / path for path in shown} == set(PICTURES.glob("*"))
    for path in PICTURES.glob("*"):
        assert not re.search(r"(?:href|src)=|url\(['\"]?(?!#)|@import|@font-face", path.read_text()), path.name
        assert str(ROOT) not in path.read_text()
