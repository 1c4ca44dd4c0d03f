"""Write the course as a folder of web pages: texts, highlighted code, drawings as SVG, and measurements.

    Course --site--> SitePage for each Markdown file --> links between files become links between pages, all checked

``assets/site_*`` hold the interactive pages and the search. No page needs a server or the network:
a browser opens ``index.html`` from the disk.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from gemm_lessons.course import (
    GLOSSARY,
    RESULTS,
    CommandError,
    Course,
    LessonError,
    all_documents,
    load_drills,
    load_lesson,
    read_source,
    shown,
    writing,
)
from gemm_lessons.engine.records import dataclass
from gemm_lessons.report.chart import Line, chart
from gemm_lessons.report.drawing import drawing
from gemm_lessons.report.reference import engine_reference
from gemm_lessons.report.site_parts import (
    CARD,
    CAST,
    DRILL,
    ICON,
    address,
    base_address,
    described,
    drill_section,
    missing,
    sections,
    session,
    sitemap,
    terms,
)
from gemm_lessons.report.template import ASSETS, asset, embedded, rendered

STYLE = "site.css"
MEASURED = "measured/h200.json"  # data of the chart; a teacher's own course may have none
GPU = "H200"
DRAWING = "drawing"  # the language of an ASCII drawing
JOINT = re.compile(r"(?<=[^\W_])_(?=\w)|[/,(](?=\w)|\.(?=\w{5})")  # in a name or an expression; a file keeps its ending
BREAK = r"\g<0><wbr>"
EMPTY_HEADER = re.compile(r"<th[^>]*></th>")  # the corner of a table heads nothing
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
ENGINE = "engine.html"
MEANINGS = f"{GLOSSARY}.html"
SEARCH = "site_search.js"
SEARCHED = "site_sections.js"  # the text of all pages, larger than any of them: the search box loads it when it is used
SESSION = "session.html"
RULES = ("site_rules.js", "site_tool.js")
TOOLS = {"banks": "Bank conflicts: try a layout", "loads": "Who loads what"}  # interactive pages
A_ROWS = "banks.html#width=16&amp;rows=8&amp;cols=32&amp;row=lane+%25+8&amp;col=lane+%2F+8+*+4"  # by ldmatrix
BS = "banks.html#width=16&amp;rows=8&amp;cols=128&amp;row=0&amp;col=lane+%25+16+*+"  # a load of Bs; the stride follows
# What a lesson, by its name without a number, links to before its questions.
TRY = {
    "coalesced": 'Try other tiles and mappings on the page <a href="loads.html">who loads what</a>.',
    "bank_conflicts": (
        'Try other layouts on the page <a href="banks.html">bank conflicts</a>, '
        f'starting from the read of Bs <a href="{BS}8">before</a> or <a href="{BS}4">after</a>.'
    ),
    "mma": (
        'Type your swizzle on the page <a href="banks.html">bank conflicts</a>, starting from eight rows of A '
        f'<a href="{A_ROWS}">as they are</a>. Its columns are floats: a piece of 16 bytes is four of them.'
    ),
}
HIGHLIGHTING = ("xcode", "monokai")  # for light and dark: all their colours have a contrast of 4.5 and more
OURS = 'name="generator" content="gemm-lessons"'  # present in every page: a folder with this mark may be overwritten


@dataclass(frozen=True)
class SitePage:
    """One page. ``source``: its Markdown file (None: index, engine's page), ``idea``: a lesson's; ``body``: HTML."""

    name: str  # file name, such as 03_block_tile.html
    title: str
    source: Path | None = None
    idea: str = ""
    minutes: int | None = None  # of a lesson's first pass
    body: str = ""
    contents: tuple[tuple[str, str], ...] = ()  # anchor and title of each section
    scripts: tuple[str, ...] = ()  # files beside the page


@dataclass(frozen=True)
class BrokenLink:
    """A link of a page whose target does not exist."""

    page: str
    target: str

    def __str__(self) -> str:
        return f"{self.page}: {self.target}"


def write_site(course: Course, out: Path, url: str = "") -> list[SitePage]:
    """Write all pages; with ``url``, also the files that a site published there needs.

    Raises ``CommandError`` for a folder with foreign files or a ``url`` that is not a web address, ``LessonError`` for
    broken links, and ``WriteError``.
    """
    _refuse_foreign_files(out)
    url = url and base_address(url)
    pages = site(course)
    if broken := broken_links(pages):
        raise LessonError(f"broken links: {'; '.join(map(str, broken))}; fix them in the lessons' texts")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        for page in pages:
            (out / page.name).write_text(_rendered(page, pages, url), encoding="utf-8")
        (out / STYLE).write_text(_style(), encoding="utf-8")
        found = [section for page in pages[1:] for section in sections(page.name, page.title, page.body)]
        (out / SEARCHED).write_text(f"const PAGES = {embedded(found)};\n", encoding="utf-8")
        for name in {ICON, CAST, *(script for page in pages for script in page.scripts)}:
            (out / name).write_text(asset(name), encoding="utf-8")
        if url:
            lost = SitePage("404.html", "This page does not exist", body=missing(url))
            (out / lost.name).write_text(_rendered(lost, pages, url, root=url), encoding="utf-8")
            (out / "sitemap.xml").write_text(sitemap(url, [page.name for page in pages]), encoding="utf-8")
            (out / CARD).write_bytes((ASSETS / CARD).read_bytes())
    return pages


def _refuse_foreign_files(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise CommandError(f"{shown(out)} is a file; name a folder")
    index = out / "index.html"
    if not out.exists() or not any(out.iterdir()):
        return
    if not index.is_file() or OURS not in index.read_text(encoding="utf-8", errors="replace"):
        raise CommandError(f"{shown(out)} holds other things; name a new folder")


def site(course: Course) -> list[SitePage]:
    """Return every page, the index first."""
    found = list(_sources(course))
    names = {page.source: page.name for page in found if page.source}
    series = _measured(course)
    mark = _marker(course, names)
    pages = [
        replace(page, **_parts(read_source(page.source), page.source, names, mark if page.name != MEANINGS else None))
        for page in found
        if page.source
    ]
    pages = [_drilled(replace(page, body=_tried(page) + _chart(series, page))) if page.idea else page for page in pages]
    pages.append(SitePage(ENGINE, "The engine: any CUDA kernel from Python", **_parts(engine_reference(), None, names)))
    pages += [
        SitePage(f"{name}.html", title, body=asset(f"site_{name}.html"), scripts=(*RULES, f"site_{name}.js"))
        for name, title in TOOLS.items()
    ]
    pages.append(SitePage(SESSION, "Two minutes of a lesson", body=session(), scripts=("site_session.js",)))
    return [SitePage("index.html", "gemm-lessons", body=_index(course, pages, series), scripts=(SEARCH,)), *pages]


def _index(course: Course, pages: Sequence[SitePage], series: Mapping[str, Line]) -> str:
    """Return the first page: what this is, search, the ladder of speed, the interactive pages, the lessons."""
    from markupsafe import Markup

    return rendered(
        "site_index.html.jinja",
        first=next((page for page in pages if page.idea), None),
        session=SESSION,
        ladder=Markup(_figure(series, "")) if series else "",
        tools=[it for it in pages if it.name[:-5] in TOOLS],
        parts=[(part, [it for it in pages if it.name.removesuffix(".html") in part.names]) for part in course.parts],
        more=[page for page in pages if not page.idea and not page.scripts],
    )


def _tried(page: SitePage) -> str:
    """Return the body of a lesson with its link to an interactive page, before its questions or at the end."""
    note = TRY.get(page.name.removesuffix(".html")[3:])
    before, heading, after = page.body.partition('<h2 id="predict">')
    return f"{before}<p>{note}</p>{heading}{after}" if note else page.body


def _drilled(page: SitePage) -> SitePage:
    """Return the page of a lesson with its drills, before the steps to the kernel or at the end."""
    assert page.source
    lesson = load_lesson(page.source.parent)
    drills = load_drills(lesson)
    if not drills:
        return page
    before, heading, after = page.body.partition('<h2 id="the-steps">')
    body = f"{before}{drill_section(drills, lesson.number)}{heading}{after}"
    return replace(page, body=body, scripts=(*page.scripts, RULES[0], DRILL))


def _marker(course: Course, names: Mapping[Path, str]) -> Callable[[Sequence[Any]], None] | None:
    """Return a function that marks the words of the course's glossary in a page's tokens; None without one."""
    text = all_documents(course).get(GLOSSARY)
    if text is None or text.path not in names:
        return None
    source = read_source(text.path)
    taken: dict[str, int] = {}
    headings = [heading.strip() for heading in re.findall(r"^#{1,6} (.+)$", source, re.MULTILINE)]
    return terms(source, names[text.path], {heading: _anchor(_plain(heading), taken) for heading in headings}).mark


def _sources(course: Course) -> Iterator[SitePage]:
    """Yield a page without content for each text: the lessons, then the other texts."""
    for name in course.names:
        lesson = load_lesson(course.lessons_dir / name)
        yield SitePage(f"{name}.html", lesson.title, lesson.text_path, lesson.idea, lesson.minutes)
    for text in all_documents(course).values():
        yield SitePage(f"{text.name}.html", text.title, text.path)


# -- Markdown ----------------------------------------------------------------------------------------------------------


def _parts(
    text: str, source: Path | None, names: Mapping[Path, str], mark: Callable[[Sequence[Any]], None] | None = None
) -> dict[str, Any]:
    """Return the body and the table of contents of a page, with links to files replaced by links to their pages."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(COMMENT.sub("", text))
    contents: list[tuple[str, str]] = []
    taken: dict[str, int] = {}
    for token, inside in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and inside is not None:
            words = _plain(inside.content)
            anchor = _anchor(words, taken)
            token.attrSet("id", anchor)
            if token.tag == "h2":
                contents.append((anchor, words))
        for child in token.children or ():
            if child.type == "link_open" and source is not None:
                child.attrSet("href", _target(str(child.attrGet("href")), source, names))
    if mark:
        mark(tokens)
    rules = {"fence": _block, "code_block": _block, "table_open": _table, "table_close": _table, "code_inline": _code}
    for name, rule in rules.items():
        markdown.add_render_rule(name, rule)
    body = EMPTY_HEADER.sub("<td></td>", markdown.renderer.render(tokens, markdown.options, {}))
    return {"body": _folded(body), "contents": tuple(contents)}


def _plain(words: str) -> str:
    """Return a heading without its Markdown."""
    return re.sub(r"[`*]", "", words)


def _anchor(words: str, taken: dict[str, int]) -> str:
    """Convert ``What comes out`` to ``what-comes-out``, with a number if the page has it twice."""
    name = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or "section"
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else f"{name}-{taken[name]}"


def _target(href: str, source: Path, names: Mapping[Path, str]) -> str:
    path, mark, anchor = href.partition("#")
    if not path or "://" in path:
        return href
    page = names.get(Path(os.path.normpath(source.parent / path)))
    return f"{page}{mark}{anchor}" if page else href


def _block(_renderer: Any, tokens: Sequence[Any], index: int, _options: Any, _env: Any) -> str:
    """Render code with highlighting; a block without a language is terminal output."""
    token = tokens[index]
    language = token.info.strip()
    if language == DRAWING:
        return f'<div class="drawing">{drawing(token.content)}</div>\n'
    if language:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound

        try:
            lexer = get_lexer_by_name("cuda" if language in ("cuda", "cu") else language)
        except ClassNotFound:
            pass
        else:
            inside = highlight(token.content, lexer, HtmlFormatter(nowrap=True))
            return f'<pre class="code" tabindex="0"><code>{inside}</code></pre>\n'
    return f'<pre class="shown" tabindex="0">{html.escape(token.content)}</pre>\n'


def _code(_renderer: Any, tokens: Sequence[Any], index: int, _options: Any, _env: Any) -> str:
    """Render a name in a text, which may continue on the next line after the parts that it is made of."""
    name = html.escape(tokens[index].content)
    return f"<code>{JOINT.sub(BREAK, name)}</code>"


def _table(_renderer: Any, tokens: Sequence[Any], index: int, _options: Any, _env: Any) -> str:
    opens = tokens[index].type == "table_open"
    return '<div class="scroll" tabindex="0"><table>\n' if opens else "</table></div>\n"


def _folded(body: str) -> str:
    """Fold the sections that answer questions."""
    parts = re.split(r"(?=<h2)", body)
    for i, part in enumerate(parts):
        match = re.match(r"<h2[^>]*>(.*?)</h2>", part)
        if match and match[1] in RESULTS:
            parts[i] = f"<details><summary>{match[0]}</summary>{part[match.end() :]}</details>\n"
    return "".join(parts)


# -- measurements ------------------------------------------------------------------------------------------------------


def _measured(course: Course) -> dict[str, Line]:
    """Return TFLOP/s by size of every lesson and of cuBLAS with a cold L2; empty if the course has no readings."""
    path = course.lessons_dir / MEASURED
    if not path.is_file():
        return {}
    found: dict[str, list[tuple[int, float]]] = {}
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        name = "cuBLAS" if row["kernel"] == "cublas" else row["kernel"].replace("_", " ")
        found.setdefault(name, []).append((row["size"], row["cold"]["tflops"]))
    return {name: sorted(line) for name, line in found.items()}


def ladder(course: Course) -> str:
    """Return the chart of all lessons' speeds, as on the first page; empty if nothing was measured."""
    series = _measured(course)
    return _figure(series, "") if series else ""


def _chart(series: Mapping[str, Line], page: SitePage) -> str:
    name = page.name.removesuffix(".html").replace("_", " ")
    if name not in series:
        return ""
    return f'<h2 id="this-lesson-among-the-others">This lesson among the others</h2>{_figure(series, name)}'


def _figure(series: Mapping[str, Line], chosen: str) -> str:
    caption = f"Measured on an {GPU}, fp32, with a cold L2 cache"
    return f'<figure tabindex="0">{chart(series, chosen, caption)}<figcaption>{caption}.</figcaption></figure>'


# -- the pages as files ------------------------------------------------------------------------------------------------


def _rendered(page: SitePage, pages: Sequence[SitePage], url: str, root: str = "") -> str:
    """Return a page as HTML. ``root`` precedes the links of a page that a server shows at any address."""
    from markupsafe import Markup

    lessons = [it for it in pages if it.idea]
    at = lessons.index(page) if page in lessons else None
    return rendered(
        "site.html.jinja",
        page=page,
        body=Markup(page.body),
        pages=pages,
        ours=Markup(OURS),
        description=described(page.body, page.idea),
        address=url and not root and address(url, page.name),
        card=url + CARD,
        root=root,
        before=lessons[at - 1] if at else None,
        after=lessons[at + 1] if at is not None and at + 1 < len(lessons) else None,
    )


def _style() -> str:
    from pygments.formatters import HtmlFormatter

    light, dark = (HtmlFormatter(style=name).get_style_defs("pre.code") for name in HIGHLIGHTING)
    colours = "\n".join(line for line in light.splitlines() if line.startswith("pre.code ."))
    night = "\n".join(line for line in dark.splitlines() if line.startswith("pre.code ."))
    own = asset(STYLE)
    return f"{own}\n{colours}\n@media (prefers-color-scheme: dark) {{\n{night}\n}}\n"


class _Links(HTMLParser):
    """Collect the links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a link to a page, or an anchor; called by the parser."""
        given = dict(attrs)
        if tag == "a" and given.get("href") and "download" not in given:
            self.links.append(str(given["href"]))
        if given.get("id"):
            self.anchors.add(str(given["id"]))


def broken_links(pages: Sequence[SitePage]) -> list[BrokenLink]:
    """Return the links to missing pages or sections. External links are not checked."""
    read: dict[str, _Links] = {}
    for page in pages:
        read[page.name] = _Links()
        read[page.name].feed(page.body)
    broken = []
    for name, links in read.items():
        for link in links.links:
            if "://" in link:
                continue
            target, _, anchor = link.partition("#")
            there = read.get(target or name)
            # The state of an interactive page, width=16&pad=4, names fields, which are anchors too.
            wanted = {part.partition("=")[0] for part in anchor.split("&")} if anchor else set()
            if there is None or not wanted <= there.anchors:
                broken.append(BrokenLink(name, link))
    return broken
