"""GPUs: data sheets, and the number of blocks that fit on a multiprocessor.

- ``sheets``: data sheets, from the files in ``cards/``, and the peaks that follow
- ``pipes``: latencies and rates of an architecture; ``occupancy``: theoretical occupancy
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.engine.hardware.occupancy import Occupancy, Resources, block_limits, most, occupancy_of
    from gemm_lessons.engine.hardware.sheets import (
        OLDEST_ARCH, WARP, Peak, buildable, capability_of, data_sheet, dotted, peaks, pipes_of, sheet_of,
    )  # fmt: skip
else:
    __getattr__ = on_first_use(__name__)
