"""A new lesson from the files in ``skeleton/``: small, working, with REPLACE where the author must decide."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from string import Template

from gemm_lessons.course import LESSON_NAME, CommandError, Course, writing

FILES = Path(__file__).parent / "skeleton"


def new_lesson(course: Course, name: str) -> Path:
    """Make the folder of a lesson named like ``22_my_idea``: all of it or nothing. Raise ``CommandError``."""
    taken = {lesson[:2]: lesson for lesson in course.names}
    found = LESSON_NAME.fullmatch(name)
    if not found:
        word = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "my_idea"
        free = next((f"{number:02}" for number in range(1, 100) if f"{number:02}" not in taken), "99")
        words = re.sub(r"^\d+_", "", word) or "my_idea"
        raise CommandError(
            f'"{name}" is not a name for a lesson: two digits, _, a name in lower case. Perhaps {free}_{words}?'
        )
    if found[1] in taken:
        free = ", ".join([f"{number:02}" for number in range(int(found[1]), 100) if f"{number:02}" not in taken][:3])
        raise CommandError(f"{found[1]} is {taken[found[1]]} already; nothing was changed. Free: {free or 'none'}")
    directory = course.lessons_dir / name
    title = found[2].replace("_", " ")
    values = {"number": found[1], "title": title.capitalize(), "lower": title}
    with writing(directory), tempfile.TemporaryDirectory(dir=course.lessons_dir, prefix=".new-") as scratch:
        made = Path(scratch) / name
        made.mkdir()
        for file in sorted(FILES.iterdir()):
            text = Template(file.read_text(encoding="utf-8")).substitute(values)
            (made / file.name).write_text(text, encoding="utf-8")
        made.rename(directory)
    return directory
