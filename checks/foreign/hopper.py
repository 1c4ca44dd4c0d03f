"""Public Hopper kernels on the simulator, beside NumPy: the list ``hopper.md``. Their sources are not stored here.

    python -m checks.foreign.hopper LAUNCHES.toml RESULTS.json [NAME ...]    run those whose names contain a NAME
    python -m checks.foreign.hopper LAUNCHES.toml RESULTS.json --launches DIR         and store them for a GPU, in DIR
    python -m checks.foreign.hopper_gpu DIR MEASURED.json                there, with cupy and ncu: answers and counters
    python -m checks.foreign.hopper LAUNCHES.toml RESULTS.json --write [MEASURED.json]        write hopper.md from these

LAUNCHES.toml is yours. Its ``[repositories]`` give a commit to each ``owner/name``. ``--sources`` is a folder with a
checkout of each in ``owner+name``, which you make with git (``git clone``, then ``git checkout COMMIT``), or with
``python -m checks.foreign fetch`` for a manifest with the same repositories. Each ``[[kernel]]`` has ``repository``,
``file``, ``name``, ``entry``, ``grid``, ``block``, ``args`` (as ``inspect --args``), ``expect`` (an output, ``=``, an
expression of NumPy over the arguments by name, in float64), and as needed ``shared`` (bytes), ``cluster``, ``std``,
``include`` (folders of the checkout), ``define``, ``source`` (lines of
yours that include the file), ``after`` (lines of yours after the file's own), ``shape`` (words), ``values``
(expressions for arrays that are not random). A ``file`` in PTX may have its cubin beside it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import pickle
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from checks.counters.readings import BOXES, COMPARED
from checks.foreign import fetch, hopper_gpu
from checks.foreign.manifest import folder_of, three
from gemm_lessons.engine.arguments.parameters import declared
from gemm_lessons.engine.arguments.text import ArgumentError, Given, build
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled
from gemm_lessons.engine.inspection import InspectRequest
from gemm_lessons.engine.records.errors import KitError, UnsupportedKernel
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.simulator import Setting, Simulator

SHORT = {metric: short for short, metric in (*COMPARED.items(), *BOXES.items())}
LIST = Path(__file__).with_name("hopper.md")
HEAD = """\
Written by `python -m checks.foreign.hopper LAUNCHES.toml RESULTS.json --write`, whose help says what the files hold.
Sources are as published at the commits below, compiled for sm_90a; Triton's with the cubin that it made. error: of the
answer beside NumPy's in float64, relative, in the Frobenius norm; the rounding of C in bfloat16 alone is 0.0017, in
halves 0.0002. answer of an H200: bit by bit. findings: all but notes, with file and line. counters: of those that
`checks.counters.readings` compares, beside Nsight Compute's; marked are those that a run says may differ."""


@dataclass(frozen=True)
class Public:
    """One launch of the user's list."""

    row: Mapping[str, Any]
    sources: Path

    @property
    def name(self) -> str:
        return f"{self.row['repository']}: {self.row['name']}"

    @property
    def request(self) -> InspectRequest:
        """Return what ``inspect`` would be asked."""
        row, root = self.row, folder_of(self.sources, self.row["repository"])
        file, folders = root / row["file"], tuple(root / it for it in row.get("include", ()))
        cluster = three(row["cluster"]) if "cluster" in row else None
        grid = Grid(three(row["grid"]), three(row["block"]), row.get("shared", 0), cluster)
        source, path = row.get("source"), "kernel.cu"
        if source is None:
            source = file.read_text(errors="replace") + row.get("after", "")
            path, folders = str(file), (*folders, file.parent)
        options = (f"-std={row['std']}",) if "std" in row else ()
        beside = file.with_suffix(".cubin")
        cubin = beside.read_bytes() if file.suffix == ".ptx" and beside.exists() else b""
        return InspectRequest(source, path, row["entry"], grid, row["args"], defines=row.get("define", {}),
                              include_dirs=folders, arch="sm_90a", options=options, cubin=cubin)  # fmt: skip


def ran(public: Public, folder: Path | None = None) -> dict[str, Any]:
    """Compile, launch, compare with NumPy; with ``folder``, store the launch for a GPU there. Return the row of the
    results: the first ``obstacle``, or the error beside NumPy, findings, counters, and those that may differ."""
    request, device = public.request, Simulator(Setting(budget=200_000_000))
    try:
        compiled = request.kernel.taken(request.arch)
        if isinstance(compiled, NotCompiled):
            first = next((it for it in compiled.diagnostics if it.severity == "error"), None)
            return {"obstacle": f"{Path(first.file).name}:{first.line}: {first.message}" if first else compiled.log}
        given = _given(request, device, compiled)
        for name, text in public.row.get("values", {}).items():
            given.arrays[name].reshape(-1)[:] = eval(text, {"np": np})
        before = {name: array.copy() for name, array in given.arrays.items()}
        launched = device.launch(compiled, request.grid, given.arguments, given.symbols)
    except (ArgumentError, UnsupportedKernel, KitError) as problem:
        return {"obstacle": str(problem)}
    if launched.fault is not None:
        return {"obstacle": f"line {launched.fault.line}: {launched.fault.message}"}
    output, _, formula = (part.strip() for part in public.row["expect"].partition("="))
    error, tolerance = _error(output, formula, given, before)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        carried = hopper_gpu.carried(compiled, request.grid, given, before, output)
        path = folder / ("_".join(re.findall(r"\w+", public.name)) + ".pickle")
        path.write_bytes(gzip.compress(pickle.dumps({"name": public.name, **carried}), 1))
    counters = launched.counters
    return {
        "shape": public.row.get("shape", ""),
        "error": error,
        "right": error <= tolerance,
        "findings": [f"{it.severity} {it.kind}, {Path(it.file or public.row['file']).name}:{it.line}"
                     for it in launched.findings if it.severity != "note"],
        "counters": {name: counters.totals[name] for name in hopper_gpu.METRICS if name in counters.totals},
        "inexact": [name for name in hopper_gpu.METRICS if name in counters.inexact],
    }  # fmt: skip


