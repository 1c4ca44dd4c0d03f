"""Sections of a cubin, and the file names in its line table, without the escapes of PTX and ``nvdisasm``."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

HEADER = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size
NO_BITS = 8  # a section of zeros that is not in the file
LINES = ".debug_line"
PLACES_OF_LINES = ".rela.debug_line"
HEADER_BYTES = 10  # of a line table's header, up to its length field for the names


@dataclass
class Section:
    """One ELF section. ``length``: its bytes in memory; one of zeros, ``NO_BITS``, has none in the file."""

    name: str
    kind: int
    flags: int = 0
    data: bytes = b""
    length: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry: int = 0

    @property
    def header(self) -> bytes:
        """Return what the section's header says of it, without its name and place."""
        length = self.length if self.kind == NO_BITS else 0
        return struct.pack("<IQIIQQQ", self.kind, self.flags, self.link, self.info, self.alignment, self.entry, length)


def sections(cubin: bytes) -> list[Section]:
    """Return the sections of a 64-bit little-endian ELF file (System V ABI, chapter 4).

    Raise ``ValueError`` otherwise.
    """
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit ELF file")
    start = struct.unpack_from("<Q", cubin, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [HEADER.unpack_from(cubin, start + i * size) for i in range(count)]
    strings = cubin[headers[names][4] :]
    return [
        Section(text_at(strings, name), kind, flags, b"" if kind == NO_BITS else cubin[at : at + length], length, *rest)
        for name, kind, flags, _, at, length, *rest in headers
    ]


def text_at(table: bytes, start: int) -> str:
    """Return the text that ends with the next zero."""
    return table[start : table.index(b"\0", start)].decode()


def without_file_names(cubin: bytes) -> tuple[list[bytes], list[str]]:
    """Return a cubin in pieces without the names of its source files, and those names.

    A kernel compiled in two folders gives the same pieces. The cubin is left whole, without names, if its line table is
    not understood, or has a duplicate name or one that would be printed differently. Source: DWARF 3, chapter 6.2,
    "Line Number Information".
    """
    whole: tuple[list[bytes], list[str]] = [cubin], []
    try:
        parts = sections(cubin)
        lines = next(part.data for part in parts if part.name == LINES)
        unit, version, header = struct.unpack_from("<IHI", lines)
        program = HEADER_BYTES + header
        if version not in (2, 3) or unit + 4 != len(lines):  # of one file, as NVRTC makes them
            return whole
        names_at = 15 + lines[14] - 1  # after the number of operands of each standard opcode
        names, folders = _names(lines[names_at:program])
    except (StopIteration, ValueError, IndexError, struct.error, UnicodeDecodeError):
        return whole
    plain = all(name.isprintable() and name.isascii() and not set('"\\') & set(name) for name in names)
    if not plain or len(set(names)) < len(names):
        return whole
    pieces = [cubin[:0x20], cubin[0x30:0x40]]  # the header, without the offsets of its tables
    for part in parts:
        data = part.data
        if part.name == LINES:
            data = lines[4:6] + lines[HEADER_BYTES:names_at] + repr(folders).encode() + lines[program:]
        elif part.name == PLACES_OF_LINES:
            data = b"".join(
                struct.pack("<qQq", at - program, info, more) for at, info, more in struct.iter_unpack("<QQq", data)
            )
        pieces += [part.name.encode(), part.header, data]
    return pieces, names


def _names(table: bytes) -> tuple[list[str], Sequence[int]]:
    """Return full file names, and their folders' numbers. The table has folders, then files with a folder's number."""
    folders, at = [""], 0
    while table[at]:
        end = table.index(0, at)
        folders.append(table[at:end].decode() + "/")
        at = end + 1
    at += 1
    names, numbers = [], []
    while table[at]:
        end = table.index(0, at)
        folder, at_time = leb128(table, end + 1)
        _, at_length = leb128(table, at_time)  # modification time and length of the file; some compilers write them
        names.append(folders[folder] + table[at:end].decode())
        numbers.append(folder)
        _, at = leb128(table, at_length)
    if any(table[at:]):
        raise ValueError("more than names")
    return names, numbers


def leb128(table: bytes, at: int) -> tuple[int, int]:
    """Decode an unsigned LEB128 number. Return it and its end."""
    value = shift = 0
    while table[at] & 0x80:
        value |= (table[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | table[at] << shift, at + 1


def plain_file_name(name: str) -> str:
    r"""Return the original file name.

    PTX escapes non-ASCII bytes as ``\303\251``, ``nvdisasm`` prints ``\303/251``; both have the padding of
    ``neutral_paths``.
    """
    if name.startswith("//"):
        name = f"/{name.lstrip('/')}"
    if "\\" not in name:
        return name
    data = re.sub(rb"[\\/]([23][0-7]{2})", lambda m: bytes([int(m[1], 8)]), name.encode())
    return data.decode(errors="replace")
