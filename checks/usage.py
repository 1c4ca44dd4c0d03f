"""Commands whose arguments need no parser: their answer to ``--help`` is the docstring of the command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path


def help_if_asked(text: str | None) -> None:
    """Print ``text`` and exit, before the command begins its work, if an argument asks for help."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print((text or "").strip())
        raise SystemExit(0)


def compile_or_run(compile_: Callable[[Path], object], run: Callable[[Path, Path], object]) -> None:
    """Obey ``compile FOLDER`` and ``run FOLDER FILE``: kernels are compiled here, and run on the machine with a GPU."""
    if sys.argv[1] == "compile":
        compile_(Path(sys.argv[2]))
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
