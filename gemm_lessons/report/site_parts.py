"""Parts of web pages, and the other files of a published site.

- the glossary's words: the first of each section becomes a link with the entry's text as its title
- the recorded session: its text with the time of each piece, which a script shows piece by piece
- a lesson's drills: data for ``assets/site_drill.js``, which draws numbers and checks answers
- the search index: the text of each section of each page, for the script of the index
- addresses for search engines, a card for links to the site, a page for errors

    session.cast (asciicast v2, from python -m checks.session) --> a span for each event --> site_session.js

asciinema's own player is 245 KB, as much as a page may have. A terminal that only prints needs none of it, and its text
can be read, searched and printed without a script. A site without an address of its own (``site`` without ``--url``) is
read from a disk and needs no files of a published one.
"""

from __future__ import annotations

import html
import json
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gemm_lessons.course import FIELD, CommandError, Drill, entries
from gemm_lessons.engine.arguments import Expression
from gemm_lessons.engine.records import dataclass
from gemm_lessons.report.practice import DRILL_RULES
from gemm_lessons.report.template import asset, embedded, rendered

if TYPE_CHECKING:
    from rich.style import Style

# Entries for a row of the screen whose words mean something else, or more, in a text.
EVERYDAY = frozenset(
    {"time", "reference", "this lesson", "cublas", "of cublas", "predictions", "seed", "trap", "gate", "passed"}
    | {"l1", "l1 cache", "l2", "l2 cache", "dram", "latency", "instruction issue", "multiply-adds", "fp64 units"}
    | {"launch overhead", "launch failed", "timeout", "timed out", "not finished", "faulted", "unset", "block order"}
    | {"blocks", "memory"}
)
CAST = "session.cast"
DRILL = "site_drill.js"
ICON = "site_icon.svg"
CARD = "site_card.png"
DESCRIBED = 160  # characters that search engines show of a description
FIRST = "index.html"
Section = tuple[str, str, str, str, str]  # page, its title, anchor, heading, text
HIDDEN = ("svg", "form", "noscript", "details")  # details are answers, which a search must not give away


@dataclass(frozen=True)
class Terms:
    """``entries``: HTML for the link of each word, in lower case, up to the word itself."""

    entries: Mapping[str, str]
    pattern: re.Pattern[str]

    def mark(self, tokens: Sequence[Any]) -> None:
        """Change Markdown tokens: text in paragraphs and lists, not in headings, links or code."""
        from markdown_it.token import Token

        seen: set[str] = set()
        heading = False
        for token in tokens:
            if token.type == "heading_open":
                heading = True
                if token.tag == "h2":
                    seen = set()
            elif token.type == "heading_close":
                heading = False
            elif token.type == "inline" and not heading:
                links, children = 0, []
                for child in token.children:
                    links += {"link_open": 1, "link_close": -1}.get(child.type, 0)
                    if child.type != "text" or links:
                        children.append(child)
                        continue
                    for kind, text in self._pieces(child.content, seen):
                        children.append(Token(kind, "", 0, content=text))
                token.children = children

    def _pieces(self, text: str, seen: set[str]) -> Iterator[tuple[str, str]]:
        end = 0
        for match in self.pattern.finditer(text):
            opened = self.entries[match[0].lower()]
            if opened not in seen:
                seen.add(opened)
                yield "text", text[end : match.start()]
                yield "html_inline", f"{opened}{html.escape(match[0])}</a>"
                end = match.end()
        yield "text", text[end:]


def terms(glossary: str, page: str, anchors: Mapping[str, str]) -> Terms:
    """Return the words of a glossary's Markdown. ``anchors`` are those of its headings on ``page``."""
    found: dict[str, str] = {}
    for word, entry in entries(glossary).items():
        heading, _, text = entry.partition("\n")
        heading = heading.removeprefix("## ").strip()
        if word and heading in anchors and word not in EVERYDAY:
            title = html.escape(re.sub(r"[`*]", "", re.sub(r"\s*\(\w+\)\s*$", "", " ".join(text.split()))), quote=True)
            href = f"{page}#{anchors[heading]}"
            link = f'<a class="term" href="{href}" title="{title}">'
            found |= dict.fromkeys(_numbers(word), link)
    words = "|".join(re.escape(word) for word in sorted(found, key=len, reverse=True))
    return Terms(found, re.compile(rf"(?<![\w-])(?:{words})(?![\w-])" if words else r"(?!)", re.IGNORECASE))


def _numbers(word: str) -> tuple[str, ...]:
    """Return a word and its other grammatical number: ``race, races``, but ``gflops`` is neither."""
    if not word.endswith("s"):
        return word, f"{word}s"
    return (word, word.removesuffix("s")) if " " in word else (word,)


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


def drill_section(drills: Sequence[Drill], number: int) -> str:
    """Return the HTML of a lesson's drills."""
    return (
        f'<details class="drill"><summary>Warm up with {len(drills)} questions</summary>'
        f'<p class="soft">{DRILL_RULES}</p>'
        '<ol id="questions"></ol><p><button type="button" id="again">New numbers</button></p>'
        f"<noscript><p>In a terminal: gemm-lessons drill {number:02}</p></noscript>"
        f'<script type="application/json" id="drills">{embedded([_data(drill) for drill in drills])}</script>'
        "</details>"
    )


def _data(drill: Drill) -> dict[str, Any]:
    """Return a drill with its arithmetic in C, which the script computes."""
    return {
        "ask": _in_c(drill.ask),
        "why": _in_c(drill.why),
        "draws": [
            [draw.name, [choice.in_c for choice in draw.choices], draw.last.in_c if draw.last else None]
            for draw in drill.draws
        ],
        "rule": drill.rule,
        "of": [expression.in_c for expression in drill.of],
        "element": drill.element,
        "vector": drill.vector.in_c,
        "access": drill.access,
    }


def _in_c(text: str) -> str:
    return FIELD.sub(lambda it: f"{{{Expression(it[1]).in_c}}}", text)


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
