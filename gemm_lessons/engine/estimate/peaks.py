"""Peak rates of a GPU by number type, from its data sheet and the clocks of its instructions."""

from __future__ import annotations

from gemm_lessons.engine.hardware.sheets import GpuSpec, capability_of, pipes_of
from gemm_lessons.engine.records.frozen import dataclass

WARP = 32
BYTES = 4  # products of one lane's dp4a
BF16_SINCE = 80  # compute capability, "CUDA C++ Programming Guide"


@dataclass(frozen=True)
class Peak:
    """What one kind of unit reaches on the whole chip: operations per second, a multiply-add counted as two."""

    unit: str
    flops_per_s: float


def peaks(gpu: GpuSpec, number_type: str) -> tuple[Peak, ...]:
    """Return the peaks in ``number_type`` (fp32, tf32, fp16, bf16, int8, fp64); none where no rate is known.

    Tensor cores have the clock that the chip holds while all of them work; in fp64 that is its highest.
    """
    capability = capability_of(gpu.arch)
    pipes = pipes_of(gpu)
    schedulers = 2 * gpu.sms * gpu.schedulers
    found: list[Peak] = []
    tensor, clock = 0.0, gpu.hot.clock_hz
    if number_type == "fp32":
        found.append(Peak("fp32 units", gpu.fp32_flops_per_s))
    elif number_type == "tf32":
        tensor = pipes.products.tf32
    elif number_type == "fp16" or (number_type == "bf16" and capability >= BF16_SINCE):
        tensor = pipes.products.f16
    elif number_type == "int8":
        tensor = pipes.products.int8
        if pipes.dot:
            found.append(Peak("dp4a", schedulers * WARP / pipes.dot * BYTES * gpu.clock_hz))
    elif number_type == "fp64":
        tensor, clock = pipes.products.f64, gpu.clock_hz
        found.append(Peak("fp64 units", schedulers * WARP / pipes.fp64 * gpu.clock_hz))
    if tensor:
        found.append(Peak(f"{number_type} tensor cores", schedulers * tensor * clock))
    return tuple(found)
