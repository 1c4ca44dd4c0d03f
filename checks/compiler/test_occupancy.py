"""Occupancy against NVIDIA's own ``cuda_occupancy.h`` (``occupancy_table.c`` prints the table) and published facts."""

import csv
import dataclasses

import pytest

from checks.readings import FOLDER
from gemm_lessons.engine.compiler.compile import Resources
from gemm_lessons.engine.hardware.occupancy import occupancy_of
from gemm_lessons.engine.hardware.sheets import GPUS, find_gpu

TABLE = list(csv.DictReader((FOLDER / "compiler" / "occupancy.csv").read_text().splitlines()))


@pytest.mark.parametrize("gpu", sorted({row["gpu"] for row in TABLE}))
def test_blocks_per_multiprocessor_are_those_of_nvidias_header(gpu):
    rows = [row for row in TABLE if row["gpu"] == gpu]
    assert len(rows) == 144
    for row in rows:
        static = Resources(int(row["registers"]), int(row["shared_bytes"]), 0, 0)
        dynamic = Resources(int(row["registers"]), 0, 0, 0)
        expected = int(row["blocks_per_sm"])
        assert occupancy_of(static, int(row["threads"]), 0, GPUS[gpu]).blocks_per_sm == expected, row
        assert occupancy_of(dynamic, int(row["threads"]), int(row["shared_bytes"]), GPUS[gpu]).blocks_per_sm == expected


def test_the_v100_figure_of_the_seeds():
    """256 threads of 136 registers: 8 of 64 warps, 12.5 percent, because of registers."""
    it = occupancy_of(Resources(136, 16384, 0, 0), 256, 0, GPUS["v100"])
    assert (it.blocks_per_sm, it.warps, it.fraction, it.limiter) == (1, 8, 0.125, "registers")


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "gpu", "warps", "limiter"),
    [
        (32, 0, 256, "h200", 64, "warps and registers"),
        (32, 8192, 1024, "h200", 64, "warps and registers"),
        (16, 0, 1024, "h200", 64, "warps"),
        (206, 162816, 256, "h200", 8, "shared memory and registers"),
        (107, 8192, 256, "h200", 16, "registers"),
        (64, 65536, 256, "h200", 24, "shared memory"),
        (32, 0, 32, "h200", 32, "blocks"),
        (32, 0, 32, "rtx4090", 24, "blocks"),
        (65, 0, 1024, "h200", 0, "does not fit"),
        (32, 0, 1025, "h200", 0, "does not fit"),
        (32, 0, 0, "h200", 0, "does not fit"),
        (32, 228 * 1024, 32, "h200", 0, "does not fit"),
        (256, 0, 32, "h200", 0, "does not fit"),
        (32, 49153, 32, "p100", 0, "does not fit"),
    ],
)
def test_limits(registers, shared, threads, gpu, warps, limiter):
    it = occupancy_of(Resources(registers, shared, 0, 0), threads, 0, GPUS[gpu])
    assert (it.warps, it.limiter) == (warps, limiter)
    assert it.fraction == warps / GPUS[gpu].max_warps_per_sm


def test_the_system_reserve_counts_since_ampere():
    """7 blocks of 32 KB would be 224 of 228 KB; with 1 KB more for each they are 231."""
    it = occupancy_of(Resources(16, 32768, 0, 0), 64, 0, GPUS["h200"])
    assert (it.blocks_per_sm, it.limiter) == (6, "shared memory")


@pytest.mark.parametrize(
    ("gpu", "teraflops"),
    [
        ("p100", 10.6),
        ("v100", 15.7),
        ("t4", 8.1),
        ("a100", 19.5),
        ("h100", 66.9),
        ("h200", 66.9),
        ("rtx4090", 82.6),
        ("rtx2080", 10.1),
        ("rtx2080ti", 13.4),
        ("rtx3060", 12.7),
        ("rtx3090", 35.6),
        ("a10", 31.2),
        ("rtx4060", 15.1),
        ("l4", 30.3),
        ("l40s", 91.6),
        ("rtx5090", 104.8),
    ],
)
def test_peaks_are_those_of_the_data_sheets(gpu, teraflops):
    assert GPUS[gpu].fp32_flops_per_s / 1e12 == pytest.approx(teraflops, abs=0.06)


def test_data_sheets_are_plausible_and_frozen():
    for spec in GPUS.values():
        assert spec.shared_bytes_per_block <= spec.shared_bytes_per_sm
        assert spec.l2_bytes_per_s > spec.dram_bytes_per_s
        with pytest.raises(dataclasses.FrozenInstanceError):
            spec.sms = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "gpu"), [("h200", "H200"), ("RTX 4090", "RTX 4090"), ("4090", "RTX 4090"), ("v-100", "V100"), ("T4", "T4")]
)
def test_a_gpu_by_name(name, gpu):
    assert find_gpu(name).name == gpu


@pytest.mark.parametrize("name", ["", "h201", "rtx", "gtx4090"])
def test_an_unknown_gpu_lists_the_known_ones(name):
    with pytest.raises(KeyError, match=r"p100, v100, .*t4, a100, .*rtx4090, h100, h200, .*a file of your own"):
        find_gpu(name)
