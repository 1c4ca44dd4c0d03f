"""NVTX ranges: every stage of a run is a named range in the domain ``gemm-lessons``, on both devices.

Without a listener (Nsight Systems, Nsight Compute, an injection library) a range costs about a microsecond.

    with stage("check", "128x128x64", payload=flops):
        ...
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Literal

import nvtx

DOMAIN = "gemm-lessons"
Stage = Literal["lesson", "compile", "check", "count", "time"]
# ARGB. Numbers, since nvtx asks matplotlib for most names.
COLOURS: Mapping[Stage, int] = {
    "lesson": 0xFF_4C_72_B0,
    "compile": 0xFF_DD_84_52,
    "check": 0xFF_55_A8_68,
    "count": 0xFF_81_72_B3,
    "time": 0xFF_C4_4E_52,
}


def stage(stage: Stage, what: str = "", payload: int | None = None) -> AbstractContextManager[object]:
    """A range named ``stage`` or ``stage what``, nested in the range that encloses it.

    ``payload``: the lesson's number, the bytes of source to compile, or the floating-point operations to launch.
    """
    name = f"{stage} {what}" if what else stage
    annotation: AbstractContextManager[object] = nvtx.annotate(
        name, color=COLOURS[stage], domain=DOMAIN, payload=payload
    )
    return annotation
