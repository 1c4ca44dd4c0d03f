"""The stored readings: Nsight Compute's counters on a GPU, with the machine code and the tools they belong to.

``suite.json`` has one entry per kernel of the manifest, ``shared_probes.json``, ``global_probes.json``,
``copy_probes.json`` and ``zero_probes.json`` one number per pattern. ``checks/readings/counters/renew.py`` writes them;
tests and ``table.py`` read them, without a GPU.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from checks import readings
from gemm_lessons.engine.compiler import elf
from gemm_lessons.engine.records.metrics import COUNTED

FOLDER = readings.FOLDER / "counters"

# Compared counters: short name -> metric of Nsight Compute.
COMPARED: Mapping[str, str] = {
    name: COUNTED[name]
    for name in (
        "shared_wavefronts",
        "shared_wavefronts_ideal",
        "shared_load_instructions",
        "shared_store_instructions",
        "global_load_instructions",
        "global_store_instructions",
        "global_load_requests",
        "global_store_requests",
        "global_load_sectors",
        "global_store_sectors",
        "ffma",
        # not zero only in kernels for tensor cores, fp64, packed bytes, copies and reductions
        "dfma",
        "fp64_instructions",
        "hmma",
        "imma",
        "dmma",
        "ldmatrix",
        "stmatrix",
        "async_copies",
        "global_reductions",
        "global_reduction_sectors",
    )
}
# TMA, kept if not zero: warps that request boxes, and sectors that arrive, those of multicast in each block.
BOXES: Mapping[str, str] = {
    "boxes": "smsp__inst_executed_op_tma_ld.sum",
    "box_sectors": "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
    "multicast_sectors": COUNTED["multicast_sectors"],
    "stored_boxes": "smsp__inst_executed_op_tma_st.sum",
    "stored_box_sectors": "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum",
}


@dataclass(frozen=True)
class Session:
    """Where and when readings were taken, and with what."""

    gpu: str
    driver: str
    profiler: str
    compiler: str
    date: str


@dataclass(frozen=True)
class Reading:
    """One kernel on hardware. ``executed``: warps per machine instruction, as (instructions in a row, warps) pairs."""

    code: str  # ``code_of`` the cubin that ran
    session: int
    metrics: Mapping[str, int]  # by short name
    executed: Sequence[tuple[int, int]] = ()

    @property
    def numbers(self) -> Mapping[str, int]:
        """``metrics``, and all instructions of all warps: ``smsp__inst_executed.sum``."""
        return {**self.metrics, "warp_instructions": sum(count * warps for count, warps in self.executed)}


@dataclass(frozen=True)
class Readings:
    """All kernels of the suite that were measured, by name."""

    sessions: Sequence[Session] = ()
    kernels: Mapping[str, Reading] = field(default_factory=dict)


def code_of(data: bytes, entry: str) -> str:
    """Hash of a kernel's machine code; line information and other kernels of the cubin do not affect it."""
    wanted = f".text.{entry}"
    text = next(section.data for section in elf.sections(data) if section.name == wanted)
    return hashlib.sha256(text).hexdigest()[:16]


def load() -> Readings:
    """The stored suite; empty when there is none."""
    path = FOLDER / "suite.json"
    if not path.exists():
        return Readings()
    data = json.loads(path.read_text())
    kernels = {
        name: Reading(one["code"], one["session"], one["metrics"], [(n, w) for n, w in one["executed"]])
        for name, one in data["kernels"].items()
    }
    return Readings([Session(**one) for one in data["sessions"]], kernels)


def save(readings: Readings) -> None:
    """One line per kernel."""
    kernels = ",\n".join(f"  {json.dumps(name)}: {_compact(asdict(one))}" for name, one in readings.kernels.items())
    sessions = ",\n".join(f"  {json.dumps(asdict(one))}" for one in readings.sessions)
    (FOLDER / "suite.json").write_text(f'{{"sessions": [\n{sessions}\n],\n"kernels": {{\n{kernels}\n}}}}\n')


def load_probes(name: str) -> dict[str, Any]:
    """``shared_probes``, ``global_probes`` or ``copy_probes``: {"session", "probes": {probe: {counter: [...]}}}."""
    data: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return data


def save_probes(name: str, session: Session, probes: Mapping[str, Mapping[str, Sequence[int]]]) -> None:
    """One line per probe and counter."""
    body = ",\n".join(
        f"  {json.dumps(probe)}: {{\n"
        + ",\n".join(f"    {json.dumps(counter)}: {_compact(values)}" for counter, values in counters.items())
        + "\n  }"
        for probe, counters in probes.items()
    )
    text = f'{{"session": {json.dumps(asdict(session))},\n"probes": {{\n{body}\n}}}}\n'
    (FOLDER / f"{name}.json").write_text(text)


def run_lengths(values: Iterable[int]) -> list[tuple[int, int]]:
    """[3, 3, 5] -> [(2, 3), (1, 5)]."""
    result: list[tuple[int, int]] = []
    for value in values:
        if result and result[-1][1] == value:
            result[-1] = (result[-1][0] + 1, value)
        else:
            result.append((1, value))
    return result


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
