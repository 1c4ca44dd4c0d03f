"""A map of lanes by banks: which bank serves which lane of a warp's request to shared memory, and in which turn.

Lanes are served in groups that together request at most 128 bytes (``counters/banks.py``). In each group, a bank gives
one word per wavefront to all lanes that request that word; lanes that request another word wait for the next turn.
"""

from __future__ import annotations

from gemm_lessons.engine.costs.banks import BANKS, WARP, WORD
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.view.accesses import Request


@dataclass(frozen=True)
class Cell:
    """One word that a lane requests. ``turn`` numbers, from 1, the different words that the group requests from this
    bank; ``again``: an earlier lane requested the same word, and one access serves both lanes."""

    bank: int
    turn: int
    again: bool


@dataclass(frozen=True)
class BankMap:
    """Cells by lane (none for an inactive lane). ``group``: lanes that are served together; ``turns``: by group."""

    lanes: tuple[tuple[Cell, ...], ...]
    group: int
    turns: tuple[int, ...]

    @property
    def joined(self) -> int:
        """Return the wavefronts if neighbouring groups could not share one: the sum of all turns."""
        return sum(self.turns)


def bank_map(request: Request) -> BankMap:
    """Return the map of a request to shared memory."""
    words = max(1, request.width // WORD)
    group = max(1, min(WARP, WARP // words))
    lanes: list[tuple[Cell, ...]] = []
    turns = []
    for first in range(0, WARP, group):
        wanted: list[list[int]] = [[] for _ in range(BANKS)]
        for at in request.lanes[first : first + group]:
            cells = []
            for word in range(words) if at is not None else ():
                assert at is not None
                place = (request.start + at) // WORD + word
                there = wanted[place % BANKS]
                again = place in there and request.effect != "atomic"
                if not again:
                    there.append(place)
                turn = there.index(place) + 1 if again else len(there)
                cells.append(Cell(place % BANKS, turn, again))
            lanes.append(tuple(cells))
        turns.append(max(map(len, wanted)))
    return BankMap(tuple(lanes), group, tuple(turns))
