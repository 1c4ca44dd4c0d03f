"""Proof of a lesson's drills: their numbers can be drawn, and are never the lesson's own."""

from __future__ import annotations

import random
from collections.abc import Iterator

from gemm_lessons.authoring.candidate import Candidate, flaw
from gemm_lessons.course.drills import load_drills
from gemm_lessons.engine.arguments.expression import ExpressionError

DRAWS = 50
FEWEST, MOST = 2, 5  # drills of a lesson


def numbers_can_be_drawn(it: Candidate) -> Iterator[str]:
    """Each question has whole numbers as its answer, differs from draw to draw, and does not use the lesson's tile."""
    drills, tile, path = load_drills(it.lesson), it.lesson.tile.defines, it.lesson.drills_path
    if drills and not FEWEST <= len(drills) <= MOST:
        yield flaw(path, None, f"asks {len(drills)} questions; ask {FEWEST} to {MOST}")
    for drill in drills:
        dice, asked = random.Random(0), set()
        for _ in range(DRAWS):
            try:
                drawn = drill.drawn(dice)
            except ExpressionError as error:
                yield flaw(path, drill.line, f"[{drill.name}] has no answer for some numbers: {error}")
                break
            asked.add(drawn.ask)
            sizes = {name: value for name, value in drawn.values.items() if name in tile}
            if sizes and all(tile[name] == value for name, value in sizes.items()):
                numbers = ", ".join(f"{name} = {value}" for name, value in sizes.items())
                yield flaw(path, drill.line, f"[{drill.name}] may ask about the lesson's own tile, {numbers}")
                break
        else:
            if len(asked) == 1:
                yield flaw(path, drill.line, f"[{drill.name}] asks the same each time: name what is drawn in its text")
