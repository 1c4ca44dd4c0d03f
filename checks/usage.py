"""The answer to ``--help`` of commands whose arguments need no parser: the docstring of the command."""

from __future__ import annotations

import sys


def help_if_asked(text: str | None) -> None:
    """Print ``text`` and exit, before the command begins its work, if an argument asks for help."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print((text or "").strip())
        raise SystemExit(0)
