"""The timeline by role: copies and arrivals between roles, for a kernel with a producer and two consumers, and for one
without roles."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from checks.simulator.test_wgmma import COMMON, ROLES_SHARED, roles_source
from gemm_lessons.engine.estimate.recording import Recording
from gemm_lessons.engine.inspection import Inspection, InspectRequest, inspect
from gemm_lessons.engine.pictures.roles import MOST_ROWS, Roles, barrier_names, roles_of
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.report.console import make_console
from gemm_lessons.report.view import show_timeline
from gemm_lessons.view import Side, view_of_launch

TILES, STAGES = 8, 3
REQUEST = InspectRequest(
    roles_source(), "k.cu", "k", Grid((2, 2, 1), (384, 1, 1), ROLES_SHARED),
    "A=bf16[M,K] box[128,64] swizzle 128,B=bf16[N,K] box[64,64] swizzle 128,C=out f32[M,N],M=256,N=128,K=512",
    "C = A @ B.T", include_dirs=(COMMON,), arch="sm_90a", recording=True,
)  # fmt: skip


@pytest.fixture(scope="module")
def inspected() -> Inspection:
    return inspect(REQUEST)


@pytest.fixture(scope="module")
def recording(inspected: Inspection) -> Recording:
    assert inspected.clean
    assert isinstance(inspected.recording, Recording)
    return inspected.recording


@pytest.fixture(scope="module")
def roles(inspected: Inspection, recording: Recording) -> Roles:
    assert inspected.compiled
    found = roles_of(recording, "k.cu", barrier_names(inspected.compiled))
    assert found
    return found


def test_warps_have_roles(roles: Roles) -> None:
    named = {role.name: (role.first, role.last) for role in roles.roles}
    assert named == {"producer": (0, 0), "other": (1, 3), "consumer 0": (4, 7), "consumer 1": (8, 11)}


def test_every_stage_is_handed_over(roles: Roles) -> None:
    lines = REQUEST.source.splitlines()
    producer, consumers = 0, (2, 3)
    blocks = {it.block for it in roles.passed}
    full = [it for it in roles.passed if it.barrier.startswith("full")]
    assert len(full) == len(consumers) * TILES * len(blocks)
    assert all(it.copy and it.giver == producer and "copy_box" in lines[it.given - 1] for it in full)
    empty = [it for it in roles.passed if it.barrier.startswith("empty")]
    assert len(empty) == (TILES - STAGES) * len(blocks), "the first stages are empty from the start"
    assert all(not it.copy and it.giver in consumers and it.taker == producer for it in empty)
    assert all("arrive(empty" in lines[it.given - 1] and "await(empty" in lines[it.line - 1] for it in empty)
    assert all(it.asked <= it.passed and it.over <= it.passed for it in roles.passed)
    stages = [it.barrier for it in full if it.taker == 2 and it.block == 0]
    assert stages == [f"full[{i % STAGES}]" for i in range(TILES)]


def test_units_work_for_roles(roles: Roles, recording: Recording) -> None:
    units = {row.name: row for row in roles.units}
    assert list(units) == [*(f"TMA full[{i}]" for i in range(STAGES)), "tensor core"]
    for stage in range(STAGES):  # a copy ends when the phase does that it reports to
        copied = {it.over for it in roles.passed if it.barrier == f"full[{stage}]"}
        assert {span.end for span in units[f"TMA full[{stage}]"].spans} == copied
    products = units["tensor core"].spans
    assert {span.role for span in products} == {2, 3}
    assert all(before.end <= after.start for before, after in itertools.pairwise(products)), "one core, one product"
    work = [it for it in recording.work if it.unit == "tensor" and it.warp % 4 == 0]
    assert len(work) == 2 * 4 * TILES * len({it.block for it in roles.passed})
    pauses = sum(it.end - it.start for it in products) - sum(it.end - it.start for it in work)
    assert -0.01 < pauses < len(work) - len(products) + 0.01, "only what follows within a clock is joined"


def test_consumers_wait_for_products(recording: Recording) -> None:
    waits = [span for span in recording.spans if span.state == "product"]
    assert waits
    assert all(recording.code[span.cause].name == "HGMMA" for span in waits)


def test_many_barriers_share_a_row(recording: Recording) -> None:
    boxes = [it for it in recording.work if it.unit == "box"]
    assert len(boxes) > MOST_ROWS
    many = [replace(it, barrier=i) for i, it in enumerate(boxes)]
    rest = [it for it in recording.work if it.unit != "box"]
    found = roles_of(replace(recording, work=(*many, *rest)), "k.cu", {})
    assert found
    assert [row.name for row in found.units] == ["TMA", "tensor core"]


@pytest.mark.parametrize("width", [80, 120])
def test_rows_fit_the_terminal(
    inspected: Inspection, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    show_timeline(make_console(), view_of_launch(inspected).sides[0])
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= width
    assert any(line.startswith("2 consumer 0") and "#" in line and "." in line for line in printed)
    assert any(line.startswith("tensor core") and {"2", "3"} <= set(line) for line in printed)
    (wait,) = [line for line in printed if "empty[2]" in line][:1]
    assert "consumer 1, line 77" in wait
    assert "-> producer, line 58" in wait


def test_without_mbarriers_there_are_no_roles(clean: Side) -> None:
    assert clean.recording
    assert clean.roles is None
    assert roles_of(clean.recording, clean.row.path, {}) is None
