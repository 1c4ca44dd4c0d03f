"""Records for pictures of one launch: accesses, tiles, fragments, and the timeline of every warp.

    machine code of one block, followed once more --follow--> Touched: a Request for each access of a warp
    or its PTX, run once more --observe--> Touched
    PTX of one cluster, run once more --TileNotes--> Tiles
    PTX --products--> WarpProduct: lanes and registers of its matrices
    estimate.Recording --timeline, roles_of--> Timeline, Roles; with the source --trace_file--> a file for viewers

- ``accesses``: what the lanes of a warp request from shared and global memory, line by line, and from which banks
- ``tiles``: what products of warpgroups read from shared memory, and copies shared in a cluster
- ``fragments``: lane and register of each element of a tensor core's product
- ``timeline``: the estimate's multiprocessor, clock by clock, also as a file for viewers
- ``roles``: the timeline by role, and hand-overs through mbarriers

Other rooms import from here.
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.engine.pictures.accesses import Cell, Request, Stores, Touched, bank_map, follow, observe
    from gemm_lessons.engine.pictures.fragments import WarpProduct, products
    from gemm_lessons.engine.pictures.roles import ANOTHER, RoleHandOver, Roles, UnitRow, barrier_names, roles_of
    from gemm_lessons.engine.pictures.tiles import CHUNK_BYTES, Chunk, Share, TileNotes, TilePicture, Tiles
    from gemm_lessons.engine.pictures.timeline import (
        WAITS, Shown, Strip, Timeline, role_strips, timeline_of, trace_file,
    )  # fmt: skip
else:
    __getattr__ = on_first_use(__name__)
