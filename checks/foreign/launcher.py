"""Runs the launches of ``run --write-launches`` on a GPU and records which outputs have the expected bits.

    python launcher.py FOLDER OUT          needs cupy and NumPy, and ``inputs.py`` beside this file; nothing of the kit

A worker process launches kernel after kernel and writes a line for each. If it crashes or makes no progress, it is
killed and another continues after its kernel. OUT/results.jsonl has one line per kernel with hashes of all outputs;
unexpected outputs are kept in OUT/outputs_N.npz, XORed with the input.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import inputs

SECONDS = 15.0  # without progress; the longest of these kernels takes milliseconds, the first loads cupy
MOST_BYTES = 14 << 20  # of one file of outputs
MOST_FILES = 6


def launch(folder: Path, row: dict[str, Any], cupy: Any) -> list[Any]:
    """Launch once with new data; return the buffers afterwards, as bytes."""
    module = cupy.cuda.function.Module()  # not RawModule, which loads a file once: variables would keep their values
    module.load_file(str(folder / row["cubin"]))
    function = module.get_function(row["kernel"])
    if row["shared"] > 48 << 10:
        driver = cupy.cuda.driver
        driver.funcSetAttribute(function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, row["shared"])
    buffers, passed = [], []
    for number, text in enumerate(row["arguments"]):
        argument = inputs.parse(text)
        if isinstance(argument, inputs.Pointer):
            buffers.append(cupy.asarray(argument.values(number).view(np.uint8)))
            passed.append(buffers[-1])
        elif isinstance(argument.value, bytes):
            passed.append(np.frombuffer(argument.value, np.dtype((np.void, len(argument.value))))[0])
        else:
            passed.append(argument.value)
    cupy.cuda.runtime.deviceSynchronize()
    function(
        tuple(row["grid"]), tuple(row["block"]), tuple(passed), row["shared"],
        enable_cooperative_groups=row["cooperative"],
    )  # fmt: skip
    cupy.cuda.runtime.deviceSynchronize()
    return [cupy.asnumpy(buffer) for buffer in buffers]


def worker(folder: Path, out: Path, first: int) -> None:
    """Launch the rows from ``first`` on; note the current row in OUT/at."""
    import cupy

    rows = json.loads((folder / "launches.json").read_text())
    with (out / "results.jsonl").open("a") as file:
        for number in range(first, len(rows)):
            row = rows[number]
            (out / "at").write_text(str(number))
            answer: dict[str, Any] = {"name": row["name"]}
            try:
                after = launch(folder, row, cupy)
                again = launch(folder, row, cupy)
            except Exception as problem:  # noqa: BLE001 (whatever it is, the next goes on)
                file.write(json.dumps({**answer, "failed": f"{type(problem).__name__}: {problem}"[:300]}) + "\n")
                file.flush()
                os._exit(3)
            answer["digests"] = [inputs.digest(array) for array in after]
            answer["steady"] = all((a == b).all() for a, b in zip(after, again, strict=True))
            if answer["digests"] != row["expected"]:
                np.savez_compressed(out / f"kept_{number}.npz", **changes(row, after))
            file.write(json.dumps(answer) + "\n")
            file.flush()
    (out / "at").write_text(str(len(rows)))


def changes(row: dict[str, Any], after: list[Any]) -> dict[str, Any]:
    result, waiting = {}, iter(zip(after, row["expected"], strict=True))
    for number, text in enumerate(row["arguments"]):
        argument = inputs.parse(text)
        if isinstance(argument, inputs.Pointer):
            array, expected = next(waiting)
            if inputs.digest(array) != expected:
                result[str(number)] = array ^ argument.values(number).view(np.uint8)
    return result


def main(folder: Path, out: Path) -> None:
    """Start workers until every row has its line."""
    out.mkdir(parents=True, exist_ok=True)
    count = len(json.loads((folder / "launches.json").read_text()))
    first, start = 0, time.monotonic()
    while first < count:
        (out / "at").write_text(str(first))
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), str(folder), str(out), str(first)], start_new_session=True
        )
        at, since = first, time.monotonic()
        while process.poll() is None:
            time.sleep(0.2)
            now = int((out / "at").read_text() or at)
            if now != at:
                at, since = now, time.monotonic()
            elif time.monotonic() - since > SECONDS:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                break
        at = int((out / "at").read_text() or at)
        if at < count:
            lines = (out / "results.jsonl").read_text() if (out / "results.jsonl").exists() else ""
            name = json.loads((folder / "launches.json").read_text())[at]["name"]
            if json.dumps(name) not in lines:
                with (out / "results.jsonl").open("a") as file:
                    file.write(json.dumps({"name": name, "failed": "hung or crashed"}) + "\n")
            first = at + 1
        else:
            break
    pack(folder, out)
    print(f"{count} kernels in {time.monotonic() - start:.1f} s")


def pack(folder: Path, out: Path) -> None:
    """Pack all kept outputs into at most ``MOST_FILES`` files."""
    rows = json.loads((folder / "launches.json").read_text())
    pack: dict[str, Any] = {}
    size = number = 0
    for at, row in enumerate(rows):
        kept = out / f"kept_{at}.npz"
        if not kept.exists():
            continue
        data = kept.read_bytes()
        kept.unlink()
        if size + len(data) > MOST_BYTES and pack:
            np.savez(out / f"outputs_{number}.npz", **pack)
            pack, size, number = {}, 0, number + 1
        if number < MOST_FILES and len(data) < MOST_BYTES:
            pack[row["name"].replace("/", "|")] = np.frombuffer(data, np.uint8)
            size += len(data)
    if pack and number < MOST_FILES:
        np.savez(out / f"outputs_{number}.npz", **pack)


def kept(folder: Path) -> dict[str, dict[int, Any]]:
    """The outputs that ``main`` kept: name -> argument -> bytes XORed with the input."""
    result = {}
    for file in sorted(folder.glob("outputs_*.npz")):
        with np.load(file) as pack:
            for name in pack.files:
                with np.load(io.BytesIO(pack[name].tobytes())) as arrays:
                    result[name.replace("|", "/")] = {int(k): arrays[k] for k in arrays.files}
    return result


if __name__ == "__main__":
    if len(sys.argv) > 3:
        worker(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
