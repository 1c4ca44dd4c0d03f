"""Is the compiled kernel the one that the lesson launches? Its name, and its parameters' number and sizes.

The compiler cannot know: a kernel with another name or other parameters is valid CUDA, and launching it would read
arguments that are not there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gemm_lessons.compiler import Compiled
from gemm_lessons.diagnostics import Diagnostic
from gemm_lessons.lesson import KernelSpec
from gemm_lessons.problem import POINTER_SIZE, prototype, signature
from gemm_lessons.simulator import ptx

NAME_MAP = "__nv_name_map"  # the file that NVRTC invents to look a kernel's name up
KERNEL = re.compile(r"\b__global__\s[^(){};]*?(?:__launch_bounds__\s*\([^{};]*?\)\s*)?(\w+)\s*\(")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def wrong_name(kernel: KernelSpec, source: str, diagnostics: Sequence[Diagnostic]) -> str | None:
    """What to say when all that failed was to find the kernel by its name, else None."""
    if not diagnostics or any(d.file != NAME_MAP for d in diagnostics if d.severity == "error"):
        return None
    found = KERNEL.findall(COMMENT.sub(" ", source))
    has = f"the file has {', '.join(found)}" if found else "the file has no __global__ function"
    return f"there is no kernel named {kernel.entry}; {has}. The lesson launches {prototype(kernel)}"


def mismatch(kernel: KernelSpec, compiled: Compiled) -> str | None:
    """What to say when the parameters of the compiled kernel are not those that the lesson passes, else None.

    Machine code keeps only their sizes, so an ``int *`` in the place of a ``float *`` is not seen.
    """
    found = ptx.parse(compiled.ptx).kernels[compiled.entry].parameters
    expected = signature(kernel)
    if [parameter.size for parameter in found] == [parameter.size for parameter in expected]:
        return None
    if len(found) != len(expected):
        what = f"takes {len(found)} parameter{'s'[: len(found) != 1]}, the lesson passes {len(expected)}"
    else:
        number, is_, want = next(
            (i, f.size, e) for i, (f, e) in enumerate(zip(found, expected, strict=True)) if f.size != e.size
        )
        kind = "a pointer" if want.size == POINTER_SIZE and want.type.endswith("*") else want.type
        what = f"has {is_} bytes as parameter {number + 1}, the lesson passes {want.name} there, {kind} of {want.size}"
    return f"{kernel.entry} {what}. The lesson launches {prototype(kernel)}"
