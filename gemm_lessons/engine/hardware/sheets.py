"""Data sheets of GPUs: what one multiprocessor holds, how long it takes, and what the whole chip moves.

    cards/every.toml + cards/sm_90/sm_90.toml + cards/sm_90/h200.toml --read_sheet--> GpuSpec

``cards/`` holds a folder for each architecture, with its own file and those of its chips. A sheet elsewhere has the
same form. Its architecture is a file beside it, ``sm_87.toml``, or one of the kit's. The files are tables of ``name =
[value, "source"]``; a later one has precedence. Each source says of what kind it is: published by NVIDIA, measured,
fitted, assumed, or a constant of the model. Everything wrong is reported by file, line and key.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from gemm_lessons.engine.hardware.pipes import Pipes, Products
from gemm_lessons.engine.records.errors import UnknownArchitecture
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.toml_file import TomlFile, read_toml

CARDS = Path(__file__).parent / "cards"
KIB = 1024
WARP = 32  # lanes
DOT = 4  # products of one lane's dp4a
BF16_SINCE = 80  # compute capability, "CUDA C++ Programming Guide"
# Beyond these, a figure of a sheet has another unit; the kit's own cards are far within them.
MOST_SMS, MOST_HZ, LEAST_DRAM, MOST_L2 = 1024, 10e9, 10e9, 1 << 30  # DRAM in bytes per second, L2 in bytes
KINDS = "published", "measured", "fitted", "assumed", "model"
GIGA = 1e9
# Fields that a sheet gives in another unit: field -> name in the sheet, and factor.
UNITS: Mapping[str, tuple[str, float]] = {
    "clock_hz": ("clock_ghz", GIGA),
    "tensor_clock_hz": ("tensor_clock_ghz", GIGA),
    "dram_bytes_per_s": ("dram_gb_per_s", GIGA),
    "l2_bytes_per_s": ("l2_gb_per_s", GIGA),
    "l2_bytes": ("l2_mib", KIB * KIB),
    "shared_bytes_per_sm": ("shared_kib_per_sm", KIB),
    "shared_bytes_per_block": ("shared_kib_per_block", KIB),
}


class SheetError(ValueError):
    """A data sheet is wrong. The message names file, line and key."""


@dataclass(frozen=True)
class SheetFigure:
    """A value as its file gives it, and the kind of its source."""

    value: Any
    kind: str
    file: FigureFile


class FigureFile(TomlFile):
    """One file of figures. ``shared``: kinds of the sources that other files define."""

    error = SheetError

    def __init__(self, path: Path, shared: Mapping[str, str], keys: Sequence[str]) -> None:
        text, self.raw = read_toml(path, "--gpu takes a name or a data sheet", SheetError)
        super().__init__(path, text)
        self.known((), self.raw, keys)
        self.kinds = {**shared, **self._kinds()}

    def _kinds(self) -> dict[str, str]:
        kinds = {}
        for name, source in self.table((), self.raw, "sources", required=False).items():
            where = ("sources", name)
            if not isinstance(source, dict) or source.get("kind") not in KINDS or source.keys() != {"kind", "text"}:
                raise self.wrong(where, f'must be {{ kind = "...", text = "..." }}, of a kind of {", ".join(KINDS)}')
            kinds[name] = source["kind"]
        return kinds

    def figures(self, table: str) -> dict[str, SheetFigure]:
        """Return the figures of a table, as the file gives them."""
        found = {}
        for name, value in self.table((), self.raw, table, required=False).items():
            if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], str):
                raise self.wrong((table, name), f'must be [value, "source"], not {value!r}')
            if value[1] not in self.kinds:
                raise self.wrong((table, name), f"no such source: {value[1]!r}; known: {', '.join(self.kinds)}")
            found[name] = SheetFigure(value[0], self.kinds[value[1]], self)
        return found

    def number(self, table: str, name: str, value: object, kind: str, *, zero: bool) -> Any:
        """Return ``value`` if it is of this ``kind``: bool, int or float. Raise ``SheetError``."""
        if kind == "bool":
            right, wanted = isinstance(value, bool), "true or false"
        else:
            right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            right = right and (value > 0 or (zero and value == 0))  # type: ignore[operator]
            wanted = "a number " + ("of at least 0" if zero else "above 0")
            if kind == "int":
                right = right and value == int(value)  # type: ignore[call-overload]
                wanted = wanted.replace("a number", "a whole number")
        if not right:
            raise self.wrong((table, name), f"must be {wanted}, not {value!r}")
        return value


def fields_from(
    record: type, files: Sequence[FigureFile], table: str, names: Collection[str], may_be_zero: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields ``names`` of ``record`` from a table of the files, in the record's units; and the names of the
    figures that are assumed. The last file has precedence. Raise ``SheetError``."""
    figures: dict[str, SheetFigure] = {}
    fields = [it for it in dataclasses.fields(record) if it.name in names]
    keys = [UNITS.get(it.name, (it.name, 1))[0] for it in fields]
    for file in files:
        file.known((table,), file.table((), file.raw, table, required=False), keys)
        figures |= file.figures(table)
    found: dict[str, Any] = {}
    for field, key in zip(fields, keys, strict=True):
        if key not in figures:
            if field.default is dataclasses.MISSING:
                raise files[-1].wrong((table, key), f'is missing; add it under [{table}]: {key} = [value, "source"]')
            continue
        figure, kind = figures[key], str(field.type).partition(" ")[0]
        scale = UNITS[field.name][1] if field.name in UNITS else 1
        plain = "float" if scale != 1 else kind
        value = figure.file.number(table, key, figure.value, plain, zero=field.name in may_be_zero)
        if kind == "int":
            value = figure.file.number(table, key, value * scale, "int", zero=field.name in may_be_zero)
            found[field.name] = int(value)
        else:
            found[field.name] = value if kind == "bool" else float(value) * scale
    return found, [name for name, it in figures.items() if it.kind == "assumed"]


