"""What a fetch through a texture costs a multiprocessor. ``python -m checks.readings.estimate.fetches > NAME.json``.

Needs CuPy and a GPU; some seconds. Clocks per iteration of ``fetches.cu``, for each of ``LAUNCHES``. ``again``: the
same texels in each iteration, from L1; ``on``: others, from L2.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checks.readings.estimate.turns import write
from checks.usage import help_if_asked

SOURCE = Path(__file__).with_suffix(".cu")
LAUNCHES = ((1, 1), (132, 1), (132, 2), (132, 4), (132, 8), (132, 12))  # blocks, warps of a block
MIXES = ((1, 0, 0), (0, 1, 0), (2, 0, 0), (4, 0, 0), (0, 4, 0), (4, 0, 8), (0, 4, 8))  # fetches, loads, shared loads
SIDE = {32: "all lanes side by side", 2: "two lanes a row", 4: "four lanes a row"}
PITCH, TURNS, SHARED = 256, 200, 64 << 10  # texels of a row; iterations of a launch; bytes of a block
STEP = {32: 32, 2: 2, 4: 8 * PITCH}  # texels from one iteration to the next with ``on``
APART = {32: 32 * 64, 2: 16 * PITCH, 4: 4}  # texels from one fetch of an iteration to the next with ``on``


def probes() -> Iterator[tuple[str, tuple[int, int, int], int, bool]]:
    """Name, mix (fetches, loads, shared loads), lanes side by side, and whether other texels are read each time."""
    yield "8 shared loads", (0, 0, 8), 32, False
    for mix in MIXES:
        words = ("fetches", "loads", "shared loads")
        told = ", ".join(f"{count} {word}" for count, word in zip(mix, words, strict=True) if count)
        for lanes, side in SIDE.items():
            for on in (False, True):
                yield f"{told}, {side}, {'on' if on else 'again'}", mix, lanes, on


def main() -> None:
    import cupy
    import numpy as np

    from gemm_lessons.devices.gpu.functions import address, by_value, linear_texture

    numbers = cupy.random.rand(1 << 23, dtype=cupy.float32)  # 32 MB: they stay in L2
    texture = linear_texture(numbers.data.ptr, numbers.nbytes, "float32", 4)
    out, sink = cupy.zeros(1 << 12, cupy.uint32), cupy.zeros(1, cupy.float32)
    clocks: dict[str, list[float]] = {}
    for name, (fetches, loads, shared), lanes, on in probes():
        chain = not shared
        sizes = {"FETCHES": fetches, "LOADS": loads, "SHARED": shared, "ROWS": lanes, "CHAIN": int(chain)}
        options = ("-std=c++17", *(f"-D{key}={value}" for key, value in sizes.items()))
        function = cupy.RawModule(code=SOURCE.read_text(), options=options).get_function("probe")
        function.max_dynamic_shared_size_bytes = SHARED
        ways = [np.int32(it) for it in (TURNS, PITCH, *((STEP[lanes], APART[lanes]) if on else (0, 16 * PITCH)))]
        clocks[name] = []
        for blocks, warps in LAUNCHES:
            for _ in range(3):
                arguments: tuple[Any, ...] = (by_value(address(texture.ptr)), numbers, out, sink, *ways)
                function((blocks,), (warps * 32,), arguments, shared_mem=SHARED)
            clocks[name].append(round(statistics.median(out[:blocks].get().tolist()) / TURNS, 1))
    gpu = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    what = (__doc__ or "").partition("\n")[0]
    write({"what": what, "gpu": gpu, "blocks_and_warps": LAUNCHES}, clocks)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
