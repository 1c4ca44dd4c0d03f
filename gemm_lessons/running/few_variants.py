"""Of the shapes that may be checked, those that need the fewest variants of a kernel.

Each variant of a kernel whose tile the host chooses takes a second to compile, to disassemble and to decode. So those
shapes are taken for which a variant fits that others need, too. Shapes share a variant if they differ only in choices
that the reference does not name (``variant_of``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from gemm_lessons.course import Lesson
from gemm_lessons.gemm import Shape
from gemm_lessons.running.drawing import variant_of


def of_few_variants(
    lesson: Lesson, made: frozenset[Hashable], draws: Iterable[Sequence[Sequence[Shape]]]
) -> tuple[Shape, ...]:
    """Return the shapes of the first draw that needs the fewest variants of the kernel beside those that are ``made``.
    For each of its shapes, a draw has candidates, and each of these is taken in any layout."""
    fewest: tuple[Shape, ...] = ()
    least = None
    for draw in list(draws):  # all are drawn: what is drawn after them may not depend on the variants
        shapes = _covered(lesson, made, draw)
        number = len({variant_of(lesson, it) for it in shapes} - made)
        if least is None or number < least:
            fewest, least = shapes, number
        if least == 0:
            break
    return fewest


def _covered(lesson: Lesson, made: frozenset[Hashable], places: Sequence[Sequence[Shape]]) -> tuple[Shape, ...]:
    """Return one candidate for each place: of those for which a variant that is ``made`` fits, the first; then of those
    for which one more variant fits, that which fits at the most places; and so on."""
    fitting = [_by_variant(lesson, candidates) for candidates in places]
    found: dict[int, Shape] = {}
    known = list(made)
    while True:
        for variant in known:
            for place, shapes in enumerate(fitting):
                if place not in found and variant in shapes:
                    found[place] = min((shapes[it] for it in known if it in shapes), key=lambda it: it[0])[1]
        rest = [shapes for place, shapes in enumerate(fitting) if place not in found]
        if not rest:
            return tuple(found[place] for place in range(len(places)))
        number = Counter(variant for shapes in rest for variant in shapes)
        known = [max(number, key=lambda variant: number[variant])]


def _by_variant(lesson: Lesson, candidates: Iterable[Shape]) -> dict[Hashable, tuple[int, Shape]]:
    """Return the first of the candidates for each variant of the kernel, and its number: first all in the layouts that
    they have, then in the others."""
    given = list(candidates)
    others = (Shape(it.m, it.n, it.k, layout=layout) for layout in lesson.shapes.layouts for it in given)
    found: dict[Hashable, tuple[int, Shape]] = {}
    for number, shape in enumerate((*given, *others)):
        found.setdefault(variant_of(lesson, shape), (number, shape))
    return found
