"""Products of numbers in two parts, a big one and a small one: which launch is the first that is wrong, and how.

    A, B --split--> A_parts, B_parts --gemm--> C

The parts are numbers of a narrower type, and together are SCALE times the number. C is the sum of three of their four
products, divided by SCALE twice.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.gemm import Value, roundings
from gemm_lessons.judging.named_sentence import Facts
from gemm_lessons.judging.wrong_answer import Wrong

PARTS = ("big", "small")
PRODUCTS = (("big", "big"), ("big", "small"), ("small", "big"))  # small times small is less than an error of rounding
NEAR = 0.1  # of how often a product was counted
MOST = 3  # times that a product is counted


class PartsMemory:
    """What ``split`` left in memory. ``numbers`` of A and B, times SCALE; their ``parts``, (2, rows, cols)."""

    def __init__(self, it: Wrong) -> None:
        self.it = it
        self.scale = float(dict(it.problem.data.sizes).get("SCALE", 1))
        self.numbers, self.parts, self.wrong = {}, {}, {}
        for of in "AB":
            layout = it.problem.layouts[f"{of}_parts"]
            numbers = it.problem.values[of].value * self.scale
            parts = layout.element.decode(layout.matrix(it.left[layout.name]).reshape(2, *numbers.shape))
            allowed = 4 * layout.element.roundoff**2 * np.abs(numbers) + layout.element.smallest
            self.numbers[of], self.parts[of] = numbers, parts
            self.wrong[of] = ~(np.abs(numbers - parts.sum(0)) <= allowed)

    @property
    def are_wrong(self) -> tuple[str, ...]:
        """Return the names of the matrices whose parts are wrong."""
        return tuple(of for of in "AB" if self.wrong[of].any())


def _left(it: Wrong) -> PartsMemory | None:
    names = [f"{of}_parts" for of in "AB"]
    if not it.may_be_fitted or not all(name in it.left for name in names):
        return None
    return PartsMemory(it) if all(it.problem.layouts[name].dimensions == 3 for name in names) else None


def not_scaled(it: Wrong) -> Facts | None:
    """Recognise parts of the numbers, not of SCALE times the numbers. Facts: ``of``, ``scale``."""
    left = it.once(_left)
    if left is None or left.scale == 1 or not (found := left.are_wrong):
        return None
    for of in found:
        numbers, unit = left.numbers[of] / left.scale, it.problem.layouts[f"{of}_parts"].element.roundoff
        if not (np.abs(numbers - left.parts[of][0]) <= 2 * unit * np.abs(numbers)).all():
            return None
    return {"of": found, "scale": int(left.scale)}


def wrong_parts(it: Wrong) -> Facts | None:
    """Recognise parts that are not the number. Facts: ``of``, and an example: ``x``, both parts, and the ``rest``."""
    left = it.once(_left)
    if left is None or not (found := left.are_wrong):
        return None
    of = found[0]
    errors = np.abs(left.numbers[of] - left.parts[of].sum(0))
    worst = np.where(left.wrong[of], np.nan_to_num(errors, nan=np.inf), -1).argmax()
    row, col = np.unravel_index(worst, errors.shape)
    x, (big, small) = left.numbers[of][row, col], left.parts[of][:, row, col]
    return {"of": found, "x": float(x), "big": float(big), "small": float(small), "rest": float(x - big)}


def other_products(it: Wrong) -> Facts | None:
    """Recognise other products of right parts, or another multiple of the right C. Facts: ``found``, or ``times``."""
    left = it.once(_left)
    if left is None or left.are_wrong:
        return None
    of_a, of_b = (dict(zip(PARTS, left.parts[of], strict=True)) for of in "AB")
    sums = [of_a[a] @ of_b[b] / left.scale**2 for a, b in PRODUCTS]
    level = 1 / np.maximum(np.abs(sums[0]), np.finfo(float).tiny)
    scaled = np.stack([(each * level).ravel() for each in sums], axis=1)
    norms = np.linalg.norm(scaled, axis=0)
    fitted = np.linalg.lstsq(scaled / norms, (it.got * level).ravel(), rcond=None)[0] / norms
    for times in sorted({left.scale**power for power in (0, 1, 2, -1, -2)}):
        counts = np.rint(fitted / times)
        if (np.abs(fitted / times - counts) > NEAR).any() or not (counts >= 0).all() or counts.max() > MOST:
            continue
        value = sum(count * times * each for count, each in zip(counts, sums, strict=True))
        magnitude = np.abs(left.numbers["A"]) @ np.abs(left.numbers["B"]) / left.scale**2 * times * max(1, counts.max())
        if it.agrees(it.problem.finished(Value(np.asarray(value), magnitude, roundings(it.problem.shape.k)))):
            found = tuple(
                f"{a} times {b} {'is missing' if not count else f'was added {int(count)} times'}"
                for (a, b), count in zip(PRODUCTS, counts, strict=True)
                if count != 1
            )
            return {"found": found, "times": times, "scale": int(left.scale)}
    return None


def products(it: Wrong) -> Facts | None:
    """Recognise products of parts that are missing or were added again."""
    facts = it.once(other_products)
    return facts if facts is not None and facts["found"] else None


def scale_remains(it: Wrong) -> Facts | None:
    """Recognise a C that is divided by SCALE too seldom or too often."""
    facts = it.once(other_products)
    return facts if facts is not None and not facts["found"] else None
