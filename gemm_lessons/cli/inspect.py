"""``gemm-lessons inspect``: any kernel on the simulator, with its counters and findings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gemm_lessons.cli.launch import DescribedLaunch
from gemm_lessons.cli.options import grouped
from gemm_lessons.cli.run import DEFAULT_GPU, GPU
from gemm_lessons.course import CommandError, shown
from gemm_lessons.engine import UnknownArchitecture
from gemm_lessons.running import contract


@grouped
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A CUDA C++ file, or PTX.")],
    *,
    launch: DescribedLaunch,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the random inputs.")] = 0,
    timeline: Annotated[
        bool, typer.Option("--timeline", "--roles", help="Print an estimated timeline of roles or warps.")
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
    transposed), a=f32[M,K] box[8,32] (a tensor map, by value or by pointer, also ... swizzle 128). B=A+16 points 16
    elements into the array of A; f32[M,K/2] strides[K,1] box[8,32] at A is a tensor map of that array. p={x=f32[M],
    n={1,2}} is a struct by value, whose array is p.x elsewhere; a field may be a tensor map; fields that are left out
    are 0. t=texture f32[H,W] is a texture (also texture linear, border, wrap, mirror, normalized, normalized_float,
    layered; channels4 u8[H,W,4]), s=out surface f32[H,W] a surface.
    Numbers: M=256, alpha=1.5. M:=256 is a name for sizes only. Types: f64 f32 tf32 f16 bf16 e4m3 e5m2 i8 u8 ... i64
    u64.

    --symbol sets variables of the source: --symbol 'weights=f32[9], ns::scale=1.5'. Those that are out or inout are
    shown after the launch, such as --symbol 'total=out i32[1]', which starts with its value in the source.

    FILE may be PTX from nvcc, clang or Triton. It is taken as it is: lines are those of its line table, else its own.
    Counters are counted on its machine code if FILE.cubin is beside FILE.ptx, else on PTX. --dynamic-shared is what
    the host would request (Triton: metadata.shared).
    """
    from gemm_lessons.cli.guard import in_child

    def work() -> int:
        from gemm_lessons.engine import inspection
        from gemm_lessons.report import Working, make_console, show_inspection, show_timeline
        from gemm_lessons.view import view_of_launch

        request = launch.of(file, seed, gpu, estimating=not no_estimate, recording=timeline)
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
            if timeline and result.launched is not None:
                show_timeline(make_console(), view_of_launch(result).sides[0])
        return contract.EXIT_PASSED if result.clean else contract.EXIT_NOT_PASSED

    return in_child(work, launch.bounds)


def opcodes(
    opcode: Annotated[
        str | None, typer.Argument(metavar="[OPCODE]", help="Show every form of this instruction.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all names as JSON, for scripts.")] = False,
) -> int:
    """List the PTX instructions that the simulator runs, and those that it does not."""
    from gemm_lessons.engine.inspection import known_opcodes
    from gemm_lessons.report import make_console, show_opcodes

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
