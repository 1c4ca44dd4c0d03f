"""What stands between a global load and its first use, on machine code that NVRTC made."""

from __future__ import annotations

import pytest

from checks.benchmark import ROOT
from gemm_lessons.compiler.compile import Compiled, compile_source
from gemm_lessons.compiler.overlap import ffma_behind_loads
from gemm_lessons.compiler.sass import SassInstruction
from gemm_lessons.course.folder import Course


def behind(name: str, *edits: tuple[str, str]) -> int:
    lesson = Course(ROOT).lesson(name)
    source = lesson.solution_path.read_text()
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    path, tile = str(lesson.solution_path), lesson.tile.defines
    compiled = compile_source(source, path=path, entry="gemm", defines=tile, include_dirs=lesson.include_dirs)
    assert isinstance(compiled, Compiled)
    return ffma_behind_loads(compiled.sass)


def test_fetching_before_the_arithmetic_puts_it_behind_the_loads():
    assert behind("double_buffer") >= 128


@pytest.mark.parametrize("name", ["naive", "block_tile", "vector_loads", "warp_tile"])
def test_loads_that_are_used_at_once_have_nothing_behind_them(name):
    assert behind(name) == 0


def test_storing_right_after_fetching_gives_the_overlap_away():
    late = (
        "        fetch(k0);\n        multiply(now);\n        store(1 - now);",
        "        fetch(k0);\n        store(1 - now);\n        __syncthreads();\n        multiply(now);",
    )
    assert behind("double_buffer", late) == 0


def code(*texts: str) -> list[SassInstruction]:
    """Machine code by hand: ``label: text``."""
    made = []
    for position, text in enumerate(texts):
        label, _, rest = text.rpartition(": ")
        opcode = next(word for word in rest.split() if not word.startswith("@"))
        width = 16 if opcode.endswith(".128") else 4
        made.append(SassInstruction(opcode, width, "", 1, 16 * position, 0, rest, (label,) if label else ()))
    return made


LOOP = (".L_x_1: LDG.E.128 R8, [R2.64]", "FFMA R20, R21, R22, R20", "FFMA R23, R21, R22, R23")
END = ("BRA `(.L_x_1)", "EXIT")


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        ((*LOOP, "STS [R4], R10", *END), 2),  # R10 is filled by the 128-bit load of R8
        ((*LOOP, "STS [R4], R12", "STS [R4], R8", *END), 2),  # R12 is not
        (
            (".L_x_1: STS [R4], R8", *LOOP[1:], "LDG.E R8, [R2.64]", LOOP[1], "@P0 " + END[0], END[1]),
            1,
        ),  # round the loop
        ((LOOP[0].partition(": ")[2], *LOOP[1:], "STS [R4], R8", "EXIT"), 0),  # no loop
        (("FFMA R20, R21, R22, R20", "EXIT", ".L_x_9: BRA `(.L_x_9)"), 0),  # no load
    ],
)
def test_counting_on_machine_code_by_hand(texts, count):
    assert ffma_behind_loads(code(*texts)) == count
