"""Second opinion: checks that both engines make the same accesses, word by word if their sums differ.

    in:   Machine (finished or faulted), its findings, and a function that runs the launch again
    held: Account of each engine (counters.cross_check); on doubt, Words: (thread, word) codes uint64, with counts
    out:  nothing if the engines agree, else ``Disagreement``

- ``agreement``: entry points, and the confirmation of a fault; ``exact``: comparison by thread and word
"""
