"""Judges kernels whose fate is known, and says which ones got another.

    python -m checks.grading.battery cheats                     # all must be rejected, each with its reason
    python -m checks.grading.battery honest 03 05               # of some lessons: all must pass
    python -m checks.grading.battery honest block_tile/three    # or some kernels, by the start of their names
    python -m checks.grading.battery cheats --gpu --json gpu.json
    python -m checks.grading.battery --compare sim.json gpu.json

Exit code 1 if a kernel met another fate than it should; 2 if the command was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from checks.grading import fixtures
from checks.grading.fixtures import BadFixture, Fixture
from gemm_lessons.child import Child, ChildDied, ChildHung
from gemm_lessons.course.folder import CommandError
from gemm_lessons.report.console import make_console

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "gemm-lessons/battery/1"
SECONDS = 120.0  # for one kernel on a busy machine
START_S = 120.0  # for a process to load its libraries, or to wake a GPU up
PIPED = 140  # columns of what is written to a file
SHORT = 160  # characters of a reason in the table


@dataclass(frozen=True)
class Result:
    """What came of one kernel."""

    kernel: str  # block_tile/what_it_does
    group: str
    verdict: str
    reason: str
    expected: bool
    seconds: float = 0.0
    cpu: float = 0.0  # seconds of the judging process, without the compiler's


def judged(
    kernels: Sequence[Fixture], *, gpu: bool = False, processes: int = 1, seed: int | None = None
) -> Iterator[Result]:
    """Judge kernels, in any order, in warm processes: one that hangs or crashes is ended, and a new one goes on."""
    judges = [_Judge(gpu, seed) for _ in range(min(processes, len(kernels)))]
    idle: queue.SimpleQueue[_Judge] = queue.SimpleQueue()
    for judge in judges:
        idle.put(judge)

    def work(kernel: Fixture) -> Result:
        judge = idle.get()
        try:
            return judge.judge(kernel)
        finally:
            idle.put(judge)

    pool = ThreadPoolExecutor(max(1, len(judges)))
    try:
        for future in as_completed([pool.submit(work, kernel) for kernel in kernels]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        for judge in judges:
            judge.close()


class _Judge:
    """A process, started when it is needed."""

    def __init__(self, gpu: bool, seed: int | None) -> None:
        self._choice, self._seed = ("gpu" if gpu else "sim"), seed
        self._child: Child | None = None

    def judge(self, kernel: Fixture) -> Result:
        question = {"lesson": kernel.lesson, "source": kernel.source, "seed": self._seed}
        child = self._ready()
        began = time.perf_counter()
        try:
            child.send(question)
            answer, _ = child.receive(SECONDS)
        except ChildHung:
            answer = {"verdict": "timed_out", "reason": f"no outcome within {SECONDS:g} s"}
            self._child = None
        except ChildDied as died:
            answer = {"verdict": "crashed", "reason": str(died)}
            self._child = None
        seconds, cpu = answer.get("seconds", time.perf_counter() - began), answer.get("cpu", 0.0)
        verdict, reason = answer["verdict"], answer["reason"]
        return Result(kernel.label, kernel.group, verdict, reason, kernel.expects(verdict, reason), seconds, cpu)

    def _ready(self) -> Child:
        if self._child is None:
            self._child = Child("checks.grading.judge", [self._choice], path=[Path(__file__).parents[2]])
            self._child.receive(START_S)
        return self._child

    def close(self) -> None:
        if self._child is not None:
            self._child.close()


KINDS: Mapping[str, Callable[[], Sequence[Fixture]]] = {
    "cheats": fixtures.cheats,
    "honest": fixtures.honest,
}


def show(console: Console, results: Sequence[Result], everything: bool = True) -> None:
    """The table: all kernels, or those with another fate than expected."""
    table = Table(box=None, pad_edge=False, header_style="quiet")
    for name in ("kernel", "class", "verdict"):
        table.add_column(name, overflow="fold")
    table.add_column("reason", ratio=1, overflow="fold")
    table.add_column("as expected?")
    for it in results:
        if everything or not it.expected:
            reason = it.reason if len(it.reason) <= SHORT else it.reason[: SHORT - 3] + "..."
            reason = "".join(letter if letter.isprintable() else "?" for letter in reason)
            table.add_row(it.kernel, it.group, it.verdict, reason, "yes" if it.expected else "NO")
            table.rows[-1].style = None if it.expected else "bad"
    if table.rows:
        console.print(table)


def summary(kind: str, results: Sequence[Result]) -> str:
    """One line: how many met which verdict, and how many of these were not expected."""
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(it.verdict for it in results).most_common())
    other = sum(not it.expected for it in results)
    cpu = sum(it.cpu for it in results)
    return f"{len(results)} {kind}: {verdicts or 'none'}; {other or 'none'} not as expected ({cpu:.0f} s of CPU)"


def compare(console: Console, one: Path, other: Path) -> int:
    """List the kernels whose verdicts differ between two files of ``--json``."""
    first, second = _stored(one), _stored(other)
    table = Table("kernel", str(one), str(other), "reasons", box=None, pad_edge=False, header_style="quiet")
    differing = 0
    for kernel in sorted(first.keys() | second.keys()):
        here, there = first.get(kernel), second.get(kernel)
        if here is None or there is None or here["verdict"] != there["verdict"]:
            differing += 1
            reasons = " | ".join((it or {}).get("reason", "")[:SHORT] for it in (here, there))
            table.add_row(kernel, *((it or {}).get("verdict", "not judged") for it in (here, there)), escape(reasons))
    if differing:
        console.print(table)
    console.print(f"{len(first.keys() & second.keys())} kernels in both: {differing or 'no'} verdicts differ")
    return 1 if differing else 0


def _stored(path: Path) -> dict[str, Any]:
    record = json.loads(path.read_text())
    if record.get("schema") != SCHEMA:
        raise CommandError(f"{path}: is not a file of --json")
    return {it["kernel"]: it for it in record["results"]}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m checks.grading.battery", description="Kernels with a known fate.")
    parser.add_argument("kind", nargs="?", choices=KINDS)
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="lessons, or kernels: block_tile/decoy")
    parser.add_argument("--gpu", action="store_true", help="on a GPU, with the simulator beside it")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser.add_argument("--seed", type=int, help="of the inputs; without it, fresh ones for each kernel")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the results")
    parser.add_argument("--quiet", action="store_true", help="show only what is not as expected")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A.json", "B.json"), help="list differing verdicts")
    asked = parser.parse_args(arguments)
    console = make_console()
    if not console.is_terminal:
        console.width = max(console.width, PIPED)
    try:
        if asked.compare:
            return compare(console, *asked.compare)
        if asked.kind is None:
            parser.error("name a kind of kernels")
        kernels = fixtures.chosen(KINDS[asked.kind](), asked.lessons)
        results = []
        for result in judged(kernels, gpu=asked.gpu, processes=max(1, asked.processes), seed=asked.seed):
            results.append(result)
            if not result.expected or sys.stderr.isatty():
                print(f"{len(results)}/{len(kernels)} {result.kernel}: {result.verdict}", file=sys.stderr, flush=True)
    except (CommandError, BadFixture, OSError, json.JSONDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    place = {kernel.label: i for i, kernel in enumerate(kernels)}
    results.sort(key=lambda it: place[it.kernel])
    if asked.json:
        record = {"schema": SCHEMA, "kind": asked.kind, "device": "gpu" if asked.gpu else "simulator"}
        asked.json.write_text(json.dumps(record | {"results": [asdict(it) for it in results]}, indent=1) + "\n")
    show(console, results, everything=not asked.quiet)
    console.print(summary(asked.kind, results))
    return 0 if all(it.expected for it in results) else 1


if __name__ == "__main__":
    sys.exit(main())
