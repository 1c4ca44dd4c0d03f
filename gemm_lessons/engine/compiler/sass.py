"""Parse machine code as text: ``nvdisasm`` output -> ``SassInstruction`` records. Needs no GPU.

ptxas merges and unrolls shared loads, so widths counted on PTX are wrong; these records carry the actual widths.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from gemm_lessons.engine.compiler import cache as compile_cache
from gemm_lessons.engine.compiler import elf, joined_cubins, nvrtc, tools
from gemm_lessons.engine.compiler.elf import plain_file_name
from gemm_lessons.engine.compiler.toolkit import is_toolkit_header
from gemm_lessons.engine.process.bounds import SLOW
from gemm_lessons.engine.records.errors import KitError, UnsupportedKernel
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex


@dataclass(frozen=True)
class SassInstruction:
    """One machine instruction.

    ``opcode`` in full (``LDS.128``), ``width`` bytes per lane (0 unless it accesses memory), ``address`` in bytes from
    the start of the function, ``block`` the number of its basic block, ``text`` with guard and operands
    (``@P1 LDS.128 R8, [R4+0x10]``), ``labels`` the names that branches and calls use for this instruction.
    """

    opcode: str
    width: int
    file: str
    line: int | None
    address: int
    block: int
    text: str
    labels: tuple[str, ...] = ()


CACHE_FORMAT = "gemm-lessons/sass/4"
PATIENCE_S = 60.0  # of processor time; the largest kernel of the course takes 0.5 s

# Loads, stores, atomics and reductions of every memory space ("CUDA Binary Utilities", table of Hopper instructions).
_MEMORY = regex(
    r"(LD|ST|LDG|STG|LDS|STS|LDL|STL|LDC|ULDC|LDCU|LDSM|STSM|LDGSTS|ATOM|ATOMG|ATOMS|RED|REDG|REDUX|LDG\w*)(\.|$)"
)
_NOT_MEMORY = ("REDUX", "LDGDEPBAR")
_BITS = {
    "U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "S64": 8, "U64": 8, "F64": 8, "F32x2": 8, "128": 16, "F32x4": 16,
    "F16x2": 4, "BF16x2": 4,
}  # fmt: skip
_ENDS_BLOCK = ("BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU", "EXIT", "RET", "CALL", "BREAK", "BSYNC", "KILL", "BPT")

_SECTION = regex(r"^\s*\.section\s+\.text\.([^,\s]+)")
# If it ends in "inlined at", the next such line gives the caller.
_LINE = regex(r'^\s*//## File "(.*?)", line (\d+)( inlined at)?')
_NAMED = regex(r'(?://## File|inlined at) "(?!\0)')
_LABEL = regex(r"^([.$\w]+):")
_NAN = regex(r"[+-]QNAN\b")
_INSTRUCTION = regex(r"^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;")


@lru_cache(maxsize=2000)
def width_of(opcode: str) -> int:
    """Return the bytes per lane that a machine instruction moves: ``LDS.128`` -> 16, ``LDG.E`` -> 4, ``FFMA`` -> 0."""
    name, *modifiers = opcode.split(".")
    if name in _NOT_MEMORY or not _MEMORY.match(opcode):
        return 0
    if name in ("LDSM", "STSM"):  # ldmatrix: every lane receives one 32-bit register per 8x8 matrix
        return 4 * next((int(m) for m in modifiers if m in ("1", "2", "4")), 1)
    return next((_BITS[m] for m in modifiers if m in _BITS), 4)


def disassemble(cubin: bytes) -> str:
    """Return nvdisasm's listing of a cubin with line information, cached (``tools.disassembling`` has its options).

    Raise ``KitError`` if nvdisasm is missing or does not finish, and ``UnsupportedKernel`` if it fails.
    """
    return disassemble_together([cubin])[0]


def disassemble_together(cubins: Sequence[bytes]) -> list[str]:
    """Return the same of several cubins, with one call of ``nvdisasm`` for those that are not cached; of those, the
    text has only the sections with code. Raise as ``disassemble``."""
    program = nvrtc.disassembler()
    if program is None:
        raise KitError("nvdisasm is missing; install it with: pip install nvidia-cuda-nvdisasm")
    entries = [_Entry.of(cubin, program) for cubin in cubins]
    texts = [it.kept() for it in entries]
    missing = [number for number, text in enumerate(texts) if text is None]
    made = _printed(program, [cubins[number] for number in missing]) if missing else []
    for number, text in zip(missing, made, strict=True):
        texts[number] = text
        entries[number].keep(text)
    return [text for text in texts if text is not None]


@dataclass(frozen=True)
class _Entry:
    """A cubin's place in the cache, without the names of its files; ``key`` None without a cache."""

    key: str | None
    names: Sequence[str] = ()

    @classmethod
    def of(cls, cubin: bytes, program: Path) -> _Entry:
        if compile_cache.folder() is None:
            return cls(None)
        code, names = elf.without_file_names(cubin)
        return cls(compile_cache.key_of(CACHE_FORMAT, *code, compile_cache.identity(program)), names)

    def kept(self) -> str | None:
        found = None if self.key is None else compile_cache.get(self.key)
        return None if found is None else _named(found.decode(), self.names)

    def keep(self, text: str) -> None:
        if self.key is None:
            return
        unnamed = _unnamed(text, self.names)
        if _named(unnamed, self.names) == text and not (self.names and _NAMED.search(unnamed)):
            compile_cache.put(self.key, unnamed.encode())


