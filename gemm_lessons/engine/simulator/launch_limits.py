"""Launches that a GPU refuses: too many threads or blocks, too much shared memory or registers, or a shape that the
kernel's own code excludes.

Dynamic shared memory above 48 KiB counts as requested (``cudaFuncSetAttribute``), so the opt-in maximum is the limit.
Sources: NVIDIA, "CUDA C++ Programming Guide", table "Technical Specifications per Compute Capability", and
``cuda_occupancy.h`` for register allocation.

``as_unsupported`` turns unexpected errors of the simulator into ``UnsupportedKernel``: it reads the instruction off the
traceback of the Python error. ``GEMM_LESSONS_DEBUG=1`` shows the Python error instead. Expected refusals raise
``UnsupportedKernel`` where they arise.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from gemm_lessons.engine.hardware.occupancy import registers_of_block
from gemm_lessons.engine.hardware.sheets import WARP
from gemm_lessons.engine.machine.special import clustered
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.records import Instruction, Kernel
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.facts import Refusal, Refused
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.sass.operands import Decoded

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled

KIB = 1024
THREADS = 1024  # per block
BLOCK = (1024, 1024, 64)
GRID = ((1 << 31) - 1, 65_535, 65_535)
CLUSTER = 8  # blocks, unless the host allows a non-portable size
FIRST_CLUSTERS = 90  # compute capability times ten
REGISTERS = 64 * KIB  # per block
# Opt-in maximum of shared memory per block, KiB, by compute capability.
SHARED = {
    50: 48, 52: 48, 53: 48, 60: 48, 61: 48, 62: 48, 70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 163, 89: 99,
    90: 227, 100: 227, 101: 227, 103: 227, 110: 227, 120: 99, 121: 99,
}  # fmt: skip
BREAKS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, RuntimeError, TypeError, ValueError,
    re.error, struct.error,
)  # fmt: skip


def refusal(compiled: Compiled, kernel: Kernel, grid: Grid) -> Finding | None:
    """Return why no GPU of the kernel's architecture would launch ``grid``, or None."""
    reasons = tuple(_reasons(compiled, kernel, grid))
    if not reasons:
        return None
    return Finding("launch_failed", "error", "refused", file=compiled.path, facts=Refused(reasons))


def _reasons(compiled: Compiled, kernel: Kernel, grid: Grid) -> Iterator[Refusal]:
    for what, sizes, limits in (("blocks", grid.grid, GRID), ("threads", grid.block, BLOCK)):
        for axis, size, limit in zip("xyz", sizes, limits, strict=True):
            if size < 1:
                yield Refusal("refused few", size, name=what, axis=axis)
            elif size > limit:
                yield Refusal("refused many", size, limit, what, axis)
    threads = grid.threads
    if threads > THREADS and all(size <= limit for size, limit in zip(grid.block, BLOCK, strict=True)):
        yield Refusal("refused threads", threads, THREADS)
    yield from _of_the_code(kernel, grid)
    arch, static = compiled.arch, compiled.resources.shared_bytes
    shared = static + grid.dynamic_shared
    limit = SHARED.get(_number(arch), max(SHARED.values())) * KIB
    if shared > limit:
        yield Refusal("refused shared", shared, limit, static=static, arch=arch)
    registers = compiled.resources.registers
    if 0 < threads <= THREADS and registers_of_block(registers, -(-threads // WARP), 4) > REGISTERS:
        yield Refusal("refused registers", threads, REGISTERS, registers=registers)


def _of_the_code(kernel: Kernel, grid: Grid) -> Iterator[Refusal]:
    """Yield violations of ``__launch_bounds__``, ``__block_size__`` and ``__cluster_dims__``, as PTX states them."""
    most = kernel.directives.get("maxntid")
    if most is not None and grid.threads > _product(most):
        yield Refusal("refused bounds", grid.threads, _product(most))
    exact = kernel.directives.get("reqntid")
    if exact is not None and grid.block != exact:
        yield Refusal("refused block", sizes=grid.block, wanted=exact)
    cluster = clustered(kernel, grid).cluster
    if cluster is None:
        return
    if grid.cluster and grid.cluster != cluster:
        yield Refusal("refused cluster", sizes=grid.cluster, wanted=cluster)
    if _number(kernel.target) < FIRST_CLUSTERS:
        yield Refusal("refused cluster arch", limit=FIRST_CLUSTERS, arch=kernel.target)
    allowed, _, _ = kernel.directives.get("maxclusterrank", (CLUSTER, 1, 1))
    largest = min(CLUSTER, allowed)
    if _product(cluster) > largest:
        yield Refusal("refused cluster size", _product(cluster), largest)
    if any(size % part for size, part in zip(grid.grid, cluster, strict=True)):
        yield Refusal("refused cluster grid", sizes=grid.grid, wanted=cluster)


def _number(arch: str) -> int:
    number = re.search(r"\d+", arch)
    return int(number[0]) if number else 0


def _product(sizes: tuple[int, int, int]) -> int:
    return sizes[0] * sizes[1] * sizes[2]


@contextlib.contextmanager
def as_unsupported(doing: str, of_the_caller: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn errors into ``UnsupportedKernel``; those of types ``of_the_caller`` only while an instruction executes."""
    try:
        yield
    except BREAKS as error:
        construct, line = _looked_at(error.__traceback__)
        if os.environ.get("GEMM_LESSONS_DEBUG") or (isinstance(error, of_the_caller) and not construct):
            raise
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise UnsupportedKernel(f"{construct or 'it'} is not understood where {doing} ({why})", line) from error


def _looked_at(trace: TracebackType | None) -> tuple[str, int | None]:
    """Return the instruction that the innermost frame refers to, and its line."""
    found: tuple[str, int | None] = "", None
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            if isinstance(value, Instruction):
                found = value.full_opcode, line_of(value)
            elif isinstance(value, Decoded):
                found = value.source.opcode, value.source.line
        trace = trace.tb_next
    return found
