"""A report for Nsight Compute of a simulated run: each value was counted, and what was not counted is absent.

    RunOutcome --> kernels, grids --Simulator--> Counters, Sums by instruction --> ncu_file.NcuReport --> FILE.ncu-rep

Instructions have the addresses of the machine code that was followed, so that the source page shows them beside the
lines. Times, stalls, cache hits and all else that only hardware has are absent. The title, the device and a comment say
that there was no GPU.
"""

from __future__ import annotations

import platform
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from gemm_lessons import __version__
from gemm_lessons.commands.ncu_file import (
    SASS_LEVELS,
    NcuMetric,
    NcuReport,
    NcuResult,
    NcuSection,
    NcuSource,
    Value,
    written,
)
from gemm_lessons.engine import Counters, GpuSpec, KitError, Simulator
from gemm_lessons.engine.compiler import Compiled, elf
from gemm_lessons.engine.costs import Sums
from gemm_lessons.engine.hardware import WARP, block_limits, occupancy_of
from gemm_lessons.engine.records import Grid
from gemm_lessons.engine.sass import Uncountable
from gemm_lessons.gemm import Problem
from gemm_lessons.running import RunOutcome, variant_of

CAPABILITIES = {"sm_90": (9, 0), "sm_90a": (9, 0)}
FIRST, APART = 0x7F00_0000_0000, 0x100_0000  # address of the first function, and of one more: bytes
SYMBOL = struct.Struct("<IBBHQQ")  # of an ELF file: name, info, other, section, value, size
SPACES = {"global": 4, "shared": 16}  # values of memory_type, as in a report of an H200
EFFECTS = {"load": 2, "store": 4}  # values of memory_access_type
WAVEFRONTS, SECTORS = "memory_l1_wavefronts_shared", "memory_l2_theoretical_sectors_global"
LIMITS = {"warps": "warps", "blocks": "blocks", "shared memory": "shared_mem", "registers": "registers"}

SECTIONS = (
    NcuSection("GemmLessonsLaunch", "Launch Statistics (simulated)", {
        "launch__grid_size": "Grid Size",
        "launch__block_size": "Block Size",
        "launch__thread_count": "Threads",
        "launch__registers_per_thread": "Registers Per Thread",
        "launch__shared_mem_per_block_static": "Static Shared Memory Per Block",
        "launch__shared_mem_per_block_dynamic": "Dynamic Shared Memory Per Block",
        "launch__shared_mem_per_block_driver": "Driver Shared Memory Per Block",
        "launch__waves_per_multiprocessor": "Waves Per SM",
        "launch__sm_count": "# SMs",
    }),
    NcuSection("GemmLessonsOccupancy", "Occupancy (simulated)", {
        "sm__maximum_warps_per_active_cycle_pct": "Theoretical Occupancy",
        "sm__maximum_warps_avg_per_active_cycle": "Theoretical Active Warps per SM",
        "launch__occupancy_limit_registers": "Block Limit Registers",
        "launch__occupancy_limit_shared_mem": "Block Limit Shared Mem",
        "launch__occupancy_limit_warps": "Block Limit Warps",
        "launch__occupancy_limit_blocks": "Block Limit SM",
    }),
    NcuSection("GemmLessonsMemory", "Memory (simulated)", {
        "smsp__inst_executed_op_global_ld.sum": "Global Load Instructions",
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "Global Load Requests",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "Global Load Sectors",
        "smsp__inst_executed_op_global_st.sum": "Global Store Instructions",
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": "Global Store Requests",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "Global Store Sectors",
        SECTORS: "L2 Theoretical Sectors Global",
        "smsp__inst_executed_op_shared_ld.sum": "Shared Load Instructions",
        "smsp__inst_executed_op_shared_st.sum": "Shared Store Instructions",
        WAVEFRONTS: "L1 Wavefronts Shared",
        f"{WAVEFRONTS}_ideal": "L1 Wavefronts Shared Ideal",
    }),
    NcuSection("GemmLessonsInstructions", "Instructions (simulated)", {
        "smsp__inst_executed.sum": "Executed Instructions",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": "FFMA Thread Instructions",
        "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum": "DFMA Thread Instructions",
        "smsp__inst_executed_pipe_tensor_op_hmma.sum": "HMMA Instructions",
    }, {
        "inst_executed": "Instructions Executed",
        "thread_inst_executed": "Thread Instructions Executed",
        "derived__avg_thread_executed": "Avg. Threads Executed",
        "memory_type": "Address Space",
        "memory_access_type": "Access Operation",
        "memory_access_size_type": "Access Size",
        WAVEFRONTS: "L1 Wavefronts Shared",
        f"{WAVEFRONTS}_ideal": "L1 Wavefronts Shared Ideal",
        f"derived__{WAVEFRONTS}_excessive": "L1 Wavefronts Shared Excessive",
        SECTORS: "L2 Theoretical Sectors Global",
    }),
)  # fmt: skip


