"""Check that a graded kernel does not depend on the day or the folder of its compilation, or on a machine's registers.

The compiler's macros for date, time and file get fixed values. A kernel that uses one is also compiled with a variable
in its place: if its code reads that, or cannot do without a constant, the kernel depends on the macro. Clocks,
addresses and what a GPU chooses are followed while the kernel runs (``Setting.portable``, ``Device.on_addresses``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gemm_lessons.engine import Finding
from gemm_lessons.engine.compiler import PASTED, Compiled
from gemm_lessons.engine.records import Misuse

ASKED = re.compile(r"%envreg\d+\b")  # the simulator has no values for these
PLACE = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)", re.M)
MACROS: Mapping[str, str] = {  # and their values in graded runs
    "__TIME__": '"00:00:00"',
    "__DATE__": '"Jan  1 2000"',
    "__FILE__": '"kernel.cu"',
    "__builtin_FILE()": '"kernel.cu"',
}
OPEN = "gemm_lessons_day"  # a variable in place of a macro: the compiler does not know its value
DECLARED = f"__constant__ char {OPEN}[16]; "
# Strings and comments are skipped. A macro's name may be cut by a backslash at the end of a line.
TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|//(?:\\\n|[^\n])*|/\*.*?\*/|\b__(?:TIME|DATE|FILE)__\b|\b__builtin_FILE\s*\(\s*\)', re.S
)
NAMES = ("__TIME__", "__DATE__", "__FILE__", "__builtin_FILE")


def fixed(source: str, *, value: str = "") -> tuple[str, str]:
    """Return a source whose macros for date, time and file have fixed values, or all of them ``value``; and the name of
    the first that it uses, empty if there is none."""
    found: list[str] = []

    def instead(match: re.Match[str]) -> str:
        name = re.sub(r"\s", "", match[0])
        if name not in MACROS:
            return match[0]
        found.append(name)
        return value or MACROS[name]

    whole = source if "\\\n" not in source or "__" not in source else _spliced(source)
    text = TOKEN.sub(instead, whole)
    return (text, found[0]) if found else (source, "")


def opened(source: str) -> str:
    """Return a source in which the compiler does not know the values of these macros."""
    return DECLARED + fixed(source, value=OPEN)[0]


def uses_opened(compiled: Compiled) -> bool:
    """Tell whether the code of ``opened`` depends on these values."""
    return compiled.ptx.count(OPEN) > compiled.ptx.count(f".const .align 1 .b8 {OPEN}")


def _spliced(source: str) -> str:
    """Return the source with continued lines joined; line numbers stay, by empty lines after them."""
    lines, empty = [], 0
    for line in source.split("\n"):
        if line.endswith("\\"):
            lines.append(line[:-1])
            empty += 1
        else:
            lines.append(line + "\n" * (empty + 1))
            empty = 0
    return "".join(lines).removesuffix("\n")


def pasted(source: str) -> bool:
    """Tell whether a source joins tokens, and has all pieces of the name of such a macro."""
    if not PASTED.search(source):
        return False
    words = frozenset(re.findall(r"\w+", _spliced(source)))
    return any(_is_made_of(name, words) for name in NAMES)


def _is_made_of(name: str, pieces: frozenset[str]) -> bool:
    """Tell whether a name is a sequence of two pieces or more."""
    ends = [0]
    for end in range(1, len(name) + 1):
        if any(end - start < len(name) and name[start:end] in pieces for start in ends):
            ends.append(end)
    return ends[-1] == len(name)


def environment_register(compiled: Compiled) -> Finding | None:
    """Return a finding for the first environment register in a kernel's PTX. Comments are searched too: only inline
    assembly has them, and a comment may hide there where another begins."""
    asked = ASKED.search(compiled.ptx)
    if asked is None:
        return None
    places = PLACE.findall(compiled.ptx, 0, asked.start())
    line = int(places[-1]) if places else None
    return Finding("machine_dependent", "error", "", line, file=compiled.path, facts=Misuse(name=asked[0]))


def by_macro(name: str, file: str) -> Finding:
    """Return a finding for a kernel whose code depends on a macro."""
    return Finding("machine_dependent", "error", "macro", None, file=file, facts=Misuse(name=name))
