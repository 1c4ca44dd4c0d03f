"""Compile a source that a check knows to be right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled


def must_compile(source: str, *, path: str = "k.cu", entry: str = "k", **options: Any) -> Compiled:
    """The kernel ``entry`` of a source, compiled with the options of ``compile_source``."""
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source  # a machine that measures has no compiler

    made = compile_source(source, path=path, entry=entry, **options)
    assert isinstance(made, Compiled), f"{path}: {made.log}"
    return made
