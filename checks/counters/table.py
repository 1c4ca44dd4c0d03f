"""Reprints the equality table from the stored readings: ``python -m checks.counters.table [--all] [KERNEL ...]``.

One line per kernel: its counters on hardware, and below it the simulator's where they differ. ``=``: equal in all.
"""

from __future__ import annotations

import argparse

from checks.counters import compare, readings
from checks.counters.compare import NUMBERS
from checks.counters.manifest import plan

HEADS = {
    "shared_wavefronts": "wavefronts",
    "shared_wavefronts_ideal": "ideal",
    "shared_load_instructions": "sh. ld",
    "shared_store_instructions": "sh. st",
    "global_load_instructions": "gl. ld",
    "global_store_instructions": "gl. st",
    "global_load_requests": "ld req",
    "global_store_requests": "st req",
    "global_load_sectors": "ld sect",
    "global_store_sectors": "st sect",
    "ffma": "ffma",
    "warp_instructions": "executed",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m checks.counters.table", description=__doc__)
    parser.add_argument("kernels", nargs="*", help="only kernels whose names begin so")
    given = parser.parse_args()
    known = readings.load()
    for number, session in enumerate(known.sessions):
        tools = f"driver {session.driver}, {session.profiler}, {session.compiler}"
        print(f"readings {number}: {session.gpu}, {tools}, {session.date}")
    print(f"{'kernel':32}" + "".join(f"{head:>11}" for head in HEADS.values()))
    equal = unequal = missing = 0
    for case in plan():
        if given.kernels and not any(case.name.startswith(name) for name in given.kernels):
            continue
        one = compare.compare(case, known)
        if one.missing or one.reading is None:
            missing += 1
            print(f"- {case.name:30} {one.missing}")
            continue
        different = one.differences
        equal, unequal = equal + (not different), unequal + bool(different)
        mark = "*" if different else "="
        print(f"{mark} {case.name:30}" + "".join(f"{one.measured[name]:>11}" for name in HEADS))
        if different:
            cells = "".join(f"{different[name][1] if name in different else '':>11}" for name in HEADS)
            print(f"    {'simulator':28}{cells}")
            for name in different:
                what = HEADS.get(name) or f"{name} {different[name]}"
                print(f"    {what}: {compare.UNEQUAL.get((case.name, name), 'NOT EXPLAINED')}")
        if one.inexact:
            print(f"    {one.inexact}")
    print(f"{equal} kernels equal in all {len(NUMBERS)} counters, {unequal} not, {missing} without a comparison")


if __name__ == "__main__":
    main()
