"""Renews the verdicts of compute-sanitizer on the suite.

    python -m checks.readings.checkers.renew measure OUT [KERNEL...]  on a machine with a GPU, nvcc, compute-sanitizer
    python -m checks.readings.checkers.renew store OUT                write sanitizer.json from what was kept in OUT
    python -m checks.readings.checkers.renew                          both, on one machine

With KERNEL names (``first_barrier``) only those are built and run, and the other readings stay; ``new`` names all that
have no readings yet.

Every broken kernel runs in a process of its own under each tool, and once without (what the hardware alone does); all
clean kernels share a process per tool. A kernel that hangs is ended with its process.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from checks.checkers.manifest import CASES
from checks.usage import help_if_asked

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
OPTIONS = {
    "memcheck": ("--padding", "4096"),  # bytes between buffers, so that an access past the end of one is in no other
    "racecheck": ("--racecheck-report", "all", "--racecheck-detect-level", "info"),
    "initcheck": (),
    "synccheck": (),
}
COMMON = ("--show-backtrace", "no", "--print-limit", "3000", "--print-level", "info")
SECONDS = 10  # per process
AT_ONCE = 12
KEPT_EVERY = 20  # runs after which results are saved, in case the program is interrupted
HERE = Path(__file__).parent
READINGS = HERE / "sanitizer.json"


def _output(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
    except OSError:
        return ""


def _run(command: Sequence[str], seconds: float) -> dict[str, Any]:
    """Run one process; ``rc`` is None when it had to be ended."""
    start = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    rc: int | None
    try:
        text, _ = process.communicate(timeout=seconds)
        rc = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        rc = None
    return {"rc": rc, "seconds": round(time.monotonic() - start, 2), "text": text[:2_000_000]}


def _sanitizer() -> str:
    found = shutil.which("compute-sanitizer")
    places = [*Path("/usr/local").glob("cuda*/bin/compute-sanitizer"), *Path("/opt").glob("**/compute-sanitizer")]
    if not found and not places:
        raise SystemExit("compute-sanitizer is not installed here")
    return found or str(sorted(places)[-1])


def _accepted(tool: str, which: str, program: Sequence[str]) -> tuple[str, ...]:
    """The options to pass: all of ours, or none if this version of the tool refuses them, which is printed."""
    options = (*COMMON, *OPTIONS[which])
    result = _run((tool, "--tool", which, *options, *program), 60)
    if "SUMMARY" in result["text"]:
        return options
    print(which, "refuses", options, result["text"][-500:])
    return ()


def measure(out: Path, chosen: Sequence[str] = ()) -> None:
    """Build every kernel and run it under every tool; OUT/raw.json.gz keeps what was printed."""
    tool = _sanitizer()
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    known = json.loads(READINGS.read_text())["verdicts"] if "new" in chosen and READINGS.exists() else {}
    cases = [
        case for case in CASES if not chosen or case.file.stem in chosen or ("new" in chosen and case.name not in known)
    ]
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(AT_ONCE) as pool:
        folder = Path(name)
        build: list[tuple[str, ...]] = [
            (nvcc, "-arch=sm_90", "-lineinfo", "-cubin", "-o", str(folder / f"{f.stem}.cubin"), str(f))
            for f in sorted({case.file for case in cases})
        ]
        driver = str(folder / "driver")
        build.append((nvcc, "-O1", "-o", driver, str(HERE / "driver.cpp"), "-lcuda"))
        for result in pool.map(lambda command: _run(command, 60), build):
            if result["rc"] != 0:
                raise SystemExit(result["text"])
        (folder / "cases.txt").write_text("\n".join(case.driver_line() for case in cases) + "\n")
        program = (driver, str(folder / "cases.txt"))
        clean = [case.name for case in cases if case.severity is None]
        groups = [[case.name] for case in cases if case.severity is not None]
        accepted = {which: _accepted(tool, which, (*program, clean[0])) for which in TOOLS}
        jobs: list[tuple[str, list[str]]] = [(t, g) for g in [clean, *groups] for t in (*TOOLS, "none")]

        def one(job: tuple[str, list[str]]) -> dict[str, Any]:
            which, names = job
            prefix = () if which == "none" else (tool, "--tool", which, *accepted[which])
            seconds = SECONDS if len(names) == 1 else 6 * SECONDS
            return {"tool": which, "cases": names, **_run((*prefix, *program, *names), seconds)}

        out.mkdir(parents=True, exist_ok=True)
        versions = _versions(tool, nvcc, accepted)
        runs: list[dict[str, Any]] = []
        for run in pool.map(one, jobs):
            runs.append(run)
            if len(runs) % KEPT_EVERY == 0 or len(runs) == len(jobs):
                (out / "raw.json.gz").write_bytes(
                    gzip.compress(json.dumps({"versions": versions, "runs": runs}).encode())
                )
    slow = sorted(runs, key=lambda r: -r["seconds"])[:5]
    print(len(runs), "runs; slowest:", [(r["tool"], r["cases"][0], r["seconds"], r["rc"]) for r in slow])


def _versions(tool: str, nvcc: str, accepted: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    gpus = _output(("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"))
    return {
        "sanitizer": _output((tool, "--version")).strip().splitlines()[-1:],
        "nvcc": _output((nvcc, "--version")).strip().splitlines()[-2:],
        "gpu": (gpus.splitlines() or [""])[0],
        "date": datetime.now(UTC).date().isoformat(),
        "options": {which: list(options) for which, options in accepted.items()},
    }


# Every tool prefixes its lines with "=========".
_PREFIX = re.compile(r"^=+ ?")
_PLACE = re.compile(r"([\w./-]+\.cu):(\d+)")
_ENDED = re.compile(r"^(Target application|Program hit|COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK|Saved)")


def reports(text: str) -> list[tuple[str, dict[str, Any]]]:
    """(case, report) for each report in a tool's output: its first line and the source lines that it names."""
    found: list[tuple[str, dict[str, Any]]] = []
    case = ""
    current: dict[str, Any] | None = None
    for raw in text.splitlines():
        if raw.startswith("case: "):
            case = raw[len("case: ") :].strip()
            continue
        if not raw.startswith("==="):
            continue
        line = _PREFIX.sub("", raw)
        if _ENDED.match(line):
            current = None
        elif line and not line.startswith(" "):
            current = {"message": re.sub(r"0x[0-9a-f]+", "0x", line.strip()), "lines": [], "also": []}
            found.append((case, current))
        elif current is not None and line.strip():
            current["also"].append(line.strip())
        if current is not None:
            current["lines"] += [int(number) for _, number in _PLACE.findall(line)]
    return found


