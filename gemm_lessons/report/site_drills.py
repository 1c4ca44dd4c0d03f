"""A lesson's drills on its web page: data for ``assets/site_drill.js``, which draws numbers and checks answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gemm_lessons.course import FIELD, Drill
from gemm_lessons.engine.arguments import Expression
from gemm_lessons.report.practice import DRILL_RULES
from gemm_lessons.report.template import embedded

SCRIPT = "site_drill.js"


def drill_section(drills: Sequence[Drill], number: int) -> str:
    """Return the HTML of a lesson's drills."""
    return (
        f'<details class="drill"><summary>Warm up with {len(drills)} questions</summary>'
        f'<p class="soft">{DRILL_RULES}</p>'
        '<ol id="questions"></ol><p><button type="button" id="again">New numbers</button></p>'
        f"<noscript><p>In a terminal: gemm-lessons drill {number:02}</p></noscript>"
        f'<script type="application/json" id="drills">{embedded([_data(drill) for drill in drills])}</script>'
        "</details>"
    )


def _data(drill: Drill) -> dict[str, Any]:
    """Return a drill with its arithmetic in C, which the script computes."""
    return {
        "ask": _in_c(drill.ask),
        "why": _in_c(drill.why),
        "draws": [
            [draw.name, [choice.in_c for choice in draw.choices], draw.last.in_c if draw.last else None]
            for draw in drill.draws
        ],
        "rule": drill.rule,
        "of": [expression.in_c for expression in drill.of],
        "element": drill.element,
        "vector": drill.vector.in_c,
        "access": drill.access,
    }


def _in_c(text: str) -> str:
    return FIELD.sub(lambda it: f"{{{Expression(it[1]).in_c}}}", text)
