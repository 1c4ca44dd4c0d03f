"""Wait for changes of files, by the system's events (watchfiles) or by polling.

There are no events for files that another machine writes to. A caller that notices this calls ``poll``.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import watchfiles

SETTLED_MS = 20  # milliseconds without a change after which the editor has finished
AT_MOST_MS = 200
POLLS_MS = 300
WAIT_MS = 5000  # milliseconds after which the wait starts again


class Changes:
    """``file`` becomes readable when something in one of the folders has changed; ``taken`` empties it.

    A context manager."""

    def __init__(self, polling: bool = False) -> None:
        self.asked = polling
        self.polling = polling or _must_poll()
        self.file, self._told = os.pipe()
        os.set_blocking(self.file, False)
        os.set_blocking(self._told, False)
        self._folders: Sequence[Path] = ()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def how(self) -> Literal["", "asked", "no events"]:
        """Return the reason for polling; empty without polling."""
        return "" if not self.polling else "asked" if self.asked else "no events"

    def of(self, folders: Sequence[Path]) -> None:
        """Watch these folders instead of the earlier ones. A missing folder is ignored."""
        self._end()
        self._folders = [folder for folder in folders if folder.is_dir()]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(self._stop,), daemon=True)
        self._thread.start()

    def poll(self) -> None:
        """Switch from events to polling."""
        self.polling = True
        self.of(self._folders)

    def taken(self) -> None:
        """Discard the changes so far."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.file, 4096):
                pass

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        os.close(self.file)
        os.close(self._told)

    def _watch(self, stop: threading.Event) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # watchfiles raises these if there are no (more) events
            self._tell(stop)
            return
        self.polling = True
        with contextlib.suppress(OSError, RuntimeError):  # the folder is gone; the periodic check notices it
            self._tell(stop)

    def _tell(self, stop: threading.Event) -> None:
        for _ in watchfiles.watch(
            *self._folders,
            watch_filter=None,
            debounce=AT_MOST_MS,
            step=SETTLED_MS,
            stop_event=stop,
            rust_timeout=WAIT_MS,
            force_polling=self.polling,
            poll_delay_ms=POLLS_MS,
            recursive=False,
            raise_interrupt=False,
        ):
            if not stop.is_set():
                with contextlib.suppress(BlockingIOError):  # full pipe: a change is already signalled
                    os.write(self._told, b"!")

    def _end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _must_poll() -> bool:
    """Return whether watchfiles' environment variable asks for polling, or files of Windows are watched from WSL."""
    asked = os.environ.get("WATCHFILES_FORCE_POLLING", "").lower()
    return asked not in ("", "false", "disable", "disabled") or "microsoft" in platform.uname().release.lower()
