"""Kernels outside the course, estimated beside measured: errors of the fitted and the judged half, order, refusals.

    python -m checks.estimate.any_kernels [NAME ...]              the table; NAME: launches whose names contain it
    python -m checks.estimate.any_kernels --fitted                without the judged half
    python -m checks.estimate.any_kernels --write                 and store the estimates
    python -m checks.estimate.any_kernels fetch                   the public kernels' sources, from GitHub
    python -m checks.estimate.any_kernels compile DIR [second]    machine code, for a machine with a GPU and cupy
    python -m checks.estimate.any_kernels measure DIR OUT         there: times, into the file OUT

``launches/launches.toml`` lists the launches; it was frozen before anything was fitted to them. ``fitted`` draws the
half that constants may be fitted to; the other half only judges. ``launches/second`` has a second list, chosen later
and frozen before any of it was estimated. Nothing is fitted to it; ``h200_at_first.json`` has its first estimates.
Times are medians of launches that are queued after another kernel, so that launching is hidden; L2 is as the launch
before left it. Public kernels whose sources are not here are left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pickle
import random
import statistics
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from checks.estimate.matrices import QUEUED_US
from checks.foreign import build as foreign
from checks.foreign.fetch import default_folder, fetch
from checks.foreign.manifest import folder_of
from gemm_lessons.engine.arguments.parameters import declared
from gemm_lessons.engine.arguments.text import Given, build
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled, compile_source
from gemm_lessons.engine.estimate.chip import LAUNCH_US
from gemm_lessons.engine.estimate.launch import LaunchEstimate, NotEstimated, PreparedLaunch, estimate_launch
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Buffer, Grid, Scalar
from gemm_lessons.engine.simulator import Simulator

HERE = Path(__file__).parent
FIRST, SECOND = HERE / "launches", HERE / "launches/second"
# In each: the list, what was measured, and the last stored estimates, for texts to be compared with.
LIST, MEASURED, ESTIMATED = "launches.toml", "h200.json", "h200_estimated.json"
SEED = 32  # of the draw of the fitted half
TIMES, WARM_UP = 25, 3  # launches
DIFFER = 1.1  # a pair of times that differ by this factor has an order
SPIN_CLOCKS = 400_000


@dataclass(frozen=True)
class Launch:
    """One launch of the list in ``folder``."""

    folder: Path
    name: str
    kind: str
    file: str
    entry: str
    grid: Grid
    args: str
    repository: str = ""
    options: tuple[str, ...] = ()  # of the compiler

    @property
    def path(self) -> Path:
        """Return the path of its source."""
        if self.repository:
            return folder_of(default_folder(), self.repository) / self.file
        return self.folder / self.file

    def compiled(self) -> Compiled:
        """Return its machine code for an H200."""
        if self.repository:
            root = folder_of(default_folder(), self.repository)
            made = foreign.compiled(self.path, root, self.entry, options=self.options)
        else:
            made = compile_source(self.path.read_text(), path=str(self.path), entry=self.entry)
        if isinstance(made, NotCompiled):
            raise SystemExit(f"{self.name}: {made.log}")
        return made

    def given(self, compiled: Compiled, source: str | None = None) -> Given:
        """Return its arguments."""
        device = Simulator()
        kernel = device.kernel(compiled)
        known = declared(source or self.path.read_text(), kernel, self.entry)
        return build(self.args, (), kernel, lambda name: device.variable(compiled, name), 0, known)

    def estimate(self) -> LaunchEstimate:
        """Return the estimate for an H200. Raise ``NotEstimated``."""
        compiled = self.compiled()
        given = self.given(compiled)
        return estimate_launch(PreparedLaunch.of(compiled, self.grid, given.arguments, GPUS["h200"]))


@cache
def launches(folder: Path = FIRST) -> tuple[Launch, ...]:
    """Return all launches of a list."""
    found = []
    for row in tomllib.loads((folder / LIST).read_text())["launch"]:
        grid, block = (tuple([*row[name], 1, 1][:3]) for name in ("grid", "block"))
        launch = Grid(grid, block, row.get("shared", 0))
        places = row.get("repository", ""), tuple(row.get("options", ()))
        found.append(Launch(folder, row["name"], row["kind"], row["file"], row["entry"], launch, row["args"], *places))
    return tuple(found)


@cache
def fitted() -> frozenset[str]:
    """Return the names of the half that constants may be fitted to: half of the products and half of the others."""
    rng = random.Random(SEED)
    products = [it.name for it in launches() if it.kind == "gemm"]
    others = [it.name for it in launches() if it.kind != "gemm"]
    return frozenset(name for names in (products, others) for name in rng.sample(names, len(names) // 2))


@dataclass(frozen=True)
class Compared:
    """A launch with its measured and estimated microseconds and its bottleneck, or why there is no estimate."""

    launch: Launch
    measured: float
    estimate: float = 0.0
    limiter: str = ""
    refused: str = ""
    seconds: float = 0.0  # to estimate it

    @property
    def stored(self) -> float | str:
        """Return what is stored: microseconds, or the reason."""
        return self.refused or round(self.estimate, 2)

    @property
    def off(self) -> float:
        """Return predicted over measured, less one."""
        return self.estimate / self.measured - 1


@cache
def measured(folder: Path) -> dict[str, float]:
    """Return the measured times of a list."""
    found: dict[str, float] = json.loads((folder / MEASURED).read_text())["median_us"]
    return found


def compared(chosen: Iterable[Launch]) -> Iterator[Compared]:
    """Estimate the launches whose sources are here."""
    for launch in chosen:
        if not launch.path.exists():
            continue
        begun, us = time.process_time(), measured(launch.folder).get(launch.name, 0.0)
        try:
            found = launch.estimate()
        except NotEstimated as reason:
            yield Compared(launch, us, refused=str(reason), seconds=time.process_time() - begun)
        else:
            hidden = found.time_us - LAUNCH_US + QUEUED_US
            yield Compared(launch, us, hidden, found.limiter, seconds=time.process_time() - begun)


def stored(folder: Path = FIRST, estimated: str = ESTIMATED) -> list[Compared]:
    """Return the measured times of a list with the estimates of a file."""
    estimates, times = json.loads((folder / estimated).read_text()), measured(folder)
    return [
        Compared(it, times.get(it.name, 0.0), refused=us) if isinstance(us, str) else Compared(it, times[it.name], us)
        for it in launches(folder)
        if (us := estimates[it.name])
    ]


@dataclass(frozen=True)
class Summary:
    """How far some estimates are off, in percent, and how many pairs of times that differ are in the right order."""

    launches: int
    refused: int
    median: float
    largest: float
    in_order: int
    pairs: int

    def __str__(self) -> str:
        return (
            f"{self.launches - self.refused} of {self.launches} estimated, off by {self.median:.1f}% in the median and "
            f"{self.largest:.1f}% at most; {self.in_order} of {self.pairs} pairs in order; {self.refused} refused"
        )


def summary(found: Sequence[Compared]) -> Summary | None:
    """Return the summary of estimates; None if all are refused."""
    there = [it for it in found if not it.refused]
    if not there:
        return None
    off = [100 * abs(it.off) for it in there]
    pairs = [
        (one.measured > other.measured) == (one.estimate > other.estimate)
        for one, other in itertools.combinations(there, 2)
        if max(one.measured, other.measured) >= DIFFER * min(one.measured, other.measured)
    ]
    refused = len(found) - len(there)
    return Summary(len(found), refused, statistics.median(off), max(off), sum(pairs), len(pairs))


def show(found: Iterable[Compared], title: str) -> list[Compared]:
    """Print a line for each launch and the summaries; return the launches."""
    print(f"{title}:\n{'':32}{'measured':>11}{'estimated':>11}{'off':>8}  limiter")
    kept = []
    for it in found:
        kept.append(it)
        if it.refused:
            print(f"{it.launch.name:32}{it.measured:9.1f}us   refused: {it.refused}", flush=True)
        else:
            line = f"{it.launch.name:32}{it.measured:9.1f}us{it.estimate:9.1f}us{it.off:+8.1%}  {it.limiter}"
            print(f"{line:70} {it.seconds:5.1f} s", flush=True)
    for kind, part in (("GEMMs", True), ("others", False)):
        print(f"  {kind}: {summary([it for it in kept if (it.launch.kind == 'gemm') == part])}")
    print(f"  all: {summary(kept)}\n", flush=True)
    return kept


# -- measuring


def compile_all(folder: Path, chosen: Iterable[Launch]) -> None:
    """Write all machine code and sources."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [(it, it.compiled(), it.path.read_text()) for it in chosen]
    (folder / "launches.pickle").write_bytes(pickle.dumps(made))


