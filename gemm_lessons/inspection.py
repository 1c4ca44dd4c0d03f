"""``inspect``: run a kernel that nobody here wrote, with arguments given on the command line.

The arguments follow the kernel's parameters, separated by commas:

    A=f32[M,K]            an array of random numbers, read by the kernel
    C=out f32[M,N]        an array that the kernel writes; NaN before
    C=inout f32[M,N]      an array that it reads and writes
    A=zeros f32[M,K]      other contents: zeros, ones, index (0, 1, 2, ...)
    a=view f32[M,K]       a struct {pointer, int rows, cols, row_stride, col_stride} by value (the lessons' ``Matrix``);
    a=view.T f32[M,K]     the same over memory that is stored transposed
    M=256  alpha=1.5      numbers, as wide as the parameter; sizes may use the numbers' names: A=f32[M*lda]
    M:=256                a name for sizes only, not passed to the kernel

Types: f16 bf16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.compiler import Compiled, CompileFailed, compile_source
from gemm_lessons.device import Argument, Buffer, Grid, Launched, Scalar, StructWithBuffers
from gemm_lessons.expression import Expression, ExpressionError, Number
from gemm_lessons.simulator import Setting, Simulator
from gemm_lessons.simulator.ptx import Kernel, Parameter

TYPES: Mapping[str, Any] = {
    "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "u8": np.uint8,
    "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
}  # fmt: skip
FILLS = ("random", "zeros", "ones", "index")
LARGEST = 1 << 30  # bytes of one array; beyond this a mistyped size is likelier than a wish

_NAME = r"[A-Za-z_]\w*"
_ARRAY = re.compile(
    rf"(?P<words>(?:[a-z.T]+\s+)*)(?P<type>{'|'.join(TYPES)})\s*\[(?P<sizes>[^\]]+)\]$"
)  # words: out, inout, view, view.T and a fill


class ArgumentError(ValueError):
    """An argument on the command line is not understood or does not fit; the message names it and says what would."""


@dataclass(frozen=True)
class ArraySpec:
    """One array argument: how it is passed, what it holds, its shape."""

    name: str
    kind: str
    shape: tuple[int, ...]
    fill: str = "random"
    output: bool = False
    read: bool = True
    view: bool = False
    transposed: bool = False


def split(text: str) -> list[tuple[str, str, bool]]:
    """``A=f32[M,K],M=8`` -> (name, value, only a name) in order. Raises ``ArgumentError``."""
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]
    result = []
    for part in parts:
        match = re.match(rf"({_NAME})\s*(:?=)\s*(.+)$", part)
        if match is None:
            raise ArgumentError(f'argument "{part}" is not understood; write NAME=VALUE, such as M=256 or A=f32[M,K]')
        result.append((match[1], match[3].strip(), match[2] == ":="))
    return result


def build(text: str, kernel: Kernel, seed: int) -> tuple[list[Argument], dict[str, NDArray[Any]]]:
    """The launch arguments for ``kernel``, and the arrays by name (outputs are filled by the launch).

    Raises ``ArgumentError``.
    """
    items = split(text)
    names = _numbers(items)
    passed = [(name, value) for name, value, only in items if not only]
    if len(passed) != len(kernel.parameters):
        raise ArgumentError(
            f"the kernel takes {len(kernel.parameters)} parameters ({_signature(kernel)}), --args gives {len(passed)}"
        )
    rng = np.random.default_rng(seed)
    arguments: list[Argument] = []
    arrays: dict[str, NDArray[Any]] = {}
    for (name, value), parameter in zip(passed, kernel.parameters, strict=True):
        if "[" in value:
            spec = array_spec(name, value, names)
            array = contents(spec, rng)
            arrays[name] = array
            arguments.append(_array_argument(spec, array, parameter))
        else:
            arguments.append(_scalar(name, names[name], parameter))
    return arguments, arrays


def _numbers(items: Sequence[tuple[str, str, bool]]) -> dict[str, Number]:
    known: dict[str, Number] = {}
    for name, value, _ in items:
        if name in known:
            raise ArgumentError(f"argument {name} is given twice")
        if "[" not in value:
            try:
                known[name] = Expression.parse(value, known).value(known)
            except ExpressionError as error:
                raise ArgumentError(f"argument {name}: {error}") from None
    return known


def array_spec(name: str, text: str, names: Mapping[str, Number]) -> ArraySpec:
    """Parse the value of an array argument. Raises ``ArgumentError``."""
    match = _ARRAY.match(text)
    if match is None:
        raise ArgumentError(
            f'argument {name}: "{text}" is not understood; write [out|inout] TYPE[SIZES], like out f32[M,N]'
        )
    try:
        shape = tuple(Expression.parse(size, names).whole(names, at_least=1) for size in match["sizes"].split(","))
    except ExpressionError as error:
        raise ArgumentError(f"argument {name}: {error}") from None
    spec = ArraySpec(name, match["type"], shape)
    size = int(np.prod(shape, dtype=object)) * np.dtype(TYPES[spec.kind]).itemsize
    if size > LARGEST:
        raise ArgumentError(f"argument {name} would take {size:,} bytes; at most {LARGEST:,}")
    fields: dict[str, Any] = {}
    for word in match["words"].split():
        if word in ("out", "inout"):
            fields |= {"output": True, "read": word == "inout"}
        elif word in ("view", "view.T"):
            fields |= {"view": True, "transposed": word == "view.T"}
        elif word in FILLS:
            fields["fill"] = word
        else:
            raise ArgumentError(
                f'argument {name}: "{word}" is not known; known: out inout view view.T {" ".join(FILLS)}'
            )
    if fields.get("view") and len(shape) != 2:
        raise ArgumentError(f"argument {name}: a view has two sizes, rows and columns")
    return ArraySpec(name, spec.kind, shape, **fields)


def contents(spec: ArraySpec, rng: np.random.Generator) -> NDArray[Any]:
    """A fresh array: what the kernel reads as asked for, what it only writes poisoned (NaN, or all bits set)."""
    dtype = np.dtype(TYPES[spec.kind])
    if not spec.read:
        poison: NDArray[Any] = np.full((*spec.shape, dtype.itemsize), 0xFF, np.uint8).view(dtype)
        return poison.reshape(spec.shape)
    if spec.fill in ("zeros", "ones"):
        values: NDArray[Any] = np.full(spec.shape, 1 if spec.fill == "ones" else 0, np.float64)
    elif spec.fill == "index":
        values = np.arange(int(np.prod(spec.shape)), dtype=np.float64).reshape(spec.shape)
    elif dtype.kind == "f" or spec.kind == "bf16":
        values = rng.uniform(-1, 1, spec.shape)
    else:
        values = rng.integers(0, 8, spec.shape).astype(np.float64)
    if spec.kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype)


def _array_argument(spec: ArraySpec, array: NDArray[Any], parameter: Parameter) -> Argument:
    buffer = Buffer(spec.name, array, spec.output)
    if not spec.view:
        if parameter.size != 8:
            raise ArgumentError(
                f"argument {spec.name} is an array, but that parameter has {parameter.size} bytes, no pointer"
            )
        return buffer
    rows, cols = spec.shape
    strides = (1, rows) if spec.transposed else (cols, 1)
    raw = bytes(8) + np.array([rows, cols, *strides], np.int32).tobytes()
    if parameter.size != len(raw):
        raise ArgumentError(
            f"argument {spec.name} is a view of {len(raw)} bytes (pointer, 4 ints), the parameter has {parameter.size}"
        )
    return StructWithBuffers(spec.name, raw, {0: buffer})


def _scalar(name: str, value: Number, parameter: Parameter) -> Scalar:
    whole = isinstance(value, int)
    kinds: Mapping[tuple[bool, int], Any] = {
        (True, 1): np.int8, (True, 2): np.int16, (True, 4): np.int32, (True, 8): np.int64,
        (False, 2): np.float16, (False, 4): np.float32, (False, 8): np.float64,
    }  # fmt: skip
    kind = kinds.get((whole and not parameter.type.startswith("f"), parameter.size))
    if kind is None:
        raise ArgumentError(f"argument {name}: {value} does not fit a parameter of {parameter.size} bytes")
    if np.dtype(kind).kind == "i":
        bits = 8 * parameter.size
        if not -(1 << (bits - 1)) <= value < 1 << bits:
            raise ArgumentError(f"argument {name}: {value} does not fit {parameter.size} bytes")
        return Scalar(name, np.array([int(value) & ((1 << bits) - 1)], f"u{parameter.size}").view(kind)[0])
    return Scalar(name, kind(value))


def _signature(kernel: Kernel) -> str:
    return ", ".join("pointer or 8-byte number" if p.size == 8 else f"{p.size} bytes" for p in kernel.parameters)


# -- running ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """What to inspect. ``path`` is the file as the user named it; ``budget`` None takes the simulator's."""

    source: str
    path: str
    entry: str
    grid: Grid
    args: str
    expect: str | None = None
    defines: Mapping[str, str] = dataclasses.field(default_factory=dict)
    include_dirs: tuple[Path, ...] = ()
    arch: str = "sm_90"
    seed: int = 0
    budget: int | None = None


