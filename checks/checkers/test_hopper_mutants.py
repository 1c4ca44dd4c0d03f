"""A sample of the mutants of Hopper kernels: each is found by a line that synchronises, or by the accesses it ordered.

``python -m checks.checkers.hopper_mutants`` judges all of them.
"""

from __future__ import annotations

import pytest

from checks.checkers.hopper_mutants import EQUIVALENT, RULES, Base, bases, findings_of, judged, mutants

BASES = {base.name: base for base in bases()}
SAMPLE = {
    "wgmma/solution": (
        ("dropped wait", "await(full"),
        ("missing fence", "wgmma_fence"),
        ("early reuse", "wgmma_wait<1>"),
        ("swapped stages", "Stage &to"),
    ),
    "wgmma/narrow_products": (("missing fence", "wgmma.fence"),),
    "ladder/three stages": (
        ("wrong parity", "await(full"),
        ("wrong bytes", "arrive_for"),
        ("count off by one", "init("),
    ),
    "ladder/clusters, C stored by TMA": (("missing cluster barrier", "cluster_barrier"),),
}


@pytest.mark.parametrize("name", SAMPLE)
def test_a_mutant_of_each_class_is_found(name: str) -> None:
    of_base = list(mutants(BASES[name]))
    for group, before in SAMPLE[name]:
        mutant = next(it for it in of_base if it.group == group and before in it.before)
        outcome = judged(mutant)
        assert outcome.verdict in ("line", "accesses"), (mutant.before, mutant.after, outcome)


@pytest.mark.parametrize(
    "base", [pytest.param(it, id=name, marks=() if name in SAMPLE else pytest.mark.long) for name, it in BASES.items()]
)
def test_the_kernels_themselves_are_not_accused(base: Base) -> None:
    assert findings_of(base.launched(base.source))[0] == ()


def test_there_are_mutants_of_every_class_and_of_every_kernel() -> None:
    found = {base.name: list(mutants(base)) for base in BASES.values()}
    assert min(map(len, found.values())) >= 15
    assert sum(map(len, found.values())) >= 200
    assert {it.group for some in found.values() for it in some} == {group for group, _, _ in RULES}
    for name, begins in EQUIVALENT:
        assert any(it.edit.startswith(begins) for it in found[name]), (name, begins)
