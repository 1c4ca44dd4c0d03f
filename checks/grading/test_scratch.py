"""A killed run's temporary folders go at the next start, and nobody else's."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gemm_lessons.engine.process import files
from gemm_lessons.engine.process.child import Forked

OWNER = """
import os, sys, time
from gemm_lessons.engine.process.files import scratch
with scratch("job") as folder:
    (folder / "kernel.cu").write_text("x")
    print(folder, flush=True)
    time.sleep(100)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def owner() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_run_leaves_is_removed(temporary: Path) -> None:
    dead, left = owner()
    alive, used = owner()
    dead.kill()
    dead.communicate()
    try:
        assert (left / "kernel.cu").exists()
        assert files.remove_leftovers() == 1
        assert (left.exists(), (used / "kernel.cu").exists()) == (False, True)
    finally:
        alive.kill()
        alive.communicate()


def test_what_is_not_ours_stays(temporary: Path) -> None:
    outside = temporary / "outside"
    outside.mkdir(mode=0o700)
    (temporary / f"{files.PREFIX}link").symlink_to(outside)
    (temporary / f"{files.PREFIX}file").write_text("x")
    (temporary / f"{files.PREFIX}shared").mkdir(mode=0o755)
    (temporary / f"{files.UNLOCKED}young").mkdir(mode=0o700)
    before = sorted(os.listdir(temporary))
    assert files.remove_leftovers() == 0
    assert sorted(os.listdir(temporary)) == before
    with files.scratch("job") as folder:
        assert files.remove_leftovers() == 0
        assert folder.exists()
    assert not folder.exists()


def test_a_fork_inherits_no_file_above_a_lowered_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    secret = os.open(os.devnull, os.O_WRONLY)
    high = os.dup2(secret, min(soft, 4096) - 1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (high - 10, hard))
    try:
        with Forked(
            lambda parent: parent.send({"open": [fd for fd in (secret, high) if os.path.exists(f"/proc/self/fd/{fd}")]})
        ) as child:
            assert child.receive(20)[0] == {"open": []}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(secret)
        os.close(high)
