"""Tiles in shared memory: the bytes that a product of a warpgroup reads, and the blocks of a cluster that get a copy.

Simulator.observe (PTX of one cluster) --TileNotes--> Tiles: TilePicture by line and factor, Share by copying line
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import islice

from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.events import WARP, Batch, Boundary, Bulk, LaunchInfo, Observer, Record
from gemm_lessons.engine.machine.warpgroups import CHUNK, ROWS, WARPS, AsyncProduct, form_of
from gemm_lessons.engine.ptx.records import Vector
from gemm_lessons.engine.records.frozen import dataclass

SHOWN_BYTES = 1024  # bytes of shared memory in one picture
CHUNK_BYTES = CHUNK
GROUP = WARPS * WARP  # threads of a warpgroup


@dataclass(frozen=True)
class Chunk:
    """16 bytes that product number ``product`` of a line reads: elements of ``row`` from ``first`` on. Rows are rows of
    A or columns of B, and elements follow each other along k; in a ``transposed`` tile, ``row`` counts along k and
    elements follow each other along rows."""

    product: int
    row: int
    first: int


@dataclass(frozen=True)
class TilePicture:
    """The bytes around the first chunk that the first product of a line reads of factor ``name``.

    ``array`` and ``start``: the shared array and the byte of it at which the picture begins; ``chunks``: by 16 bytes,
    None where no product of this line reads. ``form`` is the instruction's name.
    """

    line: int
    form: str
    name: str
    transposed: bool
    array: str
    start: int
    chunks: tuple[Chunk | None, ...]


@dataclass(frozen=True)
class Share:
    """Copies of ``size`` bytes in ``line`` that a cluster's block ``issuer`` issues for blocks ``to``, at one place."""

    line: int
    issuer: int
    size: int
    to: tuple[int, ...]


@dataclass(frozen=True)
class Tiles:
    """Pictures of the tiles that products read, and copies that are shared in a cluster, by line."""

    pictures: tuple[TilePicture, ...] = ()
    shares: tuple[Share, ...] = ()


@dataclass
class TileNotes(Observer):
    """Observer of one cluster's products and copies; see ``events.Observer``."""

    chunks: dict[int, list[int]] = field(default_factory=dict)  # by product instruction: offsets, in order
    # By product instruction: block and number of the warpgroup, or warp, that is followed.
    readers: dict[int, tuple[int, int]] = field(default_factory=dict)
    copies: dict[tuple[int, int, int, int], set[int]] = field(default_factory=dict)
    padded: int = 0

    def begin(self, launch: LaunchInfo) -> None:
        """Remember the launch."""
        self.launch = launch
        self.instructions = launch.kernel.instructions
        self.stride = -(-launch.shared_bytes // CHUNK) * CHUNK  # bytes from a block's shared memory to the next one's

    def begin_batch(self, batch: Batch) -> None:
        """Remember how lanes are numbered."""
        self.padded = batch.padded_threads

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Note the first execution of each product, and the destinations of copies."""
        for record in records:
            if isinstance(record, Bulk) and record.lanes.size:
                if record.touch.access.is_product:
                    self._product(record)
                elif record.offsets is not None and not record.reads:
                    self._copy(record)

    def _product(self, record: Bulk) -> None:
        index = record.touch.access.index
        instruction = self.instructions[index]
        wanted = sum(count for _, count in _parts(form_of(instruction), isinstance(instruction.operands[1], Vector)))
        found = self.chunks.setdefault(index, [])
        # Lanes that trace the reads of a whole warpgroup begin with its second warp; a warp's own begin with its first.
        first = int(record.lanes[0])
        size = GROUP if first % self.padded % GROUP == WARP else WARP
        reader = first // self.padded, first % self.padded // size
        if len(found) < wanted and self.readers.setdefault(index, reader) == reader:
            mine = (record.lanes // self.padded == reader[0]) & (record.lanes % self.padded // size == reader[1])
            found += record.touch.addresses[mine].tolist()

    def _copy(self, record: Bulk) -> None:
        access = record.touch.access
        for lane, at in zip(record.lanes.tolist(), record.touch.addresses[record.lanes].tolist(), strict=True):
            issuer = lane // self.padded
            key = access.index, issuer, access.width, at % self.stride
            self.copies.setdefault(key, set()).add(issuer + at // self.stride)

    def result(self, path: str) -> Tiles:
        """Return what was noted; lines are those of the file ``path``."""
        lines: dict[int, list[int]] = {}
        for index in sorted(self.chunks):
            if line := self._line(index, path):
                lines.setdefault(line, []).append(index)
        pictures = [it for line, indices in sorted(lines.items()) for it in self._pictures(line, indices)]
        shares = {
            Share(self._line(index, path), issuer, size, tuple(sorted(to)))
            for (index, issuer, size, _), to in self.copies.items()
        }
        return Tiles(tuple(pictures), tuple(sorted(shares, key=lambda it: (it.line, it.issuer, it.size, it.to))))

    def _line(self, index: int, path: str) -> int:
        """Return the innermost line of the file ``path`` that an instruction comes from, 0 if there is none."""
        source = self.instructions[index].source
        return next((line for file, line in source.places if file == path), 0) if source else 0

    def _pictures(self, line: int, indices: Sequence[int]) -> Iterator[TilePicture]:
        """Yield a picture of A and of B, as the products of a line read them, in the order of the code."""
        read: dict[str, dict[int, Chunk]] = {}
        begins: dict[str, int] = {}
        forms = [form_of(self.instructions[index]) for index in indices]
        for number, (index, form) in enumerate(zip(indices, forms, strict=True)):
            offsets = iter(self.chunks[index])
            for name, count in _parts(form, isinstance(self.instructions[index].operands[1], Vector)):
                tile = list(islice(offsets, count))
                begins.setdefault(name, tile[0] // SHOWN_BYTES * SHOWN_BYTES)
                for i, at in enumerate(tile):
                    read.setdefault(name, {}).setdefault(at, _chunk(form, name, number, i))
        for name in sorted(read):
            start = begins[name]
            inside = (it for it in self.launch.shared_arrays if it.offset <= start < it.offset + it.size)
            array = next(inside, None)
            yield TilePicture(
                line, self.instructions[indices[0]].full_opcode, name, forms[0].transposed["AB".index(name)],
                plain_name(array.name) if array else "", start - (array.offset if array else 0),
                tuple(read[name].get(at) for at in range(start, start + SHOWN_BYTES, CHUNK)),
            )  # fmt: skip


def _parts(form: AsyncProduct, in_registers: bool) -> list[tuple[str, int]]:
    """Return the factors in shared memory and their chunks, in the order in which the simulator reads them."""
    per_row = form.k * form.size // CHUNK
    return [("B", form.n * per_row), *([] if in_registers else [("A", ROWS * per_row)])]


def _chunk(form: AsyncProduct, name: str, number: int, i: int) -> Chunk:
    """Return what chunk ``i`` of a tile holds; see ``warpgroups._chunks``."""
    elements = CHUNK // form.size
    if form.transposed["AB".index(name)]:
        return Chunk(number, i % form.k, i // form.k * elements)
    per_row = form.k // elements
    return Chunk(number, i // per_row, i % per_row * elements)
