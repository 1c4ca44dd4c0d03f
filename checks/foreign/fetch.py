"""Checks out the repositories of a manifest at their commits: sources only, nothing is built or run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from checks.foreign.manifest import folder_of

GITHUB = "https://github.com/{}.git"
PATTERNS = ("*.cu", "*.c", "*.cuh", "*.h", "*.hpp", "*.hxx", "*.hh", "*.inl")


def default_folder() -> Path:
    """``gemm-lessons-foreign`` in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "gemm-lessons-foreign")


def fetch(repositories: Mapping[str, str], sources: Path, url: str = GITHUB) -> list[str]:
    """Check out every repository that is missing or at another commit; return the failures, one line each."""
    failed = []
    for repository, commit in repositories.items():
        folder = folder_of(sources, repository)
        if (folder / ".commit").exists() and (folder / ".commit").read_text().strip() == commit:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        steps = (
            ("init", "--quiet"),
            ("sparse-checkout", "set", "--no-cone", *PATTERNS),
            ("fetch", "--quiet", "--depth", "1", "--filter=blob:none", url.format(repository), commit),
            ("config", "remote.origin.url", url.format(repository)),
            ("checkout", "--quiet", "--force", commit),
        )
        for step in steps:
            done = subprocess.run(["git", "-C", str(folder), *step], capture_output=True, text=True, check=False)
            if done.returncode:
                failed.append(f"{repository}: git {step[0]}: {done.stderr.strip()}")
                break
        else:
            (folder / ".commit").write_text(commit)
    return failed
