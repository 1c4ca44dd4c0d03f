"""Runs a manifest's kernels on the simulator, one JSON line each: ``python -m checks.foreign run``."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.foreign import inputs
from checks.foreign.build import compiled
from checks.foreign.execute import Outcome, TooSlow, launch
from checks.foreign.manifest import Case, folder_of
from checks.simulator.property.comparison import tricks_off
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled
from gemm_lessons.engine.ptx.records import PtxSyntaxError
from gemm_lessons.engine.records.errors import KitError, UnsupportedKernel
from gemm_lessons.engine.records.metrics import METRICS
from gemm_lessons.engine.simulator import Setting

SECONDS = 60
# Bugs of the kit: neither a result nor "unsupported".
CRASHES = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
           PtxSyntaxError)  # fmt: skip


@dataclass(frozen=True)
class How:
    """How to run. ``counting``: with counters, and so with the comparison of both engines. ``options`` of the compiler.
    ``plain``: one instruction and one block at a time, without the machine's optimisations."""

    counting: bool = True
    options: tuple[str, ...] = ()
    plain: bool = False


DEFAULT = How()


def run(cases: Iterable[Case], sources: Path, how: How = DEFAULT) -> Iterator[tuple[dict[str, Any], Any]]:
    """(record, (compiled, outcome) or None) of every case."""
    for case in cases:
        start = time.monotonic()
        record, pair = _one(case, sources, how)
        yield {"name": case.name, **record, "seconds": round(time.monotonic() - start, 2)}, pair


def _one(case: Case, sources: Path, how: How) -> tuple[dict[str, Any], tuple[Compiled, Outcome] | None]:
    root = folder_of(sources, case.repository)
    file = root / case.file
    if not file.is_file():
        return {"status": "not fetched", "why": case.file}, None
    result = compiled(file, root, case.entry, case.defines, how.options)
    if isinstance(result, NotCompiled):
        errors = [d.message for d in result.diagnostics if d.severity == "error"]
        return {"status": "refused", "why": f"compiler: {(errors or [result.log])[0][:200]}"}, None
    try:
        setting = Setting(block_limit=1 if how.plain else None, counting=how.counting)
        with tricks_off() if how.plain else contextlib.nullcontext():
            outcome = launch(result, case.shape, case.arguments, setting, SECONDS)
    except UnsupportedKernel as problem:
        return {"status": "refused", "why": str(problem)[:200]}, None
    except TooSlow:
        return {"status": "refused", "why": f"slower than {SECONDS} s"}, None
    except KitError as problem:
        return {"status": "disagree", "why": str(problem)[:400]}, None
    except CRASHES as problem:
        return {"status": "crashed", "why": f"{type(problem).__name__}: {problem}"[:200]}, None
    launched = outcome.launched
    found = [*([launched.fault] if launched.fault else []), *launched.findings]
    totals = launched.counters.totals
    record = {
        "status": "ran",
        "findings": [[f.kind, f.severity, f.line, f.message[:200]] for f in found],
        "digests": [inputs.digest(array) for array in outcome.after],
        "changed": outcome.changed,
        "counters": {short: totals[name] for short, name in METRICS.items() if name in totals},
        "inexact": sorted(set(launched.counters.inexact.values()))[:3],
        "compiler": result.compiler,
    }
    return record, (result, outcome)


def write(
    cases: Iterable[Case], sources: Path, results: Path, how: How = DEFAULT, launches: Path | None = None
) -> None:
    """Run every case; write one line each into ``results`` and, for a GPU, the folder ``launches``."""
    rows = []
    if launches:
        launches.mkdir(parents=True, exist_ok=True)
    cases = tuple(cases)
    by_name = {case.name: case for case in cases}
    with results.open("w") as file:
        for record, pair in run(cases, sources, how):
            file.write(json.dumps(record) + "\n")
            file.flush()
            faults = [f for f in record.get("findings", ()) if f[0] in ("out_of_bounds", "misaligned", "timeout")]
            if launches and pair and pair[1].launched.fault is None and not faults:
                rows.append(_for_gpu(by_name[record["name"]], pair[0], pair[1], launches))
    if launches:
        (launches / "launches.json").write_text(json.dumps(rows))
        for module in ("inputs.py", "launcher.py"):
            shutil.copy(Path(__file__).parent / module, launches / module)


def _for_gpu(case: Case, result: Compiled, outcome: Outcome, folder: Path) -> dict[str, Any]:
    name = f"{hashlib.sha256(result.cubin).hexdigest()[:16]}.cubin"
    (folder / name).write_bytes(result.cubin)
    return {
        "name": case.name,
        "cubin": name,
        "kernel": result.entry,
        "grid": case.shape.grid,
        "block": case.shape.block,
        "shared": case.shape.dynamic_shared,
        "cooperative": "%envreg" in result.ptx,
        "arguments": [str(argument) for argument in case.arguments],
        "expected": [inputs.digest(array) for array in outcome.after],
    }
