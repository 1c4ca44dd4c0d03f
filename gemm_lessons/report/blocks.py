"""Fit a screen into a fixed number of lines: clip texts, and leave out paragraphs that have no room."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.text import Text

from gemm_lessons.engine.records import dataclass


@dataclass(frozen=True)
class Paragraph:
    """A part of the screen. If there is no room, the one with the highest ``spare`` is left out first, and 0 never is.
    ``gap``: an empty line precedes it."""

    content: RenderableType
    spare: int = 0
    gap: bool = False


def fitted(console: Console, blocks: list[Paragraph], lines: int) -> list[Paragraph]:
    """Leave out spare blocks until the others fit."""
    heights = {id(block): len(console.render_lines(block.content, pad=False)) + block.gap for block in blocks}
    while sum(heights[id(block)] for block in blocks) > lines:
        least = max(blocks, key=lambda block: block.spare)
        if not least.spare:
            break
        blocks = [block for block in blocks if block is not least]
    return blocks


def clipped(console: Console, text: Text, lines: int) -> Text:
    """Return a text as at most ``lines`` lines; ``...`` marks a cut."""
    wrapped = text.wrap(console, console.width)
    if len(wrapped) <= lines:
        return text
    kept = list(wrapped[:lines])
    kept[-1].rstrip()
    if kept[-1].cell_len > console.width - 4:
        kept[-1].truncate(console.width - 4)
        kept[-1].rstrip()
    kept[-1].append(" ...")
    for line in kept[:-1]:
        line.rstrip()
    return Text("\n").join(kept)
