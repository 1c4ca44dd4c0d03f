"""Find and bind NVRTC, the CUDA C++ compiler as a library. It needs no driver and no GPU.

One small protocol has two bindings. CUDA 13, the base install: NVIDIA's ``cuda-bindings``. CUDA 12, the extra
``[cuda12]`` for drivers that are too old for CUDA 13: the library itself through ``ctypes``, because ``cuda-bindings``
and CuPy both get "the" NVRTC from ``cuda-pathfinder``, which is one per process and prefers the newer of two installed.
All of it is imported and loaded inside functions: ``gemm-lessons list`` must start without.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.engine.records.frozen import dataclass

CUDA_MAJORS = (13, 12)
# CUDA 13 dropped everything before Turing (release notes of CUDA 13.0, "Deprecated architectures").
OLDEST_ARCH = {13: 75, 12: 50}


@dataclass(frozen=True)
class Translation:
    """NVRTC's result for one program. If ``ok`` is False, only ``log`` (and sometimes ``ptx``) is meaningful.

    ``called``: (folder, its name in the output) of every folder that ``neutral_paths`` renamed. ``read``: the files
    that NVRTC opened, if it was to list them (``files_read``).
    """

    ok: bool
    log: str
    lowered: str = ""
    ptx: str = ""
    cubin: bytes = b""
    called: tuple[tuple[str, str], ...] = ()
    read: tuple[str, ...] = ()


class Nvrtc(Protocol):
    """One loaded NVRTC."""

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor CUDA version."""

    def translate(self, source: str, name: str, options: Sequence[str], expression: str) -> Translation:
        """Compile ``source`` (named ``name`` in messages and line tables); ``expression`` names the kernel."""


class BindingsNvrtc:
    """NVRTC through ``cuda.bindings``. Every call returns a tuple that starts with a status."""

    def __init__(self) -> None:
        from cuda.bindings import nvrtc

        self._api: Any = nvrtc
        self._ok = nvrtc.nvrtcResult.NVRTC_SUCCESS
        self.version: tuple[int, int] = self._call("nvrtcVersion")

    def _call(self, function: str, *arguments: Any) -> Any:
        status, *values = getattr(self._api, function)(*arguments)
        if status != self._ok:
            raise KitError(f"NVRTC: {function} failed with {status.name}")
        return values[0] if len(values) == 1 else tuple(values)

    def _read(self, program: Any, what: str) -> bytes:
        size = self._call(f"nvrtcGet{what}Size", program)
        # A bytearray, not b" " * size as in NVIDIA's examples: CPython shares one-byte bytes objects.
        data = bytearray(size)
        if size:
            self._call(f"nvrtcGet{what}", program, data)
        return bytes(data)

    def translate(self, source: str, name: str, options: Sequence[str], expression: str) -> Translation:
        """Compile, as the protocol says. Raise ``KitError`` if NVRTC itself fails."""
        program = self._call("nvrtcCreateProgram", source.encode(), name.encode(errors="replace"), 0, [], [])
        try:
            self._call("nvrtcAddNameExpression", program, expression.encode())
            (status,) = self._api.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
            log = _text(self._read(program, "ProgramLog"))
            if status == self._ok:
                lowered = self._call("nvrtcGetLoweredName", program, expression.encode()).decode()
                return Translation(True, log, lowered, _text(self._read(program, "PTX")), self._read(program, "CUBIN"))
            # ptxas runs after the PTX is made, and the PTX explains its errors.
            ptx = _text(self._read(program, "PTX")) if "ptxas" in log else ""
            return Translation(False, log or status.name, ptx=ptx)
        finally:
            self._call("nvrtcDestroyProgram", program)


class LibraryNvrtc:
    """NVRTC through its C interface, from a given file. Source: NVIDIA, "NVRTC", chapter "User Interface"."""

    def __init__(self, path: Path) -> None:
        self._api = ctypes.CDLL(str(path))
        self._api.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version: tuple[int, int] = (major.value, minor.value)

    def _call(self, function: str, *arguments: Any) -> None:
        if status := self._api[function](*arguments):
            raise KitError(f"NVRTC: {function} failed with {self._api.nvrtcGetErrorString(status).decode()}")

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        if size.value:
            self._call(f"nvrtcGet{what}", program, data)
        return data.raw

    def translate(self, source: str, name: str, options: Sequence[str], expression: str) -> Translation:
        """Compile, as the protocol says. Raise ``KitError`` if NVRTC itself fails."""
        program = ctypes.c_void_p()
        title = name.encode(errors="replace")
        self._call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), title, 0, None, None)
        try:
            self._call("nvrtcAddNameExpression", program, expression.encode())
            arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            status = self._api.nvrtcCompileProgram(program, len(options), arguments)
            log = _text(self._read(program, "ProgramLog"))
            if status == 0:
                lowered = ctypes.c_char_p()
                self._call("nvrtcGetLoweredName", program, expression.encode(), ctypes.byref(lowered))
                entry = (lowered.value or b"").decode()
                return Translation(True, log, entry, _text(self._read(program, "PTX")), self._read(program, "CUBIN"))
            ptx = _text(self._read(program, "PTX")) if "ptxas" in log else ""
            return Translation(False, log or self._api.nvrtcGetErrorString(status).decode(), ptx=ptx)
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))


