"""NVIDIA's programs for a process that may start none: a helper, forked before it could not, runs each in a process.

    tools.prepare(13); tools.open_for_me()  ->  nvrtc_child.translate and sass.disassemble go through the helper

The helper holds nothing and knows nothing: it forks for each question, passes the answer on, and kills what is late. So
a crash of the compiler costs one answer, and what a source makes of it ends with that answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gemm_lessons.engine.compiler import nvrtc
from gemm_lessons.engine.compiler.landlock import confine as confine_to
from gemm_lessons.engine.compiler.neutral_paths import StandIns, standing_in
from gemm_lessons.engine.compiler.nvrtc import Nvrtc, Translation
from gemm_lessons.engine.process import bounds
from gemm_lessons.engine.process.bounds import SLOW
from gemm_lessons.engine.process.child import Child, ChildDied, ChildHung, Forked, Parent
from gemm_lessons.engine.records.errors import KitError

STACK_BYTES = 64 << 20  # of a compiling thread: templates nest
INCLUDE_PATH = "--include-path="
PATIENCE_S = 1.0  # for the helper to end by itself
SPARE_S = 10.0  # for the helper itself, behind its programs' own limit
Answer = tuple[dict[str, Any], list[bytes]]

_helper: Forked | None = None
_turn = threading.Lock()


def prepare(major: int) -> None:
    """Load the compiler, once for all that are forked from here: under the name that it has while it compiles. Raises
    ``KitError``."""
    folders = [str(folder) for folder in nvrtc.library_folders(major)]
    with standing_in(folders) as names:
        for folder in folders:
            builtins = glob.glob("libnvrtc-builtins.so.*", root_dir=folder)  # which 13.0 does not find there by itself
            for library in (f"libnvrtc.so.{major}", *builtins):
                with contextlib.suppress(OSError):  # nvrtc.load will say what is wrong
                    ctypes.CDLL(os.path.join(names.of(folder), library))
        nvrtc.load(major)


def open_for_me(confine: Callable[[bool], object]) -> None:
    """Start the helper of this process. Each of its programs calls ``confine`` first, with whether
    it is to start another."""
    global _helper
    _helper = Forked(lambda parent: serve(parent, confine))


def close() -> None:
    """End the helper."""
    global _helper
    if _helper is not None:
        _helper.close(PATIENCE_S)
        _helper = None


def available() -> bool:
    """Whether this process has a helper."""
    return _helper is not None


def ask(question: dict[str, Any], blobs: Sequence[bytes], seconds: float) -> Answer:
    """Have this process's helper do it. Raises as ``ask_of``."""
    assert _helper is not None
    with _turn:
        return ask_of(_helper, question, blobs, seconds)


def ask_of(helper: Child, question: dict[str, Any], blobs: Sequence[bytes], seconds: float) -> Answer:
    """Have a process that does ``serve`` do it. Raises ``ChildHung`` and ``ChildDied``; it does the next thing all the
    same, if it is not itself what hangs or died."""
    helper.send({"seconds": seconds, **question}, blobs)
    header, answer = helper.receive(SLOW * seconds + SPARE_S)
    if "hung" in header:
        raise ChildHung(seconds)
    if "died" in header:
        raise ChildDied(header["died"], header["words"])
    return header, answer


def serve(parent: Parent, confine: Callable[[bool], object]) -> None:
    """The life of a helper: a process for each question. Of what one compilation leaves behind in NVRTC's memory the
    next one sees nothing; otherwise it finds other machine code for the same source (``nvrtc_child``)."""
    signal.setitimer(signal.ITIMER_REAL, 0)
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
                late = died.code == -signal.SIGXCPU
                parent.send({"hung": True} if late else {"died": died.code, "words": died.last_words})


def _work(
    question: dict[str, Any],
    blobs: Sequence[bytes],
    seconds: float,
    confine: Callable[[bool], object],
    parent: Parent,
) -> None:
    parent.send(*_do(question, blobs, seconds, confine))


