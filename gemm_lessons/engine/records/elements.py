"""Element types of kernels: how each is stored, named, drawn at random, rounded and compared.

NumPy has no bfloat16, tf32 or 8-bit floats. bfloat16 and 8-bit floats are kept as raw bits, tf32 as a float32 whose
last 13 bits are 0, because tensor cores ignore them. NumPy is loaded only for computing: reading a lesson does not need
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gemm_lessons.engine.records.frozen import dataclass

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

SINGLE = 24  # precision of float32


@dataclass(frozen=True)
class Element:
    """One type. ``short``: as ``inspect`` writes it; ``precision``: bits of a significand with its leading one, 0 for
    an integer; ``smallest``: the smallest positive (subnormal) number; ``poison``: bits that no arithmetic gives (a
    quiet NaN with a payload; for an integer, an unlikely number); ``cuda``: its ``cudaDataType_t``, None where there is
    none. Test inputs are scaled by powers of two. Their largest exponents are ``reach`` for a row or column (half of it
    along k), and ``shift`` for a whole matrix or a product.
    """

    name: str
    short: str
    c_name: str
    storage: str
    precision: int = 0
    smallest: float = 0.0
    poison: int = 0
    cuda: int | None = None
    reach: int = 0
    shift: int = 0

    def __str__(self) -> str:
        return self.name

    @property
    def size(self) -> int:
        """Return the bytes in memory."""
        return int(self.storage[-2:].lstrip("t")) // 8

    @property
    def is_float(self) -> bool:
        """Tell whether the type is a float, not an integer."""
        return self.precision > 0

    @property
    def roundoff(self) -> float:
        """Return the unit roundoff: half the distance from 1 to the next number; 0 for integers."""
        return 2.0**-self.precision if self.is_float else 0.0

    @property
    def least_normal(self) -> float:
        """The smallest normal number. Smaller numbers may be flushed to 0."""
        return self.smallest * 2.0 ** (self.precision - 1)

    def poisoned(self, shape: tuple[int, ...]) -> Array:
        """Return an array whose every element has the bits ``poison``."""
        import numpy as np

        return np.full(shape, self.poison, f"u{self.size}").view(self.storage)

    def untouched(self, shape: tuple[int, ...]) -> Array:
        """Return an array that takes no memory, where only the shape is needed."""
        import numpy as np

        return np.lib.stride_tricks.as_strided(np.zeros(1, self.storage), shape, strides_of(shape, self.size))

    def encode(self, values: Array) -> Array:
        """Convert float64 values to storage: rounded to nearest even; integers as C converts them, modulo 2 ** bits."""
        if not self.is_float:
            return values.astype("int64").astype(self.storage)
        from gemm_lessons.engine.records import encodings

        return encodings.encode(self.name, self.storage, values)

    def decode(self, stored: Array) -> Array:
        """Convert storage to float64 values, exactly."""
        from gemm_lessons.engine.records import encodings

        return encodings.decode(self.name, stored)

    def draw(self, random: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draw numbers in storage: a random sign times uniform [0.5, 1).

        Bytes take any value but 0, so that -128 and 255 occur; other integers have magnitudes 1 to 127.
        """
        import numpy as np

        if not self.is_float:
            if self.size == 1:
                numbers = random.integers(np.iinfo(self.storage).min, np.iinfo(self.storage).max, shape)
                return np.asarray(numbers + (numbers >= 0), self.storage)
            magnitudes = random.integers(1, 128, shape)
            signs = random.choice([-1, 1], shape) if self.storage.startswith("int") else 1
            return np.asarray(magnitudes * signs, self.storage)
        magnitude = random.uniform(0.5, 1.0, shape)
        if self.precision < SINGLE:  # on the type's own grid, so that rounding does not reach 1
            steps = 2.0**self.precision
            magnitude = np.floor(magnitude * steps) / steps
        return self.encode(magnitude * random.choice([-1.0, 1.0], shape))

    def scale(self, stored: Array, exponents: Array) -> None:
        """Multiply floats in storage by powers of two, in place."""
        import numpy as np

        if stored.dtype.kind == "f":
            np.ldexp(stored, exponents, out=stored)
        else:
            stored[...] = self.encode(np.ldexp(self.decode(stored), exponents))


ELEMENTS: Mapping[str, Element] = {
    element.name: element
    for element in (
        Element("float64", "f64", "double", "float64", 53, 2.0**-1074, 0x7FF8_DEAD_BEEF_DEAD, 1, 24, 300),
        Element("float32", "f32", "float", "float32", 24, 2.0**-149, 0x7FC0_DEAD, 0, 8, 80),
        Element("tf32", "tf32", "float", "float32", 11, 2.0**-136, 0x7FC0_DEAD, 0, 8, 80),
        Element("float16", "f16", "__half", "float16", 11, 2.0**-24, 0x7EAD, 2, 4, 7),
        Element("bfloat16", "bf16", "__nv_bfloat16", "uint16", 8, 2.0**-133, 0x7FED, 14, 8, 80),
        Element("float8_e4m3", "e4m3", "__nv_fp8_e4m3", "uint8", 4, 2.0**-9, 0xFF, 28, 2),
        Element("float8_e5m2", "e5m2", "__nv_fp8_e5m2", "uint8", 3, 2.0**-16, 0xFD, 29, 2),
        Element("int8", "i8", "signed char", "int8", poison=0x5A, cuda=3),
        Element("uint8", "u8", "unsigned char", "uint8", poison=0xA5, cuda=8),
        Element("int16", "i16", "short", "int16", poison=0x5AA5),
        Element("uint16", "u16", "unsigned short", "uint16", poison=0xA55A),
        Element("int32", "i32", "int", "int32", poison=0x7EAD_BEEF, cuda=10),
        Element("uint32", "u32", "unsigned int", "uint32", poison=0xDEAD_BEEF),
        Element("int64", "i64", "long long", "int64", poison=0x7EAD_BEEF_DEAD_BEEF),
        Element("uint64", "u64", "unsigned long long", "uint64", poison=0xDEAD_BEEF_DEAD_BEEF),
    )
}


def strides_of(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return the strides of a C-contiguous array."""
    found = [size]
    for extent in reversed(shape[1:]):
        found.append(found[-1] * extent)
    return tuple(reversed(found))


def bits(stored: Array) -> Array:
    """Return the bit patterns of an array, as unsigned integers of the same size (NaNs compare by payload)."""
    import numpy as np

    contiguous = np.ascontiguousarray(stored)
    return contiguous.view(f"u{contiguous.dtype.itemsize}")


def in_native_order(array: Array) -> Array:
    """Return an array of the same numbers with the byte order of a GPU; the array itself if it has that order."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)
