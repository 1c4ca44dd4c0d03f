"""A page of pictures: one self-contained HTML file. ``assets/view.*`` draw the content of ``record``.

    View --record--> JSON in the page --view.js--> the DOM

The record holds everything that is shown: numbers, names, the meanings of colours. The script only lays it out.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from gemm_lessons import __version__
from gemm_lessons.engine.inspection import Inspection
from gemm_lessons.engine.pictures import WAITS, Request, Roles, Shown, Timeline, bank_map
from gemm_lessons.engine.records import TABLED, picked
from gemm_lessons.judging import WrongAnswer
from gemm_lessons.report.inspect import counter_rows, estimated, headline
from gemm_lessons.report.roles import completed_by
from gemm_lessons.report.run import summary_of, title_of
from gemm_lessons.report.stalls import BUSY, SPENT
from gemm_lessons.report.table import columns_of, footnotes, told_apart
from gemm_lessons.report.template import asset, embedded
from gemm_lessons.report.view import heading, picture_lines, share_lines
from gemm_lessons.running import RunOutcome
from gemm_lessons.view import Side, View

PICTURES = 4  # requests of one line in each memory
# The counters that the heat map can show, in this order, by their short names.
HEAT = (
    "shared_wavefronts global_load_sectors global_store_sectors shared_load_instructions shared_store_instructions "
    "global_load_requests global_store_requests"
).split()
LETTERS = "rqgspxb"  # of WAITS, in a strip

JSON = Mapping[str, Any]


def page_of(view: View) -> str:
    """Return the whole page as text."""
    shown = record(view)
    parts = {
        "TITLE": html.escape(shown["title"]),
        "STYLE": asset("view.css"),
        "RECORD": embedded(shown),
        "SCRIPT": asset("view.js"),
    }
    page = asset("view.html")
    for name, text in parts.items():
        page = page.replace(f"@{name}@", text)
    return page


def record(view: View) -> JSON:
    """Return everything that the page shows."""
    outcome, row = view.outcome, view.sides[0].row
    return {
        **(_run(outcome) if isinstance(outcome, RunOutcome) else _launch(outcome)),
        "version": __version__,
        "path": row.path,
        "gates": [
            {"name": gate.name, "value": gate.value, "limit": gate.limit, "most": gate.at_most, "passed": gate.passed}
            for gate in row.checked.gates
        ],
        "findings": [
            {"kind": it.kind.replace("_", " "), "severity": it.severity, "message": it.message, "line": it.line}
            for it in row.checked.findings
        ],
        "hints": list(row.hints),
        "wrong": _wrong(row.verdict) if isinstance(row.verdict, WrongAnswer) else None,
        "roofline": None
        if view.roofline is None
        else {
            **picked(view.roofline, "gpu peak bandwidth"),
            "shape": str(view.roofline.shape),
            "dots": [{"label": it.label, "x": it.flop_per_byte, "y": it.tflops} for it in view.roofline.dots],
        },
        "states": [
            {"name": name, "letter": letter, "text": WAITS[name][0] or "runs: issues, or its unit is busy"}
            for name, letter in _letters()
        ],
        "spent": SPENT,
        "sides": [_side(side) for side in view.sides],
    }


def _run(outcome: RunOutcome) -> JSON:
    """Return the head of the page of a lesson's run."""
    row, lesson, columns = outcome.kernel, outcome.lesson, columns_of(outcome)
    return {
        "title": f"{lesson.number:02} {lesson.title}",
        "verdict": {"kind": row.verdict.kind, "title": title_of(row), "summary": summary_of(row)},
        "seed": outcome.seed,
        "about": "This kernel, and what it is compared with",
        "when": "once the loop is under way",
        "table": {
            "columns": ["kernel", *(column.wide for column in columns)],
            "rows": [[it.label, *(str(column.cell(it)) for column in columns)] for it in outcome.rows],
        },
        "notes": footnotes(outcome),
    }


def _launch(result: Inspection) -> JSON:
    """Return the head of the page of a launch of any kernel."""
    request, it = result.request, result.estimate
    assert result.launched is not None
    title = headline(result).plain.partition(";")[0]
    time = "" if it is None else f": {estimated(it, request.gpu.name).plain}"
    return {
        "title": f"{request.entry} in {request.path}",
        "verdict": {
            "kind": "passed" if result.clean else "faulted",
            "title": title,
            "summary": f"{request.grid}{time}",
        },
        "seed": request.seed,
        "about": "Counters of the launch",
        "when": "after the launch",
        "table": {"columns": ["counter", "value"], "rows": [cells[:2] for cells in counter_rows(result.launched)]},
        "notes": [],
    }


def _letters() -> Sequence[tuple[Shown, str]]:
    return list(zip(WAITS, LETTERS, strict=True))


