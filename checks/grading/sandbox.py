"""Attacks by code that has broken out of the simulator: ``python -m checks.grading.sandbox`` tries and lists them.

Each attempt is Python that runs in the process of a submission, instead of the submission and with the same walls. It
sets ``got`` to what it obtained, which should be nothing, or the error that stopped it.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checks.grading.metadata import code
from checks.usage import help_if_asked
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.compiler import cache
from gemm_lessons.engine.process import seccomp, walls
from gemm_lessons.engine.process.bounds import GIB
from gemm_lessons.engine.process.seccomp import NUMBERS
from gemm_lessons.grading import sandbox, worker
from gemm_lessons.grading.worker import Limits, Submission, judge_submission, run_python

MOST = Limits(seconds=4, memory_bytes=GIB // 2)
REFUSAL = re.compile(r"(PermissionError|OSError|MemoryError|ValueError|ProcessLookupError|FileNotFoundError)\b")
SECRET = "what another student has written"
HEAD = """
import ctypes, os, socket, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def attempt(work):
    try:
        return work()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
def call(number, *arguments):
    answer = libc.syscall(number, *arguments)
    return f"OSError: {os.strerror(ctypes.get_errno())}" if answer < 0 else answer
def read(path):
    with open(path, "rb") as file:
        return file.read(64).decode(errors="replace")
