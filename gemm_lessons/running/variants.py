"""The variants of a kernel that a run needs: one for each way that the host launches it.

A graded run compiles them beside its launches, in the order in which these need them. Any that does not compile is the
verdict of the run, as if all had been compiled first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gemm_lessons.course import Lesson
from gemm_lessons.judging import Built, CompileFailed

if TYPE_CHECKING:
    from concurrent.futures import Future

Made = Mapping[Lesson, Built] | CompileFailed


class VariantFailed(Exception):
    """A variant does not compile."""

    def __init__(self, failed: CompileFailed) -> None:
        super().__init__(failed.message)
        self.failed = failed


class Variants:
    """Compiles variants by ``make``, once for each of ``groups``, whose variants have the same code: all of them now,
    or in a thread with ``beside``. Use it as a context manager, which drops compilations that have not begun."""

    def __init__(
        self,
        lessons: Sequence[Lesson],
        groups: Sequence[Sequence[Lesson]],
        make: Callable[[Sequence[Lesson]], Made],
        beside: bool,
    ) -> None:
        self._lessons = lessons
        self._made: dict[Lesson, Built] = {}
        self._coming: dict[Lesson, Future[Made]] = {}
        self._drop: Callable[[], object] = lambda: None
        if beside and len(groups) > 1:
            from concurrent.futures import ThreadPoolExecutor  # slow to import

            pool = ThreadPoolExecutor(1)  # it waits for the compiler's process
            self._coming = {
                lesson: future for group in groups for future in [pool.submit(make, group)] for lesson in group
            }
            self._drop = lambda: pool.shutdown(wait=False, cancel_futures=True)
            return
        for group in groups:
            self._keep(make(group))

    def of(self, lesson: Lesson) -> Built:
        """Return one variant. Raise ``VariantFailed``."""
        if lesson not in self._made:
            self._keep(self._coming[lesson].result())
        return self._made[lesson]

    def whole(self) -> Built:
        """Return the first variant with all others. Raise ``VariantFailed``."""
        first, *others = map(self.of, self._lessons)
        return replace(first, others=tuple(others))

    @property
    def first(self) -> Built:
        """Return the lesson's own variant. Raise ``VariantFailed``."""
        return self.of(self._lessons[0])

    @property
    def are_coming(self) -> bool:
        """Tell whether variants are compiled in a thread."""
        return bool(self._coming)

    def _keep(self, made: Made) -> None:
        if isinstance(made, CompileFailed):
            raise VariantFailed(made)
        self._made |= made

    def __enter__(self) -> Variants:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()
