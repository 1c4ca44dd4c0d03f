"""Tile sizes from a data sheet alone: what lesson dgemm works out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks import forks
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.engine.records.errors import UnknownArchitecture
from gemm_lessons.gemm.tile_model import TileModel, tile_model_of

H200 = find_gpu("h200")
# The GPU of the paper. Its shared memory moves 64 bytes per clock, half as many as of all that came after it: half as
# many clocks stand for that, and twice the lanes and the DRAM.
FERMI = replace(
    H200, sms=14, clock_hz=1.15e9, dram_bytes_per_s=144e9, shared_bytes_per_block=48 << 10, registers_per_thread=63
)


def test_the_h200_of_the_lesson() -> None:
    model = tile_model_of(H200, "float64")
    assert model.flops == pytest.approx(33.5e12, rel=0.01)
    assert model.least_block == pytest.approx(55.8, abs=0.1)
    assert model.least_thread == pytest.approx(8)
    assert (model.thread, model.block, model.depth) == (8, 128, 16)
    assert model.registers(8) == 160
    assert model.shared_bytes(16) == 64 << 10


def test_the_gpu_of_the_paper() -> None:
    model = TileModel(FERMI, 8, 32)  # 16 lanes in truth
    assert model.least_thread == pytest.approx(4)
    assert (model.thread, model.block, model.depth) == (4, 64, 16)


def test_more_than_registers_hold() -> None:
    model = tile_model_of(replace(H200, registers_per_thread=128), "float64")
    assert (model.thread, model.block) == (None, None)


def test_what_it_does_not_know() -> None:
    assert tile_model_of(H200, "int8") is None
    with pytest.raises(UnknownArchitecture, match="sm_999"):
        tile_model_of(replace(H200, arch="sm_999"), "float64")


def test_the_command(tmp_path: Path) -> None:
    done = forks.run(("tune", "--model", "dgemm", "--gpu", "a100"), cwd=tmp_path)
    assert done.returncode == 0
    assert "4 x 4 by a thread, 64 x 64 by a block" in done.stdout
    assert forks.run(("tune", "--model", "dgemm", "--keep"), cwd=tmp_path).returncode == 2
    assert "int8" in forks.run(("tune", "--model", "dp4a"), cwd=tmp_path).stderr
