"""A CUDA GPU by way of CuPy: launches cubins and times them beside cuBLAS.

- ``cuda_gpu``: the GPU as this process sees it; ``server``: the process that owns the CUDA context
- ``functions``, ``memory``, ``arena``, ``baseline``: in that process: launches, buffers, one problem, cuBLAS
- ``measure``, ``timing``, ``health``: times, how far to trust them, clock and temperature
- ``records``, ``errors``, ``trouble``: what goes back and forth, and CUDA's errors in words; ``ranges``: NVTX
"""
