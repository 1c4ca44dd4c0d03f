"""Check that the compiled kernel has the name, and the number and sizes of parameters, that the lesson launches.

The compiler cannot check this: a kernel with another name or other parameters is valid CUDA, and launching it would
read missing arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from gemm_lessons.course.lesson import LaunchSpec, Lesson
from gemm_lessons.engine import Diagnostic
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.ptx import parser
from gemm_lessons.gemm.data import POINTER_SIZE


def wrong_name(lesson: Lesson, launch: LaunchSpec, diagnostics: Sequence[Diagnostic]) -> str | None:
    """Return the message when the compiler found no kernel of that name (its diagnostic lists the kernels found)."""
    if any(it.no_kernel for it in diagnostics):
        return f"there is no kernel named {launch.entry}. The lesson launches {lesson.prototype(launch)}"
    return None


def mismatch(lesson: Lesson, launch: LaunchSpec, compiled: Compiled) -> str | None:
    """Return the message when the parameters of the compiled kernel differ from those that the lesson passes, else
    None.

    Machine code keeps only sizes, so an ``int *`` in place of a ``float *`` is not detected.
    """
    found = parser.parse(compiled.ptx).parameters[compiled.entry]
    expected = lesson.parameters(launch)
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
    return f"{launch.entry} {what}. The lesson launches {lesson.prototype(launch)}"
