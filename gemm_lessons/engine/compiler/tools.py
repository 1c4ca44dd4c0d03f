"""Run NVIDIA's programs for a process that may not start any: a helper, forked earlier, forks a process for each.

    tools.prepare(13); tools.open_for_me()  ->  nvrtc_child.translate and sass.disassemble go through the helper

The helper has no state: it forks for each request, passes the answer on, and kills late processes. So a crash of the
compiler costs one answer, and effects of a source end with that answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gemm_lessons.engine.compiler import files_read, nvrtc
from gemm_lessons.engine.compiler.neutral_paths import NeutralNames, neutral_names
from gemm_lessons.engine.compiler.nvrtc import Nvrtc, Translation
from gemm_lessons.engine.process import bounds
from gemm_lessons.engine.process.bounds import SLOW
from gemm_lessons.engine.process.child import Child, ChildDied, ChildHung, Forked, Parent
from gemm_lessons.engine.process.landlock import confine as confine_to
from gemm_lessons.engine.records.errors import KitError

STACK_BYTES = 64 << 20  # of a compiling thread: templates nest
INCLUDE_PATH = "--include-path="
HEAP_BYTES = 64 << 20  # step by which the disassembler's heap grows; it needs 55 MB
PATIENCE_S = 1.0  # for an answer that another thread waits for, and for the helper to exit by itself
SPARE_S = 10.0  # for the helper itself, on top of its programs' own limit
Answer = tuple[dict[str, Any], list[bytes]]

_helper: Forked | None = None
_turn = threading.Lock()


def prepare(major: int) -> None:
    """Load the compiler once for all processes forked from here, under its neutral name. Raise ``KitError``."""
    folders = [str(folder) for folder in nvrtc.library_folders(major)]
    with neutral_names(folders) as names:
        for folder in folders:
            builtins = glob.glob("libnvrtc-builtins.so.*", root_dir=folder)  # 13.0 does not find these there by itself
            for library in (f"libnvrtc.so.{major}", *builtins):
                with contextlib.suppress(OSError):  # nvrtc.load reports the error
                    ctypes.CDLL(os.path.join(names.of(folder), library))
        nvrtc.load(major)


def open_for_me(confine: Callable[[bool], object]) -> None:
    """Start the helper of this process.

    Each of its programs calls ``confine`` first, with whether it is to start another program.
    """
    global _helper
    _helper = Forked(lambda parent: serve(parent, confine))


def close() -> None:
    """End the helper; if another thread waits for an answer for longer, it ends with this process. No thread may close
    pipes that another one uses: their numbers may be other files' by then."""
    global _helper
    helper, _helper = _helper, None
    if helper is not None and _turn.acquire(timeout=PATIENCE_S):
        helper.close(PATIENCE_S)
        _turn.release()


def available() -> bool:
    """Return whether this process has a helper."""
    return _helper is not None


def ask(question: dict[str, Any], blobs: Sequence[bytes], seconds: float) -> Answer:
    """Send a request to this process's helper. Raise as ``ask_of``; ``ChildDied`` also if it was closed meanwhile."""
    with _turn:
        if _helper is None:
            raise ChildDied(None, "")
        return ask_of(_helper, question, blobs, seconds)


def ask_of(helper: Child, question: dict[str, Any], blobs: Sequence[bytes], seconds: float) -> Answer:
    """Send a request to a process that runs ``serve``. Raise ``ChildHung`` and ``ChildDied``.

    The helper still answers the next request, unless the helper itself hangs or died.
    """
    helper.send({"seconds": seconds, **question}, blobs)
    header, answer = helper.receive(SLOW * seconds + SPARE_S)
    if "hung" in header:
        raise ChildHung(seconds)
    if "died" in header:
        raise ChildDied(header["died"], header["words"])
    return header, answer


def serve(parent: Parent, confine: Callable[[bool], object]) -> None:
    """Main loop of a helper: one process per request.

    A compilation must not see what an earlier one left in NVRTC's memory; otherwise the same source gives other machine
    code (``nvrtc_child``).
    """
    bounds.stop_clock()
    while True:
        question, blobs = parent.receive()
        seconds = question.pop("seconds")
        work = partial(_work, question, blobs, seconds, confine)
        with Forked(work) as program:
            try:
                parent.send(*program.receive(seconds, working=True))
            except ChildHung:
                parent.send({"hung": True})
            except ChildDied as died:
                parent.send({"hung": True} if died.out_of_time else {"died": died.code, "words": died.last_words})
            finally:
                _cubin_of(program.pid).unlink(missing_ok=True)  # it may not remove files itself


def _work(
    question: dict[str, Any], blobs: Sequence[bytes], seconds: float, confine: Callable[[bool], object], parent: Parent
) -> None:
    parent.send(*_do(question, blobs, seconds, confine))


