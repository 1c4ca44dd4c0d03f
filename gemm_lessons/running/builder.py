"""Compile a lesson's kernel file to one ``Compiled`` per launch, and check that it holds the launched kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gemm_lessons.course import LaunchSpec, Lesson, shown
from gemm_lessons.devices import Binaries, BuildTarget, Device
from gemm_lessons.engine import Diagnostic, GpuSpec, KitError, Simulator
from gemm_lessons.engine.compiler import (
    PRINTF_OPTIONS,
    Compiled,
    NotCompiled,
    choose_major,
    compile_source,
    without_printf,
)
from gemm_lessons.engine.hardware import buildable, capability_of, dotted
from gemm_lessons.gemm import POINTER_SIZE
from gemm_lessons.judging import Built, CompileFailed
from gemm_lessons.running.jobs import in_thread

SPECIFIC = ("a", "f")  # the last letter of an architecture whose code does not run on later ones


class WrongGpu(KitError):
    """The GPU here cannot run code for the lesson's architecture."""


def variant_of(built: Built, lesson: Lesson) -> Built:
    """Return the variant of the kernel that the host chooses for this lesson: see ``Lesson.at``."""
    return next((it for it in (built, *built.others) if it.lesson == lesson), built)


class Builder:
    """Compiles for one target."""

    def __init__(self, target: BuildTarget) -> None:
        self.target = target

    def makes_the_same_as(self, other: Builder) -> bool:
        """Tell whether both compile any source to the same machine code."""
        return self.target.arch == other.target.arch and self._major() == other._major()

    def _major(self) -> int:
        return choose_major(self.target.arch, self.target.driver_major)

    def build(
        self, lesson: Lesson, path: Path, source: str, options: Sequence[str] = (), assembled: bool = True
    ) -> tuple[Compiled, ...] | CompileFailed:
        """Compile a file and check that it holds the kernels that the lesson launches. Raise ``KitError``."""
        entries = dict.fromkeys(launch.entry for launch in lesson.launches)
        results = {entry: self._translate(lesson, path, source, entry, options, assembled) for entry in entries}
        kernels = []
        for launch in lesson.launches:
            result = results[launch.entry]
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
        self, lesson: Lesson, path: Path, source: str, entry: str, options: Sequence[str], assembled: bool
    ) -> Compiled | NotCompiled:
        return compile_source(
            source,
            path=shown(path),
            entry=entry,
            defines=lesson.tile.defines,
            include_dirs=lesson.include_dirs,
            arch=self.target.arch,
            cuda_major=self._major(),
            options=(*lesson.options, *options),
            withheld=(lesson.solution_path,),
            assembled=assembled,
        )


class Workshop:
    """Compiles each kernel of a run for the counted architecture and the GPU of the times; once if these are equal."""

    def __init__(self, architecture: str, device: Device, gpu: GpuSpec, needs: str = "") -> None:
        self._counting = Builder(BuildTarget(architecture))
        self._timing = builder_for(device, gpu, architecture, needs)
        self._must_run = device.target is not None
        if self._timing.makes_the_same_as(self._counting):
            self._timing = self._counting

    @property
    def targets(self) -> tuple[BuildTarget, BuildTarget]:
        """Return the targets to count and to time."""
        return self._counting.target, self._timing.target

    def without_machine_code(self, lesson: Lesson, path: Path, source: str) -> Binaries | CompileFailed:
        """Compile a file to PTX only, for launches whose values are checked on the simulator."""
        quiet = without_printf(source)
        options = PRINTF_OPTIONS if quiet != source else ()
        counted = self._counting.build(lesson, path, quiet, options, assembled=False)
        return counted if isinstance(counted, CompileFailed) else Binaries(counted, None)

    def build(self, lesson: Lesson, path: Path, source: str, disassembled: bool = False) -> Binaries | CompileFailed:
        """Compile a file, and once more without printf; begin to disassemble it where its machine code is needed. A
        file that does not compile for the device that runs it counts as not compiled."""
        code = self._compiled(lesson, path, source)
        if disassembled and not isinstance(code, CompileFailed):
            code.take_apart()
        return code

    def _compiled(self, lesson: Lesson, path: Path, source: str) -> Binaries | CompileFailed:
        quiet = without_printf(source)
        if quiet == source:
            return self._for_both(lesson, path, source)
        with_printf = self._counting.build(lesson, path, source)
        if isinstance(with_printf, CompileFailed):
            return with_printf
        silent = self._for_both(lesson, path, quiet, PRINTF_OPTIONS)
        if isinstance(silent, CompileFailed):  # it uses printf for more than its text
            silent = self._for_both(lesson, path, source)
        return silent if isinstance(silent, CompileFailed) else replace(silent, with_printf=with_printf)

    def _for_both(
        self, lesson: Lesson, path: Path, source: str, options: Sequence[str] = ()
    ) -> Binaries | CompileFailed:
        if self._timing is self._counting:
            counted = self._counting.build(lesson, path, source, options)
            return counted if isinstance(counted, CompileFailed) else Binaries(counted, counted)
        timing = in_thread(self._timing.build, lesson, path, source, options)
        counted = self._counting.build(lesson, path, source, options)
        if isinstance(counted, CompileFailed):
            return counted
        timed = timing.result()
        if isinstance(timed, CompileFailed):
            here, there = self._timing.target.arch, self._counting.target.arch
            only = f"{timed.message} for {here}, the GPU here; for {there} it compiles: --device sim"
            return replace(timed, message=only) if self._must_run else Binaries(counted, None)
        return Binaries(counted, timed)


