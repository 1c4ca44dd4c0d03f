"""CUDA's errors in words: which errors are the kernel's fault, why a GPU cannot be used, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gemm_lessons.devices.extras import install_extra
from gemm_lessons.engine import Finding
from gemm_lessons.engine.records import Details, Grid, dataclass

GIB = 1 << 30
# cudaError values (driver_types.h) that are the kernel's fault -> kind of finding.
FAULTS: Mapping[int, str] = {
    700: "out_of_bounds",  # illegal address
    702: "timeout",  # the display's watchdog
    710: "trap",  # assert()
    714: "out_of_bounds",  # hardware stack error
    715: "trap",  # illegal instruction
    716: "misaligned",
    717: "out_of_bounds",  # invalid address space
    718: "trap",  # invalid program counter
    719: "out_of_bounds",  # launch failure
}
# An invalid value, an invalid configuration, too many resources, an impossible cluster: nothing was launched.
REFUSED = (1, 9, 701, 912)
NO_CODE = (98, 200, 209)
INSUFFICIENT_DRIVER, NO_DEVICE, UNAVAILABLE, NOT_READY = 35, 100, 46, 802


@dataclass(frozen=True)
class CudaError(Details):
    """The number of an error (``cudaError``)."""

    code: int


@dataclass(frozen=True)
class Launch(Details):
    """A launch that a GPU refused, and its driver's message."""

    text: str
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    shared: int | None = None


@dataclass(frozen=True)
class Waited(Details):
    """How long the parent waited for a launch."""

    seconds: float


def fault(code: int, text: str, grid: Grid | None) -> Finding:
    """Return the finding for a CUDA error that is the kernel's fault (in ``FAULTS`` or ``REFUSED``)."""
    if code in REFUSED:
        launch = Launch(text, grid.grid, grid.block, grid.dynamic_shared) if grid else Launch(text)
        return Finding("launch_refused", "error", facts=launch)
    return Finding(FAULTS[code], "error", f"cuda {code}", facts=CudaError(code))


def timeout(seconds: float) -> Finding:
    """Return the finding for a launch that did not end."""
    return Finding("timeout", "error", "gpu", facts=Waited(seconds))


def why_unavailable(answer: Mapping[str, Any]) -> str:
    """Return why the server could not start, from its first answer, and what to do."""
    code, text = int(answer.get("code", 0)), answer["text"]
    if answer["error"] == "import":
        return (
            f"CuPy, which runs kernels on the GPU, cannot be used here ({text}); install it to go with your driver "
            f"(nvidia-smi shows its CUDA version): for CUDA 13, {install_extra('cuda13')}; for CUDA 12, "
            f"{install_extra('cuda12')}"
        )
    if answer.get("driver") == 0:
        return "no NVIDIA driver is installed here; see nvidia.com/drivers, or leave --device out for the simulator"
    if code == INSUFFICIENT_DRIVER:
        has, needs = answer["driver"], answer["runtime"]
        other = (
            f"; or install CuPy for CUDA 12: pip uninstall cupy-cuda{needs // 1000}x, then {install_extra('cuda12')}"
            if has // 1000 == 12
            else ""
        )
        return (
            f"the NVIDIA driver is too old: it supports CUDA {dotted(has)}, the installed CuPy is for CUDA "
            f"{dotted(needs)}. Update the driver (CUDA 13 needs 580 or newer, CUDA 12 525 or newer){other}"
        )
    if code == NO_DEVICE:
        return f"the driver sees no CUDA GPU{visible()}; does nvidia-smi list one?"
    if code == UNAVAILABLE:
        return "the GPU is in exclusive use by another process; wait for it, or take another one with --gpu-index"
    if code == NOT_READY:
        return "the GPU's fabric manager does not run yet (CUDA error 802): ask your administrator"
    return f"the GPU cannot be used: {text}"


def wrong_index(index: int, count: int) -> str:
    """Return the message for GPU number ``index`` where there are ``count`` GPUs."""
    seen = {0: "none is", 1: "one is"}.get(count, f"{count} are")
    return f"there is no GPU {index}: {seen} visible, counted from 0{visible()}"


def too_little_memory(header: Mapping[str, Any]) -> str:
    """Return the message for too little memory, from the server's answer."""
    asked, free, total = (f"{header[name] / GIB:.2f}" for name in ("asked", "free", "total"))
    return (
        f"the GPU has too little memory: {asked} GiB were requested ({header['what']}), {free} of {total} GiB are "
        "free; use a smaller shape"
    )


def visible() -> str:
    """Return the environment variables that hide GPUs, in brackets."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible!r})"


def dotted(version: int) -> str:
    """Return 13.0 for 13000."""
    return f"{version // 1000}.{version % 1000 // 10}"
