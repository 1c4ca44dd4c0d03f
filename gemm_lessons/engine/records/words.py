"""Words in messages: the known word that a misspelt one was meant to be, and text that is safe to print."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(word: str, words: Iterable[str]) -> str | None:
    """Return the most similar of ``words``, ignoring case, or ``None`` if none is near."""
    by_lower = {candidate.lower(): candidate for candidate in words}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def printable(text: str) -> str:
    """Escape the characters of ``text`` that a terminal would interpret or hide: it may be from an untrusted file."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
