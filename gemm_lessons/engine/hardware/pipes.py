"""Clocks that a multiprocessor needs for one instruction: latencies and rates of an architecture.

The figures and their sources are in ``hardware/cards``: ``every.toml`` and a file for each architecture.
"""

from __future__ import annotations

from gemm_lessons.engine.records.frozen import dataclass


@dataclass(frozen=True)
class Products:
    """Tensor cores of one scheduler: multiply-adds per clock, by the type of the factors. 0: unsupported or unknown."""

    f16: float  # and bf16, summed in fp32
    half: float  # f16 summed in fp16; 0: the same rate as f16
    tf32: float
    int8: float
    f64: float
    start: float  # clocks that each instruction takes in addition to its multiply-adds
    rows: int  # an fp64 product of fewer rows takes as long as one of this many
    wait: float  # latency of the result / clocks of the instruction
    wait_f64: float  # of an fp64 product: clocks from the end of the instruction to the result

    def clocks(self, opcode: str) -> tuple[float, float] | None:
        """Return the clocks of one warp's instruction, and those until its result can be read; None if unknown."""
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
    """Latencies and rates of one architecture, in clocks unless the comment names another unit.

    "Until" is counted from the issue of the instruction.
    """

    arch: str  # such as sm_90
    l1: float  # until a load that hits L1 returns
    l2: float  # until one that misses L1 and hits L2 returns
    shared: float  # until a shared load returns its first register
    request: float  # time for which the load-store unit is busy, at least, with one warp's global access
    integer: float  # time for which a scheduler's integer unit is busy with one warp's instruction
    special: float  # the same for the unit of special functions and conversions
    fp64: float  # the same for a scheduler's fp64 lanes
    dot: float  # the same for dp4a and dp2a
    multiply_slots: int  # issue slots of an integer multiplication
    dependence: float  # arithmetic latency / that of Volta: scales the waits that ptxas wrote for Volta
    fair: bool  # schedulers let warps take turns
    older: int  # a scheduler with at least so many warps prefers the oldest block's; 0: not known
    apart: float  # at the start of a launch: from one block's start to the next one's on the same multiprocessor
    dual: bool  # a memory instruction can be issued beside an arithmetic one
    special_latency: float  # until the result of a special function can be read
    constant: float  # until a load from constant memory returns
    conflicts: bool  # accesses to shared memory conflict; only an imaginary GPU has none, to see what they cost
    replay: float  # time of the shared-memory path for each pass of 64 or 128 bits that a bank conflict repeats;
    # further conflicts of the same access add only their wavefronts, as conflicts of 32 bits do
    local: float  # of the load-store unit, for each register of a warp stored to or loaded from local memory
    write_port: float  # of the fp32 pipe for each register that a shared load returns
    register: float  # for each register that a multiply-add reads, when one is issued every clock
    read: float  # from an access's start until its source registers may be overwritten
    queue: int  # accesses of one scheduler that can wait for the load-store unit; one more stalls the scheduler
    branch: float  # from a taken branch to the instruction after it
    barrier: float  # from the last arrival to the release
    barrier_warp: float  # until the arrival of a warp is noted; those of a multiprocessor are one after the other
    fp64_latency: float  # of an fp64 instruction whose result a scoreboard guards
    move_up: float  # from the end of a block to the first instruction of the block that replaces it
    past: float  # L2's bandwidth for a sector that cp.async fetches past L1 / for one that a load fetches
    arrival: float  # of the shared-memory path, for each wavefront of a box
    box: float  # from a request to the TMA until the last sector of a box, read from L2, has arrived; 0: no TMA
    far: float  # until a load that misses L1 and L2 returns, when many do
    alone: float  # the same when few do; 0: not known, and as near as L2
    dram: float  # added to `box`, and to `l2` of copies past L1, when the matrices do not fit into L2
    grouped: float  # of the tensor cores, for each column of a warpgroup's product, in all types; 0: no wgmma
    grouped_least: float  # of the tensor cores, at least, for a product of few columns
    grouped_latency: float  # from the end of a group of products until a waiting warp continues
    grouped_ahead: float  # products of a warpgroup that can be queued while another is computed
    box_sector: float  # of the port to L2, for each sector of a box while all multiprocessors copy
    box_ns: float  # of L2, for each sector that all multiprocessors ask for, and none asks for the same
    stored_line_ns: float  # of L2, for each line that is stored while all multiprocessors store,
    stored_sector_ns: float  # for each of its sectors (0: as for one that is read),
    stored_part_ns: float  # and for a line of whose sectors less than all is stored
    port: float  # of the port to L2, for a sector that a load fetches where few multiprocessors ask for any
    sides: bool  # L2 has two, each of which keeps what its own multiprocessors read
    port_dram: float  # the same from DRAM
    port_stored: float  # for a sector that is stored there, and once more for a line of which less is
    stored_ahead: float  # beside warpgroups that multiply, a store waits while the port has more work left on stores
    signal: float  # from an arrival at an mbarrier until it is counted
    look: float  # from the end of a phase until a thread that waits for it continues
    remote_signal: float  # the same as `signal`, at an mbarrier of another block of the cluster
    remote: float  # until a load from shared memory of another block of the cluster returns
    remote_store: float  # from st.async until the mbarrier counts its bytes
    sent: float  # bytes per clock that one multiprocessor sends by st.async
    reduced: float  # bytes per clock that it sends by red.async
    send_least: float  # of one warp's st.async or red.async, at least, for each byte of a thread
    multicast: float  # added to `box` when the box is copied to several blocks of the cluster
    cluster: float  # from the last arrival at the barrier of a cluster to the release
    cluster_warp: float  # added to `cluster` for each warp of a block
    code_bytes: float  # that the instruction cache of a multiprocessor holds; 0: not known, and loops of any length fit
    code_line: float  # from one line of code that it fetches to the next one
    code_latency: float  # until a line is there, besides
    texture: float  # latency of a texture fetch - latency of a load
    products: Products


THREE_OPERANDS = 1.09  # clocks of a DFMA / those of a DADD, by checks/readings/estimate/pipes.py on an H200
