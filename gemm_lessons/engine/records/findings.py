"""What a device found wrong, or suspicious, during a launch."""

from __future__ import annotations

from typing import Literal

from gemm_lessons.engine.records.frozen import dataclass

Severity = Literal["error", "warning", "note"]


OWN_ARRAY = "a thread's own array"  # what findings call memory without __shared__


@dataclass(frozen=True)
class Finding:
    """Something wrong (or suspicious) that the device saw, in the words shown to the learner.

    ``kind`` is a stable identifier such as ``out_of_bounds``, ``misaligned``, ``race``, ``uninitialised``,
    ``unset`` (a register), ``divergent_barrier``, ``deadlock``, ``timeout``, ``trap``, ``illegal_access``. ``line`` and
    ``other_line`` count from 1 in ``file`` (``other_line`` in ``other_file``, where that is another one); ``None`` when
    the compiler left no line. ``detail`` tells findings of one
    kind apart for whoever advises: of a race, which memory and what the two accesses do (``shared store load``).
    """

    kind: str
    severity: Severity
    message: str
    line: int | None = None
    other_line: int | None = None
    count: int = 1
    file: str = ""
    detail: str = ""
    other_file: str = ""
