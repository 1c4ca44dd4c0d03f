"""The program that ncu profiles: loads the carried cubins with cupy and launches every case once, in a fixed order.

``python -m checks.counters.launcher DIR suite|shared|global``, where DIR was filled by ``renew.py build``. Runs on a
GPU machine with cupy; only kernels of ours are launched, so the profiler's n-th kernel is the n-th entry of the plan.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from checks.counters import patterns
from checks.counters.manifest import Array, plan

Launch = tuple[str, str, tuple[int, int, int], tuple[int, int, int], int, list[Any]]  # name, cubin key, grid, ...


def _suite() -> Iterator[Launch]:
    for case in plan():
        arguments: list[Any] = []
        for argument in case.arguments:
            if isinstance(argument, Array):
                arguments.append(argument.values())
            else:
                arguments.append(np.uint32(argument) if argument >= 1 << 31 else np.int32(argument))
        yield case.name, case.key, case.grid, case.block, case.dynamic_shared, arguments


def _shared() -> Iterator[Launch]:
    source = np.zeros(4 * patterns.WARP, dtype=np.int32)
    for probe in patterns.SHARED_PROBES:
        table = patterns.as_array(patterns.shared_patterns(probe))
        for first in range(0, len(table), patterns.PROBES):
            part = np.ascontiguousarray(table[first : first + patterns.PROBES])
            yield f"{probe}/{first}", f"shared_probes/{probe}", (1, 1, 1), (32, 1, 1), 2 * patterns.WINDOW, [part, source]


def _global() -> Iterator[Launch]:
    window = np.zeros(2 * patterns.GLOBAL_WINDOW, dtype=np.uint8)
    for probe in patterns.GLOBAL_PROBES:
        table = patterns.as_array(patterns.global_patterns(probe))
        for first in range(0, len(table), patterns.PER_LAUNCH):
            part = np.ascontiguousarray(table[first : first + patterns.PER_LAUNCH])
            arguments = [part, window, np.int32(0)]
            yield f"{probe}/{first}", f"global_probes/{probe}", (1, 1, 1), (32, 1, 1), 0, arguments


PLANS = {"suite": _suite, "shared": _shared, "global": _global}


def launches(which: str) -> Iterator[Launch]:
    """What is launched, in order: (name, cubin key, grid, block, dynamic shared bytes, host arguments)."""
    return PLANS[which]()


def main(folder: Path, which: str) -> None:
    import cupy

    index = json.loads((folder / "index.json").read_text())
    modules: dict[str, Any] = {}
    for name, key, grid, block, dynamic_shared, arguments in launches(which):
        file, kernel = index[key]
        if file not in modules:
            modules[file] = cupy.RawModule(path=str(folder / file))
        function = modules[file].get_function(kernel)
        device = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        try:
            function(grid, block, tuple(device), shared_mem=dynamic_shared)
            cupy.cuda.runtime.deviceSynchronize()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise SystemExit(f"{name}: {error}") from error
    print(f"{which}: all launched")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
