"""Run every instruction of the semantics table on the GPU of this machine and keep what it answered.

    python -m checks.readings.simulator.record_semantics out.npz             needs cupy and a GPU; a quarter of a minute
    python -m checks.readings.simulator.record_semantics --keep out.npz      writes semantics_h200.json beside this file
    python -m checks.readings.simulator.record_semantics --ptx FOLDER        the kernels only, to read or to assemble
    python -m checks.readings.simulator.record_semantics --unrecorded        names what no GPU has answered yet

``test_semantics.py`` compares the stored fingerprints with the simulator's results, so that CI compares every
instruction with hardware without a GPU. New instructions are listed in ``semantics_cases.UNRECORDED`` until recorded.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from checks.simulator import semantics_cases as cases
from checks.usage import help_if_asked

NEEDS_SM_100 = {"e2m3x2", "e3m2x2", "e2m1x2"}


def register_size(code: str) -> int:
    return max(16, cases.width(code)) if code != "pred" else 32


def recordable(name: str) -> bool:
    """Whether a GPU's results can be compared: not of cvta (the simulator's addresses differ), not of bfloat16 to bytes
    (it needs 8-bit registers), not of floats of 6 and 4 bits (they need sm_100a, which the H200 lacks)."""
    words = {*name.split(".")}
    return not (name.startswith("cvta") or {"bf16"} < words & {"bf16", "u8", "s8"} or words & NEEDS_SM_100)


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
    """Run everything on the GPU and save the raw results."""
    import cupy

    found: dict[str, Any] = {}
    for text, part in modules():
        module = cupy.cuda.function.Module()
        module.load(text.encode())
        for entry, name, results in part:
            operation = cases.operation_of(name, results)
            rows = cases.operands(name, operation)
            # lop3's table is an immediate in the PTX, not an argument.
            sources = [cupy.asarray(row) for row in rows if row.shape]
            outs = [cupy.zeros(cases.LANES, np.dtype(d)) for d in cases.result_dtypes(operation)]
            spare = [sources[0]] * (len(rows) - len(sources))
            arguments = tuple(array.data.ptr for array in (*sources, *spare, *outs))
            module.get_function(entry)((1,), (cases.LANES,), arguments)
            for i, out in enumerate(outs):
                found[f"{key_of(name, results)}|{i}"] = raw(out.get())
    np.savez_compressed(path, **found)
    print(f"{len(found)} rows recorded")


def raw(row: Any) -> Any:
    return row if row.dtype == np.bool_ else row.view(f"u{row.itemsize}")


def key_of(name: str, results: int) -> str:
    """The name of a case in the recorded data."""
    return name if results == 1 else name + " p|q"


def is_approximate(name: str) -> bool:
    """Whether the PTX manual allows an error."""
    return bool({"approx", "full"} & {*name.split(".")})


def fingerprint(rows: list[Any]) -> str:
    """Of the raw results of one case."""
    return f"{zlib.crc32(b''.join(np.ascontiguousarray(row).tobytes() for row in rows)):08x}"


def keep(path: str) -> None:
    """Raw results -> ``semantics_h200.json``."""
    data = np.load(path)
    results, approximate = {}, {}
    for name, n in cases.every_case():
        if not recordable(name):
            continue
        key = key_of(name, n)
        operation = cases.operation_of(name, n)
        rows = [data[f"{key}|{i}"] for i in range(len(cases.result_dtypes(operation)))]
        if is_approximate(name):
            approximate[key] = rows[0].tobytes().hex()
        else:
            results[key] = fingerprint(rows)
    kept = {"gpu": "NVIDIA H200", "driver": "580.159.04", "lanes": cases.LANES}
    target = Path(__file__).with_name("semantics_h200.json")
    target.write_text(json.dumps(kept | {"results": results, "approximate": approximate}, indent=0) + "\n")
    if cases.UNRECORDED:
        print(f"recorded now, so take them off semantics_cases.UNRECORDED: {', '.join(cases.UNRECORDED)}")


if __name__ == "__main__":
    help_if_asked(__doc__)
    match sys.argv[1:]:
        case ["--keep", path]:
            keep(path)
        case ["--ptx", folder]:
            for number, (text, _) in enumerate(modules()):
                Path(folder, f"m{number}.ptx").write_text(text)
        case ["--unrecorded"]:
            print("\n".join(cases.UNRECORDED))
        case [path]:
            record(path)
        case _:
            sys.exit(__doc__)
