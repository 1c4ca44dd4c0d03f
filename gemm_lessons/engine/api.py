"""``compile()``, ``CompiledKernel`` and ``simulate()``: any CUDA kernel from Python, without a GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gemm_lessons.engine.arguments.parameters import DeclaredType, check_array, declared, scalar
from gemm_lessons.engine.arguments.structs import Leaf, is_by_field, is_small_struct, layout_at, leaves, struct_of
from gemm_lessons.engine.arguments.text import ArgumentError
from gemm_lessons.engine.arguments.views import pointers
from gemm_lessons.engine.compiler.compile import Compiled, Diagnostic, NotCompiled, Resources
from gemm_lessons.engine.compiler.layouts import TypeLayout, read_layouts
from gemm_lessons.engine.compiler.ptx_file import take, with_cubin
from gemm_lessons.engine.hardware.sheets import GpuSpec, buildable, find_gpu
from gemm_lessons.engine.ptx.records import Kernel, KernelParameter, Variable
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.launch import (
    TENSOR_MAP_SIZE,
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
from gemm_lessons.engine.simulator import Setting, Simulator

if TYPE_CHECKING:
    from gemm_lessons.engine.estimate.launch import LaunchEstimate

Dimensions = int | tuple[int, ...]


class CompileError(Exception):
    """The source does not compile. ``diagnostics`` has file, line, column and message of each error."""

    def __init__(self, failed: NotCompiled) -> None:
        lines = [f"{d.file}:{d.line}: {d.message}" for d in failed.diagnostics]
        super().__init__("\n".join(lines) or failed.log)
        self.diagnostics = failed.diagnostics


@dataclasses.dataclass(frozen=True)
class KernelSource:
    """A kernel's source and the options of ``compile``, without the architecture: it can be compiled for any."""

    text: str
    entry: str
    path: str
    defines: Mapping[str, str | int]
    include_dirs: Sequence[Path]
    options: Sequence[str]
    cubin: bytes = b""  # which another compiler made of PTX

    def taken(self, arch: str) -> Compiled | NotCompiled:
        """Compile the source; take PTX as it is. Raise ``ArgumentError`` if the cubin is of another kernel."""
        found = take(self.text, **self._asked(arch))
        if not self.cubin or isinstance(found, NotCompiled):
            return found
        try:
            return with_cubin(found, self.cubin, [it.size for it in Simulator.parameters(found)])
        except ValueError as reason:
            raise ArgumentError(str(reason)) from None

    def compiled(self, arch: str) -> Compiled:
        """Return the compiled kernel. Raise ``CompileError``."""
        found = self.taken(arch)
        if isinstance(found, NotCompiled):
            raise CompileError(found)
        return found

    def layouts(self, arch: str) -> tuple[TypeLayout, ...] | None:
        """Return the layouts of the source's types."""
        return read_layouts(self.text, **self._asked(arch))

    def _asked(self, arch: str) -> dict[str, Any]:
        given = {it.name: getattr(self, it.name) for it in dataclasses.fields(self) if it.name not in ("text", "cubin")}
        return {**given, "arch": arch}


def compile(
    source: str,
    entry: str,
    *,
    arch: str = "sm_90",
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Sequence[Path] = (),
    options: Sequence[str] = (),
    path: str = "kernel.cu",
    cubin: bytes = b"",
) -> CompiledKernel:
    """Compile one kernel, to be launched as often as one likes.

    ``source`` is CUDA C++, which NVRTC compiles, or PTX, which is taken as it is, for the target that it names.
    ``entry`` is the kernel's name in the source, a template instance (``"tile<64, 8>"``), or its name in the PTX.
    ``arch`` is the GPU architecture to compile for, such as ``"sm_90"``. ``defines`` are macros, ``include_dirs``
    folders to search for ``#include``, ``options`` further options of NVRTC (``"-fmad=false"``). ``path`` names the
    file in messages and line counts; its folder is searched for ``#include "..."`` first. ``cubin`` is the machine code
    that another compiler made of ``source`` in PTX, for counters and estimates.

    Raises ``CompileError`` for a source that does not compile, ``ValueError`` for a cubin of another kernel, and
    ``KitError`` when the compiler is missing or does not know ``arch`` or an option.
    """
    asked = KernelSource(source, entry, path, dict(defines or {}), tuple(include_dirs), tuple(options), cubin)
    return CompiledKernel(asked, asked.compiled(arch))


