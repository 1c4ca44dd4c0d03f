"""Starting fast: what a short command does not need, it does not load. How long that takes is measured by
``python -m checks.benchmark``, not here: a busy machine fails no test."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
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
        "gemm_lessons.engine.compiler.compile", "gemm_lessons.engine.compiler.nvrtc", "gemm_lessons.report.run",
        "rich.markdown", "rich.syntax",
    ),
}  # fmt: skip
# Modules of ours at most, empty rooms included. "list" has shown the course before.
MOST: dict[tuple[str, ...], int] = {("list",): 36, ("--help",): 6, ("version",): 31}


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


def imported(*arguments: str, cwd: Path, env: Mapping[str, str] = {}) -> set[str]:
    """The modules that a command imports."""
    command = [sys.executable, "-X", "importtime", "-m", "gemm_lessons", *arguments]
    done = subprocess.run(
        command, cwd=cwd, env={**environment(), **env}, capture_output=True, text=True, timeout=60, check=True
    )
    return set(re.findall(r"\|\s+([\w.]+)$", done.stderr, flags=re.MULTILINE))


@pytest.mark.parametrize(
    "arguments", [(), ("list",), ("--help",), ("--version",), ("version",), ("start", "01"), ("hint", "01")]
)
def test_nothing_heavy_is_imported(course: Path, arguments: tuple[str, ...]) -> None:
    for _ in range(2 if arguments == ("list",) else 1):
        loaded = imported(*arguments, cwd=course)
    assert "gemm_lessons.cli.app" in loaded
    assert sum(name.startswith("gemm_lessons") for name in loaded) <= MOST.get(arguments, 1000)
    unused = (*HEAVY, *UNUSED.get(arguments, ()))
    assert not [name for name in loaded if name.startswith(tuple(f"{other}." for other in unused)) or name in unused]


def test_the_whole_course_is_listed_without_numpy(tmp_path: Path) -> None:
    """Its lessons have tensor maps, which the tiny course has not."""
    assert any(packaged_course().lesson(name).data.maps for name in packaged_course().names)
    assert not imported("list", cwd=tmp_path) & {"numpy", "gemm_lessons.engine.compiler.compile"}


@pytest.mark.parametrize(
    ("line", "most"), [("gemm-lessons r", 4), ("gemm-lessons run 0", 38), ("gemm-lessons grade s", 31)]
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_builds_the_command_of_the_line(course: Path, shell: str, line: str, most: int) -> None:
    env = {"_GEMM_LESSONS_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    typed = {"_TYPER_COMPLETE_ARGS": line}
    if shell == "bash":
        typed = {"COMP_WORDS": line, "COMP_CWORD": f"{line.count(' ')}"}
    loaded = imported(cwd=course, env=env | typed)
    assert "gemm_lessons.cli.app" in loaded
    assert sum(name.startswith("gemm_lessons") for name in loaded) <= most
    assert not loaded & {"rich", *HEAVY}


def test_a_right_kernel_needs_no_table_of_mistakes(course: Path) -> None:
    loaded = imported("run", "01", "--solution", cwd=course)
    assert "gemm_lessons.judging.verdict" in loaded
    assert "gemm_lessons.judging.mistakes" not in loaded


def test_each_command_is_one_line_of_fish() -> None:
    env = {"_GEMM_LESSONS_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    env["_TYPER_COMPLETE_ARGS"] = "gemm-lessons "
    done = subprocess.run(BINARY, env=environment() | env, capture_output=True, text=True, timeout=60, check=True)
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == list(NAMES)


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
