"""Parses PTX declarations: variables of a module or a kernel with their initial values, parameters, launch bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemm_lessons.engine.ptx.operand_text import parse_operand, signed, split
from gemm_lessons.engine.ptx.records import SIZES, AddressOf, Immediate, KernelParameter, PtxSyntaxError, Variable
from gemm_lessons.engine.records.regex import regex

MAX_BYTES = {"global": 1 << 30, "const": 1 << 30, "shared": 1 << 20, "local": 1 << 20}  # per variable
MOST_ALIGNMENT = 1 << 20
MAX_PARAMETER_BYTES = 32764  # "CUDA C++ Programming Guide", kernel parameters since CUDA 12.1

_PARAMETER = regex(
    r"\.param\s*(?:\.align\s+(\d+)\s*)?\.(\w+)(?:\s*\.ptr\b[^,]*?)?\s+([\w$]+)(?:\[(\d+)\])?\s*(?:,|$)", re.S
)
_VARIABLE = regex(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(shared|local|const|global)\s+(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+(\d+)\s+)?(?:\.(v[24])\s+)?\.(\w+)\s+([\w$]+)((?:\s*\[\d*\])*)\s*(?:=\s*(.*))?$",
    re.S,
)
_SHAPE = regex(r"\.(maxntid|reqntid|maxnreg|minnctapersm|reqnctapercluster|maxclusterrank)\s+(\d+(?:\s*,\s*\d+){0,2})")
_POINTER = regex(
    r"(?:(0[xX][fF0]+)\s*\()?\s*(?:generic\s*\(\s*)?([A-Za-z_$][\w$]*)\s*(?:([+-])\s*(\w+))?\s*\)*\s*"
    r"(?:([+-])\s*(\w+))?\s*\)?$"
)


def directives(text: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Yield the shapes in ``.maxntid 256, 1, 1`` and similar directives between a kernel's head and its body."""
    for name, numbers in _SHAPE.findall(text):
        x, y, z = [*map(int, numbers.split(",")), 1, 1][:3]
        yield name, (x, y, z)


def module_variables(chunk: str) -> Iterator[Variable]:
    """Yield the variables declared between kernels. One that cannot be held has the reason as its ``problem``."""
    for statement in chunk.split(";"):
        match = re.search(r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?:shared|const|global)\s.*$", statement, re.S)
        if match is None:
            continue
        text = match.group().strip()
        try:
            yield variable(text)
        except PtxSyntaxError as error:
            declared = text.partition("=")[0].partition("[")[0].split()
            yield Variable(declared[-1], declared[0].lstrip("."), 1, 0, problem=str(error))


def variable(statement: str) -> Variable:
    """Return one declared variable. Raise ``PtxSyntaxError`` for one that cannot be read or is too large."""
    match = _VARIABLE.match(statement)
    if match is None or match[4] not in SIZES:
        raise PtxSyntaxError(f"declaration not understood: {statement[:100]}")
    space, align, vector, kind, name, dimensions, initial = match.groups()
    element = SIZES[kind]
    size = element * (int(vector[1]) if vector else 1)
    for dimension in re.findall(r"\[(\d*)\]", dimensions):
        size *= int(dimension or 0)
    if size > MAX_BYTES[space] or int(align or 1) not in range(1, MOST_ALIGNMENT + 1):
        raise PtxSyntaxError(f"{name} has {size:,} bytes{f' at {align}' if align else ''}, more than can be held")
    data, pointers = _initial(initial, element) if initial else (b"", ())
    if len(data) > size:
        raise PtxSyntaxError(f"more values than the variable holds: {statement[:100]}")
    return Variable(name, space, int(align or element), size, data, kind, pointers)


def _initial(text: str, element: int) -> tuple[bytes, tuple[AddressOf, ...]]:
    """Return the bytes of ``{1, 2}`` or ``7``, and addresses among them: ``generic(a)+4``, ``0xFF00(generic(a))``."""
    data = b""
    pointers: list[AddressOf] = []
    for item in split(re.sub(r"[{}]", " ", text)):
        if match := _POINTER.match(item):
            mask = int(match[1], 16) if match[1] else (1 << 8 * element) - 1
            addend = signed(match[3] or match[5], match[4] or match[6])
            shift = ((mask & -mask).bit_length() - 1) // 8
            size = (mask.bit_length() + 7) // 8 - shift
            if size > element:
                raise PtxSyntaxError(f"initial value not understood: {item[:100]}")
            pointers.append(AddressOf(len(data), match[2], addend, size, shift))
            data += bytes(element)
            continue
        value = parse_operand(item)
        if not isinstance(value, Immediate):
            raise PtxSyntaxError(f"initial value not understood: {item[:100]}")
        data += (value.value & (1 << 8 * element) - 1).to_bytes(element, "little")
    return data, tuple(pointers)


def parameters(text: str) -> tuple[KernelParameter, ...]:
    """Return the parameters of a kernel or function with consecutive offsets. Raise ``PtxSyntaxError``."""
    result: list[KernelParameter] = []
    offset = 0
    if ".reg" in text:
        raise PtxSyntaxError(f"parameters in registers (.reg) are not supported, use .param: {text[:100]}")
    found = _PARAMETER.findall(text.strip(" \n\t,"))
    if len(found) != text.count(".param") or any(
        kind not in SIZES or int(align or 1) not in range(1, MOST_ALIGNMENT + 1) for align, kind, _, _ in found
    ):
        raise PtxSyntaxError(f"parameters not understood: {' '.join(text.split())[:200]}")
    for align_text, kind, name, count in found:
        size = SIZES[kind] * int(count or 1)
        if size > MAX_PARAMETER_BYTES:
            raise PtxSyntaxError(f"parameter {name} has {size:,} bytes, more than a launch can pass")
        align = int(align_text or SIZES[kind])
        offset = -(-offset // align) * align
        result.append(KernelParameter(name, kind, offset, size, align))
        offset += size
    return tuple(result)
