"""What a cubin says beside its code: where the parameters lie in constant bank 0, and the other constant banks."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

# NVIDIA's attribute number for "parameters in the constant bank" (EIATTR_PARAM_CBANK of .nv.info): symbol, u16 offset,
# u16 size; and the format number of attributes that carry a size.
PARAMETER_BANK = 0x0A
SIZED = 0x04


@dataclass(frozen=True)
class Section:
    """One ELF section."""

    name: str
    data: bytes


def sections(cubin: bytes) -> list[Section]:
    """The sections of a 64-bit little-endian ELF file (System V ABI, chapter 4). Raises ``ValueError`` otherwise."""
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit ELF file")
    start = struct.unpack_from("<Q", cubin, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + i * size) for i in range(count)]
    table = headers[names]
    strings = cubin[table[4] : table[4] + table[5]]
    nobits = 8
    return [
        Section(
            strings[name : strings.index(b"\0", name)].decode(),
            b"" if kind == nobits else cubin[offset : offset + length],
        )
        for name, kind, _, _, offset, length in headers
    ]


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == SIZED:
            yield attribute, info[at : at + value]
            at += value


def parameter_offset(parts: list[Section], entry: str) -> int | None:
    """Where the parameters of kernel ``entry`` begin in constant bank 0."""
    for section in parts:
        if section.name == f".nv.info.{entry}":
            for attribute, data in _attributes(section.data):
                if attribute == PARAMETER_BANK and len(data) >= 8:
                    return int(struct.unpack_from("<H", data, 4)[0])
    return None


def constant_banks(parts: list[Section], entry: str) -> dict[int, bytes]:
    """Constant banks other than 0 by number: literals of the kernel, ``__constant__`` variables of the module."""
    banks: dict[int, bytes] = {}
    for section in parts:
        prefix, _, rest = section.name.removeprefix(".nv.constant").partition(".")
        if section.name.startswith(".nv.constant") and prefix.isdigit() and prefix != "0" and rest in ("", entry):
            banks[int(prefix)] = section.data
    return banks
