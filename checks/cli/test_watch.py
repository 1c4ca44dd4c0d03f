"""``watch``, driven through a pseudo-terminal as a hand and an editor would; and what it does where no events come."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.cli.tiny_course import BINARY, SOLUTION, STUB, environment, write_course
from gemm_lessons.course.folder import Course
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.editor.setup import BACKGROUND
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.running.contract import SCHEMA
from gemm_lessons.watch.changes import Changes
from gemm_lessons.watch.session import Session

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x1b\x07]*(?:\x1b\\|\x07)")
# A session begins with Ctrl-C as usual: a shell's job in the background ignores it, and so would what that starts.
OWN_TERMINAL = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.login_tty(os.dup(0));"
    " os.execv(sys.argv[1], sys.argv[1:])"
)
PATIENCE = 60.0  # seconds; a machine may be busy
SLOW = SOLUTION.replace(
    "for (int k = 0;", "for (int again = 0; again < 1000; again++)\n        for (int k = again % 2;"
)


class Hand:
    """A pseudo-terminal in which ``watch`` runs, with keys to type and output to wait for."""

    def __init__(self, course: Path, *arguments: str) -> None:
        self.ours, self.theirs = pty.openpty()
        self.resize(100)
        self.usual = termios.tcgetattr(self.theirs)
        program = [sys.executable, "-c", OWN_TERMINAL, *BINARY, "watch", *arguments]
        terminal = self.theirs
        self.process = subprocess.Popen(
            program, cwd=course, env=environment(), stdin=terminal, stdout=terminal, stderr=terminal
        )
        self.seen = ""

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def sees(self, *texts: str) -> str:
        """Wait until all these words have been shown since the last call, in this order; return the output."""
        end, raw = time.monotonic() + PATIENCE, b""
        rest = self.seen
        wanted = re.compile(".*?".join(map(re.escape, texts)), re.DOTALL)
        while not (found := wanted.search(rest)):
            ready, _, _ = select.select([self.ours], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{texts} did not come; this did:\n{rest}"
            raw += os.read(self.ours, 65536)
            rest = self.seen + CONTROL.sub("", raw.decode(errors="replace")).replace("\r", "")
        self.seen = rest[found.end() :]
        return rest[: found.end()]

    @property
    def takes_single_keys(self) -> bool:
        return not termios.tcgetattr(self.theirs)[3] & termios.ICANON

    def leaves(self) -> int:
        code = self.process.wait(PATIENCE)
        assert termios.tcgetattr(self.theirs) == self.usual
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.theirs)
        os.close(self.ours)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return write_course(tmp_path)


@pytest.fixture
def hand(course: Path) -> Iterator[Hand]:
    hand = Hand(course)
    yield hand
    hand.close()


def save(path: Path, text: str) -> None:
    """Save a file as editors do that replace it in one step."""
    scratch = path.with_name("4913~")
    scratch.write_text(text)
    scratch.rename(path)


def test_a_session(hand: Hand, course: Path) -> None:
    kernel = course / "lessons" / "01_first" / "kernel.cu"
    hand.sees("made from the stub", "TODO(1)", "not run yet", "h hint  r run  v view  l list  q quit\n")
    assert kernel.read_text() == STUB
    assert hand.takes_single_keys
    hand.type("h")
    hand.sees("hint 1 of 3", "a nudge", "q quit\n")
    hand.type("\x1b[Ax")  # an arrow, and no key of ours
    save(kernel, SOLUTION.replace("acc +=", "acc -="))
    hand.sees("WRONG ANSWER", "s after the save", "r run  v view  l list  q quit\n")

    save(kernel, SLOW)
    hand.sees("0:00:0")  # for more than a second by now
    hand.type("qq")
    hand.sees("WRONG ANSWER", "q quit\n")
    save(kernel, SOLUTION)
    hand.sees("PASSED", "PASSED", "after the save", "n next lesson  h hint  r run  d diff  v view  l list  q quit\n")
    hand.type("l")
    hand.sees("1 of 2 passed", "tried 3 times, 1 hint", "q quit\n")
    hand.type("d")
    hand.sees("the same, line by line", "q quit\n")
    hand.type("v")
    hand.sees(".gemm-lessons/01_first.html: open it in a browser", "PASSED", "q quit\n")
    hand.type("r")
    hand.sees("PASSED", "  in ", "q quit\n")

    hand.resize(60)
    assert "─" * 61 not in hand.sees("PASSED", "─" * 60, "q quit\n")
    kernel.unlink()
    hand.sees("kernel.cu is gone", "q quit\n")
    kernel.write_text(SOLUTION)
    hand.sees("PASSED", "q quit\n")
    toml = kernel.with_name("lesson.toml")
    settings = toml.read_text()
    toml.write_text("title =")
    hand.sees("error:", "lesson.toml:1: not valid TOML", "q quit\n")
    toml.write_text(settings)
    hand.sees("PASSED", "q quit\n")
    kernel.chmod(0)
    if os.geteuid():
        hand.type("r")
        hand.sees("cannot be read: permission denied", "q quit\n")
    kernel.chmod(0o644)
    kernel.with_name("stub.cu").unlink()
    hand.type("h")
    hand.sees("stub.cu: not found", "q quit\n")
    hand.type("n")
    hand.sees("The second lesson", "made from the stub", "02_second", "q quit\n")
    save(course / "lessons" / "02_second" / "kernel.cu", SOLUTION)
    hand.sees("lesson 01", "reference", "GATE MISSED", "02_second", "q quit\n")

    termios.tcsetattr(hand.theirs, termios.TCSANOW, hand.usual)  # a shell's, while the session was stopped
    hand.process.send_signal(signal.SIGCONT)
    hand.sees("GATE MISSED", "q quit\n")
    assert hand.takes_single_keys
    hand.type("\x03")
    assert hand.leaves() == 130
    assert not [path.name for path in course.rglob("*") if "tmp" in path.name or "bak" in path.name]


def test_q_and_the_end_of_the_terminal_end_it(course: Path) -> None:
    for how, code in (("q", 0), ("\x04", 0), (signal.SIGTERM, 143)):
        hand = Hand(course, "first")
        hand.sees("q quit\n")
        hand.process.send_signal(how) if isinstance(how, signal.Signals) else hand.type(str(how))
        assert hand.leaves() == code
        hand.close()


def test_without_a_terminal_and_without_events(course: Path) -> None:
    """``watch`` polls, says so, and continues until it is told to end."""
    process = subprocess.Popen(
        [*BINARY, "watch", "01", "--polling"], cwd=course, env=environment(), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    kernel = course / "lessons" / "01_first" / "kernel.cu"
    shown = ""
    for line in process.stdout:
        shown += line
        if line == "Polling for a save of lessons/01_first/kernel.cu\n":
            assert re.match(str(BACKGROUND["endsPattern"]), line)
            if "PASSED" in shown:
                break
            save(kernel, SOLUTION)
    process.terminate()
    assert process.wait(PATIENCE) == 143
    process.stdout.close()
    assert "not run yet" in shown
    assert "\x1b" not in shown
    assert "quit" not in shown


def test_events_as_lines_of_json(course: Path) -> None:
    kernel, stub = (course / "lessons" / "01_first" / name for name in ("kernel.cu", "stub.cu"))
    process = subprocess.Popen(
        [*BINARY, "watch", "01", "--json-lines"], cwd=course, env=environment(), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None

    def event() -> dict[str, Any]:
        assert process.stdout is not None
        found: dict[str, Any] = json.loads(process.stdout.readline())
        assert (found["schema"], found["lesson"]) == (SCHEMA, "01_first")
        return found

    first = event()
    assert (first["event"], first["kernel"]) == ("waiting", "lessons/01_first/kernel.cu")
    save(kernel, SOLUTION)
    passed = event()
    assert (passed["event"], passed["verdict"]) == ("run", "passed")
    save(kernel, "not C++")
    assert event()["verdict"] == "compile_failed"
    toml = stub.with_name("lesson.toml")
    save(toml, "tile = 3\n" + toml.read_text())
    wrong = event()
    assert wrong["event"] == "error"
    assert "lesson.toml:" in wrong["message"]
    process.terminate()
    assert process.wait(PATIENCE) == 143
    again = [json.loads(line) for line in process.stdout]  # a change may be told of twice
    process.stdout.close()
    assert all(it == wrong for it in again)
    process.stderr.close()


def test_a_change_that_no_event_told_of_is_found(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that another machine writes to."""
    runs: list[bool] = []
    monkeypatch.setattr(Session, "_run", lambda session, saved=False: runs.append(session._changes.polling))
    found = Course(course)
    with Changes() as changes:
        session = Session(found, (Simulated(), find_gpu("h200")))
        session._changes = changes
        session._turn_to(found.lesson("01"))
        session._look(told=False)
        assert not changes.polling
        save(found.lesson("01").kernel_path, SOLUTION)
        session._look(told=False)
        assert not runs, "the event may be on its way"
        session._look(told=False)
        assert runs == [True]
        assert changes.how == "no events"


@pytest.mark.parametrize("polling", [False, True])
def test_changes_are_told(tmp_path: Path, polling: bool) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()

    def told(changes: Changes, seconds: float) -> bool:
        ready = bool(select.select([changes.file], [], [], seconds)[0])
        changes.taken()
        return ready

    with Changes(polling) as changes:
        changes.of([tmp_path / "one", tmp_path / "missing"])
        for text in ("1", "2"):
            until = time.monotonic() + PATIENCE
            while not told(changes, 0.5):  # whoever begins to watch may miss the first one
                assert time.monotonic() < until
                save(tmp_path / "one" / "kernel.cu", text + "x" * (time.monotonic_ns() % 100))
        changes.of([tmp_path / "two"])
        told(changes, 0.5)
        save(tmp_path / "one" / "kernel.cu", "4")
        assert not told(changes, 0.5)
    assert not changes._thread