def report_of(outcome: RunOutcome, gpu: GpuSpec) -> bytes:
    """Return the report of the launches that the run counted.

    Raise ``KitError`` for a kernel without counters, for another architecture than Hopper, and for machine code that
    cannot be followed.
    """
    built, shape = outcome.kernel.built, outcome.count_shape
    if built is None or outcome.kernel.checked.counters is None:
        raise KitError(f"nothing was counted: {outcome.verdict.kind.replace('_', ' ')}; see gemm-lessons run")
    lesson = built.lesson.at(shape)
    kernels = variant_of(built, lesson).code.counted
    if built.arch not in CAPABILITIES:
        raise KitError(f"a report can be written of code for {', '.join(CAPABILITIES)}, not for {built.arch}")
    binaries = list(dict.fromkeys(kernel.cubin for kernel in kernels))
    places = {kernel.entry: FIRST + APART * i for i, kernel in enumerate(kernels)}
    trial = Problem(lesson.data, shape, outcome.seed).trial()
    results = []
    for kernel, grid, launch in zip(kernels, lesson.grids(shape), lesson.launches, strict=True):
        arguments = trial.arguments(launch.parameters)
        try:
            sums = Simulator().by_instruction(kernel, grid, arguments)
        except Uncountable as obstacle:
            raise KitError(f"the machine code of {kernel.entry} cannot be followed: {obstacle}") from None
        counters = Simulator().launch(kernel, grid, arguments).counters
        metrics = [*_of_launch(kernel, grid, gpu), *_counted(counters), *_of_instructions(kernel, sums, places)]
        source = binaries.index(kernel.cubin)
        last = {metric.name: metric for metric in metrics}  # of several with one name, the one that has instances
        results.append(NcuResult(kernel.entry, grid.grid, grid.block, source, tuple(last.values())))
    comment = (
        f"Simulated by gemm-lessons {__version__} without a GPU: lesson {lesson.name}, {outcome.kernel.label}, "
        f"at {shape}. Values that were not counted are absent. Occupancy is by the data sheet of an {gpu.name}."
    )
    return written(
        NcuReport(
            process=f"gemm-lessons {lesson.name} (simulated)",
            machine=platform.node(),
            comment=comment,
            device=f"{gpu.name} (simulated)",
            attributes=_attributes(gpu, built.arch),
            sections=SECTIONS,
            sources=[_source(cubin, kernels, places) for cubin in binaries],
            results=results,
            time=int(time.time()),
        )
    )


def _attributes(gpu: GpuSpec, arch: str) -> Mapping[str, Value]:
    major, minor = CAPABILITIES[arch]
    given: dict[str, Value] = {
        "display_name": f"{gpu.name} (simulated)",
        "device_index": 0,
        "compute_capability_major": major,
        "compute_capability_minor": minor,
        "sass_level": SASS_LEVELS[f"{major}.{minor}"],
        "multiprocessor_count": gpu.sms,
        "warp_size": WARP,
        "max_warps_per_multiprocessor": gpu.max_warps_per_sm,
        "max_registers_per_multiprocessor": gpu.registers_per_sm,
        "max_shared_memory_per_multiprocessor": gpu.shared_bytes_per_sm,
        "num_schedulers_per_multiprocessor": gpu.schedulers,
    }
    return {f"device__attribute_{name}": value for name, value in given.items()}


def _of_launch(kernel: Compiled, grid: Grid, gpu: GpuSpec) -> Iterator[NcuMetric]:
    """Yield the metrics that are known before a launch: sizes, resources, occupancy."""
    for what, three in (("grid", grid.grid), ("block", grid.block)):
        for axis, size in zip("xyz", three, strict=True):
            yield NcuMetric(f"launch__{what}_dim_{axis}", size)
    needs, dynamic = kernel.resources, grid.dynamic_shared
    yield NcuMetric("launch__grid_size", grid.blocks)
    yield NcuMetric("launch__block_size", grid.threads)
    yield NcuMetric("launch__thread_count", grid.blocks * grid.threads)
    yield NcuMetric("launch__registers_per_thread", needs.registers)
    yield NcuMetric("launch__shared_mem_per_block_static", needs.shared_bytes)
    yield NcuMetric("launch__shared_mem_per_block_dynamic", dynamic)
    yield NcuMetric("launch__shared_mem_per_block_driver", gpu.shared_reserved_per_block)
    yield NcuMetric("launch__shared_mem_per_block", needs.shared_bytes + dynamic + gpu.shared_reserved_per_block)
    yield NcuMetric("launch__sm_count", gpu.sms)
    yield NcuMetric("launch__device_id", 0)
    for name, value in _attributes(gpu, kernel.arch).items():
        yield NcuMetric(name, value)
    fits = occupancy_of(needs, grid.threads, dynamic, gpu)
    yield NcuMetric("sm__maximum_warps_per_active_cycle_pct", 100.0 * fits.fraction)
    yield NcuMetric("sm__maximum_warps_avg_per_active_cycle", float(fits.warps))
    for name, blocks in block_limits(needs, grid.threads, dynamic, gpu).items():
        # The driver gives a kernel as much of L1 as shared memory as it needs, and this limit depends on how much.
        if name != "shared memory" or blocks == fits.blocks_per_sm:
            yield NcuMetric(f"launch__occupancy_limit_{LIMITS[name]}", float(blocks))
    if fits.blocks_per_sm:
        yield NcuMetric("launch__waves_per_multiprocessor", grid.blocks / (gpu.sms * fits.blocks_per_sm))


