"""Child processes and limits for code that may crash, hang or use too much memory.

- ``child``: a child process with private pipes; ``bounds``: limits of processor time and memory
- ``address_space``: the same addresses in every child
"""
