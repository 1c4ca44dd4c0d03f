"""Mutants of right Hopper kernels: each lacks a wait, a fence or a barrier, or has one that is slightly wrong.

    python -m checks.checkers.hopper_mutants            # all of them: a quarter of an hour
    python -m checks.checkers.hopper_mutants roles/     # those of kernels whose name begins so

``RULES`` edit single lines; each line that a rule fits is a mutant, so that the list depends on the kernels alone. A
mutant is found if the checkers report anything but notes: ``line`` if a finding, or the report of a hang, names its
line or a line that synchronises, else ``accesses``, as a race names the accesses that it is between. ``EQUIVALENT``
lists mutants that are right, with the reason. Exit code 1 if fewer than ``LEAST`` of the others are found, or if a
kernel itself is accused.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from checks.course.kernel import Kernel, compiled
from checks.estimate.ladder import COMMON, KERNELS, STEPS, Step
from checks.grading.fixtures import honest
from checks.usage import help_if_asked
from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, TensorMap
from gemm_lessons.engine.records.results import Launched
from gemm_lessons.engine.simulator import Setting, Simulator
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape

SEED = 3
WAITS = r"(?:await|until)\((?:[^;]|\n)*?\);"
BAR = r"(?:__syncthreads|group_barrier|named_barrier)\([^;]*\);"
LEAST = 0.95
SYNC = re.compile(
    r"\b(await|until|arrive\w*|init|wgmma_(?:wait|fence|commit)|products_\w+|\w*barrier\w*|__syncthreads|stores_\w+"
    r"|producer_acquire|consumer_\w+|request)\b|fence|wgmma\.(?:wait|commit|fence)"
)
# Kernel and start of ``Mutant.edit`` -> why that mutant is right.
AHEAD = "the producer waits for the stage after this one, which the consumers leave after this one"
ALONE = "a thread without stores of its own waits for none"
AT_ONCE = "waits for the first stage of a round until all stages of the last one are left, and so never too short"
TWICE = "fence.mbarrier_init, in the line before, does the same"
EQUIVALENT = {
    ("roles/solution", "await(empty[tile % STAGES], tile / STAGES % 2 ^ 1); => await(empty[(tile"): AHEAD,
    ("persistent/solution", "await(empty[step % STAGES], step / STAGES % 2 ^ 1); => await(empty[(step"): AHEAD,
    ("persistent/solution", "if (thread == 0) => if (thread <= 1) stores_have_read"): ALONE,
    ("roles/cutlass_cooperative", "await(empty[s.index], s.phase); => await(empty[(s.index"): AHEAD,
    ("roles/cutlass_cooperative", "barriers_are_ready(); => ;"): TWICE,
    ("roles/deep_gemm", "await(empty_barriers[s], (round + 1) & 1); => await(empty_barriers[(s"): AHEAD,
    ("roles/deep_gemm", "arrive(empty_barriers[s]); => arrive(empty_barriers[(s"): AT_ONCE,
    (
        "roles/thunderkittens",
        "await(sem.finished[ring], phasebit(bits, ring, true)); => await(sem.finished[(ring",
    ): AHEAD,
    ("roles/thunderkittens", "arrive(sem.finished[ring]); => arrive(sem.finished[(ring"): AT_ONCE,
    ("persistent/cutlass_persistent", "await(empty[write.index], write.phase); => await(empty[(write"): AHEAD,
    ("persistent/cutlass_persistent", "barriers_are_ready(); => ;"): TWICE,
    ("persistent/cutlass_persistent", "if (t == 0) => if (t <= 1) stores_have_read"): ALONE,
    ("ladder/three stages", "__syncthreads(); => ; if (AHEAD)"): "a product is one operation of all four warps, and the"
    " thread that refills a stage has waited for it",
    ("ladder/clusters, C stored by TMA", "await(empty[stage], parity ^ 1); => await(empty[(stage"): AHEAD,
    ("ladder/clusters, C stored by TMA", "if (t == 0) => if (t <= 1) stores_have_read"): ALONE,
    (
        "ladder/clusters, C stored by TMA",
        "cluster_barrier(); => ; return;",
    ): "consumers of all blocks still meet at the end",
}

# Solutions, and the lessons' honest kernels in other styles; other honest kernels differ from these in a few lines.
STYLES = {
    *((lesson, "solution") for lesson in ("wgmma", "roles", "persistent")),
    ("wgmma", "narrow_products"),
    ("wgmma", "pipeline_states"),
    ("roles", "cutlass_cooperative"),
    ("persistent", "cutlass_persistent"),
    ("roles", "deep_gemm"),
    ("roles", "thunderkittens"),
}
# Class, pattern that is searched in a line, replacement.
RULES: Sequence[tuple[str, str, str]] = (
    ("dropped wait", WAITS, ";"),
    ("dropped wait", r"(?:wgmma_wait|products_left|stores_have_read)(?:<[^;]*>)?\(\);", ";"),
    ("dropped wait", r'asm volatile\("wgmma\.wait_group[^;]*;" ::: "memory"\);', ";"),
    ("dropped wait", BAR, ";"),
    ("wrong parity", r"((?:await|until)\(.*), ([^,]*)\);", r"\1, (\2) ^ 1);"),
    ("wrong parity", r"((?:await|until)\(.*), [^,]*\);", r"\1, 0);"),
    ("wrong parity", r"\b(phase|parity) \^= 1", r"\1 ^= 0"),
    ("wrong parity", r"update_phasebit\([^;]*\);", ";"),
    ("wrong bytes", r"(arrive_for\(.*), ([^,]*)\);", r"\1, (\2) - 128);"),
    ("wrong bytes", r"(arrive_for\(.*), ([^,]*)\);", r"\1, 2 * (\2));"),
    ("wrong bytes", r"arrive_for\((.*), [^,]*\);", r"arrive(\1);"),
    ("wrong bytes", r"\b(copy_box(?:_to_all)?)\([^;]*\);", ";"),
    ("missing fence", r"(?:wgmma_fence|products_begin|barriers_are_ready|stores_see_shared)\(\);", ";"),
    ("missing fence", r'asm volatile\("(?:wgmma\.fence|fence\.proxy)[^;]*;[^;]*;', ";"),
    ("swapped stages", r"\b(copy_box(?:_to_all)?\()(to|stages|in|s\.stages|storage\.\w+|smem_\w)\b", r"\1SWAPPED_\2"),
    ("swapped stages", r"(arrive\([^;\[]*\[)([^;]*)\]\);", r"\1(\2 + 1) % STAGES]);"),
    ("swapped stages", r"(await\([^;\[]*\[)([^;\]]*)\]", r"\1(\2 + 1) % STAGES]"),
    ("early reuse", r"(wgmma_wait|products_left)<0>\(\);", r"\1<1>();"),
    ("early reuse", r"(wgmma_wait|products_left)<(?!0>)[^;]*>\(\);", r"\1<2>();"),
    ("early reuse", r"arrive\(empty\[\(((?:tile|step)) - 1\) % STAGES\]\);", r"arrive(empty[\1 % STAGES]);"),
    ("early reuse", r"\+ STAGES - 1\b", "+ STAGES"),
    ("early reuse", r"\+ AHEAD\b", "+ STAGES"),
    ("count off by one", r"\b(?:arrive|consumer_release|producer_commit)\([^;]*\);", ";"),
    ("count off by one", r"(\binit\(.*), ([^,]*)\);", r"\1, (\2) + 1);"),
    ("count off by one", r"(\binit\(.*), (?!1\))([^,]*)\);", r"\1, (\2) - 1);"),
    ("count off by one", r"(bar\.sync %0), 128", r"\1, 160"),
    ("count off by one", r"(named_barrier\([^;]*), GROUP\);", r"\1, GROUP + 32);"),
    ("count off by one", r"\bif \((\w+ > 0 && )?(thread|t|lane_idx|threadIdx.x % 128) == 0\)$", r"if (\1\2 <= 1)"),
    ("missing cluster barrier", r"cluster_barrier\(\);", ";"),
    ("missing cluster barrier", r"t < CLUSTER\)", "t == rank)"),
    ("missing cluster barrier", r"\(1 << CLUSTER\) - 1", "1 << rank"),
)
STAGE = r"\w*(?:stage|index|ring|qidx)|(?<=smem_[ab]\[)s"  # the index of a stage
# A line that defines a variable for a stage.
NAMED_STAGE = re.compile(r"(Stage &to = stages\[|input_block &in = inputs\[|const Stage &from = stages\[)([^;]*)\];")


@dataclass(frozen=True)
class Base:
    """A right kernel with its launch."""

    name: str
    source: str
    compile: Callable[[str], Compiled]
    grid: Grid
    arguments: Callable[[], Sequence[Argument]]

    def launched(self, source: str) -> Launched:
        """Launch ``source`` on the simulator with the checkers on."""
        return Simulator(Setting(counting=False)).launch(self.compile(source), self.grid, self.arguments(), [])


@dataclass(frozen=True)
class Mutant:
    """One edit of a line."""

    base: Base
    group: str
    line: int
    before: str
    after: str
    source: str

    @property
    def edit(self) -> str:
        """The line before and after, and the next one."""
        following = self.source.splitlines()[self.line : self.line + 1]
        return f"{self.before} => {self.after} {''.join(following).strip()}"

    @property
    def why(self) -> str:
        """Why the mutant is right; empty if it is not in ``EQUIVALENT``."""
        of_base = (
            it for (name, begins), it in EQUIVALENT.items() if name == self.base.name and self.edit.startswith(begins)
        )
        return next(of_base, "")


def bases() -> list[Base]:
    """The kernels: those of the lessons, others in public styles, and those of the ladder."""
    course = any_course()
    found = []
    deep = {"deep_gemm": Shape(128, 256, 1344)}  # five rounds through the stages: an arrival too many adds up
    sizes = {"wgmma": Shape(128, 256, 384), "roles": Shape(128, 256, 576), "persistent": Shape(384, 256, 192)}
    sources = {(name, "solution"): course.lesson(name).solution_path.read_text() for name in sizes}
    sources |= {(it.lesson[3:], it.name): it.source for it in honest() if it.lesson[3:] in sizes}
    for (name, own), source in sources.items():
        if (name, own) not in STYLES:
            continue
        shape = deep.get(own, sizes[name])
        lesson = course.lesson(name).at(shape)
        found.append(
            Base(
                f"{name}/{own}",
                source,
                partial(_compiled, Kernel(name, lesson, source)),
                lesson.grids(shape)[0],
                partial(_arguments, lesson, shape),
            )
        )
    shapes = {2: Shape(128, 128, 384), 7: Shape(512, 256, 256)}
    found += [_of_ladder(step, shapes[step.number]) for step in STEPS if step.number in shapes]
    return found


def _compiled(kernel: Kernel, source: str) -> Compiled:
    return replace(kernel, source=source).compiled()


def _arguments(lesson: Lesson, shape: Shape) -> Sequence[Argument]:
    return Problem(lesson.data, shape, SEED).trial().arguments(lesson.launches[0].parameters)


def _of_ladder(step: Step, shape: Shape) -> Base:
    path = KERNELS / step.file
    defines = {
        "STAGES": step.stages,
        "STAY": int(step.stays),
        "TMA_STORE": int(step.tma_store),
        "CLUSTER": step.cluster,
    }

    def arguments() -> list[Argument]:
        random = np.random.default_rng(SEED)
        *maps, c, m, n, k = step.arguments(shape)
        placed: list[Argument] = []
        for number, argument in enumerate(maps):
            assert isinstance(argument, TensorMap)
            assert isinstance(c, Buffer)
            if number < 2:
                values = random.standard_normal(argument.array.shape).astype(np.float32).view(np.uint32)
                argument.array[...] = (values + 0x8000 >> 16).astype(np.uint16)
            placed.append(replace(argument, pointer=Buffer(argument.name, argument.array) if number < 2 else c))
        return [*placed, c, m, n, k]

    grid = replace(step.grid(shape), grid=(step.cluster, 1, 1)) if step.stays else step.grid(shape)
    return Base(
        f"ladder/{step.name}",
        path.read_text(),
        lambda text: compiled(text, path, "gemm", defines, [KERNELS, COMMON], arch="sm_90a"),
        grid,
        arguments,
    )


def mutants(base: Base) -> Iterator[Mutant]:
    """Every edit of a line of the kernel that a rule makes."""
    lines = base.source.splitlines()
    body = next(number for number, line in enumerate(lines) if "__global__" in line)
    for number, line in enumerate(lines):
        code = line.partition("//")[0].rstrip()
        if number < body and not re.search(
            r"phase \^= 1|bar\.sync|\b(?:await|arrive|arrive_for)\((?:full|empty)", code
        ):
            continue
        if (match := NAMED_STAGE.search(code)) is not None:
            edited = f"{match[1]}({match[2]} + 1) % STAGES];"
            yield _mutant(base, lines, "swapped stages", number, code, code.replace(match[0], edited))
        for group, pattern, after in RULES:
            changed, times = re.subn(pattern, after, code, count=1)
            if times and "SWAPPED" in changed:
                changed = _swapped(code)
            if times and changed != code:
                yield _mutant(base, lines, group, number, code, changed)


def _swapped(code: str) -> str:
    """Return a copy with another stage as its target; the same code where the target names none."""
    head, call, rest = code.partition("copy_box")
    return head + call + re.sub(rf"\[({STAGE})\]", r"[(\1 + 1) % STAGES]", rest, count=1)


def _mutant(base: Base, lines: Sequence[str], group: str, number: int, before: str, after: str) -> Mutant:
    source = "\n".join([*lines[:number], after, *lines[number + 1 :]]) + "\n"
    return Mutant(base, group, number + 1, before.strip(), after.strip(), source)


@dataclass(frozen=True)
class Outcome:
    """The result for a mutant; ``said``: the messages of its findings.

    ``verdict``: ``line``, ``accesses``, ``missed``, ``equivalent`` (in ``EQUIVALENT``, or the same PTX), ``no code``
    (it does not compile).
    """

    mutant: Mutant
    verdict: str
    said: tuple[str, ...] = ()


def findings_of(launched: Launched) -> tuple[tuple[str, ...], set[int]]:
    """Return the messages of a launch, without notes, and the lines that they name."""
    found = [it for it in (*launched.findings, launched.fault) if it is not None and it.severity != "note"]
    lines = {line for it in found for line in (it.line, it.other_line) if line}
    said = tuple(it.message for it in found)
    return said, lines | {int(number) for text in said for number in re.findall(r"lines? (\d+)", text)}


def judged(mutant: Mutant) -> Outcome:
    """Return the outcome of one mutant."""
    base = mutant.base
    try:
        made = base.compile(mutant.source)
    except AssertionError:
        return Outcome(mutant, "no code")
    if mutant.why or _code(made) == _code(base.compile(base.source)):
        return Outcome(mutant, "equivalent")
    said, lines = findings_of(base.launched(mutant.source))
    if not said:
        return Outcome(mutant, "missed")
    kernel = base.source.splitlines()
    waits = {number for number, line in enumerate(kernel, 1) if SYNC.search(line)}
    return Outcome(mutant, "line" if lines & (waits | {mutant.line}) else "accesses", said)


def _code(made: Compiled) -> str:
    return re.sub(r"^\s*\.(?:loc|file|section).*|//.*|\$\w+", "", made.ptx, flags=re.MULTILINE)


COLUMNS = ("line", "accesses", "missed", "equivalent")


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes by class, as markdown."""
    lines = [f"| class | {' | '.join(COLUMNS)} |", "|---|" + "---:|" * len(COLUMNS)]
    groups = [*dict.fromkeys(group for group, _, _ in RULES), "all"]
    for group in groups:
        count = Counter(it.verdict for it in outcomes if group in (it.mutant.group, "all"))
        lines.append(f"| {group} | {' | '.join(str(count[name]) for name in COLUMNS)} |")
    return "\n".join(lines)


def main(wanted: Sequence[str]) -> int:
    """Judge the mutants of the kernels whose names begin so; print those that are not found, and the table."""
    outcomes, accused = [], 0
    for base in bases():
        if wanted and not base.name.startswith(tuple(wanted)):
            continue
        said, _ = findings_of(base.launched(base.source))
        accused += bool(said)
        print(base.name, *said, sep="\n  ", flush=True)
        for mutant in mutants(base):
            outcomes.append(judged(mutant))
            if outcomes[-1].verdict == "missed":
                print(f"  missed: {mutant.group}, line {mutant.line}: {mutant.before} => {mutant.after}", flush=True)
    print(table(outcomes))
    found = sum(it.verdict in ("line", "accesses") for it in outcomes)
    missed = sum(it.verdict == "missed" for it in outcomes)
    return int(accused > 0 or found < LEAST * (found + missed))


if __name__ == "__main__":
    help_if_asked(__doc__)
    sys.exit(main(sys.argv[1:]))
