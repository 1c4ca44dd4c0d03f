"""How long a multiprocessor takes for one instruction: latencies and rates of an architecture, in clocks.

The figures and their sources are in ``hardware/cards``: ``every.toml`` and a file for each architecture.
"""

from __future__ import annotations

from gemm_lessons.engine.records.frozen import dataclass


@dataclass(frozen=True)
class Products:
    """Tensor cores of one scheduler: multiply-adds a clock, by the type of the factors; 0 for what they cannot, or at a
    rate that is not known."""

    f16: float  # and bf16, summed in fp32
    half: float  # summed in fp16, where that is another rate
    tf32: float
    int8: float
    f64: float
    start: float  # clocks that each instruction takes besides
    rows: int  # of a product of fp64, at least: fewer take as long
    wait: float  # until the result is there, over the clocks of the instruction
    wait_f64: float  # clocks until it is there, after those of the instruction

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


@dataclass(frozen=True)
class Pipes:
    """Clocks, where the comment names no other unit."""

    arch: str  # the architecture that they are of
    l1: float  # until a load that hits L1 returns
    l2: float  # until one that misses L1 and hits L2 returns
    shared: float  # until a shared load returns its first register
    request: float  # of the load-store unit, at least, for one warp's global access
    integer: float  # a scheduler's integer unit for one warp instruction
    special: float  # special functions, conversions
    fp64: float  # of a scheduler's fp64 lanes for one warp instruction
    dot: float  # dp4a and dp2a
    multiply_slots: int  # issue slots of an integer multiplication
    dependence: float  # arithmetic latency, over Volta's: scales the waits that ptxas wrote for Volta
    fair: bool  # schedulers let warps take turns
    older: int  # warps of a scheduler: of so many, those of the block that began first go first; 0: not known
    apart: float  # from a block's beginning to the next one's on its multiprocessor, as a launch starts
    dual: bool  # a memory instruction can be issued beside an arithmetic one
    special_latency: float  # until the result of a special function is there
    constant: float  # until a load from constant memory returns
    conflicts: bool  # accesses to shared memory conflict; only an imaginary GPU has none, to see what they cost
    replay: float  # of the shared-memory path for each pass of 64 or 128 bits that a bank conflict repeats;
    # more conflicts of one access add their wavefronts alone, as those of 32 bits do
    local: float  # of the load-store unit for each register of a warp that local memory takes or returns
    write_port: float  # of the fp32 pipe for each register that a shared load returns
    register: float  # for each that a multiply-add reads, where there is one every clock
    read: float  # from an access's start until its source registers may be overwritten
    queue: int  # accesses of one scheduler that wait for the load-store unit; one more stops it
    branch: float  # from a taken branch to the instruction after it
    barrier: float  # from the last arrival to the release
    barrier_warp: float  # and for each warp of the block
    fp64_latency: float  # where it waits for a scoreboard
    move_up: float  # from the end of a block until the next one's first instruction
    store: float  # of L2's bandwidth, a sector that is written over one that is read
    past: float  # of L2's bandwidth, a sector that cp.async fetches past L1, which others fetch, too; more, where
    # banks conflict: L2 is asked for each wavefront that is written
    held: float  # of L2's work on copies past L1 may be left when their registers are free again
    arrival: float  # of the shared-memory path, for each wavefront of what comes past L1
    box: float  # from a request to the TMA until a box's last sector that L2 hands out is there; 0: no TMA
    far: float  # until a load that misses L1 and L2 returns, where many do
    dram: float  # longer, where the matrices do not fit into L2, beside warpgroups that multiply
    grouped: float  # of the tensor cores for each column of a warpgroup's product, in all types; 0: has none
    grouped_least: float  # and for one of few columns
    grouped_latency: float  # from a group's last clock until a warp knows
    grouped_ahead: float  # products of a warpgroup that wait while another is at work
    box_sector: float  # of the port to L2, for each sector of a box while all multiprocessors copy
    stored_ahead: float  # beside warpgroups that multiply, what may be left of the port's work on stores
    signal: float  # from an arrival at an mbarrier until it counts
    look: float  # until a thread knows that a phase is over
    remote_signal: float  # from an arrival at an mbarrier of another block of the cluster until it counts
    remote: float  # until a load from shared memory of another block of the cluster returns
    remote_store: float  # from st.async until its bytes count at the mbarrier
    sent: float  # bytes a clock of st.async from one multiprocessor
    reduced: float  # and of red.async
    send_least: float  # clocks of one warp's, at least, for each byte of a thread
    multicast: float  # longer than a box for the own block, one for several blocks of the cluster
    cluster: float  # from the last arrival at the barrier of a cluster to the release
    cluster_warp: float  # and for each warp of a block
    texture: float  # what a fetch through the texture unit takes longer than a load
    products: Products


THREE_OPERANDS = 1.09  # of a DFMA beside a DADD: read on an H200 by checks/readings/estimate/pipes.py
