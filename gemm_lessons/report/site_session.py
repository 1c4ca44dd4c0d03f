"""The recorded session as a page: its text with the time of each piece, which a script shows piece by piece.

    session.cast (asciicast v2, from python -m checks.session) --> a span for each event --> site_session.js

asciinema's own player is 245 KB, as much as a page may have. A terminal that only prints needs none of it, and its text
can be read, searched and printed without a script.
"""

from __future__ import annotations

import html
import json
import math
from typing import TYPE_CHECKING

from gemm_lessons.report.template import asset, rendered

if TYPE_CHECKING:
    from rich.style import Style

CAST = "session.cast"


def session() -> str:
    """Return the body of the page: the text of the whole session, and hidden controls for the script."""
    from markupsafe import Markup

    (_, *events) = (json.loads(line) for line in asset(CAST).splitlines())
    end = math.ceil(events[-1][0])
    pieces = "".join(f'<span data-t="{time:g}">{_coloured(data)}</span>' for time, _, data in events)
    return rendered("site_session.html.jinja", cast=CAST, end=end, pieces=Markup(pieces))


def _coloured(data: str) -> str:
    """Return a piece of terminal output, at most a line, as HTML. Its colours end with it."""
    from rich.console import Console
    from rich.text import Text

    line, end, _ = data.partition("\r\n")
    return "".join(_piece(it.text, it.style) for it in Text.from_ansi(line).render(Console())) + end[1:]


def _piece(text: str, style: Style | None) -> str:
    marks = {"b": style.bold, "d": style.dim} if style else {}
    classes = [mark for mark, given in marks.items() if given]
    if style and style.color and style.color.number:
        classes.append(f"c{style.color.number}")
    return f'<span class="{" ".join(classes)}">{html.escape(text)}</span>' if classes else html.escape(text)
