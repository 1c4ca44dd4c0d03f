"""C as the product of an A and a B that the kernel misread.

A reading returns the factor "A" or "B" as it was misread, or None where that is impossible; ``read`` makes the
transformation of it. All readings are for products of one A and one B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gemm_lessons.gemm import Order, Value, roundings
from gemm_lessons.judging.named_sentence import Facts
from gemm_lessons.judging.wrong_answer import Array, Made, Transformation, Wrong

Reading = Callable[[Wrong, str], Array | None]

SIDE = 16  # rows and columns of a fragment
QUARTER = 8  # rows and columns of the matrices that ldmatrix loads
LEAST_PART = 32  # columns that are summed together
WORD = 4  # bytes
AT_ONCE = 4  # columns of B that one load has
FEW_ROWS = 4  # of C, in which bytes are looked for


def read(reading: Reading, *choices: str, order: Order | None = "row") -> Transformation:
    """Return a transformation that misreads the factors of each choice, "A", "B" or "AB", if they are stored in this
    order; None: in any. Facts: ``of``, their names."""

    def made(it: Wrong) -> Iterator[Made]:
        for names in choices if it.is_product else ():
            if order and any(it.problem.layouts[name].order != order for name in names):
                continue
            if (product := _product(it, {name: reading(it, name) for name in names})) is not None:
                yield it.made(product, of=tuple(names))

    return made


def _product(it: Wrong, readings: dict[str, Array | None]) -> Value | None:
    a, b = (readings.get(name, own) for name, own in zip("AB", it.factors, strict=True))
    if a is None or b is None:
        return None
    more = a.shape[1] - len(b)  # k of zeros
    return it.product(np.pad(a, ((0, 0), (0, max(-more, 0)))), np.pad(b, ((0, max(more, 0)), (0, 0))))


# -- readings: in another order -------------------------------------------------------------------------------------


def across(it: Wrong, name: str) -> Array:
    """Read the same memory in column-major order."""
    matrix = _factor(it, name)
    return matrix.ravel().reshape(matrix.shape[::-1]).T


def swapped(it: Wrong, name: str) -> Array | None:
    """Read (col, row) where (row, col) was meant: the indices are exchanged, the stride is unchanged."""
    layout = it.problem.layouts[name]
    row, col = np.indices((layout.rows, layout.cols))
    return _found(it, name, col * layout.leading + row)


def boxes_exchanged(it: Wrong) -> Iterator[Made]:
    """Request a map's boxes at (col, row) instead of (row, col). What is outside is 0. Facts: ``of``, the factor."""
    for tensor_map in it.problem.data.maps if it.is_plain else ():
        name, sizes = tensor_map.buffer, it.problem.data.names(it.problem.shape.names)
        if name not in ("A", "B"):
            continue
        matrix, found = _factor(it, name), np.zeros_like(_factor(it, name))
        height, width = (extent.whole(sizes, at_least=1) for extent in tensor_map.box)
        for row in range(0, matrix.shape[0], height):
            for col in range(0, matrix.shape[1], width):
                box = matrix[col : col + height, row : row + width]
                found[row : row + box.shape[0], col : col + box.shape[1]] = box
        if (product := _product(it, {name: found})) is not None:
            yield it.made(product, of=name)


def rows_as_long_as(name: str, sizes: str) -> Transformation:
    """Return a transformation that multiplies the row by another size than its length. Facts: ``size``, ``length``."""

    def made(it: Wrong) -> Iterator[Made]:
        for size in sizes if it.is_plain else "":
            layout, length = it.problem.layouts[name], int(it.problem.shape.names[size])
            row, col = np.indices((layout.rows, layout.cols))
            found = None if length == layout.leading else _found(it, name, row * length + col)
            if (product := _product(it, {name: found})) is not None:
                yield it.made(product, size=size, length=length)

    return made


def _found(it: Wrong, name: str, place: Array) -> Array | None:
    """Return the elements of an array at these places; None where one is out of bounds."""
    stored = it.problem.arrays[name]
    if place.max() >= stored.size:
        return None
    return np.asarray(it.problem.layouts[name].element.decode(stored).ravel()[place])


def fragments(it: Wrong, name: str) -> Array | None:
    """Transpose each 16 x 16 fragment."""
    return _among_zeros(it, name, squares_transposed)


def fours(it: Wrong, name: str) -> Array | None:
    """Transpose each 4 x 4, four numbers of which a thread moves at once."""
    return squares_transposed(_factor(it, name), AT_ONCE)


