"""What pictures of a run show, as plain records: who touches what, who owns what, what every warp does when.

    RunOutcome, and the machine code of one block, followed once more --> View --> report: a page, text, a trace

- ``accesses``: what the lanes of a warp ask of shared and global memory, line by line
- ``banks``: which bank serves which lane, and in which turn
- ``owners``: which thread stores which element of the answer
- ``timeline``: what the estimate's multiprocessor does, clock by clock
- ``fragments``: which lane holds what of a tensor core's product
- ``record``: all of it together; ``perfetto``: the timeline as a file
"""
