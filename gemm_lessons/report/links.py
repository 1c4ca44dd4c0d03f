"""Link to places in files (OSC 8) in terminals that are known to support it; elsewhere use plain text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.style import Style

PROGRAMS = ("vscode", "iTerm.app", "WezTerm", "ghostty", "Hyper", "rio", "Tabby")  # TERM_PROGRAM
VARIABLES = ("KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION", "DOMTERM", "ALACRITTY_WINDOW_ID")
TERMS = ("xterm-kitty", "alacritty", "foot", "xterm-ghostty")
VTE = 5000  # VTE (GNOME Terminal and others) since 0.50: earlier versions crashed


def link(console: Console, path: str, line: int | None = None, column: int | None = None) -> Style:
    """Return the style of a text that links to a place; an empty style if the terminal has no links."""
    if not console.is_terminal or console.no_color or not has_links(os.environ):
        return Style()
    return Style(link=url(path, line, column, os.environ))


def has_links(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal supports links. ``FORCE_HYPERLINK`` overrides this if it is set."""
    forced = environment.get("FORCE_HYPERLINK")
    if forced:
        return forced != "0"
    if environment.get("TERM") == "dumb" or environment.get("CI"):
        return False
    vte = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM") in PROGRAMS
        or any(environment.get(name) for name in VARIABLES)
        or environment.get("TERM") in TERMS
        or (vte.isdigit() and int(vte) >= VTE)
    )


def url(path: str, line: int | None, column: int | None, environment: Mapping[str, str]) -> str:
    """Return the URL of a place: VS Code's own scheme with the line, for kitty the line after ``#``, else the file."""
    full = Path(os.path.abspath(path))
    if environment.get("TERM_PROGRAM") == "vscode":
        return f"vscode://file{full}" + (f":{line}" if line else "") + (f":{column}" if line and column else "")
    place = full.as_uri().removeprefix("file://")
    import socket  # only for these links

    kitty = "KITTY_WINDOW_ID" in environment or environment.get("TERM") == "xterm-kitty"
    return f"file://{socket.gethostname()}{place}" + (f"#{line}" if line and kitty else "")
