"""Measures warpgroup products alone (``warpgroups.cu``): clocks per iteration, and the power of the chip.

python -m checks.readings.estimate.warpgroups compile DIR             here
python -m checks.readings.estimate.warpgroups run DIR NAME.json       on a machine with a GPU and CuPy; some seconds
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from checks.usage import compile_or_run, help_if_asked

SOURCE = Path(__file__).with_suffix(".cu")
TURNS, SHARED = 64, 49_152
ALL = 132  # multiprocessors


@dataclass(frozen=True)
class Probe:
    """``batch`` products of ``cols`` columns per iteration, by each of ``groups`` warpgroups of a block."""

    cols: int
    batch: int
    registers: bool = False
    groups: int = 1

    @property
    def name(self) -> str:
        source = "registers" if self.registers else "shared"
        return f"{self.groups} x {self.batch} of {self.cols} columns, A in {source}"

    @property
    def product(self) -> str:
        """Inline PTX."""
        count = self.cols // 2
        sums = ", ".join(f"%{i}" for i in range(count))
        a = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}" if self.registers else f"%{count}"
        b = count + (4 if self.registers else 1)
        outputs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
        given = ", ".join(f'"r"(r[{i}])' for i in range(4)) if self.registers else '"l"(a + i % 4 * 2)'
        form = f"m64n{self.cols}k16.f32.bf16.bf16 {{{sums}}}, {a}, %{b}, p, 1, 1, {'0' if self.registers else '0, 0'};"
        return (
            'asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0; wgmma.mma_async.sync.aligned.' + form + ' }" : '
            f'{outputs} : {given}, "l"(b + i % 4 * 2));'
        )


def probes() -> Iterator[Probe]:
    """Everything that is read."""
    for registers in (False, True):
        for cols in (8, 16, 32, 64, 128, 256):
            yield from (Probe(cols, batch, registers) for batch in (1, 4, 16))
    for cols in (64, 128, 256):
        yield from (Probe(cols, batch, groups=2) for batch in (1, 4, 16))


def compile_probes(folder: Path) -> None:
    """A cubin for each."""
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source

    folder.mkdir(parents=True, exist_ok=True)
    for number, probe in enumerate(probes()):
        defines = {"N": probe.cols, "BATCH": probe.batch}
        source = SOURCE.read_text().replace("PRODUCT", probe.product)
        made = compile_source(source, path=SOURCE.name, entry="k", defines=defines, include_dirs=(), arch="sm_90a")
        assert isinstance(made, Compiled), made.log
        (folder / f"wg{number}.cubin").write_bytes(made.cubin)


def run(folder: Path, target: Path) -> None:
    """On the current GPU."""
    import cupy
    import numpy as np

    from checks.estimate.ladder import Watch, random_bf16

    data = {"random": random_bf16((1024, 512)), "zeros": cupy.zeros((1024, 512), cupy.uint16)}
    clocks, issued, sink = cupy.zeros(ALL, cupy.int64), cupy.zeros(ALL, cupy.int64), cupy.zeros(256, cupy.float32)
    found: dict[str, object] = {}
    power: dict[str, object] = {}
    for number, probe in enumerate(probes()):
        function = cupy.RawModule(path=str(folder / f"wg{number}.cubin")).get_function("k")
        arguments = (data["random"], clocks, issued, sink, np.int32(TURNS))
        taken = []
        for _ in range(5):
            function((1,), (128 * probe.groups,), arguments, shared_mem=SHARED)
            taken.append((int(clocks[0]) / TURNS, int(issued[0])))
        found[probe.name] = [round(statistics.median(it), 1) for it in zip(*taken[1:], strict=True)]
        if probe.groups == 2 and probe.batch == 16:
            for kind, values in data.items():
                arguments = (values, clocks, issued, sink, np.int32(4000))
                watch = Watch()
                for _ in watch.seconds(0.6):
                    function((ALL,), (256,), arguments, shared_mem=SHARED)
                watch.end()
                turn = float(cupy.median(clocks)) / 4000
                power[f"{probe.name}, {kind}"] = {**watch.found, "clocks of a turn": round(turn, 1)}
    about = {
        "what": "python -m checks.readings.estimate.warpgroups: clocks of a turn, and until its products were issued",
        "date": time.strftime("%Y-%m-%d"),
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "clocks": found,
        "power": power,
    }
    target.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    compile_or_run(compile_probes, run)
