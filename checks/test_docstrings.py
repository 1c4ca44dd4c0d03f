"""Docstrings and comments of the package name functions, modules and files that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gemm_lessons"
COMMENT = re.compile(r"(^|\s)# .*")
SNAKE = re.compile(
    r"``([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?:\(\))?``"
)  # a name of this code; CUDA's and PTX's look otherwise
DOTTED = re.compile(r"``(\w+)\.(?!csv|json|toml)(\w+)(?:\(\))?``")
FILE = re.compile(r"\b((?:checks|gemm_lessons|lessons/common)/[\w/.]+\.\w+)")


def split(source: str) -> tuple[frozenset[str], list[tuple[int, str]]]:
    """Return the words of a module's code, and its docstrings and comments with their lines."""
    texts, lines = [], source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            first = node.body[0]
            texts.append((first.lineno, text))
            for number in range(first.lineno - 1, first.end_lineno or 0):
                lines[number] = ""
    for number, line in enumerate(lines):
        if comment := COMMENT.search(line):
            texts.append((number + 1, comment[0]))
            lines[number] = line[: comment.start()]
    return frozenset(re.findall(r"\w+", "\n".join(lines))), texts


@cache
def modules() -> dict[Path, tuple[frozenset[str], list[tuple[int, str]]]]:
    return {path: split(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def quoted(pattern: re.Pattern[str]) -> list[tuple[str, re.Match[str], frozenset[str]]]:
    """Return what matches in the docstrings and comments, with file and line, and the words of that file's code."""
    return [
        (f"{path.relative_to(ROOT)}:{line}: {match[0]}", match, code)
        for path, (code, texts) in modules().items()
        for line, text in texts
        for match in pattern.finditer(text)
    ]


def test_names_between_backticks_exist() -> None:
    words = frozenset().union(*(code for code, _ in modules().values()))
    found = quoted(SNAKE)
    assert len(found) > 100
    assert not [place for place, match, _ in found if match[1] not in words]


def test_a_name_of_a_module_is_in_that_module() -> None:
    """Or in that folder: a module of it, or a name of its ``__init__``."""
    by_name: dict[str, set[str]] = {}
    for path, (code, _) in modules().items():
        by_name.setdefault(path.parent.name, {"py"}).add(path.stem)
        by_name.setdefault(path.parent.name if path.stem == "__init__" else path.stem, set()).update({"py"}, code)
    found = [it for it in quoted(DOTTED) if it[1][1] in by_name.keys() - it[2]]  # not a variable of the file itself
    assert len(found) > 20
    assert not [place for place, match, _ in found if match[2] not in by_name[match[1]]]


def test_files_exist() -> None:
    found = quoted(FILE)
    assert len(found) > 10
    assert not [place for place, match, _ in found if not (ROOT / match[1]).exists()]


def test_words_of_docstrings_and_comments_are_no_code() -> None:
    code, texts = split('def f():\n    """Calls ``gone``."""\n    return kept  # or lost\n')
    assert code == {"def", "f", "return", "kept"}
    assert [text.strip() for _, text in texts] == ["Calls ``gone``.", "# or lost"]
