"""The row distances that a kernel passes with its fragments (``ldm``) and its views, compared with the arrays.

    Evidence --wrong_stride--> what is passed where, and what the array's rows are apart; None where nothing differs
    Evidence --wrong_view--> a view of a row-major matrix with other distances than the matrix has

Only arrays with two constant dimensions and views ``Matrix<T> c{C, rows, cols, row_stride, 1}`` are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gemm_lessons.engine.arguments import Expression, ExpressionError, Number
from gemm_lessons.engine.compiler import OPENING, Lexed, line_of, without_comments
from gemm_lessons.engine.records import dataclass
from gemm_lessons.judging.evidence import Evidence

VIEW = re.compile(r"Matrix\s*<[^>]*>\s+(\w+)\s*\{\s*(\w+)\s*,\s*\w+\s*,\s*(\w+)\s*,\s*(\w+)\s*,\s*(\w+)\s*\}")
CALL = re.compile(r"(?:load|store)_matrix_sync")
# Values that no arithmetic of tile sizes makes equal.
SIDES: Mapping[str, Number] = {"M": 1_000_003, "N": 1_000_033, "K": 1_000_037}
PLACES = {"load_matrix_sync": (1, 2), "store_matrix_sync": (0, 2)}  # arguments: address, row distance


@dataclass(frozen=True)
class WrongStride:
    """``passed`` in ``line``, where the rows of ``array`` are ``apart``; both as written."""

    line: int
    array: str
    passed: str
    apart: str


def wrong_stride(facts: Evidence) -> WrongStride | None:
    """Return the first row distance that is not that of its array; None if there is none."""
    if facts.checked.right or not CALL.search(facts.source):
        return None
    text, sizes = without_comments(facts.source), facts.lesson.tile.defines
    for line, name, arguments in _calls(facts.source):
        address, distance = PLACES[name]
        if len(arguments) <= distance:
            continue
        passed = arguments[distance]
        array, apart = _declared(text, arguments[address])
        if apart and _differ(passed, apart, sizes):
            return WrongStride(line, array, passed, apart)
    return None


@dataclass(frozen=True)
class WrongView:
    """View ``view`` of ``matrix`` in ``line`` with these distances of rows and of columns; rows are ``apart``."""

    line: int
    view: str
    matrix: str
    rows: str
    cols: str
    apart: str


def wrong_view(facts: Evidence) -> WrongView | None:
    """Return the first view of a row-major matrix whose distances are made of another of M, N and K."""
    if facts.checked.right:
        return None
    text = without_comments(facts.source)
    for found in VIEW.finditer(text):
        view, matrix, apart, rows, cols = found.groups()
        layout = facts.lesson.data.by_name.get(matrix)
        if layout is None or layout.order != "row" or not {apart, rows, cols} <= {*SIDES, "1"}:
            continue
        if (rows, cols) != (apart, "1"):
            return WrongView(line_of(text, found.start()), view, matrix, rows, cols, apart)
    return None


def _calls(source: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield line, name and arguments of each call that loads or stores a fragment."""
    lexed = Lexed(source)
    for at, token in enumerate(lexed.code):
        if token.text not in PLACES or lexed.text(at + 1) != "(":
            continue
        begin, end, arguments = at + 2, lexed.closing(at + 1), []
        here = begin
        while here < end:
            if lexed.text(here) == ",":
                arguments.append(lexed.written(begin, here))
                begin = here + 1
            here = lexed.after(here) if lexed.text(here) in OPENING else here + 1
        yield token.line, token.text, [*arguments, lexed.written(begin, end)]


def _declared(text: str, address: str) -> tuple[str, str]:
    """Return the array or view of an address, and the distance of its rows as written; empty if unknown."""
    if element := re.search(r"(\w+)\s*\[[^\[\]]+\]\s*\[[^\[\]]+\]\s*$", address):
        name = element[1]
        found = re.search(rf"[\w>]\s+{name}\s*\[[^\]]+\]\s*\[([^\]]+)\]\s*[;,]", text)
        return (name, found[1].strip()) if found else (name, "")
    if element := re.match(r"&\s*(\w+)\s*\(", address):
        name = element[1]
        found = re.search(rf">\s+{name}\s*\{{\s*\w+\s*,[^,{{}}]+,[^,{{}}]+,([^,{{}}]+),\s*1\s*\}}", text)
        return (name, found[1].strip()) if found else (name, "")
    return "", ""


def _differ(one: str, other: str, sizes: Mapping[str, Number]) -> bool:
    """Tell whether two distances made of tile sizes, M, N and K differ; False where they are made of anything else."""
    names = {**SIDES, **sizes}
    try:
        return Expression.parse(one, names).value(names) != Expression.parse(other, names).value(names)
    except ExpressionError:
        return False
