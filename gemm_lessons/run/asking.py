"""Does a kernel ask what only the machine that runs it can answer? A graded one may not.

The simulator answers as one GPU could. A kernel that goes another way where the answer is another one would be judged
by a way that it takes nowhere else.
"""

from __future__ import annotations

import re

from gemm_lessons.compiler.compile import Compiled
from gemm_lessons.launch import Finding

ASKED = re.compile(r"%(n?smid|n?warpid|gridid|clock(64|_hi)?|globaltimer(_lo|_hi)?|envreg\d+)\b")
PLACE = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")


def asking(compiled: Compiled) -> Finding | None:
    """The first register in a kernel's PTX that tells the machine, the time or the launch apart from others."""
    line = None
    for text in compiled.ptx.splitlines():
        if place := PLACE.match(text):
            line = int(place[1])
        elif asked := ASKED.search(text.partition("//")[0]):
            message = (
                f"the kernel reads {asked[0]}, which is another number on another GPU or at another time; a kernel "
                "that is graded must not depend on it"
            )
            return Finding("machine_dependent", "error", message, line, file=compiled.path)
    return None
