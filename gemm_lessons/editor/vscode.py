"""Generate VS Code's settings: extensions, tasks that run a lesson, problem matchers, and where its tests are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gemm_lessons.editor import testing_view

# What --problems prints: FILE:LINE:COLUMN: SEVERITY: MESSAGE
PROBLEM = {
    "regexp": r"^(.+\.cuh?):(\d+):(\d+): (error|warning|info): (.*)$",
    "file": 1,
    "line": 2,
    "column": 3,
    "severity": 4,
    "message": 5,
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
