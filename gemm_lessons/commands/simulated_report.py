"""A report for Nsight Compute of a simulated run: each value was counted, and what was not counted is absent.

    RunOutcome --> kernels, grids --Simulator--> Counters, Sums by instruction --> messages --> FILE.ncu-rep
    file:   "NVR\\0", FileHeader, blocks      block: BlockHeader, sources, results      each with its length before it

Instructions have the addresses of the machine code that was followed, so that the source page shows them beside the
lines. Times, stalls, cache hits and all else that only hardware has are absent. The title, the device and a comment say
that there was no GPU.

The messages are protocol buffers. The numbers of their fields are those of ``extras/FileFormat/*.proto``, which are
part of Nsight Compute 2025.3; the fields that it needs to open a file were found by trial. Only fields that a launch
without a GPU can fill are written.
"""

from __future__ import annotations

import platform
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gemm_lessons import __version__
from gemm_lessons.engine import Counters, GpuSpec, KitError, Simulator
from gemm_lessons.engine.compiler import Compiled, elf
from gemm_lessons.engine.costs import Sums
from gemm_lessons.engine.hardware import WARP, block_limits, occupancy_of
from gemm_lessons.engine.records import Grid
from gemm_lessons.engine.sass import Uncountable
from gemm_lessons.gemm import Problem
from gemm_lessons.running import RunOutcome, variant_of

MAGIC = b"NVR\0"
VERSION = 7  # of the file
VARINT, DOUBLE, BYTES = 0, 1, 2  # wire types
CUDA, LINUX, LAUNCH = 0, 2, 1  # values of APIType, PlatformType and CollectionScope
ARCHITECTURES = ("sm_90", "sm_90a")
MAJOR, MINOR, SASS_LEVEL = 9, 0, 9  # compute capability; the level was read from a report of that GPU
FIRST, APART = 0x7F00_0000_0000, 0x100_0000  # address of the first function, and of one more: bytes
SYMBOL = struct.Struct("<IBBHQQ")  # of an ELF file: name, info, other, section, value, size
SPACES = {"global": 4, "shared": 16}  # values of memory_type, as in a report of an H200
EFFECTS = {"load": 2, "store": 4}  # values of memory_access_type
WAVEFRONTS, SECTORS = "memory_l1_wavefronts_shared", "memory_l2_theoretical_sectors_global"
LIMITS = {"warps": "warps", "blocks": "blocks", "shared memory": "shared_mem", "registers": "registers"}

Value = int | float | str
Content = Value | bytes
Several = list[bytes] | list[str] | list[int]  # a repeated field
# Identifier, title, and the labels of metrics: on the details page, and of columns on the source page.
Section = tuple[str, str, Mapping[str, str], Mapping[str, str]]
Metric = tuple[Value, Mapping[int, Value] | Mapping[str, Value]]  # of a launch, and by instruction (address) or opcode

