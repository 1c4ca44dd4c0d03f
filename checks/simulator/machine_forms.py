"""Known forms of machine instructions, each tested by the PTX that ptxas made it from and by a GPU's answers.

    python -m checks.simulator.machine_forms ARCH ...     every form (opcode and modifiers) that the cases become
    python -m checks.simulator.machine_forms --choose     picks the few cases that CI runs; a few minutes
    python -m checks.simulator.machine_forms --seen       lists the forms of the kernels of the equality suite; long

A case is one PTX instruction on edge operands (``semantics_cases.py``); its answers from an H200 are stored
(``semantics_h200.json``), so the machine code that it becomes must give the same. The kernels of
``kernels/machine_forms.cu`` cover forms that no single PTX instruction becomes; both engines must agree on them.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from checks.compiling import must_compile
from checks.readings import FOLDER
from checks.readings.simulator import record_semantics as recorder
from checks.simulator import semantics_cases as cases
from checks.simulator.whole_code import Case, Cubin, answer, modules
from checks.usage import help_if_asked
from gemm_lessons.engine.api import arguments
from gemm_lessons.engine.compiler.compile import Compiled, compile_source
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.sass.operands import Uncountable
from gemm_lessons.engine.simulator import Simulator

HERE = Path(__file__).parent
KERNELS = HERE / "kernels" / "machine_forms.cu"
KEPT = FOLDER / "simulator" / "machine_forms.json"
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
SCALARS = ((7, 3), (-5, 1000003), (0x7FFFFFFF, -1), (0, -(1 << 31)), (123456789, 31))
ANSWERS = 64  # of one lane of one kernel, at most
SHAPE = Grid((1, 1, 1), (cases.LANES, 1, 1))
# Not arithmetic: the machine-code engine executes and counts them (checks/counters tests that).
FOLLOWED = frozenset(
    "ATOM ATOMG ATOMS RED REDG LDG STG LDS STS LDL STL LDSM LDGSTS LDGDEPBAR DEPBAR BAR BRA BREAK BSSY BSYNC CALL RET "
    "EXIT NOP YIELD WARPSYNC CCTL MEMBAR ERRBAR".split()
)


def every_case() -> list[Case]:
    """All PTX instructions with stored answers of a GPU."""
    from checks.simulator.test_semantics import hardware

    kept_answers = hardware()["results"].keys() | hardware()["approximate"].keys()
    return [case for case in cases.every_case() if recorder.key_of(*case) in kept_answers]


@cache
def kept() -> dict[str, Any]:
    """The stored file: cases that CI runs, forms seen, and an H200's answers to the kernels."""
    data: dict[str, Any] = json.loads(KEPT.read_text())
    return data


def proved(chosen: Sequence[Case], arch: str) -> Iterator[tuple[Case, set[str], str]]:
    """Every case, the forms that it became, and "" if the machine code's results equal the GPU's, else why not."""
    from checks.simulator.test_semantics import compare_with_hardware

    for code, part in modules(chosen, arch):
        for case, entry in part.items():
            try:
                compare_with_hardware(*case, cases.operation_of(*case), answer(code, entry, *case))
                problem = ""
            except Uncountable as obstacle:
                problem = str(obstacle)
            except AssertionError as difference:
                problem = f"WRONG {difference}"
            yield case, code.forms(entry), problem


@cache
def kernels(arch: str) -> Cubin:
    """The compiled ``machine_forms.cu``."""
    found = must_compile(KERNELS.read_text(), path=str(KERNELS), entry="k0", arch=arch)
    return Cubin.of(found)


def inputs(entry_scalars: tuple[int, int]) -> tuple[list[Any], bytes]:
    """Arrays and scalars of a launch of one of the kernels."""
    rows = [cases.operand("u32", i, 3, 11) for i in range(3)]
    arrays = [*rows, np.zeros(ANSWERS * cases.LANES, np.uint32)]
    return arrays, np.array(entry_scalars, np.int32).tobytes()


def by_machine_code(arch: str, entry: str, scalars: tuple[int, int]) -> Any:
    """The kernel's answers when its whole machine code is executed."""
    arrays, raw = inputs(scalars)
    return kernels(arch).run(entry, SHAPE, arrays, raw)[-1]


def by_ptx(arch: str, entry: str, scalars: tuple[int, int]) -> Any:
    """The kernel's answers on the simulator."""
    arrays, _ = inputs(scalars)
    compiled = dataclasses.replace(kernels(arch).compiled, entry=entry)
    simulator = Simulator()
    given = arguments(simulator.kernel(compiled), [*arrays, *(np.int32(s) for s in scalars)])
    launched = simulator.launch(compiled, SHAPE, given)
    assert launched.fault is None, launched.fault
    return arrays[-1]


