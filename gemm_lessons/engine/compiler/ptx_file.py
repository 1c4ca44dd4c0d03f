"""Take PTX of another compiler as ``Compiled``, unchanged. There is no assembler here: its machine code is that of a
cubin, which the other compiler made of it, or there is none.

PTX without a line table gets one with the lines of the PTX file itself.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gemm_lessons.engine.compiler import cubin, elf
from gemm_lessons.engine.compiler.compile import (
    Compiled,
    Diagnostic,
    NotCompiled,
    compile_source,
    quoted,
    with_file_names,
)
from gemm_lessons.engine.compiler.ptxas import shared_arrays
from gemm_lessons.engine.compiler.source import PTX_HEAD, entries
from gemm_lessons.engine.compiler.tokens import without_comments
from gemm_lessons.engine.hardware.occupancy import Resources


def take(source: str, *, path: str, entry: str, **options: Any) -> Compiled | NotCompiled:
    """Take PTX as it is; compile everything else by ``compile_source``, which has the ``options``."""
    return (
        read_ptx(source, path, entry)
        if PTX_HEAD.search(source)
        else compile_source(source, path=path, entry=entry, **options)
    )


def read_ptx(ptx: str, path: str, entry: str) -> Compiled | NotCompiled:
    """Return kernel ``entry`` of a PTX file, for the architecture in its ``.target``."""
    head, known = PTX_HEAD.search(ptx), entries(ptx)
    if head is None or entry not in known:
        has = f"its kernels: {', '.join(known)}" if known else "it has none"
        return NotCompiled((Diagnostic(path, 1, None, "error", f"the file has no kernel {entry}; {has}"),), "")
    layout = shared_arrays(ptx, entry)
    shared = max((offset + size for _, offset, size in layout), default=0)
    return Compiled(
        source=ptx,
        path=path,
        entry=entry,
        arch=head[1],
        ptx="\n".join(_with_lines(with_file_names(ptx, {}), path)),
        cubin=b"",
        resources=Resources(0, shared, 0, 0),
        diagnostics=(),
        compiler="",
        shared_layout=layout,
    )


def with_cubin(compiled: Compiled, data: bytes, sizes: Sequence[int]) -> Compiled:
    """Return a kernel of a PTX file with the machine code in a cubin. ``sizes``: bytes of its parameters. Raise
    ``ValueError`` if the cubin is of another kernel."""
    path, entry = compiled.path, compiled.entry
    try:
        parts = elf.sections(data)
    except (ValueError, IndexError, struct.error):
        raise ValueError("the file given as cubin is none: it is not a 64-bit ELF file") from None
    code = [part.name.removeprefix(".text.") for part in parts if part.name.startswith(".text.")]
    if entry not in code:
        raise ValueError(f"the cubin is not of {path}: it has no kernel {entry}, only {', '.join(code) or 'none'}")
    if (arch := f"sm_{cubin.architecture(data)}") != compiled.arch.rstrip("af"):
        raise ValueError(f"the cubin is not of {path}: it is for {arch}, the PTX for {compiled.arch}")
    if (found := cubin.parameter_sizes(parts, entry)) != tuple(sizes):
        raise ValueError(
            f"the cubin is not of {path}: its parameters have {_listed(found)} bytes, those of the PTX {_listed(sizes)}"
        )
    registers, stack = (cubin.of_thread(parts, entry, it) for it in (cubin.REGISTERS, cubin.FRAME))
    resources = replace(compiled.resources, registers=registers, stack_bytes=stack)
    return replace(compiled, cubin=data, resources=resources)


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) or "no"


def _with_lines(ptx: str, path: str) -> Iterator[str]:
    """Yield each line. If the file has no ``.loc`` at all, insert one before each line that begins a statement."""
    lines, code = ptx.split("\n"), without_comments(ptx).split("\n")
    if any(line.lstrip().startswith(".loc") for line in code):
        yield from lines
        return
    number = 1 + max(map(int, re.findall(r"^\s*\.file\s+(\d+)", ptx, re.M)), default=0)
    depth, begins = 0, False
    for count, (line, text) in enumerate(zip(lines, map(str.strip, code), strict=True), 1):
        if depth and begins and text and text[0] not in ".{}":
            yield f".loc {number} {count} 0"
        yield line
        if text:
            opens_body = not depth and text[-1] == "{" and "=" not in text
            begins = opens_body or (depth > 0 and (text[-1] in ";:" or text in "{}"))
        depth += text.count("{") - text.count("}")
    yield f".file {number} {quoted(path)}"