def _counted(counters: Counters) -> Iterator[NcuMetric]:
    """Yield the totals of counters that Nsight Compute counts in the same way."""
    for name, value in counters.totals.items():
        if not name.startswith("simulator__") and name not in counters.inexact:
            yield NcuMetric(name, value if name.startswith("memory_") else float(value))


def _of_instructions(kernel: Compiled, sums: Sums, places: Mapping[str, int]) -> Iterator[NcuMetric]:
    """Yield the metrics of the source page, and the executed opcodes."""
    where = {i: places[kernel.entry] + it.address for i, it in enumerate(kernel.sass)}

    def metric(name: str, values: Mapping[int, int], total: int | None = None) -> NcuMetric:
        at: dict[int, Value] = {where[index]: value for index, value in sorted(values.items())}
        return NcuMetric(name, sum(values.values()) if total is None else total, at)

    yield metric("inst_executed", +sums.warps)
    yield metric("thread_inst_executed", +sums.lanes)
    yield metric("derived__avg_thread_executed", {i: sums.lanes[i] // warps for i, warps in (+sums.warps).items()})
    opcodes: Counter[str] = Counter()
    for name, warps in sums.issued.items():
        opcodes[name.partition(".")[0]] += warps
    yield NcuMetric(
        "sass__inst_executed_per_opcode",
        float(opcodes.total()),
        {name: float(it) for name, it in opcodes.most_common() if it},
    )
    plain = {
        i: it
        for (i, space), it in sums.tallies.items()
        if it.executed and space in SPACES and it.access.effect in EFFECTS
    }
    yield metric("memory_type", {i: SPACES[it.access.space] for i, it in plain.items()}, 0)
    yield metric("memory_access_type", {i: EFFECTS[it.access.effect] for i, it in plain.items()}, 0)
    yield metric("memory_access_size_type", {i: 8 * it.access.width for i, it in plain.items()}, 0)
    # Nsight Compute's ideal for global memory differs from ours where lanes share addresses, so it is absent.
    yield metric(SECTORS, {i: it.cost for (i, space), it in sums.tallies.items() if space == "global"})
    shared = {i: it for (i, space), it in sums.tallies.items() if space == "shared"}
    if all(it.certain and not it.zeros for it in shared.values()) and not sums.tile_wavefronts:
        yield metric(WAVEFRONTS, {i: it.cost for i, it in shared.items()})
        yield metric(f"{WAVEFRONTS}_ideal", {i: it.ideal for i, it in shared.items()})
        yield metric(f"derived__{WAVEFRONTS}_excessive", {i: it.cost - it.ideal for i, it in shared.items()})


def _source(cubin: bytes, kernels: tuple[Compiled, ...], places: Mapping[str, int]) -> NcuSource:
    _, names = elf.without_file_names(cubin)
    files = {}
    for name in names:
        path = Path(elf.plain_file_name(name))
        if path.is_file():
            files[name] = path.read_text(encoding="utf-8", errors="replace")
    symbols = _symbols(cubin)
    inside = [kernel for kernel in kernels if kernel.cubin == cubin]
    functions = [(kernel.entry, symbols[kernel.entry], places[kernel.entry]) for kernel in inside]
    return NcuSource(cubin, CAPABILITIES[inside[0].arch], files, functions)


def _symbols(cubin: bytes) -> dict[str, int]:
    """Return the numbers of an ELF file's symbols."""
    parts = {part.name: part.data for part in elf.sections(cubin)}
    names = parts[".strtab"]
    starts = [entry[0] for entry in SYMBOL.iter_unpack(parts[".symtab"])]
    return {names[start : names.index(b"\0", start)].decode(): i for i, start in enumerate(starts)}
