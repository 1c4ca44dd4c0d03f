"""Write the files for editors into a course folder, and make the folder a git repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from gemm_lessons.course import Course, Lesson, write_atomically, writing
from gemm_lessons.editor import clangd, testing_view, vscode

COMMANDS = "compile_commands.json"
GIT_SECONDS = 20
FALLBACK_USER = ("-c", "user.name=gemm-lessons", "-c", "user.email=gemm-lessons@localhost")  # used if git has no user
PLAIN = ("-c", "commit.gpgsign=false", "-c", f"core.hooksPath={os.devnull}")
OURS = ("lessons", ".gitignore", ".vscode", testing_view.FILE)
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # set in a hook of another repository
FIRST_COMMIT = "The course as it came"


def write_editor_files(course: Course) -> list[Path]:
    """Write the files for clangd and VS Code and return the new ones. Existing files for VS Code are kept; the commands
    for clangd name folders of this machine and are rewritten. Raises ``WriteError``."""
    lessons = [it for it in course.all_lessons().values() if isinstance(it, Lesson)]  # the caller reports the others
    text = clangd.commands(lessons, course.architecture, clangd.cuda_headers())
    wanted = {course.root / COMMANDS: text}
    once = {course.root / testing_view.FILE: testing_view.text(course.parts)}
    for name, content in vscode.files(sys.executable, course.names).items():
        once[course.root / ".vscode" / name] = content
    wanted |= {path: content for path, content in once.items() if not path.exists()}
    for path, content in wanted.items():
        with writing(path.parent):
            path.parent.mkdir(exist_ok=True)
        write_atomically(path, content.encode())
    return list(wanted)


def make_repository(folder: Path) -> str:
    """Make a folder a git repository whose first commit is the course. Inside of another repository, do nothing.

    Return ``made``, ``inside another``, or why there is no repository, which is never a reason to fail.
    """
    if shutil.which("git") is None:
        return "git is not installed"
    try:
        if _git(folder, "rev-parse", "--is-inside-work-tree").returncode == 0:
            return "inside another"
        ours = [name for name in OURS if (folder / name).exists()]
        known = _git(folder, "config", "user.email").stdout.strip()
        commit = (*PLAIN, *(() if known else FALLBACK_USER), "commit", "-q", "-m", FIRST_COMMIT)
        for arguments in (("init", "-q"), ("add", "--", *ours), commit):
            done = _git(folder, *arguments)
            if done.returncode != 0:
                return (done.stderr.strip().splitlines() or [f"git {arguments[0]} failed"])[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"git: {error}"
    return "made"


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], env={k: v for k, v in os.environ.items() if k not in ELSEWHERE},
        capture_output=True, text=True, timeout=GIT_SECONDS, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
