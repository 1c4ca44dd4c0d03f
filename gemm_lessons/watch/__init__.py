"""``gemm-lessons watch``: run a kernel each time it is saved, controlled by single keys."""
