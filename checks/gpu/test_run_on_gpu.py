"""``gemm-lessons run`` on a GPU, from the command line to the stand-in for CuPy and back."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from checks import forks

SHAPE = ["--shape", "64,48,32"]


def run(*arguments: str, scene: str = "") -> subprocess.CompletedProcess[str]:
    return forks.run(["run", *arguments], env={**os.environ, "FAKE_GPU": scene, "COLUMNS": "100"})


def test_the_contract_holds_measured_times(fake_cupy: pytest.MonkeyPatch) -> None:
    done = run("02", "--solution", "--device", "gpu", "--json", *SHAPE)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["device"] == {"kind": "gpu", "name": "Fake GPU 0"}
    assert outcome["verdict"] == "passed"
    assert outcome["gflops"] == pytest.approx(2 * 64 * 48 * 32 / outcome["time_us"] / 1e3)
    assert outcome["fraction_of_cublas"] > 0
    assert outcome["counters"]["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] > 0, "the simulator still counts"
    assert outcome["gates"]
    assert all(gate["passed"] for gate in outcome["gates"])


def test_the_table_says_how_times_came_about(fake_cupy: pytest.MonkeyPatch) -> None:
    done = run("02", "--solution", "--device", "gpu", "--details", *SHAPE)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "on: Fake GPU 0" in text
    assert "Times: medians at M, N, K = 64, 48, 32 of interleaved launches (reference " in text
    assert "no TF32" in text
    assert "data sheet" not in text, "there is none for this GPU"
    assert "est." not in text, "measured and estimated times are never mixed"


def test_a_slowed_gpu_is_told_below_the_table(fake_cupy: pytest.MonkeyPatch) -> None:
    done = run("01", "--solution", "--device", "gpu", *SHAPE, scene="slowed=4 mhz=1410")
    assert "power limit: 1410 of 1980 MHz" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "scene", "code", "said"),
    [
        (["--device", "gpu", "--gpu-index", "3"], "count=2", 2, "there is no GPU 3: 2 are visible"),
        (["--device", "gpu"], "count=0", 3, "sees no CUDA GPU"),
        (["--device", "gpu"], "driver=12040", 3, "driver is too old"),
        (["--device", "gpu"], f"memory={1 << 20}", 3, "too little memory"),
    ],
)
def test_a_gpu_that_cannot_be_used(
    fake_cupy: pytest.MonkeyPatch, arguments: list[str], scene: str, code: int, said: str
) -> None:
    done = run("01", "--solution", *SHAPE, *arguments, scene=scene)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
