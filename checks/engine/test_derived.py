"""Records derived from a kernel's code, on disk: stored the second time, read the third, and equal to derived ones."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemm_lessons.engine import sass, simulator
from gemm_lessons.engine.api import compile, simulate
from gemm_lessons.engine.compiler import cache, derived
from gemm_lessons.engine.compiler.derived import kept_between_runs
from gemm_lessons.engine.machine.prepared import Program
from gemm_lessons.engine.ptx.opcodes import TABLE, UNKNOWN, row_of

REVERSED = """
__constant__ float factor = 2.0f;
extern "C" __global__ void reversed(const float *in, float *out, int n)
{
    __shared__ float tile[64];
    float own[4];
    for (int i = 0; i < 4; ++i) own[i] = in[(threadIdx.x + i) % n] * factor;
    tile[threadIdx.x] = own[0] + own[threadIdx.x % 4];
    __syncthreads();
    out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}
"""
GATHERED = """
extern "C" __global__ void gathered(const int *places, float *out)
{
    out[places[threadIdx.x]] = threadIdx.x;
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GEMM_LESSONS_NO_CACHE", raising=False)
    yield
    forget()
    cache.files_of.cache_clear()


def forget() -> None:
    """Forget what this process has derived, as a new one has."""
    simulator._program.cache_clear()
    sass.prepare.cache_clear()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the steps that were not left out, in order."""
    taken: list[str] = []

    def observe(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def step(*given: Any) -> Any:
            taken.append(name)
            return real(*given)

        monkeypatch.setattr(owner, name, step)

    observe(simulator, "_read")
    observe(sass, "_prepared")
    observe(sass._Count, "sums")
    return taken


def reverse(n: int = 64) -> tuple[Any, ...]:
    forget()
    given, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    result = simulate(REVERSED, "reversed", 1, 64, [given, out, n])
    assert not result.counters.inexact
    return out.tolist(), result.counters, result.findings


def gather() -> None:
    forget()
    simulate(GATHERED, "gathered", 1, 32, [np.arange(32, dtype=np.int32), np.zeros(32, np.float32)])


def test_the_third_run_reads_what_the_second_stored(steps: list[str]) -> None:
    plain = reverse()
    every = ["_prepared", "_read", "sums"]
    for remaining in (every, every, [], []):
        steps.clear()
        with kept_between_runs():
            assert reverse() == plain
        assert sorted(steps) == remaining
    assert reverse() == plain
    assert sorted(steps) == every, "only on request"


def test_another_argument_is_counted_anew(steps: list[str]) -> None:
    for n in (64, 64, 63):
        steps.clear()
        with kept_between_runs():
            reverse(n)
    assert steps == ["sums"]


def test_counts_that_depend_on_memory_are_not_stored(steps: list[str]) -> None:
    for _ in range(3):
        steps.clear()
        with kept_between_runs():
            gather()
    assert steps == ["sums"]


def test_another_engine_derives_anew(steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        with kept_between_runs():
            reverse()
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / "module.py").write_text("changed")
    monkeypatch.setattr(derived, "ENGINE", engine)
    steps.clear()
    with kept_between_runs():
        reverse()
    assert len(steps) == 3


def test_a_damaged_entry_is_derived_anew(steps: list[str]) -> None:
    for _ in range(2):
        with kept_between_runs():
            plain = reverse()
    place = cache.folder()
    assert place is not None
    stored = [entry for entry in sorted(place.iterdir()) if derived.read(cache.get(entry.name) or b"") is not None]
    assert len(stored) == 3
    stored[0].write_bytes(stored[0].read_bytes()[:-1])
    for entry in stored[1:]:
        cache.put(entry.name, pickle.dumps({"not": "such a record"}))
    steps.clear()
    with kept_between_runs():
        assert reverse() == plain
    assert len(steps) == 3


def test_a_program_travels_whole() -> None:
    compiled = compile(REVERSED, "reversed")
    program = simulator._read(compiled.ptx, "reversed", True)
    other = derived.read(pickle.dumps(program))
    assert isinstance(other, Program)
    assert other == program
    rows = [(one.row, it.row) for one, it in zip(program.kernel.instructions, other.kernel.instructions, strict=True)]
    assert all(one is it for one, it in rows)


def test_every_opcode_is_pickled_by_name() -> None:
    for row in (*TABLE.values(), UNKNOWN, row_of("add", ""), row_of("add", "f32")):
        assert derived.read(pickle.dumps(row)) == row
