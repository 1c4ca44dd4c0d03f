"""The problem that a lesson's kernels solve: fresh seeded inputs, NumPy's answer, and the tolerance.

    Problem(data, shape, seed)  --trial()-->  Trial: the device's own copies --launches--> answer, damage

Inputs are a random sign times a uniform number in [0.5, 1) (integers: any but 0) times powers of two: one for each row
of C, one for each column, and one for each k, by which a column of A is multiplied and a row of B divided. So an input
may have many an exponent (in float32 from 2^-13 to 2^12, see ``inputs.py``), and yet all products of one element of C
are equally large, within a factor of 4. A kernel that loses a single product is caught at the very element
where it happens (see ``Problem.tolerance``), and no product is so large that it hides the others. One input of 64 is a
zero, of either sign; only a zero's products may be left out. Of bytes, some rows and columns are of the largest ones.
The seed is fresh for every run and reported, so nothing can be hard-coded and everything can be repeated.

Hidden shapes of graded runs have rarer numbers, too (``inputs.py``): of any exponent, powers of two, bytes that are 0.

A buffer may have a range of its own in lesson.toml: then its numbers are uniform in it. Where a formula has functions,
inputs are not multiplied by powers of two, since exp would overflow.

Inputs are never infinite, NaN or subnormal. Whether subnormal numbers are flushed to 0 depends on a compiler option
(``-ftz``), which no lesson covers.

C starts poisoned: a NaN with a bit pattern that no arithmetic produces, so "never written" and "computed NaN" are told
apart. Where a lesson passes leading dimensions, rows are longer than they need to be and the gap is poisoned as well:
reading it spoils the answer, writing it is found after the launch. Around a buffer the simulator checks every access
exactly; a GPU cannot, so ``Guarded`` lays guard zones around its copy that are compared after the launch.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from gemm_lessons.engine import Buffer, Finding, Scalar, Texture
from gemm_lessons.engine.records import Argument, Details, Element, Location, bits, buffers_of, dataclass
from gemm_lessons.gemm.data import SCALARS, Alike, BufferLayout, DataSpec, Leading
from gemm_lessons.gemm.formula import Formula, Value
from gemm_lessons.gemm.inputs import ExactParts, Inputs
from gemm_lessons.gemm.rounding import Arithmetic, evaluate
from gemm_lessons.gemm.shapes import Shape, astuple

Array = np.ndarray[Any, Any]

GUARD_BYTE = 0xA5
GUARD_BYTES = 4096
DEFAULTS = dict(zip(SCALARS, (1.0, 0.0), strict=True))  # defaults of scalars that the formula does not name
# Values of scalars: far from 0 and 1, so that an omission shows; exact in every type; too many to be guessed.
DRAWS = (-2.0, -1.75, -1.5, -1.25, 1.25, 1.5, 1.75, 2.0)
SMALL = 2.0**-6  # times as large are scalars far below one
TIGHT = 4  # in one of so many hidden problems, lines have no gaps
# Distinguish the seeds of exponents and zeros, of gaps, and of scalars, from the seed of the digits.
WIDE, GAPS, TURNS = 1, 2, 3
FURTHER = 16  # elements: values that the host derives from a leading dimension, such as gcd(4, lda), stay the same
ROOM = 1 << 20  # bytes of a buffer's gaps, at most, where that is more than 3 * FURTHER elements a line
EPILOGUE = 4  # roundings besides those of the sums: second-order terms, scaling, addition


def fresh_seed() -> int:
    """Return an unpredictable seed: 32 bits from the operating system."""
    return secrets.randbits(32)


class Problem:
    """A lesson's data at one shape: ``arrays`` as stored, ``scalars``. Immutable: launches work on a ``Trial``."""

    def __init__(
        self,
        data: DataSpec,
        shape: Shape,
        seed: int,
        *,
        flat: bool = False,
        gaps: bool = False,
        next_scalars: bool = False,
        rare: bool = False,
        sharp: bool = False,
        alike: Alike | None = None,
        turns: Mapping[str, int] | None = None,
        leading: Leading = (),
    ) -> None:
        """``flat``: floats from 0.5 to 1 only, so that each identifies its element. ``gaps``: the gaps between lines
        are drawn, for each buffer separately. ``next_scalars``: scalars computed from M, N and K take their values at
        the next M, N and K, so that M, N and K do not give them away. ``rare``: include the rare inputs of hidden
        shapes (``inputs.py``) and any alpha and beta, including 0 and 1. ``sharp``: include rows and columns whose
        products are known to the last bit where possible, and nothing rare. ``alike``: make all but a few numbers of
        the factors alike. ``turns``: scalar -> in how many hidden shapes of the run before this one it matters; by
        turns it is positive and negative, below and above one, 1, 0 and -1. ``leading``: see ``lay_out``."""
        self.data = data
        self.shape = shape
        self.seed = seed
        self._turns = dict(turns or {})
        self._told = {name: size + int(next_scalars) for name, size in shape.names.items()}
        self.layouts = self.lay_out(data, shape, seed, self._told, gaps=gaps, rare=rare, leading=leading)
        sharp = sharp and self._can_be_sharp()
        rare = rare and not sharp
        random = np.random.default_rng([seed, shape.m, shape.n, shape.k])
        used = set(data.formula.names)
        # Draw the factors first: a seed gives the same inputs as long as a lesson does not change.
        product = data.formula.product
        first = [product.left, product.right] if product else []
        self.arrays: dict[str, Array] = {name: _filled(self.layouts[name], random) for name in first}
        self.scalars = {name: self._scalar(random, name, name in used, rare) for name in SCALARS}
        for name, layout in self.layouts.items():
            if name not in self.arrays:
                self.arrays[name] = _filled(layout, random)
        self.sharp: ExactParts | None = None
        if rare and not product:
            _make_equal([it.matrix(self.arrays[name]) for name, it in self.layouts.items() if it.role == "in"], random)
        if not product or product.left == product.right or flat or data.formula.has_functions:
            return
        draw = np.random.default_rng([seed, *astuple(shape), WIDE])
        inputs = Inputs(self.arrays, self.layouts, product, draw)
        if alike:
            inputs.make_alike(alike)
        elif sharp:
            self.sharp = inputs.make_exact(data.accumulate.precision, not data.formula.is_product)
        else:
            inputs.spread_exponents(rare)

    @staticmethod
    def lay_out(
        data: DataSpec,
        shape: Shape,
        seed: int,
        told: Mapping[str, float] | None = None,
        *,
        gaps: bool = False,
        rare: bool = False,
        leading: Leading = (),
    ) -> dict[str, BufferLayout]:
        """Return the layout of every buffer; ``leading``: buffers and their leading dimensions, where not drawn."""
        layouts = data.lay_out(shape.names, told=told)
        wider = dict(leading)
        if gaps and not wider:
            draw = np.random.default_rng([seed, *astuple(shape), GAPS])
            if rare and not draw.integers(TIGHT):
                return data.lay_out(shape.names, gap=0, told=told)
            drawn = ((name, layouts[name]) for name in sorted(data.padded))
            wider = {name: it.leading + FURTHER * _steps(draw, it, rare) for name, it in drawn}
        return layouts | {name: replace(layouts[name], leading=it) for name, it in wider.items()}

    def _can_be_sharp(self) -> bool:
        """Tell whether sums are floats that are stored unchanged, of matrices without a batch."""
        data, answer = self.data, self.answer
        exact = answer.element.is_float and answer.element.roundoff <= data.accumulate.roundoff
        exact = exact and not data.formula.has_functions
        return exact and all(it.element.is_float and it.dimensions <= 2 for it in self.layouts.values())

    def _scalar(self, random: np.random.Generator, name: str, used: bool, rare: bool) -> np.generic:
        kind = self.data.accumulate
        draws: Sequence[float] = DRAWS if kind.is_float else (-3, -2, 2, 3)
        if rare and name in self._turns:
            draws = (self._by_turns(name, self._turns[name]),)
        elif rare and used:
            draws = (0.0, 1.0, *(kind.decode(kind.draw(random, (3,))) * random.choice([0.25, 2.0, 8.0], 3)))
        value = DEFAULTS[name]
        if used:
            value = self.data.scalar(name, self._told, lambda: float(random.choice(draws)))
        scalar = kind.encode(np.array([value]))[0]
        assert isinstance(scalar, np.generic)
        return scalar

    def _by_turns(self, name: str, turn: int) -> float:
        """Return a scalar's value in its ``turn`` among the hidden shapes of a run: four turns have either sign, each
        below and above one in magnitude, one of them far below; the next three have 1, 0 and -1. The seed decides where
        this begins."""
        kind, place = self.data.accumulate, SCALARS.index(name)
        of_run = np.random.default_rng([self.seed, place, TURNS])
        sign, large = (int(it) for it in of_run.integers(0, 2, 2))
        special = of_run.permutation([1.0, 0.0, -1.0]).tolist()
        lap, step = divmod(turn, len(special) + 4)
        if step >= 4:
            return float(special[step - 4])
        drawn = np.random.default_rng([self.seed, *astuple(self.shape), place, TURNS])
        magnitude = abs(float(kind.decode(kind.draw(drawn, (1,)))[0]))
        above = (step + 1) // 2 % 2 == large  # the signs change from turn to turn, these every second time
        if not kind.is_float:
            magnitude = magnitude + 1 if above else 1.0
        elif above:
            magnitude *= float(drawn.choice([2.0, 8.0]))
        elif (step // 2 + lap) % 2:
            magnitude *= SMALL
        return magnitude * (-1.0) ** (step + sign + lap * place)

    @cached_property
    def values(self) -> dict[str, Value]:
        """Return every buffer and scalar in float64, as kernels read them, rows by columns. Unreadable ones are 0."""
        found = {name: self._value(layout, layout.matrix(self.arrays[name])) for name, layout in self.layouts.items()}
        kind = self.data.accumulate
        return found | {name: Value.exact(kind.decode(np.array([it]))[0]) for name, it in self.scalars.items()}

    def _value(self, layout: BufferLayout, stored: Array) -> Value:
        if layout.fill != "poison":
            return Value.exact(layout.element.decode(stored))
        one = np.zeros(()) if layout.role == "inout" else layout.element.decode(layout.element.poisoned(()))
        return Value(np.broadcast_to(one, stored.shape), np.broadcast_to(abs(one), stored.shape))

    @property
    def answer(self) -> BufferLayout:
        """Return the layout of the answer."""
        return self.layouts[self.data.formula.target]

    @cached_property
    def _right(self) -> Value:
        return self.evaluated(self.values)

    @cached_property
    def reference(self) -> Array:
        """Return the right answer, (M, N), in float64 by NumPy from the inputs as stored; a batch is stacked, (batch M,
        N).

        An integer answer is exact: a value that does not fit its type is stored modulo 2 ** bits, as C converts it.
        """
        return self._right.value

    def finished(self, product: Value) -> Value:
        """Return the answer if the formula's product were ``product``, (M, N)."""
        return self.evaluated(self.values, product)

    def evaluated(self, values: Mapping[str, Value], product: Value | None = None) -> Value:
        """Return the answer for other values of buffers and scalars, (M, N)."""
        return self._answer(evaluate(self.data.formula, values, product, self._arithmetic))

    def answer_of(self, formula: Formula) -> Value:
        """Return the answer to another ``formula``, (M, N)."""
        return self._answer(evaluate(formula, self.values, None, self._arithmetic))

    @property
    def _arithmetic(self) -> Arithmetic:
        return Arithmetic(unit(self.data), self.data.accumulate.least_normal)

    def _answer(self, right: Value) -> Value:
        terms = terms_of(self.data, self.shape, right)
        error = None if right.error is None else _stacked(np.broadcast_to(right.error, right.value.shape))
        kind, values = self.answer.element, _stacked(right.value)
        stored = values if kind.is_float else kind.decode(kind.encode(values))
        return Value(np.asarray(stored), _stacked(right.magnitude), terms, error)

    @cached_property
    def tolerance(self) -> Array:
        """Return the largest error of a right kernel, element by element: (M, N) in float64.

        ``u * (roundings of the sums + 4) * magnitude + rounding to the answer's type``, with u half the distance from 1
        to the next number of the accumulator, ``formula.roundings`` for each sum, and the formula over magnitudes, such
        as ``|alpha| |A||B| + |beta C| + |bias|``. The 4 covers second-order terms and the epilogue.

        Every product of an element of C is between 1/4 of that element's power of two and the power itself. With
        A = D A' E and B = 1/E B' F, A' and B' from 0.5 to 1, |A||B| is D |A'||B'| F: what holds for exponents that are
        all alike holds for these. So the tolerance stays below one product (a kernel that skips one which is not 0 is
        caught at that element) up to K = 6000 in fp32; summing in fp16 or multiplying in TF32 exceeds it by an order of
        magnitude. An extra product is found unless its factors come from rows, columns or k with much smaller numbers.
        Zeros make |A||B| smaller.

        For a formula with functions, ``rounding.py`` bounds the error of each operation in turn, instead.

        - float64: NumPy's sum has the same error as the kernel's, so the tolerance is doubled.
        - narrower factors into float32: u is doubled, because tensor cores truncate instead of rounding to nearest. Of
          16 products and the sum so far, each loses less than 2^-25 of the largest, and the result less than 2^-23 of
          it: 10.5 u for 16 products, where roundings may be 16 u. Truncations do not cancel each other, so the square
          root needs another reason: each is a fraction of the sum so far, which for random signs stays below
          8 * 0.58 sqrt(k). In the worst case they add up to 3.1 u k sqrt(k), and 9 u k sqrt(k) are allowed. Older GPUs
          truncate more at each step.
        - 8-bit floats by wgmma: ``promotion.lost`` bounds what its sums lose until they are promoted.
        - rounding to the answer's type adds half a unit in its last place, and half its smallest number.
        - integers are exact: 0. So is a ``sharp`` problem where whole numbers meet (``inputs.py``).
        """
        sharp = self.sharp
        if sharp is None:
            return self.rounding
        found = self.rounding.copy()
        found[:, sharp.cols] = 0.0
        found[sharp.alone] = self.data.accumulate.roundoff * self._right.magnitude[sharp.alone]
        return found

    @cached_property
    def rounding(self) -> Array:
        """Return the tolerance if no sum were known to the last bit."""
        return self.tolerance_of(self._right)

    def tolerance_of(self, right: Value) -> Array:
        """Return the tolerance for an answer that a mistake would produce, which has its own magnitudes."""
        return tolerance_of(self.data, self.answer.element, right)

    def trial(self) -> Trial:
        """Copy the arrays for one run of all launches."""
        return Trial(self)


def tolerance_of(data: DataSpec, answer: Element, right: Value) -> Array:
    """Return the tolerance of ``Problem.tolerance`` for a right answer that is stored as ``answer``."""
    if not answer.is_float:
        return np.zeros_like(right.value)
    bound = right.error
    if bound is None:
        bound = unit(data) * (right.terms + EPILOGUE) * right.magnitude
    if answer.roundoff > data.accumulate.roundoff:
        bound = bound + answer.roundoff * (np.abs(right.value) + bound) + answer.smallest / 2
    return np.asarray(np.broadcast_to(bound, right.value.shape))


def terms_of(data: DataSpec, shape: Shape, right: Value) -> float:
    """Return the roundings of the sums of a right answer, plus the error before promotion, in units of one rounding."""
    lost = data.lost_by_promotion(shape.names)
    return right.terms + lost / unit(data) if lost else right.terms  # whole numbers have no unit


def unit(data: DataSpec) -> float:
    """Return the largest relative error of an operation: the accumulator's unit roundoff; twice that where tensor cores
    truncate, and in float64, where NumPy's sum has the same error as the kernel's."""
    u = data.accumulate.roundoff
    narrow = any(factor.element.roundoff > u for factor in data.factors)
    return 2 * u if narrow or data.accumulate.name == "float64" else u


def _stacked(values: Array) -> Array:
    """Reshape (batch, rows, columns) to (batch rows, columns)."""
    return values.reshape(-1, values.shape[-1])


def _steps(draw: np.random.Generator, layout: BufferLayout, rare: bool) -> int:
    """Return by how many multiples of ``FURTHER`` a gap is wider than it needs to be: few, so that a read past a line
    soon leaves the buffer; or, if it may be ``rare``, up to thousands of elements, evenly over orders of magnitude,
    because a matrix may be part of one of any size."""
    if not rare:
        return int(draw.integers(4))
    most = ROOM // (FURTHER * layout.element.size * layout.batch * layout.lines)
    return int(max(4, most) ** draw.random()) - 1


def _make_equal(inputs: Sequence[Array], random: np.random.Generator) -> None:
    """Give some elements of the inputs those of the first one, and others their opposites."""
    first, *others = inputs
    for other in others:
        if other.shape == first.shape and np.issubdtype(other.dtype, np.floating):
            place = random.random(other.shape)
            np.copyto(other, first, where=place < 1 / 16)
            np.copyto(other, -first, where=place > 15 / 16)


def _filled(layout: BufferLayout, random: np.random.Generator) -> Array:
    """Return a fresh array as stored, with poisoned gaps between lines."""
    element, inner = layout.element, (*layout.shape[:-1], layout.length)
    stored = element.poisoned(layout.shape)
    if layout.fill == "random" and layout.range is not None:
        layout.inside(stored)[...] = element.encode(random.uniform(*layout.range, inner))
    elif layout.fill == "random":
        layout.inside(stored)[...] = element.draw(random, inner)
    elif layout.fill != "poison":
        layout.inside(stored)[...] = element.encode(np.full(inner, float(layout.fill == "ones")))
    return stored


class Trial:
    """Copies of a problem's arrays, which the launches change one after the other."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.arrays = {name: array.copy() for name, array in problem.arrays.items()}
        self._written: set[str] = set()

    def arguments(self, parameters: Sequence[str]) -> tuple[Argument, ...]:
        """Return the arguments of the next launch, for ``Device.launch``.

        The device hands back every buffer, including the inputs: ``damage`` compares them. A buffer that no earlier
        launch received and the host did not fill counts as uninitialised.
        """
        arguments = tuple(self._argument(name) for name in parameters)
        self._written |= {it.name for it in buffers_of(arguments) if it.output}
        return arguments

    def _argument(self, name: str) -> Argument:
        problem = self.problem
        parameter = problem.data.parameter(name)
        assert parameter is not None, f"lesson.toml was read, so {name} is known"
        if parameter.kind == "pointer":
            layout = problem.layouts[name]
            known = layout.fill != "poison" or name in self._written
            return Buffer(name, self.arrays[name], layout.role != "in", known)
        if parameter.kind == "texture":
            channels = parameter.channels
            shape = (-1,) if channels == 1 else (-1, channels)
            return Texture(self.arrays[parameter.source].reshape(shape), channels, name=name)
        if parameter.kind == "tensor_map":
            layout, array = problem.layouts[parameter.source], self.arrays[parameter.source]
            known = layout.fill != "poison" or layout.name in self._written
            buffer = Buffer(layout.name, array, layout.role != "in", known)
            found = problem.data.tensor_map(name, array, layout, problem.shape.names)
            return replace(found, pointer=buffer)
        if parameter.kind == "scalar":
            return Scalar(name, problem.scalars[name])
        return Scalar(name, np.int32(problem.data.number(parameter, problem.shape.names, problem.layouts)))

    @property
    def answer(self) -> Array:
        """Return the answer as the kernels left it, (M, N), as stored; a batch is stacked."""
        layout = self.problem.answer
        return _stacked(layout.matrix(self.arrays[layout.name]))

    def damage(self, stored: Collection[str] = ()) -> tuple[Finding, ...]:
        """Report writes that are not allowed: to the inputs, and to the gaps between the lines of outputs. ``stored``:
        buffers that stores reached; in an input, they may have left each number as it was."""
        findings: list[Finding] = []
        for layout in self.problem.layouts.values():
            before, after = self.problem.arrays[layout.name], self.arrays[layout.name]
            if layout.role == "in":
                findings += self._overwritten(layout, np.argwhere(bits(before) != bits(after)), layout.name in stored)
            else:
                length = layout.length
                gap = np.argwhere(bits(before[..., length:]) != bits(after[..., length:]))
                findings += self._overrun(layout, gap)
        return tuple(findings)

    def _overwritten(self, layout: BufferLayout, changed: Array, stored: bool) -> list[Finding]:
        writable = self.problem.data.answer.name
        if not len(changed):
            facts = Overwritten(layout.name, 0, (), writable)
            return [Finding("input_overwritten", "error", "restored", facts=facts)] if stored else []
        at = tuple(changed[0].tolist())
        facts = Overwritten(layout.name, len(changed), at, writable)
        return [Finding("input_overwritten", "error", count=len(changed), facts=facts)]

    def _overrun(self, layout: BufferLayout, gap: Array) -> list[Finding]:
        if not len(gap):
            return []
        line, place = gap[0][-2:].tolist()
        size = "N" if (layout.order, layout.name) == ("row", "C") else str(layout.length)
        along = layout.length + place
        facts = RowOverrun(layout.name, len(gap), line, along, layout.length, layout.leading, size)
        return [Finding("row_overrun", "error", layout.order, count=len(gap), facts=facts)]


@dataclass(frozen=True)
class Overwritten(Details):
    """An input that kernels changed: how many elements, the first one, and what kernels may write."""

    name: str
    elements: int
    at: tuple[int, ...]
    writable: str


@dataclass(frozen=True)
class RowOverrun(Details):
    """A write between the rows (or columns) of a buffer: the first such place, ``across`` the lines and ``along`` one
    of them. Lines are ``length`` long and ``leading`` apart."""

    name: str
    elements: int
    across: int
    along: int
    length: int
    leading: int
    first_of: str


class Guarded:
    """A copy of an array between two guard zones, for devices that do not check bounds themselves (a GPU).

    ``padded`` is bytes: ``GUARD_BYTES`` of ``GUARD_BYTE``, the array, and as many again; the array starts at byte
    ``GUARD_BYTES``, a multiple of 256 as from the CUDA allocators. Upload it whole, launch, download it into
    ``padded``, then ask for ``damage``.
    """

    def __init__(self, name: str, array: Array) -> None:
        self.name = name
        self.padded = np.full(2 * GUARD_BYTES + array.nbytes, GUARD_BYTE, np.uint8)
        self.inner = self.padded[GUARD_BYTES : GUARD_BYTES + array.nbytes].view(array.dtype).reshape(array.shape)
        self.inner[...] = array

    def damage(self) -> Finding | None:
        """Return the overwritten guard byte nearest to the array, as an access out of bounds; None if all intact."""
        size = self.inner.nbytes
        before = np.flatnonzero(self.padded[:GUARD_BYTES] != GUARD_BYTE)
        after = np.flatnonzero(self.padded[GUARD_BYTES + size :] != GUARD_BYTE)
        if not len(before) and not len(after):
            return None
        byte = size + int(after[0]) if len(after) else int(before[-1]) - GUARD_BYTES
        case = "guard after" if len(after) else "guard before"
        place = Location("global", self.name, byte, size)
        return Finding("out_of_bounds", "error", case, count=len(before) + len(after), place=place)
