"""A launch of any kernel -> the same pictures, as far as they do not need a lesson.

Inspection (counters by line, estimate, recording) --view_of_launch--> View with one Side
"""

from __future__ import annotations

import math

from gemm_lessons.engine import LaunchEstimate, Simulator
from gemm_lessons.engine.compiler import Compiled
from gemm_lessons.engine.estimate import Recording
from gemm_lessons.engine.inspection import Inspection, InspectRequest, given_to
from gemm_lessons.engine.pictures import (
    Request,
    TileNotes,
    Tiles,
    barrier_names,
    follow,
    observe,
    products,
    roles_of,
    timeline_of,
)
from gemm_lessons.engine.sass import Uncountable
from gemm_lessons.running import row_of_launch
from gemm_lessons.view.record import Part, Place, Side, View

ASYNCHRONOUS = ("wgmma.", "cp.async.bulk.")  # what ``Tiles`` shows


def view_of_launch(result: Inspection) -> View:
    """Return the pictures of a launch. Raise ``UnsupportedKernel``."""
    compiled, launched, request = result.compiled, result.launched, result.request
    assert compiled is not None
    assert launched is not None
    notes = [f"{metric}: {why}" for metric, why in launched.counters.inexact.items()][:1]
    size = f"with {request.grid}"
    requests, places, tiles = _accesses(request, compiled, notes)
    missing: dict[Part, str] = {}
    recording = strips = roles = None
    if isinstance(result.recording, Recording):
        recording = result.recording
        busy = result.estimate.busy if isinstance(result.estimate, LaunchEstimate) else {}
        strips = timeline_of(recording, request.gpu, request.path, busy)
        roles = roles_of(recording, request.path, barrier_names(compiled))
        if recording.cut:
            notes.append("The timeline leaves out most iterations of a long loop.")
    elif result.recording is not None:
        missing["timeline"] = f"There is no timeline: {result.recording}."
    side = Side(
        row=row_of_launch(result),
        size=size,
        threads=request.grid.threads,
        counts=tuple(it for it in launched.counters.lines if it.file == request.path),
        requests=requests,
        places=places,
        products=products(compiled.ptx, compiled.entry),
        tiles=tiles,
        recording=recording,
        timeline=strips,
        played=size,
        roles=roles,
        missing=missing,
        notes=tuple(notes),
    )
    return View(result, (side,))


def _accesses(
    request: InspectRequest, compiled: Compiled, notes: list[str]
) -> tuple[tuple[Request, ...], tuple[Place, ...], Tiles]:
    """Return what block 0 requests, where elements of arrays are, and the tiles of products; note what is missing."""
    given = given_to(request, compiled)
    places = tuple(Place(name, array.itemsize, _strides(array.shape)) for name, array in given.arrays.items())
    launch = (compiled, request.grid, given.arguments, given.symbols)
    try:
        found = follow(*launch)
    except Uncountable as obstacle:
        notes.append(f"Its memory requests are those of its PTX, which ptxas may merge: {obstacle}.")
        found = observe(*launch)
    if not any(word in compiled.ptx for word in ASYNCHRONOUS):
        return found.requests, places, Tiles()
    tiles = TileNotes()
    Simulator().observe(compiled, request.grid, given.arguments, tiles, given.symbols)
    return found.requests, places, tiles.result(request.path)


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array's indices; its elements are in a row if two indices have the same stride."""
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return strides if len({*strides, 0}) > len(strides) else (1,)
