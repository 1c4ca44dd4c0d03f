"""NVRTC in a child process: the compiler crashes on some typing slips, and some programs never finish compiling.

(NVRTC 13.5 ends with a segmentation fault on ``template <int N> __global__ void tile(fl[at *x) {...}``, for one.) One
child per process and CUDA major stays up and forks for each compilation, so only the first pays for loading NVRTC, and
all find it fresh, with its heap at the same address: what NVRTC makes of a program depends on those that it compiled
before, and on where its memory lies (13.5 orders some loads by the addresses of its own objects). Names of folders lie
there, too: for NVRTC they are always the same (``padding``).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Sequence

from gemm_lessons.engine.compiler import tools
from gemm_lessons.engine.compiler.nvrtc import Translation
from gemm_lessons.engine.process import bounds
from gemm_lessons.engine.process.child import Child, ChildDied, ChildHung, Parent
from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.engine.records.frozen import dataclass

LEAST_PATIENCE_S = 10.0  # also for a run that may take less time: others may keep the machine busy
PATIENCE_S = 60.0  # the largest kernel of the course compiles in 1 s
MEMORY_BYTES = 4 * 2**30  # of address space, beside what the child begins with; a compilation takes about 0.5 GiB


@dataclass(frozen=True)
class Broken:
    """The compiler gave no answer: it crashed, or it did not finish."""

    reason: str
    hung: bool


_children: dict[tuple[int, int], Child] = {}  # (process, CUDA major): a fork must not share its parent's pipes
_lock = threading.Lock()


def translate(
    major: int, source: str, name: str, options: Sequence[str], expression: str
) -> tuple[Translation, tuple[int, int]] | Broken:
    """``Nvrtc.translate`` in the child, its folders named as there, and NVRTC's version. Raises ``KitError`` when NVRTC
    is missing or fails."""
    question = {"do": "translate", "major": major, "name": name, "options": list(options), "expression": expression}
    blobs = [source.encode(errors="replace")]
    patience = min(PATIENCE_S, max(LEAST_PATIENCE_S, bounds.SLOW * bounds.current().seconds))
    with _lock:
        try:
            if tools.available():
                header, blobs = tools.ask(question, blobs, patience)
            else:
                header, blobs = tools.ask_of(_child(major), question, blobs, patience)
        except ChildHung:
            _drop(major)
            return Broken(f"the compiler did not finish within {patience:g} s", hung=True)
        except ChildDied as died:
            _drop(major)
            return Broken(str(died), hung=False)
        except BaseException:  # Ctrl-C: the answer may still come, and must not be taken for the next one's
            _drop(major)
            raise
    if "problem" in header:
        raise KitError(header["problem"])
    log, ptx, cubin = blobs
    called = tuple((folder, name) for folder, name in header["called"])
    translation = Translation(header["ok"], log.decode(), header["lowered"], ptx.decode(), cubin, called)
    return translation, (header["version"][0], header["version"][1])


def start(major: int) -> None:
    """Start the child and let it load NVRTC (0.2 s) while the caller does something else."""
    with _lock, contextlib.suppress(KitError, ChildDied):  # whoever compiles will be told
        _child(major)


def _child(major: int) -> Child:
    key = (os.getpid(), major)
    if key not in _children:
        _children[key] = Child("gemm_lessons.engine.compiler.nvrtc_child", [str(major)], steady=True)
    return _children[key]


def _drop(major: int) -> None:
    if child := _children.pop((os.getpid(), major), None):
        child.close()


@atexit.register
def _close_all() -> None:
    for process, major in list(_children):
        if process == os.getpid():
            _drop(major)


def main(parent: Parent, major: str) -> None:
    """The child: load NVRTC, then have it answer until the parent is gone."""
    import resource

    bounds.lower(resource.RLIMIT_AS, bounds.used()[0] + MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(KitError):  # whoever compiles will be told
        tools.prepare(int(major))
    tools.serve(parent, lambda starts_another: None)
