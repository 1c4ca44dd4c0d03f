"""The part of the screen about a wrong kernel: the place, its source with a caret, the meaning, one remedy."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from rich.console import Console, Group
from rich.text import Text

from gemm_lessons.course import Lesson
from gemm_lessons.engine import Finding
from gemm_lessons.engine.arguments import Expression, ExpressionError
from gemm_lessons.engine.compiler import without_comments
from gemm_lessons.engine.records import dataclass, printable
from gemm_lessons.gemm import Shape
from gemm_lessons.judging import CompileFailed, Faulted, TimedOut, WrongAnswer, text_of_line
from gemm_lessons.report.blocks import Paragraph, clipped
from gemm_lessons.report.links import link
from gemm_lessons.report.run import SEVERITY_STYLE, found_better, map_line, map_part, not_yet, once, visible
from gemm_lessons.report.table import told_apart
from gemm_lessons.running import Row, RunOutcome

MAP_ROWS, MAP_COLS = 5, 32  # block tiles of a wrong answer
WRONG_ELEMENTS = 2
UNUSED = re.compile("never (?:referenced|used)")
BYTES = re.compile(r"\b(\w+)(?:, |: )byte (-?\d+) of (\d+)")
DISTANCE = re.compile(r"([\d,]+) bytes (past its end|before its start)")
ACCESS = re.compile(r"\b([\d,]+) bytes? (read|written|copied|updated)")
# A sentence that begins with an element and what is done to it: "As[1][0]: read by thread 3".
ELEMENT = re.compile(r"^([\w.]+(?:\[[^\]]*\][\w.]*)+): (?=(?:read|written|updated|overwritten|stored)\b)")
CONSTANT = re.compile(r"\bconst(?:expr)?\s+(?:unsigned\s+)?int\s+(\w+)\s*=\s*([^;,]+)[;,]")
STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{([^{}()]*)\}")
MEMBER = re.compile(r"(?:unsigned\s+|signed\s+)?(\w+)\s+(\w+)\s*((?:\[[^\]]+\]\s*)*)")
SIZES = (1, 2, 4, 8, 16)  # bytes that an element of a plain type may have
SCALARS = {  # bytes of an element by its type in C++
    "char": 1, "int8_t": 1, "uint8_t": 1, "short": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2, "int": 4,
    "int32_t": 4, "unsigned": 4, "uint32_t": 4, "float": 4, "half2": 4, "long": 8, "double": 8, "int64_t": 8,
    "uint64_t": 8, "float2": 8, "int2": 8, "float4": 16, "int4": 16, "uint4": 16, "double2": 16,
}  # fmt: skip


def what_is_wrong(console: Console, outcome: RunOutcome) -> Iterator[Paragraph]:
    """Yield the parts of the screen about a kernel that is not right."""
    row = outcome.kernel
    match row.verdict:
        case CompileFailed() as failed:
            yield from _not_compiled(console, row, failed)
        case Faulted(finding=finding) | TimedOut(finding=finding):
            yield from _finding_blocks(console, outcome, finding)
        case WrongAnswer() as wrong:
            yield from _wrong(console, outcome, wrong)
        case _:
            pass
    if not isinstance(row.verdict, CompileFailed) and not row.checked.unfinished:
        for line in compiler_warnings(row)[:1]:
            yield Paragraph(clipped(console, line, 2), 2, gap=True)
    if row.hints:
        told = Text.assemble(("What to do: ", "bold"), _remedy(row, row.hints[0]))
        yield Paragraph(clipped(console, told, 6), gap=True)


def _not_compiled(console: Console, row: Row, failed: CompileFailed) -> Iterator[Paragraph]:
    errors = [diagnostic for diagnostic in failed.diagnostics if diagnostic.severity == "error"]
    for diagnostic in errors[:1]:
        line, column = diagnostic.line or None, diagnostic.column
        place = Text(":".join(str(it) for it in (printable(diagnostic.file), line, column) if it), "bold")
        place.stylize(link(console, diagnostic.file, line, column))
        said = Text.assemble(place, ": ", ("error", "bad"), f": {printable(diagnostic.message)}")
        yield Paragraph(clipped(console, said, 6), gap=True)
        if diagnostic.file == row.path:
            yield from _code(console, row, line, column)
    if len(errors) > 1:
        yield Paragraph(Text(f"and {len(errors) - 1} more; fix the first one first", "quiet"), 4)
    if not failed.diagnostics and failed.log.strip():
        yield Paragraph(clipped(console, Text(failed.log.strip()), 8), gap=True)


def _wrong(console: Console, outcome: RunOutcome, wrong: WrongAnswer) -> Iterator[Paragraph]:
    row, judged, unfinished = outcome.kernel, wrong.judgement, outcome.kernel.checked.unfinished
    if not unfinished:
        yield from _where(console, wrong)
    findings = once([it for it in row.checked.findings if it.severity != "note"])
    pattern = judged.pattern
    expected = unfinished and pattern and (pattern.vague or not_yet(unfinished, pattern))
    if pattern and not found_better(row, pattern) and not expected:
        looks = Text.assemble(("Looks like: ", "bold"), pattern.explanation)
        yield Paragraph(clipped(console, looks, 4 if findings else 6), 1 if findings else 0, gap=True)
    for finding in findings[:1]:
        yield from _finding_blocks(console, outcome, finding, spare=1)
    if unfinished and row.checked.contents:
        told = Text(" ".join(it.text for it in row.checked.contents))
        yield Paragraph(clipped(console, told, 3), 4, gap=True)


def _where(console: Console, wrong: WrongAnswer) -> Iterator[Paragraph]:
    """Yield the first wrong elements and a small map."""
    judged, tiles = wrong.judgement, wrong.judgement.tiles
    first = [
        "C[{}, {}] is {}, expected {}".format(it.row, it.col, *told_apart(it.got, it.expected))
        for it in judged.first[:WRONG_ELEMENTS]
    ]
    yield Paragraph(clipped(console, Text("; ".join(first)), 2), 2, gap=True)
    if tiles is None or len(tiles.wrong) * len(tiles.wrong[0]) == 1:
        return
    rows, cols = map_part(tiles, MAP_ROWS, MAP_COLS)
    lines = [map_line(tiles, wrong.shape, number, cols) for number in rows]
    cut = f"; rows {rows[0]} to {rows[-1]} of {len(tiles.wrong)}" if len(tiles.wrong) > MAP_ROWS else ""
    sized = f"tiles of C, {tiles.tile_rows} x {tiles.tile_cols}: # all wrong  + some wrong"
    legend = f"  {sized if tiles.tile_rows * tiles.tile_cols > 1 else 'elements of C: # wrong'}  . right{cut}"
    yield Paragraph(Group(*lines, Text(legend, "quiet")), 3)


def _finding_blocks(console: Console, outcome: RunOutcome, finding: Finding, spare: int = 0) -> Iterator[Paragraph]:
    """Yield the place of a finding, its source with a caret, and its meaning."""
    row = outcome.kernel
    if finding.line:
        file = row.path if row.holds(finding.file) else finding.file
        place = Text(f"{printable(file)}:{finding.line}", "bold")
        place.stylize(link(console, file, finding.line))
        yield Paragraph(place, spare, gap=True)
    if row.holds(finding.file):
        yield from _code(console, row, finding.line, None, finding.array)
    if row.holds(finding.other_file or finding.file) and finding.other_line not in (None, finding.line):
        yield from _code(console, row, finding.other_line, None, finding.array)
    shape = row.checked.shape_of(finding)
    elsewhere = f" at {shape}" if shape not in (None, _shape_of(outcome)) else ""
    meaning = Text.assemble(
        (f"{kind_of(finding)}{elsewhere}: ", SEVERITY_STYLE[finding.severity]), meaning_of(outcome, finding)
    )
    yield Paragraph(clipped(console, meaning, 5), spare, gap=not finding.line)


def kind_of(finding: Finding) -> str:
    """Return the kind of a finding as a word: ``Out of bounds``."""
    return finding.kind.replace("_", " ").capitalize()


def meaning_of(outcome: RunOutcome, finding: Finding) -> str:
    """Return a finding's sentence, with elements instead of bytes."""
    row = outcome.kernel
    shape = row.checked.shape_of(finding) or _shape_of(outcome)
    lesson: Lesson = row.built.lesson if row.built else outcome.lesson
    return printable(in_elements(finding.message, row.source, lesson, shape))


