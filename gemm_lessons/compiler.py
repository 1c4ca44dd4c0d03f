"""CUDA C++ source -> ``Compiled``: PTX, machine code, registers, line table, warnings. Second stage of a run.

A learner's mistake comes back as ``CompileFailed``; ``KitError`` means that the compiler itself is missing or broken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from gemm_lessons import nvrtc, sass
from gemm_lessons.diagnostics import Diagnostic, parse_log
from gemm_lessons.occupancy import Occupancy, Resources, occupancy
from gemm_lessons.sass import SassInstruction

__all__ = [
    "CompileFailed",
    "Compiled",
    "Diagnostic",
    "Occupancy",
    "Resources",
    "SassInstruction",
    "compile_source",
    "occupancy",
]


@dataclass(frozen=True)
class Compiled:
    """One compiled kernel. ``entry`` is the lowered (mangled) name; ``path`` is the file as the caller named it."""

    source: str
    path: str
    entry: str
    arch: str
    ptx: str
    cubin: bytes
    resources: Resources
    diagnostics: tuple[Diagnostic, ...]
    compiler: str

    @cached_property
    def sass(self) -> tuple[SassInstruction, ...]:
        """Machine instructions in address order; runs ``nvdisasm`` on first use."""
        instructions = sass.parse(sass.disassemble(self.cubin), self.entry)
        absolute = os.path.abspath(self.path)
        return tuple(replace(i, file=self.path) if i.file == absolute else i for i in instructions)

    @property
    def shared_layout(self) -> tuple[tuple[str, int, int], ...]:
        """(name, offset, bytes) of every static shared array as ptxas placed it; empty when that cannot be read."""
        return ()


@dataclass(frozen=True)
class CompileFailed:
    """The source did not compile: at least one error, and NVRTC's whole log."""

    diagnostics: tuple[Diagnostic, ...]
    log: str


def compile_source(
    source: str,
    *,
    path: str,
    entry: str,
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Sequence[Path] = (),
    arch: str = "sm_90",
    cuda_major: int | None = None,
) -> Compiled | CompileFailed:
    """Compile one kernel. ``entry`` may be a template instance (``tile<64, 8>``). Raises ``KitError`` without NVRTC."""
    if "\0" in source:
        line = source[: source.index("\0")].count("\n") + 1
        return CompileFailed((Diagnostic(path, line, None, "error", "the file holds a NUL byte: it is not text"),), "")
    major = nvrtc.choose_major(arch) if cuda_major is None else cuda_major
    compiler = nvrtc.load(major)
    absolute = os.path.abspath(path)
    options = [f"-arch={arch}", "-lineinfo", "-std=c++17", "--ptxas-options=-v"]
    options += [f"-D{name}={value}" for name, value in (defines or {}).items()]
    options += [f"--include-path={folder}" for folder in (*include_dirs, *nvrtc.include_folders(major))]
    result = compiler.translate(source, absolute, options, entry)
    diagnostics = parse_log(result.log, {absolute: path})
    if not result.ok:
        return CompileFailed(diagnostics, result.log)
    return Compiled(
        source=source,
        path=path,
        entry=result.lowered,
        arch=arch,
        ptx=re.sub(r'(\.file\s+\d+ )"' + re.escape(absolute) + '"', lambda m: f'{m[1]}"{path}"', result.ptx),
        cubin=result.cubin,
        resources=read_resources(result.log, result.lowered),
        diagnostics=diagnostics,
        compiler=f"NVRTC {compiler.version[0]}.{compiler.version[1]}",
    )


def read_resources(log: str, entry: str) -> Resources:
    """Registers per thread and bytes per block or thread from the ``ptxas -v`` part of the log."""
    start = log.find(f"Compiling entry function '{entry}'")
    if start < 0:
        return Resources(0, 0, 0, 0)
    end = log.find("Compiling entry function", start + 1)
    part = log[start : end if end > 0 else None]

    def number(pattern: str) -> int:
        match = re.search(pattern, part)
        return int(match[1]) if match else 0

    return Resources(
        registers=number(r"Used (\d+) registers"),
        shared_bytes=number(r"(\d+) bytes smem"),
        spill_bytes=number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
        stack_bytes=number(r"(\d+) bytes stack frame"),
    )
