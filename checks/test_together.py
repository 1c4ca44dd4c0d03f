"""Kernels that are compiled together mean what they mean alone, and what does not fit in is compiled alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from checks import together
from checks.together import Together
from gemm_lessons.engine import api
from gemm_lessons.engine.compiler import compile as compiling
from gemm_lessons.engine.compiler.compile import Compiled

TWICE = "#include <cuda_fp16.h>\n__device__ float twice(float x) { return 2 * x; }\n"
KERNELS = {
    "race": """{}extern "C" __global__ void k(float *x)
{{
    __shared__ float s[64];
    s[threadIdx.x] = twice(x[threadIdx.x]);
    x[threadIdx.x] = s[63 - threadIdx.x];
}}""",
    "past the end": """{}extern "C" __global__ void __launch_bounds__(64) k(float *x)
{{

    x[threadIdx.x + 1] = twice(1);
}}
""",
    "clean": '{}extern "C" __global__ void k(float *x) {{ x[threadIdx.x] = twice(threadIdx.x); }}',
}
ONE = 'extern "C" __global__ void k(float *x) { x[0] = 1; }'
UNFIT = {
    "two kernels": f"{ONE}\n{ONE.replace('k(', 'l(')}",
    "something after it": f"{ONE}\n__device__ int after;",
    "a name that is mangled": ONE.removeprefix('extern "C" '),
    "memory of one name": ONE.replace("x[0]", "extern __shared__ float s[]; s[0]"),
    "a macro": ONE.replace("x[0]", "\n#define ZERO 0\nx[ZERO]"),
    "a header of its own": f'#include "own.h"\n{ONE}',
}


def run(source: str, **options: Any) -> tuple[Any, ...]:
    x = np.ones(64, np.float32)
    launched = api.simulate(source, "k", 1, 64, [x], arch="sm_80", **options)
    return launched.fault, launched.findings, x.tolist()


def joined(sources: list[str]) -> Together:
    """Of tests that run these."""
    items = [SimpleNamespace(function=lambda run, source=source: run(source)) for source in sources]
    return Together(cast(Any, items), lambda item: {"run": run, "source": cast(Any, item).function.__defaults__[0]})


def test_a_test_that_calls_the_compiler_itself_is_not_run_twice() -> None:
    ran = []

    def compiles() -> None:
        ran.append("to its compilation")
        compiling.compile_source(ONE, path="k.cu", entry="k")
        ran.append("beyond it")

    Together(cast(Any, [SimpleNamespace(function=compiles)]), lambda item: {})
    assert ran == ["to its compilation"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the compiler is asked for, by name."""
    seen: list[str] = []
    real = compiling.compile_source

    def compile_source(source: str, *, entry: str, **options: Any) -> Any:
        seen.append(entry)
        return real(source, entry=entry, **options)

    monkeypatch.setattr(together, "compile_source", compile_source)
    return seen


def test_findings_lines_and_answers_are_those_of_each_alone(monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    sources = [text.format(TWICE) for text in KERNELS.values()]
    alone = [run(source) for source in sources]
    assert [len(findings) + bool(fault) for fault, findings, _ in alone] == [1, 1, 0]
    program = joined(sources)
    monkeypatch.setattr(api, "take", program.take)
    assert [run(source) for source in sources] == alone
    assert asked == ["k0", "k1", "k2"]
    made = program.take(sources[0], path="kernel.cu", entry="k", arch="sm_80")
    assert isinstance(made, Compiled)
    assert made.source == sources[0]


@pytest.mark.parametrize("name", UNFIT)
def test_what_does_not_fit_in_is_left_out(name: str) -> None:
    sources = [UNFIT[name], f"{UNFIT[name]} ", ONE, f"{ONE} "]
    assert [(source, "sm_80") in joined(sources)._programs for source in sources] == [False, False, True, True]


def test_a_program_that_does_not_compile_takes_no_kernel_along(
    monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    good, bad = (f'extern "C" __global__ void k(float *x) {{ x[threadIdx.x] = {value}; }}' for value in ("3", "y"))
    monkeypatch.setattr(api, "take", joined([good, bad]).take)
    assert run(good)[2] == [3.0] * 64
    with pytest.raises(api.CompileError) as refused:
        run(bad)
    assert [it.line for it in refused.value.diagnostics] == [1]
    assert asked == ["k0", "k1"]