def _shape_of(outcome: RunOutcome) -> Shape | None:
    """Return the shape that the verdict names."""
    verdict = outcome.verdict
    return verdict.shape if isinstance(verdict, Faulted | TimedOut | WrongAnswer) else None


def _code(console: Console, row: Row, line: int | None, column: int | None, name: str = "") -> Iterator[Paragraph]:
    """Yield a source line with a caret, at the column or at the name of an array."""
    lines = row.source.splitlines()
    if line is None or not 0 < line <= len(lines):
        return
    text = lines[line - 1]
    body, indent = text.strip(), len(text) - len(text.lstrip())
    found = re.search(rf"\b{re.escape(name)}\b", body) if name else None
    at = max(0, column - 1 - indent) if column is not None else found.start() if found else 0
    gutter = f"{line:>6} | "
    room = max(20, console.width - len(gutter))
    start = max(0, at - room + 20) if len(body) > room else 0  # the caret's part of a long line
    shown = Text(f"{gutter}", "quiet").append(visible(body[start:]), "default")
    shown.truncate(console.width, overflow="ellipsis")
    yield Paragraph(shown)
    if body:
        yield Paragraph(Text(" " * (len(gutter) + min(at, len(body)) - start) + "^", "bad"))


def compiler_warnings(row: Row) -> list[Text]:
    """Return the compiler's warnings, those about unused names last."""
    found = [it for it in row.diagnostics if it.severity == "warning"]
    found.sort(key=lambda it: UNUSED.search(it.message) is not None)
    return [Text.assemble((f"Compiler warning, line {it.line}: ", "doubt"), it.message) for it in found]


