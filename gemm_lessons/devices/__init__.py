"""Devices that launch a problem's kernels.

    Binaries (cubins, PTX), Grid, Trial (arrays) --Device.launch--> Launched: arrays written, counters, findings, fault

- ``device``: the device protocol: launch the kernels of one problem; ``choose``: ``--device``
- ``simulated``: the simulator; ``shadowed_gpu``: a GPU whose launches the simulator repeats
- ``gpu``: a CUDA GPU by way of CuPy, and cuBLAS beside it
- ``extras``: the command that installs an optional package
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.devices.choose import Choice, open_device
    from gemm_lessons.devices.device import Binaries, BuildTarget, Device, Task
    from gemm_lessons.devices.extras import install_extra
    from gemm_lessons.devices.gpu import ranges
    from gemm_lessons.devices.gpu.cuda_gpu import Gpu
    from gemm_lessons.devices.gpu.errors import WrongGpuIndex
    from gemm_lessons.devices.gpu.ranges import DOMAIN, Tell, stage, told_to, turn
    from gemm_lessons.devices.gpu.records import Entrant, Measurement, Step, Timed
    from gemm_lessons.devices.gpu.timing import reasons
    from gemm_lessons.devices.simulated import Simulated
else:
    __getattr__ = on_first_use(__name__)