def _do(question: dict[str, Any], blobs: Sequence[bytes], seconds: float, confine: Callable[[bool], object]) -> Answer:
    bounds.limit_processor(seconds)
    disassembling = question.pop("do") == "disassemble"
    if disassembling:
        _cubin_of(os.getpid()).write_bytes(blobs[0])
    confine(disassembling)
    if disassembling:
        return _disassemble(_cubin_of(os.getpid()))
    try:
        compiler = nvrtc.load(question.pop("major"))
    except KitError as error:  # no compiler here: not an error of the source
        return {"problem": str(error)}, []
    return _translate(compiler, question, blobs[0])


def disassembling(program: Path, file: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command that disassembles a cubin, and its environment.

    nvdisasm spends its time on tables of all instructions, 14,000 pages of them; large pages, and a heap that grows
    once in place of 300 times, save a fifth. Leaving out data-flow analysis (``-ndf``), which branches of current
    machines do not need, saves a quarter.
    """
    tunables = f"glibc.malloc.hugetlb=1:glibc.malloc.top_pad={HEAP_BYTES}"
    return [str(program), "-c", "-gi", "-ndf", str(file)], {**os.environ, "GLIBC_TUNABLES": tunables}


def _cubin_of(pid: int) -> Path:
    """Return the file that the process ``pid`` disassembles, in the current folder."""
    return Path(f"machine-code-{pid}.cubin")


def _disassemble(file: Path) -> Answer:
    program = nvrtc.disassembler()  # never a program named by the request
    if program is None:
        raise KitError("nvdisasm is missing")
    command, environment = disassembling(program, file)
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    return {"code": done.returncode}, [done.stdout, done.stderr]


def disassemble(cubin: bytes, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run the command of ``disassembling`` on a cubin, through the helper. Raise ``KitError``."""
    try:
        header, (out, err) = ask({"do": "disassemble"}, [cubin], seconds)
    except (ChildHung, ChildDied) as lost:
        raise KitError(f"nvdisasm gave no answer: {lost}") from None
    words = (data.decode(errors="replace") for data in (out, err))
    return subprocess.CompletedProcess(["nvdisasm"], header["code"], *words)


def folders_read(major: int, name: str, options: Sequence[str]) -> tuple[str, ...]:
    """Return the folders that a compilation may read: NVRTC's, that of the file ``name``, and include folders."""
    searched = [option.removeprefix(INCLUDE_PATH) for option in options if option.startswith(INCLUDE_PATH)]
    return (*map(str, nvrtc.library_folders(major)), os.path.dirname(name), *searched)


def renamed(options: Sequence[str], names: NeutralNames) -> list[str]:
    """Return options for NVRTC: folders of headers last, under their neutral names."""
    searched = [option.removeprefix(INCLUDE_PATH) for option in options if option.startswith(INCLUDE_PATH)]
    given = [option for option in options if not option.startswith(INCLUDE_PATH)]
    return [*given, *(INCLUDE_PATH + names.of(folder) for folder in searched)]


def _translate(compiler: Nvrtc, question: dict[str, Any], source: bytes) -> Answer:
    try:
        result = _translate_confined(compiler, source.decode(), **question)
    except KitError as error:
        return {"problem": str(error)}, []
    answer = {"ok": result.ok, "lowered": result.lowered, "called": result.called, "version": compiler.version}
    return answer, [result.log.encode(), result.ptx.encode(), result.cubin, "\n".join(result.read).encode()]


def _translate_confined(
    compiler: Nvrtc, source: str, name: str, options: Sequence[str], expression: str
) -> Translation:
    """Run ``Nvrtc.translate`` in a thread that can read only the source's folder, those in its options, and NVRTC's.

    The thread's heap starts empty: glibc reuses the heap of a thread of the parent that only waited.
    """
    done: list[Translation | KitError] = []
    folders = folders_read(compiler.version[0], name, options)

    def work() -> None:
        confine_to(folders)
        try:
            done.append(compiler.translate(source, file, given, expression))
        except KitError as error:
            done.append(error)
        finally:
            listing.end()

    listing = files_read.FileListing(files_read.LIST_FILES in options)
    os.chdir("/")  # NVRTC also keeps the name of this folder
    threading.stack_size(STACK_BYTES)
    with neutral_names(folders) as names:
        file = names.of_file(name)
        given = renamed(options, names)
        thread = threading.Thread(target=work)
        thread.start()
        read = listing.files()
        thread.join()
    if not done:
        raise KitError("NVRTC gave no answer")
    if isinstance(done[0], KitError):
        raise done[0]
    return replace(done[0], called=names.called, read=read)
