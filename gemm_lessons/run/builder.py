"""A lesson's kernel file -> ``Compiled`` for each launch, if it holds what the lesson launches; ahead where it pays.

NVRTC and the disassembler leave Python alone while they work, so what the table compares with is compiled on the other
core while the learner's kernel is being checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gemm_lessons.compiler import compile as compiler
from gemm_lessons.compiler.compile import Compiled, compile_source
from gemm_lessons.compiler.nvrtc import choose_major
from gemm_lessons.compiler.quiet import OPTIONS, without_printf
from gemm_lessons.course.folder import read_source, shown
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.device import Binaries, BuildTarget, Device
from gemm_lessons.hardware.sheets import GpuSpec, buildable
from gemm_lessons.judgement.verdict import CompileFailed
from gemm_lessons.run.signature import mismatch, wrong_name

if TYPE_CHECKING:
    from concurrent.futures import Future


class Builder:
    """Compiles for one target."""

    def __init__(self, target: BuildTarget) -> None:
        self.target = target
        self._under_way: dict[Path, Future[list[Compiled | compiler.NotCompiled]]] = {}

    def makes_the_same_as(self, other: Builder) -> bool:
        """Whether both compile any source to the same machine code."""
        return self.target.arch == other.target.arch and self._major() == other._major()

    def _major(self) -> int:
        return choose_major(self.target.arch, self.target.driver_major)

    def ahead(self, lesson: Lesson, path: Path | None, taken_apart: bool = True) -> None:
        """Begin to compile what ``build`` will be asked for later; no file, nothing to do."""
        if path is not None and path not in self._under_way:
            from concurrent.futures import ThreadPoolExecutor  # slow to import, and lesson 01 is compared with nothing

            pool = ThreadPoolExecutor(1)
            self._under_way[path] = pool.submit(self._translate, lesson, path, read_source(path), (), taken_apart)
            pool.shutdown(wait=False)

    def build(
        self, lesson: Lesson, path: Path, source: str, options: Sequence[str] = (), taken_apart: bool = True
    ) -> tuple[Compiled, ...] | CompileFailed:
        """Compile a file, and see that it holds the kernels that the lesson launches; ``taken_apart``: somebody will
        want its instructions. Raises ``KitError``."""
        under_way = self._under_way.pop(path, None)
        results = under_way.result() if under_way else self._translate(lesson, path, source, options, taken_apart)
        kernels = []
        for launch, result in zip(lesson.launches, results, strict=True):
            if not isinstance(result, Compiled):
                errors = sum(diagnostic.severity == "error" for diagnostic in result.diagnostics)
                message = wrong_name(lesson, launch, result.diagnostics)
                message = message or f"the compiler found {errors or 'an'} error{'s'[: errors > 1]}"
                return CompileFailed(message, result.diagnostics, result.log)
            if wrong := mismatch(lesson, launch, result):
                return CompileFailed(wrong, result.diagnostics)
            kernels.append(result)
        return tuple(kernels)

    def _translate(
        self, lesson: Lesson, path: Path, source: str, options: Sequence[str] = (), taken_apart: bool = True
    ) -> list[Compiled | compiler.NotCompiled]:
        """One result for each launch."""
        made: dict[str, Compiled | compiler.NotCompiled] = {}
        for entry in dict.fromkeys(launch.entry for launch in lesson.launches):
            made[entry] = result = compile_source(
                source,
                path=shown(path),
                entry=entry,
                defines=lesson.tile.defines,
                include_dirs=lesson.include_dirs,
                arch=self.target.arch,
                cuda_major=self._major(),
                options=(*lesson.options, *options),
                withheld=(lesson.solution_path,),
            )
            if isinstance(result, Compiled) and taken_apart:
                beside = [it for it in made.values() if isinstance(it, Compiled) and it is not result]
                result.start_sass(beside)  # the counters will want it when the first shapes have been checked
        return [made[launch.entry] for launch in lesson.launches]


class Workshop:
    """Compiles every kernel of a run twice: for the architecture that counts, and for the GPU that times are for. Where
    that is the same, once."""

    def __init__(self, architecture: str, device: Device, gpu: GpuSpec) -> None:
        self._counting = Builder(BuildTarget(architecture))
        self._timing = builder_for(device, gpu)
        self._must_run = device.target is not None
        if self._timing.makes_the_same_as(self._counting):
            self._timing = self._counting

    @property
    def targets(self) -> tuple[BuildTarget, BuildTarget]:
        """What it compiles for, to count and to time."""
        return self._counting.target, self._timing.target

    def ahead(self, lesson: Lesson, path: Path | None) -> None:
        """Begin to compile what ``build`` will be asked for later."""
        self._counting.ahead(lesson, path)
        if self._timing is not self._counting:
            self._timing.ahead(lesson, path)

    def build(self, lesson: Lesson, path: Path, source: str, taken_apart: bool = True) -> Binaries | CompileFailed:
        """Compile a file, a second time without what it prints. What does not compile for the device that is to run it
        does not compile. ``taken_apart``: it will be counted or timed, for which its instructions are needed."""
        quiet = without_printf(source)
        if quiet == source:
            return self._build(lesson, path, source, (), taken_apart)
        spoken = self._counting.build(lesson, path, source, (), taken_apart)
        if isinstance(spoken, CompileFailed):
            return spoken
        silent = self._build(lesson, path, quiet, OPTIONS, taken_apart)
        if isinstance(silent, CompileFailed):  # it uses printf for more than its text
            silent = self._build(lesson, path, source, (), taken_apart)
        return silent if isinstance(silent, CompileFailed) else replace(silent, spoken=spoken)

    def _build(
        self, lesson: Lesson, path: Path, source: str, options: Sequence[str], taken_apart: bool
    ) -> Binaries | CompileFailed:
        if self._timing is not self._counting and not options:
            self._timing.ahead(lesson, path, taken_apart)
        counted = self._counting.build(lesson, path, source, options, taken_apart)
        if isinstance(counted, CompileFailed):
            return counted
        if self._timing is self._counting:
            return Binaries(counted, counted)
        timed = self._timing.build(lesson, path, source, options, taken_apart)
        if isinstance(timed, CompileFailed):
            return timed if self._must_run else Binaries(counted, None)
        return Binaries(counted, timed)


def builder_for(device: Device, gpu: GpuSpec) -> Builder:
    """Compiles for the device that is here if it asks for code of its own, else for the GPU that estimates are for."""
    return Builder(device.target or BuildTarget(buildable(gpu.arch)))
