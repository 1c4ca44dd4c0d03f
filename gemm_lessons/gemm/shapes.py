"""The sizes of a product, the tile of a block, and the shapes that a kernel accepts."""

from __future__ import annotations

from dataclasses import field, replace

from gemm_lessons.engine.arguments import Number
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm.data import LAYOUTS, SIZES


class ShapeError(ValueError):
    """A shape that the lesson's contract does not allow; the message names the allowed shapes."""


@dataclass(frozen=True, order=True)
class Shape:
    """The sizes of one product: A is m x k, B is k x n, C is m x n. ``layout``: one of ``data.LAYOUTS``."""

    m: int
    n: int
    k: int
    layout: str = field(default=LAYOUTS[0], kw_only=True)  # of A and B in memory, for a lesson with several layouts

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}" + f" {self.layout}" * (self.layout != LAYOUTS[0])

    @property
    def names(self) -> dict[str, Number]:
        """Return ``{"M": m, "N": n, "K": k}``, the names in expressions of lesson.toml."""
        return {"M": self.m, "N": self.n, "K": self.k}


@dataclass(frozen=True)
class Tile:
    """Tile sizes by name (``BM``, ``BN``, ...). The kernel receives them as ``-DBM=...``."""

    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def defines(self) -> dict[str, int]:
        """Return the sizes as ``{"BM": 32, ...}``."""
        return dict(self.sizes)


@dataclass(frozen=True)
class Shapes:
    """The shape contract: the factors that M, N and K must be multiples of, the shapes to check, the shape to count on,
    the accepted layouts of A and B, the largest M, N and K by name (if limited), the shape of the times in the
    table for lessons about small or narrow shapes, and how many products a kernel makes for each of C's."""

    multiple_of: Shape
    check: tuple[Shape, ...]
    count: Shape
    layouts: tuple[str, ...] = LAYOUTS[:1]
    at_most: tuple[tuple[str, int], ...] = ()
    timed: Shape | None = None
    products: int = 1

    def in_layout(self, layout: str) -> Shapes:
        """Return the same shapes, all in this layout."""
        check = tuple(dict.fromkeys(replace(shape, layout=layout) for shape in self.check))
        return replace(self, check=check, count=replace(self.count, layout=layout))

    def refusal(self, shape: Shape) -> str | None:
        """Return why this shape is not allowed, or ``None`` when it is."""
        wrong = []
        if shape.layout not in self.layouts:
            wrong.append(f"A and B have layout {shape.layout}, but it takes {', '.join(self.layouts)}")
        for name, size, multiple in zip(SIZES, astuple(shape), astuple(self.multiple_of), strict=True):
            if size < 1:
                wrong.append(f"{name} = {size} is below 1")
            elif size % multiple:
                below = size // multiple * multiple
                near = f"{below} or {below + multiple}" if below else f"{multiple}"
                wrong.append(f"{name} = {size} is not a multiple of {multiple} (try {near})")
            if size > (most := dict(self.at_most).get(name, size)):
                wrong.append(f"{name} = {size} is above {most}")
        return "; ".join(wrong) or None


def astuple(shape: Shape) -> tuple[int, int, int]:
    """Return ``(m, n, k)`` of a shape."""
    return shape.m, shape.n, shape.k


def transposed(layout: str) -> dict[str, int]:
    """Return ``trans_a`` and ``trans_b``: 1 for a factor that is stored transposed."""
    return {f"trans_{name.lower()}": int(letter == "T") for name, letter in zip("AB", layout, strict=True)}


@dataclass(frozen=True)
class TileSizes:
    """The block tile of C and the depth of a K tile; 1 for each that the lesson lacks."""

    rows: int = 1
    cols: int = 1
    depth: int = 1
