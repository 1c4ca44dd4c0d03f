"""Child processes and limits for code that may crash, hang or use too much memory.

- ``child``: a child process with private pipes; ``bounds``: limits of processor time and memory
- ``orphans``: the processes that a child leaves running
- ``address_space``: the same addresses in every child

Most of what only Linux has is in this room: prctl, resource limits, SIGALRM, ``/proc``. The rest is where it belongs to
more than a process: Landlock and ``/proc/self/fd`` in ``compiler``, walls, limits and locks in ``grading``, limits of a
GPU's process in ``devices.gpu``.
"""
