"""The command line: parse arguments, call a command, return an exit code.

    words --app.app_for--> Typer app with one command --> its function in a module of this room --> exit code

- ``commands``: the table of commands; ``app``: the Typer app, and the exit codes of failures
- ``options``: options that several commands share; ``launch``: those that describe a launch; ``guard``: commands that
  run kernels, in a child process
- ``learn``, ``practice``: from lesson to lesson; drills, predictions and bugs
- ``run``, ``check``, ``watch``, ``view``, ``compare``, ``inspect``, ``tune``, ``export``, ``site``, ``init``: the
  commands of these names; ``gpu``: ``bench`` and ``profile``; ``about``: ``doctor`` and ``version``
- ``dev``, ``grade``: for teachers
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.cli.app import app_for, app_to_complete
    from gemm_lessons.cli.options import parse_shape
    from gemm_lessons.cli.practice import practised
    from gemm_lessons.cli.run import DEFAULT_GPU, DeviceChoice, afford, device_for, sheet_for
else:
    __getattr__ = on_first_use(__name__)

forking = False  # whether the command line owns this process, so that it may run kernels in a child (``guard``)
