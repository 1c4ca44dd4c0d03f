"""Processes and their limits, for code that may crash, hang, use too much memory or be hostile; and everything
specific to Linux: fork, prctl, resource limits, locks, SIGALRM, terminals, ``/proc``. No other room uses these
(``checks/test_layers.py``), so a port to another system replaces this room.

- ``child``: a child process with private pipes, and the processes that a child leaves running
- ``watched``: a command in a forked process that its parent supervises
- ``bounds``: limits of processor time and memory; ``resources``: cores and memory, available and used
- ``walls``: a sandbox made of ``landlock`` rules (files), ``seccomp`` and limits
- ``address_space``: the same addresses in every child
- ``files``: names of open files, locks, temporary folders and their removal after a kill
- ``terminal``: single keys, and signals
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.engine.process import bounds, files, resources
    from gemm_lessons.engine.process.bounds import GIB, SLOW, Bounds, OutOfTime, affordable
    from gemm_lessons.engine.process.child import (
        Child, ChildDied, ChildHung, Claims, Forked, Parent, adopt_orphans, end_orphans, go_on_in_child, signal_name,
    )  # fmt: skip
    from gemm_lessons.engine.process.files import open_unlinked, remove_leftovers, scratch
    from gemm_lessons.engine.process.resources import meter, seconds_of_children
    from gemm_lessons.engine.process.terminal import END_OF_INPUT, Terminal
    from gemm_lessons.engine.process.walls import WALLS, Reach, confine, leave_namespaces, limit, with_libraries
    from gemm_lessons.engine.process.watched import watch
else:
    __getattr__ = on_first_use(__name__)
