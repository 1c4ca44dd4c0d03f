"""The GPU's clock, temperature and other users, from NVIDIA's monitor library (NVML). It may be missing."""

from __future__ import annotations

import os
import statistics
from typing import Any

from gemm_lessons.devices.gpu.timing import Health


class Monitor:
    """Watches one GPU, found by its PCI bus id: NVML does not know ``CUDA_VISIBLE_DEVICES``."""

    def __init__(self, pci_bus_id: str) -> None:
        self._api: Any = None
        self._clocks: list[int] = []
        self._milliwatts: list[int] = []
        self._slowed_by = 0
        self.driver = ""
        try:
            import pynvml  # of the wheel nvidia-ml-py
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
            self._gpu = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
        except pynvml.NVMLError:
            return  # no permission, or a driver without it (WSL)
        self._api = pynvml
        version = self._ask("nvmlSystemGetDriverVersion", gpu=False)
        self.driver = version.decode() if isinstance(version, bytes) else version or ""
        self._busy: list[int] = []
        self._others: tuple[int, ...] = ()
        self.look_around()

    def _ask(self, name: str, *arguments: int, gpu: bool = True) -> Any:
        """Return one value, or None where this GPU or driver does not report it."""
        function = getattr(self._api, name, None)
        if function is None:
            return None
        try:
            return function(*((self._gpu, *arguments) if gpu else arguments))
        except self._api.NVMLError:
            return None

    def look_around(self) -> None:
        """Look for other users of the GPU. Call it twice before the first launch.

        The driver reports how busy the GPU was in the last second or so. A program that has ended since is in the first
        reading and less in the second; one that still runs is in both.
        """
        if self._api is None:
            return
        rates = self._ask("nvmlDeviceGetUtilizationRates")
        if rates is not None:
            self._busy.append(int(rates.gpu))
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses") or []
        self._others = tuple(process.pid for process in processes if process.pid != os.getpid())

    def sample(self) -> None:
        """Read the clock, the power and the slow-down reasons; call it while a kernel runs."""
        if self._api is None:
            return
        clock = self._ask("nvmlDeviceGetClockInfo", self._api.NVML_CLOCK_SM)
        if clock:
            self._clocks.append(int(clock))
        power = self._ask("nvmlDeviceGetPowerUsage")
        if power:
            self._milliwatts.append(int(power))
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:  # the older name
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        self._slowed_by |= int(reasons or 0)

    def restart(self) -> None:
        """Forget the samples taken so far."""
        self._clocks.clear()
        self._milliwatts.clear()
        self._slowed_by = 0

    def read(self) -> Health:
        """Return everything known."""
        if self._api is None:
            return Health()
        return Health(
            clocks_mhz=tuple(self._clocks),
            highest_mhz=self._ask("nvmlDeviceGetMaxClockInfo", self._api.NVML_CLOCK_SM),
            slowed_by=self._slowed_by,
            busy_percent=min(self._busy, default=None),
            others=self._others,
            temperature=self._ask("nvmlDeviceGetTemperature", self._api.NVML_TEMPERATURE_GPU),
            watts=statistics.median(self._milliwatts) / 1e3 if self._milliwatts else None,
        )
