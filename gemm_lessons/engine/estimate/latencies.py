"""How long a multiprocessor takes for one instruction: latencies and rates, by compute capability, in clocks.

Sources, by the letter used below:
[R] read on an H200 with the micro-kernels of ``checks/readings/estimate`` (h200.json there).
[L] Latency table of github.com/markdewing/AI_kernels (latency/README.md): L1 and L2 of V100, A100, RTX 4090, H100.
[J] Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018): P100 and V100.
[G] NVIDIA, "CUDA C++ Programming Guide", arithmetic throughput by compute capability.
[T] read on an H200 by ``checks/readings/estimate/pipes.py`` and ``boxes.py`` (pipes_h200.json, boxes_h200.json there).
[W] NVIDIA's white papers of V100, T4, A100, H100 and the RTX 4090's chip: multiply-adds of tensor cores a clock, dense.
[M] github.com/sjfeng1999/gpu-arch-microbenchmark: L1, L2, shared memory of a TU104, the chip of a T4.
[S] Sun et al., "Dissecting Tensor Cores via Microbenchmarks" (2022): a product's result comes after four times its
    clocks.
[N] counted on an H200 by Nsight Compute, of lessons for tensor cores and variants of them.
[B] loops of multiply-adds on an H200 (``checks/course/registers.cu``, lessons/measured/h200_squares.json), played by
    this model: their registers come out of one file, two a clock.
[O] read on an H200 by ``checks/readings/estimate/turns.py`` (turns_h200.json there).
[P] read on an H200 by ``warpgroups.py`` and ``checks/estimate/ladder.py`` (warpgroups_h200.json, ladder_h200.json).
[C] read on an H200 by ``checks/readings/estimate/clusters.py`` (clusters_h200.json there).
[F] fitted: one number for all kernels and sizes; on what, and how far it carries, is in lessons/common/ESTIMATE.md.
"""

from __future__ import annotations

from gemm_lessons.engine.hardware.sheets import GpuSpec
from gemm_lessons.engine.records.frozen import dataclass


@dataclass(frozen=True)
class Products:
    """Tensor cores of one scheduler: multiply-adds a clock, by the type of the factors; 0 for what they cannot."""

    f16: float  # and bf16, summed in fp32
    half: float = 0.0  # summed in fp16, where that is another rate
    tf32: float = 0.0
    int8: float = 0.0
    f64: float = 0.0
    start: float = 0.0  # clocks that each instruction takes besides
    rows: int = 8  # of a product of fp64, at least: fewer take as long
    wait: float = 4.0  # until the result is there, over the clocks of the instruction, [S], [T]
    wait_f64: float = 18.0  # clocks until it is there, after those of the instruction, [T]

    def clocks(self, opcode: str) -> tuple[float, float] | None:
        """(clocks of one warp's instruction, clocks until the result is there); None where they are not known."""
        name, _, rest = opcode.partition(".")
        shape, *words = rest.split(".")
        size = SIZES.get(shape)
        if size is None:
            return None
        m, n, k = size
        if name == "DMMA":
            rate, m = self.f64, max(m, self.rows)
        elif name == "IMMA":
            rate = self.int8
        elif "TF32" in words:
            rate = self.tf32
        else:
            rate = self.half or self.f16 if words[:1] == ["F16"] else self.f16
        if not rate:
            return None
        took = m * n * k / rate
        if name == "DMMA":
            return took, took + self.wait_f64
        return took + self.start, (took + self.start) * self.wait


