"""``simulate()``: run any CUDA C++ kernel on the built-in simulator from Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gemm_lessons.engine.arguments.parameters import DeclaredType, check_array, declared, scalar
from gemm_lessons.engine.arguments.views import pointers
from gemm_lessons.engine.compiler.compile import NotCompiled
from gemm_lessons.engine.compiler.ptx_file import take
from gemm_lessons.engine.ptx.records import Kernel, KernelParameter, Variable
from gemm_lessons.engine.records.launch import (
    Argument,
    Buffer,
    Grid,
    HostVariable,
    Pointer,
    Scalar,
    StructWithBuffers,
    Surface,
    TensorMap,
    Texture,
)
from gemm_lessons.engine.records.results import Launched
from gemm_lessons.engine.simulator import Simulator

Dimensions = int | tuple[int, ...]


class CompileError(Exception):
    """The source does not compile. ``diagnostics`` has file, line and message of each complaint."""

    def __init__(self, failed: NotCompiled) -> None:
        lines = [f"{d.file}:{d.line}: {d.message}" for d in failed.diagnostics]
        super().__init__("\n".join(lines) or failed.log)
        self.diagnostics = failed.diagnostics


def simulate(
    source: str,
    entry: str,
    grid: Dimensions,
    block: Dimensions,
    args: Sequence[Any],
    *,
    arch: str = "sm_90",
    dynamic_shared: int = 0,
    symbols: Mapping[str, Any] | None = None,
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Sequence[Path] = (),
    path: str = "kernel.cu",
    device: Simulator | None = None,
    cluster: Dimensions | None = None,
) -> Launched:
    """Compile ``source`` with NVRTC and run ``entry`` (templates too: ``"tile<64, 8>"``) on the simulator. PTX is taken
    as it is, for the target that it names; ``entry`` is then the name that it has there.

    ``grid`` and ``block`` are x or (x, y) or (x, y, z), in blocks and threads. ``args`` follow the kernel's
    parameters: C-contiguous NumPy arrays for pointers (written back after the launch unless they are read-only),
    numbers, which are converted to the parameter's type if they fit it without loss, ``bytes`` or
    ``launch.StructWithBuffers`` for structs, ``launch.Texture`` and ``launch.Surface`` for texture and surface objects.
    A view is a pointer into the array whose memory it shares: ``[x, x[16:]]`` are two pointers into one buffer, and all
    of ``x`` can be reached through ``x[16:]`` alone. ``dynamic_shared`` is in bytes,
    ``cluster`` in blocks, as a launch attribute (``__cluster_dims__`` in the source does the same).

    ``symbols`` are values of ``__constant__`` and ``__device__`` variables by name (``"ns::weights"``): arrays, numbers
    or ``bytes`` of the variable's size. Arrays of ``__device__`` variables are read back after the launch.

    Returns counters, lines and findings as on every run; what stops a kernel on hardware is ``fault``. Raises
    ``CompileError``, ``errors.UnsupportedKernel`` (an opcode the simulator does not know), ``ValueError`` (arguments),
    ``simulator.Disagreement`` (PTX and machine code contradict each other: a fault of the kit, never of the kernel).
    """
    compiled = take(source, path=path, entry=entry, defines=defines or {}, include_dirs=include_dirs, arch=arch)
    if isinstance(compiled, NotCompiled):
        raise CompileError(compiled)
    device = device or Simulator()
    kernel = device.kernel(compiled)
    shape = Grid(_three(grid), _three(block), dynamic_shared, None if cluster is None else _three(cluster))
    given = [_symbol(name, value, device.variable(compiled, name)) for name, value in (symbols or {}).items()]
    return device.launch(compiled, shape, arguments(kernel, args, declared(source, kernel, entry)), given)


def arguments(kernel: Kernel, values: Sequence[Any], known: Sequence[DeclaredType | None] = ()) -> list[Argument]:
    """Python values -> launch arguments, by the types of the kernel's parameters; ``known``: what its source says of
    them. Raises ``ValueError``."""
    if len(values) != len(kernel.parameters):
        raise ValueError(f"{kernel.name} takes {len(kernel.parameters)} arguments, {len(values)} were given")
    names = [f"argument {parameter.name.rpartition('_param_')[2]}" for parameter in kernel.parameters]
    known = known or (None,) * len(values)
    for name, value, parameter, one in zip(names, values, kernel.parameters, known, strict=True):
        if isinstance(value, np.ndarray):
            check_array(name, value, parameter, one)
    arrays = pointers(dict(_arrays(names, values)))
    return [
        dataclasses.replace(value, name=value.name or name, pointer=arrays[name])
        if isinstance(value, TensorMap)
        else arrays[name]
        if name in arrays
        else _argument(name, parameter, value, one)
        for name, parameter, value, one in zip(names, kernel.parameters, values, known, strict=True)
    ]


def _arrays(names: Sequence[str], values: Sequence[Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The arrays that pointers, and tensor maps, point into; of one whose rows are apart, the first element."""
    for name, value in zip(names, values, strict=True):
        if isinstance(value, np.ndarray):
            yield name, value
        elif isinstance(value, TensorMap):
            yield name, value.array if value.array.flags.c_contiguous else value.array[(slice(1),) * value.array.ndim]


def _symbol(name: str, value: Any, variable: Variable) -> HostVariable:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise ValueError(f"symbol {name}: the array holds Python objects, not numbers")
        return HostVariable(name, value)
    given = scalar(f"symbol {name}", value, KernelParameter(name, variable.type, 0, variable.size, variable.align))
    data = given.value if isinstance(given.value, bytes) else given.value.tobytes()
    return HostVariable(name, np.frombuffer(data, np.uint8))


def _argument(name: str, parameter: KernelParameter, value: Any, known: DeclaredType | None) -> Argument:
    if isinstance(value, (Buffer, Pointer, Scalar, StructWithBuffers)):
        return value
    if isinstance(value, (Texture, Surface)):
        return dataclasses.replace(value, name=value.name or name)
    return scalar(name, value, parameter, known)


def _three(dimensions: Dimensions) -> tuple[int, int, int]:
    values = (dimensions,) if isinstance(dimensions, int) else tuple(dimensions)
    if not 1 <= len(values) <= 3 or any(value < 0 for value in values):
        raise ValueError(f"a grid or block has one to three sizes, none of them negative, not {dimensions}")
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z
