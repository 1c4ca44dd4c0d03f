"""Convert values to the types of a kernel's parameters, or reject them; bits are never reinterpreted.

PTX distinguishes floating-point parameters from integers and pointers. Only the source shows what a pointer points to.
It is read from the kernel's prototype as text: built-in types (``const float *``, ``int4 *``, ``__half``) are known;
others (templates, typedefs, structs) are not known and not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from gemm_lessons.engine.compiler.source import kernels
from gemm_lessons.engine.compiler.tokens import without_comments
from gemm_lessons.engine.ptx.records import Kernel, KernelParameter
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Scalar
from gemm_lessons.engine.records.regex import regex

_QUALIFIERS = regex(r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__|struct|std::)\b|std::")
_INTEGERS: Mapping[str, str] = {
    "char": "i1", "signed char": "i1", "unsigned char": "u1", "short": "i2", "unsigned short": "u2", "int": "i4",
    "signed": "i4", "unsigned": "u4", "unsigned int": "u4", "long": "i8", "unsigned long": "u8", "long long": "i8",
    "unsigned long long": "u8", "short int": "i2", "long int": "i8", "long long int": "i8", "size_t": "u8",
    "unsigned short int": "u2", "unsigned long int": "u8", "unsigned long long int": "u8", "bool": "b1",
    **{f"int{8 * n}_t": f"i{n}" for n in (1, 2, 4, 8)}, **{f"uint{8 * n}_t": f"u{n}" for n in (1, 2, 4, 8)},
}  # fmt: skip
_FLOATS: Mapping[str, str] = {"float": "f4", "double": "f8", "half": "f2", "__half": "f2", "__nv_bfloat16": "bf"}
_VECTORS = regex(r"(u?(?:char|short|int|longlong)|float|double)([1234])$")
_SHORT: Mapping[str, str] = {"longlong": "long long", "uint": "unsigned", "uchar": "unsigned char",
                             "ushort": "unsigned short", "ulonglong": "unsigned long long"}  # fmt: skip
_PAIRS: Mapping[str, str] = {"half2": "f2", "__half2": "f2", "__nv_bfloat162": "bf"}


@dataclass(frozen=True)
class DeclaredType:
    """One parameter as the source declares it.

    ``kind``: of the number that it is or points to (``f4``, ``i8``, ``bf`` for bfloat16, ``b1`` for bool); empty if
    unknown.
    """

    text: str
    pointer: bool
    kind: str


def declared(source: str, kernel: Kernel, entry: str) -> tuple[DeclaredType | None, ...]:
    """Return the declared type of each parameter; None where the source does not show it."""
    unknown = (None,) * len(kernel.parameters)
    name = re.split(r"[<(]", entry)[0].rpartition("::")[2].strip()
    prototypes = {k.parameters for k in kernels(source) if k.name == name and len(k.parameters) == len(unknown)}
    if len(prototypes) != 1:
        return unknown
    own = set(
        re.findall(r"#\s*define\s+(\w+)|\btypedef\b[^;]*?(\w+)\s*;|\busing\s+(\w+)\s*=", without_comments(source))
    )
    renamed = {word for words in own for word in words if word}
    return tuple(_declared(text, renamed) for text in prototypes.pop())


def _declared(text: str, renamed: set[str]) -> DeclaredType | None:
    if renamed & set(re.findall(r"\w+", text)) or "&" in text:
        return None
    plain = " ".join(_QUALIFIERS.sub(" ", text.partition("=")[0]).split())
    pointer = "*" in plain or "[" in plain
    if plain.count("*") + plain.count("[") > 1:
        return DeclaredType(text, True, "i8")  # pointers to pointers
    words = re.split(r"[*\[]", plain)[0].split()
    for name in (" ".join(words), " ".join(words[:-1])):  # the parameter may have no name
        kind = _kind(name) if pointer else {**_INTEGERS, **_FLOATS}.get(name)
        if kind:
            return DeclaredType(text, pointer, kind)
    return DeclaredType(text, pointer, "") if pointer else None


def _kind(name: str) -> str:
    if vector := _VECTORS.match(name):
        name = _SHORT.get(vector[1], vector[1])
        return {**_INTEGERS, **_FLOATS}.get(name, "")
    return {**_INTEGERS, **_FLOATS, **_PAIRS}.get(name, "")


class WrongArrayType(ValueError):
    """An array's elements are not what a pointer points to. ``what``: the message without the remedy in Python."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what


