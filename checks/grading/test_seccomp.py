"""The filter of system calls, for every number on both processors, without the processor."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from checks.grading.bpf import answer
from checks.grading.metadata import ALWAYS, CALLS, code
from checks.grading.sandbox import HEAD
from gemm_lessons.engine.process import seccomp
from gemm_lessons.engine.process.seccomp import (
    ALLOW,
    ALLOWED,
    ARCHITECTURES,
    NUMBERS,
    REFUSE,
    STARTING,
    UNKNOWN,
    program,
)

PID = 7
BY_ARGUMENT = frozenset(seccomp._by_argument(False, PID))
HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+) (\d+)"),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+) (\d+)"),
}
OTHER_NAMES = {"fstatat": "newfstatat", "arch_specific_syscall": "", "syscalls": ""}  # of the generic header
WIDE_TIME = range(403, 424)  # 64-bit time for 32-bit processors
ELSEWHERE = {"sync_file_range2"}  # the same number on other architectures


@pytest.mark.parametrize("machine", NUMBERS)
@pytest.mark.parametrize("starts", [False, True])
def test_every_number(machine: str, starts: bool) -> None:
    names = {number: name for name, number in NUMBERS[machine].items()}
    steps, right = program(machine, starts, PID), ARCHITECTURES[machine]
    may = ALLOWED | (STARTING if starts else set())
    for number in (*range(2048), *(0x4000_0000 + it for it in range(600)), 1 << 31, (1 << 32) - 1):
        name = names.get(number, "")
        for wrong in {*ARCHITECTURES.values(), 0x4000_0003, 0} - {right}:  # 0x40000003: 32-bit x86
            assert answer(steps, wrong, number) == REFUSE
        if name in BY_ARGUMENT:
            continue
        expected = ALLOW if name in may else UNKNOWN if name in seccomp.FALL_BACK else REFUSE if name else None
        said = answer(steps, right, number)
        assert said == expected if expected else said in (REFUSE, UNKNOWN), (number, name)


@pytest.mark.parametrize("machine", NUMBERS)
def test_arguments(machine: str) -> None:
    numbers, right = NUMBERS[machine], ARCHITECTURES[machine]

    def said(name: str, *arguments: int, starts: bool = False) -> bool:
        return answer(program(machine, starts, PID), right, numbers[name], arguments) == ALLOW

    for flags in (0, 0o4000, 0o2000000, 0o200000):  # O_NONBLOCK, O_CLOEXEC, O_DIRECTORY
        assert said("openat", -100, 0, flags)
    for flags in (1, 2, 3, 0o100, 0o1000, 0o1002, 0o20200002, (1 << 32) + 1):  # O_TMPFILE | O_RDWR
        assert not said("openat", -100, 0, flags), flags
    assert [cmd for cmd in range(1100) if said("fcntl", 3, cmd)] == [0, 1, 2, 3, 4, 1030, 1032]
    assert said("ioctl", 1, 0x5401)
    assert not any(said("ioctl", 1, it) for it in (0x4008_6602, 0x4004_6602, 0x401C_5820, 0x5412, 0x5453))
    thread, process = 0x3D0F00, 0x1200011
    assert (said("clone", thread), said("clone", process), said("clone", process, starts=True)) == (True, False, True)
    for space in (0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000):
        assert not said("clone", thread | space)
        assert not said("clone", process | space, starts=True)
    assert (said("tgkill", PID, PID, 6), said("tgkill", PID + 1, 1, 6)) == (True, False)
    assert [it for it in range(200) if not said("madvise", 0, 4096, it)] == [12, 100, 101]
    assert not any(said("prctl", it, 1) for it in (26, 28, 32, 33, 35, 57, 62, 67))
    assert all(said("prctl", it) for it in (1, 15, 22, 38, 0x5356_4D41))
    assert (said("prlimit64", 0), said("prlimit64", PID)) == (True, False)


def test_what_changes_files_is_not_allowed() -> None:
    """The list that the sandbox's own test tries is complete, as far as names say."""
    tried = re.compile(
        r"chmod|chown|utime|setx|removex|setattr$|link|rename|mkdir|mknod|rmdir|creat|trunc|notify|memfd"
    )
    names = {name for table in NUMBERS.values() for name in table if tried.search(name)}
    passed_over = {"readlink", "readlinkat", "mq_unlink", "mq_notify", "timer_create", "epoll_create", "epoll_create1",
                   "timerfd_create", "io_uring_setup", "sched_setattr", "mq_getsetattr", "inotify_rm_watch",
                   "create_module"}  # fmt: skip
    assert names - passed_over - {"landlock_create_ruleset"} <= CALLS.keys()
    assert not CALLS.keys() & ALLOWED
    assert not ALLOWED & STARTING
    assert NUMBERS["x86_64"].keys() >= ALLOWED | STARTING | BY_ARGUMENT


@pytest.mark.parametrize("machine", NUMBERS)
def test_numbers_are_those_of_the_headers(machine: str) -> None:
    path, pattern = HEADERS[machine]
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    defined = {OTHER_NAMES.get(name, name): int(number) for name, number in re.findall(pattern, path.read_text())}
    common = {name: number for name, number in defined.items() if name in NUMBERS[machine]}
    assert common == {name: NUMBERS[machine][name] for name in common}
    assert len(common) > 280
    ours = {name for name, number in defined.items() if name and number <= 450 and number not in WIDE_TIME}
    assert ours - common.keys() <= ELSEWHERE


def test_calls_are_written_rightly(tmp_path: Path) -> None:
    """Without walls the calls succeed, so that a test in which they fail proves that a wall stops them."""
    renew = (
        "import shutil\nshutil.rmtree(D)\nos.makedirs(D + b'/empty')\nopen(P, 'w').write('x')\n"
        "try: os.setxattr(P, b'user.kept', b'1')\nexcept OSError: pass"
    )
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    risky = {"mount", "umount2", "mount_setattr", "open_tree", "open_tree_attr", "chroot", "pivot_root", "swapon",
             "swapoff", "acct", "quotactl", "quotactl_fd", "uselib"}  # fmt: skip
    machine = platform.machine()
    text = HEAD + code(str(path), str(path), machine, renew).replace(
        "if name in numbers:", f"if name in numbers and name not in {risky!r}:"
    )
    done = subprocess.run([sys.executable, "-c", text + "\nprint(got)"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) >= ALWAYS & NUMBERS[machine].keys()
