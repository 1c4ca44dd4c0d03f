"""The engine: compile, run, check, count and estimate any CUDA kernel without a GPU.

    from gemm_lessons import engine

    kernel = engine.compile(source, "transpose", arch="sm_90")
    launched = kernel.launch(grid, block, args)
    launched.counters["global_load_sectors"], launched.findings, launched.lines, launched.printed
    kernel.estimate(grid, block, args, gpu="h200").time_us

``__all__`` lists the public names. Each is imported on first use, so that importing the engine loads neither NumPy nor
a compiler. The engine imports nothing else of the kit. Its rooms, in the order in which one uses another:

- ``report``: the sentences of findings
- ``records``: the records that the rooms exchange: launches, findings, counters, types of numbers
- ``process``: child processes, their limits and their sandbox
- ``hardware``: data sheets and occupancy
- ``compiler``: CUDA C++ -> PTX, machine code, diagnostics
- ``semantics``: what each PTX instruction computes
- ``ptx``: PTX text -> basic blocks and steps
- ``events``: what a running kernel reports to its observers
- ``machine``: executes PTX: values, memories, divergence, barriers
- ``checkers``: races, uninitialised reads, misused barriers
- ``costs``: wavefronts and sectors of one access
- ``sass``: follows the machine code, for what hardware would count
- ``counters``: counts a launch in Nsight Compute's names
- ``second_opinion``: checks that the PTX engine and the machine-code engine agree
- ``simulator``: the device built from these rooms
- ``arguments``: Python values and command-line texts -> launch arguments
- ``estimate``: traced machine code + a data sheet -> time
- ``pictures``: records of accesses, tiles and timelines of a launch, to be drawn
- ``api``: ``compile()``, ``simulate()``; ``inspection``: a kernel with arguments as texts
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.engine.api import CompiledKernel, CompileError, compile, simulate
    from gemm_lessons.engine.compiler.compile import Diagnostic, Resources
    from gemm_lessons.engine.counters.cross_check import Disagreement
    from gemm_lessons.engine.estimate.launch import LaunchEstimate, NotEstimated
    from gemm_lessons.engine.hardware.sheets import SheetError
    from gemm_lessons.engine.hardware.sheets import GPUS, GpuSpec, find_gpu
    from gemm_lessons.engine.machine.machine import Setting
    from gemm_lessons.engine.records.errors import KitError, UnknownArchitecture, UnsupportedKernel
    from gemm_lessons.engine.records.findings import Finding
    from gemm_lessons.engine.records.launch import (
        Buffer, HostVariable, Pointer, Scalar, StructWithBuffers, Surface, TensorMap, Texture,
    )  # fmt: skip
    from gemm_lessons.engine.records.results import Conflict, Counters, Launched, LineCount, NotCounted, Printed
    from gemm_lessons.engine.simulator import Simulator
else:
    __getattr__ = on_first_use(__name__)

__all__ = [
    "GPUS", "Buffer", "CompileError", "CompiledKernel", "Conflict", "Counters", "Diagnostic", "Disagreement", "Finding",
    "GpuSpec", "HostVariable", "KitError", "LaunchEstimate", "Launched", "LineCount", "NotCounted", "NotEstimated",
    "Pointer", "Printed", "Resources", "Scalar", "Setting", "SheetError", "Simulator", "StructWithBuffers", "Surface",
    "TensorMap", "Texture", "UnknownArchitecture", "UnsupportedKernel", "compile", "find_gpu", "simulate",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
