"""The work of commands other than ``run``.

- ``bench`` with its ``points``, ``tuning``: many kernels, shapes, tiles; both can be continued from the lines of
  their CSV files
- ``comparing``, ``profiling``, ``doctor``: ``compare``, ``profile``, ``doctor``
- ``simulated_report``: ``profile --report``
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.commands import profiling
    from gemm_lessons.commands.bench import (
        WAVEFRONT_BYTES, BenchRequest, Note, Result, TellSteps, bench_as_json, flop_per_byte, run_bench,
    )  # fmt: skip
    from gemm_lessons.commands.comparing import (
        Comparison, ComparedKernel, Cost, Difference, Pair, compare, of_launches, of_rows, slower_as_json,
    )  # fmt: skip
    from gemm_lessons.commands.doctor import Check, examine
    from gemm_lessons.commands.points import Group, Line, Point, is_square, label
    from gemm_lessons.commands.profiling import COUNTED, ProfilePlan, Profiled
    from gemm_lessons.commands.simulated_report import report_of
    from gemm_lessons.commands.tuning import TileCandidate, TuneRequest, Tuning, tune
else:
    __getattr__ = on_first_use(__name__)
