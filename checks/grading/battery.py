"""Judges kernels with a known verdict as ``gemm-lessons grade`` does, and lists those that get another one.

    python -m checks.grading.battery cheats                     # all must be rejected, each with its reason
    python -m checks.grading.battery honest 03 05               # of some lessons: all must pass
    python -m checks.grading.battery honest block_tile/three    # or some kernels, by the start of their names
    python -m checks.grading.battery mutants --quiet            # slips in the solutions: all must be rejected
    python -m checks.grading.battery cheats --gpu --json gpu.json
    python -m checks.grading.battery --compare sim.json gpu.json

Each verdict is printed on stderr when it is known. Ctrl-C stops the run, and the table has what was judged until then.

Exit code 1 if a kernel gets another verdict than expected; 2 if the command was wrong; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from checks.grading import fixtures
from checks.grading.fixtures import BadFixture, Fixture
from gemm_lessons.course.folder import CommandError
from gemm_lessons.gemm.problem import fresh_seed
from gemm_lessons.grading.executors import open_executor
from gemm_lessons.grading.judging import Job, Judged
from gemm_lessons.report.console import make_console

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "gemm-lessons/battery/1"
SECONDS = {"cheats": 60.0, "honest": 60.0, "mutants": 20.0}  # of processor time for one kernel
PIPED = 140  # columns of what is written to a file
SHORT = 160  # characters of a reason in the table
STOPPED = 130  # exit code after Ctrl-C, as shells have it


@dataclass(frozen=True)
class Result:
    """The result of one kernel. ``verdict`` is that of ``run --json``, or the status of a grade without one.
    ``seconds``: of processor time."""

    kernel: str  # block_tile/what_it_does
    group: str
    verdict: str
    reason: str
    expected: bool
    seed: int
    seconds: float


def judged(
    kernels: Sequence[Fixture], *, gpu: bool = False, processes: int = 1, seed: int | None = None
) -> Iterator[Result]:
    """Judge kernels as submissions; yield results as they are done. Without ``seed`` each kernel gets other inputs."""
    by_label = {kernel.label: kernel for kernel in kernels}
    jobs = (
        Job(
            student=kernel.label,
            lesson=kernel.lesson,
            lesson_hash="",
            file="kernel.cu",
            data=kernel.source.encode(errors="surrogateescape"),
            seeds=(fresh_seed() if seed is None else seed,),
            seconds=SECONDS[kernel.kind],
            device="gpu" if gpu else "sim",
        )
        for kernel in kernels
    )
    with open_executor("local", min(processes, max(1, len(kernels)))) as executor:
        for job, came in executor.run(jobs):
            yield _result(by_label[job.student], came)


def _result(kernel: Fixture, came: Judged) -> Result:
    verdict, reason = came.status, came.message
    if came.status == "graded" and came.outcome is not None:
        verdict, reason = came.outcome["verdict"], reason_of(came.outcome)
    expected = kernel.expects(verdict, reason)
    return Result(kernel.label, kernel.group, verdict, reason, expected, came.seed, came.seconds)


def reason_of(outcome: Mapping[str, Any]) -> str:
    """A verdict's reason in one line, from the object of ``run --json``."""
    told: list[str] = []
    match outcome["verdict"]:
        case "compile_failed":
            told = [f"line {it['line']}: {it['message']}" for it in outcome["compile"]["diagnostics"]]
        case "faulted" | "timed_out":
            errors = [it for it in outcome["findings"] if it["severity"] == "error"]
            told = [f"{it['kind']} in line {it['line']}: {it['message']}" for it in errors]
        case "wrong_answer":
            wrong = [it for it in outcome["shapes"] if it["verdict"] == "wrong_answer"]
            where = "x".join(str(wrong[0][size]) for size in "mnk") if wrong else "a timed launch"  # on a GPU
            told = [f"wrong at {where}", *outcome["hints"][:1]]
        case "gate_missed":
            missed = [it for it in outcome["gates"] if not it["passed"]]
            told = [f"{it['id']}: {_number(it['value'])}, limit {_number(it['limit'])}" for it in missed]
    return " ".join("; ".join(told).split())


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _mutants() -> Sequence[Fixture]:
    from checks.grading.mutants import mutants  # generated, unlike the other kinds

    return mutants()


def left_out(kernels: Sequence[Fixture], results: Sequence[Result]) -> dict[str, str]:
    """Mutants to leave out -> why: they do not compile, or they compile to the solution's own code."""
    from checks.grading.mutants import is_equivalent

    mutants = {it.label: it for it in kernels if it.kind == "mutants"}
    ours = [it for it in results if it.kernel in mutants]
    none = {it.kernel: "does not compile" for it in ours if it.verdict == "compile_failed"}
    passed = [it.kernel for it in ours if it.verdict == "passed" and not it.expected]
    return none | {name: "is the same code" for name in passed if is_equivalent(mutants[name])}


