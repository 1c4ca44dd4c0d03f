"""Rooms of the package, arrows between them, names that each gives the others, and circles, read from the imports.

    python -m checks.rooms [--arrows] [FOLDER]      of this package, or of the one in FOLDER

A room is a folder or a module at the top of the package; inside ``engine``, one below it. An arrow runs from a room to
one that it imports; imports inside functions and for types count, too. A circle is a chain of imports that returns to
the module that it starts from. The public names of a room are those that its ``__init__.py`` imports on first use; this
table is not counted as imports of the room.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import gemm_lessons

PACKAGE = Path(gemm_lessons.__file__).parent
ENGINE = "engine"

Arrows = dict[tuple[str, str], list[str]]  # from, to -> where: "file:line"


@dataclass(frozen=True)
class Import:
    """A name that a module imports, such as ``gemm_lessons.gemm.Shape``, and the line that does.

    ``source``: the module after ``from``; empty for a plain import
    """

    name: str
    line: int
    source: str = ""


@dataclass(frozen=True, eq=False)
class Package:
    """The modules of a package by their dotted names; a folder's ``__init__.py`` is the folder."""

    folder: Path

    @cached_property
    def modules(self) -> Mapping[str, Path]:
        """Name -> file. The package itself is the empty name."""
        return {self._name_of(path): path for path in sorted(self.folder.rglob("*.py"))}

    @cached_property
    def imports(self) -> Mapping[str, Sequence[Import]]:
        """All that each module imports. Raises ``ValueError`` for a relative import."""
        return {module: self._imports_of(path) for module, path in self.modules.items()}

    @cached_property
    def graph(self) -> Mapping[str, Mapping[str, str]]:
        """Module -> the modules of this package that it imports -> the first place, "file:line"."""
        found: dict[str, dict[str, str]] = {module: {} for module in self.modules}
        for module, imports in self.imports.items():
            for one in imports:
                root, _, other = one.name.partition(".")
                while other and other not in self.modules:
                    other = other.rpartition(".")[0]
                if root == "gemm_lessons" and other not in ("", module):
                    where = f"{self.modules[module].relative_to(self.folder)}:{one.line}"
                    found[module].setdefault(other, where)
        return found

    def arrows(self, inside: str = "") -> Arrows:
        """Arrows between the rooms at the top, or between those ``inside`` one of them. The package's own
        ``__init__.py`` draws none: it holds the version and two lazy imports."""
        found: Arrows = {}
        for module, others in self.graph.items():
            for other, where in others.items():
                pair = room_of(module, inside), room_of(other, inside)
                if all(pair) and pair[0] != pair[1]:
                    found.setdefault(pair, []).append(where)
        return dict(sorted(found.items()))

    def taken(self) -> dict[str, set[str]]:
        """Module -> the names that other rooms import from it; what the package's own ``__init__.py`` imports is not
        counted. A module of the engine is imported from the room that it is in, or from the engine."""
        found: dict[str, set[str]] = {}
        for module, imports in self.imports.items():
            for one in imports:
                root, _, source = one.source.partition(".")
                if module and root == "gemm_lessons" and source and room_of(source) != room_of(module):
                    found.setdefault(source, set()).add(one.name.removeprefix(f"{one.source}."))
        return dict(sorted(found.items()))

    def given(self, room: str) -> set[str]:
        """The public names of a room."""
        table = _table_of(ast.parse(self.modules[room].read_text()))
        return {alias.name for node in table if isinstance(node, ast.ImportFrom) for alias in node.names}

    def rooms(self, inside: str = "") -> list[str]:
        """The rooms at the top, or those ``inside`` one of them."""
        return sorted({room for module in self.modules if (room := room_of(module, inside))})

    def circles(self) -> list[tuple[str, ...]]:
        """Chains of imports that end at the module that they start from: one for each import that closes a circle in a
        depth-first search. Empty only if there are no circles."""
        found: list[tuple[str, ...]] = []
        finished: set[str] = set()

        def visit(module: str, way: tuple[str, ...]) -> None:
            if module in way:
                found.append((*way[way.index(module) :], module))
            elif module not in finished:
                for other in self.graph[module]:
                    visit(other, (*way, module))
                finished.add(module)

        for module in self.modules:
            visit(module, ())
        return found

    def _name_of(self, path: Path) -> str:
        parts = path.relative_to(self.folder).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @staticmethod
    def _imports_of(path: Path) -> Sequence[Import]:
        found: list[Import] = []
        tree = ast.parse(path.read_text())
        table = _table_of(tree)
        for node in ast.walk(tree):
            if node in table:
                continue
            if isinstance(node, ast.Import):
                found += (Import(alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                if node.level:
                    raise ValueError(f"{path}:{node.lineno}: imports are absolute")
                found += (Import(f"{node.module}.{it.name}", node.lineno, str(node.module)) for it in node.names)
        return found


def room_of(module: str, inside: str = "") -> str:
    """The room that a module belongs to: ``course`` for ``course.lesson``; empty for what is outside of ``inside``."""
    if not inside:
        return module.partition(".")[0]
    room, _, rest = module.partition(".")
    return rest.partition(".")[0] if room == inside else ""


def _table_of(tree: ast.Module) -> Sequence[ast.stmt]:
    """The imports of a room's public names: under ``if TYPE_CHECKING:`` with an ``else``, which defines
    ``__getattr__``."""
    tables = (it for it in tree.body if isinstance(it, ast.If) and "__getattr__ = on_first_use" in ast.unparse(it))
    return next((it.body for it in tables), [])


def main() -> None:
    """Print rooms, arrows, shared names and circles."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], prog="python -m checks.rooms")
    parser.add_argument("folder", nargs="?", type=Path, default=PACKAGE, help="the package to read")
    parser.add_argument("--arrows", action="store_true", help="list every arrow with its first import")
    options = parser.parse_args()
    package = Package(options.folder.resolve())
    for inside in ("", ENGINE):
        rooms, arrows = package.rooms(inside), package.arrows(inside)
        if rooms:
            print(f"{'inside ' + inside if inside else 'top'}: {len(rooms)} rooms, {len(arrows)} arrows")
            print("  " + " ".join(rooms))
            if options.arrows:
                for (room, other), where in arrows.items():
                    print(f"  {room} -> {other}  {len(where)}x, {where[0]}")
    print("names that other rooms import:")
    for module, names in package.taken().items():
        print(f"  {module}: {len(names)}")
    circles = package.circles()
    print(f"circles: {len(circles)}")
    for circle in circles:
        print("  " + " -> ".join(circle))


if __name__ == "__main__":
    main()
