"""The launches of ``checks.foreign.hopper`` on a GPU: answers bit by bit, counters by Nsight Compute.

python -m checks.foreign.hopper_gpu DIR OUT.json     after ``hopper LAUNCHES.toml --launches DIR``; needs cupy, ncu
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from checks.counters.readings import BOXES, COMPARED
from checks.foreign.inputs import digest
from checks.readings.counters import renew
from checks.usage import help_if_asked
from gemm_lessons.engine.arguments.text import Given
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.machine.map_bytes import BASE, KINDS, decoded
from gemm_lessons.engine.ptx.parser import parse
from gemm_lessons.engine.records.launch import (
    TENSOR_MAP_SIZE,
    Argument,
    Buffer,
    Grid,
    Pointer,
    Scalar,
    TensorMap,
    buffer_of,
    offset_of,
)

SECONDS = 60  # for a launch under the profiler
DRIVERS_PTX = ".version 9.0"  # Triton 3.9 writes 9.4 and uses nothing newer; driver 580 takes 9.0
METRICS = (*COMPARED.values(), *BOXES.values())
# Elements of maps that are decoded from a struct, as the driver names them.
NAMES = {"u8": "uint8", "u16": "uint16", "u32": "uint32", "s32": "int32", "u64": "uint64", "s64": "int64",
         "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16"}  # fmt: skip


def carried(compiled: Compiled, grid: Grid, given: Given, before: Mapping[str, Any], output: str) -> dict[str, Any]:
    """Return a launch and a hash of its simulated answer, without this package's types."""
    buffers: list[Any] = []
    places: dict[int, int] = {}
    contents = {id(array): before[name] for name, array in given.arrays.items()}

    def place(pointer: Buffer | Pointer) -> tuple[int, int]:
        array = buffer_of(pointer).array
        if id(array) not in places:
            places[id(array)] = len(buffers)
            buffers.append(contents[id(array)].copy())
        return places[id(array)], offset_of(pointer)

    arguments = [_flat(it, place) for it in given.arguments]
    sizes = [parameter.size for parameter in parse(compiled.ptx).kernels[compiled.entry].parameters]
    return {
        "cubin": compiled.cubin or re.sub(r"(?m)^\.version .*", DRIVERS_PTX, compiled.ptx, count=1).encode(),
        "step": {"entry": compiled.entry, "grid": grid.grid, "block": grid.block,
                 "dynamic_shared": grid.dynamic_shared, "cluster": grid.cluster},
        "buffers": buffers,
        "arguments": [(*it, size) for it, size in zip(arguments, sizes, strict=True)],
        "output": places[id(given.arrays[output])],
        "answer": digest(given.arrays[output]),
    }  # fmt: skip


def _flat(argument: Argument, place: Any) -> tuple[bytes, dict[int, Any], dict[int, Any]]:
    """Return an argument's bytes, pointers in them, and tensor maps in them, both by offset."""
    if isinstance(argument, (Buffer, Pointer)):
        return bytes(8), {0: place(argument)}, {}
    if isinstance(argument, Scalar):
        return argument.value if isinstance(argument.value, bytes) else argument.value.tobytes(), {}, {}
    if isinstance(argument, TensorMap):
        assert argument.pointer is not None
        return bytes(TENSOR_MAP_SIZE), {}, {0: (argument.described, place(argument.pointer))}
    pointers, maps = {}, {}
    for at, pointer in argument.pointers.items():
        found = decoded(argument.raw[at - BASE : at - BASE + TENSOR_MAP_SIZE]) if at >= BASE else None
        if found is None:
            pointers[at] = place(pointer)
            continue
        about = {"element": NAMES[KINDS[found.kind]], "sizes": found.sizes, "strides": found.strides,
                 "box": found.box, "swizzle": found.swizzle}  # fmt: skip
        maps[at - BASE] = about, place(pointer)
    return argument.raw, pointers, maps


# -- on the machine with a GPU ---------------------------------------------------------------------------------------


def launch(path: Path) -> bool:
    """Launch once; return whether the answer is that of the simulator, bit by bit."""
    import cupy

    from gemm_lessons.devices.gpu import functions

    one = pickle.loads(gzip.decompress(path.read_bytes()))
    buffers = [cupy.asarray(np.ascontiguousarray(it).reshape(-1).view(np.uint8)) for it in one["buffers"]]
    kept, values = [], []
    for raw, pointers, maps, size in one["arguments"]:
        data = bytearray(raw)
        for at, (number, offset) in pointers.items():
            data[at : at + 8] = functions.address(buffers[number].data.ptr + offset)
        for at, (about, (number, offset)) in maps.items():
            made = functions.tensor_map(buffers[number].data.ptr + offset, about).tobytes()
            data[at : at + TENSOR_MAP_SIZE] = made
        if maps and size == 8:
            kept.append(cupy.asarray(np.frombuffer(bytes(data), np.uint8)))
            data = bytearray(functions.address(kept[-1].data.ptr))
        values.append(functions.by_value(bytes(data)))
    functions.launcher(one["cubin"], one["step"], values)()
    cupy.cuda.runtime.deviceSynchronize()
    return digest(buffers[one["output"]].get()) == one["answer"]


def measured(path: Path, scratch: Path) -> dict[str, Any]:
    """Launch under the profiler; return whether the answer is equal, and the counters, or what went wrong."""
    ncu, module = renew._profiler()
    report, out = scratch / "report.ncu-rep", scratch / "read.json"
    (scratch / "launched.json").write_text(json.dumps([path.stem]))
    command = [ncu, "-f", "--clock-control", "none", "--cache-control", "none", "-o", str(report.with_suffix(""))]
    command += ["--metrics", ",".join(METRICS), "-k", "regex:^(?!cupy)"]
    command += [sys.executable, "-m", "checks.foreign.hopper_gpu", "--launch", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        said = {"equal": True, "different": False}
        equal = next((said[line] for line in done.stdout.splitlines() if line in said), None)
        if equal is None:
            return {"failed": (done.stdout + done.stderr)[-300:]}
        reader = [sys.executable, str(Path(renew.__file__).with_name("reader.py")), str(report)]
        reader += [str(scratch / "launched.json"), str(out)]
        subprocess.run(reader, env={**os.environ, "PYTHONPATH": str(module)}, check=True)
    except (subprocess.SubprocessError, OSError) as problem:
        return {"failed": str(problem)[-300:]}
    totals = json.loads(out.read_text())[0]["totals"]
    return {"equal": equal, "counters": {name: int(totals[name]) for name in METRICS if name in totals}}


def main(folder: Path, out: Path) -> None:
    """Measure every launch of a folder."""
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted(folder.glob("*.pickle")):
            name = pickle.loads(gzip.decompress(path.read_bytes()))["name"]
            found[name] = measured(path, Path(scratch))
            print(name, {k: v for k, v in found[name].items() if k != "counters"}, flush=True)
            out.write_text(json.dumps(found, indent=0))


if __name__ == "__main__":
    help_if_asked(__doc__)
    if sys.argv[1] == "--launch":
        print("equal" if launch(Path(sys.argv[2])) else "different")
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
