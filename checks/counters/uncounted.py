"""Lists why stored kernels cannot be counted: ``python -m checks.counters.uncounted [LESSON | LESSON/NAME ...]``.

Follows the machine code of every stored cheat, honest kernel and solution at its lesson's counting shape, without
running the kernel, and lists the obstacles by count.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from checks.grading import fixtures
from checks.usage import help_if_asked
from gemm_lessons.course.folder import any_course, read_source
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine import sass
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.launch import Argument, Grid
from gemm_lessons.engine.records.results import Counters, Launched
from gemm_lessons.engine.simulator import Setting, _program_of, _RequestedLaunch
from gemm_lessons.judging.evidence import Built
from gemm_lessons.running import pipeline
from gemm_lessons.running.builder import variant_of
from gemm_lessons.running.jobs import Jobs
from gemm_lessons.running.plan import RunPlan, RunRequest

SEED = 5


def _followed(compiled: Compiled, grid: Grid, arguments: Sequence[Argument]) -> Launched:
    """Follow the machine code of one launch. Raise ``Uncountable``."""
    machine = _RequestedLaunch(Setting(), compiled, _program_of(compiled), grid, arguments).machine()
    code = sass.prepare(compiled)
    if code.plan is None:
        raise sass.Uncountable(code.obstacle)
    sass.count(code, machine.launch, machine.initial_memory)
    return Launched(Counters())


def obstacle(lesson: Lesson, path: Path) -> str:
    """Return why a kernel cannot be counted; "" if it can, or is rejected before counting."""
    request = RunRequest(
        any_course(), lesson, path, Simulated(), GPUS["h200"], beside=False, seed=SEED, estimating=False
    )
    plan = RunPlan.of(request)
    kernel = plan.kernels[0]
    built = pipeline.build(plan, kernel, read_source(path), Jobs())
    if not isinstance(built, Built):
        return ""
    launch = kernel.counted[0]
    code, problem = variant_of(built, launch.lesson).code, launch.problem(SEED)
    try:
        launch.task(code, problem).run(_followed, code.counted, problem.trial())
    except sass.Uncountable as reason:
        return str(reason)
    except (UnsupportedKernel, ValueError):  # no kernel of this lesson: judged before anything is counted
        return ""
    return ""


def _stored(names: Sequence[str], folder: Path) -> Iterator[tuple[str, Lesson, Path]]:
    course = any_course()
    for it in fixtures.chosen((*fixtures.cheats(), *fixtures.honest()), names):
        path = folder / f"{it.lesson}_{it.name}.cu"
        path.write_bytes(it.source.encode(errors="surrogateescape"))
        yield it.label, course.lesson(it.lesson), path
    for name in course.names:
        if not names or name in names:
            yield name, course.lesson(name), course.lesson(name).solution_path


def main() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for label, lesson, path in _stored(sys.argv[1:], Path(folder)):
            count += 1
            if reason := obstacle(lesson, path):
                found[reason].append(label)
    for reason, labels in sorted(found.items(), key=lambda it: -len(it[1])):
        print(f"{len(labels):4}  {reason}: {', '.join(labels)}")
    print(f"{sum(map(len, found.values()))} of {count} kernels cannot be counted")


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
