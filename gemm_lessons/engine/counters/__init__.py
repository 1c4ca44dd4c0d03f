"""Count a launch on its machine code, under Nsight Compute's names.

    machine --records--> CounterObserver --> records.results.Counters
    machine code (sass.count) --> Sums --^       or, if it cannot be followed, counts of the PTX machine, marked inexact
    cross_check: Account (PTX machine) against Account (machine code) --> Disagreement

- ``counters``: the observer, its totals, lines and bank conflicts; ``overlap``: copies by the async proxy, beside
  products; ``rough``: estimates where machine code cannot be followed
- ``cross_check``: comparison of the two engines
"""
