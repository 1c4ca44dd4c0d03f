"""Reasons why a GPU cannot be used."""

from __future__ import annotations

from gemm_lessons.engine import KitError


class GpuUnavailable(KitError):
    """There is no usable GPU; the message says why and what to do."""


class WrongGpuIndex(GpuUnavailable):
    """There are GPUs, but not the one that was requested."""