def _remedy(row: Row, hint: str) -> str:
    """Return a hint without the line, kind and quote that the screen has shown."""
    head = re.match(r"line (\d+): [a-z ]+\. ", hint)
    text = hint[head.end() :].removeprefix(f"[{text_of_line(row.source, int(head[1]))}] ") if head else hint
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class ArrayShape:
    """An array as the source declares it: extents (the first may be unknown and is not needed; none for a single
    value), bytes per element. ``members`` of a struct's elements: (offset in bytes, its name and shape)."""

    name: str
    extents: tuple[int, ...]
    element: int
    members: tuple[tuple[int, ArrayShape], ...] = ()

    @property
    def scalar(self) -> int:
        """Return the bytes of a plain element; 0 where the members of a struct differ."""
        sizes = {member.scalar for _, member in self.members} or {self.element}
        return sizes.pop() if len(sizes) == 1 else 0

    def at(self, byte: int) -> str:
        """Return the element that holds a byte, also outside of the array: ``As[32][0]``, ``stages[1].a[0][8]``."""
        index, rest = divmod(byte, self.element)
        places = []
        for extent in reversed(self.extents[1:]):
            index, place = divmod(index, extent)
            places.append(place)
        indices = (index, *reversed(places)) if self.extents else ()
        found = self.name + "".join(f"[{place}]" for place in indices)
        inside = [(offset, member) for offset, member in self.members if offset <= rest]
        if not inside:
            return found
        offset, member = inside[-1]
        return f"{found}.{member.at(rest - offset)}"


