"""Runs the start notebook in fresh environments: ``python -m checks.notebook.environments FOLDER [PYTHON]``.

Each environment has what a hosted notebook has before its first cell: IPython's kernel, in current versions or in those
that Colab pins, and perhaps CuPy for CUDA 12 with a driver, for which a stand-in is built (``libcuda.c``, needs gcc).
The stand-in names a T4 and runs nothing, so kernels run on the simulator. The notebook's cells run unchanged, then the
solutions of lessons 00 and 03. A row states the first cell's time and findings. Exit code 1: a cell failed, or a
solution did not pass. Other packages of Colab and Kaggle, and a real T4, are not tested.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from checks.versions import ROOT

KERNEL = ("ipykernel", "nbclient", "nbformat")
COLAB = ("ipython==7.34.0", "ipykernel==6.17.1", "nbclient", "nbformat")  # pinned by Colab's package google-colab
CUDA12 = "cupy-cuda12x"  # which Colab and Kaggle have on machines with a GPU
ENVIRONMENTS: Mapping[str, tuple[Sequence[str], bool]] = {  # -> packages, and whether there is a driver
    "CPU only": (KERNEL, False),
    "CPU only, Colab's IPython": (COLAB, False),
    "CuPy for CUDA 12, no driver": ((*KERNEL, CUDA12), False),
    "CuPy for CUDA 12, a T4's driver": ((*COLAB, CUDA12), True),
}
SOLVED = ("00", "03")
RUN = """
import html, json, re, sys, time
import nbclient, nbformat
path, solved = sys.argv[1], json.loads(sys.argv[2])
notebook = nbformat.read(path, as_version=4)
notebook.cells += [nbformat.v4.new_code_cell(f"%%lesson {number}\\n{text}") for number, text in solved.items()]
started = time.monotonic()
first = []
def note(cell, cell_index, execute_reply):
    first.append(time.monotonic() - started)
client = nbclient.NotebookClient(notebook, timeout=1800, kernel_name="python3", on_cell_executed=note,
                                 resources={"metadata": {"path": path.rpartition("/")[0]}})
client.execute()
outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
said = [output["data"] for output in outputs if "data" in output]
words = [re.sub(r"<[^>]+>", " ", data.get("text/html", "")) for data in said]
doctor = " ".join(html.unescape(next(text for text in words if "GPU driver" in text)).split())
doctor = re.search("GPU driver.*?(?= with a GPU and driver| (?:found|optional) packaged)", doctor)[0]
verdicts = [re.search("PASSED|NOT FINISHED|WRONG ANSWER", data["text/plain"]) for data in said]
print(json.dumps({"seconds": first[0], "doctor": doctor, "verdicts": [found[0] for found in verdicts if found]}))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m checks.notebook.environments")
    parser.add_argument("folder", type=Path)
    parser.add_argument("python", nargs="?", default=sys.executable)
    asked = parser.parse_args(arguments)
    folder = asked.folder.resolve()
    driver = folder / "driver"
    driver.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).with_name("libcuda.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(driver / "libcuda.so.1"), str(source)], check=True)
    lessons = {number: next((ROOT / "lessons").glob(f"{number}_*/solution.cu")).read_text() for number in SOLVED}
    failed = False
    for number, (name, (packages, has_driver)) in enumerate(ENVIRONMENTS.items()):
        place = folder / f"environment{number}"
        subprocess.run([asked.python, "-m", "venv", "--clear", str(place)], check=True)
        python = str(place / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        if has_driver:
            environment["LD_LIBRARY_PATH"] = str(driver)
        command = [python, "-c", RUN, str(ROOT / "notebooks" / "start.ipynb"), json.dumps(lessons)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        answer = json.loads(done.stdout) if done.returncode == 0 else {"seconds": 0.0, "doctor": "", "verdicts": []}
        print(f"{name}: first cell {answer['seconds']:.0f} s, {answer['verdicts']}\n  {answer['doctor']}", flush=True)
        failed |= answer["verdicts"] != ["NOT FINISHED", *["PASSED"] * len(SOLVED)]
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
