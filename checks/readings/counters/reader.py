"""Turns an ncu report into JSON: totals of every launch and the counters of every machine instruction.

``python reader.py REPORT.ncu-rep LAUNCHED.json OUT.json`` with Nsight Compute's ``ncu_report`` module on PYTHONPATH (it
lies under ``extras/python`` of the installation). Needs nothing else, so that it runs wherever the profiler does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KEPT = ("memory_", "inst_executed", "thread_inst_executed", "smsp__inst", "smsp__sass", "l1tex__")
PER_INSTRUCTION = (
    "inst_executed",
    "thread_inst_executed_true",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
)


def _instances(metric: Any) -> dict[int, int]:
    places = metric.correlation_ids()
    return {places.as_uint64(i): metric.as_uint64(i) for i in range(metric.num_instances())}


def read(report: Path, launched: list[str]) -> list[dict[str, Any]]:
    """One record per launch: its name, totals by metric, and [byte offset in the code, value] pairs per counter."""
    import ncu_report

    rows: list[dict[str, Any]] = []
    context = ncu_report.load_report(str(report))
    actions = [
        context.range_by_idx(r).action_by_idx(a)
        for r in range(context.num_ranges())
        for a in range(context.range_by_idx(r).num_actions())
    ]
    if len(actions) != len(launched):
        raise SystemExit(f"{len(launched)} kernels were launched, the report has {len(actions)}")
    for launch, action in zip(launched, actions, strict=True):
        names = [name for name in action.metric_names() if name.startswith(KEPT)]
        totals = {
            name: action.metric_by_name(name).as_double()
            for name in names
            if not name.endswith((".avg", ".min", ".max"))
        }
        tables = {name: _instances(action.metric_by_name(name)) for name in PER_INSTRUCTION if name in names}
        first = min((place for table in tables.values() for place in table), default=0)
        rows.append(
            {
                "launch": launch,
                "kernel": action.name(),
                "totals": totals,
                "instructions": {
                    name: [[place - first, value] for place, value in sorted(table.items())]
                    for name, table in tables.items()
                },
            }
        )
    return rows


if __name__ == "__main__":
    records = read(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()))
    Path(sys.argv[3]).write_text(json.dumps(records, separators=(",", ":")))
