"""``__constant__`` and ``__device__`` variables by name: the host sets them before a launch and reads them back after
it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gemm_lessons.engine.machine.memory import GlobalMemory
from gemm_lessons.engine.ptx.records import Variable
from gemm_lessons.engine.records.elements import in_native_order
from gemm_lessons.engine.records.launch import HostVariable

SPACES = {"const": "__constant__", "global": "__device__"}


def source_name(name: str) -> str:
    """Return a name as the source writes it: ``_ZN2ns1dE`` -> ``ns::d``. Decode namespaces and internal linkage
    (Itanium C++ ABI, 5.1.5) and return other names unchanged."""
    match = re.fullmatch(r"_Z(?:N(?P<nested>.+)E|L(?P<local>.+))", name)
    if match is None:
        return name
    rest = match["nested"] or match["local"]
    parts: list[str] = []
    while rest:
        length = re.match(r"L?(\d+)", rest)
        if length is None:
            return name
        end = length.end() + int(length[1])
        parts.append(rest[length.end() : end])
        rest = rest[end:]
    return "::".join(part for part in parts if not part.startswith(("_GLOBAL__N", "_INTERNAL_")))


def find(variables: Sequence[Variable], name: str) -> Variable:
    """Return the variable called ``name`` in the source or in the PTX. Raise ``ValueError``."""
    known = [variable for variable in variables if variable.space in SPACES and variable.size]
    found = [variable for variable in known if name in (variable.name, source_name(variable.name))]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{SPACES[variable.space]} {source_name(variable.name)}" for variable in known)
    if found:
        raise ValueError(f"symbol {name}: several variables have that name: {', '.join(v.name for v in found)}")
    there = f"it has {names}" if names else "it has none"
    raise ValueError(
        f"symbol {name}: the compiled code has no __constant__ or __device__ variable of that name, {there} "
        "(the compiler leaves out what no kernel uses)"
    )


def check(variable: Variable, symbol: HostVariable) -> None:
    """Raise ``ValueError`` if the array does not fit the variable. Only the length of a byte array is checked."""
    array = symbol.array
    if array.nbytes != variable.size:
        raise ValueError(f"symbol {symbol.name}: the variable has {variable.size} bytes, the array {array.nbytes}")
    kinds = {"f": "f", "u": "iub", "s": "iub"}.get(variable.type[0])
    if kinds and array.dtype != np.uint8 and array.dtype.kind not in kinds:
        what = "a floating-point number" if kinds == "f" else "an integer"
        raise ValueError(f"symbol {symbol.name}: the variable is {what}, the array of type {array.dtype}")


def with_host_values(variables: Sequence[Variable], symbols: Sequence[HostVariable]) -> tuple[Variable, ...]:
    """Return the module's variables with the values that the host sets. Raise ``ValueError`` if one does not fit."""
    values: dict[str, bytes | None] = {}
    for symbol in symbols:
        variable = find(variables, symbol.name)
        if variable.name in values:
            raise ValueError(f"symbol {symbol.name} is given twice")
        check(variable, symbol)
        values[variable.name] = in_native_order(symbol.array).tobytes() if symbol.given else None
    return tuple(
        variable if (value := values.get(variable.name)) is None else replace(variable, initial=value, pointers=())
        for variable in variables
    )


def read_back(variables: Sequence[Variable], symbols: Sequence[HostVariable], memory: GlobalMemory) -> None:
    """Copy final values into the writable arrays of ``__device__`` variables and those that the host did not set."""
    for symbol in symbols:
        variable = find(variables, symbol.name)
        if symbol.array.flags.writeable and (not symbol.given or variable.space == "global"):
            allocation = memory.symbols[variable.name]
            data = memory.arena[allocation.offset : allocation.offset + allocation.size]
            native = symbol.array.dtype.newbyteorder("=")
            symbol.array[...] = np.frombuffer(data.tobytes(), native).reshape(symbol.array.shape)
