"""What one memory access costs: wavefronts of shared memory, sectors of global memory."""
