"""Text that comes from a submission, made harmless where it is going to be shown.

Names of students and files, the compiler's diagnostics and what quotes them are chosen by whoever handed in. A terminal
must not obey them, a spreadsheet not compute them, a page not take them for its own tags.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST = 2000  # characters of one line; no message of the kit is longer
# Cc controls, Cf formats such as direction overrides, Cs surrogates, Co private, Zl and Zp line and paragraph ends.
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
FORMULA = tuple("=+-@＝＋－＠")  # what spreadsheets compute, also in full width
MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&$@#])")
LINKED = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)  # GitHub makes links of bare addresses


def one_line(text: str) -> str:
    """Text as one printable line: what controls, hides or turns other text becomes ``?``, breaks become spaces."""
    joined = " ".join(text.split())
    if not joined.isprintable():
        joined = "".join("?" if unicodedata.category(letter) in UNSEEN else letter for letter in joined)
    return joined if len(joined) <= LONGEST else f"{joined[:LONGEST]} ..."


def cell(text: str) -> str:
    """A text for a cell of a table that a spreadsheet opens: it begins no formula."""
    plain = one_line(text)
    return f"'{plain}" if plain.startswith(FORMULA) else plain


def markdown(text: str) -> str:
    """A text that stands in Markdown as it is: no tags, links, emphasis, table columns."""
    return LINKED.sub(r"\\\g<0>", MARKDOWN.sub(r"\\\1", one_line(text)))


def amount(points: float) -> str:
    """``8``, ``7.5``: points with two digits at most."""
    return f"{points:.2f}".rstrip("0").rstrip(".")
