import ctypes
import os
import threading
import time
from typing import Any

scene = dict(word.split("=") for word in os.environ.get("FAKE_GPU", "").split() if "=" in word)
memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3
ALIGNMENT = 256
MEMORY = int(scene.get("memory", 1 << 30))
FLUSH = 64 << 20  # bytes; fills as large as this only flush a cache, and the host would be slow at it
state: dict[str, Any] = {"poisoned": 0, "events": {}, "blocks": {}}


class CUDARuntimeError(RuntimeError):
    def __init__(self, status):
        super().__init__(f"CUDA error {status}")
        self.status = status


def _check():
    if state["poisoned"]:
        raise CUDARuntimeError(state["poisoned"])


def driverGetVersion():
    return int(scene.get("driver", 13000))


def runtimeGetVersion():
    return 13000


def getDeviceCount():
    if driverGetVersion() < runtimeGetVersion():
        raise CUDARuntimeError(35)
    if "count" in scene and not int(scene["count"]):
        raise CUDARuntimeError(100)
    return int(scene.get("count", 1))


current = threading.local()


def setDevice(index):
    assert index < getDeviceCount()
    current.device = index


def context():
    """Log that a call makes a context on the thread's current device, which is GPU 0 until ``setDevice``."""
    if "contexts" in scene:
        with open(scene["contexts"], "a") as file:
            file.write(f"{getattr(current, 'device', 0)}\n")


def getDeviceProperties(index):
    return {
        "name": f"Fake GPU {index}".encode(), "major": 9, "minor": 0, "totalGlobalMem": MEMORY,
        "multiProcessorCount": 132, "l2CacheSize": 1 << 16,
    }  # fmt: skip


def deviceGetPCIBusId(index):
    return f"0000:{index:02X}:00.0"


def memGetInfo():
    _check()
    return MEMORY - sum(size for _, size in state["blocks"].values()), MEMORY


def malloc(size):
    _check()
    context()
    if size > memGetInfo()[0]:
        raise CUDARuntimeError(2)
    block = ctypes.create_string_buffer(size + ALIGNMENT)
    pointer = -(-ctypes.addressof(block) // ALIGNMENT) * ALIGNMENT
    state["blocks"][pointer] = (block, size)
    return pointer


def free(pointer):
    if "context" in scene:
        raise CUDARuntimeError(int(scene["context"]))
    _check()
    context()
    state["blocks"].pop(pointer, None)


def memcpy(target, source, size, kind):
    _check()
    ctypes.memmove(target, source, size)


def memcpyAsync(target, source, size, kind, stream):
    memcpy(target, source, size, kind)


def memsetAsync(pointer, byte, size, stream):
    _check()
    if size < FLUSH:
        ctypes.memset(pointer, byte, size)


def hostAlloc(size, flags):
    _check()
    assert flags == 2
    block = ctypes.create_string_buffer(size)
    state["pinned"] = block
    return ctypes.addressof(block)


def freeHost(pointer):
    assert pointer == ctypes.addressof(state.pop("pinned"))


def eventCreate():
    state["events"][len(state["events"])] = 0.0
    return len(state["events"]) - 1


def eventRecord(event, stream):
    state["events"][event] = time.perf_counter()


def eventSynchronize(event):
    _check()


def eventElapsedTime(first, second):
    return (state["events"][second] - state["events"][first]) * 1e3


def deviceSynchronize():
    _check()
