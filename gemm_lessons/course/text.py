"""A lesson's text in Markdown: its sections, and the results that are hidden until the learner has predicted."""

from __future__ import annotations

import re

BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
RESULTS = ("What comes out", "Answers")  # the sections that answer the questions


def section(text: str, heading: str) -> str:
    """Return the text below ``## heading``, up to the next heading of that level. Empty without such a heading."""
    match = _section(heading).search(BLOCK.sub(_without_headings, text))
    return match[1] if match else ""


def folded(text: str, instead: str) -> str:
    """Return the text with ``instead`` in place of its results."""
    shown = BLOCK.sub(_without_headings, text)
    for heading in RESULTS:
        match = _section(heading).search(shown)
        if match is not None:
            shown = shown[: match.start(1)] + f"\n{instead}\n\n" + shown[match.end(1) :]
    return BLOCK.sub(lambda block: block[0].replace("\n #", "\n#"), shown)


def numbered(text: str) -> list[int]:
    """Return the numbers of a numbered list."""
    return [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]


def _section(heading: str) -> re.Pattern[str]:
    return re.compile(rf"^## {re.escape(heading)}$\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def _without_headings(block: re.Match[str]) -> str:
    return block[0].replace("\n#", "\n #")
