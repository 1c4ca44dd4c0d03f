"""The seccomp filter of a submission: which system calls it may make.

The list is of allowed calls. Everything else is refused, also calls that a newer Linux adds. Files are never opened for
writing, metadata cannot be changed, and other processes, the network and settings of the system are out of reach.
Sources: the kernel's documentation of seccomp filters, linux/{seccomp,audit,fcntl,sched}.h and asm-generic/ioctls.h.
Numbers of calls are in ``system_calls.txt``.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Step = tuple[int, int, int, int]  # BPF: code, instructions to skip if true, if false, operand

SECCOMP, FILTER = 22, 2  # prctl
ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}  # AUDIT_ARCH_...
LOAD, EQUAL, ABOVE, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06
ALLOW, REFUSE, UNKNOWN = 0x7FFF_0000, 0x0005_0001, 0x0005_0026  # the errors are EPERM and ENOSYS
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

ALLOWED = frozenset(
    # files that are open
    "read readv pread64 preadv preadv2 write writev pwrite64 pwritev pwritev2 lseek readahead fadvise64 close "
    "close_range dup dup2 dup3 pipe pipe2 poll ppoll select pselect6 epoll_create "
    "epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 timerfd_create timerfd_settime "
    "timerfd_gettime signalfd signalfd4 "
    # what files there are
    "stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat getdents "
    "getdents64 getcwd chdir fchdir cachestat "
    # memory
    "mmap mprotect munmap brk mremap msync mincore get_mempolicy membarrier map_shadow_stack mseal pkey_alloc "
    "pkey_free pkey_mprotect arch_prctl "
    # time
    "nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times getitimer setitimer alarm "
    "timer_create timer_settime timer_gettime timer_getoverrun timer_delete "
    # its own signals and threads
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack pause "
    "restart_syscall futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list set_tid_address rseq "
    "sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min "
    "getcpu gettid exit exit_group "
    # itself
    "getpid getppid getuid geteuid getgid getegid getgroups getresuid getresgid getpgid getpgrp getsid getpriority "
    "getrlimit setrlimit getrusage sysinfo uname umask capget getrandom wait4 waitid "
    # more walls
    "landlock_create_ruleset landlock_add_rule landlock_restrict_self".split()
)
STARTING = frozenset("fork vfork execve".split())  # of a process that may start a program
FALL_BACK = frozenset("clone3 openat2".split())  # flags are in memory; with ENOSYS, libraries use clone and openat
WRITING = 0o3 | 0o100 | 0o1000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC
FCNTL = (0, 1, 2, 3, 4, 1030, 1032)  # F_DUPFD to F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ: no locks, leases, dnotify
IOCTL = (0x5401, 0x802C_542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # is it a terminal? FION*, FIO*CLEX
MADVISE = (
    12,
    100,
    101,
)  # refused: MADV_MERGEABLE compares pages with other processes', MADV_HWPOISON takes memory away
# PR_SET_PDEATHSIG to PR_SET_DUMPABLE, names of threads and mappings, more filters: of this process alone
PRCTL = (1, 2, 3, 4, 15, 16, 21, 22, 23, 36, 37, 38, 39, 0x5356_4D41)
THREAD, NAMESPACES = 0x1_0000, 0x7E02_0000


def install(starts: bool) -> bool:
    """Restrict this process permanently; ``starts``: it may start programs. Return False if Linux cannot."""
    if platform.machine() not in ARCHITECTURES:
        return False
    steps = program(platform.machine(), starts, os.getpid())
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    whole = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    return bool(ctypes.CDLL(None).prctl(SECCOMP, FILTER, whole, 0, 0) == 0)


def program(machine: str, starts: bool, pid: int) -> list[Step]:
    """Return the filter for a processor (``x86_64``, ``aarch64``) and the process ``pid``."""
    numbers = NUMBERS[machine]
    steps = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, ARCHITECTURES[machine]), (RETURN, 0, 0, REFUSE)]
    steps += [(LOAD, 0, 0, NUMBER)]
    for name, block in _by_argument(starts, pid).items():
        if name in numbers:
            steps += [(EQUAL, 0, len(block), numbers[name]), *block]
    for low, high in _ranges(numbers[name] for name in ALLOWED | (STARTING if starts else set()) if name in numbers):
        steps += [(AT_LEAST, 0, 2, low), (ABOVE, 1, 0, high), (RETURN, 0, 0, ALLOW)]
    for name in sorted(FALL_BACK):
        steps += [(EQUAL, 0, 1, numbers[name]), (RETURN, 0, 0, UNKNOWN)]
    return [*steps, (ABOVE, 0, 1, max(numbers.values())), (RETURN, 0, 0, UNKNOWN), (RETURN, 0, 0, REFUSE)]


def _by_argument(starts: bool, pid: int) -> Mapping[str, list[Step]]:
    """Return, by call, the steps that decide it by one argument. The last step of each returns."""
    thread = _without(0, NAMESPACES) if starts else _without(0, NAMESPACES, needed=THREAD)
    return {
        "open": _without(1, WRITING),
        "openat": _without(2, WRITING),
        "fcntl": _one_of(1, FCNTL),
        "ioctl": _one_of(1, IOCTL),
        "madvise": _one_of(2, MADVISE, REFUSE, ALLOW),
        "prctl": _one_of(0, PRCTL),
        "clone": thread,
        "tgkill": _one_of(0, (pid,)),  # abort()
        "prlimit64": _one_of(0, (0,)),
    }


def _argument(number: int) -> Step:
    return LOAD, 0, 0, ARGUMENTS + 8 * number  # the lower half


def _one_of(number: int, values: Iterable[int], found: int = ALLOW, other: int = REFUSE) -> list[Step]:
    steps = [_argument(number)]
    for value in values:
        steps += [(EQUAL, 0, 1, value), (RETURN, 0, 0, found)]
    return [*steps, (RETURN, 0, 0, other)]


def _without(number: int, bits: int, needed: int = 0) -> list[Step]:
    steps = [_argument(number), (ANY_BIT, 0, 1, bits), (RETURN, 0, 0, REFUSE)]
    if needed:
        steps += [(ANY_BIT, 1, 0, needed), (RETURN, 0, 0, REFUSE)]
    return [*steps, (RETURN, 0, 0, ALLOW)]


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return runs of consecutive numbers as (first, last)."""
    runs = itertools.groupby(enumerate(sorted(numbers)), lambda it: it[1] - it[0])
    whole = [[number for _, number in run] for _, run in runs]
    return [(run[0], run[-1]) for run in whole]


def _numbered(words: Iterable[str]) -> Iterator[tuple[str, int]]:
    number = 0
    for word in words:
        if word.isdigit():
            number = int(word)
        else:
            yield word, number
            number += 1


def _numbers() -> Mapping[str, Mapping[str, int]]:
    _, *parts = Path(__file__).with_name("system_calls.txt").read_text(encoding="ascii").split("\n\n")
    found = {name: dict(_numbered(words)) for name, *words in map(str.split, parts)}
    everywhere = found.pop("everywhere")
    return {name: numbers | everywhere for name, numbers in found.items()}


NUMBERS = _numbers()  # by processor and name