def store(out: Path) -> None:
    """Parse OUT/raw.json.gz into the readings that the tests and the table use."""
    raw = json.loads(gzip.decompress((out / "raw.json.gz").read_bytes()))
    old = json.loads(READINGS.read_text())["verdicts"] if READINGS.exists() else {}
    verdicts: dict[str, dict[str, Any]] = {case.name: old.get(case.name, {}) for case in CASES}
    for run in raw["runs"]:
        for name in run["cases"]:
            verdicts[name][run["tool"]] = {
                "hung": run["rc"] is None,
                "rc": run["rc"] if len(run["cases"]) == 1 else None,
                "reports": [],
            }
        if run["tool"] == "none":
            for name in run["cases"]:
                failed = re.search(r"^failed: (.*)$", run["text"], re.MULTILINE)
                verdicts[name]["none"]["failed"] = failed[1] if failed else ""
            continue
        for name, report in reports(run["text"]):
            kept = verdicts[name or run["cases"][0]][run["tool"]]["reports"]
            summary = {
                "message": report["message"],
                "lines": sorted(set(report["lines"])),
                "also": report["also"][:3],
                "count": 1,
            }
            same = [k for k in kept if (k["message"], k["lines"]) == (summary["message"], summary["lines"])]
            if same:
                same[0]["count"] += 1
            else:
                kept.append(summary)
    READINGS.parent.mkdir(exist_ok=True)
    READINGS.write_text(json.dumps({"versions": raw["versions"], "verdicts": verdicts}, indent=1) + "\n")
    print(f"{READINGS.name}: {len(verdicts)} kernels")


def main(words: Sequence[str]) -> None:
    if not words:
        with tempfile.TemporaryDirectory() as name:
            measure(Path(name))
            store(Path(name))
    elif words[0] == "measure":
        measure(Path(words[1]), words[2:])
    else:
        store(Path(words[1]))


if __name__ == "__main__":
    help_if_asked(__doc__)
    main(sys.argv[1:])
