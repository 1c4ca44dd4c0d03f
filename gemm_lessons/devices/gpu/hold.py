"""Hold the GPU's queue with a waiting kernel until the host has queued all launches of a turn.

    begin()     queue a kernel that waits for the host
    ...         queue event, kernels, event
    release()   let the GPU run them, one after the other

A launch from Python takes the host 10 to 50 us. Without the hold a short kernel can end before the next one is queued,
and the time between the events is then the host's. The waiting kernel gives up after ``PATIENCE_NS``: what queues the
launches may itself wait for the GPU, as a profiler does that runs one kernel at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemm_lessons.devices.gpu.functions import address, by_value, launcher

ENTRY = "hold_queue"
SOURCE = f"""\
extern "C" __global__ void {ENTRY}(volatile unsigned *released, volatile unsigned *gave_up, unsigned turn,
                                      unsigned long long patience_ns)
{{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    while ((int)(*released - turn) < 0) {{
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        if (now - start > patience_ns) {{
            *gave_up = turn;
            return;
        }}
    }}
}}
"""
PATIENCE_NS = 20_000_000  # the host queues a turn in far below a millisecond
ONE_THREAD = {"entry": ENTRY, "grid": (1, 1, 1), "block": (1, 1, 1), "dynamic_shared": 0, "cluster": None}
HOST_BYTES = 256  # two words, each in a cache line of its own
MAPPED = 2  # cudaHostAllocMapped (driver_types.h)


class Hold:
    """The kernel of a cubin compiled from ``SOURCE``, and the two words of host memory that it shares with the host."""

    def __init__(self, runtime: Any, cubin: bytes) -> None:
        self._runtime = runtime
        self._pointer = int(runtime.hostAlloc(HOST_BYTES, MAPPED))
        words = _host_words(self._pointer)
        words[:] = 0
        self._released, self._gave_up = words[:1], words[HOST_BYTES // 8 :][:1]
        self._turn = np.zeros(1, np.uint32)
        places = [by_value(address(self._pointer)), by_value(address(self._pointer + HOST_BYTES // 2))]
        arguments = [*places, self._turn, np.array([PATIENCE_NS], np.uint64)]
        self._hold = launcher(cubin, ONE_THREAD, arguments)

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self._runtime.freeHost(self._pointer)

    def begin(self) -> None:
        """Queue the kernel that waits; what is queued from now on starts after ``release``."""
        self._turn += 1
        self._hold()

    def release(self) -> None:
        """Let the GPU run the queued work."""
        self._released[:] = self._turn

    @property
    def lasted(self) -> bool:
        """Tell whether the GPU waited for the last ``release``; read it after the turn."""
        return bool(self._gave_up[0] != self._turn[0])


def _host_words(pointer: int) -> Any:
    import ctypes

    return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_uint32)), (HOST_BYTES // 4,))
