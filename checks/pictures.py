"""The pictures in README.md: what a run prints, and the bank maps of ``gemm-lessons view``. And the site's card.

    python -m checks.pictures             write them to .github/pictures, and the card where the site takes it from
    python -m checks.pictures --png OUT   and what Chromium makes of them, light and dark, to look at

``run.svg`` is the output of a command on a terminal of 80 columns. ``banks.svg`` has two bank maps from the page that
``view`` writes; Chromium draws it. ``checks/test_pictures.py`` fails if the texts in the stored files are out of date.

The card is what a link to the site shows in a message: the title and the ladder of speed, as a PNG with its words as a
comment.
"""

from __future__ import annotations

import argparse
import html
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from checks.view.browser import Browser
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.report.site import ladder
from gemm_lessons.report.site_parts import CARD
from gemm_lessons.report.template import ASSETS, asset

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / ".github" / "pictures"
COLUMNS = 80
RUN = ("run", "03", "--solution")
VIEW = ("view", "07", "--solution")
BEFORE, AFTER = "Bs[k + step][thread_col + j]", "Bs[k][thread_col + j / 4 * COL_STEP]"  # loads of lessons 06 and 07
WEB_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)  # a picture on a page may load nothing
# For each map its caption, then what the page draws for the line's first request: the map, the note below, the key.
MAPS = """((wanted) => wanted.map(([side, words]) => {
  const { label, source, requests } = DATA.sides[side];
  const line = source.findIndex((text) => text.includes(words)), request = requests[line + 1].shown[0];
  const figure = banks(request), number = side ? label.split(" ")[0] : DATA.title.split(" ")[0];
  const [what] = request.heading.split(", "), [, cost] = request.heading.split(": ");
  return {
    source: source[line].trim(), title: `Lesson ${number}: ${what}, ${cost}`,
    drawn: figure.querySelector("svg").outerHTML, note: figure.querySelector("p").textContent,
    key: [...figure.querySelectorAll(".key li")].map((it) => [it.querySelector("i").style.background, it.textContent]),
  };
}))([[1, "%s"], [0, "%s"]])"""
COLOURS = ("ground", "ink", "soft", "one", "again", "clash", "empty")
GAP, MARGIN, CAPTION, ROW = 24, 12, 44, 16  # pixels


@contextmanager
def fresh_course() -> Iterator[Path]:
    """A copy of the course without a learner's work: the output of a command depends on progress."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(
            ROOT / "lessons", Path(folder) / "lessons", ignore=shutil.ignore_patterns("kernel.cu*", "bug.cu")
        )
        yield Path(folder)


def command(folder: Path, *arguments: str, **variables: str) -> str:
    """What ``gemm-lessons`` prints on stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "gemm_lessons", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout


def run_picture() -> str:
    """The output of a run, as SVG."""
    terminal = {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    with fresh_course() as folder:
        words = command(folder, *RUN, "--device", "sim", **terminal)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(words.rstrip()))
    return WEB_FONT.sub("", console.export_svg(title=f"gemm-lessons {' '.join(RUN)}", unique_id="run"))


def banks_picture() -> str:
    """The bank maps of one load, before and after lesson 07, side by side, as SVG."""
    with fresh_course() as folder, Browser() as browser:
        page = folder / "page.html"
        command(folder, *VIEW, "--html", str(page))
        browser.show(page)
        maps = browser.run(MAPS % (BEFORE, AFTER))
        light, dark = (_colours(browser, page, dark) for dark in (False, True))
    return _beside(maps, light, dark)


def _colours(browser: Browser, page: Path, dark: bool) -> str:
    browser.show(page, dark=dark)
    return "".join(f"--{name}: {browser.run(f'colour({name!r})')}; " for name in COLOURS)


