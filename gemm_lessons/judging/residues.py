"""Products by residues: which launch is the first that is wrong, and how.

    A, B --split--> A_residues, B_residues --gemm--> C_residues --join--> C

Each launch is judged by what it made of the buffers that it read, so a later one is never blamed for an earlier one.
The moduli are the largest that have no common factor, from 256 down; the weights of ``join`` follow from them (Chinese
remainder theorem).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import product
from math import gcd, prod

import numpy as np

from gemm_lessons.judging.named_sentence import Facts
from gemm_lessons.judging.wrong_answer import MOSTLY, Array, Wrong

BUFFERS = ("A_residues", "B_residues", "C_residues", "A_scales", "B_scales")
LARGEST = 256  # modulus whose residues fit in a byte
WIDEST = 60  # bits of a whole number, so that sums with a modulus fit in 64
ROUND = 1.5 * 2.0**52  # a double plus this is rounded to a whole number
FEW = 0.05  # share of wrong residues that only the rounding of halves explains
CLOSE = 2.0**-40  # relative error of a value that was computed in doubles
BLURRED = 2.0**-16  # the same, where digits were lost


class ResidueMemory:
    """What the launches left in memory. ``residues`` of A (moduli, M, K), of B (moduli, N, K), of C (moduli, M, N)."""

    def __init__(self, it: Wrong, left: dict[str, Array]) -> None:
        a, b = it.factors
        self.it = it
        self.lines = {"A": a, "B": b.T}  # those that have a scale
        self.scales = {of: left[f"{of}_scales"].reshape(-1) for of in "AB"}
        count = left["A_residues"].shape[0] // len(a)
        self.moduli = largest_moduli(count)
        self.residues = {of: left[f"{of}_residues"].astype(np.int64) for of in "ABC"}
        self.residues = {of: it.reshape(count, -1, it.shape[-1]) for of, it in self.residues.items()}

    @cached_property
    def by(self) -> Array:
        """Return the moduli as an array for residues: (moduli, 1, 1)."""
        return np.array(self.moduli)[:, None, None]

    @property
    def are_powers_of_two(self) -> bool:
        """Tell whether all scales are powers of two, so that the whole numbers follow from them."""
        scales = np.concatenate(list(self.scales.values()))
        return bool((np.isfinite(scales) & (np.frexp(scales)[0] == 0.5)).all())

    @cached_property
    def bits(self) -> dict[str, int]:
        """Return the bits of the largest whole number of A, and of B."""
        found = {}
        for of, lines in self.lines.items():
            most = np.abs(lines).max(1)
            found[of] = int((np.frexp(most)[1] - np.frexp(self.scales[of])[1] + 1)[most > 0].max(initial=0))
        return found

    @cached_property
    def whole(self) -> dict[str, Array]:
        """Return the whole numbers: lines of A and of B divided by their scales, and rounded."""
        return {of: np.rint(lines / self.scales[of][:, None]).astype(np.int64) for of, lines in self.lines.items()}

    @cached_property
    def wrong(self) -> dict[str, Array]:
        """Return, for A and for B, where a residue is not congruent to its whole number."""
        found = {of: (self.residues[of] - whole) % self.by != 0 for of, whole in self.whole.items()}
        return {of: wrong for of, wrong in found.items() if wrong.any()}

    @cached_property
    def products(self) -> Array:
        """Return what gemm should have summed: (moduli, M, N)."""
        each = zip(self.residues["A"], self.residues["B"], strict=True)
        return np.array([_summed(a, b) for a, b in each])

    def are(self, sums: Array, i: int | None = None) -> bool:
        """Tell whether the residues of C are those of these sums, by all moduli or by number ``i``."""
        found = self.residues["C"]
        return bool(((found - sums) % self.by == 0).all() if i is None else ((found[i] - sums) % self.by[i] == 0).all())

    @cached_property
    def weighted(self) -> Array:
        """Return the sums of residues times weights, (M, N), of any size."""
        whole = self.product
        weights = [whole // m * pow(whole // m, -1, m) for m in self.moduli]
        each = zip(self.residues["C"], weights, strict=True)
        return np.asarray(sum(residues.astype(object) * weight for residues, weight in each))

    @property
    def product(self) -> int:
        """Return the product of the moduli."""
        return prod(self.moduli)

    @cached_property
    def times(self) -> Array:
        """Return how often the product fits in the weighted sums, to the nearest."""
        return np.asarray((2 * self.weighted + self.product) // (2 * self.product))

    @cached_property
    def numbers(self) -> Array:
        """Return the whole numbers of C that its residues stand for: (M, N), of any size."""
        return np.asarray(self.weighted - self.times * self.product)

    def scaled(self, numbers: Array, by: Sequence[str] = "AB") -> Array:
        """Return whole numbers times scales."""
        rows, cols = (self.scales[of] if of in by else np.ones_like(self.scales[of]) for of in "AB")
        return np.asarray(numbers.astype(np.float64) * rows[:, None] * cols)

    def is_answer(self, numbers: Array, error: float = CLOSE, by: Sequence[str] = "AB") -> bool:
        """Tell whether C is these whole numbers times scales."""
        other = self.scaled(numbers, by)
        return bool((np.abs(self.it.got - other) <= error * np.abs(other).max() + self.it.problem.tolerance).all())


def _summed(a: Array, b: Array) -> Array:
    """Return sums of products of residues, exact."""
    return np.asarray(a.astype(np.float64) @ b.astype(np.float64).T).astype(np.int64)


def largest_moduli(count: int) -> tuple[int, ...]:
    """Return the largest numbers up to 256 that have no common factor."""
    found: list[int] = []
    for m in range(LARGEST, 1, -1):
        if len(found) < count and all(gcd(m, other) == 1 for other in found):
            found.append(m)
    return tuple(found)


def _left(it: Wrong) -> ResidueMemory | None:
    if not all(name in it.left for name in BUFFERS) or not np.isfinite(it.got).all():
        return None
    found = ResidueMemory(it, {name: it.left[name] for name in BUFFERS})
    return found if found.are_powers_of_two else None


def _stage(
    holds: Callable[[ResidueMemory], bool],
) -> Callable[[Callable[[ResidueMemory], Facts | None]], Callable[[Wrong], Facts | None]]:
    """Return a decorator for searches among answers whose first wrong launch is known."""

    def decorated(way: Callable[[ResidueMemory], Facts | None]) -> Callable[[Wrong], Facts | None]:
        def searched(it: Wrong) -> Facts | None:
            left = it.once(_left)
            return way(left) if left is not None and holds(left) else None

        return searched

    return decorated


def _fits(left: ResidueMemory) -> bool:
    return max(left.bits.values()) <= WIDEST


def _split_errs(left: ResidueMemory) -> bool:
    return _fits(left) and bool(left.wrong)


def _gemm_errs(left: ResidueMemory) -> bool:
    return _fits(left) and not left.wrong and not left.are(left.products)


def _only_join_may_err(left: ResidueMemory) -> bool:
    return _fits(left) and not left.wrong and left.are(left.products)


@_stage(lambda left: True)
def too_many_bits(left: ResidueMemory) -> Facts | None:
    """Find sums that may pass half the product. Facts: ``bits``, ``most`` that fit, ``k``, ``sum`` bits, ``room``."""
    facts = _of_bits(left)
    return facts if 2 * facts["k"] * 4 ** facts["bits"] > left.product else None


def _of_bits(left: ResidueMemory) -> dict[str, int]:
    k, bits = left.it.problem.shape.k, max(left.bits.values())
    log_k, room = (k - 1).bit_length(), left.product.bit_length() - 2
    return {"bits": bits, "most": (room - log_k) // 2, "k": k, "sum": 2 * bits + log_k, "room": room}


@_stage(_split_errs)
def unsigned(left: ResidueMemory) -> Facts | None:
    """Recognise residues from 0 to m - 1 in a signed byte. Fact: ``of``."""
    for of in left.wrong:
        low = left.whole[of] % left.by % 256
        if not (left.residues[of] % 256 == low).all():
            return None
    return {"of": tuple(left.wrong)}


@_stage(_split_errs)
def halves(left: ResidueMemory) -> Facts | None:
    """Recognise a few residues that are just beyond a byte. Facts: ``of``, and an example."""
    for of, wrong in left.wrong.items():
        beyond = (left.residues[of] - np.sign(left.residues[of]) * 256 - left.whole[of])[wrong]
        moduli = np.broadcast_to(left.by, wrong.shape)[wrong]
        if wrong.mean() > FEW or (beyond % moduli != 0).any():
            return None
    return _example(left)


@_stage(_split_errs)
def added(left: ResidueMemory) -> Facts | None:
    """Recognise residues to which the multiple of m was added. Fact: ``of``."""
    for of in left.wrong:
        whole = left.whole[of]
        rest = (whole + (2 * whole + left.by) // (2 * left.by) * left.by).astype(np.float64)
        low = (rest + ROUND).view(np.int64)
        if ((low - left.residues[of]) % 256 == 0).mean() < MOSTLY:
            return None
    return {"of": tuple(left.wrong)}


@_stage(_split_errs)
def nothing_remains(left: ResidueMemory) -> Facts | None:
    """Recognise residues whose multiple of m is the number itself. Fact: ``of``."""
    small = all((np.abs(left.residues[of]) <= 1).mean() >= MOSTLY for of in left.wrong)
    return {"of": tuple(left.wrong)} if small else None


@_stage(_split_errs)
def other_residues(left: ResidueMemory) -> Facts | None:
    """Recognise residues that are wrong in some other way. Facts: ``of``, and an example."""
    return _example(left)


def _example(left: ResidueMemory) -> Facts:
    of, wrong = next(iter(left.wrong.items()))
    i, row, k = (int(at) for at in np.argwhere(wrong)[0])
    m, x = left.moduli[i], int(left.whole[of][row, k])
    right = (x + m // 2) % m - m // 2
    return {"of": tuple(left.wrong), "m": m, "x": x, "right": right, "got": int(left.residues[of][i, row, k])}


@_stage(_gemm_errs)
def low_byte(left: ResidueMemory) -> Facts | None:
    """Recognise the low byte of each sum, which is its residue by 256 only."""
    return {} if (left.residues["C"] == left.products % 256).all() else None


@_stage(_gemm_errs)
def other_rows(left: ResidueMemory) -> Facts | None:
    """Recognise products of residues by another modulus. Facts: the first rows ``a`` and ``b`` of modulus number i."""
    sizes = {
        "0": 0,
        **{f"i * {name}": int(size) for name, size in left.it.problem.shape.names.items() if name in "MNK"},
    }
    for a, b in product(sizes, repeat=2):
        if (a, b) != ("i * M", "i * N") and all(
            left.are(_summed(_from(left, "A", i * sizes[a]), _from(left, "B", i * sizes[b])), i)
            for i in range(1, len(left.moduli))
        ):
            return {"a": a, "b": b}
    return None


def _from(left: ResidueMemory, of: str, start: int) -> Array:
    """Return as many lines of residues from ``start`` on as one modulus has; the TMA reads zeros past the end."""
    _, lines, k = left.residues[of].shape
    found = left.residues[of].reshape(-1, k)[start : start + lines]
    return np.concatenate([found, np.zeros((lines - len(found), k), np.int64)])


@_stage(_gemm_errs)
def other_products(left: ResidueMemory) -> Facts | None:
    """Recognise residues of C that are wrong in some other way. Facts: an example."""
    i, row, col = (int(at) for at in np.argwhere((left.residues["C"] - left.products) % left.by != 0)[0])
    right, got = int(left.products[i, row, col]) % left.moduli[i], int(left.residues["C"][i, row, col])
    return {"i": i, "m": left.moduli[i], "row": row, "col": col, "right": right, "got": got}


@_stage(_only_join_may_err)
def positive(left: ResidueMemory) -> Facts | None:
    """Recognise sums whose multiple of the product was rounded down."""
    return {} if left.is_answer(left.weighted % left.product) else None


@_stage(_only_join_may_err)
def not_subtracted(left: ResidueMemory) -> Facts | None:
    """Recognise the weighted sums as the answer."""
    return {} if left.is_answer(left.weighted) else None


@_stage(_only_join_may_err)
def one_scale(left: ResidueMemory) -> Facts | None:
    """Recognise an answer without one of its scales. Fact: ``missing``."""
    for by in ("A", "B", ""):
        if left.is_answer(left.numbers, by=by):
            return {"missing": tuple(f"{of}_scales" for of in "AB" if of not in by)}
    return None


@_stage(_only_join_may_err)
def few_bits(left: ResidueMemory) -> Facts | None:
    """Recognise consistent launches whose whole numbers are short. Facts: ``bits``, ``most`` that fit."""
    facts = _of_bits(left)
    right = facts["bits"] < facts["most"] and left.is_answer(left.numbers)
    return facts if right else None


@_stage(_only_join_may_err)
def blurred(left: ResidueMemory) -> Facts | None:
    """Recognise digits that were lost where parts were added."""
    return {} if left.is_answer(left.numbers, BLURRED) else None


@_stage(_only_join_may_err)
def other_numbers(left: ResidueMemory) -> Facts | None:
    """Recognise a ``join`` that is wrong in some other way. Facts: an example."""
    if not (wrong := np.argwhere(left.it.wrong)).size or left.is_answer(left.numbers):
        return None
    row, col = (int(at) for at in wrong[0])
    facts = {"row": row, "col": col, "times": int(left.times[row, col])}
    return {**facts, "rest": f"{float(left.numbers[row, col]):.6g}", "c": f"{left.scaled(left.numbers)[row, col]:.6g}"}
