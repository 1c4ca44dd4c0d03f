"""Data sheets of the GPUs that the kit knows: what one multiprocessor holds and what the whole chip moves.

Sources, by the letter used below:
[G] NVIDIA, "CUDA C++ Programming Guide", table "Technical Specifications per Compute Capability".
[O] NVIDIA, ``cuda_occupancy.h`` of CUDA 13.5: allocation granularities and scheduler partitions.
[W] NVIDIA's white paper or data sheet of the product: P100 (WP-08019), V100 (WP-08608), A100 40 GB SXM4, H100 SXM5,
    H200 SXM, Ada GPU architecture (RTX 4090), T4 and Turing (WP-09183). Clocks are the highest boost clock. Of
    Turing's shared memory: GA102's, which compares them ("128 bytes/clock per SM versus 64 bytes/clock in Turing").
    A T4's L1 was measured at 4,052 GB/s (github.com/cissieAB/ifarm-gpus, docs/roofline.md), 64 bytes a clock.
[M] measured, because NVIDIA publishes no L2 bandwidth in bytes per second: P100 and V100 by Jia et al.,
    "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018; T4 by the same, "Dissecting the NVidia
    Turing T4 GPU via Microbenchmarking", 2019, from memory, not yet compared with the paper; A100 and L40 (the
    RTX 4090's chip) by the ``gpu-l2-cache`` benchmark of github.com/te42kyfo/gpu-benches. H200: our own reading, by
    ``checks/readings/estimate/constants.py``; the H100 has the same chip and L2. Its clock while tensor cores work:
    1.70 to 1.78 GHz in nine kernels, counted by Nsight Compute.
[P] fitted to what one H200 drew and how fast it was with the kernels of ``checks/estimate/ladder.py``, their copies
    alone and cuBLAS, each on end for half a second, within 25 of 700 W (``checks/readings/estimate/ladder_h200.json``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from gemm_lessons.engine.records.frozen import dataclass

KIB = 1024
MIB = 1024 * KIB
GHZ = 1e9
GB_PER_S = 1e9


@dataclass(frozen=True)
class Power:
    """What lowers the clock of a GPU that draws as much as it may while warpgroups multiply, [P].

    Energies are those at ``clock_hz``; at a lower clock, those of multiprocessors and L2 fall with it, as the voltage
    does.
    """

    most_watts: float  # launched on end, [W]
    burst_watts: float  # launched once, after a pause: the driver needs some milliseconds to see more than the above
    idle_watts: float  # at ``clock_hz``, with nothing to multiply or to move
    clock_hz: float  # the highest while they multiply, as clocks over time
    product_joules: float  # of one multiprocessor's tensor cores, for each clock that they work; random factors
    l2_joules: float  # for each byte that a multiprocessor gets from L2
    dram_joules: float  # for each byte between L2 and DRAM


@dataclass(frozen=True)
class GpuSpec:
    """One GPU's data sheet.

    Rates are peaks per second; what has ``bytes`` in its name is in bytes, registers are of 32 bits, and
    ``shared_unit`` and ``register_unit`` are the multiples in which bytes and registers are handed out. ``_per_sm`` is
    of one multiprocessor. The source of each number is written beside it in ``hardware/sheets.py``.
    """

    name: str
    arch: str  # compute capability as the compiler writes it, [G]
    sms: int  # multiprocessors of the product as sold, [W]
    lanes_per_sm: int  # fp32 lanes, [G]
    clock_hz: float  # [W]
    dram_bytes_per_s: float  # [W]
    l2_bytes_per_s: float  # [M]
    l2_bytes: int  # [W]
    shared_bytes_per_sm: int  # [G]
    shared_bytes_per_block: int  # the most that a block may opt in to, [G]
    max_warps_per_sm: int  # [G]
    max_blocks_per_sm: int  # [G]
    schedulers: int  # warp schedulers of one multiprocessor, each with its own part of the register file, [G] [O]
    shared_unit: int  # shared memory is handed out in multiples of this, [O]
    shared_reserved_per_block: int  # taken by the system from every block's share since Ampere, [G]
    tensor_clock_hz: float | None = None  # while tensor cores multiply on all multiprocessors; None: no lower, [W] [M]
    power: Power | None = None  # None: not known
    # (blocks of a cluster, multiprocessors that hold such clusters of one block each), by size; none: a GPU without
    in_clusters: tuple[tuple[int, int], ...] = ()
    bytes_per_clock: int = 128  # of a multiprocessor's L1 and shared memory, [G]; Turing's half of that, [W]
    # The same on every GPU of this table:
    registers_per_sm: int = 64 * KIB  # 32-bit registers, [G]
    registers_per_block: int = 64 * KIB  # [G]
    registers_per_thread: int = 255  # [G]
    register_unit: int = 256  # registers are handed out to a warp in multiples of this, [O]
    max_threads_per_block: int = 1024  # [G]

    @property
    def hot(self) -> GpuSpec:
        """Return the sheet with the clock of a chip whose tensor cores are all busy."""
        return self if self.tensor_clock_hz is None else replace(self, clock_hz=self.tensor_clock_hz)

    def sms_for(self, cluster: int) -> int:
        """Return how many multiprocessors hold clusters of so many blocks; 0 without any."""
        if cluster == 1:
            return self.sms
        held = next((sms for size, sms in self.in_clusters if size >= cluster), 0)
        return held // cluster * cluster

    @property
    def fp32_flops_per_s(self) -> float:
        """Peak of fused multiply-adds, each counted as two operations."""
        return 2 * self.sms * self.lanes_per_sm * self.clock_hz


HOPPER_SXM = Power(
    most_watts=700,
    burst_watts=800,
    idle_watts=260,
    clock_hz=1.85 * GHZ,
    product_joules=2.17e-9,
    l2_joules=22e-12,
    dram_joules=48e-12,
)
# Read on an H200 (clusters_h200.json); chips differ in how many multiprocessors each of their parts has.
IN_CLUSTERS = (2, 132), (4, 120), (8, 120)
GPUS: Mapping[str, GpuSpec] = {
    spec.name.lower().replace(" ", ""): spec
    for spec in (
        GpuSpec(
            name="P100",
            arch="sm_60",
            sms=56,
            lanes_per_sm=64,
            clock_hz=1.48 * GHZ,
            dram_bytes_per_s=732 * GB_PER_S,
            l2_bytes_per_s=1_624 * GB_PER_S,
            l2_bytes=4 * MIB,
            shared_bytes_per_sm=64 * KIB,
            shared_bytes_per_block=48 * KIB,
            max_warps_per_sm=64,
            max_blocks_per_sm=32,
            schedulers=2,
            shared_unit=256,
            shared_reserved_per_block=0,
        ),
        GpuSpec(
            name="V100",
            arch="sm_70",
            sms=80,
            lanes_per_sm=64,
            clock_hz=1.53 * GHZ,
            dram_bytes_per_s=900 * GB_PER_S,
            l2_bytes_per_s=2_155 * GB_PER_S,
            l2_bytes=6 * MIB,
            shared_bytes_per_sm=96 * KIB,
            shared_bytes_per_block=96 * KIB,
            max_warps_per_sm=64,
            max_blocks_per_sm=32,
            schedulers=4,
            shared_unit=256,
            shared_reserved_per_block=0,
        ),
        GpuSpec(
            name="T4",
            arch="sm_75",
            sms=40,
            lanes_per_sm=64,
            clock_hz=1.59 * GHZ,
            dram_bytes_per_s=320 * GB_PER_S,
            l2_bytes_per_s=1_270 * GB_PER_S,
            l2_bytes=4 * MIB,
            shared_bytes_per_sm=64 * KIB,
            shared_bytes_per_block=64 * KIB,
            max_warps_per_sm=32,
            max_blocks_per_sm=16,
            schedulers=4,
            shared_unit=256,
            shared_reserved_per_block=0,
            bytes_per_clock=64,
        ),
        GpuSpec(
            name="A100",
            arch="sm_80",
            sms=108,
            lanes_per_sm=64,
            clock_hz=1.41 * GHZ,
            dram_bytes_per_s=1_555 * GB_PER_S,
            l2_bytes_per_s=5_400 * GB_PER_S,
            l2_bytes=40 * MIB,
            shared_bytes_per_sm=164 * KIB,
            shared_bytes_per_block=163 * KIB,
            max_warps_per_sm=64,
            max_blocks_per_sm=32,
            schedulers=4,
            shared_unit=128,
            shared_reserved_per_block=KIB,
        ),
        GpuSpec(
            name="H100",
            arch="sm_90",
            sms=132,
            lanes_per_sm=128,
            clock_hz=1.98 * GHZ,
            dram_bytes_per_s=3_350 * GB_PER_S,
            l2_bytes_per_s=8_380 * GB_PER_S,
            l2_bytes=50 * MIB,
            shared_bytes_per_sm=228 * KIB,
            shared_bytes_per_block=227 * KIB,
            max_warps_per_sm=64,
            max_blocks_per_sm=32,
            schedulers=4,
            shared_unit=128,
            shared_reserved_per_block=KIB,
            tensor_clock_hz=1.83 * GHZ,  # that of its 989 TFLOP/s in fp16
            power=HOPPER_SXM,
            in_clusters=IN_CLUSTERS,  # taken to be the H200's: the same chip and limit
        ),
        GpuSpec(
            name="H200",
            arch="sm_90",
            sms=132,
            lanes_per_sm=128,
            clock_hz=1.98 * GHZ,
            dram_bytes_per_s=4_800 * GB_PER_S,
            l2_bytes_per_s=8_380 * GB_PER_S,
            l2_bytes=50 * MIB,
            shared_bytes_per_sm=228 * KIB,
            shared_bytes_per_block=227 * KIB,
            max_warps_per_sm=64,
            max_blocks_per_sm=32,
            schedulers=4,
            shared_unit=128,
            shared_reserved_per_block=KIB,
            tensor_clock_hz=1.755 * GHZ,  # the data sheet's 989 TFLOP/s in fp16 are those of 1.83 GHz
            power=HOPPER_SXM,
            in_clusters=IN_CLUSTERS,
        ),
        GpuSpec(
            name="RTX 4090",
            arch="sm_89",
            sms=128,
            lanes_per_sm=128,
            clock_hz=2.52 * GHZ,
            dram_bytes_per_s=1_008 * GB_PER_S,
            l2_bytes_per_s=5_200 * GB_PER_S,
            l2_bytes=72 * MIB,
            shared_bytes_per_sm=100 * KIB,
            shared_bytes_per_block=99 * KIB,
            max_warps_per_sm=48,
            max_blocks_per_sm=24,
            schedulers=4,
            shared_unit=128,
            shared_reserved_per_block=KIB,
        ),
    )
}


def find_gpu(name: str) -> GpuSpec:
    """Return the data sheet of ``name`` (``h200``, ``RTX 4090``, ``4090``). Raise ``KeyError`` that lists the names."""
    key = "".join(c for c in name.lower() if c.isalnum())
    for known, spec in GPUS.items():
        if key and key in (known, known.removeprefix("rtx")):
            return spec
    raise KeyError(f"no data sheet for GPU {name!r}; known: {', '.join(GPUS)}")


def sheet_of(arch: str) -> GpuSpec | None:
    """Return the data sheet of a GPU of this architecture (``sm_90``, also ``sm_90a``); None if the kit has none."""
    return next((spec for spec in GPUS.values() if spec.arch == arch.rstrip("af")), None)


# Driver names of exactly those products whose data sheets ``GPUS`` holds. Others of the same name ("H100 PCIe",
# "RTX 4090 Laptop GPU", "A100-SXM4-80GB") have other clocks, multiprocessors or memory.
PRODUCTS = {
    r"Tesla P100-SXM2-16GB": "p100",
    r"Tesla V100-SXM2-(16|32)GB": "v100",
    r"Tesla T4": "t4",
    r"(NVIDIA )?A100-SXM4-40GB": "a100",
    r"NVIDIA H100 80GB HBM3": "h100",
    r"NVIDIA H200": "h200",
    r"(NVIDIA )?GeForce RTX 4090": "rtx4090",
}


def data_sheet(product: str) -> GpuSpec | None:
    """Return the data sheet of a GPU by the name that its driver gives; None if the kit has none."""
    return next((GPUS[key] for pattern, key in PRODUCTS.items() if re.fullmatch(pattern, product)), None)


OLDEST_ARCH = 75  # the oldest that the current compiler knows
STAND_IN = "sm_80"  # older GPUs are estimated from this code: its schedulers also have 16 fp32 lanes


def buildable(arch: str) -> str:
    """Return the compilation target if ``arch`` may be too old for the compiler."""
    return arch if int("".join(filter(str.isdigit, arch))) >= OLDEST_ARCH else STAND_IN
