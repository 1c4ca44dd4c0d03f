"""Records for the pictures of a run: memory accesses, owners of elements, and the timeline of every warp.

    RunOutcome + machine code of one block, followed once more --View--> report: a page, text, a trace file

A ``View`` holds one ``Side`` per kernel:

    counts     counters by line of the kernel file
    requests   tuple of Request: addresses of a warp's lanes, with cost and ideal cost
    owners     for each row of the block's tile of C, runs of (elements, thread)
    timeline   for each warp, strips of (ticks, state, line)
    roles      warps by role, work of TMA and tensor cores, hand-overs
    tiles      what products read from shared memory; which block copies what for which blocks of its cluster
    products   lane and register of each element of a tensor core's fragments

- ``owners``: which thread stores which element of the answer
- ``record``: all of these together; the others are those of ``engine/pictures``
"""
