"""The kit on Linux aarch64, emulated, beside the kit on this machine: ``python -m checks.arm64 FOLDER``, as root.

Debian's packages are what it needs: ``apt-get install mmdebstrap arch-test qemu-user-static``. It makes an arm64 Debian
in ``FOLDER/root``, or takes the one that is there, runs README's first command in it, then one lesson of each part and
the grading of a right and a wrong kernel. This Python runs the same commands, and their JSON must be equal but for
paths, times, versions and the last digits of errors and tolerances. Exit code 1: something differs. A lesson takes
minutes, at low priority on one core.

qemu-user emulates a program, not Linux: it runs no seccomp filter and has no Landlock, so ``grade`` has fewer walls
there. ``checks/grading/test_seccomp.py`` follows the filter for aarch64 step by step. To try the walls, boot a kernel:
qemu-system-aarch64 with Debian's linux-image-cloud-arm64, ``FOLDER/root`` as its initramfs (cpio -H newc) and an
``/init`` that mounts ``/proc``, ``/dev`` and ``/tmp``, sets ``lo`` up and runs ``python -m checks.grading.sandbox``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from checks.versions import ROOT

LESSONS = ("03", "11", "13", "18", "25")  # one of each part
GRADED = "03"
PROGRAMS = ("mmdebstrap", "arch-test", "qemu-aarch64-static")
SUITE, PACKAGES = "bookworm", "python3-venv"
BINARY_FORMATS = Path("/proc/sys/fs/binfmt_misc")
EMULATOR = Path("/usr/lib/binfmt.d/qemu-aarch64.conf")  # of qemu-user-static
TIME_LIMIT = 3600  # seconds of a run and of a graded kernel, and the most that grading.toml allows
PATIENCE = 3600  # seconds for each call of NVIDIA's programs; an emulated processor takes twenty times as long
PATIENT = ("sass.py", "nvrtc_child.py")  # of the compiler, which waits for these programs
NOT_COMPARED = ("kernel", "seconds", "versions", "key")  # of a JSON object
SUMS, LAST_DIGITS = ("max_error", "tolerance"), 1e-6  # NumPy adds in another order on another processor
SEED = 7
Answers = Mapping[str, Any]


@contextmanager
def emulation() -> Iterator[None]:
    """Let Linux start programs for aarch64 in qemu; does nothing if it already does."""
    mounted = not (BINARY_FORMATS / "status").exists()
    if mounted:
        subprocess.run(["mount", "-t", "binfmt_misc", "none", str(BINARY_FORMATS)], check=True)
    entry = BINARY_FORMATS / "qemu-aarch64"
    added = not entry.exists()
    if added:
        (BINARY_FORMATS / "register").write_text(EMULATOR.read_text())
    try:
        yield
    finally:
        if added:
            entry.write_text("-1")
        if mounted:
            subprocess.run(["umount", str(BINARY_FORMATS)], check=True)


def make_root(root: Path) -> None:
    """Make an arm64 Debian with Python, and copy what git tracks here to its folder ``/kit``."""
    if not (root / "bin").exists():
        root.parent.mkdir(parents=True, exist_ok=True)
        asked = ["--arch=arm64", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)]
        subprocess.run(["mmdebstrap", "--quiet", *asked], check=True)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    if certificate := os.environ.get("PIP_CERT"):
        (root / certificate.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(certificate, root / certificate.lstrip("/"))
    shutil.rmtree(root / "kit", ignore_errors=True)
    (root / "kit").mkdir()
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    there = b"\0".join(name for name in tracked.split(b"\0") if (ROOT / os.fsdecode(name)).is_file())
    packed = subprocess.run(
        ["tar", "-c", "--null", "--files-from=-"], cwd=ROOT, input=there, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(root / "kit")], input=packed.stdout, check=True)


def wait_longer(root: Path, seconds: float) -> None:
    """Let the kit that is installed in the chroot wait longer for NVIDIA's programs."""
    [compiler] = root.glob("kit/.venv/lib/python3*/site-packages/gemm_lessons/engine/compiler")
    for path in map(compiler.joinpath, PATIENT):
        text, times = re.subn(r"(?<=^PATIENCE_S = )[\d.]+", f"{seconds:g}", path.read_text(), flags=re.MULTILINE)
        assert times == 1, path
        path.write_text(text)


def inside(root: Path, *command: str, judged: bool = False) -> str:
    """Run a command in the chroot's ``/kit``, with its own ``/proc``, and return its output."""
    kept = {k: v for k, v in os.environ.items() if k.startswith("PIP_") or k.lower().endswith("_proxy")}
    enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--root={root}", "--wd=/kit", "--mount-proc"]
    kept.pop("PIP_FIND_LINKS", None)  # a folder of this machine
    plain = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "NO_COLOR": "1"}
    environment = kept | plain | {"PIP_QUIET": "1"}
    return output([*enter, *command], judged, env=environment)


def here(root: Path, *command: str, judged: bool = False) -> str:
    """Run a command of the same kit on this machine, and return its output."""
    return output([sys.executable, "-m", "gemm_lessons", *command], judged, cwd=root / "kit")


