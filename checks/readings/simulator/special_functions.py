"""Read the special function unit of this machine's GPU for every fraction, and find its coefficients.

    python -m checks.readings.simulator.special_functions READ.npz     needs cupy and a Hopper GPU; half a minute
    python -m checks.readings.simulator.special_functions --keep READ.npz
        writes engine/semantics/special_functions.json, and special_functions.json beside this file: hashes of results

Each segment of a table is a parabola over truncated squares, cut off to whole numbers. Least squares find its two upper
coefficients, whole numbers of 2**-17 units; the interval that all results leave to the lowest is not empty only if
the form is right.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from checks.usage import help_if_asked
from gemm_lessons.engine.semantics import special_functions as unit

Array = np.ndarray[Any, Any]

HASHES = Path(__file__).with_suffix(".json")
UNITS = {
    "rcp": -24,
    "rsqrt": -24,
    "sqrt": -23,
    "lg2": -24,
    "ex2": -22,
    "sin": -24,
    "tanh": -24,
}  # of a result, as powers of two
# The coefficients of x and x**2 are multiples of these; of tanh, of the first that fit.
STEPS = {"rcp": [(4, 4)], "rsqrt": [(2, 8)], "sqrt": [(1, 2)], "lg2": [(8, 16)], "ex2": [(4, 4)], "sin": [(16, 16)],
         "tanh": [(16, 16), (8, 8), (4, 4)]}  # fmt: skip
# What is added to the lowest coefficients to round: the same remainder in all segments.
ROUNDING = {"rcp": (1 << 15, 8092), "rsqrt": (1 << 15, 32766), "sqrt": (1 << 15, 32767), "ex2": (1 << 15, 24456)}


def octaves(first: int, count: int) -> Array:
    """Return all float32 from 2**first to 2**(first + count)."""
    bits: Array = np.arange(count << 23, dtype=np.uint32) + np.uint32((127 + first) << 23)
    return bits.view(np.float32)


def extremes() -> Array:
    """Return numbers of every exponent and sign, subnormal ones and infinities and NaN among them."""
    fractions = np.array([0, 1, 2, 3, 0x400000, 0x7FFFFE, 0x7FFFFF, 0x123456, 0x555555], np.uint32)
    bits: Array = (np.arange(512, dtype=np.uint32)[:, None] << np.uint32(23) | fractions).ravel()
    return bits.view(np.float32)


def operands(name: str) -> dict[str, Array]:
    """Return the operands of each hash: every fraction, or for angles as many as the unit tells apart; some of them."""
    if name in ("sin", "cos"):
        fractions = np.concatenate([octaves(-6, 5)[::4], octaves(-1, 4)[::2]])
    else:
        fractions = octaves(-6, 8)[::4].copy() if name == "tanh" else octaves(0, 2 if name in ("rsqrt", "sqrt") else 1)
    more = {"ex2": {"negative": -octaves(-1, 1)}}
    more["tanh"] = {"rest": np.concatenate([octaves(-8, 2)[::4], octaves(2, 1)[::4]])}
    return {"fractions": fractions, "some": fractions[::61].copy(), "extremes": extremes()} | more.get(name, {})


def digest(results: Array) -> str:
    """Return the hash of float32 results, bit for bit."""
    return hashlib.sha256(np.ascontiguousarray(results).view(np.uint32).tobytes()).hexdigest()[:16]


def record(path: str) -> None:
    """Ask the GPU."""
    import cupy

    found = {}
    for name in unit.FUNCTIONS:
        opcode = f"{name}.approx.f32" if name == "tanh" else f"{name}.approx.ftz.f32"
        source = (
            'extern "C" __global__ void ask(const float *x, float *y, int n) { int i = blockIdx.x * 256 + threadIdx.x;'
            f'if (i < n) asm volatile("{opcode} %0, %1;" : "=f"(y[i]) : "f"(x[i])); }}'
        )
        ask = cupy.RawKernel(source, "ask")
        for part, x in operands(name).items():
            given = cupy.asarray(x)
            answer = cupy.empty_like(given)
            ask((x.size // 256 + 1,), (256,), (given, answer, np.int32(x.size)))
            found[f"{name} {part}"] = answer.get()
    np.savez_compressed(path, **found)


def solved(name: str, segments: Array, xs: Array, results: Array) -> list[list[int]]:
    """Return the coefficients of each segment, from results and their places in the table."""
    low = unit.x_bits(name)
    squares = unit.squares(low)
    lower = np.ldexp(results.astype(np.float64), unit.SCALE - UNITS[name])
    upper = lower + np.ldexp(1.0, np.frexp(results)[1] - 24 + unit.SCALE - UNITS[name])
    rows = []
    for segment in range(int(segments.max()) + 1):
        here = segments == segment
        x = xs[here]
        terms = np.stack([np.ones(len(x)), x, squares[x]], axis=1)
        middle = (lower[here] + upper[here]) / 2
        scale = np.array([1.0, 1 << low, 1 << 15])
        fitted = np.linalg.lstsq(terms / scale, middle, rcond=None)[0] / scale
        for steps in STEPS[name]:
            c1, c2 = (step * int(np.rint(value / step)) for value, step in zip(fitted[1:], steps, strict=True))
            rest = c1 * x + c2 * squares[x]
            least = int(np.ceil(lower[here] - rest).max())
            most = int((np.ceil(upper[here]) - 1 - rest).min())
            step, remainder = ROUNDING.get(name, (4 if name == "tanh" else 8, 0))
            c0 = least + (remainder - least) % step
            if c0 <= most:
                break
        else:
            raise SystemExit(f"{name}, segment {segment}: no parabola gives these results")
        rows.append([c0, c1, c2])
    return rows


def keep(path: str) -> None:
    """Write coefficients and hashes."""
    read = np.load(path)
    tables = {}
    for name in UNITS:
        x, y = operands(name)["fractions"], read[f"{name} fractions"]
        if name == "tanh":
            x, y = (np.concatenate([it, more]) for it, more in ((x, operands(name)["rest"]), (y, read["tanh rest"])))
            tables[name] = solved(name, *unit.tanh_segments(*unit.fields(x)[1:]), y)
            continue
        place = np.arange(len(x))
        if name == "sin":
            turns = unit.turns_of(x).astype(np.float64)
            place, first = np.unique(np.floor(turns * (4 << 23)).astype(np.int64), return_index=True)
            y = y[first]
            place, y = place[place < 1 << 23], y[: int((place < 1 << 23).sum())]
        if name in ("rcp", "rsqrt", "lg2"):  # the unit knows the first result without its table
            place, y = place[1:], y[1:]
        tables[name] = solved(name, *unit.segments(name, place), y)
    rows = (f' "{name}": [\n  ' + ",\n  ".join(map(json.dumps, table)) + "\n ]" for name, table in tables.items())
    unit.COEFFICIENTS.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    hashes = {key: digest(read[key]) for key in read.files}
    HASHES.write_text(json.dumps({"gpu": "NVIDIA H200", "driver": "580.159.04", "results": hashes}, indent=1) + "\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    match sys.argv[1:]:
        case ["--keep", path]:
            keep(path)
        case [path]:
            record(path)
        case _:
            sys.exit(__doc__)
