"""Arguments as written on the command line of ``inspect`` -> launch arguments and values of variables.

The arguments follow the kernel's parameters, separated by commas:

    A=f32[M,K]            an array of random numbers, read by the kernel
    C=out f32[M,N]        an array that the kernel writes; NaN before (integers: all bits set)
    C=inout f32[M,N]      an array that it reads and writes
    A=zeros f32[M,K]      other contents: zeros, ones, index (0, 1, 2, ...)
    B=A+16                a pointer 16 elements into the array of another argument; B=A is the same pointer again
    t=texture f32[H,W]    a texture object of an array; also texture linear, border, wrap, mirror, layered, normalized
                          (coordinates from 0 to 1), normalized_float, and channels2 or channels4 u8[H,W,4]
    s=surface f32[H,W]    a surface object; out and inout as for arrays
    a=view f32[M,K]       a struct {pointer, int rows, cols, row_stride, col_stride} by value (the lessons' ``Matrix``);
    a=view.T f32[M,K]     the same over memory that is stored transposed
    a=f32[M,K] box[8,32]  a tensor map of the array (CUtensorMap, or a pointer to one in global memory), its box in the
                          order of the sizes
    a=f32[M,K] box[8,32] swizzle 128      the same, swizzled: 32, 64 or 128 bytes
    a=f32[K/8,M,8] strides[8,K,1] box[1,64,8] at B+16     the same in memory of another argument, with
                          the distances along each axis in elements; without strides, elements follow each other
    p={x=f32[M,K], n=8}   a struct by value: its fields, 0 for those left out; elsewhere the array is p.x
    p={m=f32[M,K] box[8,32]}              a field that is a tensor map, or the one in a struct that holds one
    p={at={{x=q.y+4}, {}}, m={1, 2}}      a field that is a struct or an array; braces without names give all in order
    M=256  alpha=1.5      numbers, as wide as the parameter; sizes may use the numbers' names: A=f32[M*lda]
    M:=256                a name for sizes only, not passed to the kernel

Types: f64 f32 tf32 f16 bf16 e4m3 e5m2 i8 u8 i16 u16 i32 u32 i64 u64. ``__constant__`` and ``__device__`` variables are
written in the same way, by their names in the source (``ns::weights``):

    weights=ones f32[9]   what the host copies there before the launch
    total=inout i32[1]    also read back after it
    total=out i32[1]      only read back: it begins with the value that the source gives it
    scale=1.5             a number
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from gemm_lessons.engine.arguments.expression import Expression, Number
from gemm_lessons.engine.arguments.parameters import DeclaredType, WrongArrayType, check_array, scalar
from gemm_lessons.engine.arguments.structs import Leaf, is_small_struct, is_tensor_map, layout_at, leaves, struct_of
from gemm_lessons.engine.compiler.layouts import TypeLayout
from gemm_lessons.engine.machine.symbols import check
from gemm_lessons.engine.ptx.records import Kernel, KernelParameter, Variable
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.elements import ELEMENTS, Element
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import (
    TENSOR_MAP_SIZE,
    Argument,
    Buffer,
    HostVariable,
    Pointer,
    Scalar,
    StructWithBuffers,
    Surface,
    TensorMap,
    Texture,
)
from gemm_lessons.engine.records.regex import regex

TYPES: Mapping[str, Element] = {element.short: element for element in ELEMENTS.values()}
FILLS = ("random", "zeros", "ones", "index")
LARGEST = 1 << 30  # bytes of one array; a larger one is more likely a typing mistake

_NAME = r"[A-Za-z_]\w*"
_PATH = rf"{_NAME}(?:\.{_NAME}(?:\[\d+\])*)*"  # an argument, or a field of one
_POINTER = regex(rf"({_PATH})\s*(?:\+(.*))?$")
_ARRAY = regex(
    rf"(?P<words>(?:[a-z_.T]+[24]?\s+)*)(?P<type>{'|'.join(TYPES)})\s*\[(?P<sizes>[^\]]+)\]"
    r"(?:\s*strides\s*\[(?P<strides>[^\]]+)\])?"
    r"(?:\s*box\s*\[(?P<box>[^\]]+)\](?:\s*swizzle\s*(?P<swizzle>\d+))?)?(?:\s*\bat\s+(?P<at>.+))?$"
)  # words: out, inout, view, view.T, those of textures, and a fill
OBJECTS = ("texture", "surface")
# What a word says of a texture or a surface, as fields of those records.
OF_TEXTURES: Mapping[str, Mapping[str, Any]] = {
    **{mode: {"address": mode} for mode in ("clamp", "border", "wrap", "mirror")},
    "linear": {"filter": "linear"},
    "normalized": {"normalized": True},
    "normalized_float": {"read": "normalized_float"},
}
OF_BOTH: Mapping[str, Mapping[str, Any]] = {
    "layered": {"layered": True},
    "channels2": {"channels": 2},
    "channels4": {"channels": 4},
}


class ArgumentError(ValueError):
    """An argument on the command line is not understood or does not fit. The message names it and its remedy."""


@contextmanager
def _refusing(about: str = "") -> Iterator[None]:
    """Raise a ``ValueError`` of the ``with`` body as an ``ArgumentError``; its message follows ``about``."""
    try:
        yield
    except ArgumentError:
        raise
    except WrongArrayType as error:
        raise ArgumentError(f"{about}{error.what}") from None
    except ValueError as error:
        raise ArgumentError(f"{about}{error}") from None


@dataclass(frozen=True)
class ArraySpec:
    """One array argument: how it is passed, its contents, its shape."""

    name: str
    kind: str
    shape: tuple[int, ...]
    fill: str = "random"
    output: bool = False
    read: bool = True
    view: bool = False
    transposed: bool = False
    box: tuple[int, ...] = ()  # of a tensor map
    swizzle: int = 0
    strides: tuple[int, ...] = ()  # in elements, of a tensor map of another argument's memory
    at: str = ""  # where that memory begins
    object: str = ""  # "texture" or "surface"
    options: Mapping[str, Any] = field(default_factory=dict)  # of that object


def split(text: str) -> list[tuple[str, str, bool]]:
    """Split ``A=f32[M,K],M=8`` into (name, value, whether it only names a size), in order. Raise ``ArgumentError``."""
    result = []
    for part in _parts(text):
        match = re.match(rf"((?:{_NAME}::)*{_NAME})\s*(:?=)\s*(.+)$", part, re.S)
        if match is None:
            raise ArgumentError(f'argument "{part}" is not understood; write NAME=VALUE, such as M=256 or A=f32[M,K]')
        result.append((match[1], match[3].strip(), match[2] == ":="))
    return result


def _parts(text: str) -> list[str]:
    """Split at the commas outside of brackets and braces."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _by_field(name: str, text: str) -> Any:
    """Parse ``{x=f32[4], n={1, 2}}``: a dict or a list of texts, dicts and lists; other texts are returned as they are.

    Raise ``ArgumentError``.
    """
    if not text.startswith("{"):
        return text
    if not text.endswith("}") or text.count("{") != text.count("}"):
        raise ArgumentError(f"argument {name}: a brace of {text} is not closed")
    parts = _parts(text[1:-1])
    named = [re.match(rf"({_NAME})\s*=\s*(.+)$", part, re.S) for part in parts]
    fields = {match[1]: _by_field(f"{name}.{match[1]}", match[2].strip()) for match in named if match}
    if len(fields) == len(parts):
        return fields
    if fields:
        raise ArgumentError(f"argument {name}: {text} gives some fields by name, some without; or one of them twice")
    return [_by_field(f"{name}[{place}]", part) for place, part in enumerate(parts)]


