"""``gemm-lessons watch``: run a kernel each time it is saved, controlled by single keys.

- ``session``: the loop of saves, keys, runs and reports; ``changes``: changes of files, by events or by polling
"""
