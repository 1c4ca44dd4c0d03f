"""Banks of registers deliver one register a clock: the rule against readings, and what lesson 26 says of its loops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from checks.course.tables import tables
from checks.readings.estimate import reuse
from gemm_lessons.engine.compiler.sass import SassInstruction, disassemble, parse
from gemm_lessons.engine.sass import registers
from gemm_lessons.engine.sass.inner_loop import inner_loops
from gemm_lessons.engine.sass.operands import decode
from gemm_lessons.gemm.shapes import Shape

READ = json.loads(Path(reuse.__file__).with_name("reuse_h200.json").read_text())["clocks"]
LOOP = 1.02  # clocks of the loop around the multiply-adds, for each


def clocks(code: Sequence[SassInstruction]) -> float:
    """Clocks for each multiply-add: when one is issued, a bank may have one clock of work left."""
    body = [decode(number, one) for number, one in enumerate(code)]
    time, free = 0.0, [0.0, 0.0]
    for d, counts in list(zip(body, registers.reads(body), strict=True)) * 4:
        if d.name == "FFMA":
            time = max(time, *(bank - 1 for bank in free))
            free = [max(bank, time) + count if count else bank for bank, count in zip(free, counts, strict=True)]
        time += 1
    return time / 4 / sum(d.name == "FFMA" for d in body)


@pytest.fixture(scope="module")
def loop() -> bytes:
    return reuse.compiled_loop()


@pytest.mark.parametrize("pattern", [it for it in reuse.PATTERNS if it != "three, one bank, in turns"])
def test_a_bank_delivers_one_register_a_clock(loop: bytes, pattern: str) -> None:
    code = parse(disassemble(reuse.overwritten(loop, pattern, "")), "k")
    assert clocks([it for it in code if it.opcode == "FFMA"]) * LOOP == pytest.approx(READ[pattern][1], rel=0.02)


@pytest.mark.parametrize(("name", "each"), [("beat_cublas", 1.10), ("beat_cublas unsettled", 1.42)])
def test_loops_of_lesson_26_take_what_its_text_says(name: str, each: float) -> None:
    [kernel] = [it for it in tables()["squares"].kernels() if it.name == name]
    code = kernel.chosen([Shape(4096, 4096, 4096)])[0].compiled().sass
    bodies = [code[begin:end] for begin, end in inner_loops(code)]
    assert clocks(max(bodies, key=lambda body: sum(it.opcode == "FFMA" for it in body))) == pytest.approx(
        each, abs=0.01
    )
