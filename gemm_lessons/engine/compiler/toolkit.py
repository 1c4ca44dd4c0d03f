"""Which files are CUDA's own headers.

What is inlined from them belongs to the line that calls it: who reads that ``load_matrix_sync`` has bank conflicts does
not have ``mma.hpp`` open.
"""

from __future__ import annotations

import re
from functools import lru_cache

# The folders of wheels (nvidia/cu13/include, nvidia/cuda_runtime/include), of installed toolkits, and lessons/common.
_FOLDER = re.compile(r"/(nvidia/cu\w+|cuda[-.\w]*)/(targets/[^/]+/)?include/|/lessons/common/")


@lru_cache(maxsize=256)
def is_toolkit_header(path: str) -> bool:
    """Whether a file belongs to CUDA or to what the lessons share, by its path."""
    return _FOLDER.search(path) is not None
