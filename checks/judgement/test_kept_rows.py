"""Rows beside a kernel, kept on disk: the same as computed ones, and never those of another file, kit or compiler."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.compiler import cache
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.verdict import CompileFailed
from gemm_lessons.running import kept_rows
from gemm_lessons.running.jobs import Deferred, Jobs
from gemm_lessons.running.outcome import Row
from gemm_lessons.running.pipeline import row_job, run_plan, shared
from gemm_lessons.running.plan import RunPlan, RunRequest

COURSE = packaged_course()
ARCH = ["sm_90"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GEMM_LESSONS_NO_CACHE", raising=False)
    yield
    cache.files_of.cache_clear()


def plan_of(path: Path, gpu: str = "h200", seed: int = 1, shape: Shape | None = None) -> RunPlan:
    return RunPlan.of(RunRequest(COURSE, COURSE.lesson("coalesced"), path, Simulated(), GPUS[gpu], shape, seed))


def job_of(plan: RunPlan) -> Deferred[Row]:
    return row_job(plan, plan.kernels[1], Jobs())


def key_of(plan: RunPlan) -> str:
    key = kept_rows.key_for(job_of(plan).facts, ARCH)
    assert key is not None
    return key


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.cu"
    path.write_text(COURSE.lesson("coalesced").solution_path.read_text())
    return path


def test_the_next_run_reads_what_this_one_stored(kernel: Path) -> None:
    outcomes = []
    for seed in (1, 2):
        plan = plan_of(kernel, seed=seed)
        with shared(plan) as jobs:
            known = [jobs.knows(row_job(plan, other, jobs)) for other in plan.kernels[1:]]
            outcomes.append(run_plan(plan, jobs))
        assert known == [seed == 2] * 2
    first, then = (outcome.rows[1:] for outcome in outcomes)
    assert [row.role for row in then] == ["previous", "reference"]
    for one, other in zip(first, then, strict=True):
        assert (one.source, one.path, one.label) == (other.source, other.path, other.label)
        assert one.checked.counters == other.checked.counters
        assert (one.checked.verdict, one.checked.gates) == (other.checked.verdict, other.checked.gates)
        assert one.speed.estimate == other.speed.estimate


def test_the_kernel_and_the_inputs_do_not_matter(kernel: Path) -> None:
    before = key_of(plan_of(kernel, seed=1))
    kernel.write_text("broken")
    assert key_of(plan_of(kernel, seed=2)) == before


def test_whatever_a_row_depends_on_does(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(kernel)
    keys = [key_of(plan), key_of(plan_of(kernel, gpu="v100")), key_of(plan_of(kernel, shape=Shape(64, 64, 64)))]
    previous = plan.kernels[1]
    assert previous.path is not None
    changed = tmp_path / "previous.cu"
    changed.write_text(previous.path.read_text() + "\n")
    other = row_job(plan, replace(previous, path=changed), Jobs())
    keys += [str(kept_rows.key_for(other.facts, ARCH)), str(kept_rows.key_for(job_of(plan).facts, ["sm_90a", "sm_80"]))]
    kit = tmp_path / "kit"
    kit.mkdir()
    (kit / "module.py").write_text("1")
    monkeypatch.setattr(kept_rows, "ROOT", kit)
    for text in ("1", "22"):
        (kit / "module.py").write_text(text)
        cache.files_of.cache_clear()
        keys.append(key_of(plan))
    identity = cache.identity
    monkeypatch.setattr(cache, "identity", lambda file: identity(file) + "of another")
    keys.append(key_of(plan))
    assert len(set(keys)) == len(keys)


def test_what_has_no_written_form_is_not_kept() -> None:
    assert kept_rows.key_for((1, print), ARCH) is None
    assert kept_rows.key_for(None, ARCH) is None
    one, other = ({"a", "b", "c"}, {"c", "b", "a"})
    assert kept_rows.key_for(one, ARCH) == kept_rows.key_for(other, ARCH) != kept_rows.key_for(("a", "b", "c"), ARCH)


def test_a_failed_row_is_not_stored(kernel: Path) -> None:
    row = job_of(plan_of(kernel)).make()
    failed = replace(row, checked=replace(row.checked, verdict=CompileFailed("no")))
    for number, bad in enumerate((failed, replace(row, unsupported="no time"), replace(row, built=None))):
        kept_rows.store(f"{number:064}", bad)
        assert kept_rows.load(f"{number:064}") is None


class _Calls:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("open('called', 'w')",)


@pytest.mark.parametrize("entry", [pickle.dumps(_Calls()), b"damaged", b"", pickle.dumps((1, 2))])
def test_an_entry_calls_nothing(entry: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cache.put("0" * 64, entry)
    assert kept_rows.load("0" * 64) is None
    assert not (tmp_path / "called").exists()
