"""Choose the device that runs kernels."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from gemm_lessons.devices.gpu.errors import GpuUnavailable, WrongGpuIndex

if TYPE_CHECKING:
    from gemm_lessons.devices.device import Device

Choice = Literal["auto", "gpu", "sim"]


def open_device(choice: Choice, index: int = 0, meanwhile: Callable[[], object] | None = None) -> Device:
    """Return the device for ``--device`` and ``--gpu-index``; ``auto`` takes the GPU when CuPy is installed and finds
    it. ``meanwhile`` is called while the GPU starts, which takes up to a second.

    Raise ``GpuUnavailable`` when a GPU was requested and cannot be used.
    """
    from gemm_lessons.devices.simulated import Simulated

    if choice == "sim" or (choice == "auto" and importlib.util.find_spec("cupy") is None):
        return Simulated()
    from gemm_lessons.devices.gpu.cuda_gpu import Gpu
    from gemm_lessons.devices.shadowed_gpu import ShadowedGpu

    try:
        gpu = Gpu(index)
        if meanwhile is not None:
            meanwhile()
        _ = gpu.facts
        return ShadowedGpu(gpu)
    except WrongGpuIndex:
        raise
    except GpuUnavailable:
        if choice == "gpu":
            raise
        return Simulated()
