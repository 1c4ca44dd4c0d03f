"""The kernels of a test file, compiled several at a time: twenty together take as long as one and a half alone.

A test file switches it on with ``TOGETHER = True``. Each of its tests is first called with a stand-in for the compiler,
which notes the source and stops the test. Then the tests run unchanged, and each gets its kernel from a program of up
to ``MOST``, with its own source and line numbers. A kernel is compiled alone if it cannot share a program, if its
program does not compile, or if it is not the first that its test compiles.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pytest

from gemm_lessons.engine import api
from gemm_lessons.engine.compiler import includes
from gemm_lessons.engine.compiler.compile import Compiled, NotCompiled, compile_source
from gemm_lessons.engine.compiler.ptx_file import take as alone

MOST = 16  # kernels in a program
PATH = "kernel.cu"  # of simulate()
HEAD = re.compile(r'\bextern "C" __global__ ')
NAME = re.compile(r"\bk(?=\s*\()")
UNFIT = re.compile(r"#|\bextern\s+__shared__|\basm\b[^;]*\.(entry|func)|__cluster_dims__")

Helpers = Callable[[pytest.Item], Mapping[str, Any]]
Wanted = tuple[str, str]  # source, architecture


class _Seen(BaseException):
    """Stops a test at its first kernel."""


@dataclass(frozen=True)
class _Part:
    """A source in two parts: the text before its only kernel, and the kernel."""

    before: str
    kernel: str
    line: int  # where the kernel begins

    @classmethod
    def of(cls, source: str) -> _Part | None:
        found = HEAD.search(source)
        if found is None or source.count("__global__") != 1:
            return None
        before, kernel = source[: found.start()], source[found.start() :].rstrip()
        if UNFIT.search(kernel) or '#include "' in before or not NAME.search(kernel):
            return None
        depth = 0
        for place, character in enumerate(kernel):
            depth += {"{": 1, "}": -1}.get(character, 0)
            if character == "}" and depth <= 0:
                whole = depth == 0 and place == len(kernel) - 1
                return cls(before, kernel, before.count("\n") + 1) if whole else None
        return None


class Together:
    """The programs of one test file; compiled when a test asks for one of their kernels."""

    def __init__(self, items: Iterable[pytest.Item], helpers: Helpers) -> None:
        groups: dict[Wanted, list[tuple[str, _Part]]] = defaultdict(list)
        for source, arch in dict.fromkeys(_wanted(items, helpers)):
            if part := _Part.of(source):
                groups[part.before, arch].append((source, part))
        self._programs: dict[Wanted, tuple[str, str]] = {}
        for (before, arch), members in groups.items():
            for first in range(0, len(members), MOST):
                if len(chosen := members[first : first + MOST]) > 1:
                    self._join(before, arch, chosen)

    def _join(self, before: str, arch: str, members: Sequence[tuple[str, _Part]]) -> None:
        names = [f"k{number}" for number in range(len(members))]
        kernels = [
            f"\n#line {part.line}\n{NAME.sub(name, part.kernel, count=1)}"
            for name, (_, part) in zip(names, members, strict=True)
        ]
        program = before + "".join(kernels)
        for name, (source, _) in zip(names, members, strict=True):
            self._programs[source, arch] = program, name

    def take(self, source: str, *, path: str, entry: str, **options: Any) -> Compiled | NotCompiled:
        """Compile a source as ``api.take`` does, in its program if it is part of one."""
        known = self._programs.get((source, options.get("arch", ""))) if _is_plain(path, entry, options) else None
        if known is not None:
            made = compile_source(known[0], path=path, entry=known[1], **options)
            if isinstance(made, Compiled):
                return replace(made, source=source)
        return alone(source, path=path, entry=entry, **options)


def _is_plain(path: str, entry: str, options: Mapping[str, Any]) -> bool:
    return path == PATH and entry == "k" and not options.get("defines") and not options.get("include_dirs")


def _wanted(items: Iterable[pytest.Item], helpers: Helpers) -> list[Wanted]:
    """The first source that each of these tests compiles."""
    found: list[Wanted] = []

    def seen(source: str, *, path: str, entry: str, **options: Any) -> None:
        if _is_plain(path, entry, options):
            found.append((source, options["arch"]))
        raise _Seen

    def elsewhere(*_: object) -> None:
        raise _Seen

    # compile_source() looks at includes first.
    with mock.patch.object(api, "take", seen), mock.patch.object(includes, "forbidden", elsewhere):
        for item in items:
            function = item.function  # type: ignore[attr-defined]
            names = inspect.signature(function).parameters
            with pytest.MonkeyPatch.context() as patch:
                params = getattr(getattr(item, "callspec", None), "params", {})
                given = {"monkeypatch": patch, **helpers(item), **params}
                if set(names) <= set(given):
                    # What else goes wrong, the test itself will say.
                    with contextlib.suppress(_Seen, Exception):
                        function(**{name: given[name] for name in names})
    return found


def of_module(request: pytest.FixtureRequest, helpers: Helpers) -> Together | None:
    """The programs of the requesting test file; None without ``TOGETHER = True``."""
    if not getattr(request.module, "TOGETHER", False):
        return None
    module = request.module.__name__
    return Together((it for it in request.session.items if getattr(it, "module", None).__name__ == module), helpers)
