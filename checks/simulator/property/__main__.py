"""Random programs by their seeds: ``python -m checks.simulator.property --programs 50000 --processes 8``.

With ``--standard`` they are those of ``.ci/run`` and ``python -m checks.versions``, the same each time; pytest runs the
first few of these (``test_property.py``). Without ``--seed`` the seeds are new ones.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from checks.simulator.property import programs
from checks.simulator.property.problems import problems

STANDARD = {"programs": 1000, "kernels": 12, "seed": 0, "processes": 2}
EVERY = 10  # seconds between lines of progress


def main() -> int:
    """Run the seeds; print each failure with a small program that shows it. 1 when any failed."""
    parser = argparse.ArgumentParser(prog="python -m checks.simulator.property", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000, metavar="N", help="random PTX programs to run")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="random CUDA kernels to compile and run")
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: a fresh one)")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="that share the work")
    parser.add_argument("--show", action="store_true", help="print the program of the seed instead of running it")
    parser.add_argument(
        "--standard",
        action="store_const",
        const=STANDARD,
        default={},
        help=" ".join(f"--{name} {value}" for name, value in STANDARD.items()),
    )
    options = parser.parse_args()
    vars(options).update(options.standard)
    first = random.randrange(1 << 40) if options.seed is None else options.seed
    if options.show:
        print(programs.generate(first).text)
        return 0
    print(f"seeds {first} to {first + max(options.programs, options.kernels) - 1}", flush=True)
    tasks = [(True, first + n) for n in range(options.kernels)] + [(False, first + n) for n in range(options.programs)]
    failed = 0
    start = last = time.monotonic()
    for ended, problem in enumerate(problems(tasks, options.processes), 1):
        if problem:
            failed += 1
            print(problem, flush=True)
        if time.monotonic() - last > EVERY:
            last = time.monotonic()
            print(f"{ended} of {len(tasks)}, {failed} failed, {last - start:.0f} s", flush=True)
    print(
        f"{options.programs} programs and {options.kernels} kernels from seed {first}: {failed} failed, "
        f"{time.monotonic() - start:.0f} s"
    )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
