"""The seccomp filter of a submission: which system calls it may make.

The list is of allowed calls. Everything else is refused, also calls that a newer Linux adds. Files are never opened for
writing, metadata cannot be changed, and other processes, the network and settings of the system are out of reach.
Sources: the kernel's documentation of seccomp filters, linux/{seccomp,audit,fcntl,sched}.h and asm-generic/ioctls.h;
for names and numbers of calls, arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux
6.18. From 424 on, all architectures have the same numbers.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping

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
# A number is that of the name after it; the next names have the next numbers.
X86_64 = """
0 read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn
ioctl pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise shmget shmat shmctl
dup dup2 pause nanosleep getitimer alarm setitimer getpid sendfile socket connect accept sendto recvfrom sendmsg
recvmsg shutdown bind listen getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit
wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync fdatasync truncate ftruncate
getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink readlink chmod fchmod chown fchown lchown
umask gettimeofday getrlimit getrusage sysinfo times ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid
getppid getpgrp setsid setreuid setregid getgroups setgroups setresuid getresuid setresgid getresgid getpgid setfsuid
setfsgid getsid capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod
uselib personality ustat statfs fstatfs sysfs getpriority setpriority sched_setparam sched_getparam sched_setscheduler
sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock mlockall
munlockall vhangup modify_ldt pivot_root _sysctl prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday
mount umount2 swapon swapoff reboot sethostname setdomainname iopl ioperm create_module init_module delete_module
get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg afs_syscall tuxcall security gettid readahead
setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr
fremovexattr tkill time futex sched_setaffinity sched_getaffinity set_thread_area io_setup io_destroy io_getevents
io_submit io_cancel get_thread_area lookup_dcookie epoll_create epoll_ctl_old epoll_wait_old remap_file_pages
getdents64 set_tid_address restart_syscall semtimedop fadvise64 timer_create timer_settime timer_gettime
timer_getoverrun timer_delete clock_settime clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl
tgkill utimes vserver mbind set_mempolicy get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify
mq_getsetattr kexec_load waitid add_key request_key keyctl ioprio_set ioprio_get inotify_init inotify_add_watch
inotify_rm_watch migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat unlinkat renameat linkat symlinkat
readlinkat fchmodat faccessat pselect6 ppoll unshare set_robust_list get_robust_list splice tee sync_file_range
vmsplice move_pages utimensat epoll_pwait signalfd timerfd_create eventfd fallocate timerfd_settime timerfd_gettime
accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open
recvmmsg fanotify_init fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg setns
getcpu process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom
memfd_create kexec_file_load bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect
pkey_alloc pkey_free statx io_pgetevents rseq uretprobe uprobe
"""
AARCH64 = """
0 io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr
listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr getcwd lookup_dcookie eventfd2 epoll_create1
epoll_ctl epoll_pwait dup dup3 fcntl inotify_init1 inotify_add_watch inotify_rm_watch ioctl ioprio_set ioprio_get
flock mknodat mkdirat unlinkat symlinkat linkat renameat umount2 mount pivot_root nfsservctl statfs fstatfs truncate
ftruncate fallocate faccessat chdir fchdir chroot fchmod fchmodat fchownat fchown openat close vhangup pipe2 quotactl
getdents64 lseek read write readv writev pread64 pwrite64 preadv pwritev sendfile pselect6 ppoll signalfd4 vmsplice
splice tee readlinkat newfstatat fstat sync fsync fdatasync sync_file_range timerfd_create timerfd_settime
timerfd_gettime utimensat acct capget capset personality exit exit_group waitid set_tid_address unshare futex
set_robust_list get_robust_list nanosleep getitimer setitimer kexec_load init_module delete_module timer_create
timer_gettime timer_getoverrun timer_settime timer_delete clock_settime clock_gettime clock_getres clock_nanosleep
syslog ptrace sched_setparam sched_setscheduler sched_getscheduler sched_getparam sched_setaffinity sched_getaffinity
sched_yield sched_get_priority_max sched_get_priority_min sched_rr_get_interval restart_syscall kill tkill tgkill
sigaltstack rt_sigsuspend rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigreturn
setpriority getpriority reboot setregid setgid setreuid setuid setresuid getresuid setresgid getresgid setfsuid
setfsgid times setpgid getpgid getsid setsid getgroups setgroups uname sethostname setdomainname getrlimit setrlimit
getrusage umask prctl getcpu gettimeofday settimeofday adjtimex getpid getppid getuid geteuid getgid getegid gettid
sysinfo mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr msgget msgctl msgrcv msgsnd semget
semctl semtimedop semop shmget shmctl shmat shmdt socket socketpair bind listen accept connect getsockname getpeername
sendto recvfrom setsockopt getsockopt shutdown sendmsg recvmsg readahead brk munmap mremap add_key request_key keyctl
clone execve mmap fadvise64 swapon swapoff mprotect msync mlock munlock mlockall munlockall mincore madvise
remap_file_pages mbind get_mempolicy set_mempolicy migrate_pages move_pages rt_tgsigqueueinfo perf_event_open accept4
recvmmsg 260 wait4 prlimit64 fanotify_init fanotify_mark name_to_handle_at open_by_handle_at clock_adjtime syncfs
setns sendmmsg process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp
getrandom memfd_create bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect
pkey_alloc pkey_free statx io_pgetevents rseq kexec_file_load
"""
EVERYWHERE = """
424 pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount
fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr
quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv
set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount
lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat removexattrat
open_tree_attr file_getattr file_setattr listns
"""


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


def _numbered(table: str) -> Iterator[tuple[str, int]]:
    number = 0
    for word in table.split():
        if word.isdigit():
            number = int(word)
        else:
            yield word, number
            number += 1


NUMBERS: Mapping[str, Mapping[str, int]] = {
    "x86_64": dict(_numbered(X86_64 + EVERYWHERE)),
    "aarch64": dict(_numbered(AARCH64 + EVERYWHERE)),
}
