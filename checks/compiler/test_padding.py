"""Folders of a kernel, its headers and the kit do not change the code: NVRTC gets names of one length, users see their
own."""

from __future__ import annotations

import os
import re

import pytest

from checks.grading import fixtures
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.tiles import typed
from gemm_lessons.engine.compiler import compile as compiling
from gemm_lessons.engine.compiler import nvrtc, nvrtc_child
from gemm_lessons.engine.compiler.neutral_paths import LENGTH, expected, neutral_names, padded, restore_names
from gemm_lessons.engine.compiler.nvrtc import Translation

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
        assert len(padded(folder).encode(errors="replace")) == LENGTH
        assert padded(folder).lstrip("/") == folder.lstrip("/")
    assert os.path.samefile(padded(str(tmp_path)), tmp_path)
    for other in ("", "include", f"/{'far/' * LENGTH}"):
        assert padded(other) == other


def test_names_that_stand_in_say_nothing_of_the_folder(tmp_path):
    """But lead there; what is not there, or has too long a name, keeps its own."""
    here, there, gone = (str(tmp_path / name) for name in ("here", "in/größe/there", "gone"))
    deep = os.path.join(tmp_path, *["deep" * 20] * 4)
    names = {}
    for first, second in [(here, there), (there, here)]:
        for folder in (here, there, deep):
            os.makedirs(folder, exist_ok=True)
        before = os.listdir("/proc/self/fd")
        with neutral_names([first, second, first, gone, deep]) as given:
            names[first] = given.of(first), given.of(second)
            assert os.path.samefile(given.of_file(f"{first}/."), first)
            assert os.path.samefile(given.of(second), second)
            assert (given.of(gone), given.of(deep)) == (padded(gone), deep)
            assert expected([first, second, first, gone, deep]).called == given.called
        assert os.listdir("/proc/self/fd") == before
    assert names[here] == names[there]
    assert {len(name) for name in names[here]} == {LENGTH}


def test_what_nvrtc_made_names_files_as_they_are_called(tmp_path):
    """In a log by any of both names, in PTX's strings as numbers, in machine code padded."""
    folder, gone = str(tmp_path), "/go/ne"
    with neutral_names([folder, gone]) as names:
        other = names.of(folder)
    numbers = ", ".join(map(str, other.encode()))
    dense = numbers.replace(" ", "")
    log = f"{other}/k.cu(3): error: /{other.strip('/')}/k.cu, {padded(gone)}/h.cuh"
    ptx = f'"{other}/k.cu"\n{numbers}, 0\n{dense}'
    made = restore_names(Translation(True, log, "k", ptx, other.encode(), names.called))
    own = padded(folder)
    assert made.log == f"{folder}/k.cu(3): error: {folder}/k.cu, /go/ne/h.cuh"
    strings = ", ".join(map(str, folder.encode())), ",".join(map(str, own.encode()))
    assert made.ptx == f'"{own}/k.cu"\n{strings[0]}, 0\n{strings[1]}'
    assert made.cubin == own.encode()


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
@pytest.mark.parametrize("name", [pytest.param("precision", marks=pytest.mark.long), "beat_cublas"])
def test_the_code_does_not_depend_on_where_files_lie(compiled, tmp_path, monkeypatch, name):
    """The kernel, the lesson's headers, the kit's and CUDA's; nor on where the user stands."""
    lesson, source = _sensitive(name)
    places = {f"h{number}": folder for number, folder in enumerate(lesson.include_dirs)}
    places |= {"kit": compiling.HEADERS, "cuda": nvrtc.include_folders(13)[0]}
    made = set()
    for length in LENGTHS:
        home = tmp_path / str(length).ljust(length - len(f"{tmp_path}/"), "x")
        home.mkdir()
        for link, folder in places.items():
            (home / link).symlink_to(folder)
        monkeypatch.chdir(home)
        nvrtc_child._close_all()  # a new compiler stands here
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
    if name == "precision":
        lesson = typed(course.lesson(name), "int8_tma")
        return lesson, lesson.solution_path.read_text()
    return course.lesson(name), next(it.source for it in fixtures.honest() if it.name == "a_ahead_of_the_products")
