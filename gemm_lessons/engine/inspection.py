"""``inspect``: run any kernel, with arguments given on the command line.

``engine/arguments/text.py`` describes how arguments are written.
"""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gemm_lessons.engine.api import KernelSource
from gemm_lessons.engine.arguments.expression import Number
from gemm_lessons.engine.arguments.parameters import declared
from gemm_lessons.engine.arguments.text import ArgumentError, Given, build
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled
from gemm_lessons.engine.estimate.launch import (
    ExplainedLaunch,
    LaunchEstimate,
    NotEstimated,
    PreparedLaunch,
    estimate_launch,
    explain_launch,
    record_launch,
)
from gemm_lessons.engine.estimate.recording import Recording
from gemm_lessons.engine.hardware.sheets import GPUS, GpuSpec, buildable
from gemm_lessons.engine.process import bounds
from gemm_lessons.engine.process.bounds import Bounds, OutOfTime
from gemm_lessons.engine.ptx import opcodes
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.elements import Element
from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass, picked
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.records.metrics import COUNTED
from gemm_lessons.engine.records.results import Launched
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.simulator import Disagreement, Setting, Simulator

__all__ = ["ArgumentError", "Expectation", "InspectRequest", "Inspection", "as_json", "inspect"]

Made = TypeVar("Made")
SHOWN = 16  # elements to show of a variable that was read back
MOST_NAMED = 4  # most counters that a reason lists; beyond, it applies to all


@dataclass(frozen=True)
class InspectRequest:
    """What to inspect. ``path`` is the file as the user named it. ``budget`` None: the simulator's default applies."""

    source: str
    path: str
    entry: str
    grid: Grid
    args: str
    expect: str | None = None
    symbols: tuple[str, ...] = ()
    defines: Mapping[str, str] = dataclasses.field(default_factory=dict)
    include_dirs: tuple[Path, ...] = ()
    arch: str = "sm_90"
    seed: int = 0
    budget: int | None = None
    bounds: Bounds = dataclasses.field(default_factory=Bounds)
    gpu: GpuSpec = GPUS["h200"]  # for estimate and recording
    estimating: bool = True  # estimate its time
    recording: bool = False  # record the warps of the estimate's simulation
    options: tuple[str, ...] = ()  # of NVRTC
    cubin: bytes = b""  # the machine code of PTX

    @property
    def kernel(self) -> KernelSource:
        """Return the source with what the compiler takes beside it."""
        return KernelSource(
            self.source, self.entry, self.path, self.defines, self.include_dirs, self.options, self.cubin
        )


@dataclass(frozen=True)
class Inspection:
    """The results. Exactly one of ``failed`` and ``compiled`` is set; ``error`` is relative to the expectation."""

    request: InspectRequest
    failed: NotCompiled | None = None
    compiled: Compiled | None = None
    launched: Launched | None = None
    unwritten: Mapping[str, int] = dataclasses.field(default_factory=dict)  # output -> elements never stored to
    error: float | None = None  # ||got - expected|| / ||expected||
    tolerance: float | None = None
    variables: Mapping[str, Array] = dataclasses.field(default_factory=dict)  # read back after the launch
    estimate: LaunchEstimate | str | None = None  # or why there is none; None: not requested, or the launch did not end
    recording: Recording | str | None = None  # or why there is none; None: not requested

    @property
    def clean(self) -> bool:
        """Tell whether it compiled, ran without fault or error finding, and matched the expectation if any."""
        if self.launched is None or self.launched.fault is not None:
            return False
        if any(finding.severity == "error" for finding in self.launched.findings):
            return False
        return self.error is None or (self.tolerance is not None and self.error <= self.tolerance)

    @property
    def found(self) -> tuple[Finding, ...]:
        """Return the fault and all findings of the launch."""
        launched = self.launched
        return () if launched is None else tuple(it for it in (launched.fault, *launched.findings) if it is not None)

    @property
    def doubts(self) -> Mapping[str, str]:
        """Return the reasons why Nsight Compute may count otherwise -> the affected counters."""
        inexact = self.launched.counters.inexact if self.launched else {}
        shorts = {metric: short.replace("_", " ") for short, metric in COUNTED.items()}
        names: dict[str, list[str]] = {}
        for metric, why in inexact.items():
            names.setdefault(why, []).append(shorts[metric])
        return {why: "all counters" if len(which) > MOST_NAMED else ", ".join(which) for why, which in names.items()}


@dataclass(frozen=True)
class KnownOpcodes:
    """PTX's opcodes: ``supported`` ones with the forms that run, ``forms`` of computing instructions, all others."""

    supported: Mapping[str, str]
    forms: tuple[str, ...]
    unsupported: tuple[str, ...]


def known_opcodes() -> KnownOpcodes:
    """Return which PTX opcodes the simulator supports."""
    return KnownOpcodes(opcodes.supported(), semantics.supported(), opcodes.unsupported())