def _given(request: InspectRequest, device: Simulator, compiled: Compiled) -> Given:
    kernel = device.kernel(compiled)
    known = declared(request.source, kernel, request.entry)
    return build(request.args, (), kernel, lambda name: device.variable(compiled, name), 0, known,
                 lambda: request.kernel.layouts(request.arch))  # fmt: skip


def _error(output: str, formula: str, given: Given, before: Mapping[str, Any]) -> tuple[float, float]:
    """Return the relative error, and the rounding of the output's type: sums are more exact than that."""

    def numbers(name: str, arrays: Mapping[str, Any]) -> Any:
        element = given.elements.get(name)
        return (arrays[name] if element is None else element.decode(arrays[name])).astype(np.float64)

    names = {name.replace(".", "_"): numbers(name, before) for name in before}
    wanted = eval(formula.strip(), {"np": np, **names, **given.numbers})
    got = numbers(output, given.arrays)
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted)), given.elements[output].roundoff


def row_of(name: str, row: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    """Return the row of the list."""
    if "obstacle" in row:
        cells = [row["obstacle"]]
    else:
        theirs = measured.get("counters", {})
        other = {it for it, value in row["counters"].items() if theirs and value != theirs.get(it)}
        counted = f"{len(row['counters']) - len(other)} of {len(row['counters'])} equal" if theirs else "not measured"
        for word, names in (("marked", other & set(row["inexact"])), ("not marked", other - set(row["inexact"]))):
            counted += f"; {word}: {', '.join(sorted(SHORT[it].replace('_', ' ') for it in names))}" if names else ""
        findings = "; ".join(dict.fromkeys(row["findings"])) or "none"
        bits = measured.get("failed", "not measured")
        if "equal" in measured:
            bits = "equal" if measured["equal"] else "different"
        cells = [row["shape"], f"{row['error']:.2g}", bits, findings, counted]
    return f"| {' | '.join([*name.split(': ', 1), *cells])} |"


def text_of(repositories: Mapping[str, str], results: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    """Return the list as Markdown."""
    tables = [
        ("repository | commit", [f"| {name} | {commit} |" for name, commit in repositories.items()]),
        ("repository | kernel | shape | error | answer of an H200 | findings | counters",
         [row_of(name, row, measured.get(name, {})) for name, row in results.items() if "obstacle" not in row]),
        ("repository | kernel | first obstacle",
         [row_of(name, row, {}) for name, row in results.items() if "obstacle" in row]),
    ]  # fmt: skip
    text = f"# Public Hopper kernels on the simulator\n\n{HEAD}\n"
    for head, rows in tables:
        if rows:
            text += "\n".join(["", f"| {head} |", "|" + "---|" * (head.count("|") + 1), *rows, ""])
    return text


def main(arguments: list[str]) -> int:
    """Run the launches of a list; return 1 if an answer is wrong."""
    parser = argparse.ArgumentParser(prog="python -m checks.foreign.hopper", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("list", type=Path, metavar="LAUNCHES.toml")
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--sources", type=Path, default=fetch.default_folder())
    parser.add_argument("--launches", type=Path, metavar="DIR")
    parser.add_argument("--write", type=Path, nargs="?", const=Path(), metavar="MEASURED.json")
    asked = parser.parse_intermixed_args(arguments)
    results = json.loads(asked.results.read_text()) if asked.results.exists() else {}
    every = tomllib.loads(asked.list.read_text())
    publics = [Public(row, asked.sources) for row in every["kernel"]]
    for public in publics if asked.write is None else ():
        if any(word in public.name for word in asked.names or [""]):
            results[public.name] = row = ran(public, asked.launches)
            asked.results.write_text(json.dumps(results, indent=0))
            said = row.get("obstacle") or f"error {row['error']:.2g}"
            print(f"{public.name}: {said}", *row.get("findings", ()), sep="\n    ", flush=True)
    results = {public.name: results[public.name] for public in publics if public.name in results}
    if asked.write is not None:
        measured = json.loads(asked.write.read_text()) if asked.write != Path() else {}
        LIST.write_text(text_of(every["repositories"], results, measured))
    return int(not all(row.get("right", True) for row in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
