"""Estimate the time of a launch on a GPU that is not present, from traced machine code and a data sheet.

    in:   sass.Trace of the blocks resident on one multiprocessor, GpuSpec
    held: per warp: the next item, the clock when it can issue, its scoreboards; per unit: the clock when it is free
    out:  LaunchEstimate, in microseconds; Recording, in clocks

- ``launch``: a launch of any kernel; ``traffic``: which of its accesses L1, L2 and DRAM serve; ``chip``: rules that it
  shares with the model of matrix products, and the clock of a chip at its power limit
- ``timeline``: simulation of one multiprocessor; ``recording``: the same, recorded; ``phases``: its mbarriers
- ``items``: traced instructions with unit and duration; ``fetching``: their code, and the instruction cache
- ``causes``: an estimated time shared out over causes
- ``profile``: a launch at any depth K, from traces at two
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.engine.estimate.causes import CAUSES, Cause, LineShare
    from gemm_lessons.engine.estimate.chip import (
        LAST_US, LAUNCH_US, NEXT_US, at_power_limit, at_work, limiter_of,
    )  # fmt: skip
    from gemm_lessons.engine.estimate.items import unknown_units
    from gemm_lessons.engine.estimate.profile import TILES, CopiedBoxes, LoopProfile, TracedKernel, Traces
    from gemm_lessons.engine.estimate.recording import Recording, record
    from gemm_lessons.engine.estimate.traffic import dram_rate, missed_by_l2
else:
    __getattr__ = on_first_use(__name__)
