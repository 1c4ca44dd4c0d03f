"""``gemm-lessons doctor`` and ``version``."""

from __future__ import annotations

import typer

from gemm_lessons import __version__
from gemm_lessons.cli.options import NoColor
from gemm_lessons.running import contract


def doctor(no_color: NoColor = False) -> int:
    """Check everything that a run needs, and say how to fix it."""
    from gemm_lessons.commands import examine
    from gemm_lessons.grading import walls_around_grading
    from gemm_lessons.report import Working, make_console, show_doctor

    with Working(make_console(stderr=True), "examining"):
        checks = [*examine(), walls_around_grading()]
    show_doctor(make_console(), checks)
    works = all(check.state != "missing" for check in checks)
    return contract.EXIT_PASSED if works else contract.EXIT_BROKEN


def version(no_color: NoColor = False) -> int:
    """Print the version of gemm-lessons."""
    typer.echo(f"gemm-lessons {__version__}")
    return contract.EXIT_PASSED
