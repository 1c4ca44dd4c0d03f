"""Texts that are not lessons: the kit's pages in ``docs/``, a course's own beside its lessons, and lessons' appendices.

``gemm-lessons read NAME`` shows one; ``gemm-lessons site`` writes a web page of each. One of them is the glossary, the
words of a run's screen: ``common/glossary.md``. An entry is a heading of the second level, one or more words with
commas between them, and the text below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gemm_lessons.course.folder import CommandError, Course, packaged_course, read_source
from gemm_lessons.engine.records import closest, dataclass

GLOSSARY = "glossary"  # its name for `read` and its page
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


def all_documents(course: Course) -> dict[str, Document]:
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


def glossary_path(course: Course) -> Path:
    """Return the course's glossary; that of the package for a course without one."""
    own = course.lessons_dir / "common" / "glossary.md"
    return own if own.is_file() else packaged_course().lessons_dir / "common" / "glossary.md"


def entries(text: str) -> Mapping[str, str]:
    """Return each word in lower case with its entry, heading and text."""
    found: dict[str, str] = {}
    for entry in re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]:
        heading = entry.partition("\n")[0].removeprefix("## ")
        found |= dict.fromkeys((word.strip().lower() for word in heading.split(",")), entry.strip() + "\n")
    return found


def entry_of(course: Course, word: str) -> str:
    """Return the entry of a word, in any case. Raise ``CommandError`` with a suggestion where there is none."""
    known = entries(read_source(glossary_path(course)))
    wanted = re.sub(r"[\s_]+", " ", word.strip().lower())
    if wanted in known:
        return known[wanted]
    near = closest(wanted, known) or next((it for it in known if wanted and wanted in it), None)
    meant = f'did you mean "{near}"?' if near else "all of its words"
    command = f"run --explain '{near}'" if near else f"read {GLOSSARY}"
    raise CommandError(f'the glossary has no "{word.strip()}"; {meant}: gemm-lessons {command}')
