"""Fixtures and hooks of all tests.

Tests marked ``stored`` compare with numbers from one compiler; with another they are skipped, with the reason
(``python -m checks.versions``).
"""

from __future__ import annotations

import fcntl
import gc
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import pytest

from checks.together import Helpers, Together, of_module
from gemm_lessons.engine import api
from gemm_lessons.engine.process.address_space import NO_RESERVE
from gemm_lessons.engine.simulator import Setting, Simulator

pytest_plugins = ("gemm_lessons.grading.plugin",)  # pytest checks --submissions DIR

# With it, each command line that a test starts would compile the whole package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the tests have the other cores

FRESH_OBJECTS = 50_000  # between two garbage collections, as in ``cli.run``
STORED_WITH = "13.5"  # the nvidia-cuda-nvrtc that the extra [test] requires


def compiler() -> str:
    """Major and minor version of the installed compiler; "none" without one."""
    try:
        return ".".join(version("nvidia-cuda-nvrtc").split(".")[:2])
    except PackageNotFoundError:
        return "none"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--both-engines``."""
    words = "have the machine code's engine follow every kernel of the tests that follow only those marked 'counted'"
    parser.addoption("--both-engines", action="store_true", help=words)


def is_counted(item: pytest.Item) -> bool:
    """Whether the machine-code engine runs a test's launches, too, where a file leaves it out otherwise: with the mark
    ``counted``, or all of them with ``--both-engines``."""
    return item.get_closest_marker("counted") is not None or bool(item.config.getoption("both_engines"))


@pytest.fixture
def counting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """``is_counted``. Disassembling a kernel takes longer than most of these tests."""
    wanted = is_counted(request.node)
    if not wanted:
        monkeypatch.setattr(api, "Simulator", partial(Simulator, Setting(counting=False)))
    return wanted


@pytest.fixture(scope="module")
def helpers() -> Helpers:
    """What tests are given besides their parameters when ``checks.together`` looks for their kernels."""
    return lambda item: {}


@pytest.fixture(scope="module")
def programs(request: pytest.FixtureRequest, helpers: Helpers) -> Together | None:
    """The file's kernels compiled several at a time, if it sets ``TOGETHER``."""
    return of_module(request, helpers)


@pytest.fixture
def together(programs: Together | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``simulate`` and ``engine.compile`` take their kernels from these programs."""
    if programs is not None:
        monkeypatch.setattr(api, "take", programs.take)


@pytest.fixture
def interrupted() -> Iterator[Callable[[float, Callable[[], object]], None]]:
    """``interrupted(seconds, work)`` calls ``work()`` and sends SIGINT after that time, also where a background job
    ignores it. On a busy machine the signal may come before the work has begun."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(seconds: float, work: Callable[[], object]) -> None:
        with pytest.raises(KeyboardInterrupt):
            _work(seconds, work)

    yield interrupted
    signal.signal(signal.SIGINT, before)


def _work(seconds: float, work: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    work()
    timer.join()


@pytest.fixture
def address_space() -> None:
    """Skip the test where a process cannot reserve 64 TiB of addresses, as under ``ulimit -v``; the compiler's process
    reserves most of its address space."""
    try:
        mmap.mmap(-1, 1 << 46, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE, prot=0).close()
    except OSError:
        pytest.skip("this system limits a process's address space")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, object, object]:
    """Let only one worker import a file at a time: the first rewrites its assertions, the others read the result."""
    if not isinstance(collector, pytest.Module) or "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    with open(collector.path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run tests marked ``untraced`` and their fixtures without coverage: tracing them would double their time."""
    if not item.get_closest_marker("untraced"):
        return (yield)
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


def pytest_collection_finish() -> None:
    """Freeze what has been imported and collected: it lives to the end, so the garbage collector need not scan it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(FRESH_OBJECTS, 10, 100)


def pytest_sessionfinish() -> None:
    """Collect once what was left unclosed. Then freeze the rest: pytest collects five times more."""
    gc.collect()
    gc.freeze()


def _slow_ones_first(items: list[pytest.Item], workers: int) -> None:
    """Put slow tests first in the share of each worker, so that none runs last while the other workers are idle.
    ``--dist worksteal`` gives each worker an equal, contiguous share."""
    groups: tuple[list[pytest.Item], list[pytest.Item]] = [], []
    for item in items:
        groups[item.get_closest_marker("slow") is None].append(item)
    items[:] = [
        item
        for number in range(workers)
        for group in groups
        for item in group[len(group) * number // workers : len(group) * (number + 1) // workers]
    ]


@pytest.hookimpl(trylast=True)  # after -m has deselected tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _slow_ones_first(items, getattr(config, "workerinput", {}).get("workercount", 1))
    if (here := compiler()) == STORED_WITH:
        return
    for item in items:
        if item.get_closest_marker("stored"):
            reason = f"stored with NVRTC {STORED_WITH}, {here} is installed"
            item.add_marker(pytest.mark.skip(reason=reason))
