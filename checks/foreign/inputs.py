"""The data of a foreign kernel's launch, made from a recipe of a few characters; needs NumPy alone.

A pointer is ``*f4:4096:dyadic`` (type, elements, kind of values), a number ``=i4:64``, a struct ``=raw:0100...``.
``launcher.py`` on a machine with a GPU makes the same data from the same words.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MASK = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class Pointer:
    """A buffer of global memory: ``count`` elements of NumPy type ``dtype``, with ``kind`` of values."""

    dtype: str
    count: int
    kind: str

    def __str__(self) -> str:
        return f"*{self.dtype}:{self.count}:{self.kind}"

    def values(self, seed: int) -> Array:
        """New data. Every element is set, so an element that a kernel wrongly leaves unwritten is noticed."""
        return _values(np.dtype(self.dtype), self.count, self.kind, seed)


@dataclass(frozen=True)
class Number:
    """An argument by value."""

    value: np.generic | bytes

    def __str__(self) -> str:
        if isinstance(self.value, bytes):
            return f"=raw:{self.value.hex()}"
        return f"={self.value.dtype.str[1:]}:{self.value.item()}"


Argument = Pointer | Number


def parse(text: str) -> Argument:
    """The reverse of ``str``."""
    if text.startswith("*"):
        dtype, count, kind = text[1:].split(":")
        return Pointer(dtype, int(count), kind)
    dtype, _, value = text[1:].partition(":")
    if dtype == "raw":
        return Number(bytes.fromhex(value))
    return Number(np.dtype(dtype).type(float(value) if dtype[0] == "f" else int(value)))


def _random(count: int, seed: int) -> NDArray[np.uint64]:
    """splitmix64: the same on every machine and with every NumPy."""
    with np.errstate(over="ignore"):
        state = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed) * np.uint64(0x632BE59BD9B4E019)
        state *= np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def _values(dtype: np.dtype[Any], count: int, kind: str, seed: int) -> Array:
    """``dyadic``: sixteenths in [-2, 2], whose sums and products are exact in any order; ``positive``: sixteenths in
    (0, 4]; ``real``: full mantissas in [0, 1); ``zero``; ``bits``: any bits; ``N``: whole numbers in [0, N);
    ``rise``: 0, 1, 2 ...; ``rise/N``: each of them N times; ``bf16``: dyadic in bfloat16, ``pairs``: of these."""
    raw = _random(count, seed)
    if kind == "bits":
        return (raw & MASK).view(np.uint8).reshape(count, 8)[:, : dtype.itemsize].copy().view(dtype).reshape(-1)
    if kind == "zero":
        return np.zeros(count, dtype)
    if kind.startswith("rise"):
        return (np.arange(count) // int(kind[5:] or 1)).astype(dtype)
    if kind == "pairs":
        return _values(np.dtype("u2"), count * dtype.itemsize // 2, "bf16", seed).view(dtype)
    if kind == "bf16":
        return (_values(np.dtype("f4"), count, "dyadic", seed).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if kind == "dyadic":
        return (((raw >> np.uint64(40)) % np.uint64(65)).astype(np.int64) - 32).astype(np.float64).astype(dtype) / (
            dtype.type(16)
        )
    if kind == "positive":
        return ((raw >> np.uint64(40)) % np.uint64(64) + np.uint64(1)).astype(np.float64).astype(dtype) / dtype.type(16)
    if kind == "real":
        return ((raw >> np.uint64(11)).astype(np.float64) * 2.0**-53).astype(dtype)
    return ((raw >> np.uint64(20)) % np.uint64(int(kind))).astype(dtype)


def digest(array: Array) -> str:
    """A hash of the bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
