"""The other files of a published site: addresses for search engines, a card for links to it, a page for errors.

A site without an address of its own (``site`` without ``--url``) is read from a disk and needs none of these.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable
from urllib.parse import urlsplit

from gemm_lessons.course import CommandError
from gemm_lessons.report.site_search import sections

ICON = "site_icon.svg"
CARD = "site_card.png"
DESCRIBED = 160  # characters that search engines show of a description
FIRST = "index.html"


def base_address(url: str) -> str:
    """Return the address of the site with one slash at its end. Raises ``CommandError`` for one not of the web."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or " " in url:
        raise CommandError(f"--url {url} is not the address of a folder on the web, such as https://example.org/gemm/")
    return url.rstrip("/") + "/"


def address(url: str, page: str) -> str:
    """Return the one address of a page: the first page has the folder's."""
    return url if page == FIRST else url + page


def sitemap(url: str, pages: Iterable[str]) -> str:
    """Return the site's pages as sitemaps.org's XML."""
    found = "".join(f"<url><loc>{html.escape(address(url, page))}</loc></url>\n" for page in pages)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{space}">\n{found}</urlset>\n'


def described(body: str, idea: str) -> str:
    """Return a sentence or two about a page: a lesson's idea, or else the beginning of its text."""
    paragraph = re.search(r"<p>.*?</p>", body, re.DOTALL)
    text = next((text for *_, text in sections("", "", paragraph[0])), "") if paragraph else ""
    return textwrap.shorten(idea or text, DESCRIBED, placeholder=" ...")


def missing(url: str) -> str:
    """Return the text of the page that a server shows for an address without a page."""
    return (
        "<h1>This page does not exist</h1><p>The lesson may have another number now. "
        f'<a href="{html.escape(url)}index.html#search">Search all pages</a>, or choose a lesson from the menu.</p>'
    )
