"""Several cubins as one ELF file, because ``nvdisasm`` reads one file a call and takes 0.25 s to start.

The joined file has what ``nvdisasm -c -gi`` prints: code, symbols, relocations and line tables, under the names of each
cubin with a mark of its number. Sources: System V ABI, chapter 4; "cuda-binary-utilities" for the sections.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from gemm_lessons.engine.compiler.elf import HEADER, NO_BITS, Section, sections, text_at
from gemm_lessons.engine.records.regex import regex

SYMBOL = struct.Struct("<IBBHQQ")  # name, binding and type, other, section, value, size
RELOCATION = struct.Struct("<QQq")  # place, symbol and type, addend
SYMBOLS, STRINGS, RELOCATIONS = 2, 3, 4
IN_FILE = 64  # bytes of the ELF header
OWN = (".text.", ".nv.info.", ".nv.constant", ".nv.shared.", ".nv.global", ".nv.local.")  # sections of one cubin
SHARED = (".debug_line", ".debug_str")  # of all: their contents follow each other
LOW = 0xFFFFFF  # of a code section's info: its function's symbol; above, the number of registers
SECTION = regex(r"^\s*\.section\s+[^,\s]*?(?:!(\d+)!)?[,\s]")


def joined(cubins: Sequence[bytes]) -> bytes:
    """Return one ELF file of all cubins. Raise ``ValueError``, ``LookupError`` or ``struct.error`` for others."""
    made = _Joined()
    for number, cubin in enumerate(cubins):
        made.add(number, sections(cubin))
    return made.file(cubins[0][:IN_FILE])


def apart(text: str, number: int) -> list[str]:
    """Return the disassembly of each of ``number`` joined cubins, without the marks."""
    lines: list[list[str]] = [[] for _ in range(number)]
    current: list[str] = []
    for line in text.splitlines():
        if ".section" in line and (match := SECTION.match(line)):
            current = lines[int(match[1])] if match[1] else []
        current.append(line)
    return ["\n".join(it).replace(f"!{place}!", "") + "\n" for place, it in enumerate(lines)]


class _Joined:
    """Sections and symbols of the file to write. Local symbols come first, as ELF asks for."""

    def __init__(self) -> None:
        self._sections = [
            Section("", 0),
            Section(".shstrtab", STRINGS),
            Section(".strtab", STRINGS),
            Section(".symtab", SYMBOLS, link=2, alignment=8, entry=SYMBOL.size),
        ]
        self._shared: dict[str, int] = {}
        self._locals: list[tuple[int, int, bytes]] = []  # cubin, its number of the symbol, the symbol without a name
        self._globals: list[tuple[int, int, bytes]] = []
        self._names: dict[tuple[int, int], str] = {}
        self._owners: list[tuple[int, int, dict[int, int]]] = []  # section, cubin, and its places of sections
        self._relocations: list[tuple[int, Section, int, int]] = []  # cubin, them, section and offset they apply to

    def add(self, number: int, parts: Sequence[Section]) -> None:
        place: dict[int, int] = {}  # section of the cubin -> section of the file
        base: dict[int, int] = {}  # and where its contents begin there
        for index, part in enumerate(parts):
            if part.name.startswith(OWN):
                place[index] = len(self._sections)
                self._sections.append(replace(part, name=f"{part.name}!{number}!"))
                self._owners.append((place[index], number, place))
            elif part.name in SHARED:
                if part.name not in self._shared:
                    self._shared[part.name] = len(self._sections)
                    self._sections.append(replace(part, data=b""))
                place[index] = self._shared[part.name]
                base[index] = len(self._sections[place[index]].data)
                self._sections[place[index]].data += part.data
        table = next(it for it in parts if it.kind == SYMBOLS)
        names = parts[table.link].data
        for index, (name, bound, other, section, value, size) in enumerate(SYMBOL.iter_unpack(table.data)):
            symbol = SYMBOL.pack(0, bound, other, place.get(section, 0), value + base.get(section, 0), size)
            (self._globals if bound >> 4 else self._locals).append((number, index, symbol))
            text = text_at(names, name)
            self._names[number, index] = f"{text}!{number}!" if text else ""
        self._relocations += [
            (number, part, place[part.info], base.get(part.info, 0))
            for part in parts
            if part.kind == RELOCATIONS and part.info in place and part.data
        ]

    def file(self, head: bytes) -> bytes:
        """Return the file, with the first cubin's ELF header."""
        numbers = self._write_symbols()
        for index, number, places in self._owners:
            section = self._sections[index]
            section.link = 3 if section.link else 0
            if section.name.startswith(".text."):
                section.info = numbers[number, section.info & LOW] | section.info & ~LOW
            else:
                section.info = places.get(section.info, 0)
        self._write_relocations(numbers)
        names = b"\0"
        headers, body = [HEADER.pack(*[0] * 10)], bytearray(IN_FILE)
        starts = []
        for section in self._sections[1:]:
            starts.append(len(names))
            names += section.name.encode() + b"\0"
        self._sections[1].data = names
        for start, section in zip(starts, self._sections[1:], strict=True):
            body += bytes(-len(body) % max(1, section.alignment))
            length = section.length if section.kind == NO_BITS else len(section.data)
            headers.append(
                HEADER.pack(
                    start, section.kind, section.flags, 0, len(body), length, section.link, section.info,
                    section.alignment, section.entry,
                )
            )  # fmt: skip
            body += section.data
        body += bytes(-len(body) % 8)
        body[:IN_FILE] = head
        struct.pack_into("<QQ", body, 0x20, 0, len(body))  # no program headers
        struct.pack_into("<HHHHH", body, 0x36, 56, 0, HEADER.size, len(headers), 1)
        return bytes(body) + b"".join(headers)

    def _write_symbols(self) -> dict[tuple[int, int], int]:
        """Write the symbols and their names. Return their new numbers."""
        names, table = bytearray(1), bytearray()
        numbers: dict[tuple[int, int], int] = {}
        for number, index, symbol in (*self._locals, *self._globals):
            numbers[number, index] = len(numbers)
            name = self._names[number, index]
            table += struct.pack("<I", len(names) if name else 0) + symbol[4:]
            if name:
                names += name.encode() + b"\0"
        self._sections[2].data, self._sections[3].data = bytes(names), bytes(table)
        self._sections[3].info = len(self._locals)
        return numbers

    def _write_relocations(self, numbers: dict[tuple[int, int], int]) -> None:
        """Write the relocations, in one section for each that they apply to."""
        there: dict[int, Section] = {}
        for number, part, target, base in self._relocations:
            if target not in there:
                there[target] = replace(part, name=f".rela{self._sections[target].name}", data=b"", link=3, info=target)
                self._sections.append(there[target])
            there[target].data += b"".join(
                RELOCATION.pack(place + base, numbers[number, which >> 32] << 32 | which & 0xFFFFFFFF, addend)
                for place, which, addend in RELOCATION.iter_unpack(part.data)
            )