Item = tuple[str, str, bool]


@dataclass(frozen=True)
class Given:
    """The arguments of a launch.

    ``arrays`` are by name, also those of pointers and variables; the launch fills outputs. ``elements`` are the types
    of arguments' numbers: an array of bfloat16 holds raw bits.
    """

    arguments: Sequence[Argument]
    symbols: Sequence[HostVariable]
    arrays: Mapping[str, Array]
    numbers: Mapping[str, Number]
    blank: frozenset[str] = frozenset()  # write-only arguments: not filled before the launch
    elements: Mapping[str, Element] = field(default_factory=dict)


def build(
    args: str,
    symbols: Sequence[str],
    kernel: Kernel,
    variable: Callable[[str], Variable],
    seed: int,
    known: Sequence[DeclaredType | None] = (),
    layouts: Callable[[], Sequence[TypeLayout] | None] = lambda: None,
) -> Given:
    """Return everything for a launch of ``kernel``. Raise ``ArgumentError``.

    ``variable`` finds a variable by name; ``known`` are the parameters' declared types; ``layouts`` returns those of
    structs.
    """
    items = split(args)
    variables = [item for text in symbols for item in split(text)]
    passed = [(name, value) for name, value, only in items if not only]
    if len(passed) != len(kernel.parameters):
        raise ArgumentError(
            f"the kernel takes {len(kernel.parameters)} parameters ({_signature(kernel, known)}), "
            f"--args gives {len(passed)}; commas separate them: 'x=f32[8],y=out f32[8],n=8'"
        )
    types = known or (None,) * len(passed)
    structs = _structs(passed, kernel.parameters, types, layouts)
    inside = [(leaf.name, leaf.value) for _, found in structs.values() for leaf in found]
    plain = [(name, value) for name, value in passed if name not in structs]
    names = _numbers([*(item for item in items if item[0] not in structs), *((*it, False) for it in inside)], variables)
    rng = np.random.default_rng(seed)
    specs = {name: array_spec(name, value, _seen(name, names)) for name, value in (*plain, *inside) if _is_array(value)}
    for name, _ in inside:
        if name in specs and specs[name].object:
            raise ArgumentError(f"argument {name}: a {specs[name].object} is an argument of its own here, not a field")
    arrays = {name: contents(spec, rng) for name, spec in specs.items() if not spec.at}
    referred = _Referred(specs, arrays, names)
    arguments: list[Argument] = []
    for (name, value), parameter, one in zip(passed, kernel.parameters, types, strict=True):
        if name in structs:
            arguments.append(referred.struct(name, *structs[name]))
        elif name in specs and specs[name].box:
            if parameter.size != TENSOR_MAP_SIZE and not _is_map_pointer(parameter, one):
                raise ArgumentError(
                    f"argument {name} is a tensor map of {TENSOR_MAP_SIZE} bytes or a pointer to one, the parameter has"
                    f" {parameter.size} bytes{f' ({one.text})' if one else ''}; a struct around it is given in braces"
                )
            arguments.append(referred.tensor_map(specs[name]))
        elif name in specs and specs[name].object:
            arguments.append(_object(specs[name], arrays[name], parameter))
        elif name in specs:
            arguments.append(_array_argument(specs[name], arrays[name], parameter, one))
        elif name in names:
            arguments.append(_scalar(name, names[name], parameter, one))
        else:
            arguments.append(referred.pointer(name, value, parameter.size))
    given: list[HostVariable] = []
    for name, value, only in variables:
        with _refusing():
            found = variable(name)
        if only:
            raise ArgumentError(f"variable {name}: := names a size, in --args")
        given.append(_symbol(name, value, names, found, rng))
        if "[" in value:
            arrays[name] = given[-1].array
    blank = frozenset(name for name, spec in specs.items() if not spec.read)
    return Given(arguments, given, arrays, names, blank, {name: TYPES[spec.kind] for name, spec in specs.items()})


