"""The search index of the site: the text of each section of each page, for the script of the index."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

Section = tuple[str, str, str, str, str]  # page, its title, anchor, heading, text
HIDDEN = ("svg", "form", "noscript", "details")  # details are answers, which a search must not give away


class _Sections(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = [["", "", ""]]  # anchor, heading, text
        self._heading = False
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Start a section at a heading; called by the parser."""
        if tag in ("h2", "h3"):
            self.found.append([dict(attrs).get("id") or "", "", ""])
        self._heading |= tag in ("h2", "h3")
        self._hidden += tag in HIDDEN

    def handle_endtag(self, tag: str) -> None:
        """End a heading or what is left out; called by the parser."""
        self._heading &= tag not in ("h2", "h3")
        self._hidden -= tag in HIDDEN

    def handle_data(self, data: str) -> None:
        """Collect text; called by the parser."""
        if not self._hidden:
            self.found[-1][1 if self._heading else 2] += data


def sections(page: str, title: str, body: str) -> Iterator[Section]:
    """Yield the sections of a page's HTML that have text."""
    reader = _Sections()
    reader.feed(body)
    for anchor, heading, text in reader.found:
        if heading or text.strip():
            yield page, title, anchor, heading, " ".join(text.split())