def output(command: Sequence[str], judged: bool, **how: Any) -> str:
    """Run a command, and return its output; ``judged``: its exit code may be that of a kernel that does not pass."""
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=False, **how)
    if done.returncode not in (0, int(judged)):
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def first_command() -> str:
    """Return README's first command, as ``.ci/run`` takes it."""
    return re.findall(r"^```bash\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[0]


def write_class(folder: Path, seconds: float) -> None:
    """Write the submissions of two students, a right kernel and a wrong one, and the time for each."""
    solution = next((ROOT / "lessons").glob(f"{GRADED}_*/solution.cu")).read_text()
    for name, kernel in {"ana": solution, "bo": solution.replace("acc +=", "acc -=")}.items():
        (folder / name).mkdir(parents=True)
        (folder / name / f"{GRADED}.cu").write_text(kernel)
    (folder / "grading.toml").write_text(f"[limits]\nseconds = {seconds:g}\n")


def grade(folder: str) -> tuple[str, ...]:
    """Return the command that grades ``folder/class`` into ``folder/grades``."""
    where = f"{folder}/class", "--out", f"{folder}/grades"
    return ("grade", *where, "--lessons", GRADED, "--seed", str(SEED), "--processes", "1")


def results(grades: Path) -> Answers:
    """Return what was judged, by student."""
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(grades.glob("results/*/*.json"))}


def compared(answer: Any) -> Any:
    """Return an answer without paths, times and versions."""
    if isinstance(answer, dict):
        return {name: compared(value) for name, value in answer.items() if name not in NOT_COMPARED}
    return [compared(value) for value in answer] if isinstance(answer, list) else answer


def different(there: Any, this: Any, name: str = "") -> Iterator[str]:
    """Yield each place where two answers differ."""
    if isinstance(there, dict) and isinstance(this, dict) and there.keys() == this.keys():
        for key, value in there.items():
            yield from different(value, this[key], f"{name}.{key}")
    elif isinstance(there, list) and isinstance(this, list) and len(there) == len(this):
        for number, (one, other) in enumerate(zip(there, this, strict=True)):
            yield from different(one, other, f"{name}[{number}]")
    elif name.endswith(SUMS) and there and this and math.isclose(there, this, rel_tol=LAST_DIGITS):
        return
    elif there != this:
        yield f"{name.lstrip('.')}: {there} on aarch64, {this} here"


def row(name: str, verdict: str, there: Answers, this: Answers, seconds: float) -> bool:
    """Print a row of the table and the differences; return whether there are any."""
    found = list(different(compared(there), compared(this)))
    print(f"{name:<10}  {verdict:<22}  {'no' if found else 'yes':<10}  {seconds:7.0f}", *found, sep="\n  ", flush=True)
    return bool(found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m checks.arm64", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lessons", nargs="*", default=LESSONS)
    parser.add_argument("--again", action="store_true", help="with the kit that is installed there")
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT, metavar="SECONDS", help="of each kernel")
    parser.add_argument("--patience", type=float, default=PATIENCE, metavar="SECONDS", help="with NVIDIA's programs")
    asked = parser.parse_args(arguments)
    if os.geteuid() != 0:
        parser.error("a chroot is made by root")
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        parser.error(f"missing: {' '.join(missing)}; apt-get install mmdebstrap arch-test qemu-user-static")
    root = asked.folder.resolve() / "root"
    os.nice(15)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # of a machine that has other work
    with emulation(), TemporaryDirectory() as scratch:
        if not asked.again:
            make_root(root)
            started = time.monotonic()
            said = inside(root, "bash", "-euo", "pipefail", "-c", first_command())
            print(f"README's first command: {time.monotonic() - started:.0f} s\n{said}")
        wait_longer(root, asked.patience)
        kit = "/kit/.venv/bin/gemm-lessons"
        print(inside(root, kit, "doctor"))
        print("lesson      verdict                 JSON equal  seconds, emulated", flush=True)
        differ = False
        for lesson in asked.lessons:
            limits = "--time-limit", f"{asked.time_limit:g}"
            command = "run", lesson, "--solution", "--json", "--seed", str(SEED), *limits
            started = time.monotonic()
            there = json.loads(inside(root, kit, *command, judged=True))
            took = time.monotonic() - started
            this = json.loads(here(root, *command, "--device", "sim", judged=True))
            differ |= row(lesson, there["verdict"], there, this, took)
        for folder in (Path(scratch), root / "tmp/graded"):
            shutil.rmtree(folder / "grades", ignore_errors=True)
            shutil.rmtree(folder / "class", ignore_errors=True)
            write_class(folder / "class", asked.time_limit)
        started = time.monotonic()
        inside(root, kit, *grade("/tmp/graded"))
        took = time.monotonic() - started
        here(root, *grade(scratch))
        there, this = results(root / "tmp/graded/grades"), results(Path(scratch) / "grades")
        verdicts = "/".join(result["verdict"] for result in there.values())
        return int(row(f"grade {GRADED}", verdicts, there, this, took) or differ)


if __name__ == "__main__":
    sys.exit(main())