# Rows, columns and depth of a product, as machine code writes them.
SIZES = {
    "16816": (16, 8, 16), "1688": (16, 8, 8), "1684": (16, 8, 4), "16832": (16, 8, 32), "8816": (8, 8, 16),
    "8x8x4": (8, 8, 4), "884": (8, 8, 4), "16x8x4": (16, 8, 4), "16x8x8": (16, 8, 8), "16x8x16": (16, 8, 16),
}  # fmt: skip
NO_PRODUCTS = Products(0.0)


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
    older: int = 0  # warps of a scheduler: of so many, those of the block that began first go first, [O]; 0: not known
    apart: float = 0.0  # from a block's beginning to the next one's on its multiprocessor, as a launch starts, [O]
    dual: bool = False  # a memory instruction can be issued beside an arithmetic one
    special: float = 8.0  # special functions, conversions: 4 lanes a scheduler, [G]
    special_latency: float = 20.0  # [J]: 14 to 26
    constant: float = 30.0  # until a load from constant memory returns, [J]: 27
    replay: float = 0.5  # of the shared-memory path for each pass of 64 or 128 bits that a bank conflict repeats, [F];
    # more conflicts of one access add their wavefronts alone, as those of 32 bits do
    local: float = 2.0  # of the load-store unit for each register of a warp that local memory takes or returns, [F]
    write_port: float = 1.0  # of the fp32 pipe for each register that a shared load returns, [F]; from Ada on [B]
    register: float = 0.0  # for each that a multiply-add reads, where there is one every clock, [B]
    read: float = 4.0  # from an access's start until its source registers may be overwritten, about a pipeline's depth
    queue: int = 8  # accesses of one scheduler that wait for the load-store unit; one more stops it
    branch: float = 7.0  # from a taken branch to the instruction after it, [R]
    barrier: float = 12.0  # from the last arrival to the release, [R]
    barrier_warp: float = 1.75  # and for each warp of the block, [R]
    fp64: float = 64.0  # of a scheduler's fp64 lanes for one warp instruction, [G]; with three operands 9% more, [T]
    fp64_latency: float = 10.0  # where it waits for a scoreboard
    move_up: float = 350.0  # [R]: from the end of a block until the next one's first instruction
    store: float = 1.0  # of L2's bandwidth, a sector that is written over one that is read
    past: float = 0.5  # of L2's bandwidth, a sector that cp.async fetches past L1, which others fetch, too, [T]; more,
    # where banks conflict: L2 is asked for each wavefront that is written, [N]
    held: float = 250.0  # of L2's work on copies past L1 may be left when their registers are free again, [F]; where
    # they are needed at once, as in lesson async_copy, a warp alone waits there for a sixth of the time, [N]
    arrival: float = 0.5  # of the shared-memory path, for each wavefront of what comes past L1, [F]
    box: float = 0.0  # from a request to the TMA until a box's last sector that L2 hands out is there; 0: no TMA
    dram: float = 500.0  # longer, where the matrices do not fit into L2, beside warpgroups that multiply, [F]
    grouped: float = 0.0  # of the tensor cores for each column of a warpgroup's product, in all types; 0: has none, [P]
    grouped_least: float = 12.5  # and for one of few columns, [P]
    grouped_latency: float = 45.0  # from a group's last clock until a warp knows, [P]
    grouped_ahead: float = 6.0  # products of a warpgroup that wait while another is at work, [P]
    box_sector: float = 0.0  # of the port to L2, for each sector of a box while all multiprocessors copy, [P]
    stored_ahead: float = 1000.0  # beside warpgroups that multiply, what may be left of the port's work on stores, [F]
    signal: float = 20.0  # from an arrival at an mbarrier until it counts, [T]
    look: float = 25.0  # until a thread knows that a phase is over, [T]
    remote_signal: float = 160.0  # from an arrival at an mbarrier of another block of the cluster until it counts, [C]
    remote: float = 190.0  # until a load from shared memory of another block of the cluster returns, [C]
    multicast: float = 60.0  # longer than a box for the own block, one for several blocks of the cluster, [C]
    cluster: float = 315.0  # from the last arrival at the barrier of a cluster to the release, [C]
    cluster_warp: float = 10.0  # and for each warp of a block, [C]
    texture: float = 40.0  # what a fetch through the texture unit takes longer than a load: 50 from L1, 39 from L2, [R]
    dot: float = 2.0  # dp4a and dp2a: 16 lanes, [G], [T]
    products: Products = NO_PRODUCTS


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
        replay=0.75,
        fair=False,
        fp64=2.0,
    ),
    70: Pipes(  # [L], [J]; request [F]
        l1=35.0,
        l2=221.0,
        shared=18.0,
        request=2.0,
        replay=0.75,
        fair=False,
        fp64=4.0,
        products=Products(f16=128.0),  # 125 TFLOP/s, [W]
    ),
    75: Pipes(  # [M]; the rest as Volta's; tensor cores: 65 and 130 of a T4, [W]
        l1=32.0,
        l2=236.0,
        shared=23.0,
        request=2.0,
        replay=0.75,
        fair=False,
        products=Products(f16=128.0, int8=256.0),
    ),
    80: Pipes(  # [L]; the rest as Hopper's; tensor cores: 312, 156, 624, 19.5 of an A100, [W]
        l1=38.0,
        l2=210.0,
        shared=22.0,
        request=1.25,
        fp64=4.0,
        products=Products(f16=256.0, tf32=128.0, int8=512.0, f64=16.0),
    ),
    89: Pipes(  # [L]; the rest as Hopper's; tensor cores: 165, 330, 83, 661 of an RTX 4090, [W]
        l1=39.0,
        l2=296.0,
        shared=22.0,
        request=1.25,
        write_port=0.5,
        register=0.5,
        products=Products(f16=64.0, half=128.0, tf32=32.0, int8=256.0),
    ),
    90: Pipes(  # [R]; request: 1.2 alone [R], in a mix [F]; tensor cores [T]: two thirds of what wgmma reaches
        l1=38.0,
        l2=287.0,
        shared=22.0,
        request=1.25,
        write_port=0.5,
        register=0.5,
        fp64=2.0,
        fp64_latency=8.0,
        store=2.0,  # [T]
        older=8,  # [O]; of four, none
        apart=69.0,  # [O]: blocks of 8 warps, the median of five kinds
        box=270.0,  # [T]
        box_sector=0.6,
        grouped=0.5,
        products=Products(f16=512.0, tf32=256.0, int8=1024.0, f64=32.0, start=2.05, rows=16),
    ),
}
THREE_OPERANDS = 1.09  # of a DFMA beside a DADD, [T]


def pipes_of(gpu: GpuSpec) -> Pipes:
    """The newest entry that is not newer than ``gpu``."""
    capability = int("".join(filter(str.isdigit, gpu.arch)))
    return PIPES[max(known for known in PIPES if known <= max(capability, min(PIPES)))]