@dataclass(frozen=True)
class Power:
    """Power limits and energies, which lower the clock of a GPU while warpgroups multiply.

    Energies are those at ``clock_hz``; at a lower clock, those of multiprocessors and L2 fall with it, as the voltage
    does.
    """

    most_watts: float  # launched on end
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
    of one multiprocessor. ``pipes`` are its latencies and rates; without them, the kit's figures of ``arch`` apply.
    ``compared``: what estimates for it were compared with; empty where nothing was measured. ``assumed``: figures
    without a source. The sources are in ``hardware/cards``, and `gemm-lessons read numbers` says how to add a GPU.
    """

    name: str
    arch: str  # compute capability as the compiler writes it
    sms: int  # multiprocessors of the product as sold
    lanes_per_sm: int  # fp32 lanes
    clock_hz: float
    dram_bytes_per_s: float
    l2_bytes_per_s: float
    l2_bytes: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int  # the most that a block may opt in to
    max_warps_per_sm: int
    max_blocks_per_sm: int
    schedulers: int  # warp schedulers of one multiprocessor, each with its own part of the register file
    shared_unit: int  # shared memory is handed out in multiples of this
    shared_reserved_per_block: int  # taken by the system from every block's share since Ampere
    tensor_clock_hz: float | None = None  # while tensor cores multiply on all multiprocessors; None: no lower
    power: Power | None = None  # None: not known
    # (blocks of a cluster, multiprocessors that hold such clusters, one block each), by size; empty: no clusters
    in_clusters: tuple[tuple[int, int], ...] = ()
    bytes_per_clock: int = 128  # of a multiprocessor's L1 and shared memory
    registers_per_sm: int = 64 * KIB  # 32-bit registers
    registers_per_block: int = 64 * KIB
    registers_per_thread: int = 255
    register_unit: int = 256  # registers are handed out to a warp in multiples of this
    max_threads_per_block: int = 1024
    pipes: Pipes | None = None
    driver: str = ""  # the names that its driver gives exactly this product, as a regular expression
    compared: str = ""
    assumed: tuple[str, ...] = ()

    @property
    def basis(self) -> str:
        """Return what estimates for this GPU rest on; empty where they were compared with measured times."""
        return "" if self.compared else "from a data sheet, never measured"

    @property
    def hot(self) -> GpuSpec:
        """Return the sheet with the clock of a chip whose tensor cores are all busy."""
        return self if self.tensor_clock_hz is None else replace(self, clock_hz=self.tensor_clock_hz)

    def sms_for(self, cluster: int) -> int:
        """Return how many multiprocessors hold clusters of ``cluster`` blocks; 0 if such clusters do not fit."""
        if cluster == 1:
            return self.sms
        held = next((sms for size, sms in self.in_clusters if size >= cluster), 0)
        return held // cluster * cluster

    @property
    def fp32_flops_per_s(self) -> float:
        """Peak of fused multiply-adds, each counted as two operations."""
        return 2 * self.sms * self.lanes_per_sm * self.clock_hz


ARCHITECTURE_KEYS = "architecture", "sources", "multiprocessor", "clocks", "tensor"
CHIP_KEYS = "name", *ARCHITECTURE_KEYS, "driver", "compared", "chip", "clusters", "power"
CHIP = "sms", "clock_hz", "dram_bytes_per_s", "l2_bytes_per_s", "l2_bytes", "tensor_clock_hz"
MULTIPROCESSOR = (
    "lanes_per_sm shared_bytes_per_sm shared_bytes_per_block max_warps_per_sm max_blocks_per_sm schedulers shared_unit "
    "shared_reserved_per_block bytes_per_clock registers_per_sm registers_per_block registers_per_thread register_unit "
    "max_threads_per_block"
).split()
# Clocks that must be above 0.
NEVER_ZERO = frozenset("l1 l2 shared request integer special fp64 multiply_slots dependence queue store".split())


def read_sheet(path: Path) -> GpuSpec:
    """Return the data sheet in a file, with the figures of its architecture. Raise ``SheetError``."""
    every = _every()
    chip = FigureFile(path, every.kinds, CHIP_KEYS)
    name, arch = chip.string((), chip.raw, "name"), chip.string((), chip.raw, "architecture")
    files = [every, _architecture(chip, arch, every.kinds), chip]
    _contradict_nothing_published(files[1], chip)

    whole, assumed = fields_from(GpuSpec, [chip], "chip", CHIP)
    one, of_one = fields_from(GpuSpec, files, "multiprocessor", MULTIPROCESSOR, {"shared_reserved_per_block"})
    products, of_products = fields_from(Products, files, "tensor", _names(Products), _names(Products))
    clocks, of_clocks = fields_from(
        Pipes, files, "clocks", _names(Pipes) - {"arch", "products"}, _names(Pipes) - NEVER_ZERO
    )
    spec = GpuSpec(
        name=name,
        arch=arch,
        **whole,
        **one,
        power=_power(chip),
        in_clusters=_clusters(chip, whole["sms"]),
        pipes=Pipes(arch=arch, **clocks, products=Products(**products)),
        driver=_driver(chip),
        compared=chip.string((), chip.raw, "compared") if "compared" in chip.raw else "",
        assumed=tuple(sorted((*assumed, *of_one, *of_products, *of_clocks))),
    )
    _check(chip, spec)
    return spec


def _names(record: type) -> frozenset[str]:
    return frozenset(it.name for it in dataclasses.fields(record))


@cache
def _every() -> FigureFile:
    """Return the file of the figures that all architectures share."""
    return FigureFile(CARDS / "every.toml", {}, ARCHITECTURE_KEYS)


def _architecture(chip: FigureFile, arch: str, shared: Mapping[str, str]) -> FigureFile:
    """Return the file of a chip's architecture: beside it, or the kit's."""
    name = f"{arch}.toml"
    path = next((it for it in (chip.path.parent / name, CARDS / arch / name) if it.is_file()), None)
    if path is None or re.fullmatch(r"sm_\d{2,3}", arch) is None:
        known = ", ".join(sorted((it.name for it in CARDS.glob("sm_*")), key=capability_of))
        raise chip.wrong(
            ("architecture",),
            f"nothing is known of {arch!r}; known: {known}. Another one needs its own file beside this one, {name}",
        )
    found = FigureFile(path, shared, ARCHITECTURE_KEYS)
    if (said := found.string((), found.raw, "architecture")) != arch:
        raise found.wrong(("architecture",), f"must be {arch!r}, as the file's name says, not {said!r}")
    return found


def _contradict_nothing_published(architecture: FigureFile, chip: FigureFile) -> None:
    """Raise ``SheetError`` for a figure that NVIDIA publishes for all chips of an architecture, with another value."""
    for table in ("multiprocessor", "clocks"):
        theirs = architecture.figures(table)
        for name, it in chip.figures(table).items():
            known = theirs.get(name)
            if known is not None and known.kind == "published" and known.value != it.value:
                raise chip.wrong(
                    (table, name),
                    f"is {it.value!r}, but NVIDIA publishes {known.value!r} for all chips of {architecture.path.stem}; "
                    f"if that is wrong, write a file {architecture.path.name} beside this one",
                )


def _power(chip: FigureFile) -> Power | None:
    if "power" not in chip.raw:
        return None
    return Power(**fields_from(Power, [chip], "power", _names(Power))[0])


def _clusters(chip: FigureFile, sms: int) -> tuple[tuple[int, int], ...]:
    found = []
    for size, figure in chip.figures("clusters").items():
        held = chip.number("clusters", size, figure.value, "int", zero=False)
        if not size.isdigit() or int(size) < 2 or held > sms:
            raise chip.wrong(("clusters", size), f"must be a cluster's blocks, and at most {sms} multiprocessors")
        found.append((int(size), int(held)))
    return tuple(sorted(found))


def _driver(chip: FigureFile) -> str:
    if "driver" not in chip.raw:
        return ""
    pattern = chip.string((), chip.raw, "driver")
    try:
        re.compile(pattern)
    except re.error as error:
        raise chip.wrong(("driver",), f"is not a regular expression: {error}") from None
    return pattern


def _check(chip: FigureFile, spec: GpuSpec) -> None:
    """Raise ``SheetError`` for figures that contradict each other, as a wrong unit does."""
    pipes = pipes_of(spec)
    doubts: Sequence[tuple[bool, tuple[str, str], str]] = (
        (spec.sms > MOST_SMS, ("chip", "sms"), "counts multiprocessors, not their lanes, like 84"),
        (spec.clock_hz > MOST_HZ, ("chip", "clock_ghz"), "is in GHz, like 1.695"),
        (spec.dram_bytes_per_s < LEAST_DRAM, ("chip", "dram_gb_per_s"), "is in GB/s, like 936"),
        (spec.l2_bytes > MOST_L2, ("chip", "l2_mib"), "is in MiB, like 6"),
        ((spec.tensor_clock_hz or 0) > spec.clock_hz, ("chip", "tensor_clock_ghz"), "must be at most clock_ghz"),
        (spec.dram_bytes_per_s > spec.l2_bytes_per_s, ("chip", "l2_gb_per_s"), "must be above dram_gb_per_s"),
        (
            spec.shared_bytes_per_block > spec.shared_bytes_per_sm,
            ("multiprocessor", "shared_kib_per_block"),
            "must be at most shared_kib_per_sm",
        ),
        (
            pipes.products.f64 > 2 * WARP / pipes.fp64,
            ("tensor", "f64"),
            f"is more than twice the fp64 units' {WARP / pipes.fp64:g}, which no chip has",
        ),
        (spec.lanes_per_sm % spec.schedulers > 0, ("multiprocessor", "lanes_per_sm"), "must divide by schedulers"),
    )
    for doubtful, where, message in doubts:
        if doubtful:
            raise chip.wrong(where, message)


class _Cards(Mapping[str, GpuSpec]):
    """The kit's own data sheets by name, each read on first use."""

    def __getitem__(self, name: str) -> GpuSpec:
        return _sheet_at(_files()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_files())

    def __len__(self) -> int:
        return len(_files())


