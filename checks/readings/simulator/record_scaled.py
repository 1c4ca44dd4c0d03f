"""Records how a GPU rounds ``a * b * 2^n``, which is one machine instruction (``FMUL.D2`` etc.): ``scaled.json``.

    python -m checks.readings.simulator.record_scaled     needs cupy and a GPU; seconds

Stores a fingerprint of all results for each power of two and each range of exponents.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from checks.readings.simulator.record_fragments import fingerprint
from checks.usage import help_if_asked
from gemm_lessons.engine.compiler.compile import Compiled, compile_source

KEPT = Path(__file__).with_name("scaled.json")
ARCH = "sm_90"
COUNT = 1 << 18
POWERS = {"half": 0.5, "quarter": 0.25, "eighth": 0.125, "four": 4.0, "eight": 8.0}
INSTRUCTIONS = {"half": "FMUL.D2", "quarter": "FMUL.D4", "eighth": "FMUL.D8", "four": "FMUL.M4", "eight": "FMUL.M8"}
EXPONENTS = {"small": (-152, -120), "usual": (-20, 20), "large": (120, 132)}  # of the product
SOURCE = """
extern "C" __global__ void {name}(const float *a, const float *b, float *c)
{{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] * b[i] * {power}f;
}}
"""


def compiled(name: str) -> Compiled:
    """The kernel of a power. Raises ``AssertionError`` where it is not one instruction."""
    made = compile_source(SOURCE.format(name=name, power=POWERS[name]), path="scaled.cu", entry=name, arch=ARCH)
    assert isinstance(made, Compiled), made.log
    assert [it.text.split()[0] for it in made.sass if it.text.startswith("FMUL")] == [INSTRUCTIONS[name]]
    return made


def factors(exponents: tuple[int, int]) -> tuple[Any, Any]:
    """Two arrays of float32 whose products have these exponents, of both signs."""
    draw = np.random.default_rng(5)
    of_product = draw.integers(exponents[0], exponents[1] + 1, COUNT)
    first = np.clip(draw.integers(-60, 61, COUNT), of_product - 120, of_product + 120)

    def numbers(exponent: Any) -> Any:
        return np.ldexp(draw.uniform(1, 2, COUNT) * draw.choice([-1, 1], COUNT), exponent).astype(np.float32)

    return numbers(first), numbers(of_product - first)


def cases() -> Iterator[tuple[str, str]]:
    """Names of a power and of a range of exponents."""
    for power in POWERS:
        for range_ in EXPONENTS:
            yield power, range_


def main() -> None:
    import cupy

    kept = {}
    for power, range_ in cases():
        module = cupy.cuda.function.Module()
        module.load(compiled(power).cubin)
        a, b = (cupy.asarray(it) for it in factors(EXPONENTS[range_]))
        c = cupy.full(COUNT, cupy.nan, cupy.float32)
        module.get_function(power)((COUNT // 256,), (256,), (a, b, c))
        kept[f"{power} {range_}"] = fingerprint(c.get())
    gpu = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    KEPT.write_text(json.dumps({"gpu": gpu, "fingerprints": kept}, indent=1) + "\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
