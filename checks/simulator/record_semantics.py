"""Run every instruction of the semantics table on the GPU of this machine and keep what it answered.

    python checks/simulator/record_semantics.py out.npz        (needs cupy and a GPU; about a minute)

The raw results go to the .npz; ``test_semantics.py`` compares fingerprints of them, kept in ``semantics_h200.json``
(written by ``--fingerprints out.npz``), with what the simulator computes, so that CI holds the table against hardware.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import semantics_cases as cases

from gemm_lessons.simulator import semantics

LETTERS = {"pred": "p", 16: "h", 32: "r", 64: "d"}


def register_size(code: str) -> int:
    return max(16, cases.width(code)) if code != "pred" else 32


def recordable(name: str) -> bool:
    """Not cvta (addresses mean nothing in the simulator), nor 8-bit registers (bfloat16 to bytes wants them)."""
    return not name.startswith("cvta") and not {"bf16"} < {*name.split(".")} & {"bf16", "u8", "s8"}


def kernel(entry: str, name: str, results: int) -> str:
    """A PTX kernel that applies the instruction to one lane per thread. Parameters: sources, then results."""
    operation = cases.operation_of(name, results)
    sources, outs = [*operation.sources], [*operation.result]
    opcode = name
    lines: list[str] = []
    arguments: list[str] = []
    count = len(sources) + operation.carry_in + len(outs) + operation.carry_out
    pointers = ", ".join(f".param .u64 p{i}" for i in range(count))
    lines.append("mov.u32 %t, %tid.x;")
    for i, code in enumerate([*sources, *(("pred",) if operation.carry_in else ())]):
        if name == "lop3.b32" and i == 3:
            arguments.append("0xE8")
            continue
        size = 8 if code == "pred" else cases.width(code)
        lines += [f"ld.param.u64 %a, [p{i}];", f"mad.wide.u32 %a, %t, {size // 8}, %a;"]
        if code == "pred":
            lines += ["ld.global.u8 %x, [%a];", f".reg .pred %s{i};", f"setp.ne.u32 %s{i}, %x, 0;"]
            if i == len(sources):
                lines += [f"selp.u32 %x, 1, 0, %s{i};", "add.cc.u32 %x, %x, 0xFFFFFFFF;"]
                continue
        else:
            lines += [f".reg .b{register_size(code)} %s{i};"]
            lines += [f"ld.global.{'u8' if size == 8 else f'b{size}'} %s{i}, [%a];"]
        arguments.append(f"%s{i}")
    targets = []
    for i, code in enumerate(outs):
        declared = ".pred" if code == "pred" else f".b{32 if cases.width(code) == 8 else cases.width(code)}"
        lines.insert(0, f".reg {declared} %o{i};")
        targets.append(f"%o{i}")
    lines.append(f"{opcode} {'|'.join(targets)}, {', '.join(arguments)};")
    if operation.carry_out:
        lines += ["addc.u32 %y, 0, 0;"]
    for i, code in enumerate([*outs, *(("carry",) if operation.carry_out else ())]):
        size = 8 if code in ("pred", "carry") else max(cases.width(code), 32 if cases.width(code) == 8 else 0)
        lines += [f"ld.param.u64 %a, [p{count - len(outs) - operation.carry_out + i}];"]
        lines += [f"mad.wide.u32 %a, %t, {size // 8}, %a;"]
        if code == "carry":
            lines += ["st.global.u8 [%a], %y;"]
        elif code == "pred":
            lines += [f"selp.u32 %x, 1, 0, %o{i};", "st.global.u8 [%a], %x;"]
        else:
            lines += [f"st.global.b{size} [%a], %o{i};"]
    body = "\n  ".join(lines)
    return f".visible .entry {entry}({pointers}) {{\n  .reg .b32 %t, %x, %y;\n  .reg .b64 %a;\n  {body}\n  ret;\n}}\n"


HEADER = ".version 8.6\n.target sm_90\n.address_size 64\n"


def modules(size: int = 100) -> Iterator[tuple[str, list[tuple[str, str, int]]]]:
    """PTX modules of ``size`` kernels, with (entry, name, results) of each."""
    everything = [(name, n) for name, n in cases.every_case() if recordable(name)]
    for start in range(0, len(everything), size):
        part = [(f"k{start + i}", name, n) for i, (name, n) in enumerate(everything[start : start + size])]
        yield HEADER + "".join(kernel(*item) for item in part), part


def record(path: str) -> None:
    import cupy

    found: dict[str, Any] = {}
    refused: list[str] = []
    for text, part in modules():
        module = cupy.cuda.function.Module()
        try:
            module.load(text.encode())
        except cupy.cuda.driver.CUDADriverError as error:
            refused.append(f"{part[0][0]}: {error}")
            continue
        for entry, name, results in part:
            operation = cases.operation_of(name, results)
            rows = cases.operands(name, operation)
            sources = [cupy.asarray(np.broadcast_to(row, (cases.LANES,)).astype(row.dtype)) for row in rows]
            outs = [cupy.zeros(cases.LANES, np.dtype(d)) for d in cases.result_dtypes(operation)]
            module.get_function(entry)((1,), (cases.LANES,), tuple(a.data.ptr for a in (*sources, *outs)))
            for i, out in enumerate(outs):
                host = out.get()
                found[f"{name}|{results}|{i}"] = host if host.dtype == np.bool_ else host.view(f"u{host.itemsize}")
    np.savez_compressed(path, **found)
    print(f"{len(found)} rows recorded, refused: {refused}")


def fingerprint(rows: list[Any]) -> str:
    """Of the raw results of one case."""
    return f"{zlib.crc32(b''.join(np.ascontiguousarray(row).tobytes() for row in rows)):08x}"


if __name__ == "__main__":
    if sys.argv[1] == "--ptx":
        for i, (text, _) in enumerate(modules()):
            Path(sys.argv[2], f"m{i}.ptx").write_text(text)
    elif sys.argv[1] == "--fingerprints":
        data = np.load(sys.argv[2])
        prints = {}
        for name, n in cases.every_case():
            rows = [data[f"{name}|{n}|{i}"] for i in range(4) if f"{name}|{n}|{i}" in data]
            if rows:
                prints[name if n == 1 else name + " p|q"] = fingerprint(rows)
        target = Path(__file__).with_name("semantics_h200.json")
        target.write_text(json.dumps({"gpu": "NVIDIA H200", "lanes": cases.LANES, "results": prints}, indent=0) + "\n")
    else:
        record(sys.argv[1])
    assert semantics.supported()
