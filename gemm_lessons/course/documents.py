"""Texts that are not lessons: the kit's pages in ``docs/``, a course's own beside its lessons, and lessons' appendices.

``gemm-lessons read NAME`` shows one; ``gemm-lessons site`` writes a web page of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gemm_lessons.course.folder import Course, read_source
from gemm_lessons.engine.records.frozen import dataclass

PAGES = Path(__file__).resolve().parents[1] / "docs"


@dataclass(frozen=True)
class Document:
    """A Markdown text; ``name`` is its word for ``read`` and the stem of its web page."""

    name: str
    title: str
    path: Path


def page_names() -> list[str]:
    """Return the names of the kit's pages, in order."""
    return sorted(path.stem for path in PAGES.glob("*.md"))


def documents(course: Course) -> dict[str, Document]:
    """Return the texts by name: the kit's pages, then the course's. A text of the course replaces a page of that name.
    Raise ``CommandError`` for one that cannot be read."""
    return {document.name: document for document in _found(course)}


def _found(course: Course) -> Iterator[Document]:
    for name in page_names():
        yield _document(name, PAGES / f"{name}.md")
    for path in sorted(course.lessons_dir.glob("*/*.md")):
        if path.parent.name not in course.names:
            yield _document(path.parent.name if path.stem == "README" else path.stem.lower(), path)
        elif path.stem != "README":
            yield _document(f"{path.parent.name[3:]}_{path.stem.lower()}", path)  # any_shape_appendix


def _document(name: str, path: Path) -> Document:
    title = re.search(r"^# (.+)$", read_source(path), re.MULTILINE)
    return Document(name, title[1] if title else name, path)