SECTIONS: Sequence[Section] = (
    ("GemmLessonsLaunch", "Launch Statistics (simulated)", {
        "launch__grid_size": "Grid Size",
        "launch__block_size": "Block Size",
        "launch__thread_count": "Threads",
        "launch__registers_per_thread": "Registers Per Thread",
        "launch__shared_mem_per_block_static": "Static Shared Memory Per Block",
        "launch__shared_mem_per_block_dynamic": "Dynamic Shared Memory Per Block",
        "launch__shared_mem_per_block_driver": "Driver Shared Memory Per Block",
        "launch__waves_per_multiprocessor": "Waves Per SM",
        "launch__sm_count": "# SMs",
    }, {}),
    ("GemmLessonsOccupancy", "Occupancy (simulated)", {
        "sm__maximum_warps_per_active_cycle_pct": "Theoretical Occupancy",
        "sm__maximum_warps_avg_per_active_cycle": "Theoretical Active Warps per SM",
        "launch__occupancy_limit_registers": "Block Limit Registers",
        "launch__occupancy_limit_shared_mem": "Block Limit Shared Mem",
        "launch__occupancy_limit_warps": "Block Limit Warps",
        "launch__occupancy_limit_blocks": "Block Limit SM",
    }, {}),
    ("GemmLessonsMemory", "Memory (simulated)", {
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
    }, {}),
    ("GemmLessonsInstructions", "Instructions (simulated)", {
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
    if built.arch not in ARCHITECTURES:
        raise KitError(f"a report can be written of code for {', '.join(ARCHITECTURES)}, not for {built.arch}")
    binaries = list(dict.fromkeys(kernel.cubin for kernel in kernels))
    places = {kernel.entry: FIRST + APART * i for i, kernel in enumerate(kernels)}
    trial = Problem(lesson.data, shape, outcome.seed).trial()
    comment = (
        f"Simulated by gemm-lessons {__version__} without a GPU: lesson {lesson.name}, {outcome.kernel.label}, "
        f"at {shape}. Values that were not counted are absent. Occupancy is by the data sheet of an {gpu.name}."
    )
    now = int(time.time())
    results: list[bytes] = []
    numbers: dict[str, int] = {}  # of all metrics
    for kernel, grid, launch in zip(kernels, lesson.grids(shape), lesson.launches, strict=True):
        arguments = trial.arguments(launch.parameters)
        try:
            sums = Simulator().count_by_instruction(kernel, grid, arguments)
        except Uncountable as obstacle:
            raise KitError(f"the machine code of {kernel.entry} cannot be followed: {obstacle}") from None
        counters = Simulator().launch(kernel, grid, arguments).counters
        plain = {**_of_launch(kernel, grid, gpu), **_counted(counters)}
        metrics: dict[str, Metric] = {name: (value, {}) for name, value in plain.items()}
        metrics |= dict(_of_instructions(kernel, sums, places))
        for name in metrics:
            numbers.setdefault(name, len(numbers))
        order, source = len(results), binaries.index(kernel.cubin) + 1
        results.append(message({
            1: 1, 2: order + 1, 3: 1, 4: order + 1, 5: kernel.entry, 6: kernel.entry, 7: "", 8: 3,
            9: _three((0, 0, 0)), 10: _three(grid.grid), 11: _three(grid.block), 12: comment,
            13: [_metric(numbers[name], *metric) for name, metric in metrics.items()], 14: now,
            15: message({1: source}), 16: CUDA,
            17: [_section(i, section, metrics) for i, section in enumerate(SECTIONS)], 22: 1, 23: 7, 29: LAUNCH,
        }))  # fmt: skip
    device, machine, title = f"{gpu.name} (simulated)", platform.node(), f"gemm-lessons {lesson.name} (simulated)"
    system = message({1: "Linux", 5: machine, 6: LINUX})
    attributes = [message({1: name, 2: _value(it)}) for name, it in _attributes(gpu).items()]
    session = message({
        2: now, 3: system, 4: system, 6: message({1: 0, 2: device, 3: attributes}), 7: comment,
        8: message({1: "gemm-lessons", 2: title}),
    })  # fmt: skip
    process = message({1: 1, 2: machine, 3: title})
    sources = [_source(i, cubin, kernels, places) for i, cubin in enumerate(binaries, 1)]
    blocks = [
        _block({3: session, 6: process}),
        _block({1: len(sources), 6: process}, sources),
        _block({2: len(results), 4: message({1: list(numbers)}), 6: process}, results),
    ]
    return MAGIC + _sized(message({1: VERSION})) + b"".join(blocks)


def _attributes(gpu: GpuSpec) -> Mapping[str, Value]:
    given: dict[str, Value] = {
        "display_name": f"{gpu.name} (simulated)",
        "device_index": 0,
        "compute_capability_major": MAJOR,
        "compute_capability_minor": MINOR,
        "sass_level": SASS_LEVEL,
        "multiprocessor_count": gpu.sms,
        "warp_size": WARP,
        "max_warps_per_multiprocessor": gpu.max_warps_per_sm,
        "max_registers_per_multiprocessor": gpu.registers_per_sm,
        "max_shared_memory_per_multiprocessor": gpu.shared_bytes_per_sm,
        "num_schedulers_per_multiprocessor": gpu.schedulers,
    }
    return {f"device__attribute_{name}": value for name, value in given.items()}


def _of_launch(kernel: Compiled, grid: Grid, gpu: GpuSpec) -> dict[str, Value]:
    """Return the metrics that are known before a launch: sizes, resources, occupancy."""
    needs, dynamic = kernel.resources, grid.dynamic_shared
    fits = occupancy_of(needs, grid.threads, dynamic, gpu)
    found: dict[str, Value] = {
        f"launch__{what}_dim_{axis}": size
        for what, three in (("grid", grid.grid), ("block", grid.block))
        for axis, size in zip("xyz", three, strict=True)
    }
    found |= {
        "launch__grid_size": grid.blocks,
        "launch__block_size": grid.threads,
        "launch__thread_count": grid.blocks * grid.threads,
        "launch__registers_per_thread": needs.registers,
        "launch__shared_mem_per_block_static": needs.shared_bytes,
        "launch__shared_mem_per_block_dynamic": dynamic,
        "launch__shared_mem_per_block_driver": gpu.shared_reserved_per_block,
        "launch__shared_mem_per_block": needs.shared_bytes + dynamic + gpu.shared_reserved_per_block,
        "launch__sm_count": gpu.sms,
        "launch__device_id": 0,
        **_attributes(gpu),
        "sm__maximum_warps_per_active_cycle_pct": 100.0 * fits.fraction,
        "sm__maximum_warps_avg_per_active_cycle": float(fits.warps),
    }
    for name, blocks in block_limits(needs, grid.threads, dynamic, gpu).items():
        # The driver gives a kernel as much of L1 as shared memory as it needs, and this limit depends on how much.
        if name != "shared memory" or blocks == fits.blocks_per_sm:
            found[f"launch__occupancy_limit_{LIMITS[name]}"] = float(blocks)
    if fits.blocks_per_sm:
        found["launch__waves_per_multiprocessor"] = grid.blocks / (gpu.sms * fits.blocks_per_sm)
    return found


def _counted(counters: Counters) -> dict[str, Value]:
    """Return the totals of counters that Nsight Compute counts in the same way."""
    return {
        name: value if name.startswith("memory_") else float(value)
        for name, value in counters.totals.items()
        if not name.startswith("simulator__") and name not in counters.inexact
    }


def _of_instructions(kernel: Compiled, sums: Sums, places: Mapping[str, int]) -> Iterator[tuple[str, Metric]]:
    """Yield the metrics of the source page, and the executed opcodes."""
    where = {i: places[kernel.entry] + it.address for i, it in enumerate(kernel.sass)}

    def metric(name: str, values: Mapping[int, int], total: int | None = None) -> tuple[str, Metric]:
        at: dict[int, Value] = {where[index]: value for index, value in sorted(values.items())}
        return name, (sum(values.values()) if total is None else total, at)

    yield metric("inst_executed", +sums.warps)
    yield metric("thread_inst_executed", +sums.lanes)
    yield metric("derived__avg_thread_executed", {i: sums.lanes[i] // warps for i, warps in (+sums.warps).items()})
    opcodes: Counter[str] = Counter()
    for name, warps in sums.issued.items():
        opcodes[name.partition(".")[0]] += warps
    by_opcode: Mapping[str, Value] = {name: float(it) for name, it in opcodes.most_common() if it}
    yield "sass__inst_executed_per_opcode", (float(opcodes.total()), by_opcode)
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


# -- messages ---------------------------------------------------------------------------------------------------------


def _source(number: int, cubin: bytes, kernels: Sequence[Compiled], places: Mapping[str, int]) -> bytes:
    """Encode a cubin, the files that its line table names, and where its functions are."""
    paths = {name: Path(elf.plain_file_name(name)) for name in elf.without_file_names(cubin)[1]}
    files = {name: it.read_text(encoding="utf-8", errors="replace") for name, it in paths.items() if it.is_file()}
    symbols = _symbols(cubin)
    inside = [kernel.entry for kernel in kernels if kernel.cubin == cubin]
    return message({
        1: number, 4: cubin, 5: SASS_LEVEL, 6: MAJOR << 16 | MINOR << 8, 7: 0,
        8: message({1: [message({1: name, 2: text}) for name, text in files.items()]}),
        9: message({1: [message({1: name, 2: places[name], 3: symbols[name]}) for name in inside]}),
    })  # fmt: skip


def _symbols(cubin: bytes) -> dict[str, int]:
    """Return the numbers of an ELF file's symbols."""
    parts = {part.name: part.data for part in elf.sections(cubin)}
    names = parts[".strtab"]
    starts = [entry[0] for entry in SYMBOL.iter_unpack(parts[".symtab"])]
    return {names[start : names.index(b"\0", start)].decode(): i for i, start in enumerate(starts)}


def _section(order: int, section: Section, there: Mapping[str, Metric]) -> bytes:
    """Encode a section of a result that has the metrics ``there``."""
    identifier, title, labels, columns = section
    shown, beside = (
        message({number: [message({1: name, 2: label}) for name, label in every.items() if name in there]})
        for number, every in ((2, labels), (1, columns))
    )
    return message({1: identifier, 2: title, 3: order, 4: shown, 13: beside})


def _metric(number: int, value: Value, by: Mapping[int, Value] | Mapping[str, Value]) -> bytes:
    instances = [message({1: _value(key), 2: _value(it)}) for key, it in by.items()]
    return message({1: number, 2: _value(value), 3: instances})


def _value(value: Value) -> bytes:
    return message({1 if isinstance(value, str) else 3 if isinstance(value, float) else 5: value})


def _three(values: tuple[int, int, int]) -> bytes:
    return message(dict(enumerate(values, 1)))


def message(fields: Mapping[int, Content | Several]) -> bytes:
    """Encode a protocol buffer: fields by their numbers, a repeated one as a list."""
    parts = []
    for number, content in fields.items():
        for it in content if isinstance(content, list) else [content]:
            if isinstance(it, int):
                parts.append(_varint(number << 3 | VARINT) + _varint(it))
            elif isinstance(it, float):
                parts.append(_varint(number << 3 | DOUBLE) + struct.pack("<d", it))
            else:
                data = it.encode() if isinstance(it, str) else it
                parts.append(_varint(number << 3 | BYTES) + _varint(len(data)) + data)
    return b"".join(parts)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _block(header: Mapping[int, Content], contents: Sequence[bytes] = ()) -> bytes:
    payload = b"".join(map(_sized, contents))
    return _sized(message({1: 0, 2: 0, **header, 5: len(payload)})) + payload
