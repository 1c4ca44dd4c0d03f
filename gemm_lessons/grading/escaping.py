"""Escape text of a submission for terminals, spreadsheets and Markdown.

A student controls the names of files, and through the source the compiler's diagnostics. A terminal must not
interpret control characters in them, a spreadsheet must not evaluate them, and a page must not parse them as tags.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable, Sequence
from io import StringIO

LONGEST = 2000  # characters of one line; no message of the kit is longer
# Cc controls, Cf formats such as direction overrides, Cs surrogates, Co private, Zl and Zp line and paragraph ends.
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
FORMULA = tuple("=+-@＝＋－＠")  # begins a formula in a spreadsheet, also in full width
MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&$@#])")
LINKED = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)  # GitHub turns bare addresses into links


def one_line(text: str) -> str:
    """Return text as one printable line: control and format characters become ``?``, line breaks become spaces."""
    joined = " ".join(text.split())
    if not joined.isprintable():
        joined = "".join("?" if unicodedata.category(letter) in UNSEEN else letter for letter in joined)
    return joined if len(joined) <= LONGEST else f"{joined[:LONGEST]} ..."


def cell(text: str) -> str:
    """Return text for a spreadsheet cell, prefixed so that it cannot begin a formula."""
    plain = one_line(text)
    return f"'{plain}" if plain.startswith(FORMULA) else plain


def markdown(text: str) -> str:
    """Escape text for Markdown: no tags, links, emphasis or table columns."""
    return LINKED.sub(r"\\\g<0>", MARKDOWN.sub(r"\\\1", one_line(text)))


def amount(points: float) -> str:
    """Format points with at most two decimals: ``8``, ``7.5``."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def csv_text(rows: Iterable[Sequence[object]], *, quoted: bool = False, end: str = "\n") -> str:
    """Return a table as CSV, whose texts ``cell`` has escaped; ``quoted``: all texts are between quotation marks."""
    text = StringIO()
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC if quoted else csv.QUOTE_MINIMAL, lineterminator=end).writerows(rows)
    return text.getvalue()
