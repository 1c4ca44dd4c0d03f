"""Choosing where kernels run, and the data sheet that goes with it."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gemm_lessons.device import Device
    from gemm_lessons.gpus import GpuSpec

Choice = Literal["auto", "gpu", "sim"]


def open_device(choice: Choice, index: int = 0) -> Device:
    """The device for ``--device`` and ``--gpu-index``; ``auto`` takes the GPU when CuPy is installed and finds it.

    Raises ``gpu.GpuUnavailable`` when a GPU was asked for and cannot be had.
    """
    from gemm_lessons.simulator import Simulator

    if choice == "sim" or (choice == "auto" and importlib.util.find_spec("cupy") is None):
        return Simulator()
    from gemm_lessons.gpu import Gpu, GpuUnavailable, WrongGpuIndex

    try:
        gpu = Gpu(index)
        import gemm_lessons.pipeline  # noqa: F401  what every run needs takes as long to load as the GPU to wake up

        _ = gpu.facts
        return gpu
    except WrongGpuIndex:
        raise
    except GpuUnavailable:
        if choice == "gpu":
            raise
        return Simulator()


# What the driver calls the very products whose data sheets ``gpus`` holds. Others of the same name ("H100 PCIe",
# "RTX 4090 Laptop GPU", "A100-SXM4-80GB") have other clocks, multiprocessors or memory.
PRODUCTS = {
    r"Tesla P100-SXM2-16GB": "p100",
    r"Tesla V100-SXM2-(16|32)GB": "v100",
    r"(NVIDIA )?A100-SXM4-40GB": "a100",
    r"NVIDIA H100 80GB HBM3": "h100",
    r"NVIDIA H200": "h200",
    r"(NVIDIA )?GeForce RTX 4090": "rtx4090",
}


def data_sheet(product: str) -> GpuSpec | None:
    """The data sheet of a GPU by the name that its driver gives; None when the kit has none."""
    from gemm_lessons.gpus import GPUS

    return next((GPUS[key] for pattern, key in PRODUCTS.items() if re.fullmatch(pattern, product)), None)