def _printed(program: Path, cubins: Sequence[bytes]) -> list[str]:
    """Return what ``nvdisasm`` prints of each cubin: of all at once if they can be joined, else one by one."""
    if len(cubins) > 1:
        with contextlib.suppress(ValueError, LookupError, struct.error, UnsupportedKernel):
            texts = joined_cubins.apart(_printed_of(program, joined_cubins.joined(cubins)), len(cubins))
            if all(any(map(_INSTRUCTION.match, text.splitlines())) for text in texts):
                return texts
    return [_printed_of(program, cubin) for cubin in cubins]


def _printed_of(program: Path, cubin: bytes) -> str:
    done = tools.disassemble(cubin, PATIENCE_S) if tools.available() else _disassembled(program, cubin)
    if done.returncode != 0:
        raise UnsupportedKernel(f"nvdisasm cannot read its machine code: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _unnamed(text: str, names: Sequence[str]) -> str:
    """Replace file names by numbers for the cache, so that the entry fits the same code from another folder."""
    for number, name in enumerate(names):
        text = text.replace(f'"{name}"', f'"\0{number}"')
    return text


def _named(text: str, names: Sequence[str]) -> str:
    for number, name in enumerate(names):
        text = text.replace(f'"\0{number}"', f'"{name}"')
    return text


def _disassembled(program: Path, cubin: bytes) -> subprocess.CompletedProcess[str]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command, environment = tools.disassembling(program, Path(file.name))
        try:
            return subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, timeout=SLOW * PATIENCE_S,
                env=environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise KitError(f"nvdisasm did not finish within {SLOW * PATIENCE_S:g} s") from None


def parse(text: str, entry: str, names: Mapping[str, str] | None = None) -> tuple[SassInstruction, ...]:
    """Return the instructions of kernel ``entry`` and of device functions not inlined, not of other kernels.

    ``names``: original names of files that were compiled under another name.
    """
    instructions: list[SassInstruction] = []
    sections = _sections(text)
    for name, lines in sections.items():
        is_kernel = any("STO_CUDA_ENTRY" in line for line in lines[:12])
        if name == entry or not is_kernel:
            _parse_section(lines, instructions, names or {})
    return tuple(instructions)


def with_bits_of_nans(code: Sequence[SassInstruction], cubin: bytes, entry: str) -> tuple[SassInstruction, ...]:
    """Return the instructions with hexadecimal literals for NaNs: ``nvdisasm`` prints every NaN as ``QNAN``.

    An instruction has 16 bytes, and its 32-bit literal is the second word.
    """
    if not any(_NAN.search(it.text) for it in code):
        return tuple(code)
    section = next((it.data for it in elf.sections(cubin) if it.name == f".text.{entry}"), b"")

    def exact(it: SassInstruction) -> SassInstruction:
        if not _NAN.search(it.text) or it.opcode.startswith("H") or it.address + 8 > len(section):
            return it
        word = int.from_bytes(section[it.address + 4 : it.address + 8], "little")
        return replace(it, text=_NAN.sub(f"{word:#x}", it.text))

    return tuple(map(exact, code))


def _sections(text: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if match := _SECTION.match(line):
            current = sections.setdefault(match[1], [])
        else:
            current.append(line)
    return sections


def _parse_section(lines: list[str], instructions: list[SassInstruction], names: Mapping[str, str]) -> None:
    block = instructions[-1].block + 1 if instructions else 0
    fresh = True  # nothing yet in this block
    file, line_number = "", None
    called = names.get(file, file)
    inlined = False  # the last line was a position whose caller follows
    labels: list[str] = []
    for line in lines:
        if match := _INSTRUCTION.match(line):
            text = match[2]
            words = text.split()
            opcode = words[1] if words[0].startswith("@") and len(words) > 1 else words[0]
            instructions.append(
                SassInstruction(
                    opcode, width_of(opcode), called, line_number, int(match[1], 16), block, text, tuple(labels)
                )
            )
            fresh = False
            labels.clear()
            if opcode.split(".")[0] in _ENDS_BLOCK:
                block, fresh = block + 1, True
        elif match := _LINE.match(line):
            if not inlined or is_toolkit_header(file):
                file, line_number = plain_file_name(match[1]), int(match[2])
                called = names.get(file, file)
            inlined = match[3] is not None
        elif match := _LABEL.match(line):
            labels.append(match[1])
            if not fresh:
                block, fresh = block + 1, True
