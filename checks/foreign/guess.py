"""Guesses launches of a kernel: arguments from its parameters, block and sizes from the host code of its file.

A guess is a candidate only; ``search.py`` keeps the first one that runs without a fault or an error, and the manifest
freezes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from checks.foreign.inputs import Argument, Number, Pointer
from checks.foreign.manifest import three
from gemm_lessons.engine.compiler.source import GlobalFunction
from gemm_lessons.engine.records.launch import Grid

TYPES = {
    "float": "f4", "double": "f8", "int": "i4", "unsigned": "u4", "unsigned int": "u4", "uint": "u4", "uint32_t": "u4",
    "int32_t": "i4", "char": "i1", "signed char": "i1", "int8_t": "i1", "unsigned char": "u1", "uint8_t": "u1",
    "uchar": "u1", "short": "i2", "int16_t": "i2", "unsigned short": "u2", "ushort": "u2", "uint16_t": "u2",
    "long": "i8", "long int": "i8", "long long": "i8", "long long int": "i8", "int64_t": "i8", "ptrdiff_t": "i8",
    "unsigned long": "u8", "unsigned long long": "u8", "unsigned long long int": "u8", "unsigned long int": "u8",
    "uint64_t": "u8", "size_t": "u8", "ulong": "u8", "half": "f2", "__half": "f2", "bool": "b1", "void": "u4",
    "__nv_bfloat16": "bf", "nv_bfloat16": "bf", "bf16": "bf",
}  # fmt: skip
VECTOR = re.compile(r"(u?char|u?short|u?int|u?long|u?longlong|float|double)([1234])$")
INDICES = re.compile(r"idx|ind(ex|ices)?s?$|cols?$|rows?$|label|target|tok|map|perm|nbr|edge|neigh|key|inp$", re.I)
OFFSETS = re.compile(r"(row|col)_?(ptr|off|start|delim)|offset|starts?$|delim", re.I)
SUMS = re.compile(r"count|hist|bin|sum|total|lock|mutex|flag|visited|done", re.I)
TOTAL = re.compile(r"^_?(n|N|len|length|size|num|count|total|numel|elements|limit|end)|(size|len|length|num|count|n)$")
SIDE = re.compile(r"width|height|rows?|cols?|dim|^[MNKmnkwhWHxyXYC]$|^n[xyzij]$|^[wh]$|pitch|stride|^ld[abc]?$|^ni|^nj")
FEW = re.compile(r"iter|step|radius|kernel_?size|ksize|filter|batch|head|depth|level|pass|chan|repeat|times|^B$|^T$")
REALS = {"f2", "f4", "f8"}


@dataclass(frozen=True)
class Try:
    """One candidate."""

    entry: str
    shape: Grid
    arguments: tuple[Argument, ...]
    defines: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sizes:
    """Sizes of a candidate: a line (``flat``) of ``total`` elements, or a square of ``side``; ``elements`` of each
    buffer, ``kind`` of their values."""

    block: tuple[int, int, int]
    total: int
    side: int
    elements: int
    flat: bool
    kind: str


class Host:
    """Constants, ``dim3`` variables and launches that the text of the whole file spells out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.values: dict[str, str] = {}
        for name, value in re.findall(r"#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]+)", text):
            self.values[name] = value.strip()
        declared = r"\b(?:int|unsigned|size_t|uint|long|auto|uint32_t|int64_t|dim3)\s+(\w+)\s*=\s*([^;,{]+)[;,]"
        for name, value in re.findall(declared, text):
            self.values.setdefault(name, value.strip())
        for name, value in re.findall(r"\bdim3\s+(\w+)\s*([({][^;]*[)}])\s*;", text):
            self.values.setdefault(name, "dim3" + value.replace("{", "(").replace("}", ")"))
        for name, value in re.findall(r"\b(\w+)\s*=\s*(dim3\s*\([^;]*\)|\d+)\s*;", text):
            self.values.setdefault(name, value)

    def value(self, expression: str, depth: int = 0) -> tuple[int, ...] | None:
        """One to three numbers, or None."""
        text = expression.strip()
        if depth > 6 or len(text) > 200:
            return None
        if match := re.match(r"dim3\s*\((.*)\)$", text, re.S):
            parts = [self.value(part, depth + 1) for part in split(match[1])]
            return None if any(p is None for p in parts) else tuple(p[0] for p in parts if p)
        if re.fullmatch(r"[A-Za-z_]\w*", text):
            return self.value(self.values[text], depth + 1) if text in self.values else None
        text = re.sub(r"\(\s*(?:int|unsigned|size_t|float|double|unsigned int)\s*\)", "", text)
        text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text)

        def known(match: re.Match[str]) -> str:
            if match[0].lower() in ("ceil_div", "cdiv", "div_ceil", "divup", "idivup", "ceildiv"):
                return "_up"
            found = self.value(match[0], depth + 1)
            return str(found[0]) if found else "?"

        text = re.sub(r"[A-Za-z_]\w*", known, text).replace("/", "//")
        text = re.sub(r"_up\(([^,()]+),([^,()]+)\)", r"-(-(\1)//(\2))", text)
        if not re.fullmatch(r"[\d\s+*/%()<>.-]+", text):
            return None
        try:
            return (int(eval(text, {"__builtins__": {}})),)
        except (SyntaxError, ArithmeticError, ValueError, TypeError):
            return None

    def launches(self, name: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """(template arguments, launch configuration, arguments) of every ``name<<<...>>>(...)``."""
        pattern = rf"\b{re.escape(name)}\s*(?:<([^<>;]*)>)?\s*<<<(.*?)>>>\s*\(([^;]*?)\)\s*;"
        for match in re.finditer(pattern, self.text, re.S):
            yield match[1] or "", split(match[2]), split(match[3])


def split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def tries(kernel: GlobalFunction, body: str, host: Host, aliases: Mapping[str, str], dynamic: bool) -> Iterator[Try]:
    """Candidates, the likeliest first."""
    launched = list(host.launches(kernel.name))
    blocks = []
    for _, configuration, _ in launched:
        found = host.value(configuration[1]) if len(configuration) > 1 else None
        if found and 1 <= np.prod(found) <= 1024:
            blocks.append(three(found))
    bound = re.search(r"__launch_bounds__\s*\(\s*([^,)]+)", host.text)
    two = re.search(r"threadIdx\.y|blockIdx\.y|blockDim\.y", body) is not None
    threads_in_y = re.search(r"threadIdx\.y|blockDim\.y", body) is not None
    generic = [(16, 16, 1), (32, 32, 1), (32, 8, 1), (8, 8, 1)] if threads_in_y else [(256, 1, 1), (128, 1, 1)]
    if not threads_in_y:
        generic += [(64, 1, 1), (32, 1, 1), (512, 1, 1), (1024, 1, 1)]
    elif re.search(r"threadIdx\.z|blockDim\.z", body):
        generic.insert(0, (8, 8, 4))
    if bound and (limit := host.value(bound[1])) and not threads_in_y:
        blocks.append((limit[0], 1, 1))
    blocks = list(dict.fromkeys([*blocks, *generic]))[:5]
    z = re.search(r"blockIdx\.z", body) is not None
    for number, block in enumerate(blocks):
        for sizes in _sizes(block, two):
            if number and sizes.elements > 1 << 17:
                continue
            yield _make(kernel, sizes, host, launched, aliases, two, z, dynamic)
    large = {word for word in re.findall(r"\b[A-Z][A-Z0-9_]*\b", body) if (v := host.value(word)) and v[0] >= 512}
    if large:
        small = dict.fromkeys(sorted(large), "64")
        for sizes in [s for block in blocks[:2] for s in list(_sizes(block, two))[::2]]:
            yield replace(_make(kernel, sizes, host, launched, aliases, two, z, dynamic), defines=small)


def _sizes(block: tuple[int, int, int], two: bool) -> Iterator[Sizes]:
    threads = block[0] * block[1] * block[2]
    line = max(1024, 2 * threads)
    yield Sizes(block, line, 64, 1 << 16, not two, "dyadic")
    yield Sizes(block, line - 24, 64, 1 << 16, not two, "positive")
    yield Sizes(block, 2 * threads if two else line, 32, 1 << 18, not two, "positive")


def _make(
    kernel: GlobalFunction, sizes: Sizes, host: Host, launched: list[tuple[str, list[str], list[str]]],
    aliases: Mapping[str, str], two: bool, z: bool, dynamic: bool,
) -> Try:  # fmt: skip
    entry, given = kernel.name, dict[str, str]()
    if kernel.template:
        instance, given = _template(kernel, sizes, host, launched)
        entry = f"{kernel.name}<{', '.join(instance)}>"
    aliases = {**aliases, **given}
    arguments = tuple(_argument(text, sizes, aliases) for text in kernel.parameters)
    bx, by, _ = sizes.block
    if two:
        grid = (-(-sizes.side // bx), -(-sizes.side // by), 2 if z else 1)
    else:
        grid = (-(-sizes.total // bx), 1, 2 if z else 1)
    return Try(entry, Grid(grid, sizes.block, 16384 if dynamic else 0), arguments)


def _template(
    kernel: GlobalFunction, sizes: Sizes, host: Host, launched: list[tuple[str, list[str], list[str]]]
) -> tuple[list[str], dict[str, str]]:
    parameters = split(kernel.template)
    for text, _, _ in launched:
        literal = split(text)
        values = [
            item if re.fullmatch(r"[\w ]+", item) and (item in TYPES or item in ("true", "false"))
            else str(v[0]) if (v := host.value(item)) else ""
            for item in literal
        ]  # fmt: skip
        if literal and all(values):
            named = {p.split()[-1]: v for p, v in zip(parameters, values, strict=False) if p.startswith(("t", "c"))}
            return values, {k: v for k, v in named.items() if v in TYPES}
    result, types = [], {}
    for text in parameters:
        head, _, default = text.partition("=")
        words = head.split()
        name = words[-1] if words else ""
        if words and words[0] in ("typename", "class"):
            value = default.strip() if default.strip() in TYPES else "float"
            types[name] = value
        elif "bool" in words:
            value = "true"
        elif default and (number := host.value(default)):
            value = str(number[0])
        elif re.search(r"thread|block|bdim", name, re.I) and not re.search(r"warp|per", name, re.I):
            value = str(sizes.block[0])
        else:
            low = name.lower()
            table = {"bm": 64, "bn": 64, "bk": 8, "tm": 4, "tn": 4, "tile": 16, "warp": 4, "bits": 4, "radius": 3}
            value = str(next((v for k, v in table.items() if low.startswith(k) or k in low), 4))
        result.append(value)
    return result, types


def _plain(text: str) -> str:
    text = text.replace("std::", "")
    words = re.sub(r"\b(const|volatile|__restrict__|__restrict|restrict|struct|register)\b", " ", text)
    return " ".join(words.split())


def _argument(parameter: str, sizes: Sizes, aliases: Mapping[str, str]) -> Argument:
    text = parameter.partition("=")[0]
    match = re.match(r"(.*?)([\w]*)\s*((?:\[[^\]]*\])*)$", text, re.S)
    assert match
    kind, name, array = match[1], match[2], match[3]
    pointer = kind.count("*") + array.count("[")
    base = _plain(kind.replace("*", " ").replace("&", " "))
    for _ in range(5):
        if base in TYPES or base not in aliases:
            break
        target = aliases[base]
        pointer += target.count("*")
        base = _plain(target.replace("*", " "))
    vector = VECTOR.match(base)
    dtype = TYPES.get(vector[1].replace("longlong", "long long") if vector else base, "")
    if vector and vector[1].startswith("u") and not dtype:
        dtype = TYPES.get("unsigned " + vector[1][1:].replace("longlong", "long long"), "u4")
    if base in ("half2", "__half2"):
        dtype, vector = "f2", re.match("(.*)(2)$", base)
    if pointer > 1 or (not pointer and not dtype):
        raise NotImplementedError(f"parameter {parameter}")
    if pointer:
        return _pointer(dtype or "f4", name, int(vector[2]) if vector else 1, sizes)
    if vector:
        value = np.full(int(vector[2]), sizes.side if dtype not in REALS else 0.5, dtype)
        return Number(value.tobytes())
    return Number(_number(dtype, name, sizes))


def _pointer(dtype: str, name: str, lanes: int, sizes: Sizes) -> Pointer:
    count = sizes.elements * (1 if lanes == 1 else lanes)
    if dtype in REALS:
        return Pointer(dtype, count, sizes.kind)
    if dtype == "bf":
        return Pointer("u2", count, "bf16")
    if dtype == "b1":
        return Pointer("u1", count, "2")
    if OFFSETS.search(name):
        return Pointer(dtype, count, "rise/1" if dtype in ("i1", "u1") else "rise")
    if INDICES.search(name):
        return Pointer(dtype, count, str(min(sizes.side, 100)))
    if SUMS.search(name):
        return Pointer(dtype, count, "zero")
    return Pointer(dtype, count, "100" if dtype != "u1" else "256")


def _number(dtype: str, name: str, sizes: Sizes) -> Any:
    if dtype == "bf":
        return np.uint16(0x3F00)
    if dtype == "b1":
        return np.uint8(1)
    if dtype in REALS:
        return np.dtype(dtype).type(0.5)
    if FEW.search(name):
        value = 2
    elif sizes.flat and TOTAL.search(name):
        value = sizes.total
    elif SIDE.search(name) or TOTAL.search(name):
        value = sizes.side
    else:
        value = 4
    return np.dtype(dtype).type(min(value, np.iinfo(dtype).max))
