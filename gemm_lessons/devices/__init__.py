"""Devices that launch a problem's kernels.

    Binaries (cubins, PTX), Grid, Trial (arrays) --Device.launch--> Launched: arrays written, counters, findings, fault

- ``device``: the device protocol: launch the kernels of one problem; ``choose``: ``--device``
- ``simulated``: the simulator; ``shadowed_gpu``: a GPU whose launches the simulator repeats
- ``gpu``: a CUDA GPU by way of CuPy, and cuBLAS beside it
- ``extras``: the command that installs an optional package
"""
