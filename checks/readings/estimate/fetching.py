"""How long does it take to fetch instructions? ``python -m checks.readings.estimate.fetching > NAME.json``.

Needs CuPy and a GPU; a minute, most of it for compiling. Loops of straight-line code of several lengths, 16 bytes an
instruction, one block on each multiprocessor. Warp i is one of scheduler i % 4. ``in step``: all warps begin at
once; ``behind``: so many warps begin together, when those before are so far ahead in the loop.

Clocks for one instruction of each warp, by the warp that ends first and by the last one: a scheduler that issues one
instruction per clock takes as many clocks as it has warps. Medians over multiprocessors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.readings.estimate.turns import write
from checks.usage import help_if_asked

SOURCE = Path(__file__).with_suffix(".cu")
KILOBYTE = 64  # instructions
SCHEDULERS = 4
EXECUTED = 120_000  # instructions of each warp, about
LENGTHS = (8, 16, 24, 28, 30, 31, 32, 33, 34, 35, 36, 38, 40, 44, 48, 56, 64, 96, 112, 128, 144, 160, 192, 256, 384)
FEW = (16, 36, 40, 64, 96, 160, 256)  # of these, with more warps
SLOW = 2.42  # clocks for an instruction of a loop that is too long, one warp per scheduler: of an earlier reading
FITS = 32  # KB


@dataclass(frozen=True)
class Case:
    """A launch: a loop of ``length`` KB; ``warps`` of a block, of which each group of ``together`` begins when the one
    before is ``apart`` KB ahead. ``alone``: on one multiprocessor, not all."""

    length: int
    warps: int
    together: int = 16
    apart: float = 0.0
    chains: int = 16
    alone: bool = False

    @property
    def code(self) -> tuple[int, int]:
        return self.length, self.chains

    @property
    def name(self) -> str:
        kind = "" if self.chains > 1 else ", one chain"
        kind += ", one block" if self.alone else ""
        each = "each warp" if self.together == 1 else f"each {self.together}"
        groups = f"{each} {self.apart:g} KB behind" if self.apart else "in step"
        return f"{self.length} KB{kind}: {self.warps} warp{'s' * (self.warps > 1)}, {groups}"


def cases() -> Iterator[Case]:
    """Yield what is read."""
    for length in LENGTHS:
        yield Case(length, 1)
        yield Case(length, 4)
        yield Case(length, 8, 4, length / 2)
        yield Case(length, 16, 4, length / 4)
    for length in FEW:
        yield from (Case(length, warps) for warps in (2, 8, 16))
        yield Case(length, 4, alone=True)
        yield Case(length, 2, 1, length / 2)
        yield Case(length, 4, 1, length / 4)
    for apart in (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40):
        yield Case(64, 8, 4, apart)
        yield Case(64, 2, 1, apart)
    for length in (16, 64):
        yield Case(length, 4, chains=1)
        yield Case(length, 8, 4, length / 2, chains=1)


def medians(warps: Any, instructions: int) -> dict[str, float]:
    """(begun, over) of each warp of each block -> clocks for an instruction until the first and last warps end."""
    import numpy as np

    begun = warps[:, :, 0].min(axis=1, keepdims=True)
    over = (warps[:, :, 1] - begun) / instructions
    return {
        "first": round(float(np.median(over.min(axis=1))), 3),
        "last": round(float(np.median(over.max(axis=1))), 3),
    }


def main() -> None:
    import cupy
    import numpy as np

    def compiled(code: tuple[int, int]) -> Any:
        options = ("-std=c++17", f"-DLENGTH={code[0] * KILOBYTE}", f"-DCHAINS={code[1]}")
        with cupy.cuda.Device(0):
            return cupy.RawModule(code=SOURCE.read_text(), options=options).get_function("loop")

    codes = list(dict.fromkeys(case.code for case in cases()))
    with ThreadPoolExecutor() as pool:
        loops = dict(zip(codes, pool.map(compiled, codes), strict=True))
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    sms = properties["multiProcessorCount"]
    took, sums = cupy.zeros(sms * 32, cupy.int64), cupy.zeros(sms * 512, cupy.float32)

    def read(case: Case, turns: int) -> Any:
        blocks = 1 if case.alone else sms
        clocks = SLOW if case.length > FITS else 1.05
        later: Sequence[float] = [it // case.together * case.apart * KILOBYTE * clocks for it in range(case.warps)]
        given = cupy.asarray(np.array(later, np.int32))
        loops[case.code](
            (blocks,), (case.warps * 32,), (took, sums, given, np.int32(turns), np.float32(0.5), np.float32(1.0))
        )
        return took[: blocks * case.warps * 2].get().reshape(blocks, case.warps, 2)

    clocks: dict[str, Any] = {}
    for case in cases():
        turns = max(4, EXECUTED // (case.length * KILOBYTE))
        read(case, turns)
        clocks[case.name] = medians(read(case, turns), turns * case.length * KILOBYTE)
    for length in FEW:  # the first pass through the code, when the launch before was of the same kernel, or another
        for between in ("the same kernel", "another kernel"):
            for warps in (1, 4):
                case = Case(length, warps)
                for _ in range(3):
                    read(Case(384 if between == "another kernel" else length, warps), 1)
                    found = medians(read(case, 1), length * KILOBYTE)
                clocks[f"{case.name}, once, after {between}"] = found
    write({"what": (__doc__ or "").partition("\n")[0], "gpu": properties["name"].decode()}, clocks)


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
