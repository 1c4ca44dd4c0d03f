"""Errors and suspicious behaviour that a device found during a launch."""

from __future__ import annotations

from typing import Any, Literal

from gemm_lessons.engine.records.facts import Actor, Details, Location
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.report.sentences import sentence

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """An error or suspicious behaviour of a kernel, as data; ``message`` is the sentence for the learner.

    ``kind`` is a stable identifier such as ``out_of_bounds``, ``misaligned``, ``race``, ``uninitialised``,
    ``unset`` (a register), ``divergent_barrier``, ``deadlock``, ``timeout``, ``trap``, ``illegal_access``; ``case``
    tells findings of one kind apart (``shared order``, ``never waited``), and the two name the sentence in
    ``report/templates.toml``. ``line`` and ``other_line`` count from 1 in ``file`` (``other_line`` in ``other_file``,
    where that is another one); ``None`` when the compiler left no line. ``place`` is the memory concerned.
    ``actors`` are an example: one thread, or two in the order of their accesses. ``facts`` are the further facts of its
    family of findings. ``also``: the lines of more pairs of accesses that the same barrier would order. ``calls``:
    pairs of a line in a function other than the kernel, and the line that calls this function (``Kernel.called_in``).
    """

    kind: str
    severity: Severity
    case: str = ""
    line: int | None = None
    other_line: int | None = None
    count: int = 1
    file: str = ""
    other_file: str = ""
    place: Location | None = None
    actors: tuple[Actor, ...] = ()
    facts: Details = Details()
    also: tuple[tuple[int | None, int | None], ...] = ()
    calls: tuple[tuple[int, tuple[str, int]], ...] = ()

    @property
    def message(self) -> str:
        """The sentence for the learner."""
        return sentence(self.kind, self.case, self._known())

    @property
    def array(self) -> str:
        """The array concerned; empty if unknown."""
        return self.place.array if self.place else ""

    @property
    def effects(self) -> str:
        """For two unordered accesses: the memory and their effects, such as ``shared store load``."""
        if self.kind not in ("race", "block_order") or self.place is None:
            return ""
        return " ".join((self.place.space, *(actor.effect for actor in self.actors)))

    @property
    def called_in(self) -> tuple[tuple[int, tuple[str, int]], ...]:
        """Return ``calls``, and those of the example's accesses. A hang has none: it names lines of the kernel."""
        if self.kind == "deadlock":
            return ()
        of_actors = ((it.line, it.called) for it in self.actors if it.line and it.called)
        return tuple(dict.fromkeys((*self.calls, *of_actors)))

    def _known(self) -> dict[str, Any]:
        """Return the fields of the templates."""
        first, other = (*self.actors, None, None)[:2]
        known = {**vars(self), **vars(self.facts), "first": first, "other": other, "calls": self.called_in}
        if self.place is not None and first is not None:
            known["across"] = self.place.past + first.width
        return known