def _structs(
    passed: Sequence[tuple[str, str]],
    parameters: Sequence[KernelParameter],
    known: Sequence[DeclaredType | None],
    layouts: Callable[[], Sequence[TypeLayout] | None],
) -> dict[str, tuple[TypeLayout, list[Leaf]]]:
    """Return layout and leaves of every argument in braces or for a small struct; the values of leaves are texts."""
    found = {}
    for position, ((name, value), parameter, one) in enumerate(zip(passed, parameters, known, strict=True)):
        if value.startswith("{") or is_small_struct(parameter, one):
            with _refusing("argument "):
                layout = layout_at(name, position, layouts())
                found[name] = layout, leaves(name, _by_field(name, value), layout)
    return found


def _numbers(arguments: Sequence[Item], variables: Sequence[Item]) -> dict[str, Number]:
    """Return the values of all numbers, by name."""
    arrays = {name for name, value, _ in arguments if _is_array(value)}
    known: dict[str, Number] = {}
    seen: set[str] = set()
    for name, value, _ in (*arguments, *variables):
        if name in seen:
            raise ArgumentError(f"argument {name} is given twice")
        seen.add(name)
        pointer = _POINTER.match(value)
        if not _is_array(value) and not (pointer and pointer[1] in arrays):
            visible = _seen(name, known)
            with _refusing(f"argument {name}: "):
                known[name] = Expression.parse(value, visible).value(visible)
    return known


