"""Whose turn is it, of many warps that do the same? ``python -m checks.readings.estimate.turns > NAME.json``.

Needs CuPy and a GPU; a second. For each block of one multiprocessor, in order of starting: the clocks at which its
first and last warp began, and ended, counted from the start of the first block. If the scheduler takes warps in turn,
blocks end at the same time; if it prefers the oldest warp, they end one after the other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from checks.usage import help_if_asked

SOURCE = Path(__file__).with_suffix(".cu")
KINDS = ("multiply_adds", "words", "four_words", "words_and_64", "two_words_and_16")
TURNS, TWICE = 400, 100_000  # iterations of a warp; bytes of shared memory, so that a multiprocessor holds two blocks
LAUNCHES = ((1, 256), (1, 512), (1, 1024), (264, 256), (264, 512), (264, 1024))  # blocks, threads


def by_block(warps: Iterable[tuple[int, int, int]]) -> list[dict[str, list[int]]]:
    """(begun, over, block) of each warp of one multiprocessor -> the first and the last of each block."""
    found: dict[int, list[tuple[int, int]]] = {}
    for begun, over, block in sorted(warps):
        found.setdefault(block, []).append((begun, over))
    ends = [list(zip(*of, strict=True)) for of in found.values()]
    return [{"begun": [min(a), max(a)], "over": [min(b), max(b)]} for a, b in ends]


def label(kind: str, blocks: int, threads: int) -> str:
    resident = min(blocks, 2)
    return f"{kind.replace('_', ' ')}: {resident} x {threads} threads, {resident * threads // 128} warps a scheduler"


def main() -> None:
    import cupy
    import numpy as np

    module = cupy.RawModule(code=SOURCE.read_text(), options=("-std=c++17",))
    out, sink = cupy.zeros(1 << 16, cupy.int64), cupy.zeros(1024, cupy.uint32)
    clocks = {}
    for kind in KINDS:
        function = module.get_function(kind)
        for blocks, threads in LAUNCHES:
            shared = TWICE if blocks > 1 else 16384
            function.max_dynamic_shared_size_bytes = shared
            for _ in range(3):
                function((blocks,), (threads,), (out, sink, np.int32(TURNS)), shared_mem=shared)
            read = out[: blocks * (threads // 32) * 3].get().reshape(blocks, threads // 32, 3)
            same = [block for block in range(blocks) if read[block, 0, 2] == read[0, 0, 2]]
            base = read[same, :, 0].min()
            warps = [(int(w[0] - base), int(w[1] - base), block) for block in same for w in read[block]]
            clocks[label(kind, blocks, threads)] = by_block(warps)
    gpu = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    write({"what": (__doc__ or "").partition("\n")[0], "gpu": gpu}, clocks)


def write(about: Mapping[str, Any], clocks: Mapping[str, Any]) -> None:
    """Print JSON with one line per launch."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found)}" for name, found in clocks.items())
    head = json.dumps(about, indent=1)[:-2]
    sys.stdout.write(f'{head},\n "clocks": {{\n{lines}\n }}\n}}\n')


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
