"""Starting fast: what a short command does not need, it does not load. How long that takes is measured by
``python -m checks.benchmark``, not here: a busy machine fails no test."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_group

from checks.cli.tiny_course import BINARY, environment
from gemm_lessons.cli.app import app_for, whole
from gemm_lessons.cli.commands import COURSE, NAMES
from gemm_lessons.course.folder import packaged_course

BLUR = Path(__file__).parent.parent / "inspect" / "blur.cu"
HEAVY = ("numpy", "cuda", "cupy", "nvtx", "pygments", "markdown_it", "rich.progress", "pydantic")


# What a short command does not need, by its first words: half of its time went into such modules once.
PAGE = ("gemm_lessons.course", "gemm_lessons.report", "gemm_lessons.running", "gemm_lessons.cli.learn", "rich")
UNUSED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("--help",): PAGE,
    ("--version",): PAGE,
    ("version",): ("gemm_lessons.report", "gemm_lessons.cli.learn", "rich"),
    ("list",): (
        "gemm_lessons.cli.run", "gemm_lessons.cli.grade", "gemm_lessons.cli.dev", "gemm_lessons.running.pipeline",
        "gemm_lessons.course.original", "gemm_lessons.course.position", "gemm_lessons.engine.simulator",
        "jinja2", "socket",
        "gemm_lessons.engine.compiler", "gemm_lessons.report.run",
        "rich.markdown", "rich.syntax",
    ),
}  # fmt: skip
MOST: dict[tuple[str, ...], int] = {("list",): 38, ("--help",): 6}  # modules of ours, empty rooms included


def test_only_the_command_that_is_called_is_built() -> None:
    for words in (["run", "--help"], ["list"], ["next"], ["dev", "check"], ["grade", "merge"]):
        assert list(get_group(app_for(words)).commands) == words[:1]
    assert not get_group(app_for([])).commands
    for words in (["rnu"], ["--nope"], ["--show-completion"]):
        assert app_for(words) is whole()


def test_the_page_of_help_says_what_each_command_says() -> None:
    light, every = get_group(app_for(["--help"])).commands, get_group(whole()).commands
    assert list(light) == list(every) == list(NAMES)
    for command in COURSE:
        first = " ".join((every[command.name].help or "").split("\n\n")[0].split())
        assert first == command.what
        assert first.startswith(light[command.name].short_help or "nothing")
    assert not any(command.params for command in light.values())


def test_the_page_of_help_cuts_no_line_off() -> None:
    shown = subprocess.check_output([*BINARY, "--help"], env=environment(), text=True, timeout=60)
    assert "  site     Write the course" in shown
    assert "..." not in shown.partition("Commands:")[2]


@pytest.mark.parametrize(
    "arguments", [(), ("list",), ("--help",), ("--version",), ("version",), ("start", "01"), ("hint", "01")]
)
def test_nothing_heavy_is_imported(course: Path, arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gemm_lessons", *arguments],
        cwd=course,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(re.findall(r"\|\s+([\w.]+)$", done.stderr, flags=re.MULTILINE))
    assert "gemm_lessons.cli.app" in loaded
    assert sum(name.startswith("gemm_lessons") for name in loaded) <= MOST.get(arguments, 1000)
    unused = (*HEAVY, *UNUSED.get(arguments, ()))
    assert not [name for name in loaded if name.startswith(tuple(f"{other}." for other in unused)) or name in unused]


def test_the_whole_course_is_listed_without_numpy(tmp_path: Path) -> None:
    """Its lessons have tensor maps, which the tiny course has not."""
    command = [sys.executable, "-X", "importtime", "-m", "gemm_lessons", "list"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert any(packaged_course().lesson(name).data.maps for name in packaged_course().names)
    assert not re.search(r"\|\s+(numpy|gemm_lessons\.engine\.compiler)$", done.stderr, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "arguments",
    [
        ("next",), ("diff", "01", "--reveal"), ("export", "01", "--solution"), ("site", "pages"), ("opcodes", "cvt"),
        ("view", "01", "--solution", "--html", "view.html"), ("dev", "new", "22_my_idea"),
        ("bug", "03"), ("drill", "03"), ("predict", "03"),
        ("inspect", str(BLUR), "--entry", "blur", "--grid", "8", "--block", "128",
         "--args", "x=ones f32[1026],y=out f32[1024],middle=x+1", "--symbol", "weights=ones f32[3]"),
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_a_fresh_process_has_all_that_a_command_needs(course: Path, arguments: tuple[str, ...]) -> None:
    """Most tests fork their commands from a process that has imported everything (``checks.forks``)."""
    shutil.copy(course / "lessons" / "01_first" / "solution.cu", course / "lessons" / "01_first" / "kernel.cu")
    if arguments[0] in ("bug", "drill", "predict"):  # the tiny lessons have none
        shutil.copytree(packaged_course().lessons_dir / "03_block_tile", course / "lessons" / "03_block_tile")
        shutil.copytree(packaged_course().lessons_dir / "common", course / "lessons" / "common", dirs_exist_ok=True)
    done = subprocess.run(
        [*BINARY, *arguments], cwd=course, env=environment(), capture_output=True, text=True, timeout=60, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
