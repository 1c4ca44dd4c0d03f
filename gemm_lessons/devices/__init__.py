"""Where a problem's kernels run.

- ``device``: what a device does: launches the kernels of one problem; ``choose``: ``--device``
- ``simulated``: the simulator; ``shadowed_gpu``: a GPU whose launches the simulator repeats
- ``gpu``: a CUDA GPU by way of CuPy, and cuBLAS beside it
"""
