"""How long a multiprocessor takes for one instruction: latencies and rates, by compute capability, in clocks.

Sources, by the letter used below:
[R] read on an H200 with the micro-kernels of ``checks/readings/estimate`` (h200.json there).
[L] Latency table of github.com/markdewing/AI_kernels (latency/README.md): L1 and L2 of V100, A100, RTX 4090, H100.
[J] Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018): P100 and V100.
[G] NVIDIA, "CUDA C++ Programming Guide", arithmetic throughput by compute capability.
[F] fitted: one number for all kernels and sizes; on what, and how far it carries, is in lessons/common/ESTIMATE.md.
"""

from __future__ import annotations

from gemm_lessons.frozen import dataclass
from gemm_lessons.hardware.sheets import GpuSpec


@dataclass(frozen=True)
class Pipes:
    """Clocks. Those without a comment are the same on every GPU of the table."""

    l1: float  # until a load that hits L1 returns
    l2: float  # until one that misses L1 and hits L2 returns
    shared: float  # until a shared load returns its first register
    request: float  # of the load-store unit, at least, for one warp's global access
    integer: float = 2.0  # a scheduler's integer unit for one warp instruction; 16 lanes, [G]
    multiply_slots: int = 1  # issue slots of an integer multiplication
    dependence: float = 1.0  # arithmetic latency, over Volta's: scales the waits that ptxas wrote for Volta
    fair: bool = True  # schedulers let warps take turns: most of their waiting on an H200 is for others, [R]
    dual: bool = False  # a memory instruction can be issued beside an arithmetic one
    special: float = 8.0  # special functions, conversions: 4 lanes a scheduler, [G]
    special_latency: float = 20.0  # [J]: 14 to 26
    constant: float = 30.0  # until a load from constant memory returns, [J]: 27
    replay: float = 1.5  # of the shared-memory path for each wavefront that a bank conflict adds, [F]
    write_port: float = 1.0  # of the fp32 pipe for each register that a shared load returns, [F]
    read: float = 4.0  # from an access's start until its source registers may be overwritten, about a pipeline's depth
    queue: int = 8  # accesses of one scheduler that wait for the load-store unit; one more stops it
    branch: float = 7.0  # from a taken branch to the instruction after it, [R]
    barrier: float = 12.0  # from the last arrival to the release, [R]
    barrier_warp: float = 1.75  # and for each warp of the block, [R]


PIPES: dict[int, Pipes] = {
    60: Pipes(  # [J]; request [F]; no 32-bit multiplier: an IMAD is several XMAD [G]; two dispatch units a scheduler
        l1=78.0,
        l2=234.0,
        shared=23.0,
        request=4.0,
        integer=1.0,
        multiply_slots=4,
        dependence=1.5,
        dual=True,
        replay=1.75,
        fair=False,
    ),
    70: Pipes(l1=35.0, l2=221.0, shared=18.0, request=2.0, replay=1.75, fair=False),  # [L], [J]; request [F]
    80: Pipes(l1=38.0, l2=210.0, shared=22.0, request=1.25),  # [L]; the rest as Hopper's
    89: Pipes(l1=39.0, l2=296.0, shared=22.0, request=1.25),  # [L]; the rest as Hopper's
    90: Pipes(l1=38.0, l2=287.0, shared=22.0, request=1.25),  # [R]; request: 1.2 alone [R], in a mix [F]
}


def pipes_of(gpu: GpuSpec) -> Pipes:
    """The newest entry that is not newer than ``gpu``."""
    capability = int("".join(filter(str.isdigit, gpu.arch)))
    return PIPES[max(known for known in PIPES if known <= max(capability, min(PIPES)))]
