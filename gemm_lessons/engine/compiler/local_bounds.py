"""Bounds check of local array indices in the source, for loops with fixed bounds.

The compiler keeps such arrays in registers, so an index past the end leaves no access that could be checked. A second
compilation with the arrays in memory shows it, but takes a fifth of the time of a run. This check runs first; only
kernels that it cannot prove correct need the second compilation.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from gemm_lessons.engine.compiler.tokens import OPENING, Lexed, blanked, tokens_of
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex

CONSTANT = regex(r"\bconstexpr\s+(?:int|unsigned|size_t)\s+(\w+)\s*=\s*([^;]+);")
ARRAY = regex(
    r"^[ \t]*(?P<before>(?:[\w:<>]+[ \t]+)*?)(?P<type>[A-Za-z_]\w*)[ \t]+(?P<name>\w+)"
    r"(?P<sizes>(?:\[[^\]\n]+\])+)\s*(?:=\s*\{[^;]*\})?;",
    re.MULTILINE,
)
# Statements that declare arrays, also several in one, of types that kernels use.
DECLARES = regex(
    r"^[ \t]*(?:const[ \t]+)?(?:float|double|int|unsigned|half|__half|char|u?int\d+_t)[234]?"
    r"[ \t]+\w+[^;={}()]*\[[^;]*;",
    re.MULTILINE,
)
LOOP = regex(r"\bfor\s*\(\s*(?:int|unsigned|size_t)\s+(\w+)\s*=\s*([^;]+);\s*\1\s*<\s*([^;]+);\s*([^)]*)\)")
VECTOR = regex(
    r"\b(?:\w+(?P<side>[248])_at|reinterpret_cast\s*<[^>]*>)\s*\(\s*&?\s*$|\(\s*(?:const\s+)?\w+[234]\s*[*&]\s*\)\s*&?\s*$"
)
LOCAL = regex(r"\bconst\s+int\s+(\w+)\s*=\s*([^;{}]+);")
EITHER = regex(r"([^?:]+)\?([^?:]+):([^?:]+)")
CHANGED = r"(?:\+\+|--)\s*{0}\b|\b{0}\s*(?:\+\+|--|[-+*/%&|^]?=(?!=))"
STRUCT = regex(r"\bstruct\s+(\w+)\s*\{")
SIZE_OF = regex(r"\bsizeof\s*\(\s*\Z")
SHARED = regex(r"\b__shared__\b")
NOT_OWN = frozenset("__shared__ extern static typedef __constant__ __device__ return else case goto new delete".split())
NO_CODE = ("comment", "string", "character")
MOST_CASES = 1 << 14


@dataclass(frozen=True)
class _Loop:
    """``values``: the values of the variable in order, if known; ``start`` and ``end`` of the body in the text."""

    name: str
    values: tuple[int, ...] | None
    start: int
    end: int


def may_run_past(source: str, defines: Mapping[str, int]) -> bool:
    """Return whether some index of a local array may be out of bounds. False without such an array."""
    plain = _plain(source)
    lexed = Lexed(plain)
    text = _without_shared_structs(plain, lexed)
    constants = dict(defines)
    for name, value in CONSTANT.findall(text):
        number = _value(value, constants)
        if number is not None:
            constants[name] = number
    arrays = list(_arrays(text, constants))
    if any(not ARRAY.match(match[0]) for match in DECLARES.finditer(text)):
        return True
    loops = list(_loops(text, lexed, constants)) if arrays else []
    return any(not _stays_inside(text, *array, constants, loops) for array in arrays)


def _plain(source: str) -> str:
    """Blank comments, strings and preprocessor lines except macro values. Everything else keeps its position."""
    hidden = (it for it in tokens_of(source) if it.kind in NO_CODE or (it.kind == "directive" and not it.macro))
    return blanked(source, ((it.start, it.end) for it in hidden)).replace("#", " ")


def _without_shared_structs(text: str, lexed: Lexed) -> str:
    """Blank the members of types used only for shared memory, pointers and their size."""
    for match in STRUCT.finditer(text):
        end = lexed.code[lexed.after(_index(lexed, match.end() - 1)) - 1].end
        others = [other for other in re.finditer(rf"\b{match[1]}\b", text) if not match.start() <= other.start() < end]
        ours = text[end:].lstrip()[:1] != ";"  # struct S { ... } mine;
        if not ours and all(
            SHARED.search(_statement_before(text, other.start()))
            or text[other.end() :].lstrip()[:1] in "*&"
            or SIZE_OF.search(text, 0, other.start())
            for other in others
        ):
            text = text[: match.end()] + re.sub(r"[^\n]", " ", text[match.end() : end - 1]) + text[end - 1 :]
    return text


def _statement_before(text: str, at: int) -> str:
    """Return the text before a type's name: after ``__shared__``, a declaration is not local."""
    return text[1 + max(text.rfind(end, 0, at) for end in ";{}") : at]


def _arrays(text: str, constants: Mapping[str, int]) -> Iterator[tuple[str, tuple[int | None, ...], int]]:
    """Yield name, dimensions and the end of each declaration."""
    for match in ARRAY.finditer(text):
        words = (*match["before"].split(), match["type"])
        if not any(word in NOT_OWN for word in words):
            yield match["name"], tuple(_value(size, constants) for size in _indices(match["sizes"])), match.end()


