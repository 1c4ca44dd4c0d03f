"""One program run three ways: as users run it, with every optimisation off, and by the scalar interpreter.

With optimisations off, each instruction is a basic block (so nothing is grouped, reordered or counted by the block),
blocks run one at a time, address patterns are not cached, every access is checked by itself, and all code runs as for
diverged lanes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from checks.simulator.property.programs import Case
from checks.simulator.property.scalar import Interpreter, Undefined
from gemm_lessons.engine import simulator
from gemm_lessons.engine.checkers import collector as ledger
from gemm_lessons.engine.checkers.epochs import Epochs
from gemm_lessons.engine.checkers.global_memory import GlobalRaces
from gemm_lessons.engine.compiler.compile import Compiled, Resources
from gemm_lessons.engine.machine import copies, groups, transfers
from gemm_lessons.engine.machine.access import SpaceAccess
from gemm_lessons.engine.machine.machine import Machine
from gemm_lessons.engine.machine.prepared import Program, prepare
from gemm_lessons.engine.ptx import parser
from gemm_lessons.engine.ptx.inline import inline_calls
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.facts import Actor, Location
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar
from gemm_lessons.engine.records.results import Conflict, Launched
from gemm_lessons.engine.simulator import Setting, Simulator

BUDGET = 100_000


class PlainMachine(Machine):
    """A machine that always takes the path for diverged lanes."""

    def _next(self) -> int | None:
        number = super()._next()
        self.state.full = False
        return number


def _forget(state: Any, address: Any, compute: Any, space: SpaceAccess) -> Any:
    """Replace ``access.memoise_placement`` by a placement computed anew each time. Equal touches are still one object,
    which the checkers rely on."""
    touches: dict[tuple[bytes, bytes], Any] = {}

    def recall(lanes: Any) -> Any:
        placement = space.window(compute(lanes), lanes)
        touch = placement.touch
        key = touch.addresses.tobytes(), b"" if touch.active is None else touch.active.tobytes()
        placement.touch = touches.setdefault(key, touch)
        return placement

    return recall


def plain(program: Program) -> Program:
    """``program`` with a label before every instruction, so that each becomes a basic block."""
    kernel = program.kernel
    labels = {**kernel.labels, **{f"plain {i.index}": i.index for i in kernel.instructions}}
    return prepare(dataclasses.replace(kernel, labels=labels), program.variables)


@contextlib.contextmanager
def tricks_off() -> Iterator[None]:
    """Run launches inside this context one instruction at a time."""
    given = simulator._program
    with replaced(
        (simulator, "_program", lambda *asked: plain(given(*asked))),
        (simulator, "Machine", PlainMachine),
        *((module, "memoise_placement", _forget) for module in (transfers, groups, copies)),
        (SpaceAccess, "_same_shape", lambda self, shape, lanes: False),
        (Epochs, "_rounds", lambda self, records: (self._structured(records),)),
        (GlobalRaces, "_loaded_quietly", lambda self, batch, loads: False),
    ):
        yield


@contextlib.contextmanager
def replaced(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Replace attributes (object, name, value) and restore them. Each program does it, and ``mock.patch`` is slow."""
    before = [(where, name, getattr(where, name)) for where, name, _ in changes]
    try:
        for where, name, value in changes:
            setattr(where, name, value)
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, value)


@dataclass(frozen=True)
class Outcome:
    """The result of a launch: the bytes of its buffers, and the simulator's record."""

    memory: tuple[bytes, ...]
    launched: Launched

    def findings(self, exact: bool) -> set[Any]:
        """Findings that can be compared. ``exact``: with the example that each names; with several blocks at a time,
        another block may be the first."""
        known = {_known(finding) for finding in self.launched.findings}
        return known if exact else {_of_any_block(finding) for finding in known}


def _known(finding: Finding) -> Finding:
    """A finding without what depends on how loads are grouped.

    Its count does: the checkers check an access that repeats between two barriers once. So does the load that is named
    if a write races with several.
    """
    if finding.effects.startswith("shared load "):
        actors = tuple(Actor((), (), effect=actor.effect) for actor in finding.actors)
        place = Location("shared", "", 0)
        return dataclasses.replace(finding, count=0, line=None, case="", place=place, actors=actors)
    return finding if finding.kind == "unset" else dataclasses.replace(finding, count=0)


def _of_any_block(finding: Finding) -> tuple[object, ...]:
    """A finding without what depends on which blocks run at the same time.

    The example does. So does the order in which a store and a load of a loop race: when some of the blocks leave the
    loop, the accesses of the others become a new record, and the checkers check the load again, now after the store.
    """
    what, line, other = finding.effects or finding.case, finding.line, finding.other_line
    first, _, second = what.removeprefix("shared ").partition(" ")
    if what.startswith("shared ") and "load" in (first, second):
        store, line = (second, other) if first == "load" else (first, line)
        what, other = f"shared {store} beside a load", None
    array = finding.array if finding.kind == "out_of_array" else ""
    return finding.kind, finding.severity, line, other, what, array


