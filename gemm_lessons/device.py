"""What a device is: it launches one compiled kernel on NumPy buffers.

Two exist, the simulator (``simulator/``) and a CUDA GPU (``gpu/``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from gemm_lessons.launch import Argument, Grid, Launched

if TYPE_CHECKING:
    from gemm_lessons.compiler.compile import Compiled


class Device(Protocol):
    """Launches kernels. Raises ``UnsupportedKernel`` when it cannot run this kernel at all."""

    @property
    def kind(self) -> Literal["simulator", "gpu"]:
        """Which kind of device this is."""

    @property
    def name(self) -> str:
        """Its name as shown to the user."""

    def launch(self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument]) -> Launched:
        """Run the kernel once and write its outputs back into their arrays."""
