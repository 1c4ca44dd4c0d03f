"""The glossary: the words of a run's screen, in ``lessons/common/glossary.md``.

An entry is a heading of the second level, one or more words with commas between them, and the text below it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gemm_lessons.course.folder import CommandError, Course, packaged_course, read_source
from gemm_lessons.engine.records.spelling import closest

GLOSSARY = "glossary"  # what `read` takes beside lessons


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
    raise CommandError(f'the glossary has no "{word.strip()}"; {meant}: gemm-lessons {_command(near)}')


def _command(near: str | None) -> str:
    return f"run --explain '{near}'" if near else f"read {GLOSSARY}"