KINDS: Mapping[str, Callable[[], Sequence[Fixture]]] = {
    "cheats": fixtures.cheats,
    "honest": fixtures.honest,
    "mutants": _mutants,
}


def show(console: Console, results: Sequence[Result], everything: bool = True) -> None:
    """Print the table of all kernels, or of those with another verdict than expected."""
    table = Table(box=None, pad_edge=False, header_style="quiet")
    for name in ("kernel", "class", "verdict"):
        table.add_column(name, overflow="fold")
    table.add_column("reason", ratio=1, overflow="fold")
    table.add_column("as expected?")
    for it in results:
        if everything or not it.expected:
            style = None if it.expected else "bad"
            expected = "yes" if it.expected else "NO"
            table.add_row(it.kernel, it.group, it.verdict, _short(it.reason), expected, style=style)
    if table.rows:
        console.print(table)


def _short(reason: str) -> str:
    """A reason as it is printed: not too long, without control characters."""
    cut = reason if len(reason) <= SHORT else reason[: SHORT - 3] + "..."
    return "".join(letter if letter.isprintable() else "?" for letter in cut)


def progress(number: int, of: int, result: Result) -> str:
    """One line for a kernel that was just judged."""
    expected = "" if result.expected else "NOT AS EXPECTED: "
    return (
        f"{number}/{of} {expected}{result.kernel}: {result.verdict} ({result.seconds:.0f} s, seed {result.seed}) "
        f"{_short(result.reason)}".rstrip()
    )


def summary(kind: str, results: Sequence[Result]) -> str:
    """One line: kernels by verdict, and how many verdicts were not expected."""
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(it.verdict for it in results).most_common())
    other = sum(not it.expected for it in results)
    seconds = sum(it.seconds for it in results)
    return f"{len(results)} {kind}: {verdicts or 'none'}; {other or 'none'} not as expected ({seconds:.0f} s in all)"


def causes(results: Sequence[Result]) -> Table:
    """Table of causes of rejection by lesson; races are counted separately from other faults."""
    counts: Counter[tuple[str, str]] = Counter()
    for it in results:
        cause = "race" if it.reason.startswith("race ") else it.verdict
        counts[it.kernel.partition("/")[0], cause] += 1
    columns = [cause for cause, _ in Counter(cause for _, cause in counts.elements()).most_common()]
    table = Table("lesson", box=None, pad_edge=False, header_style="quiet")
    for cause in columns:
        table.add_column(cause, justify="right")
    for lesson in dict.fromkeys(it.kernel.partition("/")[0] for it in results):
        table.add_row(lesson, *(str(counts[lesson, cause] or "-") for cause in columns))
    return table


def compare(console: Console, one: Path, other: Path) -> int:
    """List the kernels whose verdicts differ between two files of ``--json``."""
    first, second = _stored(one), _stored(other)
    table = Table("kernel", one.name, other.name, "reasons", box=None, pad_edge=False, header_style="quiet")
    differing = 0
    for kernel in sorted(first.keys() | second.keys()):
        here, there = first.get(kernel), second.get(kernel)
        if here is None or there is None or here["verdict"] != there["verdict"]:
            differing += 1
            reasons = " | ".join((it or {}).get("reason", "")[:SHORT] for it in (here, there))
            table.add_row(kernel, *((it or {}).get("verdict", "not judged") for it in (here, there)), reasons)
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
        results: list[Result] = []
        stopped = False
        try:
            for result in judged(kernels, gpu=asked.gpu, processes=max(1, asked.processes), seed=asked.seed):
                results.append(result)
                print(progress(len(results), len(kernels), result), file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            stopped = True
        without = left_out(kernels, results)
    except (CommandError, BadFixture, OSError, json.JSONDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    results = [it for it in results if it.kernel not in without]
    place = {kernel.label: i for i, kernel in enumerate(kernels)}
    results.sort(key=lambda it: place[it.kernel])
    if asked.json:
        record = {"schema": SCHEMA, "kind": asked.kind, "device": "gpu" if asked.gpu else "simulator"}
        asked.json.write_text(json.dumps(record | {"results": [asdict(it) for it in results]}, indent=1) + "\n")
    show(console, results, everything=not asked.quiet)
    if asked.kind == "mutants":
        console.print(causes(results))
    for why, count in Counter(without.values()).items():
        console.print(f"{count} left out: {why}")
    console.print(summary(asked.kind, results))
    if stopped:
        console.print(f"stopped: {len(kernels) - len(results) - len(without)} of {len(kernels)} were not judged")
        return STOPPED
    return 0 if all(it.expected for it in results) else 1


if __name__ == "__main__":
    sys.exit(main())
