"""Exceptions that several rooms raise and that end a command. A mistake in a kernel is a value, not an exception."""

from __future__ import annotations

from collections.abc import Sequence


class KitError(Exception):
    """The package or its environment is broken, such as a missing compiler library (exit code 3 of a command).

    A mistake in a kernel is a value, never this exception.
    """


class UnknownArchitecture(KitError):
    """The compiler does not support the target architecture, or no data sheet has its latencies and rates."""


class UnsupportedKernel(Exception):
    """The simulator cannot run this kernel; the message names the opcode or feature.

    ``line`` is the line of the kernel's own file, or None. ``places`` are the files and lines that the code was inlined
    from, innermost first; those of earlier instructions may follow.
    """

    def __init__(self, message: str, line: int | None = None, places: Sequence[tuple[str, int]] = ()) -> None:
        super().__init__(message)
        self.line = line
        self.places = places

    def seen_from(self, path: str) -> UnsupportedKernel:
        """Return the error with a line of the file ``path``: the line of a library's header would mislead."""
        here = [line for file, line in self.places if file == path]
        if not self.places or self.places[0][0] == path:
            return self
        file, line = self.places[0]
        return UnsupportedKernel(f"{self} ({file.rpartition('/')[2]}:{line})", here[0] if here else None)
