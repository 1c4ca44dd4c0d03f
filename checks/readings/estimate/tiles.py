"""How long tiles take until they are in shared memory. ``tiles.cu`` says how to read it; this makes JSON of its lines.

Clocks at 1.98 GHz. A step copies the tiles of A and B that a block needs, as blocks of a product share them, and
multiplies for a while (``work``). ``in L2`` and ``from DRAM``: the same grid and tiles, with a short and a long K.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

from checks.readings.estimate.turns import write
from checks.usage import help_if_asked

BURST = re.compile(
    r"(?P<name>burst of +\d+ copies a thread, 256 threads, +\d+ blocks), +8 groups, (?P<pad>padding +\d+): "
    r"issued after +\d+ on average, +(?P<issued>\d+) by the last warp; there after +(?P<there>\d+)"
)
STEP = re.compile(
    r"(?P<name>\S.*?) +\d+x\d+ +(?P<blocks>\d)/SM band +(?P<band>\d+) (?P<where>in L2|from DRAM) +work +(?P<work>\d+) "
    r"parts (?P<parts>\d): .*clocks a step +(?P<clocks>\d+) "
)


def readings(lines: Iterable[str]) -> dict[str, Any]:
    """Return the clocks that each line reports, by its name and settings."""
    found: dict[str, Any] = {}
    for line in lines:
        if it := BURST.match(line):
            name = " ".join(f"{it['name']}, {it['pad']}".split())
            found[name] = {"issued": int(it["issued"]), "there": int(it["there"])}
        elif it := STEP.match(line):
            parts = f", {it['parts']} parts" if it["parts"] != "1" else ""
            where = f"{it['blocks']} a multiprocessor, bands of {it['band']}, {it['where']}"
            found[f"{it['name']}, {where}, work {it['work']}{parts}"] = int(it["clocks"])
    return found


if __name__ == "__main__":
    help_if_asked(__doc__)
    write({"what": (__doc__ or "").partition("\n")[0], "gpu": "NVIDIA H200"}, readings(sys.stdin))
