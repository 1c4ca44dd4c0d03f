"""Data of a cubin besides its code: parameters and where they are, other constant banks, registers, architecture."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from gemm_lessons.engine.compiler.elf import Section
from gemm_lessons.engine.records.frozen import dataclass

# NVIDIA's attribute number for "parameters in the constant bank" (EIATTR_PARAM_CBANK of .nv.info): symbol, u16 offset,
# u16 size; and the format number of attributes that carry a size.
PARAMETER_BANK = 0x0A
PARAMETER = 0x17  # EIATTR_KPARAM_INFO: number, ordinal, offset among the parameters, size in the bits from 18 on
REGISTERS = 0x2F  # EIATTR_REGCOUNT: symbol of the kernel, registers of a thread
FRAME = 0x11  # EIATTR_FRAME_SIZE: symbol of the kernel, bytes of a thread's stack
SIZED = 0x04
BANK = ".nv.constant"
VERSION_2 = 8  # of the ELF file, with another layout of flags


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == SIZED:
            yield attribute, info[at : at + value]
            at += value


def parameter_offset(parts: list[Section], entry: str) -> int | None:
    """Return the offset of kernel ``entry``'s first parameter in constant bank 0; without parameters, the bank's
    size."""
    for attribute, data in _of_kernel(parts, entry):
        if attribute == PARAMETER_BANK and len(data) >= 8:
            return int(struct.unpack_from("<H", data, 4)[0]) + min(parameter_places(parts, entry), default=0)
    return next((len(it.data) for it in parts if it.name == f".nv.constant0.{entry}"), None)


def parameter_places(parts: list[Section], entry: str) -> tuple[int, ...]:
    """Return the offset of each parameter from the start of all parameters. ptxas aligns addresses in the constant
    bank, where the parameters do not begin at a multiple of 64. So a tensor map is at another offset than in PTX."""
    infos = (struct.unpack_from("<HH", data, 4) for key, data in _of_kernel(parts, entry) if key == PARAMETER)
    return tuple(place for _, place in sorted(infos))


def parameter_sizes(parts: list[Section], entry: str) -> tuple[int, ...]:
    """Return the bytes of each parameter."""
    infos = (struct.unpack_from("<HHI", data, 4) for key, data in _of_kernel(parts, entry) if key == PARAMETER)
    return tuple(bits >> 18 for _, _, bits in sorted(infos))


def of_thread(parts: list[Section], entry: str, attribute: int) -> int:
    """Return ``REGISTERS`` or ``FRAME`` of a kernel."""
    number = [symbol.name for symbol in symbols(parts)].index(entry)
    info = next((part.data for part in parts if part.name == ".nv.info"), b"")
    given = (struct.unpack_from("<II", data) for key, data in _attributes(info) if key == attribute)
    return next((int(value) for symbol, value in given if symbol == number), 0)


def architecture(cubin: bytes) -> int:
    """Return the architecture: 90 for ``sm_90a``. Source: LLVM's ELF.h, ``EF_CUDA_SM``, of both versions."""
    flags = int(struct.unpack_from("<I", cubin, 0x30)[0])
    return (flags >> 8 if cubin[8] >= VERSION_2 else flags) & 0xFF


def _of_kernel(parts: list[Section], entry: str) -> Iterator[tuple[int, bytes]]:
    for section in parts:
        if section.name == f".nv.info.{entry}":
            yield from _attributes(section.data)


@dataclass(frozen=True)
class CubinSymbol:
    """One entry of the symbol table. ``start`` counts from the beginning of its section."""

    name: str
    section: str
    start: int
    size: int


def symbols(parts: list[Section]) -> list[CubinSymbol]:
    """Return the symbol table, in the order of relocation indices (System V ABI, chapter 4, "Symbol Table")."""
    by_name = {section.name: section.data for section in parts}
    names, found = by_name.get(".strtab", b""), []
    for name, _, _, index, start, size in struct.iter_unpack("<IBBHQQ", by_name.get(".symtab", b"")):
        text = names[name : names.index(b"\0", name)].decode()
        found.append(CubinSymbol(text, parts[index].name if index < len(parts) else "", start, size))
    return found


@dataclass(frozen=True)
class Variables:
    """Variables that the loader and the host write into the constant banks.

    (bank, start, name) of ``__constant__`` variables, and (bank, start, name, addend) of addresses of ``__device__``
    variables.
    """

    values: tuple[tuple[int, int, str], ...] = ()
    addresses: tuple[tuple[int, int, str, int], ...] = ()

    @property
    def there(self) -> bool:
        """Return whether there are any."""
        return bool(self.values or self.addresses)


def variables(parts: list[Section]) -> Variables:
    """Return the source's variables in the module's constant banks, with their offsets."""
    table = symbols(parts)
    values = [
        (int(bank), symbol.start, symbol.name)
        for symbol in table
        if (bank := symbol.section.removeprefix(BANK)).isdigit() and symbol.name and symbol.size
    ]
    by_name = {section.name: section.data for section in parts}
    addresses = [
        (int(bank), at, table[info >> 32].name, addend)
        for bank in (name.removeprefix(BANK) for name in by_name if name.startswith(BANK))
        if bank.isdigit()
        for at, info, addend in _relocations(by_name, f"{BANK}{bank}")
    ]
    return Variables(tuple(values), tuple(addresses))


def _relocations(sections: Mapping[str, bytes], name: str) -> Iterator[tuple[int, int, int]]:
    """Yield the relocations of section ``name``: offset, info (symbol number in the upper half), and addend.

    The addend is in the relocation, or before compute capability 9.0 at the offset (System V ABI, chapter 4,
    "Relocation").
    """
    yield from struct.iter_unpack("<QQq", sections.get(f".rela{name}", b""))
    for at, info in struct.iter_unpack("<QQ", sections.get(f".rel{name}", b"")):
        yield at, info, struct.unpack_from("<q", sections[name], at)[0]


def constant_banks(parts: list[Section], entry: str) -> dict[int, bytes]:
    """Return the constant banks above 0 by number: literals of the kernel, ``__constant__`` variables of the module."""
    banks: dict[int, bytes] = {}
    for section in parts:
        prefix, _, rest = section.name.removeprefix(".nv.constant").partition(".")
        if section.name.startswith(".nv.constant") and prefix.isdigit() and prefix != "0" and rest in ("", entry):
            banks[int(prefix)] = section.data
    return banks
