"""Records for the pictures of a run: memory accesses, owners of elements, and the timeline of every warp.

    RunOutcome or Inspection + machine code of block 0, followed once more --View--> report: a page, text, a trace

A ``View`` holds one ``Side`` per kernel:

    counts     counters by line of the kernel file
    requests   tuple of Request: addresses of a warp's lanes, with cost and ideal cost
    owners     for each row of the block's tile of C, runs of (elements, thread); only of lessons
    timeline   for each warp, strips of (ticks, state, line)
    roles      warps by role, work of TMA and tensor cores, hand-overs
    tiles      what products read from shared memory; which block copies what for which blocks of its cluster
    products   lane and register of each element of a tensor core's fragments

- ``record``: these records
- ``lesson``, ``launch``: of a run of a lesson, of a launch of any kernel
- ``owners``: which thread stores which element of the answer
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.view.launch import view_of_launch
    from gemm_lessons.view.lesson import side_of, view_of
    from gemm_lessons.view.record import Place, Side, View
else:
    __getattr__ = on_first_use(__name__)
