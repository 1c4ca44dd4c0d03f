"""The simulator's answers beside a GPU's, and beside those of another way to run the simulator."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from checks.foreign import launcher, runner
from checks.foreign.inputs import Array, Pointer
from checks.foreign.manifest import Case
from checks.foreign.table import Results, read

# Allowed difference, relative to large values of the buffer (their 90th percentile) or to the value itself. It covers
# approximate functions (ex2, rsqrt, sin: 2 to 4 ulp of float32, more after a sum of some hundred of them) and the order
# of atomic additions.
TOLERANCE = {"f2": 4e-3, "f4": 2e-5, "f8": 1e-12}
# Findings after which a value may be anything.
UNDEFINED = frozenset({"uninitialised", "unset", "race", "block_order", "out_of_bounds"})


@dataclass(frozen=True)
class Difference:
    """A buffer with different bits: the number of elements, the worst of them, and whether rounding explains them."""

    argument: int
    elements: int
    worst: float
    at: int
    ours: float
    theirs: float
    explained: bool

    def __str__(self) -> str:
        return (
            f"argument {self.argument}: {self.elements} elements differ, by {self.worst:.2g} of the largest;"
            f" [{self.at}] is {self.ours!r}, on the GPU {self.theirs!r}"
        )


def differences(case: Case, ours: tuple[Array, ...], changes: Mapping[int, Array]) -> list[Difference]:
    """The buffers that differ. ``changes``: argument -> the GPU's bytes, XORed with the input, as the launcher keeps
    them."""
    result = []
    waiting = iter(ours)
    for number, argument in enumerate(case.arguments):
        if not isinstance(argument, Pointer):
            continue
        mine = next(waiting)
        if number in changes:
            raw = argument.values(number).view(np.uint8) ^ changes[number]
            found = _difference(number, mine.reshape(-1), raw.view(mine.dtype).reshape(-1), argument)
            result += [found] if found else []
    return result


def _difference(number: int, ours: Array, theirs: Array, argument: Pointer) -> Difference | None:
    if argument.kind == "bf16":
        ours, theirs = ((a.astype(np.uint32) << np.uint32(16)).view(np.float32) for a in (ours, theirs))
    if ours.dtype.kind != "f":
        wrong = np.flatnonzero(ours != theirs)
        if not wrong.size:
            return None
        at = int(wrong[0])
        return Difference(number, wrong.size, 1.0, at, int(ours[at]), int(theirs[at]), False)
    bits = np.dtype(f"u{ours.dtype.itemsize}")
    same = (ours.view(bits) == theirs.view(bits)) | (np.isnan(ours) & np.isnan(theirs)) | (ours == theirs)
    if same.all():
        return None
    before = argument.values(number).reshape(-1)
    mine, others = ours.astype(np.float64), theirs.astype(np.float64)
    written = (mine != before) | (others != before)
    finite = np.isfinite(mine) & np.isfinite(others)
    scale = float(np.percentile(np.abs(others[finite & written]), 90)) if (finite & written).any() else 0.0
    with np.errstate(invalid="ignore"):
        apart = np.where(finite, np.abs(mine - others), np.inf)
        near = np.where(same, 0.0, np.minimum(apart / max(scale, 1e-300), apart / np.maximum(np.abs(others), 1e-300)))
    at = int(np.argmax(near))
    kind = "f2" if argument.kind == "bf16" else ours.dtype.str[1:]
    tolerance = 1e-2 if argument.kind == "bf16" else TOLERANCE[kind]
    return Difference(number, int((~same).sum()), float(near[at]), at, float(ours[at]), float(theirs[at]),
                      bool(near[at] <= tolerance))  # fmt: skip


def _open(ptx: str, record: Mapping[str, Any], steady: bool) -> str:
    """Why the launch has no unique result: findings of the simulator, a clock, or the order of atomics; else ""."""
    said = sorted({kind for kind, *_ in record["findings"]} & UNDEFINED)
    if said:
        return f"undefined (found {', '.join(said)})"
    if steady:
        return ""
    return "undefined (reads a clock)" if re.search(r"%clock|%globaltimer", ptx) else "undefined (order of atomics)"


def gpu_results(folder: Path) -> Results:
    """The launcher's lines by name."""
    return read(folder / "results.jsonl")


def write(
    cases: Iterable[Case], sources: Path, results: Path, folder: Path, strict: Sequence[tuple[Path, Path]] = ()
) -> None:
    """Judge what the launcher brought back; verdicts.json: kernel -> equal, contraction, rounding, undefined, wrong.

    ``strict``: results and readings of kernels compiled without contraction. ptxas may contract a product and a sum
    without rounding modifiers into one multiply-add; if the bits are equal without, that explains the difference.
    """
    ran = {name: row for name, row in read(results).items() if row["status"] == "ran"}
    lines, kept = gpu_results(folder), launcher.kept(folder)
    alone = {name for ours, theirs in strict for name in _same_bits(read(ours), gpu_results(theirs))}
    verdicts: dict[str, str] = {}
    different = []
    for case in cases:
        row = lines.get(case.name)
        if row is None or case.name not in ran:
            continue
        if "failed" in row:
            verdicts[case.name] = f"not compared: {row['failed']}"
        elif row["digests"] == ran[case.name]["digests"]:
            verdicts[case.name] = "equal"
        elif case.name in kept:
            different.append(case)
        else:
            verdicts[case.name] = "wrong: outputs not kept"
    for case, (record, pair) in zip(different, runner.run(different, sources, runner.How(counting=False)), strict=True):
        assert pair is not None
        found = differences(case, pair[1].after, kept[case.name])
        steady = lines[case.name]["steady"]
        text = "; ".join(map(str, found)) + ("" if steady else "; differs from run to run on the GPU")
        why = _open(pair[0].ptx, record, steady)
        if not found:
            verdicts[case.name] = "equal"
        elif case.name in alone:
            verdicts[case.name] = f"contraction: the same bits with -fmad=false; {text}"
        elif all(d.explained for d in found) and ".approx" in pair[0].ptx:
            verdicts[case.name] = f"rounding: {text}"
        else:
            verdicts[case.name] = f"{why or 'wrong'}: {text}"
    (folder / "verdicts.json").write_text(json.dumps(verdicts, indent=1))


def _same_bits(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> set[str]:
    return {n for n, row in theirs.items() if n in ours and row.get("digests", 0) == ours[n].get("digests")}
