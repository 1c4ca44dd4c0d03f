"""PTX instructions on texture and surface objects: ``tex``, ``tld4``, ``txq``, ``suld.b`` and ``sust.b``.

Coordinates follow the object in one operand: ``[%rd1, {%f1, %f2}]``. Surfaces are read and written immediately, in
the order of the lanes; races between threads on a surface are not detected. Source: NVIDIA, "PTX ISA" 9.0, 9.7.10 and
9.7.11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gemm_lessons.engine.machine import images
from gemm_lessons.engine.machine.images import Image
from gemm_lessons.engine.machine.state import Fault
from gemm_lessons.engine.machine.transfers import Binding
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.records import Address, Instruction, Operand, Register, SourceLine, Vector, elements_of
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.facts import Misuse
from gemm_lessons.engine.records.launch import Surface, Texture

Run = Callable[[], None]
Work = Callable[[Image, Array], None]

# Geometry: number of coordinates, whether a layer precedes them, and length of the coordinate vector.
GEOMETRY = {"1d": (1, False, 1), "2d": (2, False, 2), "3d": (3, False, 4), "a1d": (1, True, 2), "a2d": (2, True, 4)}
QUERIES = {"width": 0, "height": 1, "depth": 2}
BUILT_IN = "__nv_nvrtc_builtin_header.h"


def _calling_line(instruction: Instruction) -> SourceLine | None:
    """Return the line that calls ``tex2D`` or the like, which are functions in a header of the compiler."""
    if instruction.source is None:
        return None
    outside = [place for place in instruction.source.places if not place[0].endswith(BUILT_IN)]
    return SourceLine(*outside[0]) if outside else instruction.source


class ImageBinder:
    """Binds one instruction on texture or surface objects. Its methods raise ``UnsupportedKernel``."""

    def __init__(self, binding: Binding) -> None:
        self.state, self.value, self.guard = binding.state, binding.value, binding.guard
        self.instruction = replace(binding.instruction, source=_calling_line(binding.instruction))
        if not self.state.images:
            raise self.unsupported(
                "no texture or surface object is among the arguments: simulate() takes Texture and Surface, inspect "
                "takes t=texture f32[H,W] and s=surface f32[H,W];"
            )

    def unsupported(self, why: str = "unsupported PTX") -> UnsupportedKernel:
        """Return the exception that names the instruction and its line."""
        return UnsupportedKernel(f"{why} in `{self.instruction.text}`", line_of(self.instruction))

    def lanes(self, operand: Operand | None, code: str) -> Array:
        """Return an operand per lane, shape (lanes,)."""
        if operand is None:
            raise self.unsupported()
        return np.broadcast_to(self.value(operand, code), (self.state.lanes,))

    def place(self, operand: Operand, geometry: str) -> tuple[Operand, Operand | None, tuple[Operand, ...]]:
        """Return the object, the layer (or None) and the coordinates of ``[object, {...}]``."""
        dims, layered, length = GEOMETRY[geometry]
        if not isinstance(operand, Vector) or len(operand.elements) != 1 + length:
            raise self.unsupported()
        found, *rest = operand.elements
        if not isinstance(found, Register) or any(e is None for e in rest):
            raise self.unsupported()
        coordinates = [e for e in rest if e is not None]
        layer = coordinates.pop(0) if layered else None
        return found, layer, tuple(coordinates[:dims])

    def results(self) -> list[str]:
        """Return the registers of the first operand; "" for an element without a register."""
        first = self.instruction.operands[0]
        elements = elements_of(first)
        if not all(e is None or isinstance(e, Register) for e in elements):
            raise self.unsupported()
        return [e.name if isinstance(e, Register) else "" for e in elements]

    def each(self, handle: Operand, kind: type[Any], work: Work) -> Run:
        """Return a closure that calls ``work`` for every object that lanes name, with those lanes."""
        state, guard = self.state, self.guard

        def run() -> None:
            mask = guard() if guard is not None else state.active
            lanes = np.flatnonzero(state.alive if mask is None else mask & state.alive)
            handles = self.lanes(handle, "u64")[lanes]
            for one in np.unique(handles):
                chosen = lanes[handles == one]
                image = state.images.get(int(one))
                if image is None or not isinstance(image.given, kind):
                    name = "texture" if kind is Texture else "surface"
                    who, facts = state.actor(int(chosen[0]), self.instruction), Misuse(name=name, value=int(one))
                    raise Fault("illegal_access", "image", self.instruction, who, facts)
                work(image, chosen)

        return run

    # -- textures -----------------------------------------------------------------------------------------------------

    def texture(self) -> Run:
        """Bind ``tex``. Every texture has one level of detail, so ``level`` and ``grad`` read the same texels."""
        modifiers, operands = self.instruction.modifiers, self.instruction.operands
        extra = {"level": 1, "grad": 2}.get(modifiers[0] if modifiers else "", 0)
        form = modifiers[1:] if extra else modifiers
        if len(form) != 4 or form[0] not in GEOMETRY or form[1] != "v4" or len(operands) != 2 + extra:
            raise self.unsupported()
        geometry, _, kind, asked = form
        by_integer = (geometry, asked) == ("1d", "s32") and not extra
        if kind not in ("f32", "s32", "u32") or not (asked == "f32" or by_integer):
            raise self.unsupported()
        handle, layer, coordinates = self.place(operands[1], geometry)

        def read(image: Image, lanes: Array) -> Array:
            if by_integer:
                return images.fetch(image, self.lanes(coordinates[0], "s32")[lanes].astype(np.int64))
            rows = [self.lanes(c, "f32")[lanes] for c in coordinates]
            return images.sample(image, rows, self.layers(layer, lanes))

        return self.reads(handle, geometry, kind, read)

    def gather(self) -> Run:
        """Bind ``tld4``: one channel of the four texels around a point."""
        modifiers, operands = self.instruction.modifiers, self.instruction.operands
        if len(modifiers) != 5 or modifiers[0] not in "rgba" or modifiers[1] not in ("2d", "a2d") or len(operands) != 2:
            raise self.unsupported()
        channel, geometry, vector, kind, asked = modifiers
        if vector != "v4" or kind not in ("f32", "s32", "u32") or asked != "f32":
            raise self.unsupported()
        handle, layer, coordinates = self.place(operands[1], geometry)

        def read(image: Image, lanes: Array) -> Array:
            rows = [self.lanes(c, "f32")[lanes] for c in coordinates]
            return images.gather(image, rows, self.layers(layer, lanes), "rgba".index(channel))

        return self.reads(handle, geometry, kind, read)

    def layers(self, layer: Operand | None, lanes: Array) -> Array:
        """Return the layer of an image that each lane names; 0 without a layer."""
        if layer is None:
            return np.zeros(len(lanes), np.int64)
        return self.lanes(layer, "s32")[lanes].astype(np.int64)

    def reads(self, handle: Operand, geometry: str, kind: str, read: Callable[[Image, Array], Array]) -> Run:
        """Return a closure that writes the texels that ``read`` returns to the first operand."""
        names = self.results()
        dims, layered, _ = GEOMETRY[geometry]

        def work(image: Image, lanes: Array) -> None:
            if (image.dims, image.given.layered) != (dims, layered):
                raise self.unsupported(f"{image.given.name} has other dimensions than are read")
            found = read(image, lanes)
            if (found.dtype.kind == "f") != (kind == "f32"):
                raise self.unsupported(f"{image.given.name} holds {image.given.array.dtype.name}, read as {kind}")
            self.write(names, found, lanes)

        return self.each(handle, Texture, work)

    def write(self, names: list[str], found: Array, lanes: Array) -> None:
        """Write texels (lanes, channels) to registers. Missing channels are undefined, and refused if read."""
        for number, name in enumerate(names):
            if not name:
                continue
            if number < found.shape[1]:
                column = np.ascontiguousarray(found[:, number])
                wide = column.view(np.uint32) if column.dtype.kind == "f" else column.astype(np.int64).astype(np.uint32)
                self.state.row(name, "b32")[lanes] = wide
            elif name in self.state.used:
                raise self.unsupported(f"the texture has {found.shape[1]} channels, more are read")

    def query(self) -> Run:
        """Bind ``txq``: the size of a texture in texels. Refuse a dimension that the texture does not have."""
        modifiers, (target, place) = self.instruction.modifiers, self.instruction.operands
        known = isinstance(target, Register) and self.state.rows.get(target.name, ("",))[0] == 32
        if len(modifiers) != 2 or modifiers[0] not in QUERIES or modifiers[1] != "b32" or not known:
            raise self.unsupported()
        if not isinstance(place, Address) or not isinstance(place.base, Register) or place.offset:
            raise self.unsupported()
        axis = QUERIES[modifiers[0]]

        def work(image: Image, lanes: Array) -> None:
            if axis >= image.dims:
                raise self.unsupported(f"{image.given.name} has no {modifiers[0]}, which is asked")
            self.state.row(self.results()[0], "b32")[lanes] = image.sizes[axis]

        return self.each(place.base, Texture, work)

    # -- surfaces -----------------------------------------------------------------------------------------------------

    def surface(self) -> Run:
        """Bind ``suld.b`` and ``sust.b``: raw bytes, with x in bytes."""
        modifiers, operands = self.instruction.modifiers, self.instruction.operands
        loads = self.instruction.row.writes
        form = [m for m in modifiers if m not in ("v2", "v4")]
        if len(form) != 4 or form[0] != "b" or form[1] not in GEOMETRY or len(operands) != 2:
            raise self.unsupported()
        _, geometry, kind, mode = form
        if kind not in ("b8", "b16", "b32", "b64") or mode not in ("trap", "clamp", "zero"):
            raise self.unsupported()
        handle, layer, coordinates = self.place(operands[1 if loads else 0], geometry)
        data = operands[0 if loads else 1]
        parts = elements_of(data)
        count = 4 if "v4" in modifiers else 2 if "v2" in modifiers else 1
        if len(parts) != count:
            raise self.unsupported()
        names = self.results() if loads else []
        size = int(kind[1:]) // 8
        dims, layered, _ = GEOMETRY[geometry]

        def work(image: Image, lanes: Array) -> None:
            if (image.dims, image.given.layered) != (dims, layered):
                raise self.unsupported(f"{image.given.name} has other dimensions than are used")
            rows = [self.lanes(c, "s32")[lanes].astype(np.int64) for c in coordinates]
            raw = image.texels.view(np.uint8).reshape(*image.texels.shape[:3], -1)
            places, inside = self.inside(image, raw, self.layers(layer, lanes), rows, size * count, mode, lanes)
            at = tuple(p[:, None] for p in places[:3])
            columns = places[3][:, None] + np.arange(size * count)
            if loads:
                found = np.where(inside[:, None], raw[(*at, columns)], np.uint8(0))
                words = np.ascontiguousarray(found).view(f"u{size}")
                for number, name in enumerate(names):
                    if name:
                        self.state.lanes_of(name)[lanes] = words[:, number]
                return
            words = np.stack([self.lanes(p, f"b{8 * size}")[lanes] for p in parts], axis=1).astype(f"u{size}")
            stored = np.ascontiguousarray(words).view(np.uint8)
            for lane in np.flatnonzero(inside):  # in lane order, so that the last write wins
                raw[places[0][lane], places[1][lane], places[2][lane], columns[lane]] = stored[lane]

        return self.each(handle, Surface, work)

    def inside(
        self, image: Image, raw: Array, layer: Array, rows: list[Array], width: int, mode: str, lanes: Array
    ) -> tuple[list[Array], Array]:
        """Return layer, z, y and byte in the row of each access, and whether it is inside the surface.

        Outside, ``zero`` reads zeros and drops writes, ``clamp`` accesses the nearest texel, and ``trap`` raises
        ``Fault``.
        """
        texel = image.texels.shape[-1] * image.texels.itemsize
        limits = [raw.shape[3] - width, raw.shape[2] - 1, raw.shape[1] - 1][: len(rows)]
        wanted = [*rows, layer]
        kept = [np.clip(row, 0, limit) for row, limit in zip(wanted, [*limits, len(raw) - 1], strict=True)]
        there = np.logical_and.reduce([a == b for a, b in zip(kept, wanted, strict=True)])
        if (rows[0] % width).any():
            lane = int(lanes[(rows[0] % width != 0).argmax()])
            facts = Misuse(name=image.given.name, value=int(rows[0][lanes == lane][0]), limit=width)
            raise Fault("misaligned", "texture", self.instruction, self.state.actor(lane, self.instruction), facts)
        if not there.all():
            lane = int(lanes[(~there).argmax()])
            if mode == "trap":
                facts = Misuse(name=image.given.name, at=tuple(int(row[lanes == lane][0]) for row in rows))
                who = self.state.actor(lane, self.instruction)
                raise Fault("out_of_bounds", "texture", self.instruction, who, facts)
            if mode == "clamp" and width != texel and (rows[0] > limits[0]).any():
                raise self.unsupported("an access narrower or wider than a texel, clamped")
        if mode == "clamp":
            there = np.ones(len(lanes), np.bool_)
        places = [*kept[:-1], *[np.zeros_like(layer)] * (3 - len(rows))]
        return [kept[-1], *reversed(places)], there
