"""The simulator's counters and the rules behind them, against every stored reading of hardware."""

from __future__ import annotations

import re

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.counters import compare, patterns, readings
from checks.counters.manifest import KERNELS, Case, plan
from checks.disassembly import Groups, folder_of_session
from gemm_lessons.engine import sass as machinecode
from gemm_lessons.engine.costs import banks, copies
from gemm_lessons.engine.counters.counters import TILES, totals
from gemm_lessons.engine.events import LaunchInfo
from gemm_lessons.engine.machine.memory import GlobalMemory, parameter_block
from gemm_lessons.engine.ptx import parser
from gemm_lessons.engine.records.launch import Buffer, Grid, buffers_of
from gemm_lessons.engine.records.metrics import COUNTED
from gemm_lessons.engine.simulator import Simulator

CASES = plan()
KNOWN = readings.load()
SHARED = readings.load_probes("shared_probes")["probes"]
GLOBAL = readings.load_probes("global_probes")["probes"]
COPIES = readings.load_probes("copy_probes")["probes"]
ZEROS = readings.load_probes("zero_probes")["probes"]
KINDS: dict[str, banks.AccessKind] = {
    "load": "load", "partial": "load", "store": "store", "matrix": "matrix", "atomic": "atomic", "reduce": "atomic",
}  # fmt: skip


def kind_of(case: Case) -> str:
    """``product_mma_int8`` of ``product_mma_int8_128x128x64_3_stages``: kernels for one type that differ in tiles."""
    return re.sub(r"_\d+x\d+x.*", "", case.name)


FIRST = {kind_of(case): case.name for case in reversed(CASES)}


def marks(number: int, case: Case) -> tuple[pytest.MarkDecorator, ...]:
    """The lessons, the first of each kind of product and every tenth of the others are counted always, every sixth of
    these with the slow tests, all of them with the long ones and by ``python -m checks.counters.table``."""
    if FIRST[kind_of(case)] == case.name if case.file.parent != KERNELS else number % 10 == 0:
        return ()
    return (pytest.mark.slow,) if number % 6 == 0 else (pytest.mark.slow, pytest.mark.long)


@pytest.fixture(scope="module")
def groups(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Groups:
    """The kernels of this session's cases."""
    cases = {case.name: case for case in CASES}
    asked = [it.callspec.params.get("case") for it in request.session.items if hasattr(it, "callspec")]
    names = [it.name for it in asked if isinstance(it, Case)]
    return Groups(folder_of_session(tmp_path_factory, "readings"), names, lambda it: [compare.compile_case(cases[it])])


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=marks(i, case), id=case.name) for i, case in enumerate(CASES)],
)
def test_counters_equal_hardware(case: Case, groups: Groups) -> None:
    """All counters but those listed in ``UNEQUAL``, and those do differ: the list may not go stale."""
    groups.need(case.name)
    found = compare.compare(case, KNOWN)
    if found.missing:
        assert not found.stale or case.file.parent != KERNELS, "a kernel was changed without renewing its reading"
        pytest.skip(found.missing)
    explained = {counter for kernel, counter in compare.UNEQUAL if kernel == case.name}
    assert set(found.differences) == explained, found.differences
    # No tile of wgmma with bank conflicts has been read yet; that of the lesson has none.
    assert found.inexact in ("", TILES) or case.name in {kernel for kernel, _ in compare.UNEQUAL}, found.inexact


@pytest.mark.parametrize("name", ["mma", "mma_swizzled", "wmma"])
def test_machine_code_alone_counts_what_is_not_interpreted_yet(name: str) -> None:
    """The machine-code engine counts kernels with mma.sync and LDSM."""
    case, reading = next(c for c in CASES if c.name == name), KNOWN.kernels[name]
    compiled = compare.compile_case(case)
    if reading.code != readings.code_of(compiled.cubin, compiled.entry):
        pytest.skip("another compiler makes other machine code than was measured")
    kernel, arguments = parser.parse(compiled.ptx).kernels[compiled.entry], list(case.arguments())
    memory = GlobalMemory(buffers_of(arguments), [])
    parameters = parameter_block(kernel, arguments, memory)
    launch = LaunchInfo(kernel, case.shape, shared_bytes=compiled.resources.shared_bytes, parameters=parameters)
    found = totals(machinecode.count(machinecode.prepare(compiled), launch, lambda: memory))
    assert {short: found[COUNTED[short]] for short in reading.metrics} == reading.metrics


def test_enough_is_measured() -> None:
    """There are at least 24 kernels, every required access pattern, and every lesson that has a solution."""
    assert len(KNOWN.kernels) >= 240
    measured = " ".join(case.covers for case in CASES if case.name in KNOWN.kernels)
    for pattern in (
        "coalesced", "strided", "misaligned", "broadcast", "64-bit", "128-bit", "2 ways", "4 ways", "8 ways", "16 ways",
        "32 ways", "uniform per 16 lanes", "uniform per 8 lanes", "partial warp", "predicated lanes", "padded",
        "swizzled", "loops that ptxas widens", "ragged edges", "double buffering", "course solution",
    ):  # fmt: skip
        assert pattern in measured, pattern


@pytest.mark.parametrize("probe", SHARED)
def test_wavefronts_of_patterns(probe: str) -> None:
    addresses = patterns.as_array(patterns.shared_patterns(probe)).astype(np.int64)
    active = addresses >= 0
    kind = KINDS[probe.partition("_")[0]]
    width = patterns.SHARED_PROBES[probe][0]
    measured = SHARED[probe]
    assert (np.array(measured["threads"]) == active.sum(axis=1)).all(), "the readings belong to other patterns"
    if kind == "matrix":
        active &= banks.rows_of_matrices(4 * int(probe.rpartition("_")[2].rstrip("t")), patterns.WARP)
    cost, ideal = banks.wavefronts(addresses, active, width, kind)
    assert (cost == np.array(measured["wavefronts"])).all()
    assert (ideal == np.array(measured["ideal"])).all()


