"""Check the environment of a run. Each check says what was found, or what is missing and what to do.

A GPU, its driver and CuPy are optional: the simulator runs without them. Imports are inside functions, because a check
must report a broken package instead of failing on it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from typing import Literal

from gemm_lessons.course import CommandError, Course, LessonError, find_course, load_lesson, packaged_course
from gemm_lessons.devices import install_extra
from gemm_lessons.engine import KitError
from gemm_lessons.engine.records import dataclass

OLDEST_PYTHON = (3, 11)
AGAIN = "install it again: pip install --force-reinstall gemm-lessons"
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
PROBE = """
#include <cuda_fp16.h>
extern "C" __global__ void probe(float *out) { out[threadIdx.x] = __half2float(__float2half(2.0f)) * threadIdx.x; }
"""


@dataclass(frozen=True)
class Check:
    """One item to check. ``missing`` breaks runs; ``optional`` is absent and not needed."""

    name: str
    state: Literal["found", "missing", "optional"]
    detail: str
    remedy: str = ""


def examine() -> list[Check]:
    """Return all checks, in the order in which a run needs things."""
    checks = [_python(), _platform()]
    checks += [_package(name) for name in ("numpy", "nvtx", "cuda-bindings")]
    checks += [_guarded("NVRTC", _nvrtc), _guarded("nvdisasm", _disassembler), _guarded("CUDA headers", _headers)]
    checks += [_guarded("compile and simulate", _probe)]
    checks += [*_driver(), _cupy()]
    return checks + _course()


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (KitError, ImportError, OSError, subprocess.SubprocessError) as error:
        return Check(name, "missing", str(error), AGAIN)


def _python() -> Check:
    detail = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return Check("Python", "missing", detail, "use Python 3.11 or newer")
    return Check("Python", "found", detail)


def _platform() -> Check:
    system, machine = platform.system(), platform.machine()
    known = system == "Linux" and machine in ("x86_64", "aarch64")
    remedy = "" if known else "the kit needs Linux on x86-64 or aarch64: gemm-lessons read install"
    return Check("platform", "found" if known else "optional", f"{system} {machine}", remedy)


def _package(name: str) -> Check:
    try:
        return Check(name, "found", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(name, "missing", "not installed", AGAIN)


def _nvrtc() -> Check:
    from gemm_lessons.engine.compiler import nvrtc

    major, minor = nvrtc.load(13).version
    return Check("NVRTC", "found", f"{major}.{minor} (the CUDA C++ compiler)")


def _disassembler() -> Check:
    from gemm_lessons.engine.compiler import nvrtc

    path = nvrtc.disassembler()
    if path is None:
        return Check("nvdisasm", "missing", "not found", AGAIN)
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=True)
    return Check("nvdisasm", "found", done.stdout.strip().splitlines()[-1])


def _headers() -> Check:
    from gemm_lessons.engine.compiler import nvrtc

    folders = nvrtc.include_folders(13)
    if not folders:
        return Check("CUDA headers", "missing", "cuda_fp16.h not found", AGAIN)
    return Check("CUDA headers", "found", str(folders[0]))


def _probe() -> Check:
    """Check the whole path: compile a kernel that includes a CUDA header, run it, compare its answer."""
    import numpy as np

    from gemm_lessons.engine import CompileError, UnsupportedKernel, simulate

    name = "compile and simulate"
    out = np.zeros(32, np.float32)
    try:
        simulate(PROBE, "probe", 1, 32, [out], path="probe.cu")
    except (CompileError, UnsupportedKernel) as error:
        return Check(name, "missing", f"the probe kernel failed: {error}", AGAIN)
    if not np.array_equal(out, 2 * np.arange(32)):
        return Check(name, "missing", "the probe kernel gave a wrong answer", AGAIN)
    return Check(name, "found", "a probe kernel gave the right answer")


def _driver() -> list[Check]:
    """Check the driver, its GPUs, and which lessons the least of them runs."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return [Check("GPU driver", "optional", "none; kernels run on the built-in simulator")]
    version, count = ctypes.c_int(), ctypes.c_int()
    status = (
        cuda.cuInit(0) or cuda.cuDriverGetVersion(ctypes.byref(version)) or cuda.cuDeviceGetCount(ctypes.byref(count))
    )
    if status or not count.value:
        reason = f"CUDA error {status}" if status else "no GPU"
        unusable = f"present, but unusable ({reason}); the simulator is used"
        return [Check("GPU driver", "optional", unusable, "try nvidia-smi")]
    names, numbers = [], []
    for index in range(count.value):
        buffer = ctypes.create_string_buffer(128)
        cuda.cuDeviceGetName(buffer, 128, index)
        major, minor = ctypes.c_int(), ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(major), CAPABILITY_MAJOR, index)
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), CAPABILITY_MINOR, index)
        names.append(f"{buffer.value.decode(errors='replace')} (compute capability {major.value}.{minor.value})")
        numbers.append(10 * major.value + minor.value)
    cuda_version = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    return [Check("GPU driver", "found", f"{cuda_version}: {', '.join(names)}"), _lessons_for(f"sm_{min(numbers)}")]


def _lessons_for(arch: str) -> Check:
    """Name the lessons that need more than a GPU of this architecture."""
    from gemm_lessons.running import missing_capability

    course, lessons = packaged_course(), []
    for name in course.names:
        with contextlib.suppress(LessonError):  # the course's own check reports it
            lessons.append(load_lesson(course.lessons_dir / name))
    needs = {it.name: missing_capability(arch, it.architecture, it.needs) for it in lessons}
    groups = {what: [name for name in needs if needs[name] == what] for what in needs.values() if what}
    told = [f"{', '.join(names)} need{'s' * (len(names) == 1)} {what}" for what, names in groups.items()]
    count = sum(not what for what in needs.values())
    remedy = f"compute capability: {'; '.join(told)}. Run them with --device sim" if told else ""
    return Check("lessons on a GPU", "optional" if told else "found", f"{count} of {len(lessons)}", remedy)


def _cupy() -> Check:
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            return Check("CuPy", "found", f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    remedy = f"with a GPU and driver 580 or newer: {install_extra('cuda13')}; older: {install_extra('cuda12')}"
    return Check("CuPy", "optional", "not installed; only runs on a GPU need it", remedy)


def _course() -> list[Check]:
    try:
        packaged = _lessons("packaged lessons", packaged_course())
        course = find_course()
    except (KitError, CommandError) as error:
        return [Check("course", "missing", str(error))]
    if course is None:
        return [packaged, Check("course folder", "optional", "none here", "make one: gemm-lessons init my-course")]
    folder = Check("course folder", "found", str(course.root))
    if not os.access(course.root, os.W_OK):
        folder = Check("course folder", "optional", f"{course.root} is read only", "progress will not be saved")
    if course.root == packaged_course().root:
        return [packaged, folder]
    return [packaged, folder, _lessons("its lessons", course)]


def _lessons(name: str, course: Course) -> Check:
    broken = [str(it) for it in course.all_lessons().values() if isinstance(it, LessonError)]
    if broken:
        return Check(name, "missing", "\n".join(broken), "correct the file, or copy it anew: gemm-lessons init DIR")
    return Check(name, "found", f"{len(course.names)} in {course.lessons_dir}")
