"""Run ``gemm-lessons ...`` in a process that is forked from a server with the kit already imported.

Most of the command line is tested by running it, and imports took two thirds of such a process. A forked process has
its own memory, folder, environment, streams and exit code. Settings that Python reads when it starts cannot be changed
by a fork: ``run`` starts a fresh interpreter where the variables ``OF_THE_INTERPRETER`` differ from those here.
``test_startup`` and ``test_layers`` check that a command imports only what it needs.

Successive commands share one compiler process, whose start takes longer than most compilations.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import io
import json
import locale
import mmap
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import gemm_lessons
from gemm_lessons.engine.process.child import Blobs, Child, ChildDied, Header

ROOT = Path(__file__).resolve().parent.parent
BINARY = (sys.executable, "-m", "gemm_lessons")
OF_THE_INTERPRETER = ("PYTHON", "LANG", "LC_", "LD_", "COV")  # variables that Python reads when it starts
MOST_BYTES = 1 << 20  # of a request: arguments and environment
WITHOUT = ("notebook", "__main__")  # an extension of IPython; the program itself


def run(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str = "",
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run`` of ``python -m gemm_lessons`` with these arguments and ``text`` on stdin."""
    with contextlib.ExitStack() as stack:
        given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(text.encode())
        given.seek(0)
        process = start(arguments, (given, out, err), cwd=cwd, env=env)
        code = process.wait(timeout)
        said, complained = (_all_of(stream) for stream in (out, err))
    return subprocess.CompletedProcess([*BINARY, *arguments], code, said, complained)


