"""Mark the glossary's words in a page: the first of each section becomes a link with the entry's text as its title."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gemm_lessons.course import entries
from gemm_lessons.engine.records import dataclass

# Entries for a row of the screen whose words mean something else, or more, in a text.
EVERYDAY = frozenset(
    {"time", "reference", "this lesson", "cublas", "of cublas", "predictions", "seed", "trap", "gate", "passed"}
    | {"l1", "l1 cache", "l2", "l2 cache", "dram", "latency", "instruction issue", "multiply-adds", "fp64 units"}
    | {"launch overhead", "launch failed", "timeout", "timed out", "not finished", "faulted", "unset", "block order"}
    | {"blocks", "memory"}
)


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
