"""``gemm-lessons site``: the course as web pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gemm_lessons.cli.options import NoColor
from gemm_lessons.course import any_course, shown
from gemm_lessons.running import contract


def site(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder, or one that this command made.")],
    url: Annotated[
        str,
        typer.Option(
            "--url", metavar="ADDRESS", help="Where you publish it: adds a sitemap, a 404 page and cards for links."
        ),
    ] = "",
    no_color: NoColor = False,
) -> int:
    """Write the course as web pages: texts, drawings, charts, search, and pages to try layouts. Links are checked."""
    from gemm_lessons.report import make_console, write_site

    pages = write_site(any_course(), out, url)
    make_console().print(f"{len(pages)} pages: open {shown(out / 'index.html')} in a browser", soft_wrap=True)
    return contract.EXIT_PASSED