@dataclass(frozen=True)
class Inspection:
    """What came of it. Exactly one of ``failed`` and ``compiled`` is set; ``error`` is relative to the expectation."""

    request: Request
    failed: CompileFailed | None = None
    compiled: Compiled | None = None
    launched: Launched | None = None
    unwritten: Mapping[str, int] = dataclasses.field(default_factory=dict)  # output -> elements that are still poison
    error: float | None = None  # ||got - expected|| / ||expected||
    tolerance: float | None = None

    @property
    def clean(self) -> bool:
        """Compiled, ran without fault or error finding, and matched the expectation if there was one."""
        if self.launched is None or self.launched.fault is not None:
            return False
        if any(finding.severity == "error" for finding in self.launched.findings):
            return False
        return self.error is None or (self.tolerance is not None and self.error <= self.tolerance)


def inspect(request: Request) -> Inspection:
    """Compile, launch, compare. Raises ``ArgumentError``, ``UnsupportedKernel`` and ``KitError``."""
    compiled = compile_source(
        request.source, path=request.path, entry=request.entry, defines=request.defines,
        include_dirs=request.include_dirs, arch=request.arch,
    )  # fmt: skip
    if isinstance(compiled, CompileFailed):
        return Inspection(request, failed=compiled)
    device = Simulator(Setting(budget=request.budget) if request.budget else None)
    arguments, arrays = build(request.args, device.kernel(compiled), request.seed)
    numbers = _numbers(split(request.args))
    expectation = Expectation.parse(request.expect, arrays, numbers) if request.expect else None
    before = {name: array.copy() for name, array in arrays.items()}
    launched = device.launch(compiled, request.grid, arguments)
    unwritten = {
        a.name: count
        for a in arguments
        if launched.fault is None
        and isinstance(a, Buffer)
        and a.output
        and (count := _still_poison(before[a.name], a.array))
    }
    error = tolerance = None
    if expectation is not None and launched.fault is None:
        error, tolerance = expectation.compare(before, arrays)
    return Inspection(request, None, compiled, launched, unwritten, error, tolerance)


