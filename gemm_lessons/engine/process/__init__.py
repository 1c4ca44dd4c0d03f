"""Processes and their limits, for code that may crash, hang, use too much memory or be hostile; and all that is of
Linux alone: fork, prctl, resource limits, locks, SIGALRM, terminals, ``/proc``. No other room uses these
(``checks/test_layers.py``), so another system needs another form of this room.

- ``child``: a child process with private pipes; ``watched``: a command in a process that its parent watches
- ``orphans``: the processes that a child leaves running
- ``bounds``: limits of processor time and memory; ``usage``: what was used; ``machine``: cores and memory there are
- ``walls``: what a process may reach, by ``landlock`` (files) and ``seccomp`` (calls, numbered in ``system_calls``)
- ``address_space``: the same addresses in every child; ``open_files``: the same names of folders
- ``locks``: who owns a file; ``scratch``: temporary folders that a killed process leaves, and their removal
- ``terminal``: single keys, and signals
"""