def start(
    arguments: Sequence[str],
    streams: Sequence[IO[Any] | int],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Forked | subprocess.Popen[bytes]:
    """Start the command with these streams as stdin, stdout and stderr."""
    env = dict(os.environ if env is None else env)
    if _interpreters_own(env) != _interpreters_own(os.environ) or not _server().alive():
        given, out, err = streams
        return subprocess.Popen([*BINARY, *arguments], cwd=cwd, env=env, stdin=given, stdout=out, stderr=err)
    env.pop("PYTEST_CURRENT_TEST", None)  # may be longer than a message
    question = {"arguments": list(arguments), "cwd": str(cwd or os.getcwd()), "environment": env}
    return _server().fork(question, streams)


def _interpreters_own(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(OF_THE_INTERPRETER)}


def _all_of(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode().replace("\r\n", "\n")


class Forked:
    """A process that the server has forked, with the part of ``subprocess.Popen`` that tests use."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self._connection = connection

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative for a signal. Kills it after that many seconds, and raises ``TimeoutExpired``."""
        self._connection.settimeout(timeout)
        try:
            return int(self._connection.recv(64))
        except TimeoutError:
            os.kill(self.pid, signal.SIGKILL)
            self._connection.settimeout(None)
            self._connection.recv(64)
            raise subprocess.TimeoutExpired(BINARY, timeout or 0) from None


class _Server:
    """The client's side of the process that forks. The server ends when its client does: the socket closes."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self._ours.setsockopt(socket.SOL_SOCKET, option, MOST_BYTES)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "checks.forks", str(theirs.fileno())],
                cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip

    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, question: Mapping[str, Any], streams: Sequence[IO[Any] | int]) -> Forked:
        files = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
        socket.send_fds(self._ours, [json.dumps(question).encode()], files)
        return Forked(int(self._ours.recv(64)), self._ours)


@cache
def _server() -> _Server:
    return _Server()


# --- the server ----------------------------------------------------------------------------------------------------


def _import_all() -> None:
    for module in pkgutil.walk_packages(gemm_lessons.__path__, "gemm_lessons."):
        if not module.name.endswith(WITHOUT) and "skeleton" not in module.name and "lessons.lessons" not in module.name:
            import_module(module.name)


class _Compiler:
    """The process of ``nvrtc_child`` that commands share, one after the other.

    A command that gets the lock uses it until the command ends. If this compiler dies, the command repeats its last
    question to a compiler of its own. ``_busy`` is memory shared with the server: 1 while an answer is outstanding.
    """

    MODULE, ARGUMENTS = "gemm_lessons.engine.compiler.nvrtc_child", ["13"]

    def __init__(self) -> None:
        self._lock = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the server)
        self._identity = os.fstat(self._lock.fileno())[:3]
        self._busy = mmap.mmap(-1, 1)
        self._child = self._another()
        self._places = _of_cuda(os.environ)
        self._own: Child | None = None
        self._question: tuple[Header, Blobs] = ({}, ())

    def _another(self) -> Child:
        return Child(self.MODULE, self.ARGUMENTS, steady=True)

    def renew(self) -> None:
        """Called by the server between two commands: replace a compiler that has died or still works."""
        if self._busy[0] or self._child._process.poll() is not None:
            self._child.close()
            self._busy[0] = 0
            self._child = self._another()

    def __call__(self, module: str, arguments: Sequence[str], *, steady: bool) -> _Compiler | Child:
        """Called by a command in place of ``Child``: this compiler if it is free and fits, else a new process."""
        same = module == self.MODULE and list(arguments) == self.ARGUMENTS and _of_cuda(os.environ) == self._places
        try:
            if same and os.fstat(self._lock.fileno())[:3] == self._identity:  # else a fork has closed all files
                fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self
        except OSError:
            pass
        return Child(module, arguments, steady=steady)

    def send(self, header: Header, blobs: Blobs = ()) -> None:
        self._question = (header, blobs)
        if self._own:
            return self._own.send(header, blobs)
        self._busy[0] = 1
        try:
            self._child.send(header, blobs)
        except ChildDied:
            self._ask_another()

    def receive(self, seconds: float, *, working: bool = False) -> tuple[dict[str, Any], list[bytes]]:
        if not self._own:
            try:
                answer = self._child.receive(seconds, working=working)
                self._busy[0] = 0
                return answer
            except ChildDied:  # only its parent, the server, can read how it ended
                self._ask_another()
        assert self._own
        return self._own.receive(seconds, working=working)

    def _ask_another(self) -> None:
        self._own = self._another()
        self._own.send(*self._question)

    def close(self) -> None:
        if self._own:
            self._own.close()
            self._own = None
        elif self._busy[0]:
            self._child.close()


def _of_cuda(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name in ("CUDA_HOME", "CUDA_PATH")}


def _serve(connection: socket.socket, compiler: _Compiler) -> Mapping[str, Any]:
    """Fork for each request. Return the request in the forked process; exit when the client has closed the socket."""
    while True:
        message, files, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
        if not message:
            raise SystemExit(0)
        compiler.renew()
        if not (pid := os.fork()):
            connection.close()
            for stream, file in enumerate(files):
                os.dup2(file, stream)
                os.close(file)
            question: Mapping[str, Any] = json.loads(message)
            return question
        for file in files:
            os.close(file)
        connection.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(question: Mapping[str, Any]) -> None:
    """Set folder, environment, arguments and streams as a fresh interpreter finds them."""
    os.chdir(question["cwd"])
    os.environ.clear()
    os.environ.update(question["environment"])
    sys.path[0] = question["cwd"]
    sys.argv = [str(Path(gemm_lessons.__file__).with_name("__main__.py")), *question["arguments"]]
    tempfile.tempdir = None
    encoding = locale.getencoding()
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding)  # type: ignore[misc]
    for name, stream, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        raw = io.BufferedWriter(io.FileIO(stream, "w", closefd=False))
        text = io.TextIOWrapper(raw, encoding, errors, line_buffering=os.isatty(stream) or stream == 2)
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


def _leave(reason: BaseException | None) -> None:
    """End as an interpreter does, without finalising all modules, which takes as long as a short command."""
    if not isinstance(reason, SystemExit):
        return
    code = reason.code if isinstance(reason.code, int) else int(reason.code is not None)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120  # as Python's own
    os._exit(code)


if __name__ == "__main__":
    _import_all()
    gc.collect()
    gc.freeze()
    compiler = _Compiler()
    _become(_serve(socket.socket(fileno=int(sys.argv[1])), compiler))
    from gemm_lessons.__main__ import main
    from gemm_lessons.engine.compiler import nvrtc_child

    vars(nvrtc_child)["Child"] = compiler

    try:
        main()
    finally:
        _leave(sys.exc_info()[1])
