"""``regex``: a pattern like the standard library's, compiled on first use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from checks.rooms import ENGINE, PACKAGE, Package
from gemm_lessons.engine.records.regex import regex

MODULES = {name: path for name, path in Package(PACKAGE).modules.items() if name.startswith(f"{ENGINE}.")}


def test_it_is_compiled_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = re.compile

    def noted(text: str, flags: int) -> re.Pattern[str]:
        compiled.append(text)
        return real(text, flags)

    monkeypatch.setattr(re, "compile", noted)
    word = regex(r"[a-z]+", re.IGNORECASE)
    assert not compiled
    for _ in range(2):
        assert word.findall("Ab, 3 cd") == ["Ab", "cd"]
    assert compiled == [r"[a-z]+"]


def test_it_answers_like_a_pattern() -> None:
    text, flags = r"(?P<name>[a-z]+)=(\d+)", re.MULTILINE
    late, real = regex(text, flags), re.compile(text, flags)
    line = "a=1 bc=22"
    assert (late.pattern, late.flags, late.groups, late.groupindex) == (
        real.pattern, real.flags, real.groups, real.groupindex,
    )  # fmt: skip
    assert late.sub("x", line) == real.sub("x", line)
    for method in ("match", "search", "fullmatch"):
        ours, theirs = getattr(late, method)(line, 4), getattr(real, method)(line, 4)
        assert ours.groups() == theirs.groups() if theirs else ours is None
    assert [found.span() for found in late.finditer(line)] == [found.span() for found in real.finditer(line)]
    with pytest.raises(AttributeError):
        _ = late.nothing  # type: ignore[attr-defined]


def test_importing_the_engine_compiles_none() -> None:
    """``report`` comes before ``records``, and has two short ones."""
    compiled = [
        f"{name}:{node.lineno}"
        for name, path in MODULES.items()
        if not name.startswith(f"{ENGINE}.report.")
        for node in at_import(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile"
    ]
    assert not compiled


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a module that run when it is imported."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            yield node
            yield from at_import(node)
