"""Write ``compile_commands.json``, with which clangd parses each lesson's kernel for the lesson's tile sizes.

clang supports CUDA C++ by itself, but needs NVIDIA's headers, which are installed as wheels, and those of the C++
library, which belong to a compiler for the host. Where the latter are missing, clang gets ``cuda_names.h`` and
``headers/plain`` instead, which declare everything that the lessons use. ``mma.h`` is always the kit's: NVIDIA's is for
NVIDIA's compiler.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gemm_lessons.course import Lesson
from gemm_lessons.engine.compiler import nvrtc

NAMES = Path(__file__).parent / "cuda_names.h"
HEADERS = Path(__file__).parent / "headers"
CUDA = 13
CXX_HEADERS = (Path("/usr/include/c++"), Path("/usr/local/include/c++"))  # headers of libstdc++ and of libc++
SOURCES = ("kernel.cu", "stub.cu", "solution.cu", "bug.cu")
HOW = ("clang++", "-xcuda", "-std=c++17", "--cuda-device-only", "-nocudalib", "-Wno-unknown-cuda-version")


def commands(lessons: Sequence[Lesson], architecture: str, headers: Path | None) -> str:
    """Return the text of ``compile_commands.json``. ``architecture``: the course's; a lesson may have its own.
    ``headers``: the CUDA folder whose ``include`` is to be read, if any."""
    own = ["-nocudainc", "-nostdlibinc", "-include", str(NAMES), f"-I{HEADERS / 'plain'}"]
    cuda = own if headers is None else [f"--cuda-path={headers}"]
    entries = [
        {
            "directory": str(lesson.directory.resolve()),
            "file": name,
            "arguments": [
                *HOW,
                f"--cuda-gpu-arch={lesson.architecture or architecture}",
                *cuda,
                f"-I{HEADERS}",
                *(f"-D{size}={value}" for size, value in lesson.tile.defines.items()),
                *(f"-I{folder.resolve()}" for folder in lesson.include_dirs),
                name,
            ],
        }
        for lesson in lessons
        for name in SOURCES
    ]
    return json.dumps(entries, indent=1) + "\n"


def cuda_headers() -> Path | None:
    """Return the CUDA folder with the headers; None if clang cannot use them because the C++ library's are missing."""
    if not any(folder.is_dir() for folder in CXX_HEADERS):
        return None
    return next((folder.parent for folder in nvrtc.include_folders(CUDA) if folder.name == "include"), None)
