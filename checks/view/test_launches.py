"""Pictures of any kernel: what block 0 requests, the timeline, and what ``gemm-lessons view FILE`` says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from checks import forks
from checks.view.browser import Browser, chromium
from gemm_lessons.cli.options import complete_lesson_or_kernel
from gemm_lessons.engine.estimate import launch as estimates
from gemm_lessons.engine.inspection import Inspection, InspectRequest, given_to, inspect
from gemm_lessons.engine.pictures import Request, Touched, follow, observe
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.records.metrics import METRICS
from gemm_lessons.report.page import page_of, record
from gemm_lessons.view import Side, view_of_launch

TRANSPOSE = """__constant__ int offset;
__global__ void transpose(const float *in, float *out, int rows, int cols)
{
    extern __shared__ float tile[];
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        tile[(threadIdx.y + j) * (32 + offset) + threadIdx.x] = in[(y + j) * cols + x];
    __syncthreads();
    const int tx = blockIdx.y * 32 + threadIdx.x, ty = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        out[(ty + j) * rows + tx] = tile[threadIdx.x * (32 + offset) + threadIdx.y + j];
}
__global__ void wild(float *x, int n) { x[threadIdx.x + n] = n; }
__global__ void slow(float *x, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i * 32 + threadIdx.x];
    x[threadIdx.x] = sum;
}
"""
LOAD = 11  # the line that reads a column of the tile
ARGS = "x=f32[rows,cols],y=out f32[cols,rows],rows=64,cols=96"
REQUEST = InspectRequest(
    TRANSPOSE, "k.cu", "transpose", Grid((3, 2, 1), (32, 8, 1), 33 * 32 * 4), ARGS, "y = x.T",
    symbols=("offset=0",), recording=True,
)  # fmt: skip
LAUNCH = ["--entry", "transpose", "--grid", "3,2", "--block", "32,8", "--dynamic-shared", "4224", "--args", ARGS]


def side_of(result: Inspection) -> Side:
    (side,) = view_of_launch(result).sides
    return side


@pytest.fixture(scope="module")
def inspected() -> Inspection:
    result = inspect(REQUEST)
    assert result.clean
    return result


@pytest.fixture(scope="module")
def side(inspected: Inspection) -> Side:
    return side_of(inspected)


def test_every_block_requests_what_was_counted(side: Side) -> None:
    of_memory = {"shared_wavefronts": "shared", "global_load_sectors": "global", "global_store_sectors": "global"}
    compared = set()
    for count in side.counts:
        for short, space in of_memory.items():
            if count.metric == METRICS[short]:
                requests = [it for it in side.requests_of(count.line) if it.space == space]
                assert 6 * sum(it.times * it.cost for it in requests) == count.value
                assert 6 * sum(it.times * it.ideal for it in requests) == count.ideal
                compared.add((short, count.line))
    assert len(compared) == 4
    assert not side.missing


def test_eight_warps_take_the_column_by_the_four_loads_of_the_loop(side: Side) -> None:
    """Their addresses begin in 32 different banks."""
    (column,) = (it for it in side.requests_of(LOAD) if it.space == "shared")
    assert (column.times, column.instructions) == (32, 4)


def test_a_variable_of_the_host_decides_the_banks(side: Side) -> None:
    """32 floats in a row, or 33."""
    conflicts = [it.cost for it in side.requests_of(LOAD) if it.space == "shared"]
    padded = [
        it.cost for it in side_of(inspect(replace(REQUEST, symbols=("offset=1",)))).requests_of(LOAD)
        if it.space == "shared"
    ]  # fmt: skip
    assert set(conflicts) == {32}
    assert set(padded) == {1}


def test_the_ptx_requests_the_same(inspected: Inspection) -> None:
    """ptxas merges nothing here."""
    compiled = inspected.compiled
    assert compiled

    def all_of(look: Callable[..., Touched]) -> set[tuple[object, ...]]:
        given = given_to(REQUEST, compiled)
        found = look(compiled, REQUEST.grid, given.arguments, given.symbols).requests
        return {(it.line, it.space, it.effect, it.array, it.lanes, it.cost, it.times) for it in found}

    assert all_of(observe) == all_of(follow)


def test_ptx_has_requests_and_says_why_it_has_no_timeline(inspected: Inspection) -> None:
    assert inspected.compiled
    text = "\n".join(it for it in inspected.compiled.ptx.splitlines() if ".loc" not in it)
    entry = inspected.compiled.entry
    mine = side_of(inspect(replace(REQUEST, source=text, path="k.ptx", entry=entry, symbols=("offset=0",))))
    assert max(it.cost for it in mine.requests if it.space == "shared") == 32
    assert "pass CUDA C++" in mine.missing["timeline"]
    assert any("of its PTX" in note for note in mine.notes)


def test_the_page_has_time_and_limiter(inspected: Inspection) -> None:
    shown = record(view_of_launch(inspected))
    assert shown["title"] == "transpose in k.cu"
    assert "est. time on H200" in shown["verdict"]["summary"]
    assert "limited by" in shown["verdict"]["summary"]
    assert [str(LOAD) for cells in shown["table"]["rows"] if cells[0] == "shared wavefronts"]
    (mine,) = shown["sides"]
    assert mine["requests"][LOAD]["shown"][0]["turns"] == (32,)
    assert mine["timeline"]["warps"] == 8
    assert mine["places"]["x"] == [4, (96, 1)]


@pytest.mark.skipif(chromium() is None, reason="needs Chromium, which is not here")
def test_the_page_in_a_browser(browser: Browser, inspected: Inspection, tmp_path: Path) -> None:
    path = tmp_path / "k.html"
    path.write_text(page_of(view_of_launch(inspected)), encoding="utf-8")
    browser.problems.clear()
    browser.show(path)
    assert browser.problems == []
    assert browser.run("document.documentElement.dataset.ready") == "yes"
    assert browser.run("document.querySelector('.detail h3').textContent") == f"Line {LOAD}"
    assert "Busy after the launch: " in browser.run("document.querySelector('.timeline').textContent")


def test_a_fault_has_no_timeline() -> None:
    mine = side_of(inspect(replace(REQUEST, entry="wild", args="x=inout f32[256],n=250", symbols=(), expect=None)))
    assert mine.missing["timeline"] == "There is no timeline: the kernel was stopped by a fault."
    assert mine.requests


def test_a_long_loop_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "CUT", 4_000)
    monkeypatch.setattr(estimates, "LONGEST", 4_000)
    grid = Grid((1, 1, 1), (32, 1, 1))
    mine = side_of(
        inspect(replace(REQUEST, entry="slow", grid=grid, args="x=inout f32[n,32],n=4096", symbols=(), expect=None))
    )
    assert mine.recording
    assert mine.recording.cut
    assert "The timeline leaves out most iterations of a long loop." in mine.notes


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "transpose.cu"
    path.write_text(TRANSPOSE)
    return path


def view(file: Path, *options: str, width: int = 80) -> CompletedProcess[str]:
    return forks.run(["view", str(file), *options], cwd=file.parent, env=dict(os.environ) | {"COLUMNS": str(width)})


def test_a_file_is_shown_and_has_a_page(file: Path) -> None:
    done = view(file, *LAUNCH, "--symbol", "offset=0")
    assert done.returncode == 0, done.stderr
    for words in ("est. time on H200", "limited by", "32 wavefronts        1  load from tile", "transpose.html: open"):
        assert words in done.stdout
    assert "transpose in transpose.cu" in (file.parent / "transpose.html").read_text()


@pytest.mark.parametrize("width", [80, 120])
def test_a_timeline_by_warp_fits_the_terminal(file: Path, width: int) -> None:
    done = view(file, *LAUNCH, "--symbol", "offset=0", "--timeline", width=width)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("est. time on H200")
    strips = [line.split(maxsplit=2)[2] for line in lines if line.startswith("warp ")]
    assert len(strips) == 8
    assert all({"g", "."} <= set(strip) for strip in strips), "waits for loads, then at the barrier"
    assert max(map(len, strips)) > width - 20
    assert any(line.startswith("Busy: issue slots") for line in lines)
    assert any(line.split()[:1] == [str(LOAD)] for line in lines)
    assert not (file.parent / "transpose.html").exists()


def test_a_line_and_a_trace_of_a_file(file: Path) -> None:
    done = view(file, *LAUNCH, "--symbol", "offset=0", "--line", str(LOAD), "--trace", "t.json")
    assert done.returncode == 0, done.stderr
    assert "load from tile, 4 bytes a lane, warp 0: 32 wavefronts, 1 would do" in done.stdout
    assert "sector at y[0, 0]" in done.stdout
    assert json.loads((file.parent / "t.json").read_text())["otherData"]["gpu"] == "H200"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "--grid, --block, --args missing; describe the launch of transpose(const float *in, "),
        ([*LAUNCH, "--solution"], "choose a lesson's kernel; "),
        ([*LAUNCH, "--line", "99"], "has 20 lines"),
        ([*LAUNCH, "--line", "1"], "line 1 does not access memory; these lines do: 7, 11"),
        ([*LAUNCH, "--block", "2048"], "a block has at most 1024"),
        ([*LAUNCH, "--args", "in=f32[4]"], "takes 4 parameters"),
        (["--entry", "wild", *LAUNCH[2:6], "--args", "x=inout f32[256],n=250", "--timeline"], "stopped by a fault"),
    ],
)  # fmt: skip
def test_wrong_commands_for_a_file(file: Path, options: list[str], says: str) -> None:
    done = view(file, *(options or ["--entry", "transpose"]))
    assert done.returncode == 2
    assert says in done.stderr.replace("\n", " ")
    assert done.stderr.count("error: ") == 1


def test_a_file_that_does_not_compile(file: Path) -> None:
    file.write_text("__global__ void transpose(float *in) { in[0] = ; }")
    done = view(file, *LAUNCH)
    assert done.returncode == 1
    assert "DOES NOT COMPILE" in done.stdout


def test_a_launch_is_not_for_a_lesson() -> None:
    done = forks.run(["view", "03", "--solution", "--grid", "3", "-D", "X=1"])
    assert done.returncode == 2
    assert "--grid, --define: only for a file with a kernel; 03 is a lesson" in done.stderr


def test_the_shell_completes_files_too(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    Path("kernels").mkdir()
    Path("notes.txt").touch()
    assert {"thread_tile", "transpose.cu"} <= set(complete_lesson_or_kernel("t"))
    assert complete_lesson_or_kernel("k") == ["kernels/"]


def test_a_request_of_another_file_is_found_if_all_are() -> None:
    """As Triton's line tables name the Python file."""
    row = inspect(replace(REQUEST, recording=False, estimating=False))
    mine = side_of(row)
    elsewhere: tuple[Request, ...] = tuple(replace(it, file="k.py") for it in mine.requests)
    assert replace(mine, requests=elsewhere).requests_of(LOAD) == tuple(it for it in elsewhere if it.line == LOAD)
    assert not replace(mine, requests=(*elsewhere, replace(mine.requests[0], line=1))).requests_of(LOAD)
