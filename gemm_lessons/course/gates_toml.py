"""Read gates: ``[[gates]]`` of lesson.toml and the ``[[integrity]]`` gates of course.toml.

    [[integrity]]                  # of course.toml: a gate for many lessons, shown only when missed
    id = "local_memory"
    name = "bytes in local memory"
    value = "spill_bytes + stack_bytes"
    at_most = 0
    where = "BK >= 1"              # lessons whose tile says so, or shapes: "min(M, N, K) <= 1023"
    default = true                 # false: only lessons that ask for it
    why = "..."

    [integrity]                    # of lesson.toml, by id
    local_memory = false           # not in this lesson
    busiest_thread = { at_most = 1.6 }

A course without ``[[integrity]]`` has no such gates, whatever its lessons say about them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gemm_lessons.course.lesson import RESOURCES, Gate
from gemm_lessons.course.search_space import Condition
from gemm_lessons.course.toml import TomlReader, read_course
from gemm_lessons.engine.records import Where
from gemm_lessons.gemm import Tile

KEYS = ("id", "name", "value", "at_most", "at_least", "why", "where")
CHANGES = ("value", "at_most", "at_least", "why")  # what a lesson may change of an integrity gate
SIZES = frozenset("MNK")
ID = re.compile(r"[a-z][a-z0-9_]*")


class GateReader(TomlReader):
    """Turns tables of gates into records."""

    def gates(self, raw: dict[str, Any], names: Sequence[str], tile: Tile) -> tuple[Gate, ...]:
        """Return the lesson's own gates, then the course's. A gate of the lesson replaces one of the course with the
        same id, or with a limit on the same side of the same value. ``names``: the sizes that expressions may use."""
        from gemm_lessons.engine.records import COUNTED

        allowed = (*names, *COUNTED, *RESOURCES)
        own = [
            self.gate(("gates", i), table, id_, allowed)
            for i, (table, id_) in enumerate(self.with_ids(raw, "gates"))
            if self.applies(("gates", i), table, tile)
        ]
        replaced = {gate.id for gate in own} | {_limited(gate) for gate in own}
        changes = self.table((), raw, "integrity", required=False)
        added = self.integrity(self.path.parents[1], changes, allowed, tile)
        return (*own, *(gate for gate in added if not {gate.id, _limited(gate)} & replaced))

    def integrity(self, lessons: Path, changes: dict[str, Any], names: Sequence[str], tile: Tile) -> Iterator[Gate]:
        """Yield the course's integrity gates that apply to this lesson, as ``changes`` alters them."""
        of_course = read_course(lessons)
        if of_course is None:
            return
        path, text, raw = of_course
        course = GateReader(path, text)
        found = course.with_ids(raw, "integrity")
        if found:
            self.known(("integrity",), changes, [id_ for _, id_ in found])
        for i, (table, id_) in enumerate(found):
            where: Where = ("integrity", i)
            course.known(where, table, (*KEYS, "default"))
            gate = course.gate(where, {key: table[key] for key in table if key != "default"}, id_, names)
            match changes.get(id_, table.get("default", True)):
                case True:
                    if id_ in changes or course.reaches(where, table, tile):
                        yield replace(gate, integrity=True)
                case False:
                    pass
                case dict() as change if id_ in changes:
                    yield self.changed(gate, change, names)
                case _ if id_ in changes:
                    raise self.wrong(("integrity", id_), "must be true, false or a table, like { at_most = 1.5 }")
                case _:
                    raise course.wrong((*where, "default"), "must be true or false")

    def changed(self, gate: Gate, change: dict[str, Any], names: Sequence[str]) -> Gate:
        """Return an integrity gate with a lesson's own value, limit or reason."""
        where: Where = ("integrity", gate.id)
        self.known(where, change, CHANGES)
        kept: dict[str, Any] = {"name": gate.name, "value": gate.value.text, "why": gate.why}
        if not {"at_most", "at_least"} & change.keys():
            kept |= {"at_least": gate.at_least} if gate.at_most is None else {"at_most": gate.at_most}
        return replace(self.gate(where, {**kept, **change}, gate.id, names), integrity=True)

    def gate(self, where: Where, raw: dict[str, Any], id_: str, names: Sequence[str]) -> Gate:
        """Return one gate. Raise ``LessonError``."""
        self.known(where, raw, KEYS)
        if ("at_most" in raw) == ("at_least" in raw):
            raise self.wrong(where, "needs exactly one of at_most and at_least")
        bound = "at_most" if "at_most" in raw else "at_least"
        if type(raw[bound]) not in (int, float) or not math.isfinite(raw[bound]):
            raise self.wrong((*where, bound), f"must be a number, not {raw[bound]!r}")
        limit = float(raw[bound])
        at_most, at_least = (limit, None) if bound == "at_most" else (None, limit)
        value = self.expression((*where, "value"), self.present(where, raw, "value"), names)
        name, why = self.string(where, raw, "name"), self.string(where, raw, "why")
        return Gate(id_, name, value, why, at_most, at_least, where=self.judged_shapes(where, raw, names))

    def judged_shapes(self, where: Where, raw: dict[str, Any], names: Sequence[str]) -> Condition | None:
        """Return the condition on a gate's shapes: ``where = "min(M, N, K) <= 1023"``; None: all shapes."""
        if "where" not in raw or not _names_sizes(text := self.string(where, raw, "where")):
            return None
        with self.naming((*where, "where")):
            return Condition.parse(text, names)

    def with_ids(self, raw: dict[str, Any], key: str) -> list[tuple[dict[str, Any], str]]:
        """Return the tables with their ids. A gate of an older course has none: its id is made of its name."""
        tables = self.tables(raw, key)
        found: list[tuple[dict[str, Any], str]] = []
        given = [self.id((key, i), table) if "id" in table else "" for i, table in enumerate(tables)]
        for i, (table, id_) in enumerate(zip(tables, given, strict=True)):
            if id_ and id_ in given[:i]:
                raise self.wrong((key, i, "id"), f"{id_!r} is the id of another gate; each needs its own")
            if not id_:
                made = id_of(self.string((key, i), table, "name"))
                taken = {*given, *(other for _, other in found)}
                numbered = (f"{made}_{number}" for number in range(2, len(tables) + 2))
                id_ = next(it for it in (made, *numbered) if it not in taken)
            found.append((table, id_))
        return found

    def id(self, where: Where, raw: dict[str, Any]) -> str:
        """Return a gate's id."""
        id_ = self.string(where, raw, "id")
        if not ID.fullmatch(id_):
            raise self.wrong((*where, "id"), f"{id_!r} must be in lower case, like {id_of(id_)}")
        return id_

    def applies(self, where: Where, raw: dict[str, Any], tile: Tile) -> bool:
        """Tell whether a gate applies to this tile, and so to this type: ``where = "COPY == 1"``. True for a condition
        on M, N and K, which is decided launch by launch."""
        if "where" not in raw or _names_sizes(self.string(where, raw, "where")):
            return True
        with self.naming((*where, "where")):
            return Condition.parse(self.string(where, raw, "where"), tuple(tile.defines)).holds(tile.defines)

    def reaches(self, where: Where, raw: dict[str, Any], tile: Tile) -> bool:
        """Tell whether an integrity gate applies to this tile; not where ``where`` names a size that is not there."""
        sizes = re.findall(r"\b[A-Z][A-Z0-9_]*\b", self.string(where, raw, "where", required=False))
        return set(sizes) <= {*tile.defines, *SIZES} and self.applies(where, raw, tile)


def id_of(name: str) -> str:
    """Return an id made of a name, "Barriers, per K tile" as barriers_per_k_tile."""
    made = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return made if ID.fullmatch(made) else f"gate_{made}".rstrip("_")


def _names_sizes(text: str) -> bool:
    """Tell whether a condition names M, N or K."""
    return not SIZES.isdisjoint(re.findall(r"\w+", text))


def _limited(gate: Gate) -> tuple[str, bool]:
    return gate.value.text, gate.at_most is None
