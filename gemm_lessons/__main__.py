"""Entry point of ``gemm-lessons`` and ``python -m gemm_lessons``, with the last exception handler.

The rest is imported inside ``main`` so that Ctrl-C during start-up is as quiet as later.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import stat
import sys
from typing import Any

INTERRUPTED = 130  # 128 + SIGINT, as in shells
BROKEN_PIPE = 141  # 128 + SIGPIPE, as in shells
BROKEN = 3
# Errors of the disk that stdout is written to, or of a file that a library writes: not bugs of the kit.
REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)
# New objects after which the garbage collector runs first. Starting makes a hundred thousand, which live to the end.
STARTING_OBJECTS = 200_000


def main() -> None:
    """Run the command line and exit with its code. Tracebacks appear only with ``GEMM_LESSONS_DEBUG=1``."""
    main_process = os.getpid()
    try:
        code = _run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed the pipe. Python flushes stdout again at exit, so redirect it to nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = BROKEN_PIPE
    except MemoryError:
        print("error: not enough memory; try a smaller --shape", file=sys.stderr)
        code = BROKEN
    except Exception as error:  # top level: an unexpected exception is a bug of ours
        if os.environ.get("GEMM_LESSONS_DEBUG"):
            raise
        if isinstance(error.__cause__, KeyboardInterrupt):  # Ctrl-C while Python 3.11 made a class: it wraps that
            code = INTERRUPTED
        elif isinstance(error, OSError) and error.errno in REFUSED:
            code = _report_refused(error)
        else:
            code = _report_bug(error)
    if code == INTERRUPTED:
        print("\ninterrupted", file=sys.stderr)  # the newline ends the line that shows ^C
    if main_process != os.getpid():  # the child of ``cli.guard`` ends here, not in the code of our caller
        atexit._run_exitfuncs()
        os._exit(code)
    sys.exit(code)


def _run() -> int:
    gc.set_threshold(STARTING_OBJECTS, 10, 10)  # ``cli.run.load_pipeline`` lowers it
    # OpenBLAS's threads spin for up to 20 ms each while they wait for the next product. 2^16 clocks instead of 2^26:
    # with small products, far apart, spinning took ten times the processor time of the products.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # an ASCII terminal shows "?" instead of raising
    _tolerate_closed_pipes()
    from gemm_lessons import cli
    from gemm_lessons.cli import app

    cli.forking = True
    if "_GEMM_LESSONS_COMPLETE" in os.environ:  # a request for completion; Bash has a variable of its own for the line
        command = app.app_to_complete(os.environ.get("COMP_WORDS", "") or os.environ.get("_TYPER_COMPLETE_ARGS", ""))
    else:
        command = app.app_for(sys.argv[1:])
    try:
        command(prog_name="gemm-lessons")
    except SystemExit as exit_:
        if sys.stdout is not None:  # closed by the parent process
            sys.stdout.flush()
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    return 0


class _Pipe(io.FileIO):
    """Stdout whose reader may close it: further output is dropped, and the exit code is unchanged."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def _tolerate_closed_pipes() -> None:
    out = sys.stdout
    if out is None or not isinstance(out, io.TextIOWrapper) or not stat.S_ISFIFO(os.fstat(out.fileno()).st_mode):
        return
    buffer = io.BufferedWriter(_Pipe(out.fileno(), "w", closefd=False))
    sys.stdout = io.TextIOWrapper(buffer, out.encoding, out.errors, write_through=out.write_through)


def _report_refused(error: OSError) -> int:
    print(f"error: {error.filename or 'cannot write'}: {str(error.strerror).lower()}", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left of stdout would fail once more at exit
    return BROKEN


def _report_bug(error: Exception) -> int:
    import platform
    import tempfile
    import traceback

    details = "".join(traceback.format_exception(error))
    where = ""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="gemm-lessons-", suffix=".log", delete=False) as log:
            log.write(f"{sys.argv}\nPython {sys.version}\n{platform.platform()}\n\n{details}")
            where = f"; details are in {log.name}"
    except OSError:
        where = "; details: set GEMM_LESSONS_DEBUG=1 and run it again"
    print(f"error: this is a bug in gemm-lessons ({type(error).__name__}: {error}){where}", file=sys.stderr)
    return BROKEN


if __name__ == "__main__":
    main()