def check_array(
    name: str, array: Array, parameter: KernelParameter, known: DeclaredType | None, element: str = ""
) -> None:
    """Raise ``ValueError`` if a parameter cannot be a pointer to the array, of ``element`` (empty: NumPy's name)."""
    if parameter.size != 8 or parameter.type[0] == "f" or (known is not None and not known.pointer and known.kind):
        what = known.text if known is not None else f"{parameter.type}, {parameter.size} bytes"
        raise ValueError(f"{name}: an array was given for a parameter that is not a pointer ({what})")
    if known is None or not known.kind or _holds(array.dtype, known.kind):
        return
    what = f'{name}: an array of {element or array.dtype} was given for "{known.text}"'
    raise WrongArrayType(what, "convert it with .astype(), or use .view() if its bytes are meant")


def _holds(dtype: np.dtype[Any], kind: str) -> bool:
    """Return whether an array's elements are such numbers. Raw bytes and NumPy structs are accepted."""
    if dtype.kind == "V" or dtype.names or dtype.hasobject:  # for objects, ``views`` raises the error
        return True
    if dtype.kind == "c":
        return kind == f"f{dtype.itemsize // 2}"
    size = dtype.itemsize
    if kind in ("f2", "bf"):  # NumPy has no bfloat16: two bytes of bits are meant
        return size == 2 and (dtype.kind in "iu" or kind == "f2")
    if kind[0] == "f":
        return dtype.kind == "f" and size == int(kind[1])
    return dtype.kind in "iub" and size == int(kind[1])


def scalar(name: str, value: Any, parameter: KernelParameter, known: DeclaredType | None = None) -> Scalar:
    """Return a number for a parameter. Raise ``ValueError`` if it cannot be passed without loss, or is ambiguous."""
    if isinstance(value, bytes):
        return Scalar(name, value)
    kind = known.kind if known is not None and not known.pointer else ""
    size = parameter.size
    if known is not None and known.pointer:
        if value is None or (isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) == 0):
            return Scalar(name, np.uint64(0))
        raise ValueError(
            f'{name}: {value!r} was given for "{known.text}"; pointers take arrays, or None for a null one'
        )
    if value is None and parameter.type in ("u64", "b64") and not kind:
        return Scalar(name, np.uint64(0))
    if isinstance(value, (np.generic, int, float)) and not isinstance(
        value, (np.complexfloating, np.void, np.flexible)
    ):
        if parameter.type[0] == "f" or kind in ("f2", "bf"):
            return Scalar(name, _float(name, value, kind or f"f{size}"))
        if parameter.type[0] != "b" or kind or (size in (4, 8) and parameter.type in ("b32", "b64")):
            return Scalar(name, _integer(name, value, size, kind))
    if isinstance(value, np.generic) and value.nbytes == size and parameter.type[0] == "b":
        bits: np.generic = np.array([value]).astype(value.dtype.newbyteorder("="))[0]
        return Scalar(name, bits)  # of a struct
    what = f'"{known.text}"' if known is not None else f"a parameter of {size} bytes ({parameter.type})"
    raise ValueError(f"{name}: {type(value).__name__} does not fit {what}; a struct takes its fields or bytes")


def _float(name: str, value: Any, kind: str) -> np.generic:
    number = float(value)
    if isinstance(value, (int, np.integer)) and int(number) != int(value):
        raise ValueError(f"{name}: {value} is not exactly representable as a double: it would be rounded")
    if kind == "bf":
        bits = np.array([number], np.float32).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
        narrow: np.generic = np.uint16(0x7FFF) if np.isnan(number) else rounded.astype(np.uint16)[0]
        result = float((np.array([narrow], np.uint32) << np.uint32(16)).view(np.float32)[0])
    else:
        with np.errstate(over="ignore"):
            narrow = np.dtype(kind).type(number)
        result = float(narrow)
    typed = isinstance(value, (np.floating, int, np.integer, np.bool_))  # a Python float has no width of its own
    lost = result != number and not np.isnan(number)
    if lost and (typed or np.isinf(result)):
        raise ValueError(f"{name}: {value!r} would be rounded to {result!r}; convert it yourself if that is meant")
    return narrow


def _integer(name: str, value: Any, size: int, kind: str) -> np.generic:
    if isinstance(value, (float, np.floating)) and not float(value).is_integer():
        raise ValueError(f"{name}: {value!r} does not fit an integer of {size} bytes")
    number, bits = int(value), 8 * size
    low = 0 if kind[:1] == "u" else -(1 << bits - 1)
    high = 1 << bits - 1 if kind[:1] == "i" else 2 if kind == "b1" else 1 << bits
    if kind[:1] == "u" and isinstance(value, np.signedinteger):
        low = -(1 << bits - 1)  # as C converts it
    if not low <= number < high:
        raise ValueError(f"{name}: {number} does not fit an integer of {size} bytes")
    result: np.generic = np.array([number & (1 << bits) - 1], f"u{size}").view(f"i{size}")[0]
    return result