"""


@dataclass(frozen=True)
class Attempt:
    """``code`` sets ``got``; ``wall`` (of ``walls.WALLS``) is what stops it. ``ends``: by an end of the process."""

    name: str
    wall: str
    code: str
    ends: tuple[str, ...] = ()


def refused() -> list[int]:
    """The numbers of all system calls that the filter refuses whatever their arguments are."""
    numbers = NUMBERS.get(platform.machine(), {})
    decided = {numbers.get(name) for name in (*seccomp.ALLOWED, *seccomp._by_argument(False, 0))}
    decided |= {335, 336}  # uretprobe and uprobe pass every filter; elsewhere than in a probe they end the process
    return [number for number in range(600) if number not in decided]


def _read(name: str, path: str) -> Attempt:
    return Attempt(name, "files", f"got = attempt(lambda: read({path!r}))")


def attempts(scene: Scene) -> tuple[Attempt, ...]:
    """All of them."""
    course = packaged_course()
    lesson = course.lesson("block_tile")
    other, server = str(scene.other), scene.server()
    numbers = NUMBERS[platform.machine()]
    return (
        _read("read /etc/passwd", "/etc/passwd"),
        _read("read another student's file", str(scene.other)),
        _read("read a solution", str(lesson.solution_path)),
        _read("read another lesson's solution", str(course.lesson("naive").solution_path)),
        _read("read the teacher's environment", f"/proc/{os.getpid()}/environ"),
        _read("read its parent's memory", "/proc/self/mem"),
        _read("read the kernel's messages", "/dev/kmsg"),
        _read("read the cache", str(scene.cache)),
        Attempt("list the students", "files", f"got = attempt(lambda: os.listdir({str(scene.other.parent)!r}))"),
        Attempt("list processes", "files", "got = attempt(lambda: os.listdir('/proc'))"),
        Attempt("its environment", "environment", "got = [n for n in os.environ if 'SECRET' in n] or ''"),
        Attempt("a link to another file", "files",
                f"got = attempt(lambda: (os.symlink({other!r}, 'link'), read('link'))[1])"),
        Attempt("a hard link to another file", "files",
                f"got = attempt(lambda: (os.link({other!r}, 'hard'), read('hard'))[1])"),
        Attempt("climb out of its folder", "files",
                f"got = attempt(lambda: read('../' * 20 + {other!r}.lstrip('/')))"),
        Attempt("write over another file", "files", f"got = attempt(lambda: open({other!r}, 'w').write('x'))"),
        Attempt("rename another file", "files", f"got = attempt(lambda: os.rename({other!r}, 'mine'))"),
        Attempt("remove another file", "files", f"got = attempt(lambda: os.unlink({other!r}))"),
        Attempt("poison the cache", "files",
                f"got = attempt(lambda: open({str(scene.cache)!r}, 'wb').write(b'passed'))"),
        Attempt("write into the kit", "files",
                f"got = attempt(lambda: open({str(sandbox.PACKAGE / 'evil.py')!r}, 'w').write('x'))"),
        Attempt("a file in /tmp", "files", "got = attempt(lambda: open('/tmp/gemm-lessons-was-here', 'w').write('x'))"),
        Attempt("shared memory", "files",
                "got = attempt(lambda: open('/dev/shm/gemm-lessons-was-here', 'w').write('x'))"),
        Attempt("connect to the network", "network",
                f"got = attempt(lambda: socket.create_connection(('127.0.0.1', {scene.port}), 1).recv(9))"),
        Attempt("a socket of any kind", "network", "got = attempt(lambda: socket.socket(socket.AF_UNIX).fileno())"),
        Attempt("a raw socket", "network", "got = attempt(lambda: socket.socket(socket.AF_NETLINK).fileno())"),
        Attempt("start a program", "start", "got = attempt(lambda: subprocess.run(['/bin/true']).returncode)"),
        Attempt("a fork bomb", "start",
                "def bomb():\n    for n in range(2000):\n        if not os.fork(): os._exit(0)\n    return n\n"
                "got = attempt(bomb)"),
        Attempt("become another program", "start", "got = attempt(lambda: os.execv('/bin/sh', ['sh', '-c', 'id']))"),
        Attempt("kill its parent", "calls", f"got = attempt(lambda: os.kill({server}, 9))"),
        Attempt("kill everybody", "calls", "got = attempt(lambda: os.kill(-1, 9))"),
        Attempt("trace another process", "calls", f"got = call({numbers['ptrace']}, 16, {server}, 0, 0)"),
        Attempt("write another's memory", "calls",
                f"got = call({numbers['process_vm_writev']}, {server}, 0, 0, 0, 0, 0)"),
        Attempt("lower another's limits", "calls", f"got = call({numbers['prlimit64']}, {server}, 7, b'\\0' * 16, 0)"),
        Attempt("raise its own limits", "use",
                "from resource import *\ngot = attempt(lambda: setrlimit(RLIMIT_DATA, (-1, -1)) or 'raised')"),
        Attempt("mount", "calls", f"got = call({numbers['mount']}, b'none', b'.', b'tmpfs', 0, 0)"),
        Attempt("new namespaces", "calls", f"got = call({numbers['unshare']}, 0x10000000)"),
        Attempt("io_uring", "calls", f"got = call({numbers['io_uring_setup']}, 8, ctypes.create_string_buffer(256))"),
        Attempt("32-bit system calls by another door", "calls", "got = call(0x40000000 + 41, 2, 1, 0)"),
        Attempt("take memory away from the machine", "calls",
                f"got = call({numbers['madvise']}, ctypes.c_void_p(1 << 16), 4096, 100)"),
        Attempt("share pages with other processes", "calls", f"got = call({numbers['prctl']}, 67, 1, 0, 0, 0)"),
        Attempt("switch performance counters", "calls", f"got = call({numbers['prctl']}, 32, 0, 0, 0, 0)"),
        Attempt("load a kernel module", "calls", f"got = call({numbers['finit_module']}, 0, b'', 0)"),
        Attempt("a memory bomb", "use", "got = attempt(lambda: len(bytearray(8 << 30)))"),
        Attempt("memory by the back door", "use", "import mmap\ngot = attempt(lambda: len(mmap.mmap(-1, 64 << 30)))"),
        Attempt("a disk bomb", "use",
                "def fill():\n    with open('big', 'wb') as f:\n        for _ in range(200): f.write(bytes(1 << 20))\n"
                "    return 'filled'\ngot = attempt(fill)", ends=("crash",)),
        Attempt("fill the files that are open", "writes",
                "import stat\nwritten = 0\nfor fd in range(70000):\n    try:\n"
                "        while stat.S_ISREG(os.fstat(fd).st_mode): written += os.write(fd, bytes(1 << 16))\n"
                f"    except OSError: pass\ngot = written if written > {2 * walls.LAST_WORDS} else ''"),
        Attempt("fill the disk with many files", "writes",
                "def fill():\n    for n in range(100):\n        with open(f'big{n}', 'wb') as f: f.write(bytes(9999))\n"
                "    return 'filled'\ngot = attempt(fill)"),
        Attempt("fill its folder with folders", "writes",
                "got = attempt(lambda: [os.mkdir(str(n)) for n in range(1000)] and 'filled')"),
        Attempt("change another's file: mode, owner, times, attributes, place", "writes",
                code(other, "kernel.cu", platform.machine())),
        Attempt("change its own file", "writes", code("kernel.cu", "kernel.cu", platform.machine())),
        Attempt("every system call that is not allowed", "calls",
                f"numbers = {refused()!r}\n"
                "def errno_of(n):\n    ctypes.set_errno(0)\n    libc.syscall(n, *[ctypes.c_long(-1)] * 6)\n"
                "    return ctypes.get_errno()\n"
                "got = [n for n in numbers if errno_of(n) not in (1, 38)] or ''"),
        Attempt("never end", "use", "while True: pass", ends=("timeout",)),
        Attempt("never end, deaf", "use",
                "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
                ends=("timeout",)),
        Attempt("forge an answer", "pipes",
                "def forge():\n    for fd in range(3, 64):\n"
                "        try: os.write(fd, b'{\"header\": {\"outcome\": {\"verdict\": \"passed\"}}, \"blobs\": 0}')\n"
                "        except OSError: pass\n    return ''\ngot = forge()", ends=("crash",)),
        Attempt("what it is given to read", "pipes", "got = attempt(lambda: os.read(0, 64).decode())"),
        Attempt("a thread that stays", "pipes",
                "threading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()\ngot = ''"),
        Attempt("change what is judged next", "memory",
                "from gemm_lessons.judging import verdict\n"
                "verdict.Judgement.passed = property(lambda self: True)\ngot = ''"),
    )  # fmt: skip


class Scene:
    """What there is to be got: another student's file, a secret in the environment, a server, an entry of the cache."""

    def __init__(self, folder: Path) -> None:
        self.other = folder / "submissions" / "bob" / "kernel.cu"
        self.other.parent.mkdir(parents=True)
        self.other.write_text(SECRET)
        self._before = os.stat(self.other)
        place = cache.folder()
        assert place is not None
        self.cache = place / f"{os.getpid():064x}"
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        self.cache.write_bytes(SECRET.encode())
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]

    def server(self) -> int:
        """The process that jobs are forked from."""
        run_python("got = 0")
        return worker._idle[0][1].pid

    def unharmed(self) -> bool:
        """Nothing of it was changed, and a wrong kernel is still judged wrong, by the same process as before."""
        lesson = packaged_course().lesson("naive")
        outcome = judge_submission(Submission(packaged_course().root, lesson.name, lesson.stub_path, seed=1))
        left = [Path("/tmp/gemm-lessons-was-here"), Path("/dev/shm/gemm-lessons-was-here"), sandbox.PACKAGE / "evil.py"]
        same = (self.other.read_text(), self.cache.read_text()) == (SECRET, SECRET)
        now = os.stat(self.other)
        same &= all(
            getattr(now, it) == getattr(self._before, it) for it in ("st_mode", "st_uid", "st_mtime_ns", "st_nlink")
        )
        return same and outcome["verdict"] == "wrong_answer" and not any(path.exists() for path in left)

    def close(self) -> None:
        """Take it away."""
        self._server.close()
        self.cache.unlink(missing_ok=True)


