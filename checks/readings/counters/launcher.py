"""The program that ncu profiles: loads the cubins of DIR with cupy and launches every case once, in a fixed order.

``python -m checks.readings.counters.launcher DIR suite|shared|global|copies|zeros SECONDS``; ``renew build`` first.
Runs on a machine with a GPU and cupy; nothing else is launched, so the profiler's n-th kernel is the n-th of what is in
DIR/GROUP.launched.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from checks.counters import patterns
from checks.counters.manifest import plan
from checks.usage import help_if_asked
from gemm_lessons.devices.gpu.functions import address, by_value, linear_texture, tensor_map
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar, StructWithBuffers, TensorMap, Texture

AT_ALL = 48 << 10  # bytes of dynamic shared memory that a launch may have without setting the attribute

Launch = tuple[str, str, Grid, list[Argument]]  # name, cubin key, shape, arguments


def _suite() -> Iterator[Launch]:
    for case in plan():
        yield case.name, case.key, case.shape, list(case.arguments())


def _shared() -> Iterator[Launch]:
    source = Buffer("source", np.zeros(4 * patterns.WARP, dtype=np.int32))
    shape = Grid((1, 1, 1), (patterns.WARP, 1, 1), 2 * patterns.WINDOW)
    for probe in patterns.SHARED_PROBES:
        table = patterns.as_array(patterns.shared_patterns(probe))
        for first in range(0, len(table), patterns.PROBES):
            part = Buffer("patterns", np.ascontiguousarray(table[first : first + patterns.PROBES]))
            yield f"{probe}/{first}", f"shared_probes/{patterns.KERNEL.get(probe, probe)}", shape, [part, source]


def _global() -> Iterator[Launch]:
    window = Buffer("window", np.zeros(2 * patterns.GLOBAL_WINDOW, dtype=np.uint8))
    shape = Grid((1, 1, 1), (patterns.WARP, 1, 1))
    for probe in patterns.GLOBAL_PROBES:
        table = patterns.as_array(patterns.global_patterns(probe))
        for first in range(0, len(table), patterns.PER_LAUNCH):
            part = np.ascontiguousarray(table[first : first + patterns.PER_LAUNCH])
            arguments: list[Argument] = [Buffer("patterns", part), window, Scalar("zero", np.int32(0))]
            yield f"{probe}/{first}", f"global_probes/{probe}", shape, arguments


def _copies() -> Iterator[Launch]:
    data = Buffer("data", np.zeros(patterns.COPIED * (patterns.PROBES + 1), dtype=np.uint8))
    shape = Grid((1, 1, 1), (patterns.WARP, 1, 1), 2 * patterns.WINDOW)
    for probe in (*patterns.COPY_PROBES, patterns.BYPASS):
        targets, sources = (patterns.as_array(found) for found in patterns.copy_patterns(probe))
        step = 1 if probe == patterns.BYPASS else patterns.PROBES
        for first in range(0, len(targets), step):
            part = slice(first, first + step)
            tables: list[Argument] = [
                Buffer(name, np.ascontiguousarray(table[part])) for name, table in (("to", targets), ("from", sources))
            ]
            yield f"{probe}/{first}", f"copy_probes/{probe}", shape, [*tables, data]


def _zeros() -> Iterator[Launch]:
    data = Buffer("data", np.zeros(patterns.COPIED * 4098, dtype=np.uint8))
    per = patterns.ZEROS_PER_LAUNCH
    shape = Grid((sum(patterns.ZEROS_BASE**p for p in range(per)), 1, 1), (patterns.WARP, 1, 1), patterns.WINDOW)
    for probe in patterns.ZERO_PROBES:
        tables = [patterns.as_array(found) for found in patterns.zero_patterns(probe)]
        for first in range(0, len(tables[0]), per):
            parts: list[Argument] = [
                Buffer(name, np.ascontiguousarray(table[first : first + per]))
                for name, table in zip(("to", "from", "sizes"), tables, strict=True)
            ]
            yield f"{probe}/{first}", f"zero_probes/{probe}", shape, [*parts, data]


PLANS = {"copies": _copies, "zeros": _zeros, "suite": _suite, "shared": _shared, "global": _global}


def launches(which: str) -> Iterator[Launch]:
    """What is launched, in order: (name, cubin key, shape, arguments)."""
    return PLANS[which]()


def _on_device(argument: Argument, cupy: Any, kept: list[Any]) -> Any:
    if isinstance(argument, Buffer):
        array = np.ascontiguousarray(argument.array)
        kept.append(cupy.asarray(array.reshape(-1).view(np.uint8)))
        return kept[-1]
    if isinstance(argument, Scalar):
        return argument.value
    if isinstance(argument, Texture):
        array = cupy.asarray(argument.array)
        texture = linear_texture(array.data.ptr, array.nbytes, array.dtype.name, argument.channels)
        kept += [array, texture]
        return by_value(address(texture.ptr))
    if isinstance(argument, TensorMap):
        assert isinstance(argument.pointer, Buffer)
        return tensor_map(_on_device(argument.pointer, cupy, kept).data.ptr, argument.described)
    if not isinstance(argument, StructWithBuffers):
        raise TypeError(f"{argument.name} is neither a buffer nor a number")
    raw = bytearray(argument.raw)
    for offset, buffer in argument.pointers.items():
        raw[offset : offset + 8] = int(_on_device(buffer, cupy, kept).data.ptr).to_bytes(8, "little")
    return np.frombuffer(bytes(raw), np.dtype((np.void, len(raw))))[0]


def main(folder: Path, which: str, seconds: float) -> None:
    """Launch everything, or what fits into ``seconds``: the profiler writes its report when this ends by itself."""
    import cupy

    built = json.loads((folder / "index.json").read_text())
    modules: dict[str, Any] = {}
    start = time.monotonic()
    done = []
    for name, key, shape, arguments in launches(which):
        if time.monotonic() - start > seconds:
            break
        if name in built["skip"]:
            continue
        file, kernel, _ = built["kernels"][key]
        if file not in modules:
            modules[file] = cupy.RawModule(path=str(folder / file))
        function = modules[file].get_function(kernel)
        if shape.dynamic_shared > AT_ALL:
            function.max_dynamic_shared_size_bytes = shape.dynamic_shared
        kept: list[Any] = []
        try:
            device = tuple(_on_device(argument, cupy, kept) for argument in arguments)
            function(shape.grid, shape.block, device, shared_mem=shape.dynamic_shared)
            cupy.cuda.runtime.deviceSynchronize()
        except (cupy.cuda.runtime.CUDARuntimeError, TypeError) as error:
            print(f"{name}: {error}", flush=True)
            if not isinstance(error, TypeError):
                break
            continue
        done.append(name)
    (folder / f"{which}.launched.json").write_text(json.dumps(done))
    print(f"{which}: {len(done)} launched in {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