class CompiledKernel:
    """A compiled kernel: ``launch`` runs it on the simulator, ``estimate`` estimates its time on a GPU."""

    def __init__(self, source: KernelSource, compiled: Compiled) -> None:
        self._source, self._compiled = source, compiled
        self._others: dict[str, Compiled] = {}  # by architecture: compiled for the GPUs of estimates

    def __repr__(self) -> str:
        return f"<kernel {self._source.entry} for {self.arch}>"

    @property
    def arch(self) -> str:
        """The architecture that the kernel is compiled for, such as ``sm_90``."""
        return self._compiled.arch

    @property
    def ptx(self) -> str:
        """Return the kernel's PTX, as text."""
        return self._compiled.ptx

    @property
    def cubin(self) -> bytes:
        """Return the kernel's machine code, an ELF file; empty for PTX without a cubin."""
        return self._compiled.cubin

    @property
    def resources(self) -> Resources:
        """Return registers per thread, static shared memory per block, and spills and stack per thread, in bytes."""
        return self._compiled.resources

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """The compiler's warnings, each with file, line, column and message."""
        return self._compiled.diagnostics

    def launch(
        self,
        grid: Dimensions,
        block: Dimensions,
        args: Sequence[Any],
        *,
        symbols: Mapping[str, Any] | None = None,
        dynamic_shared: int = 0,
        cluster: Dimensions | None = None,
        setting: Setting | None = None,
    ) -> Launched:
        """Run the kernel on the simulator, check it for races and other mistakes, and count what it does.

        ``grid`` and ``block`` are x or (x, y) or (x, y, z), in blocks and threads. ``args`` follow the kernel's
        parameters: C-contiguous NumPy arrays of any shape for pointers (written back after the launch unless they are
        read-only), numbers, which are converted to the parameter's type if they fit it without loss, ``None`` for a
        null pointer, ``Texture``, ``Surface`` and ``TensorMap`` for such objects. A struct by value takes a dict of its
        fields (``{"x": x, "sizes": [4, 8]}``; fields that it leaves out are 0; a field may be a ``TensorMap``), a list
        of all of them in order, ``bytes``, or a ``StructWithBuffers``. A view is a pointer into the array whose memory
        it shares: ``[x, x[16:]]`` are two pointers into one buffer, and the kernel can reach all of ``x`` through
        ``x[16:]``.

        ``symbols`` are values of ``__constant__`` and ``__device__`` variables by name (``"ns::weights"``): arrays,
        numbers, ``bytes`` of the variable's size, or a ``HostVariable``. Arrays of ``__device__`` variables are read
        back after the launch. ``dynamic_shared`` is in bytes, ``cluster`` in blocks, as a launch attribute
        (``__cluster_dims__`` in the source does the same). ``setting`` bounds an endless kernel, or turns counting off.

        Returns counters, findings and what was printed; ``fault`` is what stops a kernel on hardware, or a launch that
        a GPU refuses. Raises ``UnsupportedKernel`` (an instruction that the simulator does not support), ``ValueError``
        (arguments or symbols that do not fit), and ``Disagreement`` (PTX and machine code contradict each other: a
        fault of this package, never of the kernel).
        """
        device = Simulator() if setting is None else Simulator(setting)
        return self._launch(device, _grid(grid, block, dynamic_shared, cluster), args, symbols)

    def _launch(
        self, device: Simulator, grid: Grid, args: Sequence[Any], symbols: Mapping[str, Any] | None
    ) -> Launched:
        return device.launch(self._compiled, grid, *self._given(device, self._compiled, args, symbols))

    def misread(
        self,
        grid: Dimensions,
        block: Dimensions,
        args: Sequence[Any],
        *,
        symbols: Mapping[str, Any] | None = None,
        dynamic_shared: int = 0,
        cluster: Dimensions | None = None,
    ) -> Finding | None:
        """Return a finding about the first product (``wgmma``) of the first cluster that does not read a tile of its
        matrix, or whose factors A and B have different k; None if no such product was found.

        Call it only when the answer is wrong: a right kernel may have stored its matrix in another order, and gives the
        same finding. The arguments are those of ``launch``, with the arrays as they were before it; no array is
        written. Tiles that threads or plain copies have written are not checked.
        """
        device = Simulator()
        given = self._given(device, self._compiled, args, symbols)
        return device.misread(self._compiled, _grid(grid, block, dynamic_shared, cluster), *given)

    def estimate(
        self,
        grid: Dimensions,
        block: Dimensions,
        args: Sequence[Any],
        *,
        gpu: str | GpuSpec = "h200",
        symbols: Mapping[str, Any] | None = None,
        dynamic_shared: int = 0,
        cluster: Dimensions | None = None,
    ) -> LaunchEstimate:
        """Estimate how long this launch would take on ``gpu``: a key of ``GPUS``, the file of a data sheet
        (``"my_gpu.toml"``) or a ``GpuSpec``. Nothing is run on a GPU, measured or written; the result is an estimate.

        The arguments are those of ``launch``; array contents matter where loops, branches or addresses depend on them.
        The kernel is compiled for the architecture of ``gpu`` if it was not. The model follows the machine code of some
        blocks, as many as fit on one multiprocessor, without most iterations of long loops. What L1, L2 and DRAM serve
        follows from their addresses; L2 holds what an earlier run of the same launch left there. ``gemm-lessons read
        numbers`` gives the errors of estimates of 60 launches. The course's matrix products have a separate estimate.

        Raises ``NotEstimated`` for a launch that the GPU refuses or that does not fit on it, and for what the model
        does not cover: PTX without machine code, instructions whose rates it lacks, machine code that it cannot follow,
        threads that wait for others in a loop, and traces of more than 500,000 warp instructions without a loop that
        can be cut. Raises ``KeyError`` for an unknown GPU, ``ValueError`` for a wrong data sheet, ``CompileError``,
        ``UnsupportedKernel`` and ``ValueError`` as ``compile`` and ``launch`` do.
        """
        from gemm_lessons.engine.estimate.launch import PreparedLaunch, estimate_launch

        sheet = find_gpu(gpu) if isinstance(gpu, str) else gpu
        device, compiled = Simulator(), self._compiled_for(sheet)
        shape = _grid(grid, block, dynamic_shared, cluster)
        values, variables = self._given(device, compiled, args, symbols)
        return estimate_launch(PreparedLaunch.of(compiled, shape, values, sheet, variables))

    def _compiled_for(self, gpu: GpuSpec) -> Compiled:
        arch = buildable(gpu.arch)
        if not self.cubin or self.arch.rstrip("af") == arch:
            return self._compiled
        if arch not in self._others:
            self._others[arch] = self._source.compiled(arch)
        return self._others[arch]

    def _given(
        self, device: Simulator, compiled: Compiled, args: Sequence[Any], symbols: Mapping[str, Any] | None
    ) -> tuple[list[Argument], list[HostVariable]]:
        """Convert the arguments and symbols of a launch. Raise ``ValueError`` and ``UnsupportedKernel``."""
        kernel = device.kernel(compiled)
        variables = [_symbol(name, value, device.variable(compiled, name)) for name, value in (symbols or {}).items()]
        return arguments(kernel, args, self._declared, lambda: self._layouts), variables

    @cached_property
    def _declared(self) -> tuple[DeclaredType | None, ...]:
        return declared(self._source.text, Simulator().kernel(self._compiled), self._source.entry)

    @cached_property
    def _layouts(self) -> tuple[TypeLayout, ...] | None:
        return self._source.layouts(self.arch)


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
    """``compile`` and ``launch`` in one call: compile ``source``, run ``entry`` once on the simulator.

    Parameters, result and exceptions are those of ``compile`` and ``CompiledKernel.launch``. ``device`` is a simulator
    with other settings than the default ones.
    """
    kernel = compile(source, entry, arch=arch, defines=defines, include_dirs=include_dirs, path=path)
    return kernel._launch(device or Simulator(), _grid(grid, block, dynamic_shared, cluster), args, symbols)


