"""``gemm-lessons watch``: runs a kernel each time it is saved, and obeys single keys."""
