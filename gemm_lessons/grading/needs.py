"""The measured time and memory of judging each lesson's reference, and the limits that follow for a grading system.

hosts/needs.toml, written by python -m checks.grading.needs  --needs_of(lessons)-->  limits, memory, time
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from gemm_lessons.engine.records import dataclass

NEEDS = Path(__file__).parent / "hosts" / "needs.toml"
SLOWER = 5.0  # times the reference's seconds: an honest kernel may be slower, and so may the machine
LARGER = 1.6  # times the reference's memory
FEWEST_S, LEAST_GIB = 15.0, 0.25
UNKNOWN_S, UNKNOWN_GIB = 60.0, 2.0  # limits of a lesson without a measurement
UNKNOWN_BYTES = 700 << 20  # resident, of a process that judges such a lesson
KIT_MIB = 60  # resident: the command, and the part of the fork server that it does not share with the judging process


@dataclass(frozen=True)
class Need:
    """Measurements of one lesson. ``seconds``: processor time of the judging process; ``all_seconds``: with compiler
    and disassembler. ``memory_mib``: beyond the kit's own at its start; ``resident_mib``: in all."""

    seconds: float
    all_seconds: float
    memory_mib: int
    resident_mib: int

    @property
    def limit_seconds(self) -> float:
        """Return the limit of processor time for one kernel."""
        return max(FEWEST_S, math.ceil(SLOWER * self.seconds))

    @property
    def limit_gib(self) -> float:
        """Return the limit of memory for one kernel, in steps of 0.05 GiB."""
        return max(LEAST_GIB, math.ceil(20 * LARGER * self.memory_mib / 1024) / 20)


def load_needs() -> Mapping[str, Need]:
    """Return the measurements by lesson, without its number."""
    try:
        raw = tomllib.loads(NEEDS.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {name: Need(**values) for name, values in raw.items()}


def resident_bytes(lessons: Iterable[str]) -> int:
    """Return the bytes of a process that judges the references of ``lessons``: those of the largest."""
    needs = load_needs()
    found = (needs[it[3:]].resident_mib << 20 if it[3:] in needs else UNKNOWN_BYTES for it in lessons)
    return max(found, default=UNKNOWN_BYTES)


def limits_toml(lessons: Iterable[str]) -> str:
    """Return the tables of ``grading.toml`` with the limits of ``lessons`` (``03_block_tile``)."""
    needs = load_needs()
    tables = []
    for lesson in lessons:
        need = needs.get(lesson[3:])
        seconds, memory = (need.limit_seconds, need.limit_gib) if need else (UNKNOWN_S, UNKNOWN_GIB)
        tables.append(f"[lesson.{lesson[3:]}]\nlimits = {{ seconds = {seconds:g}, memory_gib = {memory:g} }}\n")
    return "\n".join(tables)


@dataclass(frozen=True)
class Total:
    """Memory and time of the references of some lessons, and (``most_``) of kernels at their limits."""

    memory_mib: int  # of the largest
    seconds: float  # processor time of all
    most_memory_mib: int
    most_seconds: float
    unknown: tuple[str, ...] = ()  # lessons without a measurement


def total_of(lessons: Iterable[str]) -> Total:
    """Return the totals of ``lessons``, with what the kit itself takes."""
    needs, chosen = load_needs(), list(lessons)
    found = [needs[it[3:]] for it in chosen if it[3:] in needs]
    largest = max(found, key=lambda it: it.resident_mib, default=Need(0, 0, 0, 0))
    most = max((it.resident_mib - it.memory_mib + round(1024 * it.limit_gib) for it in found), default=0)
    return Total(
        KIT_MIB + largest.resident_mib,
        round(sum(it.all_seconds for it in found), 1),
        KIT_MIB + most,
        round(sum(it.limit_seconds + it.all_seconds - it.seconds for it in found), 1),
        tuple(it for it in chosen if it[3:] not in needs),
    )
