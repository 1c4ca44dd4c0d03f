"""Renews the readings: compile here, measure on a GPU machine, store.

    python -m checks.counters.renew build DIR             compile every kernel of the plan into DIR (no GPU needed)
    python -m checks.counters.renew measure DIR OUT       on a machine with a GPU, ncu and cupy: profile DIR's cubins
    python -m checks.counters.renew store DIR OUT         write checks/counters/readings from OUT
    python -m checks.counters.renew                       all three, on one machine
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from checks.counters.manifest import KERNELS

COMPARED = (
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "smsp__inst_executed_op_global_ld.sum",
    "smsp__inst_executed_op_global_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
)
# Asked for once per session, to understand a difference; not compared.
EXTRA = (
    "inst_executed",
    "thread_inst_executed_true",
    "memory_l2_theoretical_sectors_global",
    "smsp__inst_executed_op_ldsm.sum",
    "smsp__inst_executed_op_ldgsts.sum",
    "smsp__inst_executed_op_shared_atom.sum",
    "smsp__inst_executed_op_shared.sum",
)
GLOBAL_ONLY = tuple(name for name in COMPARED if name.startswith("l1tex__t_"))
SHARED_ONLY = COMPARED[:4] + EXTRA[:2]
GROUPS = {"shared": SHARED_ONLY, "suite": COMPARED + EXTRA, "global": GLOBAL_ONLY}
SECONDS = {"shared": 75, "suite": 100, "global": 75}


def _profiler() -> tuple[str, Path | None]:
    ncu = shutil.which("ncu") or next((str(p) for p in sorted(Path("/opt/nvidia").glob("nsight-compute/*/ncu"))), "")
    if not ncu:
        raise SystemExit("ncu (Nsight Compute) is not installed here")
    roots = [Path(ncu).resolve().parent, *sorted(Path("/opt/nvidia").glob("nsight-compute/*"))]
    roots += sorted(Path("/usr/local").glob("cuda*/nsight-compute*"))
    return ncu, next((r / "extras/python" for r in roots if (r / "extras/python/ncu_report.py").exists()), None)


def measure(folder: Path, out: Path, which: tuple[str, ...]) -> None:
    """Profiles the launches of ``which`` groups; OUT/GROUP.json holds what the profiler read."""
    ncu, module = _profiler()
    out.mkdir(parents=True, exist_ok=True)
    (out / "versions.txt").write_text(
        subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False).stdout
        + subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
    )
    for group in which:
        start = time.monotonic()
        report = Path("/tmp") / f"{group}.ncu-rep"
        command = [ncu, "--clock-control", "none", "--cache-control", "none", "-f", "-o", str(report.with_suffix(""))]
        command += ["--metrics", ",".join(GROUPS[group])]
        command += [sys.executable, "-m", "checks.counters.launcher", str(folder), group]
        with (out / f"{group}.log").open("w") as log:
            try:
                code = subprocess.run(command, stdout=log, stderr=log, timeout=SECONDS[group], check=False).returncode
            except subprocess.TimeoutExpired:
                code = -1
        lines = (out / f"{group}.log").read_text().splitlines()
        (out / f"{group}.log").write_text("\n".join(lines[:20] + ["..."] + lines[-20:]))
        print(f"{group}: ncu exit {code}, {time.monotonic() - start:.1f} s", flush=True)
        print("\n".join(line for line in lines if "==WARNING" in line or "==ERROR" in line or "rror" in line)[:2000])
        if not report.exists():
            continue
        done = None
        if module is not None:
            environment = {**os.environ, "PYTHONPATH": str(module)}
            reader = [sys.executable, str(Path(__file__).with_name("reader.py")), str(report), str(out / f"{group}.json")]
            done = subprocess.run(reader, env=environment, capture_output=True, text=True, check=False)
            print(done.stderr[-1500:])
        if done is None or done.returncode:
            for page in ("raw", "source"):
                with (out / f"{group}.{page}.csv").open("w") as file:
                    subprocess.run([ncu, "--import", str(report), "--page", page, "--csv"], stdout=file, check=False)
        print(f"{group}: read after {time.monotonic() - start:.1f} s, report {report.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "measure":
        measure(Path(sys.argv[2]), Path(sys.argv[3]), tuple(sys.argv[4:]) or tuple(GROUPS))
