"""Turns an ncu report into JSON: totals of every launch and the counters of every machine instruction.

``python reader.py REPORT.ncu-rep OUT.json`` with Nsight Compute's ``ncu_report`` module on PYTHONPATH (it lies under
``extras/python`` of the installation). Needs nothing else, so that it runs wherever the profiler does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PER_INSTRUCTION = (
    "inst_executed",
    "thread_inst_executed_true",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "memory_l2_theoretical_sectors_global",
)


def _instances(action: Any, metric: Any) -> dict[int, int]:
    ids = metric.correlation_ids()
    return {ids.as_uint64(i): metric.as_uint64(i) for i in range(metric.num_instances())}


def read(report: Path) -> list[dict[str, Any]]:
    import ncu_report

    rows: list[dict[str, Any]] = []
    context = ncu_report.load_report(str(report))
    for r in range(context.num_ranges()):
        actions = context.range_by_idx(r)
        for a in range(actions.num_actions()):
            action = actions.action_by_idx(a)
            names = list(action.metric_names())
            totals = {
                name: action.metric_by_name(name).as_double()
                for name in names
                if "__" in name or name.startswith(("memory_", "inst_executed", "thread_inst"))
            }
            instructions = {
                name: _instances(action, action.metric_by_name(name)) for name in PER_INSTRUCTION if name in names
            }
            counters = sorted({pc for table in instructions.values() for pc in table})
            first = min(counters, default=0)
            rows.append(
                {
                    "kernel": action.name(),
                    "totals": totals,
                    "instructions": {
                        name: [[pc - first, value] for pc, value in sorted(table.items())]
                        for name, table in instructions.items()
                    },
                    "sass": [action.sass_by_pc(pc) for pc in counters[:4]],
                }
            )
    return rows


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(read(Path(sys.argv[1])), separators=(",", ":")))