def inspect(request: InspectRequest) -> Inspection:
    """Compile, launch, compare. Raise ``ArgumentError``, ``UnsupportedKernel`` and ``KitError``."""
    try:
        with bounds.within(request.bounds):
            return _inspect(request)
    except (OutOfTime, MemoryError) as end:  # not during the launch: there it is a fault
        most = request.bounds
        raise KitError(f"{end if isinstance(end, OutOfTime) else most.too_much}{most.advice}") from None


def _inspect(request: InspectRequest) -> Inspection:
    compiled = request.kernel.taken(request.arch)
    if isinstance(compiled, NotCompiled):
        return Inspection(request, failed=compiled)
    setting = Setting(unstored=True)
    device = Simulator(dataclasses.replace(setting, budget=request.budget) if request.budget else setting)
    given = given_to(request, compiled)
    arrays = given.arrays
    expectation = Expectation.parse(request.expect, given) if request.expect else None
    before = {name: array.copy() for name, array in arrays.items()}
    try:
        launched = device.launch(compiled, request.grid, given.arguments, given.symbols)
    except Disagreement as found:
        if not request.cubin:
            raise
        raise ArgumentError(f"{request.path} and its cubin are of different sources: {found.what}") from None
    unwritten = {name: count for name, count in launched.unstored.items() if name in given.blank}
    error = tolerance = None
    if expectation is not None and launched.fault is None:
        error, tolerance = expectation.compare(before, arrays)
        if error > tolerance:
            again = given_to(request, compiled)
            misread = device.misread(compiled, request.grid, again.arguments, again.symbols)
            launched = dataclasses.replace(launched, findings=(*filter(None, (misread,)), *launched.findings))
    variables = {symbol.name: symbol.array for symbol in given.symbols if symbol.array.flags.writeable}
    launch = cache(partial(prepare, request, compiled))
    estimate = recording = None
    if request.estimating and launched.fault is None:
        estimate = _or_why_not(lambda: estimate_launch(launch()))
    if request.recording:
        stopped = "the kernel was stopped by a fault"
        recording = stopped if launched.fault is not None else _or_why_not(lambda: record_launch(launch()))
    return Inspection(request, None, compiled, launched, unwritten, error, tolerance, variables, estimate, recording)


def given_to(request: InspectRequest, compiled: Compiled) -> Given:
    """Build the arguments and variables of a launch, as before it. Raise ``ArgumentError``."""
    device = Simulator()
    kernel = device.kernel(compiled)
    return build(
        request.args,
        request.symbols,
        kernel,
        lambda name: device.variable(compiled, name),
        request.seed,
        declared(request.source, kernel, request.entry),
        lambda: request.kernel.layouts(request.arch),
    )


def prepare(request: InspectRequest, compiled: Compiled | None = None) -> PreparedLaunch:
    """Compile a launch for the GPU of its request, unless ``compiled`` is for that GPU, and build its arguments. Raise
    ``NotEstimated``, ``ArgumentError``, ``UnsupportedKernel`` and ``KitError``."""
    arch = buildable(request.gpu.arch)
    if compiled is None or (compiled.cubin and compiled.arch.rstrip("af") != arch):
        other = request.kernel.taken(arch)
        if isinstance(other, NotCompiled):
            raise NotEstimated(f"it does not compile for {arch}: {other.diagnostics[0]}")
        compiled = other
    given = given_to(request, compiled)
    return PreparedLaunch.of(compiled, request.grid, given.arguments, request.gpu, given.symbols)


def explain(request: InspectRequest) -> ExplainedLaunch:
    """Estimate a launch and share its time out over causes. Raise as ``prepare``."""
    return explain_launch(prepare(request))


def _or_why_not(make: Callable[[], Made]) -> Made | str:
    """Return what ``make`` returns, or why there is none."""
    try:
        return make()
    except NotEstimated as reason:
        return str(reason)
    except (OutOfTime, MemoryError):
        return "the launch left too little of the time and memory that this command may take"


def values_of(array: Array) -> list[float | int | str]:
    """Return the first elements for display or for JSON, which has neither NaN nor infinity."""
    values = array.reshape(-1)[:SHOWN].tolist()
    return [value if math.isfinite(value) else str(value) for value in values]


