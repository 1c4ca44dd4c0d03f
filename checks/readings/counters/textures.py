"""Reads what Nsight Compute counts of fetches from textures: ``texture_probes.json``.

    python -m checks.readings.counters.textures      on a machine with a GPU, ncu and cupy

Each probe of ``checks/counters/kernels/texture_probes.cu`` is one warp that fetches once.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
import subprocess
import sys
from pathlib import Path

from checks.usage import help_if_asked

SOURCE = Path(__file__).parents[2] / "counters" / "kernels" / "texture_probes.cu"
STORED = Path(__file__).with_name("texture_probes.json")
TEXELS = 1 << 14
METRICS = (
    "l1tex__t_requests_pipe_tex_mem_texture.sum",
    "l1tex__t_sectors_pipe_tex_mem_texture.sum",
    "smsp__inst_executed_op_texture.sum",
)
CHANNELS = {"one": 1, "two": 2, "four": 4}


def probes() -> dict[str, int]:
    """Name of each probe -> channels of a texel."""
    patterns = re.findall(r"KIND##_(\w+)", SOURCE.read_text())
    return {f"{kind}_{pattern}": channels for kind, channels in CHANNELS.items() for pattern in patterns}


def launch() -> None:
    """Launch each probe once."""
    import cupy
    from cupy.cuda.function import Module

    from gemm_lessons.devices.gpu.functions import address, by_value, linear_texture
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source

    compiled = compile_source(SOURCE.read_text(), path=str(SOURCE), entry="one_row", defines={})
    assert isinstance(compiled, Compiled)
    module = Module()
    module.load(compiled.cubin)
    numbers, out = cupy.zeros(4 * TEXELS, cupy.float32), cupy.zeros(128, cupy.float32)
    textures = {n: linear_texture(numbers.data.ptr, 4 * n * TEXELS, "float32", n) for n in CHANNELS.values()}
    for name, channels in probes().items():
        module.get_function(name)((1,), (32,), (by_value(address(textures[channels].ptr)), out))
    cupy.cuda.Device().synchronize()


def read() -> None:
    """Profile them all and store what was counted."""
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    command += ["--kernel-name", "regex:^(one|two|four)_", "--metrics", ",".join(METRICS)]
    command += [sys.executable, "-m", "checks.readings.counters.textures", "launch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    found = {row["Kernel Name"]: [int(float(row[name])) for name in METRICS] for row in rows if row[METRICS[0]].strip()}
    assert set(found) == set(probes()), done.stdout[-2000:] + done.stderr[-2000:]
    about = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "metrics": METRICS}
    lines = [f"  {json.dumps(name)}: {values}" for name, values in found.items()]
    head = json.dumps(about, indent=1)[:-2]
    STORED.write_text(head + ',\n "probes": {\n' + ",\n".join(lines) + "\n }\n}\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    launch() if sys.argv[1:] == ["launch"] else read()
