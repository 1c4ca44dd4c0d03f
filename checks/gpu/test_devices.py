"""Which device ``--device`` takes, and whose data sheet goes with it."""

from __future__ import annotations

import importlib.util

import pytest

from gemm_lessons.devices.choose import Choice, open_device
from gemm_lessons.devices.device import BuildTarget
from gemm_lessons.devices.gpu.errors import GpuUnavailable, WrongGpuIndex
from gemm_lessons.engine.hardware.sheets import data_sheet


@pytest.mark.parametrize(
    ("choice", "scene", "index", "kind"),
    [
        ("sim", "", 0, "simulator"),
        ("auto", "", 0, "gpu"),
        ("auto", "count=0", 0, "simulator"),
        ("auto", "driver=12040", 0, "simulator"),
        ("gpu", "count=2", 1, "gpu"),
    ],
)
def test_the_device_for_an_option(
    fake_cupy: pytest.MonkeyPatch, choice: Choice, scene: str, index: int, kind: str
) -> None:
    fake_cupy.setenv("FAKE_GPU", scene)
    fake_cupy.setattr(importlib.util, "find_spec", lambda name: object())
    device = open_device(choice, index)
    assert device.kind == kind
    assert (device.timer is not None) is (kind == "gpu")
    if device.timer is not None:
        assert device.name == f"Fake GPU {index}"
        assert device.target == BuildTarget("sm_90", 13)
        device.timer.close()


def test_auto_without_cupy_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(
        "gemm_lessons.engine.process.child.Child.__init__", lambda *_, **__: pytest.fail("started a process")
    )
    assert open_device("auto").kind == "simulator"


@pytest.mark.parametrize(("scene", "error"), [("count=0", GpuUnavailable), ("count=1", WrongGpuIndex)])
def test_a_gpu_that_was_asked_for_must_be_there(
    fake_cupy: pytest.MonkeyPatch, scene: str, error: type[Exception]
) -> None:
    fake_cupy.setenv("FAKE_GPU", scene)
    with pytest.raises(error):
        open_device("gpu", 1)


@pytest.mark.parametrize(
    ("product", "sheet"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100-SXM4-80GB", None),
        ("Tesla V100-SXM2-32GB", "V100"),
        ("Tesla P100-SXM2-16GB", "P100"),
        ("Tesla P100-PCIE-16GB", None),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("Fake GPU 0", None),
    ],
)
def test_data_sheets_go_by_the_very_product(product: str, sheet: str | None) -> None:
    found = data_sheet(product)
    assert (found.name if found else None) == sheet
