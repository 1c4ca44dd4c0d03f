"""NVRTC in a child process: the compiler crashes on some typing errors, and some programs never finish compiling.

For example, NVRTC 13.5 has a segmentation fault on ``template <int N> __global__ void tile(fl[at *x) {...}``. One child
per process and CUDA major stays alive and forks for each compilation. So only the first compilation loads NVRTC, and
each finds it in its initial state, with its heap at the same address. This matters because the output depends on the
programs compiled before and on heap addresses (13.5 orders some loads by the addresses of its own objects). Folder
names are in that heap, too: NVRTC always gets the same ones (``neutral_paths``).
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

LEAST_PATIENCE_S = 10.0  # also for a run with a shorter limit: other processes may keep the machine busy
PATIENCE_S = 60.0  # the largest kernel of the course compiles in 1 s
MEMORY_BYTES = 4 * 2**30  # of address space, besides the child's initial size; a compilation takes about 0.5 GiB


@dataclass(frozen=True)
class Broken:
    """The compiler crashed, or it did not finish."""

    reason: str
    hung: bool


_children: dict[tuple[int, int], Child] = {}  # (process, CUDA major): a fork must not share its parent's pipes
_lock = threading.Lock()


def translate(
    major: int, source: str, name: str, options: Sequence[str], expression: str
) -> tuple[Translation, tuple[int, int]] | Broken:
    """Run ``Nvrtc.translate`` in the child, with neutral folder names. Also return NVRTC's version.

    Raise ``KitError`` if NVRTC is missing or fails.
    """
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
        except BaseException:  # Ctrl-C: a late answer must not be taken for the next request's
            _drop(major)
            raise
    if "problem" in header:
        raise KitError(header["problem"])
    log, ptx, cubin, read = blobs
    called = tuple((folder, name) for folder, name in header["called"])
    files = tuple(read.decode().split("\n")) if read else ()
    translation = Translation(header["ok"], log.decode(), header["lowered"], ptx.decode(), cubin, called, files)
    return translation, (header["version"][0], header["version"][1])


def start(major: int) -> None:
    """Start the child and let it load NVRTC (0.2 s) while the caller does something else."""
    with _lock, contextlib.suppress(KitError, ChildDied):  # the next compilation reports the error
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
    """Main function of the child: load NVRTC, then let it answer until the parent exits."""
    bounds.limit_address_space(MEMORY_BYTES)
    bounds.leave_no_core()
    with contextlib.suppress(KitError):  # the next compilation reports the error
        tools.prepare(int(major))
    tools.serve(parent, lambda starts_another: None)
