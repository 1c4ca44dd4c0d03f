"""``gemm-lessons inspect``: any kernel on the simulator, with its counters and findings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemm_lessons.cli.options import MemoryLimit, TimeLimit
from gemm_lessons.cli.run import DEFAULT_GPU, GPU, sheet_for
from gemm_lessons.course.folder import CommandError, read_source, shown
from gemm_lessons.engine import UnknownArchitecture
from gemm_lessons.running import contract

if TYPE_CHECKING:
    from gemm_lessons.engine.records.launch import Grid

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
    from gemm_lessons.engine.records.launch import Grid

    blocks = None if cluster is None else dimensions(cluster, "--cluster")
    shape = Grid(dimensions(grid, "--grid"), dimensions(block, "--block"), dynamic_shared, blocks)
    if shape.threads > 1024:
        raise CommandError(f"--block {block} is {shape.threads} threads; a block has at most 1024")
    return shape


def only_kernel(source: str, file: Path) -> str:
    """Return the name of a file's only kernel. Raises ``CommandError`` if ``--entry`` must name one."""
    from gemm_lessons.engine.compiler.source import PTX_HEAD, entries, kernels

    if PTX_HEAD.search(source):
        names = entries(source)
        if len(names) != 1:
            choose = f"choose, like --entry '{names[0]}'" if names else "there is nothing to run"
            raise CommandError(f"{shown(file)} has {len(names)} kernels ({', '.join(names)}): {choose}")
        return names[0]
    found = {it.name: it for it in kernels(source)}
    where = shown(file)
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