def _wrong(verdict: WrongAnswer) -> JSON:
    judged, shape = verdict.judgement, verdict.shape
    return {
        "shape": [shape.m, shape.n, shape.k],
        "wrong": judged.wrong,
        "total": judged.total,
        "tile": [judged.tiles.tile_rows, judged.tiles.tile_cols] if judged.tiles else None,
        "map": judged.tiles.wrong if judged.tiles else None,
        "pattern": judged.pattern.explanation if judged.pattern else "",
        "first": [[it.row, it.col, *told_apart(it.got, it.expected)] for it in judged.first],
    }


def _side(side: Side) -> JSON:
    row, short = side.row, {metric: name for name, metric in TABLED.items()}
    counts: dict[int, dict[str, list[int | None]]] = {}
    for count in side.counts:
        counts.setdefault(count.line, {})[short[count.metric]] = [count.value, count.ideal]
    counted = {name for of_line in counts.values() for name in of_line}
    lines = sorted({it.line for it in side.requests if it.file == row.path})
    return {
        "label": row.label,
        "path": row.path,
        "source": row.source.splitlines(),
        "size": side.size,
        "threads": side.threads,
        "counts": counts,
        "heat": [name for name in HEAT if name in counted],
        "requests": {line: _requests(side.requests_of(line)) for line in lines},
        "places": {it.name: [it.element_bytes, it.strides] for it in side.places},
        "owners": None
        if side.owners is None
        else {
            **picked(side.owners, "buffer row col cols twice"),
            "rows": len(side.owners.runs),
            **_runs(side.owners.runs),
        },
        "products": [
            {
                "text": product.text,
                "matrices": [picked(it, "name prefix type cols lanes registers") for it in product.matrices],
            }
            for product in side.products
        ],
        "tiles": ["\n".join(picture_lines(it)) for it in side.tiles.pictures],
        "shares": "\n".join(share_lines(side.tiles.shares)),
        "timeline": None if side.timeline is None else _timeline(side, side.timeline),
        "roles": None if side.roles is None else _roles(side.roles),
        "notes": [*side.notes, *side.missing.values()],
    }


def _requests(requests: Sequence[Request]) -> JSON:
    """Return the first few requests of each memory; ``more`` counts the other distinct ones."""
    shown = [it for space in ("shared", "global") for it in [r for r in requests if r.space == space][:PICTURES]]
    return {"more": len(requests) - len(shown), "shown": [_request(it) for it in shown]}


def _request(it: Request) -> JSON:
    made = picked(it, "space array width warp text cost ideal times instructions lanes") | {"heading": heading(it)}
    if it.space == "shared":
        drawn = bank_map(it)
        made |= {
            "group": drawn.group,
            "turns": drawn.turns,
            # bank of the first word, and for each word its turn; negative: a lane before asked for the same word.
            "cells": [
                [cells[0].bank, *(-cell.turn if cell.again else cell.turn for cell in cells)] if cells else []
                for cells in drawn.lanes
            ],
        }
    return made


def _runs(runs: Sequence[Sequence[tuple[int, int]]]) -> JSON:
    """Encode rows as indices of distinct rows, since most rows have the same owners as a neighbour."""
    different = list(dict.fromkeys(tuple(line) for line in runs))
    number = {line: i for i, line in enumerate(different)}
    return {
        "runs": [[part for run in line for part in run] for line in different],
        "which": [number[tuple(line)] for line in runs],
    }


def _roles(it: Roles) -> JSON:
    return {
        "roles": [picked(role, "name first last") for role in it.roles],
        "units": [
            {
                "name": row.name,
                "unit": row.unit,
                "spans": [[round(s.start), round(s.end), s.block, s.role] for s in row.spans],
            }
            for row in it.units
        ],
        "passed": [
            {
                **picked(one, "block barrier giver copy taker"),
                "over": round(one.over),
                "by": completed_by(it, one),
                "asked": round(one.asked),
                "passed": round(one.passed),
            }
            for one in it.passed
        ],
    }


def _timeline(side: Side, it: Timeline) -> JSON:
    letters = dict(_letters())
    return {
        **picked(it, "gpu blocks schedulers tick issued"),
        "size": side.played,
        "elements": it.blocks * side.owners.count if side.owners else 0,  # of the answer
        "warps": it.warps_per_block,
        "clocks": round(it.clocks),
        "loop": round(it.loop),
        "strips": [" ".join(f"{part.ticks}{letters[part.state]}{part.line}" for part in strip) for strip in it.strips],
        "flights": [[clock for flight in warp for clock in flight] for warp in it.flights],
        "busy": {BUSY[unit]: min(100, round(100 * share)) for unit, share in it.busy.items()},
        "shares": {state: round(100 * share, 2) for state, share in it.shares.items()},
        "stalls": [
            {
                "line": of_line.line,
                "clocks": {state: round(clocks) for state, clocks in of_line.clocks.items()},
                "for": {line: round(clocks) for line, clocks in of_line.waited_for.items()},
            }
            for of_line in it.stalls
        ],
    }