@contextmanager
def scene() -> Iterator[Scene]:
    """A scene, in a folder of its own."""
    os.environ["GEMM_LESSONS_SECRET_TOKEN"] = SECRET
    with tempfile.TemporaryDirectory() as folder:
        one = Scene(Path(folder))
        try:
            yield one
        finally:
            one.close()
            del os.environ["GEMM_LESSONS_SECRET_TOKEN"]


def may_try(attempt: Attempt, stand: tuple[str, ...]) -> bool:
    """Whether the wall that stops it stands here: without one, some of these would do what they say."""
    return attempt.wall in stand or attempt.wall not in walls.WALLS


def tried(attempt: Attempt) -> tuple[bool, str]:
    """Whether it was stopped, and what it got."""
    most = replace(MOST, seconds=1) if "timeout" in attempt.ends else MOST
    answer: Mapping[str, Any] = run_python(HEAD + attempt.code, most)
    if "error" in answer:
        return answer["error"] in (*attempt.ends, "memory"), f"ended: {answer['error']} {answer.get('text') or ''}"
    got = answer["got"]
    stopped = got in ("", None) or (isinstance(got, str) and bool(REFUSAL.match(got)))
    return stopped, "nothing" if got in ("", None) else str(got)


def main() -> int:
    """The command."""
    with scene() as one:
        stand = worker.protections()
        for name, text in walls.WALLS.items():
            print(f"{'in force' if name in stand else 'NOT HERE':9} {text}")
        print()
        failures = 0
        for attempt in attempts(one):
            if not may_try(attempt, stand):
                failures += 1
                print(f"no wall  {attempt.name}")
                continue
            stopped, got = tried(attempt)
            failures += not stopped
            print(
                f"{'stopped' if stopped else 'GOT IT':8} {attempt.name:34} {got.splitlines()[0][:100] if got else ''}"
            )
        unharmed = one.unharmed()
        print(
            f"\nafterwards {'nothing is changed' if unharmed else 'SOMETHING IS CHANGED'}: files, cache, kit, verdicts"
        )
        worker.close()
    return int(bool(failures) or not unharmed)


if __name__ == "__main__":
    help_if_asked(__doc__)
    sys.exit(main())
