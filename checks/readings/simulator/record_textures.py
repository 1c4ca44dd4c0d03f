"""Read textures and surfaces on the GPU of this machine and store the results. Needs cupy.

python -m checks.readings.simulator.record_textures out.npz
python -m checks.readings.simulator.record_textures --keep out.npz      writes textures.json beside this file
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from checks.simulator import texture_cases as cases
from checks.usage import help_if_asked

KEPT = Path(__file__).with_name("textures.json")


def _format(cupy: Any, dtype: str, channels: int) -> Any:
    runtime = cupy.cuda.runtime
    kind = {"f": runtime.cudaChannelFormatKindFloat, "i": runtime.cudaChannelFormatKindSigned}.get(
        np.dtype(dtype).kind, runtime.cudaChannelFormatKindUnsigned
    )
    bits = [8 * np.dtype(dtype).itemsize if i < channels else 0 for i in range(4)]
    return cupy.cuda.texture.ChannelFormatDescriptor(*bits, kind)


def _array(cupy: Any, values: Any, dims: int, channels: int, layers: int, flags: int = 0) -> Any:
    shape = values.shape[: values.ndim - (channels > 1)]
    sizes = [*reversed(shape[-dims:])]
    if layers:
        sizes = [sizes[0], sizes[1] if dims == 2 else 0, layers]
        flags |= 1
    array = cupy.cuda.texture.CUDAarray(_format(cupy, values.dtype, channels), *sizes, flags=flags)
    flat = values.reshape(*values.shape[: values.ndim - 2], -1) if channels > 1 else values
    array.copy_from(cupy.asarray(flat))
    return array


def texture(cupy: Any, case: cases.Case) -> Any:
    """The texture object of a case."""
    made, runtime = cupy.cuda.texture, cupy.cuda.runtime
    gathers = 0 if case.gathered is None else 8  # cudaArrayTextureGather
    array = _array(cupy, case.values(), case.dims, case.channels, case.layers, gathers)
    resource = made.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array)
    modes = ("wrap", "clamp", "mirror", "border")
    described = made.TextureDescriptor(
        (modes.index(case.address),) * case.dims,
        runtime.cudaFilterModeLinear if case.filter == "linear" else runtime.cudaFilterModePoint,
        runtime.cudaReadModeNormalizedFloat if case.read != "element" else runtime.cudaReadModeElementType,
        normalizedCoords=case.normalized,
    )
    return made.TextureObject(resource, described)


def record(path: str) -> None:
    """Read every case on the GPU; save the raw results."""
    import cupy

    found = {}
    for case in cases.every_case():
        try:
            kernel = cupy.RawKernel(case.kernel(), "k")
            out = cupy.asarray(case.out())
            rows = [cupy.asarray(row) for row in case.coordinates()]
            kernel((1,), (cases.LANES,), (texture(cupy, case), *rows, out))
            found[case.name] = out.get()
        except (cupy.cuda.runtime.CUDARuntimeError, ValueError, RuntimeError) as problem:
            print(case.name, type(problem).__name__, problem)
    made, runtime = cupy.cuda.texture, cupy.cuda.runtime
    line = cupy.asarray(cases.Case(1).values())
    resource = made.ResourceDescriptor(
        runtime.cudaResourceTypeLinear, arr=line, chDesc=_format(cupy, "float32", 1), sizeInBytes=line.nbytes
    )
    out = cupy.zeros(cases.LANES, np.float32)
    fetch = made.TextureObject(resource, made.TextureDescriptor())
    cupy.RawKernel(cases.FETCH, "k")((1,), (cases.LANES,), (fetch, cupy.asarray(cases.fetched()), out))
    found["fetch"] = out.get()
    values = np.arange(117, dtype=np.uint32).reshape(cases.SURFACE_SHAPE) * np.uint32(0x01030507)
    array = _array(cupy, values, 2, 1, 0, flags=2)
    surface = made.SurfaceObject(made.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array))
    answers = cupy.zeros(4 * cases.LANES, np.uint32)
    rows = [cupy.asarray(row) for row in cases.indices()]
    cupy.RawKernel(cases.SURFACE, "k")((1,), (cases.LANES,), (surface, *rows, answers))
    after = cupy.zeros(cases.SURFACE_SHAPE, np.uint32)
    array.copy_to(after)
    found |= {"surface reads": answers.get(), "surface after": after.get()}
    np.savez_compressed(path, **{name.replace("/", "|"): row for name, row in found.items()})
    print(f"{len(found)} rows recorded on {cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}")


def keep(path: str) -> None:
    """Raw answers -> ``textures.json``."""
    data = np.load(path)
    kept = {name.replace("|", "/"): np.ascontiguousarray(data[name]).tobytes().hex() for name in sorted(data.files)}
    KEPT.write_text(json.dumps(kept, indent=0) + "\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    match sys.argv[1:]:
        case ["--keep", path]:
            keep(path)
        case [path]:
            record(path)
        case _:
            sys.exit(__doc__)