def builder_for(device: Device, gpu: GpuSpec, architecture: str = "", needs: str = "") -> Builder:
    """Return a builder for the present device if it needs its own code, else for the GPU of the estimates.

    ``architecture``: a lesson's own. Code for ``sm_90a`` runs on sm_90 alone, and only it has that GPU's own
    instructions. ``needs``: the least architecture of a lesson. Raise ``WrongGpu`` if the present device lacks the
    compute capability.
    """
    target = device.target or BuildTarget(buildable(gpu.arch))
    if device.target is not None and (missing := missing_capability(target.arch, architecture, needs)):
        raise WrongGpu(
            f"this lesson's kernels need compute capability {missing}, and {device.name} has "
            f"{dotted(target.arch)}; without it: --device sim"
        )
    if architecture[-1:] not in SPECIFIC:
        return Builder(target)
    if architecture.rstrip("af") == target.arch:
        return Builder(replace(target, arch=architecture))
    return Builder(target)


def missing_capability(here: str, architecture: str, needs: str) -> str:
    """Return the compute capability that a lesson needs and a GPU of architecture ``here`` lacks; empty if none."""
    if capability_of(needs) > capability_of(here):
        return f"{dotted(needs)} or newer"
    return dotted(architecture) if architecture[-1:] in SPECIFIC and architecture.rstrip("af") != here else ""


def wrong_name(lesson: Lesson, launch: LaunchSpec, diagnostics: Sequence[Diagnostic]) -> str | None:
    """Return the message when the compiler found no kernel of that name (its diagnostic lists the kernels found)."""
    if any(it.no_kernel for it in diagnostics):
        return f"there is no kernel named {launch.entry}. The lesson launches {lesson.prototype(launch)}"
    return None


def mismatch(lesson: Lesson, launch: LaunchSpec, compiled: Compiled) -> str | None:
    """Return the message when the parameters of the compiled kernel differ from those that the lesson passes, else
    None.

    Machine code keeps only sizes, so an ``int *`` in place of a ``float *`` is not detected.
    """
    found = Simulator.parameters(compiled)
    expected = lesson.parameters(launch)
    if [parameter.size for parameter in found] == [parameter.size for parameter in expected]:
        return None
    if len(found) != len(expected):
        what = f"takes {len(found)} parameter{'s'[: len(found) != 1]}, the lesson passes {len(expected)}"
    else:
        number, is_, want = next(
            (i, f.size, e) for i, (f, e) in enumerate(zip(found, expected, strict=True)) if f.size != e.size
        )
        kind = "a pointer" if want.size == POINTER_SIZE and want.type.endswith("*") else want.type
        what = f"has {is_} bytes as parameter {number + 1}, the lesson passes {want.name} there, {kind} of {want.size}"
    return f"{launch.entry} {what}. The lesson launches {lesson.prototype(launch)}"
