"""A child process with private pipes, for code that may crash, hang or use too much memory.

Such a child owns a CUDA context (``gpu``), because an endless or faulting kernel takes its whole process down; or it is
NVIDIA's compiler, which crashes on some typing errors; or the submissions of a grading run (``grading.fork_server``).

    child = Child("gemm_lessons.devices.gpu.server", ["0"])          parent: starts ``main(parent, "0")`` of that module
    child.send({"do": "launch"}, [array])                    a header (JSON) and any number of blobs of bytes
    header, blobs = child.receive(seconds=20)                or ``ChildHung``, ``ChildDied``

The pipes are not stdout and stderr, and each has one direction only: a kernel that prints, or a source file that
includes ``/proc/self/fd``, can neither write an answer nor read the request again. The child ends when its parent does,
for any reason: a thread waits for the end of a third pipe that only the parent holds open.

A ``Forked`` child does not start a new interpreter: it continues from its parent's state, with all modules loaded, for
a process that has no threads and needs many children. It leads a session of its own, too, and Linux kills it when its
parent ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gemm_lessons.engine.process import address_space
from gemm_lessons.engine.process.bounds import SLOW
from gemm_lessons.engine.records.errors import KitError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Header = Mapping[str, Any]
Blobs = Sequence[Any]  # objects with the buffer protocol, C-contiguous

# -P keeps the current folder, where a user may have a file called numpy.py, off sys.path. The kit that is imported is
# the parent's, even if another one is installed.
BOOT = """import sys
places = sys.argv[1].split("|")
sys.path.insert(0, places[0])
import gemm_lessons
sys.path[:] = [*sys.path[1:], *places]
from gemm_lessons.engine.process import child
child._run(sys.argv[2:])"""
ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 5.0  # for a killed process to exit; a GPU driver may need a while to stop a kernel
LAST_WORDS = 2000  # characters of stderr to keep
STEADY, DRAWN = "steady", "drawn"  # a child's addresses
END_WITH_PARENT = 1  # prctl
CPU_CLOCK = 2  # a process's CPU clock is ~pid << 3 | 2, as of clock_getcpuclockid, which Python lacks


class ChildHung(Exception):
    """No message arrived in time. The child has been killed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s")
        self.seconds = seconds


class ChildDied(Exception):
    """The child ended without an answer. ``code`` is its exit code, negative for a signal, None if not yet known."""

    def __init__(self, code: int | None, last_words: str) -> None:
        how = f"was ended by {signal_name(-code)}" if code is not None and code < 0 else f"ended with exit code {code}"
        super().__init__(f"the process {how}" + (f": {last_words}" if last_words else ""))
        self.code = code
        self.last_words = last_words

    @property
    def out_of_time(self) -> bool:
        """Tell whether Linux ended the process because it used up its processor time."""
        return abs(self.code or 0) == signal.SIGXCPU

    @property
    def killed(self) -> bool:
        """Tell whether it was ended by force."""
        return abs(self.code or 0) == signal.SIGKILL


