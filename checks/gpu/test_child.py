"""What happens in a child process stays there: hangs, crashes, noise, orphans."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gemm_lessons.engine.process import address_space
from gemm_lessons.engine.process.child import ROOT, Child, ChildDied, ChildHung

Make = Callable[..., Child]

# What the children of these tests run: main(parent, *arguments) per behaviour.
BODIES = {
    "echo": """
        while True:
            header, blobs = parent.receive()
            parent.send({"got": header, "arguments": arguments}, [blob[::-1] for blob in blobs])
    """,
    "noisy": """
        import sys
        print('{"header": {"forged": true}, "blobs": 0}', flush=True)
        sys.stderr.write("some noise")
        parent.send({"forged": False})
    """,
    "hang": "import time; time.sleep(600)",
    "slow": "import time; time.sleep(0.4); parent.send({})",
    "busy": "while True: pass",
    "crash": "import ctypes; ctypes.string_at(0)",
    "raise": "raise RuntimeError('what went wrong')",
    "spawn": """
        import subprocess, sys, time
        grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        parent.send({"pid": grandchild.pid})
        time.sleep(600)
    """,
    "heap": """
        import ctypes, mmap, threading
        malloc = ctypes.CDLL(None).malloc
        malloc.restype = ctypes.c_void_p
        found = []
        thread = threading.Thread(target=lambda: found.append(malloc(1 << 16)))
        thread.start()
        thread.join()
        mapped = mmap.mmap(-1, 1 << 30)
        parent.send({"at": [found[0], ctypes.addressof(ctypes.c_char.from_buffer(mapped))]})
    """,
    "reread": """
        import os
        parent.receive()
        parent.no_more_questions()
        parent.send({"open": [name for name in os.listdir("/proc/self/fd")]})
    """,
}


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def start(behaviour: str, *arguments: str, steady: bool = False) -> Child:
        body = textwrap.indent(textwrap.dedent(BODIES[behaviour]), "    ")
        (tmp_path / f"child_{behaviour}.py").write_text(f"def main(parent, *arguments):\n{body}\n")
        return Child(f"child_{behaviour}", arguments, path=[tmp_path], steady=steady)

    return start


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def gone(pid: int, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def test_headers_and_blobs_travel_both_ways(make: Make) -> None:
    with make("echo", "a", "b") as child:
        child.send({"x": [1, 2.5, None]}, [np.arange(3, dtype=np.int16), b""])
        header, blobs = child.receive(10)
        assert header == {"got": {"x": [1, 2.5, None]}, "arguments": ["a", "b"]}
        assert blobs == [b"\0\2\0\1\0\0", b""]
        big = np.arange(1 << 20, dtype=np.uint8)  # far more than a pipe holds
        child.send({}, [big])
        assert child.receive(10)[1] == [big[::-1].tobytes()]


def test_what_it_prints_is_no_answer(make: Make) -> None:
    with make("noisy") as child:
        assert child.receive(10) == ({"forged": False}, [])


def test_a_hanging_child_is_killed_in_time(make: Make) -> None:
    with make("hang") as child:
        started = time.monotonic()
        with pytest.raises(ChildHung, match=r"0\.3 s"):
            child.receive(0.3)
        assert time.monotonic() - started < 3
        assert gone(child.pid)


def test_one_that_works_may_take_longer_where_the_machine_is_busy(make: Make) -> None:
    with make("slow") as child:
        assert child.receive(0.3, working=True) == ({}, [])
    with make("busy") as child:
        started = time.monotonic()
        with pytest.raises(ChildHung, match=r"0\.3 s"):
            child.receive(0.3, working=True)
        assert time.monotonic() - started < 3
    with make("hang") as child, pytest.raises(ChildHung):
        child.receive(0.3, working=True)


@pytest.mark.parametrize(
    ("behaviour", "said"), [("crash", "SIGSEGV"), ("raise", "exit code 1: .*RuntimeError: what went wrong")]
)
def test_a_dying_child_is_told_with_its_last_words(make: Make, behaviour: str, said: str) -> None:
    with make(behaviour) as child, pytest.raises(ChildDied, match=f"(?s){said}"):
        child.receive(10)


def test_asking_a_dead_child_says_so(make: Make) -> None:
    with make("raise") as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ChildDied, match="exit code 1"):
            child.send({}, [bytes(1 << 20)])


def test_grandchildren_go_along(make: Make) -> None:
    with make("spawn") as child:
        pid = child.receive(10)[0]["pid"]
        assert alive(pid)
    assert gone(pid)


def test_closing_may_be_interrupted_and_done_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ctrl-C, or by the end of the time of a job, while the driver does not let the process go."""
    child = make("hang")

    def interrupted(seconds: float) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(child._process, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            child.close()
    child.close()
    assert not Path(f"/proc/{child.pid}").exists()


def test_two_threads_may_close_it_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number is closed once: after that it may be another file's."""
    child = make("echo")
    number, failed = child._from.fileno(), list[OSError]()

    def close_slowly() -> None:
        time.sleep(0.1)
        os.close(number)

    def close() -> None:
        try:
            child.close()
        except OSError as error:
            failed.append(error)

    monkeypatch.setattr(child._from, "_close", close_slowly)
    threads = [threading.Thread(target=close) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_the_question_cannot_be_read_again(make: Make) -> None:
    with make("reread") as child:
        child.send({})
        header, _ = child.receive(10)
        # stdin, stdout, stderr, the answer's end, the lifeline, and the listing itself.
        assert len(header["open"]) == 6


def test_a_child_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "child_busy.py").write_text(
        "import time\ndef main(parent):\n    parent.send({})\n    time.sleep(600)\n"
    )
    program = (
        "import sys, time; from pathlib import Path; from gemm_lessons.engine.process.child import Child\n"
        "child = Child('child_busy', path=[Path(sys.argv[1])]); child.receive(10); print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert parent.stdout is not None
    with parent:
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_it_is_of_the_same_kit(make, monkeypatch, tmp_path):
    """Whatever is installed, or lies on Python's path."""
    other = tmp_path / "installed" / "gemm_lessons"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise RuntimeError('another kit')\n")
    monkeypatch.setenv("PYTHONPATH", str(other.parent))
    with make("echo") as child:
        child.send({})
        assert child.receive(10)[0]["arguments"] == []


@pytest.mark.usefixtures("address_space")
def test_a_steady_child_has_its_memory_where_the_last_one_had_it(make):
    """The compiler asks for that: what NVRTC makes of a program depends on the addresses of its heap."""

    def where(steady: bool) -> list[int]:
        with make("heap", steady=steady) as child:
            return list(child.receive(20)[0]["at"])

    first = where(steady=True)
    assert max(first) < address_space.CEILING <= 2 * min(first)
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    for stack in {1 << 20, 1 << 30, hard}:
        resource.setrlimit(resource.RLIMIT_STACK, (stack if hard < 0 else min(stack, hard), hard))
        try:
            assert where(steady=True) == first
        finally:
            resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    if int(Path("/proc/sys/kernel/randomize_va_space").read_text()):
        assert where(steady=False) != where(steady=False)