GPUS: Mapping[str, GpuSpec] = _Cards()


@cache
def _files() -> Mapping[str, Path]:
    """Return the file of each of the kit's GPUs by its short name, the oldest architecture first."""
    folders = sorted((it for it in CARDS.iterdir() if it.is_dir()), key=lambda it: capability_of(it.name))
    return {it.stem: it for folder in folders for it in sorted(folder.glob("*.toml")) if it.stem != folder.name}


@cache
def _sheet_at(path: Path) -> GpuSpec:
    return read_sheet(path)


def find_gpu(name: str) -> GpuSpec:
    """Return the data sheet of ``name`` (``h200``, ``RTX 4090``, ``4090``), or of a file (``orin.toml``).

    Raise ``KeyError`` that lists the names, and ``SheetError`` for a sheet that is wrong.
    """
    if name.endswith(".toml"):
        return read_sheet(Path(name))
    key = "".join(c for c in name.lower() if c.isalnum())
    for known in _files():
        if key and key in (known, known.removeprefix("rtx")):
            return GPUS[known]
    raise KeyError(f"no data sheet for GPU {name!r}; known: {', '.join(_files())}, or a file of your own: my_gpu.toml")


def sheet_of(arch: str) -> GpuSpec | None:
    """Return the data sheet of a GPU of this architecture (``sm_90``, also ``sm_90a``); None if the kit has none."""
    return next((_sheet_at(path) for path in _files().values() if path.parent.name == arch.rstrip("af")), None)