def _grid(grid: Dimensions, block: Dimensions, dynamic_shared: int, cluster: Dimensions | None) -> Grid:
    return Grid(_three(grid), _three(block), dynamic_shared, None if cluster is None else _three(cluster))


def arguments(
    kernel: Kernel,
    values: Sequence[Any],
    known: Sequence[DeclaredType | None] = (),
    layouts: Callable[[], Sequence[TypeLayout] | None] = lambda: None,
) -> list[Argument]:
    """Convert Python values to launch arguments, by the kernel's parameters. Raise ``ValueError``.

    ``known``: the parameter types that the source declares. ``layouts`` returns the layouts of the parameters; it is
    called only for structs given by field, for tensor maps inside of a struct, and for numbers given for a small
    struct, such as a library's ``half_t``.
    """
    if len(values) != len(kernel.parameters):
        raise ValueError(f"{kernel.name} takes {len(kernel.parameters)} arguments, {len(values)} were given")
    names = [f"argument {parameter.name.rpartition('_param_')[2]}" for parameter in kernel.parameters]
    known = known or (None,) * len(values)
    structs: dict[str, tuple[TypeLayout, list[Leaf]]] = {}
    for position, (name, value, parameter, one) in enumerate(zip(names, values, kernel.parameters, known, strict=True)):
        if isinstance(value, np.ndarray):
            check_array(name, value, parameter, one)
        elif (
            is_by_field(value)
            or (isinstance(value, TensorMap) and parameter.size > TENSOR_MAP_SIZE)
            or (isinstance(value, (int, float)) and is_small_struct(parameter, one))
        ):
            layout = layout_at(name, position, layouts())
            structs[name] = layout, leaves(name, value, layout)
    inside = ((leaf.name, leaf.value) for _, found in structs.values() for leaf in found)
    arrays = pointers(dict(_arrays([*zip(names, values, strict=True), *inside])))
    return [
        struct_of(name, *structs[name], arrays)
        if name in structs
        else dataclasses.replace(value, name=value.name or name, pointer=arrays[name])
        if isinstance(value, TensorMap)
        else arrays[name]
        if name in arrays
        else _argument(name, parameter, value, one)
        for name, parameter, value, one in zip(names, kernel.parameters, values, known, strict=True)
    ]


def _arrays(values: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the arrays that pointers and tensor maps point into; for rows with gaps between them, the first element."""
    for name, value in values:
        if isinstance(value, np.ndarray):
            yield name, value
        elif isinstance(value, TensorMap):
            yield name, value.array if value.array.flags.c_contiguous else value.array[(slice(1),) * value.array.ndim]


def _symbol(name: str, value: Any, variable: Variable) -> HostVariable:
    if isinstance(value, HostVariable):
        return dataclasses.replace(value, name=name)
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
