"""PTX text -> the same text without comments, and with a number in the place of every string.

Comments and strings may hold whatever looks like code: a semicolon, a brace, a whole instruction, the signs that begin
a comment or a string. After this nothing of it is left, so that the parser may search for them.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"((?:[^"\\]|\\.)*)"', re.S)


def plain(text: str) -> tuple[str, list[str]]:
    """The text with a blank for each comment and ``"N"`` for string number N; and the strings as written."""
    strings: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return " "
        strings.append(match.group(1))
        return f'"{len(strings) - 1}"'

    return _TOKEN.sub(replaced, text), strings