def quarters(it: Wrong, name: str) -> Array | None:
    """Transpose each 8 x 8 matrix of 16-bit numbers, which ldmatrix loads."""
    if not it.has_halves:
        return None
    return _among_zeros(it, name, lambda whole: squares_transposed(whole, QUARTER))


def quarters_exchanged(it: Wrong, name: str) -> Array | None:
    """Exchange the upper right and the lower left quarter of each 16 x 16 fragment."""
    return _among_zeros(it, name, with_quarters_exchanged) if it.has_halves else None


def _among_zeros(it: Wrong, name: str, move: Callable[[Array], Array | None]) -> Array | None:
    """Move the elements of whole fragments, which are filled up with zeros at the edges of the matrix. The result may
    have more k than the matrix."""
    rows, cols = _factor(it, name).shape
    moved = move(np.pad(_factor(it, name), ((0, -rows % SIDE), (0, -cols % SIDE))))
    return None if moved is None else moved[:rows] if name == "A" else moved[:, :cols]


def with_quarters_exchanged(matrix: Array) -> Array | None:
    """Exchange the second and the third of the four 8 x 8 matrices in each 16 x 16."""
    rows, cols = matrix.shape
    if rows % SIDE or cols % SIDE:
        return None
    blocks = matrix.reshape(rows // SIDE, 2, QUARTER, cols // SIDE, 2, QUARTER)
    return blocks.transpose(0, 4, 2, 3, 1, 5).reshape(rows, cols)


def words(size: int) -> Reading:
    """Return a reading of numbers of ``size`` bytes in words of several columns of one k, as in memory, as if each word
    had several k of one column."""

    def read(it: Wrong, name: str) -> Array | None:
        matrix, each = _factor(it, name), WORD // size
        rows, cols = matrix.shape
        if it.problem.layouts[name].element.size != size or rows % each or cols % AT_ONCE:
            return None
        blocks = matrix.reshape(rows // each, each, cols // AT_ONCE, AT_ONCE).swapaxes(1, 2)
        return blocks.reshape(-1, cols // AT_ONCE, AT_ONCE, each).transpose(0, 3, 1, 2).reshape(rows, cols)

    return read


def squares_transposed(matrix: Array, side: int = SIDE) -> Array | None:
    """Transpose each ``side`` x ``side`` square."""
    rows, cols = matrix.shape
    if rows % side or cols % side:
        return None
    blocks = matrix.reshape(rows // side, side, cols // side, side)
    return blocks.transpose(0, 3, 2, 1).reshape(rows, cols)


# -- readings: as other numbers -------------------------------------------------------------------------------------


def truncated(it: Wrong, name: str) -> Array | None:
    """Truncate to whole numbers, where the factors have fractions."""
    return np.trunc(_factor(it, name)) if it.may_be_fitted and it.problem.answer.element.is_float else None


def unsigned(it: Wrong, name: str) -> Array | None:
    """Read bytes as 0 to 255."""
    if not _are_bytes(it):
        return None
    values = _factor(it, name)
    return np.where(values < 0, values + 256, values)


def _are_bytes(it: Wrong) -> bool:
    return [buffer.element.name for buffer in it.problem.data.factors] == ["int8", "int8"]


# -- tiles of K -----------------------------------------------------------------------------------------------------


def first_tile(it: Wrong, name: str) -> Array | None:
    """Use the first tile in every iteration of the main loop."""
    k, depth = it.problem.shape.k, it.tiles.depth
    if len(it.k_tiles) < 2 or k % depth:
        return None
    matrix = _factor(it, name)
    return np.tile(matrix[:, :depth], k // depth) if name == "A" else np.tile(matrix[:depth].T, k // depth).T


def only_k_tile(number: int) -> Transformation:
    """Return a transformation to the sum of this K tile alone."""

    def made(it: Wrong) -> Iterator[Made]:
        if _has_k_tiles(it):
            (a, b), tile = it.scaled_factors, it.k_tiles[number]
            yield it.made(it.product(a[:, tile], b[tile]), **_k_of(it, tile))

    return made


def k_tile_counted(times: int, last: bool) -> Transformation:
    """Return a transformation that counts one K tile this often: the last one, or one that is not the last."""

    def made(it: Wrong) -> Iterator[Made]:
        if not _has_k_tiles(it):
            return
        (a, b), tiles = it.scaled_factors, it.k_tiles
        if it.got.size < len(tiles):  # one of so many tiles fits by chance
            return
        for number in [len(tiles) - 1] if last else range(len(tiles) - 1):
            weights = np.ones(len(b))
            weights[tiles[number]] = times
            yield it.made(it.product(a * weights, b), number=number + 1, **_k_of(it, tiles[number]))

    return made


def k_tiles_carried(it: Wrong) -> Iterator[Made]:
    """Start the sums of K tiles from 0 in the first tile only. The sums of later tiles still contain earlier sums, of
    the same part of a block's columns or of the part before it, and are added to C with the scales of their own
    tile."""
    if not _has_k_tiles(it):
        return
    width = it.tiles.cols
    parts = {width // size for _, size in it.problem.data.sizes if LEAST_PART <= size < width and width % size == 0}
    for count in sorted({1, *parts}) if it.got.shape[1] % width == 0 else (1,):
        value, magnitude = (_carried(it, count, change) for change in (np.asarray, np.abs))
        depth = it.problem.shape.k * count
        made = it.made(it.problem.finished(Value(value, magnitude, roundings(depth))))
        lost = it.problem.data.lost_by_promotion(it.problem.shape.names, depth)
        yield made._replace(tolerance=made.tolerance + lost * magnitude)


def _carried(it: Wrong, count: int, change: Callable[[Array], Array]) -> Array:
    """Return C as ``k_tiles_carried`` has it, with ``count`` parts; ``change`` is applied to the factors."""
    values = it.problem.values
    a, b = (change(values[name].value) for name in "AB")
    ones = {name: Value.exact(np.ones_like(values[name].value)) for name in "AB"}
    of_rows, of_cols = map(change, it.problem.data.formula.factors({**values, **ones}))
    rows, cols = it.got.shape
    shape = (rows, -1, count, it.tiles.cols // count) if count > 1 else (rows, 1, 1, cols)
    total = np.zeros((rows, cols)).reshape(shape)
    sums = np.zeros_like(total[:, :, 0])
    for number, tile in enumerate(it.k_tiles):
        products = (a[:, tile] @ b[tile]).reshape(shape)
        scale = (of_rows[:, tile.start, None] * of_cols[tile.start]).reshape(shape)
        for part in range(count):
            sums = products[:, :, part] + (sums if number else 0)
            total[:, :, part] += scale[:, :, part] * sums
    return total.reshape(rows, cols)


def _has_k_tiles(it: Wrong) -> bool:
    return it.has_two_factors and len(it.k_tiles) > 1 and it.tiles.depth > 1


def _k_of(it: Wrong, tile: slice) -> Facts:
    return {"first": tile.start, "last": tile.stop - 1, "depth": it.tiles.depth}


def _factor(it: Wrong, name: str) -> Array:
    return it.factors["AB".index(name)]


# -- bytes of words -------------------------------------------------------------------------------------------------


def bytes_of_words(it: Wrong) -> Facts | None:
    """Recognise words of B that hold four other bytes of a 4 x 4 square than four consecutive k of one column."""
    if not it.is_plain or not _are_bytes(it):
        return None
    a, b = it.factors
    depth, cols = b.shape
    if depth % WORD or cols % WORD:
        return None
    found = [_bytes_of(it.got[:, word::WORD], a, b) for word in range(WORD)]
    if any(its is None or len(set(its)) < WORD for its in found):
        return None
    held = np.zeros_like(b)
    for word, its in enumerate(found):
        for place, (k, col) in enumerate(its or ()):
            held[place::WORD, word::WORD] = b[k::WORD, col::WORD]
    if not it.agrees(it.product(a, held)):
        return None
    belong = [tuple((k, word) for k in range(WORD)) for word in range(WORD)]
    word = next(word for word, its in enumerate(found) if its != belong[word])
    return {"word": word, "held": found[word], "belong": belong[word]}


def _bytes_of(got: Array, a: Array, b: Array) -> Sequence[tuple[int, int]] | None:
    """Return the (k, column) of the four bytes of a word, for each square, that give these sums; None where no four do.
    Pairs of bytes are tried, then combined where their sums add up."""
    rows = slice(0, FEW_ROWS)
    places = [(k, col) for k in range(WORD) for col in range(WORD)]

    def sums(byte: int) -> list[Array]:
        return [(a[rows, byte::WORD] @ b[k::WORD, col::WORD]).ravel() for k, col in places]

    low = {
        (x + y).tobytes(): (p, q)
        for p, x in zip(places, sums(0), strict=True)
        for q, y in zip(places, sums(1), strict=True)
    }
    wanted = got[rows].ravel()
    for r, x in zip(places, sums(2), strict=True):
        for s, y in zip(places, sums(3), strict=True):
            if first := low.get((wanted - x - y).tobytes()):
                return (*first, r, s)
    return None
