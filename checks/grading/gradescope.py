"""Builds and runs the autograder in Gradescope's layout, in an empty folder, with the limits of the container that the
autograder's README names.

    python -m checks.grading.gradescope [LESSONS]      solutions as a submission, memory and time of each; needs PyPI
    python -m checks.grading.gradescope 00-26          of all lessons

https://gradescope-autograders.readthedocs.io/en/latest/specs/ (the zip file's contents go to ``source``, run_autograder
is copied one up and run with the layout's root as working folder) and troubleshooting/ (768 MB, half a CPU by default).
``AUTOGRADER`` names the root, which is ``/autograder`` there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checks.grading.box import box
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.grading.hosting import CONTAINERS, MINUTES, smallest_container, write_host
from gemm_lessons.grading.needs import total_of
from gemm_lessons.grading.rubric import parse_lessons

STANDARD = (CONTAINERS[0][0], CONTAINERS[0][1], MINUTES[0])  # CPUs, GB, minutes
CLEAN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


def build(root: Path, lessons: str, environment: Mapping[str, str]) -> None:
    """Do what Gradescope does when an autograder is uploaded: unpack it and run setup.sh."""
    kit = root.parent / "kit"
    write_host("gradescope", kit, lessons)
    for name in ("source", "submission", "results"):
        (root / name).mkdir(parents=True)
    with zipfile.ZipFile(kit / "autograder.zip") as archive:
        archive.extractall(root / "source")
    runs = root / "run_autograder"
    runs.write_bytes((root / "source" / "run_autograder").read_bytes())
    runs.chmod(0o755)
    subprocess.run(
        ["bash", root / "source" / "setup.sh"], cwd=root, check=True, timeout=600, stdout=subprocess.DEVNULL,
        env={**CLEAN, "AUTOGRADER": str(root), "PYTHON": sys.executable, **environment},
    )  # fmt: skip


def submit(
    root: Path,
    files: Mapping[str, str],
    environment: Mapping[str, str],
    container: tuple[float, float, int] = STANDARD,
) -> tuple[Any, str, int | None, float]:
    """Run the autograder on a submission: results.json, its output, peak memory in MiB (None: not known), wall seconds.
    ``container``: CPUs, GB, minutes."""
    for old in [*(root / "submission").iterdir(), *(root / "results").iterdir()]:
        old.unlink()
    for name, text in files.items():
        (root / "submission" / name).write_text(text)
    began = time.monotonic()
    processors, gigabytes, minutes = container
    with box(f"gemm-lessons-{os.getpid()}", int(gigabytes * (1 << 30)), processors) as inside:
        done = subprocess.run(
            [root / "run_autograder"], cwd=root, timeout=60 * minutes, check=False, text=True,
            env={**CLEAN, "AUTOGRADER": str(root), **environment},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=inside.enter if inside else None,
        )  # fmt: skip
        peak = inside.peak_mib if inside else None
    results = json.loads((root / "results" / "results.json").read_text())
    return results, done.stdout, peak, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lessons", nargs="*", help="default: 01 to 09, and all of them at once")
    options = parser.parse_args()
    course = packaged_course()
    names = list(parse_lessons(course, options.lessons or ["01-09"]))
    container = smallest_container(total_of(names))
    print("container: {:g} CPU, {:g} GB, {} minutes".format(*container), flush=True)
    sources = {name: f"{(course.lessons_dir / name / 'solution.cu').read_text()}\n// handed in\n" for name in names}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "autograder"
        began = time.monotonic()
        build(root, ",".join(name[:2] for name in names), {})
        print(f"setup.sh: {time.monotonic() - began:.0f} s")
        for chosen in [*([name] for name in names), names]:
            files = {f"{name[:2]}.cu": sources[name] for name in chosen}
            results, _, peak, seconds = submit(root, files, {}, container)
            shown = "?" if peak is None else str(peak)
            title = chosen[0] if len(chosen) == 1 else f"all {len(chosen)}"
            print(f"{title:20} {results['score']:5g} points  {shown:>4} MiB  {seconds:5.1f} s", flush=True)


if __name__ == "__main__":
    main()