def _is_array(value: str) -> bool:
    """Return whether a value is an array, with sizes in brackets; the index in a field's path is no size."""
    return "[" in value and not _POINTER.match(value)


def _seen(name: str, names: Mapping[str, Number]) -> Mapping[str, Number]:
    """Return numbers by the names that ``name`` may use: those of all arguments, and other fields of its structs."""
    ends = [match.end() for match in re.finditer(r"\.", name)]
    inner = {key[end:]: number for end in ends for key, number in names.items() if key.startswith(name[:end])}
    return {key: number for key, number in {**names, **inner}.items() if key.isidentifier()}


def array_spec(name: str, text: str, names: Mapping[str, Number]) -> ArraySpec:
    """Parse the value of an array argument. Raise ``ArgumentError``."""
    match = _ARRAY.match(text)
    if match is None:
        raise ArgumentError(
            f'argument {name}: "{text}" is not understood; write [out|inout] TYPE[SIZES], like out f32[M,N]'
        )
    with _refusing(f"argument {name}: "):
        shape, box, strides = (
            tuple(Expression.parse(size, names).whole(names, at_least=1) for size in sizes.split(",") if sizes)
            for sizes in (match["sizes"], match["box"] or "", match["strides"] or "")
        )
    at = (match["at"] or "").strip()
    spec = ArraySpec(name, match["type"], shape, "random", box=box, swizzle=int(match["swizzle"] or 0), at=at)
    if (at or strides) and not (at and box and len(strides or shape) == len(shape)):
        raise ArgumentError(
            f"argument {name}: at and strides are of a tensor map, as in f32[M,K] strides[2*K,1] box[8,32] at A"
        )
    spec = replace(spec, strides=strides)
    size = int(np.prod(shape, dtype=object)) * TYPES[spec.kind].size
    if size > LARGEST:
        raise ArgumentError(f"argument {name} would take {size:,} bytes; at most {LARGEST:,}")
    fields: dict[str, Any] = {}
    options: dict[str, Any] = {}
    only_of_textures: list[str] = []
    for word in match["words"].split():
        if word in ("out", "inout"):
            fields |= {"output": True, "read": word == "inout"}
        elif word in ("view", "view.T"):
            fields |= {"view": True, "transposed": word == "view.T"}
        elif word in FILLS:
            fields["fill"] = word
        elif word in OBJECTS:
            fields["object"] = word
        elif word in OF_TEXTURES or word in OF_BOTH:
            options |= {**OF_TEXTURES, **OF_BOTH}[word]
            only_of_textures += [word] * (word in OF_TEXTURES)
        else:
            known = ("out", "inout", "view", "view.T", *OBJECTS, *FILLS)
            raise ArgumentError(f'argument {name}: "{word}" is not known; known: {" ".join(known)}')
    made = fields.get("object")
    if (options and not made) or (only_of_textures and made == "surface"):
        word = (only_of_textures or sorted(options))[0]
        raise ArgumentError(f"argument {name}: {word} is of a texture, as in texture {word} f32[H,W]")
    if made == "texture" and fields.get("output"):
        raise ArgumentError(f"argument {name}: kernels read textures; they write a surface, as in out surface f32[H,W]")
    if made and (fields.get("view") or box):
        raise ArgumentError(f"argument {name}: it is a {made}, or it is a view or has a box, not both")
    if fields.get("view") and len(shape) != 2:
        raise ArgumentError(f"argument {name}: a view has two sizes, rows and columns")
    if fields.get("view") and box:
        raise ArgumentError(f"argument {name}: it is a view or has a box, not both")
    return replace(spec, **fields, options=options)