def data_sheet(product: str) -> GpuSpec | None:
    """Return the data sheet of a GPU by the name that its driver gives; None if the kit has none.

    Only exactly those products count. Others of the same name ("H100 PCIe", "RTX 4090 Laptop GPU", "A100-SXM4-80GB")
    have other clocks, multiprocessors or memory.
    """
    return next((it for it in GPUS.values() if it.driver and re.fullmatch(it.driver, product)), None)


def pipes_of(gpu: GpuSpec) -> Pipes:
    """Return the latencies and rates of a GPU's architecture: those of its sheet, else the kit's.

    Raise ``UnknownArchitecture`` if neither exists: figures of another architecture would be silently wrong.
    """
    if gpu.pipes is not None and gpu.pipes.arch == gpu.arch:
        return gpu.pipes
    known = sheet_of(gpu.arch)
    if known is None or known.pipes is None:
        raise UnknownArchitecture(
            f"no latencies and rates of {gpu.arch}, the architecture of {gpu.name}; a file {gpu.arch}.toml beside its "
            "data sheet can give them (gemm-lessons read numbers)"
        )
    return known.pipes


OLDEST_ARCH = 75  # the oldest compute capability that the current compiler knows
STAND_IN = "sm_80"  # older GPUs are estimated from this code: its schedulers also have 16 fp32 lanes


def capability_of(arch: str) -> int:
    """Return 90 for ``sm_90`` and ``sm_90a``."""
    return int("".join(filter(str.isdigit, arch)) or 0)


def buildable(arch: str) -> str:
    """Return the architecture to compile for: ``STAND_IN`` if ``arch`` is too old for the compiler, else ``arch``."""
    return arch if capability_of(arch) >= OLDEST_ARCH else STAND_IN


def dotted(arch: str) -> str:
    """Return the compute capability as text: 9.0 for ``sm_90a``."""
    return f"{capability_of(arch) // 10}.{capability_of(arch) % 10}"


@dataclass(frozen=True)
class Peak:
    """Peak rate of one kind of unit on the whole chip: operations per second, a multiply-add counted as two."""

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
            found.append(Peak("dp4a", schedulers * WARP / pipes.dot * DOT * gpu.clock_hz))
    elif number_type == "fp64":
        tensor, clock = pipes.products.f64, gpu.clock_hz
        found.append(Peak("fp64 units", schedulers * WARP / pipes.fp64 * gpu.clock_hz))
    if tensor:
        found.append(Peak(f"{number_type} tensor cores", schedulers * tensor * clock))
    return tuple(found)
