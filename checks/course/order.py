"""Which kernel is the faster one, in several runs: where ``lessons/measured/h200_order.json`` comes from.

    python -m checks.course.measure compile DIR                           # here
    python -m checks.course.order DIR lessons/measured/h200_order.json    # on a machine with the GPU and cupy

Each call is a run more, behind those that are in the file. Everything else is as in ``measure``; the launch is hidden.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from checks.course.measure import ROUNDS, SLOW, WARM, Bench, machine, rounds, write

SMALLEST, LARGE = 512, 8192  # the slow ones are far from all others


def run(folder: Path, target: Path) -> None:
    before = json.loads(target.read_text())["rows"] if target.exists() else []
    number = 1 + max((row["run"] for row in before), default=0)
    bench = Bench(folder)
    bench.warm_up()
    rows = []
    for n in (size for size in ROUNDS if size >= SMALLEST):
        names = [name for name in bench.functions if name not in SLOW or n < LARGE]
        for row in bench.size(n, names, (WARM,), rounds):
            times = {key: row[WARM][key] for key in ("median_us", "p10_us", "p90_us")}
            rows.append({"kernel": row["kernel"], "size": n, "run": number, "repeats": row["repeats"], WARM: times})
        print(n, *(f"{row['kernel']} {row[WARM]['median_us']}" for row in rows if row["size"] == n), flush=True)
    about = {
        "command": "python -m checks.course.measure compile DIR; python -m checks.course.order DIR FILE, once a run",
        **machine(bench),
        "what": "The solutions and cuBLAS as in h200.json, in several runs, each a process of its own.",
        "how": "CUDA events around one launch, one launch of each a round, hidden behind another kernel, L2 as the"
        " launch before left it; median and deciles over the repeats of one run.",
    }
    write(target, about, [*before, *rows])


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]))
