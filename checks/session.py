"""The recorded session of the site, in asciinema's format: a script types commands, and real runs give all output.

    python -m checks.session FILE      record it anew; without FILE, where the site takes it from
    asciinema play FILE                show it in a terminal

It does not show the kernel, which would be the solution of lesson 03. The pauses for typing and reading
are set here; a command's output appears as fast as it did.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from checks.judgement.mistakes import MISTAKES, lesson_named, source_of
from gemm_lessons.report.site_parts import CAST
from gemm_lessons.report.template import ASSETS

ROOT = Path(__file__).resolve().parents[1]
COLUMNS, ROWS = 80, 32
CHARACTER = 0.05  # seconds to type one
LINE, LEAST, MOST = 0.95, 2.5, 22.0  # seconds to read a line of output, and any output
HOME = "/home/you"  # stands for the temporary folder of a recording
LESSON, FORGOTTEN = "block_tile", "no_second_barrier"
FUNCTION = f'gemm-lessons() {{ "{sys.executable}" -m gemm_lessons "$@"; }}'
PROMPT = "\x1b[1m$\x1b[0m "

Event = tuple[float, str, str]  # seconds, "o" for output, what the terminal got


def scenes() -> Iterator[tuple[str, str]]:
    """Yield the line that is typed, and the kernel to write before it runs; "" leaves the kernel as it is."""
    mistake = next(it for it in MISTAKES if (it.lesson, it.name) == (LESSON, FORGOTTEN))
    yield "gemm-lessons init my-course && cd my-course", ""
    yield "gemm-lessons start 03", ""
    yield "gemm-lessons run 03", ""
    yield "gemm-lessons hint 03", ""
    yield "# Now I write the code of the five TODOs in an editor.", ""
    yield "gemm-lessons run 03", source_of(mistake)
    yield "# So I add the barrier.", ""
    yield "gemm-lessons run 03", lesson_named(LESSON).solution_path.read_text()
    yield "gemm-lessons", ""


def recorded() -> list[Event]:
    """Play the scenes in a new folder."""
    events: list[Event] = []
    now = 0.5
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        for typed, kernel in scenes():
            if kernel:
                (where / "lessons" / lesson_named(LESSON).name / "kernel.cu").write_text(kernel)
            events.append((now, "o", PROMPT))
            for character in [*typed, "\r\n"]:
                now += CHARACTER * (1 if character.isalnum() else 2)
                events.append((now, "o", character))
            begin, lines = now, 0
            for after, line in _output(typed, where):
                now = begin + after
                events.append((now, "o", line.replace(folder, HOME)))
                lines += 1
            where = Path(folder, "my-course")
            now += min(max(LINE * lines, LEAST), MOST)
    return [(round(moment, 2), kind, data) for moment, kind, data in events]


def _output(command: str, where: Path) -> Iterator[tuple[float, str]]:
    """Run a command at a terminal and yield its lines, each with the seconds since the start."""
    terminal, inside = pty.openpty()
    variables = {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": str(COLUMNS), "LINES": str(ROWS), "PAGER": "cat"}
    begin = time.monotonic()
    done = subprocess.Popen(
        ["bash", "-c", f"{FUNCTION}\n{command}"],
        cwd=where,
        env={**{name: it for name, it in os.environ.items() if name != "NO_COLOR"}, **variables},
        stdin=subprocess.DEVNULL,
        stdout=inside,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(inside)
    rest = b""
    with done:
        while data := _read(terminal):
            *lines, rest = (rest + data).split(b"\n")
            yield from ((time.monotonic() - begin, f"{line.decode()}\n") for line in lines)
        os.close(terminal)
        assert done.stderr
        problem = done.stderr.read()
    assert (rest, problem) == (b"", b""), problem.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux raises it when the other side is closed
        return b""


def cast(events: list[Event]) -> str:
    """The recording as asciicast v2: a header, then a line for each event."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "gemm-lessons: two minutes of lesson 03"}
    return "".join(f"{json.dumps(it)}\n" for it in (header, *events))


def shown(recording: str) -> str:
    """The whole output of a recording, as one text."""
    return "".join(json.loads(line)[2] for line in recording.splitlines()[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=ASSETS / CAST)
    file = parser.parse_args().file
    events = recorded()
    file.write_text(cast(events), encoding="utf-8")
    print(f"{file}: {events[-1][0]:.0f} seconds, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
