"""A stand-in for NVIDIA's monitor library; ``FAKE_GPU`` sets what it sees: ``busy=43 other=17 slowed=4 mhz=1410``."""

import os
from types import SimpleNamespace

scene = dict(word.split("=") for word in os.environ.get("FAKE_GPU", "").split() if "=" in word)
NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0


class NVMLError(Exception):
    pass


def nvmlInit():
    if "nonvml" in os.environ["FAKE_GPU"]:
        raise NVMLError("Insufficient Permissions")


def nvmlDeviceGetHandleByPciBusId(bus):
    assert bus.startswith("0000:")
    return bus


def nvmlSystemGetDriverVersion():
    return b"580.95.05"


def nvmlDeviceGetUtilizationRates(gpu):
    return SimpleNamespace(gpu=int(scene.get("busy", 0)))


def nvmlDeviceGetComputeRunningProcesses(gpu):
    pids = [os.getpid(), *([int(scene["other"])] if "other" in scene else [])]
    return [SimpleNamespace(pid=pid) for pid in pids]


def nvmlDeviceGetClockInfo(gpu, clock):
    return int(scene.get("mhz", 1980))


def nvmlDeviceGetMaxClockInfo(gpu, clock):
    return 1980


def nvmlDeviceGetCurrentClocksThrottleReasons(gpu):
    return int(scene.get("slowed", 0))


def nvmlDeviceGetTemperature(gpu, sensor):
    raise NVMLError("Not Supported")