def disagreement(arch: str, entry: str) -> str:
    """ "" when both engines agree on a kernel for all scalars."""
    for scalars in SCALARS:
        try:
            got = by_machine_code(arch, entry, scalars)
        except Uncountable as obstacle:
            return str(obstacle)
        wrong = np.flatnonzero(got != by_ptx(arch, entry, scalars))
        if len(wrong):
            return f"WRONG answers {sorted(set((wrong // cases.LANES).tolist()))} for {scalars}"
    return ""


def fingerprint(arch: str, entry: str) -> str:
    """Of the answers of a kernel to all scalars, by PTX."""
    return recorder.fingerprint([by_ptx(arch, entry, scalars) for scalars in SCALARS])


def survey(arch: str, chosen: Sequence[Case]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Form -> what proves it; form -> why nothing does."""
    by: dict[str, list[str]] = defaultdict(list)
    obstacles: dict[str, str] = {}
    for (name, _), forms, problem in proved(chosen, arch):
        for form in forms:
            if problem:
                obstacles.setdefault(form, problem)
            else:
                by[form].append(name)
    for entry in kernels(arch).kernels:
        problem = disagreement(arch, entry)
        for form in kernels(arch).forms(entry):
            if problem:
                obstacles.setdefault(form, problem)
            else:
                by[form].append(f"{KERNELS.name}:{entry}")
    return dict(by), {form: why for form, why in obstacles.items() if form not in by}


def table(arch: str) -> str:
    """The forms, one a line."""
    by, obstacles = survey(arch, every_case())
    lines = [f"{arch}: {len(by)} forms equal PTX and the H200's answers; {len(obstacles)} are not followed"]
    lines += [f"  {form:32} equal in {len(names):4}, such as {names[0]}" for form, names in sorted(by.items())]
    lines += [f"  {form:32} refused: {why}" for form, why in sorted(obstacles.items())]
    return "\n".join(lines)


def wanted(form: str) -> set[str]:
    """What CI covers of a form: comparisons only by opcode and modifier, since those are looked up one by one."""
    name, *modifiers = form.split(".")
    if form not in kept()["seen"] and name in ("FSETP", "FSET", "HSET2", "HSETP2", "DSETP", "I2F", "F2I", "F2F"):
        return {f"{name} with {modifier or name}" for modifier in (*modifiers, "")}
    return {form}


def choose(arch: str, given: Sequence[Case], known: set[str]) -> tuple[list[Case], set[str]]:
    """The fewest ``given`` cases (greedily) that cover what CI wants beyond ``known``; and all that is covered."""
    covers: dict[Case, set[str]] = {}
    for case, forms, problem in proved(given, arch):
        if not problem:
            covers[case] = {what for form in forms if form.split(".")[0] not in FOLLOWED for what in wanted(form)}
    left = set().union(*covers.values()) - known
    known = known | left
    chosen = []
    while left:
        best = max(covers, key=lambda case: (len(covers[case] & left), -len(case[0])))
        chosen.append(best)
        left -= covers[best]
    return sorted(chosen), known


def choose_all(given: Sequence[Case]) -> dict[str, list[Case]]:
    """For the newest architecture that is followed, then what the oldest has besides."""
    newest, known = choose("sm_90", given, set())
    return {"sm_90": newest, "sm_75": choose("sm_75", given, known)[0]}


def seen() -> dict[str, list[str]]:
    """The forms of every kernel of the equality suite (lessons and variants among them) and their architectures."""
    from checks.counters.manifest import plan

    found: dict[str, set[str]] = defaultdict(set)
    for arch in ARCHS:
        for case in {case.key: case for case in plan()}.values():
            compiled = compile_source(
                case.file.read_text(),
                path=str(case.file),
                entry=case.entry,
                defines=case.defines,
                include_dirs=case.include_dirs,
                arch=arch,
            )
            if isinstance(compiled, Compiled):
                for instruction in compiled.sass:
                    found[instruction.opcode].add(arch)
    return {form: sorted(archs) for form, archs in sorted(found.items())}


def keep(**changes: Any) -> None:
    """Change parts of what is kept."""
    data = kept() if KEPT.exists() else {}
    KEPT.write_text(json.dumps({**data, **changes}, indent=0) + "\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    match sys.argv[1:]:
        case ["--choose"]:
            keep(cases=choose_all(every_case()))
        case ["--seen"]:
            keep(seen=seen())
        case [_, *_]:
            print("\n".join(table(arch) for arch in sys.argv[1:]))
        case _:
            sys.exit(__doc__)
