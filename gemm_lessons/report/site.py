"""Write the course as a folder of web pages: texts, highlighted code, drawings as SVG, and measurements.

    Course --site--> SitePage for each Markdown file --> links between files become links between pages, all checked

The pages need no server and no network: a browser opens ``index.html`` from the disk.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from gemm_lessons.course.course_toml import CoursePart
from gemm_lessons.course.documents import documents
from gemm_lessons.course.folder import CommandError, Course, WriteError, read_source, shown
from gemm_lessons.course.lesson import LessonError
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.report.chart import Line, chart
from gemm_lessons.report.drawing import drawing
from gemm_lessons.report.reference import reference
from gemm_lessons.report.template import asset, rendered

STYLE = "site.css"
MEASURED = "measured/h200.json"  # data of the chart; a teacher's own course may have none
GPU = "H200"
FOLDED = ("What comes out", "Answers")  # sections that are folded, so that the reader thinks first
DRAWING = "drawing"  # the language of an ASCII drawing
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
ENGINE = "engine.html"
OURS = 'name="generator" content="gemm-lessons"'  # present in every page: a folder with this mark may be overwritten


@dataclass(frozen=True)
class SitePage:
    """One page. ``source`` is its Markdown file (None for the index and the engine's page), ``idea`` is that of a
    lesson, and ``body`` is HTML."""

    name: str  # file name, such as 03_block_tile.html
    title: str
    source: Path | None = None
    idea: str = ""
    body: str = ""
    contents: tuple[tuple[str, str], ...] = ()  # anchor and title of each section


@dataclass(frozen=True)
class BrokenLink:
    """A link of a page whose target does not exist."""

    page: str
    target: str

    def __str__(self) -> str:
        return f"{self.page}: {self.target}"


def write_site(course: Course, out: Path) -> list[SitePage]:
    """Write all pages. Raises ``CommandError`` for a folder with foreign files, ``LessonError`` for broken links, and
    ``WriteError``."""
    _clear_of_others(out)
    pages = site(course)
    if broken := broken_links(pages):
        raise LessonError(f"links that lead nowhere: {'; '.join(map(str, broken))}; mend them in the lessons' texts")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for page in pages:
            (out / page.name).write_text(_rendered(page, pages), encoding="utf-8")
        (out / STYLE).write_text(_style(), encoding="utf-8")
    except OSError as error:
        raise WriteError(out, error) from None
    return pages


def _clear_of_others(out: Path) -> None:
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
    pages = [replace(page, **_parts(read_source(page.source), page.source, names)) for page in found if page.source]
    pages = [replace(page, body=page.body + _chart(series, page)) if page.idea else page for page in pages]
    pages.append(SitePage(ENGINE, "The engine: any CUDA kernel from Python", **_parts(reference(), None, names)))
    body = (
        "<h1>gemm-lessons</h1><p>Learn to make a CUDA matrix multiplication fast, one lesson at a time, on any Linux "
        f"machine, with or without a GPU.</p>{''.join(_index_of(part, pages) for part in course.parts)}"
    )
    if series:
        body += f"<h2>How fast they are</h2>{_figure(series, '')}"
    more = "".join(f'<li><a href="{it.name}">{html.escape(it.title)}</a></li>' for it in pages if not it.idea)
    if more:
        body += f"<h2>More</h2><ul>{more}</ul>"
    return [SitePage("index.html", "gemm-lessons", body=body), *pages]


def _index_of(part: CoursePart, pages: Sequence[SitePage]) -> str:
    """Return the heading and the table of a part's lessons."""
    heading = f"<h2>Part {part.number}: {html.escape(part.title)}</h2><p>{html.escape(part.builds_on)}</p>"
    rows = "".join(
        f'<tr><td>{page.name[:2]}</td><td><a href="{page.name}">{html.escape(page.title)}</a></td>'
        f"<td>{html.escape(page.idea)}</td></tr>"
        for page in pages
        if page.name.removesuffix(".html") in part.names
    )
    return (
        f'{heading if part.number else ""}<div class="scroll" tabindex="0"><table><thead><tr><th>no</th>'
        f"<th>lesson</th><th>the one idea</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _sources(course: Course) -> Iterator[SitePage]:
    """Yield a page without content for each text: the lessons, then the other texts."""
    for name in course.names:
        lesson = load_lesson(course.lessons_dir / name)
        yield SitePage(f"{name}.html", lesson.title, lesson.text_path, lesson.idea)
    for text in documents(course).values():
        yield SitePage(f"{text.name}.html", text.title, text.path)


# -- Markdown ----------------------------------------------------------------------------------------------------------


def _parts(text: str, source: Path | None, names: Mapping[Path, str]) -> dict[str, Any]:
    """Return the body and the table of contents of a page, with links to files replaced by links to their pages."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(COMMENT.sub("", text))
    contents: list[tuple[str, str]] = []
    taken: dict[str, int] = {}
    for token, inside in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and inside is not None:
            words = re.sub(r"[`*]", "", inside.content)
            anchor = _anchor(words, taken)
            token.attrSet("id", anchor)
            if token.tag == "h2":
                contents.append((anchor, words))
        for child in token.children or ():
            if child.type == "link_open" and source is not None:
                child.attrSet("href", _target(str(child.attrGet("href")), source, names))
    for name, rule in (("fence", _block), ("code_block", _block), ("table_open", _table), ("table_close", _table)):
        markdown.add_render_rule(name, rule)
    return {"body": _folded(markdown.renderer.render(tokens, markdown.options, {})), "contents": tuple(contents)}


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


def _table(_renderer: Any, tokens: Sequence[Any], index: int, _options: Any, _env: Any) -> str:
    opens = tokens[index].type == "table_open"
    return '<div class="scroll" tabindex="0"><table>\n' if opens else "</table></div>\n"


def _folded(body: str) -> str:
    """Fold the sections that answer questions."""
    parts = re.split(r"(?=<h2)", body)
    for i, part in enumerate(parts):
        match = re.match(r"<h2[^>]*>(.*?)</h2>", part)
        if match and match[1] in FOLDED:
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


def _chart(series: Mapping[str, Line], page: SitePage) -> str:
    name = page.name.removesuffix(".html").replace("_", " ")
    if name not in series:
        return ""
    return f'<h2 id="this-lesson-among-the-others">This lesson among the others</h2>{_figure(series, name)}'


def _figure(series: Mapping[str, Line], chosen: str) -> str:
    caption = f"Measured on an {GPU}, fp32, with a cold L2 cache"
    return f"<figure>{chart(series, chosen, caption)}<figcaption>{caption}.</figcaption></figure>"


# -- the pages as files ------------------------------------------------------------------------------------------------


def _rendered(page: SitePage, pages: Sequence[SitePage]) -> str:
    from markupsafe import Markup

    lessons = [it for it in pages if it.idea]
    at = lessons.index(page) if page in lessons else None
    return rendered(
        "site.html.jinja",
        page=page,
        body=Markup(page.body),
        pages=pages,
        ours=Markup(OURS),
        before=lessons[at - 1] if at else None,
        after=lessons[at + 1] if at is not None and at + 1 < len(lessons) else None,
    )


def _style() -> str:
    from pygments.formatters import HtmlFormatter

    light, dark = (HtmlFormatter(style=name).get_style_defs("pre.code") for name in ("friendly", "monokai"))
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
        """Record a link or an anchor; called by the parser."""
        given = dict(attrs)
        if tag == "a" and given.get("href"):
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
            if there is None or (anchor and anchor not in there.anchors):
                broken.append(BrokenLink(name, link))
    return broken