def signal_name(number: int) -> str:
    """Return the name of a signal: ``SIGSEGV`` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Child:
    """A running child. Close it (or use it as a context manager), or the process lives as long as the parent.
    Several threads may close it.

    ``module`` must have ``main(parent: Parent, *arguments: str)``; ``path`` is added to the child's ``sys.path``.
    ``environment`` is added to this process's, or replaces it if ``bare``. ``steady``: memory is mapped at the
    same addresses in every such child.
    """

    _process: subprocess.Popen[bytes] | _Process

    def __init__(
        self,
        module: str,
        arguments: Sequence[str] = (),
        *,
        environment: Mapping[str, str] | None = None,
        path: Sequence[Path] = (),
        bare: bool = False,
        steady: bool = False,
    ) -> None:
        self._closing = threading.RLock()  # a number that is closed twice may be another file's by then
        question, self._ask = os.pipe()
        self._answer, answer = os.pipe()
        lifeline, ours = os.pipe()
        self._lifeline: int | None = ours
        theirs = (question, answer, lifeline)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        command = [sys.executable, "-P", "-c", BOOT, "|".join(map(str, (ROOT, *path))), module]
        try:
            self._process = subprocess.Popen(
                [*command, STEADY if steady else DRAWN, *map(str, theirs), *arguments],
                pass_fds=theirs,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # of a kernel's printf
                stderr=self._stderr,
                env={**({} if bare else os.environ), **(environment or {})},
                start_new_session=True,  # Ctrl-C is the parent's to handle; killing takes grandchildren along
            )
        except OSError as error:
            raise KitError(f"cannot start a process: {error}") from error
        finally:
            for fd in theirs:
                os.close(fd)
        self._to = _end_of(self._ask, readable=False)
        self._from = _end_of(self._answer, writable=False)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, header: Header, blobs: Blobs = ()) -> None:
        """Send a request. Raise ``ChildDied`` if the child has ended."""
        try:
            _send(self._to, header, blobs)
        except OSError:
            raise self._died() from None

    def receive(self, seconds: float, *, working: bool = False) -> tuple[dict[str, Any], list[bytes]]:
        """Return the next message. Raise ``ChildHung`` (and kill the child) or ``ChildDied``.

        ``working``: the child computes, and the seconds are processor time; on a busy machine, ``bounds.SLOW`` times as
        much wall time may pass.
        """
        began = self._processor_time() if working else 0.0
        try:
            arrived = self._from.poll(seconds)
            end = time.monotonic() + (SLOW - 1) * seconds
            while working and not arrived and time.monotonic() < end:
                left = seconds - (self._processor_time() - began)
                if left <= 0:
                    break
                arrived = self._from.poll(min(left, end - time.monotonic()))
            if not arrived:
                self.close()
                raise ChildHung(seconds)
            return _receive(self._from)
        except (EOFError, OSError):
            raise self._died() from None

    def _processor_time(self) -> float:
        """Return the child's processor time in seconds; infinity if the child is gone, so that callers stop."""
        try:
            return time.clock_gettime(~self.pid << 3 | CPU_CLOCK)
        except OSError:
            return math.inf

    def _died(self) -> ChildDied:
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(PATIENCE_S)
        with self._closing:
            words = ""
            if not self._stderr.closed:
                self._stderr.seek(0)
                words = self._stderr.read().decode(errors="replace").strip()[-LAST_WORDS:]
            self.close()
        return ChildDied(code, words)

    def close(self, patience: float = 0.0) -> None:
        """End the child and everything it started, by force after ``patience`` seconds.

        The child ends by itself when the pipe of requests closes. The call does not wait for a process that the driver
        holds. If Ctrl-C or ``OutOfTime`` interrupts it, call it again to continue.
        """
        with self._closing:
            if self._stderr.closed:
                return
            self._to.close()
            if patience:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(patience)
            self._from.close()
            self._close_lifeline()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE_S)
            self._stderr.close()

    def _close_lifeline(self) -> None:
        lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            os.close(lifeline)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Forked(Child):
    """A forked child that runs ``function(parent)``. Of the open files it keeps only its pipes and those in ``kept``.

    Only for a process without threads, or whose threads are idle: the child does not have them.
    """

    def __init__(self, function: Callable[[Parent], object], kept: Collection[int] = ()) -> None:
        self._closing = threading.RLock()
        question, self._ask = os.pipe()
        self._answer, answer = os.pipe()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            raise KitError(f"cannot start a process: {error}") from error
        if not pid:
            _run_forked(function, parent, question, answer, self._stderr.fileno(), kept)
        os.close(question)
        os.close(answer)
        self._process = _Process(pid)
        self._to = _end_of(self._ask, readable=False)
        self._from = _end_of(self._answer, writable=False)

    def _close_lifeline(self) -> None:
        """Do nothing: the child ends with this process, without a lifeline."""


class Claims:
    """Which of two processes does which of numbered jobs: each job is done by the process that claims it first.

    Make it before the fork. ``fd`` is its file, which the forked process keeps open. A claim is a lock on a byte of the
    file, so it ends with its process.
    """

    def __init__(self) -> None:
        self.fd = os.memfd_create("claims")

    def take(self, number: int) -> bool:
        """Claim a job for this process. Return whether this process has it now, also from an earlier call."""
        try:
            fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):  # POSIX allows either error for another process's lock
            return False
        return True

    def close(self) -> None:
        """Give up all claims of this process."""
        os.close(self.fd)


