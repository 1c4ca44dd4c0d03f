"""``gemm-lessons watch``: run a kernel each time it is saved, controlled by single keys.

- ``session``: the loop of saves, keys, runs and reports; ``changes``: changes of files, by events or by polling
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.watch.session import Session
else:
    __getattr__ = on_first_use(__name__)
