"""Processes and their limits, for code that may crash, hang, use too much memory or be hostile; and everything
specific to Linux: fork, prctl, resource limits, locks, SIGALRM, terminals, ``/proc``. No other room uses these
(``checks/test_layers.py``), so a port to another system replaces this room.

- ``child``: a child process with private pipes, and the processes that a child leaves running
- ``watched``: a command in a forked process that its parent supervises
- ``bounds``: limits of processor time and memory; ``resources``: cores and memory, available and used
- ``walls``: a sandbox made of ``landlock`` rules (files), ``seccomp`` (numbers in ``system_calls``) and limits
- ``address_space``: the same addresses in every child
- ``files``: names of open files, locks, temporary folders and their removal after a kill
- ``terminal``: single keys, and signals
"""
