"""Choosing where kernels run."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gemm_lessons.device import Device

Choice = Literal["auto", "gpu", "sim"]


def open_device(choice: Choice, index: int = 0) -> Device:
    """The device for ``--device`` and ``--gpu-index``; ``auto`` takes the GPU when CuPy is installed and finds it.

    Raises ``gpu.GpuUnavailable`` when a GPU was asked for and cannot be had.
    """
    from gemm_lessons.run.simulated import Simulated

    if choice == "sim" or (choice == "auto" and importlib.util.find_spec("cupy") is None):
        return Simulated()
    from gemm_lessons.gpu import Gpu, GpuUnavailable, WrongGpuIndex
    from gemm_lessons.run.shadowed import ShadowedGpu

    try:
        gpu = Gpu(index)
        import gemm_lessons.run.pipeline  # noqa: F401  what every run needs takes as long to load as the GPU to wake up

        _ = gpu.facts
        return ShadowedGpu(gpu)
    except WrongGpuIndex:
        raise
    except GpuUnavailable:
        if choice == "gpu":
            raise
        return Simulated()