@dataclass(frozen=True)
class Expectation:
    """``C = 2 * A @ B + bias``: names of arrays and numbers, ``+ - * @``, ``.T`` and parentheses, in float64."""

    target: str
    tree: ast.expr
    numbers: Mapping[str, Number]
    elements: Mapping[str, Element]

    @classmethod
    def parse(cls, text: str, given: Given) -> Expectation:
        """Parse ``text``. Raise ``ArgumentError`` with what is wrong in it."""
        arrays, numbers = given.arrays, given.numbers
        target, equals, formula = (part.strip() for part in text.partition("="))
        if not equals or target not in arrays:
            raise ArgumentError(f'--expect "{text}": write OUTPUT = FORMULA, such as C = A @ B')
        try:
            tree = _Fields({*arrays, *numbers}).visit(ast.parse(formula, mode="eval").body)
        except SyntaxError:
            raise ArgumentError(f'--expect "{text}": the formula is not understood') from None
        expectation = cls(target, tree, numbers, given.elements)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id not in arrays and node.id not in numbers:
                raise ArgumentError(f"--expect names {node.id}, which neither --args nor --symbol has")
        return expectation

    def compare(self, before: Mapping[str, Array], after: Mapping[str, Array]) -> tuple[float, float]:
        """Return the relative error in the Frobenius norm, and the tolerance of the output's type. NaN counts as
        infinite. Raise ``ArgumentError`` for shapes that do not fit."""
        wanted = self._value(self.tree, before)
        got = self._decoded(self.target, after)
        try:
            reference = np.broadcast_to(np.asarray(wanted, np.float64), got.shape)
        except ValueError:
            raise ArgumentError(
                f"--expect: {self.target} has shape {got.shape}, the formula {np.shape(wanted)}"
            ) from None
        error = float(np.linalg.norm(got - reference) / max(float(np.linalg.norm(reference)), 1e-300))
        # Random rounding errors of a long sum grow with the square root of its length; 16 covers any order.
        tolerance = 16 * self._spacing(after[self.target].dtype)
        return (math.inf if math.isnan(error) else error), tolerance

    def _decoded(self, name: str, arrays: Mapping[str, Array]) -> Array:
        """Return the numbers of an array as float64."""
        element = self.elements.get(name)
        return arrays[name].astype(np.float64) if element is None else element.decode(arrays[name]).astype(np.float64)

    def _spacing(self, dtype: np.dtype[Any]) -> float:
        """Return the distance from 1 to the next number of the output's type; 0 for integers."""
        element = self.elements.get(self.target)
        if element is not None:
            return 2 * element.roundoff
        return float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0

    def _value(self, node: ast.expr, arrays: Mapping[str, Array]) -> Any:
        match node:
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.Name(id=name):
                return self._decoded(name, arrays) if name in arrays else float(self.numbers[name])
            case ast.Attribute(value=inner, attr="T"):
                return np.transpose(self._value(inner, arrays))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self._value(inner, arrays)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self._value(left, arrays), self._value(right, arrays)
                try:
                    match op:
                        case ast.Add():
                            return a + b
                        case ast.Sub():
                            return a - b
                        case ast.Mult():
                            return a * b
                        case ast.MatMult():
                            return a @ b
                except ValueError as error:
                    raise ArgumentError(f"--expect: {error}") from None
        raise ArgumentError("--expect: only names, numbers, + - * @, .T and parentheses")


class _Fields(ast.NodeTransformer):
    """Replaces each path to a field of a struct, such as ``p.in_[0].x``, by one name."""

    def __init__(self, known: Collection[str]) -> None:
        self._known = known

    def visit(self, node: ast.AST) -> Any:
        """Return the node, or the name that replaces it."""
        path = ast.unparse(node) if isinstance(node, (ast.Attribute, ast.Subscript)) else ""
        return ast.Name(path) if path in self._known else self.generic_visit(node)


def as_json(result: Inspection) -> dict[str, Any]:
    """Return the object of ``inspect --json``: schema ``gemm-lessons/inspect/1``."""
    launched = result.launched
    diagnostics = result.failed.diagnostics if result.failed else ()
    return {
        "schema": "gemm-lessons/inspect/1",
        "kernel": result.request.path,
        "entry": result.request.entry,
        "clean": result.clean,
        "compile_errors": [picked(it, "file line message") for it in diagnostics],
        "counters": dict(launched.counters.totals) if launched else {},
        "inexact": dict(launched.counters.inexact) if launched else {},
        "lines": [
            picked(count, "file line metric value ideal") for count in (launched.counters.lines if launched else ())
        ],
        "findings": [picked(finding, "kind severity file line message count") for finding in result.found],
        "unwritten": dict(result.unwritten),
        "variables": {name: values_of(array) for name, array in result.variables.items()},
        "error": None if result.error is None or math.isinf(result.error) else result.error,
        "tolerance": result.tolerance,
        "estimate": _estimate_as_json(result),
    }


def _estimate_as_json(result: Inspection) -> dict[str, Any] | None:
    match result.estimate:
        case None:
            return None
        case str(reason):
            return {"gpu": result.request.gpu.name, "refused": reason}
        case it:
            return {"gpu": it.gpu, "time_us": it.time_us, "limiter": it.limiter, "why": it.why, "parts": dict(it.parts)}
