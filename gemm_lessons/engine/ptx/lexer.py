"""Removes comments from PTX text, and replaces every string by its number.

Comments and strings may contain text that looks like code: a semicolon, a brace, a whole instruction, the start of a
comment or a string. Without them the parser can search the text.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"((?:[^"\\]|\\.)*)"', re.S)


def without_comments_and_strings(text: str) -> tuple[str, list[str]]:
    """Return the text with a blank for each comment and ``"N"`` for string number N, and the strings as written."""
    strings: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return " "
        strings.append(match.group(1))
        return f'"{len(strings) - 1}"'

    return _TOKEN.sub(replaced, text), strings
