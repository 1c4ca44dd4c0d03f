"""README.md keeps its word: its table of lessons, its Python example and its list of files are true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from gemm_lessons.course.folder import packaged_course

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text()


def test_the_lessons_are_the_lessons() -> None:
    rows = re.findall(r"^\| (\d\d) \| (\w+) \|", TEXT, flags=re.MULTILINE)
    assert tuple(f"{number}_{name}" for number, name in rows) == packaged_course().names


def test_the_example_prints_what_it_says() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    expected = example.rstrip().rpartition("# ")[2]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == expected


def test_the_files_are_there() -> None:
    listing = TEXT.split("## Architecture")[1]
    for name in re.findall(r"\b(\w+\.py)\b", listing.split("```")[1]):
        assert list((ROOT / "gemm_lessons").rglob(name)), name
    for folder in re.findall(r"^  (\w+)/", listing, flags=re.MULTILINE):
        assert (ROOT / "gemm_lessons" / folder).is_dir(), folder


def test_the_commands_exist() -> None:
    from typer.main import get_command

    from gemm_lessons.cli.app import whole

    known = set(get_command(whole()).commands)  # type: ignore[attr-defined]
    assert set(re.findall(r"gemm-lessons ([a-z]+)\b", TEXT)) <= known


def test_the_way_through_the_code_is_there() -> None:
    """Each file of CONTRIBUTING.md's table, and what stands there of it."""
    way = (ROOT / "CONTRIBUTING.md").read_text().split("## Read the code")[1].split("\n## ")[0]
    found = re.findall(r"`([\w/]+\.py): (\w+)`", way)
    assert len(found) > 15
    for file, name in found:
        text = (ROOT / "gemm_lessons" / file).read_text()
        assert re.search(rf"^(class|def) {name}\b", text, flags=re.MULTILINE), (file, name)