def _known_conflicts(conflicts: Sequence[Conflict], exact: bool) -> list[Conflict]:
    """Each line's example is its worst conflict, the first of equally bad ones. With several blocks at a time that may
    be another one: then only costs are compared."""
    if exact:
        return list(conflicts)
    return [dataclasses.replace(c, ways=0, bank=0, lanes=(), addresses=(), array="") for c in conflicts]


def _compiled(case: Case) -> Compiled:
    compiled = Compiled("", "random.cu", "k", "sm_90", case.text, b"", Resources(0, 0, 0, 0), (), "none", joins=False)
    compiled.__dict__["sass"] = ()  # no machine code: counted on PTX
    return compiled


def launch(
    compiled: Compiled, grid: Grid, buffers: Sequence[np.ndarray], scalars: Sequence[Any], setting: Setting
) -> Outcome:
    """One launch on copies of ``buffers``."""
    arrays = [array.copy() for array in buffers]
    arguments: list[Argument] = [Buffer(f"b{n}", array, n > 0) for n, array in enumerate(arrays)]
    arguments += [Scalar(f"s{n}", value) for n, value in enumerate(scalars)]
    launched = Simulator(setting).launch(compiled, grid, arguments)
    return Outcome(tuple(array.tobytes() for array in arrays), launched)


def difference(ours: Outcome, theirs: Outcome, exact: bool) -> str:
    """ "" if both are the same, else the first difference. ``exact``: see ``Outcome.findings``."""
    a, b = ours.launched, theirs.launched
    if a.fault or b.fault:
        return "" if a.fault == b.fault else f"fault: {a.fault} != {b.fault}"
    if text := memory_difference(ours.memory, theirs.memory):
        return text
    one, other = ours.findings(exact), theirs.findings(exact)
    if one != other:
        return f"findings: {one - other} != {other - one}"
    if a.counters != b.counters:
        for field in dataclasses.fields(a.counters):
            mine, plain = getattr(a.counters, field.name), getattr(b.counters, field.name)
            if field.name == "conflicts":  # equally bad ones are listed in the order in which they occurred
                mine, plain = (sorted(_known_conflicts(found, exact), key=repr) for found in (mine, plain))
            if mine != plain:
                return f"counters, {field.name}: {_only(mine, plain)} != {_only(plain, mine)}"
    return ""


def _only(one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return {key: value for key, value in one.items() if other.get(key) != value}
    return [entry for entry in one if entry not in other]


def memory_difference(ours: Sequence[bytes], theirs: Sequence[bytes]) -> str:
    """The first byte that differs."""
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one != other:
            wrong = np.flatnonzero(np.frombuffer(one, np.uint8) != np.frombuffer(other, np.uint8))
            at = int(wrong[0]) // 4 * 4
            text = f"{one[at : at + 4].hex()} != {other[at : at + 4].hex()}"
            return f"buffer {number}, {wrong.size} bytes differ, first at {at}: {text}"
    return ""


@dataclass(frozen=True)
class Ran:
    """Result of a case: "" or the difference, and whether the machine found races in it."""

    problem: str
    race: bool = False


def check(case: Case) -> Ran:
    """Run a case in every way that applies to it. An error of the kit about a program that it cannot run counts."""
    try:
        return _check(case)
    except (AssertionError, LookupError, TypeError, ValueError, NotImplementedError, UnsupportedKernel) as error:
        return Ran(f"crash: {type(error).__name__}: {error}")


def _check(case: Case) -> Ran:
    module = parser.parse(case.text)
    kernel = inline_calls(module.kernels["k"], module.functions)
    program = prepare(kernel, module.variables)
    grid = Grid(case.grid, case.block)
    given = case.buffers()
    buffers = [np.frombuffer(b, np.uint8) for b in given]
    first, second, third = case.scalars()
    scalars = [
        np.frombuffer(first, np.uint32)[0],
        np.frombuffer(second, np.float32)[0],
        np.frombuffer(third, np.uint64)[0],
    ]
    compiled = _compiled(case)
    # All findings, not the first fifty: of a load that races with a store either may be reported as the earlier one,
    # each under a line of its own, so that the same findings would be cut off at different places.
    with replaced((simulator, "_program", lambda *asked: program), (ledger, "MOST", sys.maxsize)):
        ours = launch(compiled, grid, buffers, scalars, Setting(case.block_limit, BUDGET))
        with tricks_off():
            theirs = launch(compiled, grid, buffers, scalars, Setting(1, BUDGET))
    race = any(f.kind in ("race", "block_order") for f in theirs.launched.findings)
    if text := difference(ours, theirs, 1 in (case.blocks, case.block_limit)):
        return Ran(f"optimised != plain: {text}", race)
    if case.sort != "values" or ours.launched.fault:
        return Ran("", race)
    memory = [bytearray(b) for b in given]
    try:
        Interpreter(kernel, grid, memory, [first, second, third]).run()
    except Undefined:  # rare, and both ways of the machine have agreed about it
        return Ran("", race)
    if text := memory_difference(ours.memory, [bytes(m) for m in memory]):
        return Ran(f"machine != scalar: {text}", race)
    return Ran("", race)