def measure(folder: Path, out: Path) -> None:
    """Time all launches that ``compile_all`` wrote."""
    import cupy
    import numpy as np

    spin = cupy.RawKernel(
        r'extern "C" __global__ void spin(long long n) { long long t = clock64(); while (clock64() - t < n); }', "spin"
    )
    medians, spreads = {}, {}
    for number, (launch, compiled, source) in enumerate(pickle.loads((folder / "launches.pickle").read_bytes())):
        if launch.name.startswith("chained"):
            continue  # its flags would have to be cleared between launches
        cubin = folder / f"{number}.cubin"
        cubin.write_bytes(compiled.cubin)
        function = cupy.RawModule(path=str(cubin)).get_function(compiled.entry)
        function.max_dynamic_shared_size_bytes = launch.grid.dynamic_shared
        args: list[Any] = []
        for argument in launch.given(compiled, source).arguments:
            if isinstance(argument, Buffer):
                args.append(cupy.asarray(argument.array))
            else:
                assert isinstance(argument, Scalar)
                args.append(argument.value)
        events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(TIMES + WARM_UP)]
        for before, after in events:
            spin((1,), (1,), (np.int64(SPIN_CLOCKS),))
            before.record()
            function(launch.grid.grid, launch.grid.block, tuple(args), shared_mem=launch.grid.dynamic_shared)
            after.record()
            after.synchronize()
        times = [1e3 * cupy.cuda.get_elapsed_time(*pair) for pair in events[WARM_UP:]]
        medians[launch.name] = round(statistics.median(times), 2)
        spreads[launch.name] = [round(min(times), 2), round(max(times), 2)]
        print(f"{launch.name:32}{medians[launch.name]:12.2f}", flush=True)
        del args
        cupy.get_default_memory_pool().free_all_blocks()
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    how = f"median of {TIMES} launches, each hidden behind another kernel, L2 as the launch before left it"
    about = {"gpu": name, "date": time.strftime("%Y-%m-%d"), "what": how}
    out.write_text(json.dumps({**about, "median_us": medians, "range_us": spreads}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m checks.estimate.any_kernels")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--fitted", action="store_true")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    match asked.words:
        case ["fetch"]:
            repositories = tomllib.loads((FIRST / LIST).read_text())["repositories"]
            sys.exit("\n".join(fetch(repositories, default_folder())) or None)
        case ["compile", folder, *which]:
            compile_all(Path(folder), launches(SECOND if which else FIRST))
        case ["measure", folder, out]:
            measure(Path(folder), Path(out))
        case names:
            first, second = (
                [it for it in launches(folder) if not names or any(name in it.name for name in names)]
                for folder in (FIRST, SECOND)
            )
            found = show(compared(it for it in first if it.name in fitted()), "fitted")
            if not asked.fitted:
                found += show(compared(it for it in first if it.name not in fitted()), "judged")
                found += show(compared(second), "second list")
            for folder in (FIRST, SECOND) if asked.write else ():
                kept = {it.launch.name: it.stored for it in found if it.launch.folder == folder}
                (folder / ESTIMATED).write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