def contents(spec: ArraySpec, rng: np.random.Generator) -> Array:
    """Return a fresh array: inputs with the requested contents, outputs poisoned (NaN, or all bits set)."""
    element = TYPES[spec.kind]
    dtype = np.dtype(element.storage)
    if not spec.read:
        poison: Array = np.full((*spec.shape, dtype.itemsize), 0xFF, np.uint8).view(dtype)
        return poison.reshape(spec.shape)
    if spec.fill in ("zeros", "ones"):
        values: Array = np.full(spec.shape, 1 if spec.fill == "ones" else 0, np.float64)
    elif spec.fill == "index":
        values = np.arange(int(np.prod(spec.shape)), dtype=np.float64).reshape(spec.shape)
    elif element.is_float:
        values = rng.uniform(-1, 1, spec.shape)
    else:
        values = rng.integers(0, 8, spec.shape).astype(np.float64)
    return element.encode(values)


def _array_argument(spec: ArraySpec, array: Array, parameter: KernelParameter, known: DeclaredType | None) -> Argument:
    buffer = Buffer(spec.name, array, spec.output)
    if not spec.view:
        if parameter.size != 8:
            raise ArgumentError(
                f"argument {spec.name} is an array, but that parameter has {parameter.size} bytes, no pointer"
            )
        if known is not None:
            with _refusing():
                check_array(f"argument {spec.name}", array, parameter, known, spec.kind)
        return buffer
    rows, cols = spec.shape
    strides = (1, rows) if spec.transposed else (cols, 1)
    raw = bytes(8) + np.array([rows, cols, *strides], np.int32).tobytes()
    if parameter.size != len(raw):
        raise ArgumentError(
            f"argument {spec.name} is a view of {len(raw)} bytes (pointer, 4 ints), the parameter has {parameter.size}"
        )
    return StructWithBuffers(spec.name, raw, {0: buffer})


def _is_map_pointer(parameter: KernelParameter, known: DeclaredType | None) -> bool:
    """Return whether a parameter can be a ``const CUtensorMap *``: a pointer to no number, or of an unknown type."""
    return parameter.size == 8 and (known is None or (known.pointer and not known.kind))


def _object(spec: ArraySpec, array: Array, parameter: KernelParameter) -> Argument:
    """Return a texture or surface of an array."""
    if parameter.size != 8:
        raise ArgumentError(
            f"argument {spec.name} is a {spec.object}, an object of 8 bytes; the parameter has {parameter.size}"
        )
    return (Texture if spec.object == "texture" else Surface)(array, name=spec.name, **spec.options)