def _beside(maps: list[dict[str, Any]], light: str, dark: str) -> str:
    sizes = [re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', it["drawn"]) for it in maps]
    widths, heights = ([int(size[i]) for size in sizes if size] for i in (1, 2))
    parts, x, below = [], MARGIN, MARGIN + CAPTION + max(heights) + ROW
    for it, width, height in zip(maps, widths, heights, strict=True):
        place = f'x="{x}" y="{MARGIN + CAPTION}" height="{height}"'
        parts += [
            f'<text class="title" x="{x}" y="{MARGIN + 12}">{html.escape(it["title"])}</text>',
            f'<text class="code" x="{x}" y="{MARGIN + 30}">{html.escape(it["source"])}</text>',
            it["drawn"].replace("<svg ", f"<svg {place} ", 1),
        ]
        x += width + GAP
    parts.append(f'<text x="{MARGIN}" y="{below}">{html.escape(maps[0]["note"])}</text>')
    for i, (colour, words) in enumerate(maps[0]["key"], 1):
        y = below + i * ROW
        parts.append(f'<rect x="{MARGIN}" y="{y - 8}" width="9" height="9" style="fill: {colour}"/>')
        parts.append(f'<text x="{MARGIN + 15}" y="{y}">{html.escape(words)}</text>')
    wide, high = x - GAP + MARGIN, below + len(maps[0]["key"]) * ROW + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">\n'
        f"<style>\n:root {{ {light}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"
        'text { fill: var(--soft); font: 10px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }\n'
        ".code { fill: var(--ink); } .title { fill: var(--ink); font: 600 13px system-ui, sans-serif; }\n</style>\n"
        f'<rect width="{wide}" height="{high}" rx="6" style="fill: var(--ground)"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def card_page() -> str:
    """The card as a page of 1200 by 630 pixels."""
    return (
        f"<style>{asset('site.css')}\nbody {{ width: 1200px; height: 630px; padding: 48px 64px; overflow: hidden; }}"
        "h1 { font-size: 76px; margin: 0; } p { font-size: 33px; line-height: 1.3; margin: 14px 0 8px; }"
        "figure { margin: 0; zoom: 1.42; } figcaption { display: none; } svg.chart { width: auto; height: 265px; }"
        "</style><h1>gemm-lessons</h1><p>Learn to make a CUDA matrix multiplication fast, one lesson at a time, with "
        f"or without a GPU</p>{ladder(packaged_course())}"
    )


def card_picture() -> bytes:
    """The card as PNG."""
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        page = Path(folder) / "card.html"
        page.write_text(card_page())
        browser.show(page, 1200)
        browser.picture(page.with_suffix(".png"), "body")
        return _with_comment(page.with_suffix(".png").read_bytes(), card_text(card_page()))


def card_text(page: str) -> str:
    """The words and numbers of the card, as ASCII."""
    return " ".join(re.findall(r"[\w./=+-]+", re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)))


def _with_comment(png: bytes, text: str) -> bytes:
    """The PNG with a text chunk inserted before its last chunk."""
    chunk = b"tEXtComment\0" + text.encode("ascii")
    more = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return png[:-12] + more + png[-12:]


def comment(png: bytes) -> str:
    """The text in a PNG."""
    begin = png.index(b"tEXtComment\0")
    (length,) = struct.unpack(">I", png[begin - 4 : begin])
    return png[begin + 12 : begin + 4 + length].decode("ascii")


DRAWN = {"run.svg": run_picture, "banks.svg": banks_picture}


def content(picture: str) -> list[tuple[str, ...]]:
    """The content of an SVG without its fonts: its texts, and the places and kinds of a bank map's cells."""
    parts = re.findall(r'<text[^>]*>(.*?)</text>|<rect x="(\d+)" y="(\d+)"[^>]* class="(\w+)"', picture, re.DOTALL)
    return [(html.unescape(words).replace("\xa0", " ").rstrip(), *cell) for words, *cell in parts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--png", type=Path, metavar="OUT", help="a folder for what Chromium shows")
    options = parser.parse_args()
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWN.items():
        (PICTURES / name).write_text(draw(), encoding="utf-8")
        print(PICTURES / name)
    (ASSETS / CARD).write_bytes(card_picture())
    print(ASSETS / CARD)
    if options.png:
        _look(options.png)


def _look(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        for name, dark in ((name, dark) for name in DRAWN for dark in (False, True)):
            page: Any = out / f"{Path(name).stem}_{'dark' if dark else 'light'}.html"
            page.write_text(f'<body style="margin: 0"><img src="{(PICTURES / name).as_uri()}">')
            browser.show(page, 1000, 1.0, dark)
            browser.picture(page.with_suffix(".png"), "img")
            page.unlink()
            print(page.with_suffix(".png"))


if __name__ == "__main__":
    main()
