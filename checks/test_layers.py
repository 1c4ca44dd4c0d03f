"""The one-way flow: nothing imports what comes after it, no cycles, heavy libraries stay where they belong, and nothing
is left that nobody uses."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

import gemm_lessons

PACKAGE = Path(gemm_lessons.__file__).parent
# Every module and room of the package, from its foundations to its doors. None imports one that comes after it, also
# not for its types. The rooms of the simulator have an order of their own.
ORDER = (
    "errors frozen encodings elements ranges launch bounds address_space child hardware compiler course editor "
    "simulator arguments api gpu device estimate judgement run view proofs grading export report watch cli notebook "
    "__main__"
).split()
SIMULATOR = "semantics program events machine checkers counters second_opinion limits remains unforeseen".split()
OWNERS = {
    "rich": ("report",),
    "typer": ("cli",),
    "cupy": ("gpu", "compiler"),
    "cuda": ("compiler", "gpu"),
    "nvtx": ("ranges",),
    "matplotlib": ("report",),
    "IPython": ("notebook",),
    "jinja2": ("export", "report"),
    "markdown_it": ("report",),
    "pygments": ("report",),
    "watchfiles": ("watch",),
}
# By IPython, by pytest, by the parser of HTML that a class is made of, by Python as it ends.
CALLED_FROM_OUTSIDE = "load_ipython_extension _repr_html_ test_submission handle_starttag _close_all".split()


def name_of(path: Path) -> str:
    """``simulator.machine.state``; a folder's ``__init__.py`` is the folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def imports(path: Path) -> Sequence[tuple[str, int]]:
    """Everything that a module imports, also inside functions and for its types, with its line."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            found += ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
    return found


@cache
def graph() -> dict[str, dict[str, str]]:
    """module -> what it imports of the package -> where."""
    found: dict[str, dict[str, str]] = {module: {} for module in MODULES}
    for module, path in MODULES.items():
        for name, line in imports(path):
            root, _, other = name.partition(".")
            while other and other not in MODULES:
                other = other.rpartition(".")[0]
            if root == "gemm_lessons" and other not in ("", module):
                found[module].setdefault(other, f"{path.relative_to(PACKAGE)}:{line}")
    return found


def test_every_module_has_a_place() -> None:
    tops = {module.partition(".")[0] for module in MODULES if module}
    assert tops == set(ORDER)
    assert {m.split(".")[1] for m in MODULES if m.startswith("simulator.")} == set(SIMULATOR)


def test_the_flow_goes_one_way() -> None:
    wrong = []
    for module, others in graph().items():
        if not module:  # holds the version and a lazy door to simulate()
            continue
        for other, where in others.items():
            here, there = module.split("."), other.split(".")
            if ORDER.index(there[0]) > ORDER.index(here[0]):
                wrong.append(f"{where}: {module} imports {other}")
            inside = here[0] == there[0] == "simulator" and len(here) > 1 < len(there)
            if inside and SIMULATOR.index(there[1]) > SIMULATOR.index(here[1]):
                wrong.append(f"{where}: {module} imports {other}")
    assert not wrong, "\n".join(wrong)


def test_no_cycles() -> None:
    finished: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, f"a circle: {' -> '.join((*way[way.index(module) :], module))}"
        if module not in finished:
            for other in graph()[module]:
                visit(other, (*way, module))
            finished.add(module)

    for module in MODULES:
        visit(module, ())


@pytest.mark.parametrize("library", OWNERS)
def test_libraries_stay_where_they_belong(library: str) -> None:
    used = {
        module: f"{path.relative_to(PACKAGE)}:{line}"
        for module, path in MODULES.items()
        for name, line in imports(path)
        if name.split(".")[0] == library
    }
    assert used
    assert not {module: where for module, where in used.items() if module.split(".")[0] not in OWNERS[library]}


def test_a_name_means_one_class() -> None:
    names = Counter(
        node.name
        for path in MODULES.values()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not [name for name, times in names.items() if times > 1]


def defined(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that a piece of code defines, for others to use, with its line."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name, node.lineno
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Name):
                    yield part.id, node.lineno
                elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
                    yield part.attr, node.lineno


def test_nothing_is_dead() -> None:
    """What stands once in the package is its own definition: no code asks for it, no template and no comment."""
    texts = {path: path.read_text() for path in MODULES.values()}
    templates = (path.read_text() for folder in ("export", "report") for path in (PACKAGE / folder).rglob("*.jinja"))
    times = Counter(word for text in (*texts.values(), *templates) for word in re.findall(r"\w+", text))
    dead = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path, text in texts.items()
        for node in ast.walk(ast.parse(text))
        for name, line in defined(node)
        if times[name] == 1 and name not in CALLED_FROM_OUTSIDE and not name.startswith(("pytest_", "__"))
    ]
    assert not dead, "\n".join(dead)


def test_the_map_in_the_readme_is_the_tree() -> None:
    readme = (PACKAGE.parent / "README.md").read_text()
    drawn = readme.split("\ngemm_lessons/\n")[1].split("```")[0]
    named = set(re.findall(r"^  (\w+)(?:\.py|/) ", drawn, re.MULTILINE))
    assert named == set(ORDER) - {"__main__"}
    rooms = set(re.findall(r"^    (\w+)(?:\.py|/) ", drawn, re.MULTILINE))
    assert rooms == set(SIMULATOR)


def test_the_map_of_a_room_names_its_modules() -> None:
    """Where the docstring of a room is a list."""
    missing, rooms = [], 0
    for room, path in MODULES.items():
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if path.name == "__init__.py" and "\n- ``" in text:
            inside = {module.rpartition(".")[2] for module in MODULES if module.rpartition(".")[0] == room}
            missing += [f"{room}: {name}" for name in inside - set(re.findall(r"``(\w+)``", text))]
            rooms += 1
    assert not missing
    assert rooms >= 5


def test_files_that_are_named_are_there() -> None:
    """In docstrings and comments."""
    known = {path.name for folder in (PACKAGE, PACKAGE.parent / "checks") for path in folder.rglob("*.py")}
    known.add("numpy.py")  # what a learner may call a file
    gone = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in MODULES.values()
        for name in re.findall(r"\b\w+\.py\b", path.read_text())
        if name not in known
    ]
    assert not gone


def test_this_test_sees_the_imports() -> None:
    assert "course.folder" in graph()["run.pipeline"]
    assert "compiler.compile" in graph()["device"], "also those for types"