def in_elements(message: str, source: str, lesson: Lesson, shape: Shape | None) -> str:
    """Return a sentence with elements for bytes, where the arrays' types are known. ``shape``: the launch's."""
    arrays = {
        name: found
        for name, _, size in BYTES.findall(message)
        if (found := _declared(name, int(size), source, lesson) or _buffer(name, lesson, shape))
    }
    if not arrays:
        return message
    text = BYTES.sub(lambda it: arrays[it[1]].at(int(it[2])) if it[1] in arrays else it[0], message)
    first = next(iter(arrays.values())).scalar
    text = DISTANCE.sub(lambda it: _distance(int(it[1].replace(",", "")), first, it[2]) or it[0], text)
    text = ACCESS.sub(lambda it: it[2] if it[1] == f"{first:,}" else it[0], text)
    return ELEMENT.sub(r"\1 is ", text)


def _distance(bytes_: int, element: int, words: str) -> str:
    count, rest = divmod(bytes_, element) if element else (0, bytes_)
    return "" if rest else f"{count:,} element{'s' * (count != 1)} {words}"


def _declared(name: str, size: int, source: str, lesson: Lesson) -> ArrayShape | None:
    """Find a shared or local array's declaration in the source, ``float As[BM][BK]`` or ``Stage stages[]``."""
    text = without_comments(source)
    names = _constants(text, lesson)
    for found in re.finditer(rf"\b(\w+)\s+{re.escape(name)}\s*((?:\[[^\]]*\]\s*)+)[;,=]", text):
        try:
            extents, members = _extents(found[2], names), _members(found[1], text, names)
        except ExpressionError:
            return None
        known, count = _size(found[1], members), math.prod(extents)
        element = known if count == 0 else size // count if size % count == 0 else 0
        plain = SIZES if count else SIZES[1:]  # ``char memory[]`` has no elements of its own
        if element == known if members else element in plain:
            return ArrayShape(name, extents, element, members)
    return None


def _extents(brackets: str, names: Mapping[str, int]) -> tuple[int, ...]:
    """Return the extents in brackets; 0 for an empty pair."""
    return tuple(
        Expression.parse(extent.replace("/", "//"), names).whole(names, at_least=1) if extent.strip() else 0
        for extent in re.findall(r"\[([^\]]*)\]", brackets)
    )


def _members(kind: str, text: str, names: Mapping[str, int]) -> tuple[tuple[int, ArrayShape], ...]:
    """Return the members of a struct of the source that has arrays and values of plain types only, else none."""
    body = next((body for struct, body in STRUCT.findall(text) if struct == kind), "")
    members: list[tuple[int, ArrayShape]] = []
    end = 0
    for declared in filter(None, map(str.strip, body.split(";"))):
        match = MEMBER.fullmatch(declared)
        if match is None or match[1] not in SCALARS:
            return ()
        element, extents = SCALARS[match[1]], _extents(match[3], names)
        start = -(-end // element) * element
        members.append((start, ArrayShape(match[2], extents, element)))
        end = start + element * math.prod(extents)
    return tuple(members)


def _size(kind: str, members: tuple[tuple[int, ArrayShape], ...]) -> int:
    """Return the bytes of a plain type, 0 if it is unknown, or of a struct with these members as C++ lays it out."""
    if not members:
        return SCALARS.get(kind, 0)
    offset, last = members[-1]
    align = max(member.element for _, member in members)
    return -(-(offset + last.element * math.prod(last.extents)) // align) * align


def _constants(text: str, lesson: Lesson) -> Mapping[str, int]:
    """Return the tile sizes and the source's own integer constants."""
    names = dict(lesson.tile.defines)
    for name, value in CONSTANT.findall(text):
        try:
            names[name] = Expression.parse(value.replace("/", "//"), names).whole(names, at_least=0)
        except ExpressionError:
            continue
    return names


def _buffer(name: str, lesson: Lesson, shape: Shape | None) -> ArrayShape | None:
    """Return a matrix of the lesson as a kernel indexes it: by one number."""
    there = (lesson if shape is None else lesson.at(shape)).data.by_name.get(name)
    return None if there is None else ArrayShape(name, (0,), there.element.size)
