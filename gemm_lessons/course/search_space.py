"""The search space of ``gemm-lessons tune``: values for tile sizes and switches, and conditions between them.

    [tune]                                       # of lesson.toml
    BM = [64, 128]
    WM = [32, 64]
    where = ["BM % WM == 0"]

The kernel's own ``static_assert`` decides; ``where`` only avoids compiling combinations that it would refuse.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from gemm_lessons.engine.arguments import Expression, ExpressionError, Number
from gemm_lessons.engine.records import dataclass

MOST = 20_000  # combinations; a larger space is a mistake, or a search of a week
_COMPARE: Mapping[str, Callable[[Number, Number], bool]] = {
    "==": operator.eq, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """A comparison of two expressions over the sizes. ``relation``: ``==``, ``<=`` or ``>=``."""

    left: Expression
    relation: str
    right: Expression

    @classmethod
    def parse(cls, text: str, names: Sequence[str]) -> Condition:
        """Parse a condition. Raise ``ExpressionError``."""
        parts = re.split(r"(==|<=|>=)", text)
        if len(parts) != 3:
            raise ExpressionError(f'"{text}" is not a comparison; write one ==, <= or >=, like "BM % WM == 0"')
        return cls(Expression.parse(parts[0].strip(), names), parts[1], Expression.parse(parts[2].strip(), names))

    def holds(self, sizes: Mapping[str, Number]) -> bool:
        """Tell whether these sizes meet the condition; NaN never does."""
        return _COMPARE[self.relation](self.left.value(sizes), self.right.value(sizes))


@dataclass(frozen=True)
class SearchSpace:
    """The values of every size, in the order of the file, and the conditions."""

    values: tuple[tuple[str, tuple[int, ...]], ...] = ()
    where: tuple[Condition, ...] = ()

    def with_values(self, values: Mapping[str, Sequence[int]]) -> SearchSpace:
        """Return the space with these values in place of its own, for the sizes that they name."""
        return SearchSpace(tuple({**dict(self.values), **{k: tuple(v) for k, v in values.items()}}.items()), self.where)

    @property
    def combinations(self) -> int:
        """Count the combinations, before conditions are applied."""
        return math.prod(len(values) for _, values in self.values)

    def candidates(self, others: Mapping[str, Number]) -> Iterator[dict[str, int]]:
        """Yield all combinations that meet the conditions, the last size varying fastest; ``others``: fixed sizes."""
        names = [name for name, _ in self.values]
        for chosen in product(*(values for _, values in self.values)):
            sizes = dict(zip(names, chosen, strict=True))
            if all(condition.holds({**others, **sizes}) for condition in self.where):
                yield sizes
