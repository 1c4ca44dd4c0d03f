"""Mistakes planted in one of the two engines, and how comparing the engines reports each.

    python -m checks.simulator.planted            # the table

Each must raise a ``Disagreement``, which is exit code 3 of a run and never a verdict on the kernel.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from checks.usage import help_if_asked
from gemm_lessons.course.folder import Course
from gemm_lessons.engine import sass as machinecode
from gemm_lessons.engine import simulator
from gemm_lessons.engine.compiler.compile import Compiled, compile_source
from gemm_lessons.engine.machine import atomics, decode, groups, prepared, special, transfers
from gemm_lessons.engine.ptx.records import Kernel
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar
from gemm_lessons.engine.records.results import Launched
from gemm_lessons.engine.sass import integers, lanes
from gemm_lessons.engine.sass import walker as followed
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.simulator import Disagreement, Simulator
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape

ROOT = Path(__file__).parents[2]
LESSONS = ("naive", "block_tile", "bank_conflicts")  # planted in their solutions
SOURCE = Path(__file__).parent / "kernels" / "second_opinion.cu"
Patches = Iterator[Any]  # context managers


@cache
def compiled(entry: str) -> Compiled:
    """A kernel of ``SOURCE``, or the solution of a lesson."""
    if entry in LESSONS:
        lesson = Course(ROOT).lesson(entry)
        result = compile_source(
            lesson.solution_path.read_text(), path=str(lesson.solution_path), entry=lesson.launches[0].entry,
            defines=lesson.tile.defines, include_dirs=lesson.include_dirs,
        )  # fmt: skip
    else:
        result = compile_source(SOURCE.read_text(), path=str(SOURCE), entry=entry)
    assert isinstance(result, Compiled), result.log
    return result


def launch(entry: str) -> Launched:
    """Launch the kernel on both engines. Raises ``Disagreement``."""
    grid, arguments = _launch_of(entry)
    return Simulator().launch(compiled(entry), grid, arguments)


def _launch_of(entry: str) -> tuple[Grid, list[Argument]]:
    random = np.random.default_rng(1)
    if entry in LESSONS:
        lesson = Course(ROOT).lesson(entry)
        shape = Shape(128, 128, 32)
        return lesson.grids(shape)[0], list(
            Problem(lesson.data, shape, 1).trial().arguments(lesson.launches[0].parameters)
        )
    if entry == "walk":
        out = np.zeros(128, np.float32)
        return Grid((2, 1, 1), (64, 1, 1)), [Buffer("in", random.random(260, np.float32)), Buffer("out", out, True)]
    index = random.integers(0, 64, (128, 4)).astype(np.int32)
    return Grid((2, 3, 1), (16, 8, 1)), [
        Buffer("in", random.random(4096, np.float32)), Buffer("index", index),
        Buffer("out", np.zeros(8192, np.float32), True), Buffer("bins", np.zeros(64, np.int32), True),
        Scalar("n", np.int32(5)), Scalar("stride", np.int32(3)),
    ]  # fmt: skip


@dataclass(frozen=True)
class Planted:
    """A mistake: the engine that has it, the kernel that shows it, and the patches that make it."""

    name: str
    engine: str
    entry: str
    patches: Callable[[], Patches]

    def verdict(self) -> str:
        """The message of the ``Disagreement``; empty if there is none."""
        simulator._program.cache_clear()
        try:
            with contextlib.ExitStack() as stack:
                for patch in self.patches():
                    stack.enter_context(patch)
                launch(self.entry)
        except Disagreement as found:
            return str(found)
        finally:
            simulator._program.cache_clear()
        return ""

    def caught_by(self) -> str:
        """The difference that was noticed, shortened from the message; empty if there is none."""
        told = re.search(r"no verdict: (.*?)\. This is a fault", self.verdict())
        return told[1].replace("the PTX interpreter", "PTX").replace("the machine code", "machine code") if told else ""


def _rewritten(module: Any, function: str, old: str, new: str) -> Any:
    """A function of ``module`` with one piece of its text replaced."""
    text = inspect.getsource(getattr(module, function))
    assert text.count(old) == 1, (function, old)
    scope = dict(vars(module))
    exec(compile(text.replace(old, new), function, "exec"), scope)
    return scope[function]


def _operation(name: str, function: Callable[..., None]) -> Any:
    """Patch the function of a PTX instruction in the semantics table."""
    table = semantics._table()
    return mock.patch.dict(table, {name: dataclasses.replace(table[name], function=function)})


def _bound(name: str, function: Callable[..., Any]) -> Any:
    """Patch the function that binds an opcode of PTX."""
    return mock.patch.dict(decode.BINDERS, {name: decode._run(function)})


def _instruction(name: str, change: Callable[[Any], Any]) -> Any:
    """Patch a machine instruction: ``change`` gets its sources and returns the function that computes the result."""
    return mock.patch.dict(integers.TABLE, {name: change})


def _swapped(name: str, first: int, second: int) -> Any:
    original = integers.TABLE[name]

    def build(sources: Any) -> Any:
        words = list(sources.words)
        if not {"WIDE", "MOV", "HI"} & set(sources.d.modifiers):
            words[first], words[second] = words[second], words[first]
        return original(dataclasses.replace(sources, words=tuple(words)))

    return _instruction(name, build)


def _kernel(change: Callable[[Kernel], Kernel]) -> Patches:
    """Give the PTX machine alone a changed kernel."""
    original = prepared.prepare
    yield mock.patch.object(simulator, "prepare", lambda kernel, variables: original(change(kernel), variables))


def _replaced(opcode: str, new: str, *modifiers: str, every: int = 1) -> Callable[[Kernel], Kernel]:
    def change(kernel: Kernel) -> Kernel:
        at = [i.index for i in kernel.instructions if i.opcode == opcode][::every]
        return dataclasses.replace(
            kernel,
            instructions=tuple(
                dataclasses.replace(i, opcode=new, modifiers=modifiers or i.modifiers) if i.index in at else i
                for i in kernel.instructions
            ),
        )

    return change


def _mad_swapped(out: Any, a: Any, b: Any, c: Any) -> None:
    out[...] = a * c + b


def _unsigned_product(out: Any, a: Any, b: Any) -> None:
    out[...] = (a.astype(np.uint32).astype(np.uint64) * np.asarray(b).astype(np.uint32)).astype(np.int64)


def _shift_too_far(out: Any, a: Any, b: Any) -> None:
    out[...] = a << ((b + np.uint32(1)) & np.uint32(31))


def _and_as_or(out: Any, a: Any, b: Any) -> None:
    out[...] = a | b


def _special_swapped(thread: Any, grid: Grid, original: Any = special.of_threads) -> Any:
    found = original(thread, grid)
    return {**found, "%tid.x": found["%tid.y"], "%tid.y": found["%tid.x"]}


def _other_block(self: Any, name: str, original: Any = lanes.Geometry.special) -> Any:
    return original(self, {"SR_CTAID.X": "SR_CTAID.Y", "SR_CTAID.Y": "SR_CTAID.X"}.get(name, name))


def _last_first(self: Any, view: Any, index: Any, chosen: Any, original: Any = transfers.RegisterData.load) -> None:
    if self.count > 1:
        view = view[:, ::-1]
    original(self, view, index, chosen)


def _twice(*arguments: Any, original: Any = atomics.bind_atomic) -> Callable[[], None]:
    run = original(*arguments)

    def again() -> None:
        run()
        run()

    return again


def _unguarded(self: Any, d: Any, original: Any = followed.Walker._uses) -> Any:
    return original(self, dataclasses.replace(d, guard=None))


def _without_offset(self: Any, memory: Any, wide: bool, original: Any = lanes.Lanes.address) -> Any:
    return original(self, dataclasses.replace(memory, offset=0), wide)


def _parameters_shifted(
    grid: Any,
    offset: int,
    parameters: bytes,
    *rest: Any,
    original: Callable[..., Any] = lanes.launch_constants,
    **named: Any,
) -> Any:
    return original(grid, offset, bytes(4) + parameters[:-4], *rest, **named)


STALE = "row = state.files[32][state.rows[base][1] % len(state.files[32])]"
ALL = (
    Planted("patterns keyed by a 32-bit row, the base is 64-bit (the bug of old)", "PTX", "walk", lambda: iter([
        mock.patch.object(decode, "bind_loads",
                          _rewritten(groups, "bind_loads", "row = state.lanes_of(base)", STALE))])),
    Planted("mad.lo adds and multiplies the wrong operands", "PTX", "block_tile",
            lambda: iter([_operation("mad.lo.s32", _mad_swapped)])),
    Planted("mul.wide.s32 forgets the sign", "PTX", "mixed",
            lambda: iter([_operation("mul.wide.s32", _unsigned_product)])),
    Planted("shl shifts one bit too far", "PTX", "bank_conflicts",
            lambda: iter([_operation("shl.b32", _shift_too_far)])),
    Planted("and computes or", "PTX", "mixed", lambda: iter([_operation("and.b32", _and_as_or)])),
    Planted("guards of stores and loads are lost", "PTX", "mixed",
            lambda: iter([mock.patch.object(decode.Binder, "guard", return_value=None)])),
    Planted("%tid.x and %tid.y are swapped", "PTX", "naive",
            lambda: iter([mock.patch.object(special, "of_threads", _special_swapped)])),
    Planted("vector loads come in the wrong order", "PTX", "mixed",
            lambda: iter([mock.patch.object(transfers.RegisterData, "load", _last_first)])),
    Planted("atomics happen twice", "PTX", "mixed", lambda: iter([_bound("atom", _twice), _bound("red", _twice)])),
    Planted("a barrier is lost", "PTX", "block_tile", lambda: _kernel(_replaced("bar", "membar"))),
    Planted("every eighth multiply-add is lost", "PTX", "block_tile",
            lambda: _kernel(_replaced("fma", "max", "f32", every=8))),
    Planted("IMAD multiplies and adds the wrong operands", "machine code", "block_tile",
            lambda: iter([_swapped("IMAD", 1, 2)])),
    Planted("LEA adds what it should shift", "machine code", "bank_conflicts", lambda: iter([_swapped("LEA", 0, 1)])),
    Planted("LOP3 takes its operands in the wrong order", "machine code", "mixed",
            lambda: iter([_swapped("LOP3", 0, 1)])),
    Planted("guards of memory instructions are lost", "machine code", "mixed",
            lambda: iter([mock.patch.object(followed.Walker, "_uses", _unguarded)])),
    Planted("SR_CTAID.X and SR_CTAID.Y are swapped", "machine code", "mixed",
            lambda: iter([mock.patch.object(lanes.Geometry, "special", _other_block)])),
    Planted("parameters are read 4 bytes off", "machine code", "block_tile",
            lambda: iter([mock.patch.object(machinecode, "launch_constants", _parameters_shifted)])),
    Planted("the offset of an address is forgotten", "machine code", "block_tile",
            lambda: iter([mock.patch.object(lanes.Lanes, "address", _without_offset)])),
)  # fmt: skip


def main() -> None:
    print(f"{'engine':13}{'planted':66}noticed")
    for one in ALL:
        print(f"{one.engine:13}{one.name:66}{one.caught_by() or 'NOTHING'}", flush=True)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
