"""The launch of any kernel, as options: what ``inspect``, ``view`` and ``compare`` have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemm_lessons.cli.options import MemoryLimit, TimeLimit
from gemm_lessons.cli.run import sheet_for
from gemm_lessons.course import CommandError, read_bytes, read_source, shown
from gemm_lessons.engine.records import dataclass

if TYPE_CHECKING:
    from gemm_lessons.engine.inspection import InspectRequest
    from gemm_lessons.engine.process import Bounds
    from gemm_lessons.engine.records import Grid

# The C++ standards that NVRTC supports.
Standard = StrEnum("Standard", {"CPP11": "c++11", "CPP14": "c++14", "CPP17": "c++17", "CPP20": "c++20"})


def dimensions(text: str, option: str) -> tuple[int, int, int]:
    """Parse ``X``, ``X,Y`` or ``X,Y,Z``; missing sizes are 1. Raises ``CommandError``."""
    if not re.fullmatch(r"\s*\d{1,9}(\s*[,x]\s*\d{1,9}){0,2}\s*", text):
        raise CommandError(f'{option} "{text}": write one to three whole numbers, like {option} 8,4')
    values = [int(part) for part in re.split(r"[,x]", text)]
    if min(values) < 1:
        raise CommandError(f'{option} "{text}": every size is at least 1')
    x, y, z = [*values, 1, 1][:3]
    return x, y, z


def launch_shape(grid: str, block: str, dynamic_shared: int, cluster: str | None = None) -> Grid:
    """Return the launch, checked against the limits of all GPUs. Raises ``CommandError``."""
    from gemm_lessons.engine.records import Grid

    blocks = None if cluster is None else dimensions(cluster, "--cluster")
    shape = Grid(dimensions(grid, "--grid"), dimensions(block, "--block"), dynamic_shared, blocks)
    if shape.threads > 1024:
        raise CommandError(f"--block {block} is {shape.threads} threads; a block has at most 1024")
    return shape


def only_kernel(source: str, file: Path) -> str:
    """Return the name of a file's only kernel. Raises ``CommandError`` if ``--entry`` must name one."""
    from gemm_lessons.engine.compiler import PTX_HEAD, entries, kernels

    where = shown(file)
    if PTX_HEAD.search(source):
        names = entries(source)
        if not names:
            raise CommandError(f"{where} has no .entry: there is no kernel to run")
        if len(names) > 1:
            raise CommandError(
                f"{where} has {len(names)} kernels ({', '.join(names)}): choose, like --entry '{names[0]}'"
            )
        return names[0]
    if file.suffix == ".ptx":
        raise CommandError(f"{where}:1: not PTX: a .ptx file begins with .version and .target")
    found = {it.name: it for it in kernels(source)}
    if not found:
        raise CommandError(f"{where} has no __global__ function; if an included file has the kernel, name it: --entry")
    if len(found) > 1:
        raise CommandError(f"{where} has {len(found)} kernels ({', '.join(found)}): choose, like --entry {min(found)}")
    [(name, kernel)] = found.items()
    if kernel.template:
        instance = f"{name}<>" if kernel.has_defaults else f"{name}<...>"
        raise CommandError(
            f"{where}:{kernel.line}: {kernel} is a template: name an instance, like --entry '{instance}'"
        )
    return name


def _signature(source: str, name: str) -> str:
    from gemm_lessons.engine.compiler import kernels

    return next((str(it) for it in kernels(source) if it.name == name), name)


def _check_ptx(source: str, file: Path, options: Mapping[str, object]) -> None:
    """Check that PTX, which is compiled already, is not given options for the compiler. Raises ``CommandError``."""
    from gemm_lessons.engine.compiler import PTX_HEAD

    given = [name for name, value in options.items() if value]
    if given and PTX_HEAD.search(source):
        raise CommandError(f"{shown(file)} is PTX, which is already compiled: leave {' and '.join(given)} out")


