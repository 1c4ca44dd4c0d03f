"""Processes and their limits, for code that may crash, hang, use too much memory or be hostile; and all that is of
Linux alone: fork, prctl, resource limits, locks, SIGALRM, terminals, ``/proc``. No other room uses these
(``checks/test_layers.py``), so another system needs another form of this room.

- ``child``: a child process with private pipes, and the processes that a child leaves running
- ``watched``: a command in a process that its parent watches
- ``bounds``: limits of processor time and memory; ``resources``: cores and memory, available and used
- ``walls``: what a process may reach, by ``landlock`` (files) and ``seccomp`` (calls, numbered in ``system_calls``)
- ``address_space``: the same addresses in every child
- ``files``: the same names of folders, locks, temporary folders that a killed process leaves
- ``terminal``: single keys, and signals
"""
