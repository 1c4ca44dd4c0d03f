"""The engine's door: what ``gemm_lessons.engine`` exports, alone in a fresh process."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemm_lessons import engine
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled
from gemm_lessons.engine.compiler.ptx_file import take
from gemm_lessons.report.reference import SECTIONS, engine_reference

SCALE = """
__constant__ float factor = 3;
__device__ int calls;
extern "C" __global__ void scale(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
    if (i == 0) calls++;
}
"""
LIGHT = ["", ".engine", ".engine.records", ".engine.records.first_use"]  # what "from gemm_lessons import engine" loads
PROGRAM = f"""
import json, sys
import numpy as np
before = set(sys.modules)
from gemm_lessons import engine
light = sorted(set(sys.modules) - before)
kernel = engine.compile({SCALE!r}, "scale", arch="sm_90")
x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
launched = kernel.launch(2, 32, [x, y, 64])
estimated = kernel.estimate(2, 32, [x, y, 64], gpu="h200")
print(json.dumps([light, sorted(sys.modules), y.tolist(), launched.counters["global_load_sectors"], repr(estimated)]))
"""


def arrays(n: int = 64) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def test_the_engine_needs_nothing_of_the_course() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    light, loaded, y, sectors, estimated = json.loads(done.stdout)
    assert [it.removeprefix("gemm_lessons") for it in light if it.startswith("gemm_lessons")] == LIGHT
    ours = {it for it in loaded if it.startswith("gemm_lessons.")}
    assert len(ours) > 50
    assert not [it for it in ours if it != "gemm_lessons.engine" and not it.startswith("gemm_lessons.engine.")]
    assert not {"rich", "typer", "cupy", "pygments", "jinja2", "pytest"} & set(loaded)
    assert (y, sectors) == ([3.0] * 64, 8 + 1)
    assert estimated.startswith("<estimate, not measured: ")


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, gemm_lessons.engine; print(*sorted(sys.modules))"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60).split()
    assert not {"numpy", "cuda", "cupy", "dataclasses"} & set(loaded)
    assert [it.removeprefix("gemm_lessons") for it in loaded if it.startswith("gemm_lessons")] == LIGHT


def test_every_public_name_is_there_and_documented() -> None:
    assert {name for names in SECTIONS.values() for name in names} == set(engine.__all__)
    for name in engine.__all__:
        value = getattr(engine, name)
        assert name == "GPUS" or len(inspect.getdoc(value) or "") > 20, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = engine.nothing  # type: ignore[attr-defined]


def test_the_page_has_every_name_with_its_signature() -> None:
    text = engine_reference()
    for name in engine.__all__:
        assert f"### {name}\n" in text
    assert "gpu: str | GpuSpec = 'h200'," in text
    assert "**`CompiledKernel.resources`**: `Resources`" in text
    assert "| `global_load_sectors` | `l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum` |" in text
    assert "Simulator.follow" not in text


def test_a_kernel_is_compiled_once_and_launched_often(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def counting(source: str, **options: Any) -> Compiled | NotCompiled:
        taken.append(source)
        return take(source, **options)

    monkeypatch.setattr("gemm_lessons.engine.api.take", counting)
    kernel = engine.compile(SCALE, "scale")
    for n in (64, 32, 1):
        x, y = arrays()
        launched = kernel.launch(2, 32, [x, y, n])
        assert launched.fault is None
        assert (y == np.where(x < n, 3 * x, 0)).all()
        assert launched.counters["global_store_sectors"] == -(-n // 8) + 1
        assert {line.line for line in launched.lines} >= {7, 8}
    assert len(taken) == 1
    assert (kernel.arch, repr(kernel)) == ("sm_90", "<kernel scale for sm_90>")
    assert ".visible .entry scale" in kernel.ptx
    assert kernel.cubin[:4] == b"\x7fELF"
    assert kernel.resources.registers > 0


def test_symbols_are_of_one_launch() -> None:
    kernel, (x, y) = engine.compile(SCALE, "scale"), arrays()
    calls = np.array([5], np.int32)
    kernel.launch(2, 32, [x, y, 64], symbols={"factor": 2.0, "calls": calls})
    assert (y == 2 * x).all()
    assert calls.tolist() == [6]
    seen = np.zeros(1, np.int32)
    kernel.launch(2, 32, [x, y, 64], symbols={"calls": engine.HostVariable("", seen, given=False)})
    assert (y == 3 * x).all(), "the source's own value again"
    assert seen.tolist() == [1]


def test_a_setting_is_of_one_launch() -> None:
    kernel, (x, y) = engine.compile(SCALE, "scale"), arrays()
    assert list(kernel.launch(2, 32, [x, y, 64], setting=engine.Setting(counting=False)).counters) == []
    assert kernel.launch(2, 32, [x, y, 64]).counters["blocks"] == 2


def test_simulate_is_both_in_one_call() -> None:
    (x, y), (a, b) = arrays(), arrays()
    one = engine.simulate(SCALE, "scale", 2, 32, [x, y, 64])
    other = engine.compile(SCALE, "scale").launch(2, 32, [a, b, 64])
    assert (y == b).all()
    assert one == other


def test_ptx_is_taken_too() -> None:
    kernel = engine.compile(engine.compile(SCALE, "scale").ptx, "scale")
    x, y = arrays()
    launched = kernel.launch(2, 32, [x, y, 64])
    assert (y == 3 * x).all()
    assert kernel.cubin == b""
    assert launched.counters["global_load_sectors"] == 8 + 1
    with pytest.raises(engine.NotCounted):
        launched.counters["thread_instructions"]


def test_errors() -> None:
    with pytest.raises(engine.CompileError, match=r"mine.cu:1: .*undefined") as refused:
        engine.compile('extern "C" __global__ void k(float *x) { x[0] = y; }', "k", path="mine.cu")
    assert refused.value.diagnostics[0].line == 1
    with pytest.raises(engine.KitError, match="not an architecture"):
        engine.compile(SCALE, "scale", arch="sm_9000")
    kernel, (x, y) = engine.compile(SCALE, "scale"), arrays()
    with pytest.raises(ValueError, match="takes 3 arguments, 2 were given"):
        kernel.launch(1, 32, [x, y])
    with pytest.raises(ValueError, match="one to three sizes"):
        kernel.launch((1, 1, 1, 1), 32, [x, y, 64])
    beyond = kernel.launch(1, 2048, [x, y, 64])
    assert beyond.fault.kind == "launch_failed"


def test_options_and_includes_reach_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "value.h").write_text("#define VALUE 4\n")
    source = '#include "value.h"\nextern "C" __global__ void k(float *x) { x[0] = VALUE * x[0] + MORE; }'
    x = np.array([2], np.float32)
    given: dict[str, Any] = {"include_dirs": [tmp_path], "defines": {"MORE": 1}}
    kernel = engine.compile(source, "k", options=["-fmad=false"], **given)
    assert kernel.launch(1, 1, [x]).counters["ffma"] == 0
    assert x.tolist() == [9.0]
