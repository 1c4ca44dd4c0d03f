"""``profile --report``: a file that Nsight Compute opens; every value in it was counted, and others are absent."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from checks import forks
from gemm_lessons.commands.simulated_report import FIRST, MAGIC, SECTORS, WAVEFRONTS, message, report_of
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.engine.records.metrics import COUNTED
from gemm_lessons.running.outcome import RunOutcome
from gemm_lessons.running.pipeline import RunRequest, run_lesson

COURSE = packaged_course()
SUMS = ("inst_executed", "thread_inst_executed", WAVEFRONTS, f"{WAVEFRONTS}_ideal", SECTORS)
Fields = dict[int, list[Any]]


def fields(data: bytes) -> Fields:
    """Decode a protocol buffer: its contents by the numbers of its fields."""
    found: Fields = {}
    at = 0
    value: Any
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        else:
            assert key & 7 == 2
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    assert at == len(data)
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def test_messages_are_those_of_the_published_example() -> None:
    """Of protobuf.dev, "Encoding": Test1 {a: 150}, Test2 {b: "testing"}, and a repeated field."""
    assert message({1: 150}) == bytes.fromhex("089601")
    assert message({2: "testing"}) == bytes.fromhex("120774657374696e67")
    assert message({5: [1, 2, 3]}) == bytes.fromhex("280128022803")
    assert message({1: 0.5}) == bytes.fromhex("09000000000000e03f")


@dataclass(frozen=True)
class Read:
    """What a file says: session, sections by title, sources, and by launch: its result, values and instances."""

    session: Fields
    sources: list[Fields]
    results: list[Fields]
    values: list[dict[str, Any]]
    instances: list[dict[str, dict[Any, Any]]]


def read(data: bytes) -> Read:
    """Read a report as its format says."""
    assert data[:4] == MAGIC
    chunks = sized(data, 4)
    assert fields(next(chunks)) == {1: [7]}
    session: Fields = {}
    sources, results, values, instances = [], [], [], []
    for chunk in chunks:
        header = fields(chunk)
        for it in header.get(3, []):
            session |= fields(it)
        sources += [fields(next(chunks)) for _ in range(header[1][0])]
        names = [it.decode() for it in fields(header[4][0])[1]] if 4 in header else []
        for _ in range(header[2][0]):
            results.append(fields(next(chunks)))
            metrics = [fields(it) for it in results[-1][13]]
            values.append({names[it[1][0]]: value(it[2][0]) for it in metrics})
            instances.append(
                {
                    names[it[1][0]]: {value(pair[1][0]): value(pair[2][0]) for pair in map(fields, it.get(3, []))}
                    for it in metrics
                }
            )
    return Read(session, sources, results, values, instances)


def sized(data: bytes, at: int) -> Iterator[bytes]:
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


def value(data: bytes) -> Any:
    ((found,),) = fields(data).values()
    return found.decode() if isinstance(found, bytes) else found


@cache
def outcome(name: str) -> RunOutcome:
    lesson = COURSE.lesson(name)
    path = COURSE.solution(lesson)
    assert path is not None
    return run_lesson(
        RunRequest(COURSE, lesson, path, Simulated(), GPUS["h200"], seed=1, beside=False, estimating=False)
    )


@cache
def report(name: str) -> Read:
    return read(report_of(outcome(name), GPUS["h200"]))


@pytest.mark.parametrize("name", ["vector_loads", "bank_conflicts", "async_copy", "wgmma", "dgemm"])
def test_every_value_was_counted(name: str) -> None:
    counted = outcome(name).kernel.checked.counters
    assert counted is not None
    (values,), (instances,) = report(name).values, report(name).instances
    for metric in SUMS:
        if instances.get(metric):
            assert values[metric] == sum(instances[metric].values()), metric
    assert values["inst_executed"] == counted["warp_instructions"]
    opcodes = instances["sass__inst_executed_per_opcode"]
    assert values["sass__inst_executed_per_opcode"] == sum(opcodes.values()) == counted["warp_instructions"]
    for metric in set(values) & set(COUNTED.values()):
        assert values[metric] == counted[metric]
        assert metric not in counted.inexact
    assert not [metric for metric in values if metric.startswith("simulator__")]
    exact = {it for it in counted.totals if not it.startswith("simulator__")} - counted.inexact.keys()
    assert exact <= values.keys()


def test_what_only_hardware_has_is_absent() -> None:
    for name in ("bank_conflicts", "wgmma"):
        (values,) = report(name).values
        assert not [it for it in values if "time" in it or "cycles" in it.replace("active_cycle", "") or "pcsamp" in it]
    assert WAVEFRONTS not in report("wgmma").values[0], "the wavefronts of wgmma are not those of Nsight Compute"
    assert "launch__occupancy_limit_shared_mem" not in report("bank_conflicts").values[0], "registers are the limit"
    assert "launch__occupancy_limit_shared_mem" in report("wgmma").values[0]


def test_it_says_that_it_is_simulated() -> None:
    found = report("bank_conflicts")
    device = fields(found.session[6][0])
    assert device[2] == [b"H200 (simulated)"]
    assert b"without a GPU" in found.session[7][0]
    for result in found.results:
        assert b"without a GPU" in result[12][0]
        titles = [fields(it)[2][0] for it in result[17]]
        assert len(titles) == 4
        assert all(title.endswith(b"(simulated)") for title in titles)


def test_instructions_are_those_of_the_machine_code() -> None:
    built = outcome("bank_conflicts").kernel.built
    (kernel,) = built.code.counted
    found = report("bank_conflicts")
    (source,) = found.sources
    assert source[4] == [kernel.cubin]
    (function,) = (fields(it) for it in fields(source[9][0])[1])
    assert (function[1], function[2]) == ([b"gemm"], [FIRST])
    files = {fields(it)[1][0].decode()[-20:]: fields(it)[2][0].decode() for it in fields(source[8][0])[1]}
    assert kernel.source in files.values()
    at = {FIRST + it.address: it for it in kernel.sass}
    for address, wavefronts in found.instances[0][WAVEFRONTS].items():
        assert at[address].opcode.startswith(("LDS", "STS"))
        assert wavefronts > 0
    for address, bits in found.instances[0]["memory_access_size_type"].items():
        assert bits == 8 * at[address].width


def test_each_launch_is_a_result() -> None:
    found = report("split_k")
    assert [it[5] for it in found.results] == [[b"gemm"], [b"combine"]]
    assert len(found.sources) == 1, "both kernels are in one cubin"
    places = [min(it["inst_executed"]) for it in found.instances]
    assert places[0] == FIRST < places[1]


def test_a_kernel_without_counters_has_no_report() -> None:
    run = outcome("bank_conflicts")
    with pytest.raises(KitError, match="nothing was counted"):
        report_of(replace(run, rows=(replace(run.kernel, built=None),)), GPUS["h200"])


def test_the_command_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "07.ncu-rep"
    done = forks.run(["profile", "07", "--solution", "--report", str(path)])
    assert (done.returncode, "simulated" in done.stdout) == (0, True), done.stderr
    assert read(path.read_bytes()).values[0]["launch__block_size"] == 256
    for wrong in (["--report", str(tmp_path / "07.txt")], ["--report", str(path), "--print"]):
        assert forks.run(["profile", "07", "--solution", *wrong]).returncode == 2


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("ncu") is None, reason="needs Nsight Compute, which is not here")
def test_nsight_compute_opens_it(tmp_path: Path) -> None:
    path = tmp_path / "07.ncu-rep"
    path.write_bytes(report_of(outcome("bank_conflicts"), GPUS["h200"]))
    for page, words in (("details", "Memory (simulated)"), ("source", "L1 Wavefronts Shared")):
        done = subprocess.run(
            ["ncu", "--import", str(path), "--page", page, "--csv"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
