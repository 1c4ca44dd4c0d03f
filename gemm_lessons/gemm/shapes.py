"""Sizes of a product, the tile that a block computes, and which shapes a kernel accepts."""

from __future__ import annotations

from dataclasses import field, replace

from gemm_lessons.engine.arguments.expression import Number
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.gemm.data import LAYOUTS, SIZES


class ShapeError(ValueError):
    """A shape that the lesson's contract does not allow; the message says which shapes are."""


@dataclass(frozen=True, order=True)
class Shape:
    """The sizes of one product: A is m x k, B is k x n, C is m x n. ``layout``: one of ``data.LAYOUTS``."""

    m: int
    n: int
    k: int
    layout: str = field(default=LAYOUTS[0], kw_only=True)  # of A and B in memory, where a lesson takes several

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}" + f" {self.layout}" * (self.layout != LAYOUTS[0])

    @property
    def names(self) -> dict[str, Number]:
        """``{"M": m, "N": n, "K": k}``, as the expressions of lesson.toml call them."""
        return {"M": self.m, "N": self.n, "K": self.k}


@dataclass(frozen=True)
class Tile:
    """Tile sizes by name (``BM``, ``BN``, ...): the single source, handed to the kernel as ``-DBM=...``."""

    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def defines(self) -> dict[str, int]:
        """The sizes as ``{"BM": 32, ...}``."""
        return dict(self.sizes)


@dataclass(frozen=True)
class Shapes:
    """The shape contract: what M, N and K must be multiples of, the shapes to check, the one to count on, the layouts
    of A and B that may be, the largest M, N and K, by name, where there is one, and the shape that times in the table
    are for, where the lesson is about small or narrow ones."""

    multiple_of: Shape
    check: tuple[Shape, ...]
    count: Shape
    layouts: tuple[str, ...] = LAYOUTS[:1]
    at_most: tuple[tuple[str, int], ...] = ()
    timed: Shape | None = None

    def laid(self, layout: str) -> Shapes:
        """The same shapes, all in this layout."""
        check = tuple(dict.fromkeys(replace(shape, layout=layout) for shape in self.check))
        return replace(self, check=check, count=replace(self.count, layout=layout))

    def refusal(self, shape: Shape) -> str | None:
        """Why this shape is not allowed, or ``None`` when it is."""
        wrong = []
        if shape.layout not in self.layouts:
            wrong.append(f"A and B lie as {shape.layout}, and it takes {', '.join(self.layouts)}")
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
    """``(m, n, k)`` of a shape."""
    return shape.m, shape.n, shape.k


def transposed(layout: str) -> dict[str, int]:
    """``trans_a`` and ``trans_b``: 1 for a factor that lies as its transpose."""
    return {f"trans_{name.lower()}": int(letter == "T") for name, letter in zip("AB", layout, strict=True)}


@dataclass(frozen=True)
class TileSizes:
    """The block tile of C and the depth of a K tile, as far as the lesson has them (else 1)."""

    rows: int = 1
    cols: int = 1
    depth: int = 1
