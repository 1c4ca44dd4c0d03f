"""CUDA's own headers.

Code inlined from them is attributed to the line that calls it: a learner with bank conflicts in ``load_matrix_sync``
does not have ``mma.hpp`` open.
"""

from __future__ import annotations

from functools import lru_cache

from gemm_lessons.engine.records.regex import regex

# The folders of wheels (nvidia/cu13/include, nvidia/cuda_runtime/include), of installed toolkits, and lessons/common.
_FOLDER = regex(r"/(nvidia/cu\w+|cuda[-.\w]*)/(targets/[^/]+/)?include/|/lessons/common/")


@lru_cache(maxsize=256)
def is_toolkit_header(path: str) -> bool:
    """Return whether a file belongs to CUDA or to the lessons' common files, by its path."""
    return _FOLDER.search(path) is not None