class _Process:
    """A forked process, with the part of ``Popen`` that ``Child`` uses. Several threads may wait for it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None
        self._turn = threading.Lock()

    def wait(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        pause = 0.0005
        while not self._has_ended():
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a forked process", timeout)
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        assert self._code is not None
        return self._code

    def _has_ended(self) -> bool:
        with self._turn:
            if self._code is None:
                try:
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                except ChildProcessError:  # end_orphans killed it, or we are a fork of its parent
                    pid, status = self.pid, signal.SIGKILL
                if pid:
                    self._code = os.waitstatus_to_exitcode(status)
            return self._code is not None


def _run_forked(
    function: Callable[[Parent], object], parent: int, question: int, answer: int, stderr: int, kept: Collection[int]
) -> NoReturn:
    """Main function of a ``Forked`` child."""
    code = 1
    try:
        end_with(parent)
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for source, target in ((nothing, 0), (nothing, 1), (stderr, 2)):
            os.dup2(source, target)
        _close_all_but({0, 1, 2, question, answer, *kept})
        function(Parent(question, answer))
        code = 0
    finally:
        if (error := sys.exception()) is not None and not isinstance(error, SystemExit):
            sys.excepthook(type(error), error, error.__traceback__)
        os._exit(code)  # not back into our parent's code, nor through its clean-up


def _close_all_but(kept: Collection[int]) -> None:
    """Close all open files but ``kept``, also those with numbers above a limit that was lowered later."""
    try:
        numbers: Iterable[int] = map(int, os.listdir("/proc/self/fd"))
    except OSError:
        numbers = range(os.sysconf("SC_OPEN_MAX"))
    for number in numbers:
        if number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def end_with(parent: int) -> None:
    """Let Linux kill this process when ``parent``, which started it, ends."""
    ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() not in (parent, 0):  # 0: the parent is outside of our namespace
        os._exit(1)


def go_on_in_child(work: Callable[[], object]) -> NoReturn:
    """Run ``work`` in a forked process, the first of a new PID namespace; this process ends with its exit code."""
    ours = os.getpid()
    pid = os.fork()
    if not pid:
        end_with(ours)
        work()
        os._exit(0)
    os._exit(abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))


class Parent:
    """The child's end of the pipes to its parent."""

    def __init__(self, question: int, answer: int) -> None:
        self._from = _end_of(question, writable=False)
        self._to = _end_of(answer, readable=False)
        self._last = time.monotonic()

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the next request. End the process if the parent has closed the pipe."""
        try:
            return _receive(self._from)
        except (EOFError, OSError):
            raise SystemExit(0) from None

    def send(self, header: Header, blobs: Blobs = ()) -> None:
        """Answer, or report progress: each message restarts the child's time limit."""
        self._last = time.monotonic()
        _send(self._to, header, blobs)

    def no_more_questions(self) -> None:
        """Close the pipe of requests: code that handles untrusted files must not hold it."""
        self._from.close()

    @property
    def silence(self) -> float:
        """Return the seconds since the last message to the parent."""
        return time.monotonic() - self._last


def _end_of(pipe: int, readable: bool = True, writable: bool = True) -> Connection[Any, Any]:
    from multiprocessing.connection import Connection  # slow to import, and most runs start no child

    return Connection(pipe, readable, writable)


def _send(connection: Connection[Any, Any], header: Header, blobs: Blobs) -> None:
    connection.send_bytes(json.dumps({"header": header, "blobs": len(blobs)}).encode())
    for blob in blobs:
        connection.send_bytes(memoryview(blob).cast("B"))


def _receive(connection: Connection[Any, Any]) -> tuple[dict[str, Any], list[bytes]]:
    message = json.loads(connection.recv_bytes())
    return message["header"], [connection.recv_bytes() for _ in range(message["blobs"])]


def _run(arguments: Sequence[str]) -> None:
    """Entry point of a child: ``MODULE steady|drawn QUESTION ANSWER LIFELINE [ARGUMENT...]``."""
    module, addresses, question, answer, lifeline, *rest = arguments
    if addresses == STEADY:
        address_space.fix()
    threading.Thread(target=_end_with_parent, args=(int(lifeline),), daemon=True).start()
    for fd in (question, answer, lifeline):
        os.set_inheritable(int(fd), False)  # not for the child's own children
    import importlib

    importlib.import_module(module).main(Parent(int(question), int(answer)), *rest)


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)  # no clean-up: the main thread may be waiting for a kernel that never ends


ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl


def adopt_orphans() -> None:
    """Make this process the parent of processes that its children leave running."""
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)


def end_orphans() -> None:
    """Kill and reap every child of this process, and the processes that these leave running."""
    with contextlib.suppress(OSError):
        while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            for pid in map(int, children):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in map(int, children):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
