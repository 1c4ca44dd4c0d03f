"""Where a kernel, its headers and the kit lie changes nothing: NVRTC gets names of one length, people get their own."""

from __future__ import annotations

import os
import re

import pytest

from checks.grading import fixtures
from gemm_lessons.compiler import compile as compiling
from gemm_lessons.compiler import nvrtc
from gemm_lessons.compiler.padding import LENGTH, in_padded, padded, plain
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.tiles import typed

HEADER = """__device__ inline float twice(float x)
{
    return 2 * x;
}
"""
KERNEL = """#include "deeper/first.cuh"
extern "C" __global__ void gemm(float *x)
{
    x[0] = twice(x[1]);
    printf("%s, line %d", __FILE__, __LINE__);
}
"""
LENGTHS = (109, 145, 163)  # of the folder: without padding, NVRTC 13.5 makes two programs of each of the kernels below


def test_a_padded_name_is_another_one_of_the_same_folder(tmp_path):
    for folder in (str(tmp_path), "/tmp/größe", "/tmp/a\udcffb", "/"):
        file = os.path.join(folder, "k.cu")
        assert len(padded(folder).encode(errors="replace")) == LENGTH
        assert re.sub("^/+", "/", in_padded(file)) == file
        assert plain(f"{in_padded(file)}(3): error", ["/", folder]) == f"{file}(3): error"
    assert os.path.samefile(padded(str(tmp_path)), tmp_path)
    for other in ("", "include", f"/{'far/' * LENGTH}"):
        assert padded(other) == other


@pytest.mark.parametrize("folder", ["a", "größe und so", "/".join(["far" * 20] * 6)])
def test_files_are_found_and_called_what_they_are(compiled, errors, tmp_path, folder):
    """Also where a name is longer than the padding."""
    home = tmp_path / folder
    (home / "deeper").mkdir(parents=True)
    (home / "deeper" / "first.cuh").write_text('#include "second.cuh"\n')
    (home / "deeper" / "second.cuh").write_text(HEADER)
    path, header = str(home / "kernel.cu"), str(home / "deeper" / "second.cuh")
    made = compiled(KERNEL, path=path)
    assert set(re.findall(r'\.file\s+\d+\s+"(.*)"', made.ptx)) == {path, header}
    assert {it.file for it in made.sass if it.line} == {path, header}
    assert ", ".join(map(str, f"{path}".encode())) in made.ptx
    (home / "deeper" / "second.cuh").write_text(HEADER.replace("x;", "y;"))
    assert [(it.file, it.line) for it in errors(KERNEL, path=path)] == [(header, 3)]


@pytest.mark.slow
@pytest.mark.usefixtures("address_space")
@pytest.mark.parametrize("name", ["mma", "beat_cublas"])
def test_the_code_does_not_depend_on_where_files_lie(compiled, tmp_path, monkeypatch, name):
    """The kernel, the lesson's headers, the kit's and CUDA's."""
    lesson, source = _sensitive(name)
    places = {f"h{number}": folder for number, folder in enumerate(lesson.include_dirs)}
    places |= {"kit": compiling.HEADERS, "cuda": nvrtc.include_folders(13)[0]}
    made = set()
    for length in LENGTHS:
        home = tmp_path / str(length).ljust(length - len(f"{tmp_path}/"), "x")
        home.mkdir()
        for link, folder in places.items():
            (home / link).symlink_to(folder)
        monkeypatch.setattr(compiling, "HEADERS", home / "kit")
        monkeypatch.setattr(nvrtc, "include_folders", lambda _, home=home: [home / "cuda"])
        kernel = compiled(
            source,
            lesson.launches[-1].entry,
            str(home / "kernel.cu"),
            defines=lesson.tile.defines,
            include_dirs=[home / link for link in places if link.startswith("h")],
            options=lesson.options,
        )
        made.add(re.sub(r"(?m)^\s*\.file.*", "", kernel.ptx))
    assert len(made) == 1


def _sensitive(name: str) -> tuple[Lesson, str]:
    course = packaged_course()
    if name == "mma":
        lesson = typed(course.lesson(name), "int8_tma")
        return lesson, lesson.solution_path.read_text()
    return course.lesson(name), next(it.source for it in fixtures.honest() if it.name == "a_ahead_of_the_products")
