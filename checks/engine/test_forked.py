"""Every thread that waits for a forked process gets its exit code, even if something else has reaped it."""

from __future__ import annotations

import os
import signal
import threading

from gemm_lessons.engine.process.child import _Process


def _ended(code: int) -> int:
    pid = os.fork()
    if not pid:
        os._exit(code)
    return pid


def test_many_threads_wait_for_one_process() -> None:
    for _ in range(20):
        process, codes = _Process(_ended(3)), list[int]()
        threads = [threading.Thread(target=lambda p=process, c=codes: c.append(p.wait(5))) for _ in range(8)]
        for it in threads:
            it.start()
        for it in threads:
            it.join()
        assert codes == [3] * 8


def test_a_process_that_was_reaped_elsewhere_has_been_killed() -> None:
    process = _Process(_ended(0))
    os.waitpid(process.pid, 0)  # as end_orphans does
    assert process.wait(5) == -signal.SIGKILL
