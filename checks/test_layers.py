"""The one-way flow: nothing imports what comes after it, no cycles, and heavy libraries stay where they belong."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import gemm_lessons

PACKAGE = Path(gemm_lessons.__file__).parent
# The flow from its source to its end. No module may reach, directly or through others, one that comes after it.
SPINE = "device lesson problem compiler simulator gpu estimate verdict hints pipeline worker grading report cli".split()
PLANNED = {"gpu", "worker", "grading"}  # named by the architecture, built by later issues
OWNERS = {
    "rich": ("report",),
    "typer": ("cli", "cli_gpu", "cli_inspect", "cli_options", "cli_run"),
    "cupy": ("gpu", "compiler", "nvrtc"),
    "cupyx": ("gpu",),
    "cuda": ("nvrtc",),
    "nvtx": ("ranges",),
}


def top(path: Path) -> str:
    """``simulator`` for everything in that folder, else the module's name; the package itself is ""."""
    name = path.relative_to(PACKAGE).with_suffix("").parts[0]
    return "" if name == "__init__" else name


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that is imported when the program runs, also inside functions, with its line."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            if node.module == "gemm_lessons":
                yield from ((f"gemm_lessons.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module or "", node.lineno


@cache
def graph() -> dict[str, dict[str, str]]:
    """module -> what it imports of the package -> where."""
    modules = {top(path) for path in PACKAGE.rglob("*.py")}
    found: dict[str, dict[str, str]] = {module: {} for module in modules}
    for path in PACKAGE.rglob("*.py"):
        for name, line in imports(path):
            root, *rest = name.split(".")
            other = rest[0] if rest else ""
            # "" only holds the version and a lazy door to simulate().
            if root == "gemm_lessons" and other in modules - {"", top(path)} and top(path):
                found[top(path)].setdefault(other, f"{path.relative_to(PACKAGE)}:{line}")
    return found


def paths_from(module: str) -> dict[str, list[str]]:
    """Everything that a module reaches -> the imports that lead there."""
    reached: dict[str, list[str]] = {}
    waiting: list[tuple[str, list[str]]] = [(module, [])]
    while waiting:
        here, way = waiting.pop()
        for other, where in graph()[here].items():
            if other not in reached:
                reached[other] = [*way, f"{where} imports {other}"]
                waiting.append((other, reached[other]))
    return reached


@pytest.mark.parametrize("module", [name for name in SPINE if name not in PLANNED or name in graph()])
def test_the_flow_goes_one_way(module: str) -> None:
    reached = paths_from(module)
    for later in SPINE[SPINE.index(module) + 1 :]:
        assert later not in reached, f"{module} reaches {later}: " + ", ".join(reached[later])


@pytest.mark.parametrize("module", sorted(graph()))
def test_no_cycles(module: str) -> None:
    reached = paths_from(module)
    assert module not in reached, ", ".join(reached.get(module, []))


@pytest.mark.parametrize("library", OWNERS)
def test_libraries_stay_where_they_belong(library: str) -> None:
    used = {
        top(path): f"{path.relative_to(PACKAGE)}:{line}"
        for path in PACKAGE.rglob("*.py")
        for name, line in imports(path)
        if name.split(".")[0] == library
    }
    assert not {module: where for module, where in used.items() if module not in OWNERS[library]}


def test_this_test_sees_the_imports() -> None:
    assert "device" in graph()["lesson"]
    assert {"device", "simulator", "compiler", "lesson"} <= paths_from("pipeline").keys()