def _do(question: dict[str, Any], blobs: Sequence[bytes], seconds: float, confine: Callable[[bool], object]) -> Answer:
    bounds.lower(resource.RLIMIT_CPU, int(seconds) + 1)
    disassembling = question.pop("do") == "disassemble"
    confine(disassembling)
    if disassembling:
        return _disassemble(blobs[0])
    try:
        compiler = nvrtc.load(question.pop("major"))
    except KitError as error:  # no compiler here: no fault of the source
        return {"problem": str(error)}, []
    return _translate(compiler, question, blobs[0])


def disassembling(program: Path, file: Path) -> tuple[list[str], dict[str, str]]:
    """The command that disassembles a cubin, and its environment.

    nvdisasm spends its time on tables of all instructions, 14,000 pages of them: with large pages, an eighth less. And
    no data-flow analysis (``-ndf``), which branches of current machines do not need, saves a quarter.
    """
    return [str(program), "-c", "-gi", "-ndf", str(file)], {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def _disassemble(cubin: bytes) -> Answer:
    program = nvrtc.disassembler()  # not one that it is told
    if program is None:
        raise KitError("nvdisasm is missing")
    file = Path(f"machine-code-{os.getpid()}.cubin")
    file.write_bytes(cubin)
    command, environment = disassembling(program, file)
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    file.unlink()
    return {"code": done.returncode}, [done.stdout, done.stderr]


def disassemble(cubin: bytes, seconds: float) -> subprocess.CompletedProcess[str]:
    """``nvdisasm -c -g`` of a cubin, through the helper. Raises ``KitError``."""
    try:
        header, (out, err) = ask({"do": "disassemble"}, [cubin], seconds)
    except (ChildHung, ChildDied) as lost:
        raise KitError(f"nvdisasm gave no answer: {lost}") from None
    words = (data.decode(errors="replace") for data in (out, err))
    return subprocess.CompletedProcess(["nvdisasm"], header["code"], *words)


def folders_read(major: int, name: str, options: Sequence[str]) -> tuple[str, ...]:
    """The folders of NVRTC, of the file ``name`` and of the headers that the options name: all that it may read."""
    searched = [option.removeprefix(INCLUDE_PATH) for option in options if option.startswith(INCLUDE_PATH)]
    return (*map(str, nvrtc.library_folders(major)), os.path.dirname(name), *searched)


def renamed(options: Sequence[str], names: StandIns) -> list[str]:
    """Options as NVRTC gets them: folders of headers last, under their other names."""
    searched = [option.removeprefix(INCLUDE_PATH) for option in options if option.startswith(INCLUDE_PATH)]
    given = [option for option in options if not option.startswith(INCLUDE_PATH)]
    return [*given, *(INCLUDE_PATH + names.of(folder) for folder in searched)]


def _translate(compiler: Nvrtc, question: dict[str, Any], source: bytes) -> Answer:
    try:
        result = _behind_a_wall(compiler, source.decode(), **question)
    except KitError as error:
        return {"problem": str(error)}, []
    answer = {"ok": result.ok, "lowered": result.lowered, "called": result.called, "version": compiler.version}
    return answer, [result.log.encode(), result.ptx.encode(), result.cubin]


def _behind_a_wall(compiler: Nvrtc, source: str, name: str, options: Sequence[str], expression: str) -> Translation:
    """``Nvrtc.translate`` in a thread that reads nothing but the source's folder, those in its options, and NVRTC's.

    A thread has a heap of its own: here the one of a thread that our parent had, which only waited, so it is empty.
    """
    done: list[Translation | KitError] = []
    folders = folders_read(compiler.version[0], name, options)

    def work() -> None:
        confine_to(folders)
        try:
            done.append(compiler.translate(source, file, given, expression))
        except KitError as error:
            done.append(error)

    os.chdir("/")  # of this, too, NVRTC keeps the name
    threading.stack_size(STACK_BYTES)
    with standing_in(folders) as names:
        file = names.of_file(name)
        given = renamed(options, names)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    if not done:
        raise KitError("NVRTC gave no answer")
    if isinstance(done[0], KitError):
        raise done[0]
    return replace(done[0], called=names.called)