@pytest.mark.parametrize("width", [1, 4, 8, 16])
@pytest.mark.parametrize("access", ["load", "store", "atomic", "matrix"])
def test_costs_that_are_kept_are_those_of_a_pattern_moved_by_words(width: int, access: banks.AccessKind) -> None:
    draw = np.random.default_rng([width, len(access)])
    rows = draw.integers(0, 64, (6, 32)) * max(width, 4)
    active = draw.integers(0, 4, rows.shape) > 0
    for mask in (None, active):
        for away in (0, 4 * 5, 4 * 32, 4 * 77):
            found = banks.wavefronts(rows + away, mask, width, access)
            banks._recent.clear()
            fresh = banks.wavefronts(rows + away, mask, width, access)
            assert all(np.array_equal(one, other) for one, other in zip(found, fresh, strict=True))
            banks.wavefronts(rows, mask, width, access)
    assert len(banks._recent) == 1


@pytest.mark.parametrize("probe", patterns.COPY_PROBES)
def test_wavefronts_of_copies_through_l1(probe: str) -> None:
    """Exact where the rule is certain, for copies with bank conflicts on one side alone; a lower bound elsewhere."""
    target, source = (patterns.as_array(found).astype(np.int64) for found in patterns.copy_patterns(probe))
    active, measured, width = target >= 0, COPIES[probe], patterns.COPY_PROBES[probe][0]
    assert (np.array(measured["threads"]) == active.sum(axis=1)).all(), "the readings belong to other patterns"
    sure = 0
    for one in range(len(target)):
        row = slice(one, one + 1)
        cost, ideal, certain = copies.through_l1(target[row], source[row], active[row], width)
        assert ideal[0] == measured["ideal"][one]
        assert cost[0] == measured["wavefronts"][one] or not certain
        assert cost[0] <= measured["wavefronts"][one]
        sure += certain
    assert sure > 0.7 * len(target)


def test_wavefronts_of_copies_past_l1() -> None:
    target, source = (patterns.as_array(found).astype(np.int64) for found in patterns.copy_patterns(patterns.BYPASS))
    cost, ideal, _, _ = copies.past_l1(target, source, target >= 0)
    measured = COPIES[patterns.BYPASS]
    assert np.flatnonzero(cost != np.array(measured["wavefronts"])).tolist() == [70], "one is not understood"
    assert (ideal == np.array(measured["ideal"])).all()


@pytest.mark.parametrize("probe", patterns.ZERO_PROBES)
def test_wavefronts_of_copies_that_write_zeros(probe: str) -> None:
    """Exact where the rule is certain."""
    target, source, sizes = (patterns.as_array(found).astype(np.int64) for found in patterns.zero_patterns(probe))
    active, measured, width = target >= 0, ZEROS[probe], patterns.ZERO_PROBES[probe][0]
    past = "bypass" in probe
    ignoring = np.zeros_like(active) if probe in patterns.BY_P0 else sizes == 0
    source = np.where(ignoring, copies.NOWHERE, source)
    sure = 0
    for one in range(len(target)):
        row = slice(one, one + 1)
        if past:
            fills = probe.startswith("zeros")
            cost, ideal, _, certain = copies.past_l1(target[row], source[row], active[row], fills)
        else:
            cost, ideal, certain = copies.through_l1(target[row], source[row], active[row], width)
        assert ideal[0] == measured["ideal"][one]
        assert cost[0] == measured["wavefronts"][one] or not certain
        sure += certain
    assert sure > 0.85 * len(target)


@pytest.mark.parametrize("probe", patterns.ZERO_PROBES)
def test_a_whole_kernel_that_writes_zeros(probe: str) -> None:
    """Machine code is followed to the wavefronts of some of the patterns; the first block makes the first copy."""
    path = KERNELS / "zero_probes.cu"
    kernel = must_compile(path.read_text(), path=str(path), entry=probe, defines={"BASE": patterns.ZEROS_BASE})
    tables = [patterns.as_array(found) for found in patterns.zero_patterns(probe)]
    data = Buffer("data", np.zeros(2 * patterns.COPIED, np.uint8))
    for one in range(0, 64, 7):
        parts = [Buffer(name, table[one : one + 1].copy()) for name, table in zip("abc", tables, strict=True)]
        launched = Simulator().launch(kernel, Grid((1, 1, 1), (32, 1, 1), patterns.WINDOW), [*parts, data])
        assert launched.fault is None
        measured = (ZEROS[probe][counter][one] for counter in ("wavefronts", "ideal"))
        names = ("shared_wavefronts", "shared_wavefronts_ideal")
        assert [launched.counters[name] for name in names] == list(measured)
        assert not launched.counters.inexact


@pytest.mark.parametrize("probe", GLOBAL)
def test_sectors_of_patterns(probe: str) -> None:
    width = patterns.GLOBAL_PROBES[probe][0]
    addresses = patterns.as_array(patterns.global_patterns(probe)).astype(np.int64)
    active = addresses >= 0
    assert (banks.sectors(addresses, active, width) == np.array(GLOBAL[probe]["sectors"])).all()
    assert (active.any(axis=1) == np.array(GLOBAL[probe]["requests"])).all()
