"""Nsight Compute's report file: a header, then blocks of protocol buffers, each with its length before it.

    file:   "NVR\\0", FileHeader, blocks      block: BlockHeader, sources, results

The messages and the numbers of their fields are those of ``extras/FileFormat/*.proto``, which are part of Nsight
Compute 2025.3; the fields that it needs to open a file were found by trial. Only fields that a launch without a GPU can
fill are written.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from gemm_lessons.engine.records import dataclass

MAGIC = b"NVR\0"
VERSION = 7  # of the file
SASS_LEVELS = {"9.0": 9}  # of machine code, by compute capability; read from a report of that GPU
VARINT, DOUBLE, BYTES = 0, 1, 2  # wire types
CUDA, LINUX, LAUNCH = 0, 2, 1  # values of APIType, PlatformType and CollectionScope

Value = int | float | str
Content = Value | bytes
Several = list[bytes] | list[str] | list[int]  # a repeated field


@dataclass(frozen=True)
class NcuMetric:
    """A metric of a launch. ``instances``: its values by instruction (an address) or by opcode."""

    name: str
    value: Value
    instances: Mapping[int, Value] | Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class NcuSection:
    """A section: the labels of its metrics on the details page, and of its columns on the source page."""

    identifier: str
    title: str
    labels: Mapping[str, str]
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NcuSource:
    """A cubin, the files its line table names, and where its functions are: (name, index of the symbol, address)."""

    cubin: bytes
    capability: tuple[int, int]
    files: Mapping[str, str]
    functions: Sequence[tuple[str, int, int]]


@dataclass(frozen=True)
class NcuResult:
    """A profiled launch. ``source`` is the number of its source."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    source: int
    metrics: Sequence[NcuMetric]


@dataclass(frozen=True)
class NcuReport:
    """The content of the file. ``process`` is shown as its title, ``comment`` among its comments."""

    process: str
    machine: str
    comment: str
    device: str
    attributes: Mapping[str, Value]
    sections: Sequence[NcuSection]
    sources: Sequence[NcuSource]
    results: Sequence[NcuResult]
    time: int  # seconds since 1970


def written(report: NcuReport) -> bytes:
    """Return the file."""
    strings = list(dict.fromkeys(metric.name for result in report.results for metric in result.metrics))
    number = {name: i for i, name in enumerate(strings)}
    system = message({1: "Linux", 5: report.machine, 6: LINUX})
    attributes = [message({1: name, 2: _value(it)}) for name, it in report.attributes.items()]
    session = message({
        2: report.time, 3: system, 4: system, 6: message({1: 0, 2: report.device, 3: attributes}), 7: report.comment,
        8: message({1: "gemm-lessons", 2: report.process}),
    })  # fmt: skip
    sources = [_source(i, it) for i, it in enumerate(report.sources, 1)]
    results = [_result(i, it, report, number) for i, it in enumerate(report.results)]
    process = message({1: 1, 2: report.machine, 3: report.process})
    blocks = [
        _block({3: session, 6: process}),
        _block({1: len(sources), 6: process}, sources),
        _block({2: len(results), 4: message({1: strings}), 6: process}, results),
    ]
    return MAGIC + _sized(message({1: VERSION})) + b"".join(blocks)


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


def _value(value: Value) -> bytes:
    return message({1 if isinstance(value, str) else 3 if isinstance(value, float) else 5: value})


def _section(order: int, section: NcuSection, there: Collection[str]) -> bytes:
    """Encode a section of a result that has the metrics ``there``."""
    labels, columns = (
        [message({1: name, 2: label}) for name, label in every.items() if name in there]
        for every in (section.labels, section.columns)
    )
    return message(
        {1: section.identifier, 2: section.title, 3: order, 4: message({2: labels}), 13: message({1: columns})}
    )


def _three(values: tuple[int, int, int]) -> bytes:
    return message(dict(enumerate(values, 1)))


def _source(number: int, source: NcuSource) -> bytes:
    major, minor = source.capability
    functions = [message({1: name, 2: address, 3: symbol}) for name, symbol, address in source.functions]
    return message({
        1: number, 4: source.cubin, 5: SASS_LEVELS[f"{major}.{minor}"], 6: major << 16 | minor << 8, 7: 0,
        8: message({1: [message({1: name, 2: text}) for name, text in source.files.items()]}),
        9: message({1: functions}),
    })  # fmt: skip


def _result(number: int, result: NcuResult, report: NcuReport, names: Mapping[str, int]) -> bytes:
    metrics = [
        message({
            1: names[metric.name], 2: _value(metric.value),
            3: [message({1: _value(key), 2: _value(it)}) for key, it in metric.instances.items()],
        })
        for metric in result.metrics
    ]  # fmt: skip
    there = {metric.name for metric in result.metrics}
    return message({
        1: 1, 2: number + 1, 3: 1, 4: number + 1, 5: result.kernel, 6: result.kernel, 7: "", 8: 3,
        9: _three((0, 0, 0)), 10: _three(result.grid), 11: _three(result.block), 12: report.comment, 13: metrics,
        14: report.time, 15: message({1: result.source + 1}), 16: CUDA,
        17: [_section(order, it, there) for order, it in enumerate(report.sections)], 22: 1, 23: 7, 29: LAUNCH,
    })  # fmt: skip
