"""CUDA C++ -> PTX, machine code, resources, diagnostics: NVRTC, ptxas' words, the disassembler, the cache."""