def _still_poison(before: NDArray[Any], after: NDArray[Any]) -> int:
    """Elements that were all ones before and still are."""
    width = before.dtype.itemsize
    old = np.ascontiguousarray(before).view(np.uint8).reshape(-1, width)
    new = np.ascontiguousarray(after).view(np.uint8).reshape(-1, width)
    return int(((old == 0xFF).all(axis=1) & (new == 0xFF).all(axis=1)).sum())


@dataclass(frozen=True)
class Expectation:
    """``C = 2 * A @ B + bias``: names of arrays and numbers, ``+ - * @``, ``.T`` and parentheses, in float64."""

    target: str
    tree: ast.expr
    numbers: Mapping[str, Number]

    @classmethod
    def parse(cls, text: str, arrays: Mapping[str, Any], numbers: Mapping[str, Number]) -> Expectation:
        """Raises ``ArgumentError`` with what is wrong in ``text``."""
        target, equals, formula = (part.strip() for part in text.partition("="))
        if not equals or target not in arrays:
            raise ArgumentError(f'--expect "{text}": write OUTPUT = FORMULA, such as C = A @ B')
        try:
            tree = ast.parse(formula, mode="eval").body
        except SyntaxError:
            raise ArgumentError(f'--expect "{text}": the formula is not understood') from None
        expectation = cls(target, tree, numbers)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id not in arrays and node.id not in numbers:
                raise ArgumentError(f"--expect names {node.id}, which --args does not have")
        return expectation

    def compare(self, before: Mapping[str, NDArray[Any]], after: Mapping[str, NDArray[Any]]) -> tuple[float, float]:
        """Relative error in the Frobenius norm and what is tolerated for the output's type. NaN counts as infinite."""
        wanted = self._value(self.tree, before)
        got = after[self.target]
        try:
            reference = np.broadcast_to(np.asarray(wanted, np.float64), got.shape)
        except ValueError:
            raise ArgumentError(
                f"--expect: {self.target} has shape {got.shape}, the formula {np.shape(wanted)}"
            ) from None
        error = float(
            np.linalg.norm(got.astype(np.float64) - reference) / max(float(np.linalg.norm(reference)), 1e-300)
        )
        # Random rounding errors of a long sum grow with the square root of its length; 16 leaves room for any order.
        tolerance = 16 * float(np.finfo(got.dtype).eps) if got.dtype.kind == "f" else 0.0
        return (math.inf if math.isnan(error) else error), tolerance

    def _value(self, node: ast.expr, arrays: Mapping[str, NDArray[Any]]) -> Any:
        match node:
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.Name(id=name):
                return arrays[name].astype(np.float64) if name in arrays else float(self.numbers[name])
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


def as_json(result: Inspection) -> dict[str, Any]:
    """The object of ``inspect --json``: schema ``gemm-lessons/inspect/1``."""
    launched = result.launched
    findings = [] if launched is None else [*([launched.fault] if launched.fault else []), *launched.findings]
    diagnostics = result.failed.diagnostics if result.failed else ()
    return {
        "schema": "gemm-lessons/inspect/1",
        "kernel": result.request.path,
        "entry": result.request.entry,
        "clean": result.clean,
        "compile_errors": [{"file": d.file, "line": d.line, "message": d.message} for d in diagnostics],
        "counters": dict(launched.counters.totals) if launched else {},
        "lines": [
            {"line": c.line, "metric": c.metric, "value": c.value, "ideal": c.ideal}
            for c in (launched.counters.lines if launched else ())
        ],
        "findings": [
            {"kind": f.kind, "severity": f.severity, "line": f.line, "message": f.message, "count": f.count}
            for f in findings
        ],
        "unwritten": dict(result.unwritten),
        "error": None if result.error is None or math.isinf(result.error) else result.error,
        "tolerance": result.tolerance,
    }