def _text(data: bytes) -> str:
    text = data.decode(errors="replace").rstrip("\0")
    return text.replace("\0", "\n")  # NVRTC ends the part of the log that ptxas wrote with a NUL of its own


_loaded: dict[int, Nvrtc] = {}


def load(major: int) -> Nvrtc:
    """Return the NVRTC of CUDA ``major`` (13 or 12). Raise ``KitError`` that says what to install."""
    if major not in _loaded:
        _loaded[major] = _load(major)
    return _loaded[major]


def _load(major: int) -> Nvrtc:
    extra = "" if major == 13 else "[cuda12]"
    advice = f'install it with: pip install "gemm-lessons{extra}"; `gemm-lessons doctor` shows what is there'
    if major == 12:
        advice = f"GPUs before sm_{OLDEST_ARCH[13]} and drivers of CUDA 12 need its code; {advice}"
    try:
        if major == 13:
            bindings = BindingsNvrtc()
            if bindings.version[0] == major:
                return bindings
        nvrtc = LibraryNvrtc(library(major) or Path(f"libnvrtc.so.{major}"))
    except ImportError as error:
        raise KitError(f"NVRTC of CUDA {major} is not installed ({error}); {advice}") from error
    except (RuntimeError, OSError) as error:  # the binding is installed, the library is not
        why = str(error).partition("\n")[0]
        raise KitError(f"NVRTC of CUDA {major} could not be loaded ({why}); {advice}") from error
    return nvrtc


def choose_major(arch: str, driver_major: int | None = None) -> int:
    """Return the CUDA major to compile with: the newest that knows ``arch`` (``sm_90``) and that the driver can load.

    ``driver_major`` is the CUDA major that the driver supports (``cuDriverGetVersion() // 1000``), None without one.
    """
    number = int("".join(c for c in arch.removeprefix("sm_") if c.isdigit()) or 0)
    for major in CUDA_MAJORS:
        if number >= OLDEST_ARCH[major] and (driver_major is None or driver_major >= major):
            return major
    return CUDA_MAJORS[-1]


@cache
def wheel_folders() -> tuple[Path, ...]:
    """Return the ``nvidia`` folders of site-packages, where NVIDIA's wheels put libraries, headers and programs."""
    spec = importlib.util.find_spec("nvidia")
    return tuple(Path(place) for place in spec.submodule_search_locations or ()) if spec else ()


def _toolkits() -> list[Path]:
    places = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    return [Path(place) for place in places if place and Path(place).is_dir()]


def library(major: int) -> Path | None:
    """Return the NVRTC shared library of a wheel, else of an installed toolkit, else None."""
    places = [folder / place for folder in wheel_folders() for place in (f"cu{major}/lib", "cuda_nvrtc/lib")]
    for place in (*places, *(toolkit / "lib64" for toolkit in _toolkits())):
        found = place / f"libnvrtc.so.{major}"
        if found.is_file():
            return found
    return None


def library_folders(major: int) -> list[Path]:
    """Return the folder of ``library``, which also holds NVRTC's library of built-ins; empty if there is none."""
    found = library(major)
    return [found.parent] if found else []


def library_files(library: Path) -> list[Path]:
    """Return the library and the library of built-ins beside it, whose name has the version."""
    return [library, *sorted(library.parent.glob("libnvrtc-builtins.so.*"))]


def is_library_of(major: int, version: tuple[int, int]) -> bool:
    """Return whether a loaded NVRTC of this version can be ``library(major)``: another copy may be loaded."""
    found = library(major)
    return found is not None and any(found.parent.glob(f"libnvrtc-builtins.so.{version[0]}.{version[1]}*"))


def include_folders(major: int) -> list[Path]:
    """Return the folders of CUDA's headers (``cuda_fp16.h``, ``mma.h``): the wheels', else an installed toolkit's."""
    # NVRTC 12 reads most headers of CUDA 13 too (tried with 12.9: cuda_fp16.h, cuda_bf16.h, mma.h; not cuda_fp8.h).
    newest = ("cu13/include", "cu13/include/cccl")
    places = newest if major == 13 else ("cuda_runtime/include", "cuda_nvcc/include", newest[0])
    found = [folder / place for folder in wheel_folders() for place in places if (folder / place).is_dir()]
    return found or [toolkit / "include" for toolkit in _toolkits() if (toolkit / "include" / "cuda_fp16.h").is_file()]


def disassembler() -> Path | None:
    """Return ``nvdisasm`` of the wheel, else of an installed toolkit, else None."""
    for place in (*(folder / "cu13" for folder in wheel_folders()), *_toolkits()):
        found = place / "bin" / "nvdisasm"
        if found.is_file() and os.access(found, os.X_OK):
            return found
    return None
