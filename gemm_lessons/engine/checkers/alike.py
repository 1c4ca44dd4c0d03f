"""Find batches of a launch, and clusters of a batch, that do the same, record by record.

``bulk_copies`` then analyses only one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gemm_lessons.engine.checkers.epochs import repeats
from gemm_lessons.engine.events import (
    AsyncGroup,
    Barrier,
    Boundary,
    Bulk,
    BulkGroup,
    Landed,
    Phase,
    ProxyFence,
    Record,
    Touch,
)
from gemm_lessons.engine.records.arrays import Array

ALIKE = "alike"  # key of Touch.memo
TOUCHES = 4096  # most touches kept alive
# Records that matter to bulk copies, and the parts of them that matter.
WATCHED: dict[type, tuple[str, ...]] = {
    Touch: (),
    Barrier: ("kind", "number", "line", "blocks", "lanes", "groups"),
    Phase: ("kind", "line", "lanes", "offsets", "phases"),
    Bulk: ("touch", "reads", "lanes", "offsets"),
    Landed: ("bulk", "phases"),
    BulkGroup: ("kind", "pending", "products", "lanes"),
    AsyncGroup: ("kind", "pending", "lanes"),
    ProxyFence: ("only_mbarriers", "lanes"),
}


class PathsWithoutFindings:
    """Paths, epoch by epoch, of batches without a finding. Other batches on the same path need no analysis."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._touches: set[Touch] = set()  # identified by ``id``, so kept alive

    def begin(self) -> None:
        """Start a batch."""
        self._path = b""
        self._order: dict[Bulk, int] = {}
        if len(self._touches) > TOUCHES:
            self._touches.clear()
            self._known.clear()

    def knows(self, records: Sequence[Record], boundary: Boundary) -> bool:
        """Extend the path of the batch by an epoch. Return whether an earlier batch took it without a finding."""
        digest = hashlib.blake2b(self._path)
        digest.update(boundary.encode())
        for record in records:
            kind = type(record)
            if kind not in WATCHED:
                continue
            if kind is Touch:
                if record.access.space != "shared":  # type: ignore[union-attr]
                    continue
                self._touches.add(record)  # type: ignore[arg-type]
                digest.update(id(record).to_bytes(8))
                continue
            parts: list[object] = [kind.__name__]
            for name in WATCHED[kind]:
                part = getattr(record, name)
                if isinstance(part, Touch):
                    self._touches.add(part)
                    part = id(part)
                elif isinstance(part, Bulk):
                    part = self._order[part]
                elif isinstance(part, np.ndarray):
                    digest.update(np.ascontiguousarray(part).tobytes())
                    part = part.shape
                parts.append(part)
            if kind is Bulk:
                self._order[record] = len(self._order)  # type: ignore[index]
            digest.update(repr(parts).encode())
        self._path = digest.digest()
        return self._path in self._known

    def add(self) -> None:
        """Note that the path so far has no finding."""
        self._known.add(self._path)


class AlikeClusters:
    """Tells whether all clusters of a batch do the same at the same places, and returns what the first one does."""

    def __init__(self, padded: int, cluster: int) -> None:
        together = padded * cluster  # lanes of a cluster
        self._together = together
        # Parts of records with an entry for each lane or block, and the entries of a cluster.
        self._masks = (("lanes", together), ("groups", together), ("blocks", cluster))
        self._bulks: dict[Bulk, Bulk] = {}  # of the batch -> of its first cluster

    def is_same(self, records: Sequence[Record], clusters: int) -> bool:
        """Tell whether all ``clusters`` have the same part in each of the records."""
        return all(self._is_shared(record, clusters) for record in records if type(record) in WATCHED)

    def _is_shared(self, record: Any, clusters: int) -> bool:
        if type(record) is Touch:
            return record.access.space != "shared" or self._repeats(record, clusters)
        if isinstance(record, (Phase, Bulk, Landed)):
            if isinstance(record, Bulk) and not self._repeats(record.touch, clusters):
                return False
            lanes = record.bulk.lanes if isinstance(record, Landed) else record.lanes
            if lanes.size % clusters:
                return False
            rows = [lanes.reshape(clusters, -1) - np.arange(clusters)[:, None] * self._together]
            parts = (getattr(record, name, None) for name in ("offsets", "phases"))
            rows += [it.reshape(clusters, -1) for it in parts if it is not None]
            return _same(rows)
        masks = ((getattr(record, name, None), each) for name, each in self._masks)
        return _same([it.reshape(-1, each)[:clusters] for it, each in masks if it is not None])

    def _repeats(self, touch: Touch, clusters: int) -> bool:
        known = touch.memo.get(ALIKE)
        if known is None or known[0] != clusters:
            known = touch.memo[ALIKE] = clusters, repeats(touch, clusters, self._together)
        return bool(known[1])

    def first(self, records: Sequence[Record]) -> list[Record]:
        """Return the records of the first cluster."""
        return [self._first(record) for record in records if type(record) in WATCHED]

    def _first(self, record: Any) -> Any:
        if type(record) is Touch:  # a checker takes the lanes that it analyses
            return record
        if isinstance(record, Landed):
            return Landed(self._bulks[record.bulk], record.phases[record.bulk.lanes < self._together])
        if isinstance(record, (Phase, Bulk)):
            here = record.lanes < self._together
            parts = {name: getattr(record, name, None) for name in ("lanes", "offsets", "phases")}
            found: Any = replace(record, **{name: it[here] for name, it in parts.items() if it is not None})
            if isinstance(record, Bulk):
                self._bulks[record] = found
            return found
        masks = ((name, getattr(record, name, None), each) for name, each in self._masks)
        return replace(record, **{name: it[:each] for name, it, each in masks if it is not None})


def _same(rows: Sequence[Array]) -> bool:
    return all(bool((it == it[0]).all()) for it in rows)
