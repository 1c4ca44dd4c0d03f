"""Which bank serves which lane of a warp's request to shared memory, and in which turn: a map of lanes by banks.

Lanes are served in groups that together ask for at most 128 bytes (``counters/banks.py``). In each group, a bank gives
one word a wavefront to all lanes that ask for that word; lanes that ask for another one have to wait for the next turn.
"""

from __future__ import annotations

from gemm_lessons.engine.costs.banks import BANKS, WARP, WORD
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.view.accesses import Request


@dataclass(frozen=True)
class Cell:
    """One word that a lane asks for. ``turn`` counts from 1 the different words that the group wants of this bank;
    ``again``: a lane before asked for the same word, and this one gets it with that."""

    bank: int
    turn: int
    again: bool


@dataclass(frozen=True)
class BankMap:
    """Cells by lane (none where it takes no part). ``group``: lanes that are served together; ``turns``: by group."""

    lanes: tuple[tuple[Cell, ...], ...]
    group: int
    turns: tuple[int, ...]

    @property
    def joined(self) -> int:
        """Wavefronts that neighbouring groups would take if they could not share one: the sum of all turns."""
        return sum(self.turns)


def bank_map(request: Request) -> BankMap:
    """The map of a request to shared memory."""
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
