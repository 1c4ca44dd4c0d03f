"""Write the files for editors into a course folder, and make the folder a git repository.

With ``compile_commands.json`` clangd parses each lesson's kernel for the lesson's tile sizes. clang supports CUDA C++
by itself, but needs NVIDIA's headers, which are installed as wheels, and those of the C++ library, which belong to a
compiler for the host. Where the latter are missing, clang gets ``cuda_names.h`` and ``headers/plain`` instead, which
declare everything that the lessons use. ``mma.h`` is always the kit's: NVIDIA's is for NVIDIA's compiler.

VS Code gets settings: extensions, tasks that run a lesson, problem matchers, and where its tests are.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gemm_lessons.course import Course, Lesson, write_atomically, writing
from gemm_lessons.editor import testing_view
from gemm_lessons.engine.compiler import nvrtc

COMMANDS = "compile_commands.json"
GIT_SECONDS = 20
FALLBACK_USER = ("-c", "user.name=gemm-lessons", "-c", "user.email=gemm-lessons@localhost")  # used if git has no user
PLAIN = ("-c", "commit.gpgsign=false", "-c", f"core.hooksPath={os.devnull}")
OURS = ("lessons", ".gitignore", ".vscode", testing_view.FILE)
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # set in a hook of another repository
FIRST_COMMIT = "The course as it came"
NAMES = Path(__file__).parent / "cuda_names.h"
HEADERS = Path(__file__).parent / "headers"
CUDA = 13
CXX_HEADERS = (Path("/usr/include/c++"), Path("/usr/local/include/c++"))  # headers of libstdc++ and of libc++
SOURCES = ("kernel.cu", "stub.cu", "solution.cu", "bug.cu")
HOW = ("clang++", "-xcuda", "-std=c++17", "--cuda-device-only", "-nocudalib", "-Wno-unknown-cuda-version")
# What --problems prints: FILE:LINE:COLUMN: SEVERITY: MESSAGE
PROBLEM = {
    "regexp": r"^(.+\.cuh?):(\d+):(\d+): (error|warning|info): (.*)$",
    **{part: group for group, part in enumerate("file line column severity message".split(), 1)},
}
MATCHER = {
    "owner": "gemm-lessons",
    "source": "gemm-lessons",
    "fileLocation": ["autoDetect", "${workspaceFolder}"],
    "pattern": PROBLEM,
}
# Where watch begins to show a run, and where it has shown it.
BACKGROUND = {
    "activeOnStart": True,
    "beginsPattern": r"^(Lesson \d\d|error:)",
    "endsPattern": r"^(Waiting|Polling) for a save of ",
}
SETTINGS = {
    "files.associations": {"*.cu": "cuda-cpp", "*.cuh": "cuda-cpp"},
    "C_Cpp.intelliSenseEngine": "disabled",  # clangd reads compile_commands.json, with the tile sizes
}
EXTENSIONS = {"recommendations": ["llvm-vs-code-extensions.vscode-clangd", "ms-python.python"]}


def write_editor_files(course: Course) -> list[Path]:
    """Write the files for clangd and VS Code and return the new ones. Existing files for VS Code are kept; the commands
    for clangd name folders of this machine and are rewritten. Raises ``WriteError``."""
    lessons = [it for it in course.all_lessons().values() if isinstance(it, Lesson)]  # the caller reports the others
    text = commands(lessons, course.architecture, cuda_headers())
    wanted = {course.root / COMMANDS: text}
    once = {course.root / testing_view.FILE: testing_view.text(course.parts)}
    for name, content in files(sys.executable, course.names).items():
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


def commands(lessons: Sequence[Lesson], architecture: str, headers: Path | None) -> str:
    """Return the text of ``compile_commands.json``. ``architecture``: the course's; a lesson may have its own.
    ``headers``: the CUDA folder whose ``include`` is to be read, if any."""
    own = ["-nocudainc", "-nostdlibinc", "-include", str(NAMES), f"-I{HEADERS / 'plain'}"]
    cuda = own if headers is None else [f"--cuda-path={headers}"]
    entries = [
        {
            "directory": str(lesson.directory.resolve()),
            "file": name,
            "arguments": [
                *HOW,
                f"--cuda-gpu-arch={lesson.architecture or architecture}",
                *cuda,
                f"-I{HEADERS}",
                *(f"-D{size}={value}" for size, value in lesson.tile.defines.items()),
                *(f"-I{folder.resolve()}" for folder in lesson.include_dirs),
                name,
            ],
        }
        for lesson in lessons
        for name in SOURCES
    ]
    return json.dumps(entries, indent=1) + "\n"


def cuda_headers() -> Path | None:
    """Return the CUDA folder with the headers; None if clang cannot use them because the C++ library's are missing."""
    if not any(folder.is_dir() for folder in CXX_HEADERS):
        return None
    return next((folder.parent for folder in nvrtc.include_folders(CUDA) if folder.name == "include"), None)


def files(python: str, lessons: Sequence[str]) -> dict[str, str]:
    """Return the files in ``.vscode``: name -> text. ``python``: the interpreter, with ``gemm-lessons`` beside it."""
    return {name: json.dumps(content, indent=2) + "\n" for name, content in _contents(python, lessons).items()}


def _contents(python: str, lessons: Sequence[str]) -> dict[str, Any]:
    here = {"cwd": "${workspaceFolder}", "env": {"PATH": f"{Path(python).parent}:${{env:PATH}}"}}

    def task(label: str, *arguments: str, **more: Any) -> dict[str, Any]:
        command = {"type": "process", "command": "gemm-lessons", "args": list(arguments), "options": here}
        return {"label": f"gemm-lessons: {label}", **command, "problemMatcher": [], **more}

    tasks = [
        task(
            "run this lesson", "run", "${fileDirname}", "--problems",
            problemMatcher=MATCHER, group={"kind": "build", "isDefault": True},
        ),
        task(
            "watch this lesson", "watch", "${fileDirname}", "--problems",
            problemMatcher={**MATCHER, "background": BACKGROUND}, isBackground=True,
            presentation={"panel": "dedicated", "reveal": "always", "focus": True},
        ),
        task(
            "check every finished lesson", "check", "--problems",
            problemMatcher=MATCHER, group={"kind": "test", "isDefault": True},
        ),
        task("check one lesson", "check", "${input:lesson}", "--problems", problemMatcher=MATCHER, group="test"),
        task("hint", "hint", "${fileDirname}"),
        task("where am I"),
    ]  # fmt: skip
    choice = {"id": "lesson", "type": "pickString", "description": "Which lesson?", "options": list(lessons)}
    return {
        "settings.json": {**SETTINGS, **testing_view.SETTINGS, "python.defaultInterpreterPath": python},
        "extensions.json": EXTENSIONS,
        "tasks.json": {"version": "2.0.0", "tasks": tasks, "inputs": [choice]},
    }
