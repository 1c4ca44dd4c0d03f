"""The names of a thread's own arrays, from the debug information of code that was compiled with ``-G``.

In such code every array lies in local memory, in one variable for all of a function (``__local_depot0``), and the
debug information says at which offset: DW_OP_addr, the variable, DW_OP_plus_uconst, the offset, then the name.
"""

from __future__ import annotations

import re

PLACE = re.compile(
    r"\.b8 3\n\s*\.b64 (?P<depot>__local_depot\d+)\n\s*\.b8 35\n\s*\.b8 (?P<offset>[\d,]+)\n\s*\.b8 (?P<name>[\d,]+)\n"
)


def local_names(ptx: str) -> dict[tuple[str, int], str]:
    """(variable, byte offset in it) -> the name in the source of what begins there."""
    found = {}
    for match in PLACE.finditer(ptx):
        offset = sum((int(byte) & 0x7F) << (7 * place) for place, byte in enumerate(match["offset"].split(",")))
        name = bytes(map(int, match["name"].split(","))).decode("utf-8", "replace")
        found[match["depot"], offset] = name
    return found