@dataclass(frozen=True)
class DescribedLaunch:
    """The launch of the kernel in a file: its shape, its arguments, and how it is compiled."""

    grid: Annotated[str | None, typer.Option("--grid", metavar="X[,Y[,Z]]", help="Blocks.")] = None
    block: Annotated[str | None, typer.Option("--block", metavar="X[,Y[,Z]]", help="Threads per block.")] = None
    args: Annotated[
        str | None, typer.Option("--args", help="Its arguments in order: 'x=f32[n],y=out f32[n],n=64'.")
    ] = None
    entry: Annotated[
        str | None,
        typer.Option("--entry", help="The kernel, if there are several; template instances too: 'tile<64, 8>'."),
    ] = None
    expect: Annotated[
        str | None, typer.Option("--expect", help="What an output should be: 'C = A @ B', 'C = 2 * A @ B + 0.5 * C'.")
    ] = None
    symbol: Annotated[
        list[str] | None, typer.Option("--symbol", help="A __constant__ or __device__ variable, like an argument.")
    ] = None
    define: Annotated[list[str] | None, typer.Option("--define", "-D", help="Define NAME=VALUE for the compiler.")] = (
        None
    )
    include: Annotated[
        list[Path] | None,
        typer.Option(
            "--include", "-I", help="A folder of headers that the kernel may include, besides its own and CUDA's."
        ),
    ] = None
    std: Annotated[Standard | None, typer.Option("--std", help="The C++ standard; default: c++17.")] = None
    dynamic_shared: Annotated[int, typer.Option("--dynamic-shared", min=0, metavar="N", help="Bytes.")] = 0
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="X[,Y[,Z]]", help="Blocks per cluster, set by the launch.")
    ] = None
    cubin: Annotated[
        Path | None,
        typer.Option("--cubin", metavar="FILE", help="The machine code of PTX; default: .cubin beside .ptx, if there."),
    ] = None
    arch: Annotated[str | None, typer.Option("--arch", help="Compile for this target; default: sm_90.")] = None
    budget: Annotated[
        int | None, typer.Option("--budget", min=1, metavar="N", help="Stop the kernel after this many instructions.")
    ] = None
    time_limit: TimeLimit = None
    memory_limit: MemoryLimit = None

    @property
    def given(self) -> list[str]:
        """Return the names of the options that were given."""
        return [f"--{it.name.replace('_', '-')}" for it in fields(self) if getattr(self, it.name) != it.default]

    @property
    def bounds(self) -> Bounds:
        """Return the limits of the run. Raises ``CommandError``."""
        from gemm_lessons.cli.guard import bounds_for

        return bounds_for(self.time_limit, self.memory_limit)

    def of(
        self, file: Path, seed: int, gpu: str, *, estimating: bool = True, recording: bool = False
    ) -> InspectRequest:
        """Return the request to launch the kernel of ``file``. Raises ``CommandError``."""
        source = read_source(file)
        _check_ptx(
            source, file, {"--arch": self.arch, "--define": self.define, "--include": self.include, "--std": self.std}
        )
        for folder in self.include or ():
            if not folder.is_dir():
                raise CommandError(f"--include {folder}: no such folder")
        kernel = only_kernel(source, file) if self.entry is None else self.entry
        missing = [f"--{name}" for name in ("grid", "block", "args") if getattr(self, name) is None]
        if self.grid is None or self.block is None or self.args is None:
            raise CommandError(
                f"{shown(file)}: {', '.join(missing)} missing; describe the launch of {_signature(source, kernel)}: "
                "gemm-lessons inspect --help"
            )
        shape = launch_shape(self.grid, self.block, self.dynamic_shared, self.cluster)
        defines = {}
        for item in self.define or []:
            name, _, value = item.partition("=")
            defines[name] = value or "1"
        from gemm_lessons.engine.inspection import InspectRequest

        return InspectRequest(
            source, shown(file), kernel, shape, self.args, self.expect, tuple(self.symbol or ()), defines,
            (*(self.include or ()), file.resolve().parent), self.arch or "sm_90", seed, self.budget,
            self.bounds, sheet_for(gpu), estimating, recording,
            (f"-std={self.std}",) if self.std else (), self._machine_code(source, file),
        )  # fmt: skip

    def _machine_code(self, source: str, file: Path) -> bytes:
        """Return the cubin of PTX, if there is one. Raises ``CommandError``."""
        from gemm_lessons.engine.compiler import PTX_HEAD

        beside = file.with_suffix(".cubin")
        if PTX_HEAD.search(source):
            return read_bytes(self.cubin or beside) if self.cubin or beside.is_file() else b""
        if self.cubin is not None:
            raise CommandError(f"{shown(file)} is not PTX, so it is compiled here: leave --cubin out")
        return b""
