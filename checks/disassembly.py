"""Machine code of many kernels with few calls of ``nvdisasm``, which takes as long for sixteen kernels as for one.

The texts go into the cache of compilations, where the kernel's own disassembly finds them: a test runs unchanged, and
only faster. They are equal (``checks/compiler/test_sass.py``). It is for files of tests that know their kernels
beforehand; ``authoring.candidate.kernels_of`` has those of a run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gemm_lessons.engine.compiler.compile import Compiled, disassemble_ahead

MOST = 16  # kernels of one call


class Groups:
    """Kernels by name, in groups that are disassembled when the first of the group is needed. ``place``: a folder of
    this session, which all its processes share. ``compiled``: what is disassembled under a name; it may raise
    ``ValueError``."""

    def __init__(self, place: Path, names: Sequence[Any], compiled: Callable[[Any], Iterable[Compiled]]) -> None:
        self._place, self._compiled = place, compiled
        self._groups = [names[first : first + MOST] for first in range(0, len(names), MOST)]
        self._number = {name: number for number, group in enumerate(self._groups) for name in group}

    def need(self, name: Hashable) -> None:
        """Disassemble the group of this kernel, unless a process of this session has done it."""
        number = self._number.get(name)
        if number is None:
            return
        done = self._place / f"disassembled-{number}"
        with done.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                disassemble_ahead(self._of(self._groups[number]))
                done.touch()

    def _of(self, names: Sequence[Any]) -> list[Compiled]:
        found: list[Compiled] = []
        for name in names:
            with contextlib.suppress(ValueError):
                found += self._compiled(name)
        return found


def groups_of(
    request: pytest.FixtureRequest,
    factory: pytest.TempPathFactory,
    test: str,
    parameter: str,
    compiled: Callable[[Any], Iterable[Compiled]],
) -> Groups:
    """Return groups of the values that a parameter of this test has in this session."""
    items = [it for it in request.session.items if getattr(it, "originalname", "") == test]
    names = dict.fromkeys(it.callspec.params[parameter] for it in items)  # type: ignore[attr-defined]
    return Groups(folder_of_session(factory, test), list(names), compiled)


def folder_of_session(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return a folder that all processes of this session share."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    return folder