def _loops(text: str, lexed: Lexed, constants: Mapping[str, int]) -> Iterator[_Loop]:
    for match in LOOP.finditer(text):
        name, first, last, step = match.groups()
        start, stop, by = _value(first, constants), _value(last, constants), _step(step.strip(), name, constants)
        body, end = match.end(), lexed.code[_end_of_statement(lexed, _index(lexed, match.end())) - 1].end
        inside = LOOP.sub("", text[body:end])
        known = start is not None and stop is not None and by and not re.search(CHANGED.format(name), inside)
        if not known or start is None or stop is None or by is None or (stop - start) // by > MOST_CASES:
            yield _Loop(name, None, body, end)
        else:
            yield _Loop(name, tuple(range(start, stop, by)), body, end)


def _step(text: str, name: str, constants: Mapping[str, int]) -> int | None:
    if text in (f"{name}++", f"++{name}"):
        return 1
    match = re.fullmatch(rf"{name}\s*\+=\s*(.+)", text)
    return _value(match[1], constants) if match else None


def _index(lexed: Lexed, position: int) -> int:
    """Return the index of the first token at or after a position in the text."""
    return bisect_left(lexed.code, position, key=lambda token: token.start)


def _end_of_statement(lexed: Lexed, at: int) -> int:
    """Return the index after the statement that begins at ``at``."""
    if lexed.text(at) in ("for", "while", "if") and lexed.text(at + 1) == "(":
        end = _end_of_statement(lexed, lexed.after(at + 1))
        return _end_of_statement(lexed, end + 1) if lexed.text(end) == "else" else end
    if lexed.text(at) == "{":
        return lexed.after(at)
    while lexed.text(at) not in (";", ""):
        at = lexed.after(at) if lexed.text(at) in OPENING else at + 1
    return min(at + 1, len(lexed.code))


def _stays_inside(
    text: str, name: str, sizes: tuple[int | None, ...], end: int, constants: Mapping[str, int], loops: Sequence[_Loop]
) -> bool:
    for match in re.finditer(rf"\b{name}\b", text[end:]):
        at = end + match.start()
        written = re.match(r"(?:\s*\[[^\]\[]*\])+", text[end + match.end() :])
        indices = _indices(written[0]) if written else []
        if len(indices) != len(sizes) or None in sizes:
            return False
        vector = VECTOR.search(text[max(0, at - 80) : at])
        beyond = int(vector["side"] or 4) - 1 if vector else 0
        # Inner loops are later in the list.
        here = {loop.name: loop.values for loop in loops if loop.start <= at < loop.end}
        body = max((loop.start for loop in loops if loop.start <= at < loop.end), default=at)
        for local, value in _local_constants(text, body, at):
            indices = [re.sub(rf"\b{local}\b", value, index) for index in indices]
        for place, (index, size) in enumerate(zip(indices, sizes, strict=True)):
            assert size is not None
            more = beyond if place == len(sizes) - 1 else 0
            values = _values(index, constants, here)
            if values is None or min(values) < 0 or max(values) + more >= size:
                return False
    return True


def _local_constants(text: str, start: int, end: int) -> Iterator[tuple[str, str]]:
    """Yield constants declared between two positions and still in scope at the second, with their expressions.

    The last one is first. If a name is declared twice in between, neither is used.
    """
    for local in reversed(list(LOCAL.finditer(text, start, end))):
        declared = len(re.findall(rf"\b\w+\s+[*&]?\s*{local[1]}\b", text[start:end]))
        if declared == 1 and not _is_closed(text, local.end(), end):
            yield local[1], _in_python(local[2])


def _is_closed(text: str, start: int, end: int) -> bool:
    """Return whether the block around ``start`` ends before ``end``."""
    depth = 0
    for character in text[start:end]:
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return True
    return False


def _in_python(text: str) -> str:
    """Return a C expression as Python, in parentheses: ``a ? b : c`` is ``b if a else c``."""
    either = EITHER.fullmatch(text)
    return f"({either[2]} if {either[1]} else {either[3]})" if either else f"({text})"


def _indices(text: str) -> list[str]:
    return re.findall(r"\[([^\]]*)\]", text)


def _values(text: str, constants: Mapping[str, int], loops: Mapping[str, tuple[int, ...] | None]) -> list[int] | None:
    """Return every value of an index; None if unknown."""
    names = sorted(set(re.findall(r"[A-Za-z_]\w*", text)) - {"if", "else"} - (set(constants) - set(loops)))
    ranges = [loops.get(name) or () for name in names]
    if not all(ranges) or math.prod(map(len, ranges)) > MOST_CASES:
        return None
    found = [_value(text, {**constants, **dict(zip(names, case, strict=True))}) for case in itertools.product(*ranges)]
    return None if None in found else [value for value in found if value is not None]


def _value(text: str, names: Mapping[str, int]) -> int | None:
    """Evaluate an integer expression as C does; None for anything else."""
    try:
        return _number(ast.parse(text.strip(), mode="eval").body, names)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None


def _number(node: ast.expr, names: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left, names), _number(node.right, names)
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div() if left >= 0 and right > 0:
                return left // right
            case ast.Mod() if left >= 0 and right > 0:
                return left % right
    if isinstance(node, ast.IfExp):
        return _number(node.body if _number(node.test, names) else node.orelse, names)
    raise ValueError(ast.dump(node))
