"""Convert NumPy arrays to buffers and pointers: arrays that share memory share a buffer, as pointers on a GPU do.

A view is a pointer into the array that owns its memory: ``x[16:]`` points 16 elements into ``x``, and the kernel may
reach all of ``x`` through it. ``x[16:].copy()`` is an allocation of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.launch import Buffer, Pointer


def pointers(arrays: Mapping[str, Array]) -> dict[str, Buffer | Pointer]:
    """Return a launch argument for each array, by the same names, written back unless read-only.

    Raise ``ValueError``.
    """
    owned: dict[int, list[str]] = {}
    owners: dict[int, Array] = {}
    for name, array in arrays.items():
        if not array.flags.c_contiguous:
            raise ValueError(f"{name}: the array is not C-contiguous")
        if array.dtype.hasobject:
            raise ValueError(f"{name}: the array holds Python objects, not numbers")
        owner = _owner(array)
        owners[id(owner)] = owner
        owned.setdefault(id(owner), []).append(name)
    found: dict[str, Buffer | Pointer] = {}
    for key, names in owned.items():
        owner = owners[key]
        if len(names) == 1 and arrays[names[0]].nbytes == owner.nbytes:
            array = arrays[names[0]]
            found[names[0]] = Buffer(names[0], array, output=array.flags.writeable)
            continue
        for name in names:
            if not arrays[name].dtype.newbyteorder("=") == arrays[name].dtype:
                raise ValueError(
                    f"{name}: the array shares memory with another and has a foreign byte order; "
                    "give .astype(x.dtype.newbyteorder('=')) of it"
                )
        output = any(arrays[name].flags.writeable for name in names)
        if output and not owner.flags.writeable:
            raise ValueError(f"{names[0]}: the array can be written, the one whose memory it shares cannot")
        memory = _bytes(owner)
        assert memory is not None
        memory.flags.writeable = output
        whole = next((name for name in names if arrays[name].nbytes == owner.nbytes), f"the array of {names[0]}")
        buffer = Buffer(whole, memory, output)
        found |= {name: Pointer(name, buffer, _address(arrays[name]) - _address(memory)) for name in names}
    return found


def _owner(array: Array) -> Array:
    """Return the array whose memory ``array`` shows a part of, or ``array`` itself if that is unknown."""
    owner = array
    base = array.base
    while base is not None:  # as_strided puts an object of its own between a view and its array
        owner = base if isinstance(base, np.ndarray) else owner
        base = getattr(base, "base", None)
    memory = None if owner.dtype.hasobject else _bytes(owner)
    if memory is None:
        return array
    start = _address(array) - _address(memory)
    return owner if 0 <= start <= memory.nbytes - array.nbytes else array


def _bytes(owner: Array) -> Array | None:
    """Return the memory of an array in address order; None if it has gaps."""
    straight = owner.transpose(sorted(range(owner.ndim), key=lambda axis: -owner.strides[axis]))
    return np.asarray(straight).reshape(-1).view(np.uint8) if straight.flags.c_contiguous else None


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
