"""System calls that change or watch files without writing to them, as Python code that tries each one.

``P`` is the path of a file, ``D`` that of its folder, ``N`` a free name beside it, ``F`` a file
that is open for reading. The code leaves in ``got`` the names of the calls that succeeded.
"""

from __future__ import annotations

from gemm_lessons.engine.process.seccomp import NUMBERS

CALLS = {  # -100 is AT_FDCWD
    "chmod": "P, 0o777",
    "fchmod": "F, 0o777",
    "fchmodat": "-100, P, 0o777",
    "fchmodat2": "-100, P, 0o777, 0",
    "chown": "P, 12345, 12345",
    "fchown": "F, 12345, 12345",
    "lchown": "P, 12345, 12345",
    "fchownat": "-100, P, 12345, 12345, 0",
    "utime": "P, None",
    "utimes": "P, None",
    "futimesat": "-100, P, None",
    "utimensat": "-100, P, None, 0",
    "setxattr": "P, b'user.x', b'1', 1, 0",
    "lsetxattr": "P, b'user.x', b'1', 1, 0",
    "fsetxattr": "F, b'user.x', b'1', 1, 0",
    "setxattrat": "-100, P, 0, b'user.x', xattr_args, 16",
    "removexattr": "P, b'user.kept'",
    "lremovexattr": "P, b'user.kept'",
    "fremovexattr": "F, b'user.kept'",
    "removexattrat": "-100, P, 0, b'user.kept'",
    "file_setattr": "-100, P, bytes(24), 24, 0",
    "link": "P, N",
    "linkat": "-100, P, -100, N, 0",
    "symlink": "P, N",
    "symlinkat": "P, -100, N",
    "rename": "P, N",
    "renameat": "-100, P, -100, N",
    "renameat2": "-100, P, -100, N, 0",
    "unlink": "P",
    "unlinkat": "-100, P, 0",
    "rmdir": "D + b'/empty'",
    "mkdir": "N, 0o700",
    "mkdirat": "-100, N, 0o700",
    "mknod": "N, 0o100600, 0",
    "mknodat": "-100, N, 0o100600, 0",
    "creat": "N, 0o600",
    "truncate": "P, 0",
    "ftruncate": "F, 0",
    "fallocate": "F, 0, 0, 4096",
    "open": "P, 0o1000",
    "openat": "-100, N, 0o101, 0o600",
    "openat2": "-100, N, (0o101).to_bytes(8, 'little') + (0o600).to_bytes(8, 'little') + bytes(8), 24",
    "ioctl": "F, 0x40086602, bytes(8)",  # FS_IOC_SETFLAGS
    "flock": "F, 2",
    "fcntl": "F, 1024, 0",  # F_SETLEASE
    "name_to_handle_at": "-100, P, (128).to_bytes(4, 'little') + bytes(132), bytes(4), 0",
    "open_by_handle_at": "F, bytes(136), 0",
    "inotify_init": "",
    "inotify_init1": "0",
    "inotify_add_watch": "F, P, 2",
    "fanotify_init": "0, 0",
    "fanotify_mark": "F, 1, 2, -100, P",
    "memfd_create": "b'x', 0",
    "memfd_secret": "0",
    "userfaultfd": "1",
    "mount": "b'none', D, b'tmpfs', 0, None",
    "umount2": "D, 0",
    "mount_setattr": "-100, D, 0, bytes(32), 32",
    "open_tree": "-100, D, 1",
    "open_tree_attr": "-100, D, 1, bytes(32), 32",
    "chroot": "D",
    "pivot_root": "D, D",
    "quotactl": "0, None, 0, None",
    "quotactl_fd": "F, 0, 0, None",
    "acct": "P",
    "swapon": "P, 0",
    "swapoff": "P",
    "uselib": "P",
    "copy_file_range": "F, None, F, None, 1, 0",
}
# Without walls, these succeed on any file system, for any user.
ALWAYS = frozenset(
    "chmod fchmod fchmodat utime utimes futimesat utimensat link linkat symlink symlinkat rename renameat renameat2 "
    "unlink unlinkat rmdir mkdir mkdirat mknod mknodat creat truncate open openat flock inotify_init inotify_init1 "
    "memfd_create".split()
)

CODE = """
P, D, N = {path!r}, {folder!r}, {free!r}
numbers, calls, renew = {numbers!r}, {calls!r}, {renew!r}
value = ctypes.create_string_buffer(b'1', 1)
xattr_args = ctypes.addressof(value).to_bytes(8, 'little') + (1).to_bytes(4, 'little') + bytes(4)
done = []
for name, arguments in calls.items():
    if name in numbers:
        if renew:
            exec(renew)
        F = os.open({opened!r}, os.O_RDONLY)
        given = eval(f'({{arguments}},)' if arguments else '()')
        plain = [ctypes.c_long(it) if isinstance(it, int) else it for it in given]
        if libc.syscall(numbers[name], *plain) >= 0:
            done.append(name)
        os.close(F)
got = ' '.join(done)
"""


def code(path: str, opened: str, machine: str, renew: str = "") -> str:
    """The code; ``opened`` is the file for ``F``, ``renew`` Python that makes the files anew before each call."""
    folder = path.rpartition("/")[0]
    return CODE.format(path=path.encode(), folder=folder.encode(), free=f"{folder}/free".encode(), opened=opened,
                       numbers=dict(NUMBERS[machine]), calls=CALLS, renew=renew)  # fmt: skip