@dataclass(frozen=True)
class _Referred:
    """What pointers, tensor maps and structs refer to, by name: parsed array arguments, their arrays, and numbers."""

    specs: Mapping[str, ArraySpec]
    arrays: dict[str, Array]
    names: Mapping[str, Number]

    def struct(self, name: str, layout: TypeLayout, found: Sequence[Leaf]) -> Argument:
        """Return a struct by value, with these leaves."""
        values: dict[str, Any] = {}
        for leaf in found:
            if (spec := self.specs.get(leaf.name)) is None:
                number = self.names.get(leaf.name)
                values[leaf.name] = self.pointer(leaf.name, leaf.value, leaf.type.size) if number is None else number
            elif spec.box and is_tensor_map(leaf.value):
                values[leaf.name] = self.tensor_map(spec)
            elif spec.view or not leaf.type.pointer:
                what = f"{leaf.type.name} takes no array" if not leaf.type.pointer else "a view is an argument"
                raise ArgumentError(f"argument {leaf.name}: {what}")
            else:
                values[leaf.name] = Buffer(leaf.name, self.arrays[leaf.name], spec.output)
        with _refusing("argument "):
            return struct_of(name, layout, found, values)

    def tensor_map(self, spec: ArraySpec) -> TensorMap:
        """Return a tensor map of an array, or of another argument's memory."""
        pointer: Buffer | Pointer
        if spec.at:
            pointer = self.pointer(spec.name, spec.at)
            self.arrays[spec.name] = _strided(spec, self.arrays[spec.name])
        else:
            pointer = Buffer(spec.name, self.arrays[spec.name], spec.output)
        kind = TYPES[spec.kind].name
        found = TensorMap(self.arrays[spec.name], spec.box, spec.swizzle, kind, f"argument {spec.name}", pointer)
        with _refusing():
            found.check()
        return found

    def pointer(self, name: str, text: str, size: int = 8) -> Pointer:
        """Parse ``x+16``, a pointer into the array of argument x. The rest of the array is kept flat under ``name``."""
        match = _POINTER.match(text)
        if match is None or match[1] not in self.specs or self.specs[match[1]].at:
            raise ArgumentError(f"argument {name}: {text} is no array of another argument")
        target, distance = self.specs[match[1]], match[2]
        if size != 8 or target.view:
            what = f"{target.name} is a view" if target.view else f"that parameter has {size} bytes"
            raise ArgumentError(f"argument {name}={text} is a pointer into an array, but {what}")
        whole = self.arrays[target.name].reshape(-1)
        with _refusing(f"argument {name}: "):
            visible = _seen(name, self.names)
            start = 0 if distance is None else Expression.parse(distance, visible).whole(visible, at_least=0)
        if start > whole.size:
            raise ArgumentError(f"argument {name}: {target.name} has {whole.size} elements, {text} is past its end")
        self.arrays[name] = whole[start:]
        return Pointer(name, Buffer(target.name, self.arrays[target.name], target.output), start * whole.itemsize)


def _strided(spec: ArraySpec, memory: Array) -> Array:
    """Return the array of a tensor map in the ``memory`` (one dimension) of another argument."""
    strides = spec.strides or tuple(int(np.prod(spec.shape[axis + 1 :])) for axis in range(len(spec.shape)))
    needed = 1 + sum((size - 1) * stride for size, stride in zip(spec.shape, strides, strict=True))
    if memory.dtype != np.dtype(TYPES[spec.kind].storage):
        raise ArgumentError(f"argument {spec.name}: {spec.at} is an array of another type")
    if needed > memory.size:
        raise ArgumentError(f"argument {spec.name}: it ends {needed} elements after {spec.at}, where {memory.size} are")
    return np.lib.stride_tricks.as_strided(memory, spec.shape, [it * memory.itemsize for it in strides])


def _symbol(
    name: str, value: str, names: Mapping[str, Number], variable: Variable, rng: np.random.Generator
) -> HostVariable:
    if "[" not in value:
        parameter = KernelParameter(name, variable.type, 0, variable.size, variable.align)
        number = _scalar(name, names[name], parameter).value
        assert isinstance(number, np.generic)
        return HostVariable(name, np.frombuffer(number.tobytes(), np.uint8))
    spec = array_spec(name, value, names)
    array = contents(spec, rng)
    if spec.view:
        raise ArgumentError(f"variable {name}: a view is for arguments")
    if spec.box:
        raise ArgumentError(f"variable {name}: a tensor map is for arguments")
    if spec.output and variable.space == "const":
        raise ArgumentError(f"variable {name} is __constant__: no kernel writes it; leave out and inout")
    array.flags.writeable = spec.output
    symbol = HostVariable(name, array, given=spec.read)
    with _refusing():
        check(variable, symbol)
    return symbol


def _scalar(name: str, value: Number, parameter: KernelParameter, known: DeclaredType | None = None) -> Scalar:
    with _refusing():
        return Scalar(name, scalar(f"argument {name}", value, parameter, known).value)


def _signature(kernel: Kernel, known: Sequence[DeclaredType | None]) -> str:
    sizes = ("pointer or 8-byte number" if p.size == 8 else f"{p.size} bytes" for p in kernel.parameters)
    types = (
        {"f32": "float", "f64": "double"}.get(p.type, size) for p, size in zip(kernel.parameters, sizes, strict=True)
    )
    return ", ".join(one.text if one else kind for one, kind in zip_longest(known, types))
