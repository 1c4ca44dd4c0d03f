"""Cost of memory accesses: wavefronts of shared memory, sectors of global memory.

    in:   byte addresses int64 (warps, 32), active lanes bool (warps, 32) or None, bytes per lane
    held: Tally per memory instruction; its Footprint, a hash modulo 2**64 of the bytes and threads
    out:  wavefronts, ideal and sectors, int64 (warps,); Sums of a launch

- ``banks``: loads, stores, atomics, ldmatrix, textures; ``copies``: cp.async
- ``footprint``: hash of the bytes touched; ``tally``: sums over a launch
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.engine.costs import banks
    from gemm_lessons.engine.costs.banks import BANKS, SECTOR, WORD, AccessKind
    from gemm_lessons.engine.costs.tally import Sums
else:
    __getattr__ = on_first_use(__name__)
