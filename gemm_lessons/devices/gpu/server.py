"""The process that owns the CUDA context: load cubins, launch kernels, time them. It runs inside a ``child.Child``.

One message in, one message out (``measure`` reports progress in between). A CUDA error that poisons the context is
reported and then ends the process; the parent starts a new one. An endless kernel ends with a kill from outside.

CuPy is imported here and in the modules that this one calls, in no other process.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gemm_lessons.devices.gpu import ranges
from gemm_lessons.devices.gpu.functions import address, by_value, launcher, linear_texture, tensor_map
from gemm_lessons.devices.gpu.health import Monitor
from gemm_lessons.devices.gpu.memory import DeviceMemory, OutOfMemory
from gemm_lessons.engine.process import Parent, bounds

if TYPE_CHECKING:
    from gemm_lessons.devices.gpu.measure import Setup

# cudaError values (driver_types.h) after which the context still works: a bad value, no memory, an invalid
# configuration, an unknown function, no code for this GPU, too many resources for a launch, clusters that cannot be.
HARMLESS = (1, 2, 9, 98, 209, 701, 912)


def main(parent: Parent, index: str) -> None:
    """Report facts about GPU ``index``, then answer requests until the parent ends."""
    bounds.lift_memory()  # a CUDA context maps far more address space than it uses
    try:
        import cupy
        from cupy.cuda import driver, runtime
    except ImportError as error:
        parent.send({"error": "import", "text": str(error)})
        return
    errors = (runtime.CUDARuntimeError, driver.CUDADriverError)
    greeting = {"driver": runtime.driverGetVersion(), "runtime": runtime.runtimeGetVersion(), "cupy": cupy.__version__}
    try:
        greeting["count"] = runtime.getDeviceCount()
        if int(index) < greeting["count"]:
            greeting |= describe(runtime, int(index))
            runtime.setDevice(int(index))
    except errors as error:
        parent.send({"error": "cuda", "code": error.status, "text": str(error), **greeting})
        return
    parent.send(greeting)
    if "name" not in greeting:
        return
    monitor = Monitor(greeting["pci"])
    try:
        runtime.free(0)  # creates the context while the parent compiles
    except errors as error:
        parent.receive()
        parent.send({"error": "context", "code": error.status, "text": str(error)})
        return
    monitor.look_around()
    _serve(_Server(parent, runtime, int(index), monitor), errors)


class _Server:
    """Answers requests one after the other."""

    def __init__(self, parent: Parent, runtime: Any, index: int, monitor: Monitor) -> None:
        self.parent, self.runtime, self.monitor = parent, runtime, monitor
        self.setup: Setup | None = None  # prepared for a later measurement
        self.cublas = threading.Thread(target=_load_cublas, args=(runtime, index), daemon=True)
        self.cublas.start()

    def answer(self, header: dict[str, Any], blobs: Sequence[bytes]) -> None:
        """Handle one request. ``prepare`` gets no answer: ``measure`` reports its failures."""
        if header["do"] == "prepare":
            with contextlib.suppress(OutOfMemory, ImportError):
                self.setup = self._setup(header["problem"])
            return
        answer: dict[str, Any] = {}
        buffers: list[np.ndarray[Any, Any]] = []
        with contextlib.ExitStack() as stack:
            for it in header["ranges"]:
                stack.enter_context(ranges.opened(ranges.Range(*it)))
            if header["do"] == "launch":
                buffers = launch(self.runtime, header, blobs)
            else:
                from gemm_lessons.devices.gpu.measure import measure

                setup, self.setup = self._setup(header["problem"]), None
                answer = measure(self.parent, self.runtime, header, blobs, setup, self.monitor)
        self.parent.send(answer, buffers)

    def _setup(self, problem: dict[str, Any]) -> Setup:
        from gemm_lessons.devices.gpu.measure import Setup

        self.cublas.join()
        if self.setup is not None and self.setup.problem == problem:
            return self.setup
        if self.setup is not None:
            self.setup.__exit__()
            self.setup = None
        return Setup(self.runtime, problem)


def _serve(server: _Server, errors: tuple[type[Exception], ...]) -> None:
    parent = server.parent
    while True:
        header, blobs = parent.receive()
        try:
            server.answer(header, blobs)
        except OutOfMemory as error:
            what = {"asked": error.asked, "free": error.free, "total": error.total, "what": error.what}
            parent.send({"error": "memory", **what})
        except ImportError as error:
            parent.send({"error": "import", "text": str(error)})
        except RuntimeError as error:  # CUDA's, or cuBLAS's
            code = int(getattr(error, "status", 0)) if isinstance(error, errors) else 0
            if header["do"] != "prepare":
                parent.send({"error": "cuda", "code": code, "text": str(error)})
            if code not in HARMLESS:
                # Nothing works any more on this context; an orderly teardown would only raise further errors.
                os._exit(0)


def _load_cublas(runtime: Any, index: int) -> None:
    """Load cuBLAS while kernels are checked; the request that needs it reports a failure."""
    with contextlib.suppress(ImportError, RuntimeError):
        from gemm_lessons.devices.gpu.baseline import open_cublas

        runtime.setDevice(index)  # each thread has its own current device, and begins with GPU 0
        open_cublas()


def describe(runtime: Any, index: int) -> dict[str, Any]:
    """Return name, architecture, sizes and bus address of one GPU."""
    facts = runtime.getDeviceProperties(index)
    name = facts["name"]
    return {
        "name": name.decode() if isinstance(name, bytes) else name,
        "arch": f"sm_{facts['major']}{facts['minor']}",
        "memory": int(facts["totalGlobalMem"]),
        "sms": int(facts["multiProcessorCount"]),
        "l2": int(facts["l2CacheSize"]),
        "pci": runtime.deviceGetPCIBusId(index),
    }


def launch(runtime: Any, header: dict[str, Any], blobs: Sequence[bytes]) -> list[np.ndarray[Any, Any]]:
    """Launch one cubin (the first blob) once; the other blobs are its buffers, handed back after the launch.

    ``header["arguments"]``: ``{"raw": hex}``, with ``"pointers": [[offset in raw, blob, offset in the blob], ...]``;
    or ``{"texture": [blob, offset in the blob, bytes, type, channels]}``,
    or ``{"tensor_map": [blob, offset in the blob, TensorMap.described]}``.
    """
    with DeviceMemory(runtime) as memory:
        memory.expect([len(blob) for blob in blobs[1:]], "the kernel's arguments")
        pointers = [memory.upload(blob) for blob in blobs[1:]]
        arguments, held = [], []
        for argument in header["arguments"]:
            if "texture" in argument:
                number, offset, *about = argument["texture"]
                held.append(linear_texture(pointers[number] + offset, *about))
                arguments.append(by_value(address(held[-1].ptr)))
                continue
            if "tensor_map" in argument:
                number, offset, about = argument["tensor_map"]
                arguments.append(tensor_map(pointers[number] + offset, about))
                continue
            raw = bytearray.fromhex(argument["raw"])
            for at, number, offset in argument.get("pointers", ()):
                raw[at : at + 8] = address(pointers[number] + offset)
            arguments.append(by_value(bytes(raw)))
        launcher(blobs[0], header, arguments)()
        runtime.deviceSynchronize()
        results = zip(pointers, blobs[1:], strict=True)
        return [memory.read(pointer, np.empty(len(blob), np.uint8)) for pointer, blob in results]
