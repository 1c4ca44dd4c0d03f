"""NVRTC in a child process: the compiler crashes on some typing slips, and some programs never finish compiling.

(NVRTC 13.5 ends with a segmentation fault on ``template <int N> __global__ void tile(fl[at *x) {...}``, for one.) One
child per process and CUDA major stays up between compilations, so only the first pays for starting it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from gemm_lessons.child import Child, ChildDied, ChildHung, Parent
from gemm_lessons.compiler import nvrtc
from gemm_lessons.compiler.nvrtc import Nvrtc, Translation
from gemm_lessons.errors import KitError

PATIENCE_S = 60.0  # the largest kernel of the course compiles in 1 s
STACK_BYTES = 64 << 20  # of a compiling thread: templates nest
INCLUDE_PATH = "--include-path="
MEMORY_BYTES = 4 * 2**30  # of address space; a compilation takes about 0.5 GiB


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
    """``Nvrtc.translate`` in the child, with NVRTC's version. Raises ``KitError`` when NVRTC is missing or fails."""
    question = {"name": name, "options": list(options), "expression": expression}
    with _lock:
        try:
            child = _child(major)
            child.send(question, [source.encode()])
            header, blobs = child.receive(PATIENCE_S)
        except ChildHung:
            _drop(major)
            return Broken(f"the compiler did not finish within {PATIENCE_S:g} s", hung=True)
        except ChildDied as died:
            _drop(major)
            return Broken(str(died), hung=False)
        except BaseException:  # Ctrl-C: the answer may still come, and must not be taken for the next one's
            _drop(major)
            raise
    if "problem" in header:
        raise KitError(header["problem"])
    log, ptx, cubin = blobs
    translation = Translation(header["ok"], log.decode(), header["lowered"], ptx.decode(), cubin)
    return translation, (header["version"][0], header["version"][1])


def start(major: int) -> None:
    """Start the child and let it load NVRTC (0.2 s) while the caller does something else."""
    with _lock, contextlib.suppress(KitError, ChildDied):  # whoever compiles will be told
        _child(major)


def _child(major: int) -> Child:
    key = (os.getpid(), major)
    if key not in _children:
        _children[key] = Child("gemm_lessons.compiler.nvrtc_child", [str(major)])
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
    """The child: load NVRTC, then answer until the parent is gone."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    problem = ""
    try:
        compiler = nvrtc.load(int(major))
    except KitError as error:
        problem = str(error)
    while True:
        question, (source,) = parent.receive()
        try:
            if problem:
                raise KitError(problem)
            result = _behind_a_wall(compiler, source.decode(), **question)
        except KitError as error:
            parent.send({"problem": str(error)})
            continue
        answer = {"ok": result.ok, "lowered": result.lowered, "version": compiler.version}
        parent.send(answer, [result.log.encode(), result.ptx.encode(), result.cubin])


def _behind_a_wall(compiler: Nvrtc, source: str, name: str, options: Sequence[str], expression: str) -> Translation:
    """``Nvrtc.translate`` in a thread that reads nothing but the source's folder, those in its options, and NVRTC's."""
    from gemm_lessons.compiler.wall import confine

    done: list[Translation | KitError] = []

    def work() -> None:
        library = nvrtc.library(compiler.version[0])
        folders = [option.removeprefix(INCLUDE_PATH) for option in options if option.startswith(INCLUDE_PATH)]
        confine([os.path.dirname(name), *folders, *([str(library.parent)] if library else [])])
        try:
            done.append(compiler.translate(source, name, options, expression))
        except KitError as error:
            done.append(error)

    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if not done:
        raise KitError("NVRTC gave no answer")
    if isinstance(done[0], KitError):
        raise done[0]
    return done[0]
