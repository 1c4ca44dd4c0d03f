"""A CUDA GPU by way of CuPy: launches cubins and times them beside cuBLAS.

    cubins, Grid, arguments --Gpu (this process)--> messages --> server (owns the CUDA context) --> arrays, Measurement

- ``cuda_gpu``: the GPU as this process sees it; ``server``: the process that owns the CUDA context
- ``functions``, ``memory``, ``arena``, ``baseline``: in that process: launches, buffers, one problem, cuBLAS
- ``measure``, ``hold``, ``timing``, ``health``: times, the queue held meanwhile, their reliability, clock and power
- ``records``, ``errors``, ``trouble``: records passed to and fro, and CUDA's errors in words; ``ranges``: NVTX
"""
