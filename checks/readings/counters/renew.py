"""Renews the readings: compile here, measure on a machine with a GPU, store.

    python -m checks.readings.counters.renew                     everything, on one machine
    python -m checks.readings.counters.renew build DIR           compile the plan into DIR (needs no GPU)
    python -m checks.readings.counters.renew measure DIR OUT     profile DIR's cubins (GPU, ncu and cupy, no compiler)
    python -m checks.readings.counters.renew store DIR OUT       write the readings beside this file from OUT

``--missing`` leaves out kernels whose machine code has a reading already, ``--kernels lesson_mma`` all whose names
begin otherwise. The probes of shared and global memory determine the rules of ``engine/costs/banks.py``; the readings
of the suite are compared with the simulator's counters.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from checks.counters import patterns, readings
from checks.counters.manifest import KERNELS, plan
from checks.counters.readings import BOXES, COMPARED, Reading, Readings, Session

PER_INSTRUCTION = ("inst_executed", "thread_inst_executed_true")
WAVEFRONTS = ("memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal")
REQUESTS = tuple(name for name in COMPARED.values() if name.startswith("l1tex__t_"))
METRICS = {
    "shared": (*WAVEFRONTS, *PER_INSTRUCTION),
    "global": REQUESTS,
    "copies": (*WAVEFRONTS, *PER_INSTRUCTION),
    "zeros": WAVEFRONTS,
    "suite": (*COMPARED.values(), *BOXES.values(), *PER_INSTRUCTION),
}
# Seconds of launching after which the rest is left for another call.
SECONDS = {"shared": 600.0, "global": 600.0, "copies": 600.0, "zeros": 600.0, "suite": 1200.0}
# The machine instruction that a probe is about.
PROBED = {
    "load": "LDS",
    "store": "STS",
    "matrix": "LDSM",
    "copy": "LDGSTS",
    "atomic": "ATOMS",
    "reduce": "ATOMS",
}


def build(folder: Path, missing: bool, wanted: str, groups: list[str]) -> None:
    """Compile every kernel of the plan whose name begins with ``wanted``, and the probes of ``groups``. Write cubins
    and ``index.json``: key -> [file, kernel name, hash of the code], and the names to skip."""
    from checks.counters.compare import compile_case
    from gemm_lessons.engine.compiler.compile import NotCompiled, compile_source

    folder.mkdir(parents=True, exist_ok=True)
    index: dict[str, list[str]] = {}
    compiler = ""
    skip: list[str] = []
    known = readings.load().kernels
    for case in plan():
        if not case.name.startswith(wanted):
            skip.append(case.name)
            continue
        if case.key not in index:
            try:
                compiled = compile_case(case)
            except ValueError as failed:
                raise SystemExit(str(failed)) from None
            code = readings.code_of(compiled.cubin, compiled.entry)
            (folder / f"{code}.cubin").write_bytes(compiled.cubin)
            index[case.key] = [f"{code}.cubin", compiled.entry, code]
            compiler = compiled.compiler
        if missing and case.name in known and known[case.name].code == index[case.key][2]:
            skip.append(case.name)
    files = {
        "shared": ("shared_probes", patterns.SHARED_PROBES),
        "global": ("global_probes", patterns.GLOBAL_PROBES),
        "copies": ("copy_probes", (*patterns.COPY_PROBES, patterns.BYPASS)),
        "zeros": ("zero_probes", patterns.ZERO_PROBES),
    }
    for file, probes in (files[group] for group in groups if group in files):
        path = KERNELS / f"{file}.cu"
        defines = {"PROBES": patterns.PROBES, "BASE": patterns.ZEROS_BASE}
        probed = compile_source(path.read_text(), path=str(path), entry=next(iter(probes)), defines=defines)
        if isinstance(probed, NotCompiled):
            raise SystemExit(f"{file}: {probed.log}")
        compiler = probed.compiler
        (folder / f"{file}.cubin").write_bytes(probed.cubin)
        for probe in {patterns.KERNEL.get(name, name) for name in probes}:
            index[f"{file}/{probe}"] = [f"{file}.cubin", probe, readings.code_of(probed.cubin, probe)]
    (folder / "index.json").write_text(json.dumps({"compiler": compiler, "kernels": index, "skip": skip}))


# -- on the machine with a GPU ---------------------------------------------------------------------------------------


def _profiler() -> tuple[str, Path]:
    """ncu, and the folder of its Python module."""
    installed = sorted(Path("/opt/nvidia").glob("nsight-compute/*"), reverse=True)
    ncu = shutil.which("ncu") or next((str(p / "ncu") for p in installed if (p / "ncu").exists()), "")
    if not ncu:
        raise SystemExit("ncu (Nsight Compute) is not installed here")
    roots = [Path(ncu).resolve().parent, *installed, *sorted(Path("/usr/local").glob("cuda*/nsight-compute*"))]
    module = next((r / "extras/python" for r in roots if (r / "extras/python/ncu_report.py").exists()), None)
    if module is None:
        raise SystemExit(f"{ncu} has no extras/python/ncu_report.py")
    return ncu, module


def _says(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def measure(folder: Path, out: Path, groups: list[str], seconds: dict[str, float]) -> None:
    """Profile the launches of ``groups``; OUT/GROUP.json holds what the profiler read, launch by launch."""
    ncu, module = _profiler()
    out.mkdir(parents=True, exist_ok=True)
    every = _says("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
    gpu, _, driver = (every or [""])[0].partition(", ")
    version = next((line for line in _says(ncu, "--version").splitlines() if line.startswith("Version")), "")
    compiler = json.loads((folder / "index.json").read_text())["compiler"]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    session = Session(gpu, driver, f"Nsight Compute {version.split()[1] if version else '?'}", compiler, today)
    (out / "session.json").write_text(json.dumps(session.__dict__))
    for group in groups:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.ncu-rep"
            command = [ncu, "--clock-control", "none", "--cache-control", "none", "-o", str(report.with_suffix(""))]
            command += ["--metrics", ",".join(METRICS[group])]
            launcher = "checks.readings.counters.launcher"
            command += [sys.executable, "-m", launcher, str(folder), group, str(seconds[group])]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            told = [line for line in done.stdout.splitlines() if not line.startswith("==PROF== Profiling")]
            print(f"{group}: ncu ended with {done.returncode} after {time.monotonic() - start:.1f} s", flush=True)
            print("\n".join(told[-8:]), done.stderr[-500:], flush=True)
            reader = [sys.executable, str(Path(__file__).with_name("reader.py")), str(report)]
            reader += [str(folder / f"{group}.launched.json"), str(out / f"{group}.json")]
            subprocess.run(reader, env={**os.environ, "PYTHONPATH": str(module)}, check=True)
        print(f"{group}: read after {time.monotonic() - start:.1f} s", flush=True)


# -- back again ------------------------------------------------------------------------------------------------------


def store(folder: Path, out: Path) -> None:
    """Merge what was measured into the readings."""
    readings.FOLDER.mkdir(exist_ok=True)
    index = json.loads((folder / "index.json").read_text())["kernels"]
    session = Session(**json.loads((out / "session.json").read_text()))
    for group, keep in (
        ("suite", _store_suite),
        ("shared", partial(_store_probes, "shared_probes")),
        ("copies", partial(_store_probes, "copy_probes")),
        ("zeros", _store_zeros),
        ("global", _store_global),
    ):
        path = out / f"{group}.json"
        if path.exists():
            keep(session, index, folder, json.loads(path.read_text()))


def _store_suite(session: Session, index: dict[str, list[str]], folder: Path, rows: list[dict[str, Any]]) -> None:
    before = readings.load()
    sessions = list(before.sessions)
    if session not in sessions:
        sessions.append(session)
    found = dict(before.kernels)
    keys = {case.name: case.key for case in plan()}
    for row in rows:
        metrics = {short: int(row["totals"][name]) for short, name in COMPARED.items()}
        metrics |= {short: int(row["totals"][name]) for short, name in BOXES.items() if row["totals"].get(name)}
        executed = row["instructions"]["inst_executed"]
        last = max((at for at, _ in executed), default=-16)
        warps = dict(executed)
        every = readings.run_lengths(warps.get(at, 0) for at in range(0, last + 16, 16))
        found[row["launch"]] = Reading(index[keys[row["launch"]]][2], sessions.index(session), metrics, every)
    readings.save(Readings(sessions, {name: found[name] for name in keys if name in found}))


def _store_probes(
    file: str, session: Session, index: dict[str, list[str]], folder: Path, rows: list[dict[str, Any]]
) -> None:
    from gemm_lessons.engine.compiler import sass

    text = sass.disassemble((folder / f"{file}.cubin").read_bytes())
    probes: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        probe = row["launch"].partition("/")[0]
        kernel = patterns.KERNEL.get(probe, probe)
        if probe == patterns.BYPASS:  # the profiler does not say which of its copies a wavefront is for
            counters = probes.setdefault(probe, {"wavefronts": [], "ideal": []})
            for counter, name in zip(counters, WAVEFRONTS, strict=True):
                counters[counter].append(round(row["totals"][name] / patterns.PROBES))
            continue
        opcode = PROBED[kernel.partition("_")[0]]
        places = [
            i.address for i in sass.parse(text, kernel) if i.opcode.split(".")[0] == opcode and "[RZ]" not in i.text
        ]
        if len(places) != patterns.PROBES:
            raise SystemExit(f"{probe}: {len(places)} instructions {opcode}, not {patterns.PROBES}")
        counters = probes.setdefault(probe, {"wavefronts": [], "ideal": [], "threads": []})
        names = (*WAVEFRONTS, "thread_inst_executed_true")
        for counter, name in zip(counters, names, strict=True):
            table = dict(row["instructions"][name])
            counters[counter] += [table.get(place, 0) for place in places]
    readings.save_probes(file, session, probes)


def _store_zeros(session: Session, index: dict[str, list[str]], folder: Path, rows: list[dict[str, Any]]) -> None:
    """Store the digits of the sums: from 1 to ``ZEROS_BASE`` where a lane copies, else 0."""
    probes: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        probe, _, first = row["launch"].partition("/")
        targets = patterns.zero_patterns(probe)[0][int(first) :][: patterns.ZEROS_PER_LAUNCH]
        counters = probes.setdefault(probe, {"wavefronts": [], "ideal": []})
        for counter, name in zip(counters.values(), WAVEFRONTS, strict=True):
            left = int(row["totals"][name])
            for target in targets:
                least = int(max(target) >= 0)
                left, one = divmod(left - least, patterns.ZEROS_BASE)
                counter.append(one + least)
            if left:
                raise SystemExit(f"{row['launch']}: {name} is larger than {patterns.ZEROS_BASE} for a pattern")
    readings.save_probes("zero_probes", session, probes)


def _store_global(session: Session, index: dict[str, list[str]], folder: Path, rows: list[dict[str, Any]]) -> None:
    probes: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        probe = row["launch"].partition("/")[0]
        verb = "store" if "store" in probe else "load"
        counters = probes.setdefault(probe, {"requests": [], "sectors": []})
        for counter, own in (("requests", patterns.PER_LAUNCH), ("sectors", 4 * patterns.PER_LAUNCH)):
            total = int(row["totals"][COMPARED[f"global_{verb}_{counter}"]]) - (own if verb == "load" else 0)
            counters[counter] += [total >> (6 * digit) & 63 for digit in range(patterns.PER_LAUNCH)]
    readings.save_probes("global_probes", session, probes)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m checks.readings.counters.renew", description=__doc__)
    parser.add_argument("step", nargs="?", choices=("build", "measure", "store"))
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--missing", action="store_true", help="only kernels without a reading of this machine code")
    parser.add_argument("--kernels", default="", metavar="PREFIX", help="of the suite only those whose names begin so")
    parser.add_argument("--groups", default="shared,global,copies,zeros,suite", help="what to measure")
    parser.add_argument("--seconds", default="", help="GROUP=SECONDS,...: stop launching after so long")
    given = parser.parse_args()
    seconds = {**SECONDS, **{k: float(v) for k, v in (p.split("=") for p in given.seconds.split(",") if p)}}
    groups = given.groups.split(",")
    if given.step == "build":
        build(given.folders[0], given.missing, given.kernels, groups)
    elif given.step == "measure":
        measure(given.folders[0], given.folders[1], groups, seconds)
    elif given.step == "store":
        store(given.folders[0], given.folders[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:
            folder, out = Path(scratch) / "build", Path(scratch) / "out"
            build(folder, given.missing, given.kernels, groups)
            measure(folder, out, groups, seconds)
            store(folder, out)


if __name__ == "__main__":
    main()
