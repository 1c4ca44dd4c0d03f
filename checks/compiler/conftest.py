"""Fixtures that compile without a cache; tests of the cache switch it on themselves."""

from collections.abc import Callable
from typing import Any

import pytest

from checks.compiling import must_compile
from gemm_lessons.engine.compiler.compile import Compiled, Diagnostic, NotCompiled, compile_source


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMM_LESSONS_NO_CACHE", "1")


@pytest.fixture
def compiled() -> Callable[..., Compiled]:
    def build(source: str, entry: str = "gemm", path: str = "kernel.cu", **options: Any) -> Compiled:
        return must_compile(source, path=path, entry=entry, **options)

    return build


@pytest.fixture
def errors() -> Callable[..., tuple[Diagnostic, ...]]:
    def build(source: str, entry: str = "gemm", path: str = "kernel.cu", **options: Any) -> tuple[Diagnostic, ...]:
        result = compile_source(source, path=path, entry=entry, **options)
        assert isinstance(result, NotCompiled)
        found = tuple(d for d in result.diagnostics if d.severity == "error")
        assert found
        return found

    return build