def _check_ptx(source: str, file: Path, options: Mapping[str, object]) -> None:
    """Check that PTX, which is compiled already, is not given options for the compiler. Raises ``CommandError``."""
    from gemm_lessons.engine.compiler.source import PTX_HEAD

    given = [name for name, value in options.items() if value]
    if given and PTX_HEAD.search(source):
        raise CommandError(f"{shown(file)} is PTX, which is already compiled: leave {' and '.join(given)} out")


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A CUDA C++ file, or PTX.")],
    grid: Annotated[str, typer.Option("--grid", metavar="X[,Y[,Z]]", help="Blocks.")],
    block: Annotated[str, typer.Option("--block", metavar="X[,Y[,Z]]", help="Threads per block.")],
    args: Annotated[str, typer.Option("--args", help="The kernel's arguments in order; see above.")],
    entry: Annotated[
        str | None,
        typer.Option("--entry", help="The kernel, if there are several; template instances too: 'tile<64, 8>'."),
    ] = None,
    expect: Annotated[
        str | None, typer.Option("--expect", help="What an output should be: 'C = A @ B', 'C = 2 * A @ B + 0.5 * C'.")
    ] = None,
    symbol: Annotated[
        list[str] | None, typer.Option("--symbol", help="A __constant__ or __device__ variable, like an argument.")
    ] = None,
    define: Annotated[
        list[str] | None, typer.Option("--define", "-D", help="Define NAME=VALUE for the compiler.")
    ] = None,
    include: Annotated[
        list[Path] | None,
        typer.Option(
            "--include", "-I", help="A folder of headers that the kernel may include, besides its own and CUDA's."
        ),
    ] = None,
    std: Annotated[Standard | None, typer.Option("--std", help="The C++ standard; default: c++17.")] = None,
    dynamic_shared: Annotated[int, typer.Option("--dynamic-shared", min=0, metavar="N", help="Bytes.")] = 0,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="X[,Y[,Z]]", help="Blocks per cluster, set by the launch.")
    ] = None,
    arch: Annotated[str | None, typer.Option("--arch", help="Compile for this target; default: sm_90.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the random inputs.")] = 0,
    budget: Annotated[
        int | None, typer.Option("--budget", min=1, metavar="N", help="Stop the kernel after this many instructions.")
    ] = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    roles: Annotated[
        bool, typer.Option("--roles", help="Print an estimated timeline by role, for a kernel with mbarriers.")
    ] = False,
    gpu: Annotated[
        str, typer.Option("--gpu", metavar=GPU, help="The GPU that time and timeline are for.")
    ] = DEFAULT_GPU,
    no_estimate: Annotated[
        bool, typer.Option("--no-estimate", help="Leave out the estimated time, which can take longer than the rest.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for scripts.")] = False,
) -> int:
    """Run any CUDA kernel on the simulator: counters by line, bank conflicts, races, faults.

    --args follows the kernel's parameters. Arrays: A=f32[M,K], C=out f32[M,N] (written), C=inout f32[M,N] (both),
    A=zeros f32[M,K] (also ones, index), a=view f32[M,K] (a struct of pointer, rows, cols, row and column stride; view.T
    transposed), a=f32[M,K] box[8,32] (a tensor map, also ... swizzle 128). B=A+16 points 16 elements into the array of
    A; f32[M,K/2] strides[K,1] box[8,32] at A is a tensor map of that array. p={x=f32[M], n={1,2}} is a struct by value,
    whose array is p.x elsewhere; a field may be a tensor map; fields that are left out are 0. t=texture f32[H,W] is a
    texture (also texture linear, border, wrap, mirror, normalized, normalized_float, layered; channels4 u8[H,W,4]),
    s=out surface f32[H,W] a surface.
    Numbers: M=256, alpha=1.5. M:=256 is a name for sizes only. Types: f64 f32 tf32 f16 bf16 e4m3 e5m2 i8 u8 ... i64
    u64.

    --symbol sets variables of the source: --symbol 'weights=f32[9], ns::scale=1.5'. Those that are out or inout are
    shown after the launch, as of --symbol 'total=out i32[1]', which begins with what the source gives it.

    FILE may be PTX of nvcc, clang or Triton. It is taken as it is: lines are those of its line table, else its own, and
    counters are counted on PTX. --dynamic-shared is what the host would ask for (Triton: metadata.shared).
    """
    source = read_source(file)
    _check_ptx(source, file, {"--arch": arch, "--define": define, "--include": include, "--std": std})
    for folder in include or ():
        if not folder.is_dir():
            raise CommandError(f"--include {folder}: no such folder")
    kernel = only_kernel(source, file) if entry is None else entry
    shape = launch_shape(grid, block, dynamic_shared, cluster)
    defines = {}
    for item in define or []:
        name, _, value = item.partition("=")
        defines[name] = value or "1"
    from gemm_lessons.cli.guard import bounds_for, in_child

    most, sheet = bounds_for(time_limit, memory_limit), sheet_for(gpu)

    def work() -> int:
        from gemm_lessons.engine import inspection
        from gemm_lessons.report.console import Working, make_console
        from gemm_lessons.report.inspect import show_inspection, show_recorded

        request = inspection.InspectRequest(
            source, shown(file), kernel, shape, args, expect, tuple(symbol or ()), defines,
            (*(include or ()), file.resolve().parent), arch or "sm_90", seed, budget, most,
            sheet, estimating=not no_estimate, recording=roles, options=(f"-std={std}",) if std else (),
        )  # fmt: skip
        try:
            with Working(make_console(stderr=True), f"inspect {shown(file)}"):
                result = inspection.inspect(request)
        except (inspection.ArgumentError, UnknownArchitecture) as error:
            raise CommandError(str(error)) from None
        if as_json:
            import json

            typer.echo(json.dumps(inspection.as_json(result), indent=2, allow_nan=False))
        else:
            show_inspection(make_console(), result)
            if roles:
                show_recorded(make_console(), result)
        return contract.EXIT_PASSED if result.clean else contract.EXIT_NOT_PASSED

    return in_child(work, most)


def opcodes(
    opcode: Annotated[
        str | None, typer.Argument(metavar="[OPCODE]", help="Show every form of this instruction.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all names as JSON, for scripts.")] = False,
) -> int:
    """List the PTX instructions that the simulator runs, and those that it does not."""
    from gemm_lessons.engine.inspection import known_opcodes
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.inspect import show_opcodes

    found = known_opcodes()
    known, missing = found.supported, found.unsupported
    forms = [name for name in found.forms if opcode is None or name.partition(".")[0] == opcode]
    if opcode is not None and opcode not in known:
        raise CommandError(f"{opcode} is not supported; gemm-lessons opcodes lists what is")
    if as_json:
        import json

        typer.echo(json.dumps({"supported": known, "forms": forms, "unsupported": missing}, indent=2))
    elif opcode is not None:
        typer.echo("\n".join(forms) or f"{opcode}: {known[opcode]}")
    else:
        show_opcodes(make_console(), known, missing)
    return contract.EXIT_PASSED
