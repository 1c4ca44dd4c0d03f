"""More random programs than the tests run: ``python -m checks.simulator.property --programs 50000 --seed 7``."""

from __future__ import annotations

import argparse
import random
import sys
import time

from checks.simulator.property import kernels, programs
from checks.simulator.property.comparison import check
from checks.simulator.property.shrinking import shrink

EVERY = 10  # seconds between lines of progress


def main() -> int:
    """Run seeds one after the other; print each failure with a small program that shows it. 1 when any failed."""
    parser = argparse.ArgumentParser(prog="python -m checks.simulator.property", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000, metavar="N", help="random PTX programs to run")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="random CUDA kernels to compile and run")
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: a fresh one)")
    parser.add_argument("--show", action="store_true", help="print the program of the seed instead of running it")
    options = parser.parse_args()
    first = random.randrange(1 << 40) if options.seed is None else options.seed
    if options.show:
        print(programs.generate(first).text)
        return 0
    print(f"seeds {first} to {first + max(options.programs, options.kernels) - 1}", flush=True)
    failed = 0
    start = last = time.monotonic()
    for ended, seed in enumerate(range(first, first + options.programs)):
        case = programs.generate(seed)
        ran = check(case)
        if ran.problem:
            failed += 1
            small = shrink(case)
            print(f"seed {seed} ({case.sort}): {ran.problem}\nmade small: {check(small).problem}")
            print(f"grid {small.grid}, block {small.block}, {small.block_limit} blocks a batch")
            print("\n".join(f"    {line}" for line in small.body), flush=True)
        if time.monotonic() - last > EVERY:
            last = time.monotonic()
            print(f"{ended} of {options.programs} programs, {failed} failed, {last - start:.0f} s", flush=True)
    for seed in range(first, first + options.kernels):
        if problem := kernels.check(seed):
            failed += 1
            print(f"CUDA kernel of seed {seed}: {problem}\n{kernels.generate(seed).source}", flush=True)
    print(f"{options.programs} programs and {options.kernels} kernels from seed {first}: {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
