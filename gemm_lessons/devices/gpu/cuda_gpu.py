"""A device on CuPy: launches cubins on a CUDA GPU and times them beside cuBLAS.

    Gpu (here, no CUDA) --child.Child--> server --> launch, measure     a process of its own owns the CUDA context

A kernel that faults leaves its CUDA context unusable, and one that never ends cannot be stopped from within. So the
context lives in a child process: after a fault or a timeout it is thrown away, and the next launch gets a new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gemm_lessons.devices.extras import install_extra
from gemm_lessons.devices.gpu import ranges, trouble
from gemm_lessons.devices.gpu.errors import GpuUnavailable, WrongGpuIndex
from gemm_lessons.devices.gpu.records import Entrant, GpuFacts, Measurement, Step, Timed
from gemm_lessons.devices.gpu.timing import Health, Spread, doubts
from gemm_lessons.engine import (
    Buffer,
    Counters,
    KitError,
    Launched,
    Pointer,
    Scalar,
    Surface,
    TensorMap,
    Texture,
    UnsupportedKernel,
)
from gemm_lessons.engine.process import Child, ChildDied, ChildHung
from gemm_lessons.engine.records import Argument, Grid, buffer_of, buffers_of, offset_of
from gemm_lessons.gemm import DataSpec, Shape

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler import Compiled
    from gemm_lessons.gemm import Guarded

__all__ = ["Entrant", "Gpu", "GpuUnavailable", "Measurement", "Step", "Timed", "WrongGpuIndex"]

START_LIMIT_S = 60.0  # for a driver that wakes up slowly
PATIENCE_S = 2.0  # for an orderly teardown of the context
LAUNCH_LIMIT_S = 10.0  # for one launch, in addition to the time that its size explains
# Far below the speed of the naive kernel on an old GPU, so that a slow kernel does not count as endless.
SLOWEST_BYTES_PER_S = 1e7
SLOWEST_FLOPS = 2e10
FLUSH = 2  # times the L2 cache is overwritten before each timed launch, and
SMALLEST_FLUSH = 128 << 20  # bytes, at least: about 30 us, enough for the host to queue the following launches

# The environment must not make cuBLAS compute fp32 in another precision.
ENVIRONMENT = {"NVIDIA_TF32_OVERRIDE": "0", "CUBLAS_EMULATE_SINGLE_PRECISION": "0"}


class _Failed(Exception):
    """The server answered with an error."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        super().__init__(header.get("text", header["error"]))
        self.header = header
        self.code = int(header.get("code", 0))


class Gpu:
    """A CUDA GPU, by its index among those that ``CUDA_VISIBLE_DEVICES`` leaves.

    The constructor only starts the process that owns the GPU, which takes up to a second. ``facts``, and every method
    that needs them, waits for it and raises ``GpuUnavailable``. ``module`` and ``path`` name the server, for tests.
    """

    kind: Literal["gpu"] = "gpu"

    def __init__(
        self,
        index: int = 0,
        *,
        limit_s: float = LAUNCH_LIMIT_S,
        module: str = "gemm_lessons.devices.gpu.server",
        path: Sequence[Path] = (),
    ) -> None:
        self._index, self.limit_s = index, limit_s
        self._module, self._path = module, path
        self._child: Child | None = None
        self.smallest_flush = SMALLEST_FLUSH
        self._facts: GpuFacts | None = None
        self._start()

    @property
    def facts(self) -> GpuFacts:
        """Return what the GPU reports about itself."""
        if self._facts is None:
            self._facts = self._greet()
        return self._facts

    @property
    def name(self) -> str:
        """Return the product's name, such as ``NVIDIA H200``."""
        return self.facts.name

    @property
    def arch(self) -> str:
        """Return the target to compile for, such as ``sm_90``."""
        return self.facts.arch

    @property
    def driver_major(self) -> int:
        """Return the newest CUDA major version whose cubins the driver loads."""
        return self.facts.driver // 1000

    def close(self) -> None:
        """End the process that owns the context. The next launch starts a new one."""
        if self._child is not None:
            self._child.close(PATIENCE_S)
            self._child = None

    def _kill(self) -> None:
        """End the process at once, although it may be busy with an unwanted request."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def __enter__(self) -> Gpu:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def launch(self, compiled: Compiled, grid: Grid, arguments: Sequence[Argument]) -> Launched:
        """Launch once; write arrays back and check the guard zones around them.

        A fault of the kernel or an endless launch is returned as ``fault``. Raise ``KitError`` when the GPU itself does
        not work, or has too little memory.
        """
        buffers: list[Guarded] = []
        numbers: dict[int, int] = {}
        encoded = [_encode(argument, buffers, numbers) for argument in arguments]
        header = {"do": "launch", "entry": compiled.entry, "arguments": encoded, **_grid(grid)}
        blobs = [compiled.cubin, *(buffer.padded for buffer in buffers)]
        limit = self.limit_s + sum(buffer.padded.nbytes for buffer in buffers) / SLOWEST_BYTES_PER_S
        try:
            _, answers = self._ask(header, blobs, limit)
        except ChildHung as hung:
            return Launched(Counters(), fault=trouble.timeout(hung.seconds))
        except _Failed as failed:
            return Launched(Counters(), fault=trouble.fault(failed.code, str(failed), grid))
        import numpy as np

        for buffer, answer in zip(buffers, answers, strict=True):
            buffer.padded[:] = np.frombuffer(answer, np.uint8)
        for argument in buffers_of(arguments):
            if argument.array.flags.writeable:
                argument.array[...] = buffers[numbers[id(argument.array)]].inner
        damage = [finding for buffer in buffers if (finding := buffer.damage())]
        return Launched(Counters(), tuple(damage))

    def prepare(self, data: DataSpec, shape: Shape, seed: int) -> None:
        """Let the GPU's process make the inputs of a later ``measure``, while the caller does something else."""
        if self._child is not None and self._facts is not None:
            with contextlib.suppress(ChildDied):  # the next request reports the failure
                self._child.send({"do": "prepare", "problem": self._problem(data, shape, seed)})

    def _problem(self, data: DataSpec, shape: Shape, seed: int) -> dict[str, Any]:
        from gemm_lessons.devices.gpu.arena import described

        return described(data, shape, seed, max(FLUSH * self.facts.l2, self.smallest_flush))

    def measure(
        self,
        data: DataSpec,
        shape: Shape,
        entrants: Sequence[Entrant],
        *,
        seed: int,
        seconds: float = 0.4,
        warm_up_s: float = 1.0,
        progress: Callable[[str], None] = lambda label: None,
    ) -> Measurement:
        """Verify and time kernels, interleaved with cuBLAS where it takes the factors (``DataSpec.gemm_ex``), on fresh
        inputs of ``shape``; rows have no gaps.

        ``seconds`` is about the total time of the timed launches (at least three of each); ``warm_up_s`` is the longest
        wait for a steady clock. Raise ``KitError`` when the GPU lacks memory or cuBLAS; a kernel's fault is part of the
        result. Raise ``UnsupportedKernel`` with the reason of ``DataSpec.untimed``.
        """
        if data.untimed:
            raise UnsupportedKernel(data.untimed)
        header = {
            "do": "measure", "problem": self._problem(data, shape, seed), "seconds": seconds, "warm_up": warm_up_s,
            "entrants": [
                _entry(it, it.data or data, shape) for it in entrants
            ],
        }  # fmt: skip
        flop = data.operations(shape.names)
        current = [""]

        def note(label: str) -> None:
            current[0] = label
            progress(label)

        limit = self.limit_s + flop / SLOWEST_FLOPS
        grids = {it.label: it.steps[0].grid for it in entrants}
        cubins = [self._holding(), *(step.compiled.cubin for it in entrants for step in it.steps)]
        try:
            answer, _ = self._ask(header, cubins, limit, note)
        except ChildHung as hung:
            return Measurement(shape, self.name, fault=trouble.timeout(hung.seconds), culprit=current[0])
        except _Failed as failed:
            fault = trouble.fault(failed.code, str(failed), grids.get(current[0]))
            return Measurement(shape, self.name, fault=fault, culprit=current[0])
        timed, rivals = ([_timed(row, flop) for row in answer[which]] for which in ("entrants", "rival"))
        cublas = rivals[0].beside(rivals[0]) if rivals else None
        health = _health(answer["health"])
        return Measurement(
            shape=shape,
            gpu=self.name,
            kernels=tuple(it.beside(cublas) for it in timed),
            cublas=cublas,
            notes=doubts({it.label: it.spread for it in (*timed, *rivals)}, health, held=answer["held"]),
            health=health,
            driver=answer["driver"],
            cublas_version=answer["cublas"],
            held=answer["held"],
        )

    def _holding(self) -> bytes:
        """Return the machine code of the kernel that holds the queue."""
        from gemm_lessons.devices.gpu import hold
        from gemm_lessons.engine.compiler import Compiled, choose_major, compile_source

        major = choose_major(self.arch, self.driver_major)
        compiled = compile_source(hold.SOURCE, path="hold.cu", entry=hold.ENTRY, arch=self.arch, cuda_major=major)
        assert isinstance(compiled, Compiled), "a constant source"
        return compiled.cubin

    def _ask(
        self,
        header: dict[str, Any],
        blobs: Sequence[Any],
        seconds: float,
        progress: Callable[[str], None] = lambda label: None,
    ) -> tuple[dict[str, Any], list[bytes]]:
        if self._child is None:
            self._start()
            self._facts = None
        _ = self.facts  # waits until it is ready
        child = self._child
        assert child is not None
        header["ranges"] = ranges.current()
        try:
            child.send(header, blobs)
            while True:
                answer, data = child.receive(seconds)
                if "progress" not in answer:
                    break
                progress(answer["progress"])
        except ChildHung:
            self._child = None
            raise
        except ChildDied as died:
            self._child = None
            raise KitError(f"the process that uses the GPU ended unexpectedly: {died}") from died
        except BaseException:  # Ctrl-C: the next request must not receive the answer to this one
            self._kill()
            raise
        if "error" in answer:
            failed = _Failed(answer)
            self._rethrow(failed)
            raise failed
        return answer, data

    def _start(self) -> None:
        self._child = Child(self._module, [str(self._index)], path=self._path, environment=ENVIRONMENT)

    def _greet(self) -> GpuFacts:
        if self._child is None:
            self._start()
        child, self._child = self._child, None
        assert child is not None
        try:
            answer, _ = child.receive(START_LIMIT_S)
        except ChildHung as hung:
            raise GpuUnavailable(f"the GPU driver did not answer within {hung.seconds:g} s; does nvidia-smi?") from None
        except ChildDied as died:
            raise GpuUnavailable(f"CuPy or the GPU driver crashed: {died}") from None
        if "error" in answer:
            child.close()
            raise GpuUnavailable(trouble.why_unavailable(answer))
        if "name" not in answer:
            child.close()
            raise WrongGpuIndex(trouble.wrong_index(self._index, answer["count"]))
        self._child = child
        return GpuFacts(**{name: answer[name] for name in GpuFacts.__dataclass_fields__})

    def _rethrow(self, failed: _Failed) -> None:
        """Raise an error of the environment as ``KitError``; return when the kernel may be at fault."""
        header, code = failed.header, failed.code
        if header["error"] == "import":
            extra = install_extra(f"cuda{12 if self.driver_major < 13 else 13}")
            raise KitError(f"cuBLAS is missing ({failed}); install it with: {extra}") from failed
        if header["error"] == "memory":
            raise KitError(trouble.too_little_memory(header)) from failed
        if header["error"] == "context" or code not in (*trouble.FAULTS, *trouble.REFUSED):
            self._kill()
            if code in trouble.NO_CODE:
                raise KitError(
                    f"the kernel holds no machine code for {self.name} ({self.arch}): {failed}; the driver supports "
                    f"CUDA {trouble.dotted(self.facts.driver)}"
                ) from failed
            raise KitError(
                f"the GPU does not work: {failed}; does nvidia-smi list it, with no other process on it?"
            ) from failed
        if code not in trouble.REFUSED:  # the context is lost, and the server with it
            self._kill()


def _entry(entrant: Entrant, data: DataSpec, shape: Shape) -> dict[str, Any]:
    from gemm_lessons.devices.gpu.arena import passed, scratch_of

    steps = [
        {"entry": step.compiled.entry, "arguments": passed(data, shape, step.parameters), **_grid(step.grid)}
        for step in entrant.steps
    ]
    return {"label": entrant.label, "role": entrant.role, "steps": steps, "scratch": scratch_of(data, shape)}


def _grid(grid: Grid) -> dict[str, Any]:
    return {"grid": grid.grid, "block": grid.block, "dynamic_shared": grid.dynamic_shared, "cluster": grid.cluster}


def _encode(argument: Argument, buffers: list[Guarded], numbers: dict[int, int]) -> dict[str, Any]:
    """Encode an argument for the server; add its arrays to ``buffers``, each once (``numbers`` by id)."""
    from gemm_lessons.gemm import GUARD_BYTES, Guarded

    def target(pointer: Buffer | Pointer) -> list[int]:
        """Return the index in ``buffers``, and the bytes from its start, including the guard zone before it."""
        buffer = buffer_of(pointer)
        key = id(buffer.array)
        if key not in numbers:
            numbers[key] = len(buffers)
            buffers.append(Guarded(buffer.name, buffer.array))
        return [numbers[key], GUARD_BYTES + offset_of(pointer)]

    if isinstance(argument, Scalar):
        raw = argument.value if isinstance(argument.value, bytes) else argument.value.tobytes()
        return {"raw": raw.hex()}
    if isinstance(argument, Texture) and argument.is_linear:
        array = argument.array
        return {"texture": [*target(Buffer(argument.name, array)), array.nbytes, str(array.dtype), argument.channels]}
    if isinstance(argument, (Texture, Surface)):
        raise UnsupportedKernel(f"{argument.name}: on a GPU only textures that tex1Dfetch reads, and no surfaces")
    if isinstance(argument, TensorMap):
        assert argument.pointer is not None
        argument.check()
        return {"tensor_map": [*target(argument.pointer), argument.described]}
    if isinstance(argument, (Buffer, Pointer)):
        return {"raw": bytes(8).hex(), "pointers": [[0, *target(argument)]]}
    pointers = [[offset, *target(pointer)] for offset, pointer in argument.pointers.items()]
    return {"raw": argument.raw.hex(), "pointers": pointers}


def _health(row: Mapping[str, Any]) -> Health:
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    return Health(**values)


def _timed(row: Mapping[str, Any], flop: int) -> Timed:
    return Timed(
        label=row["label"],
        role=row["role"],
        spread=Spread.of(row["times_us"]),
        flop=flop,
        rounds=tuple(row["rounds"]),
        wrong=row["wrong"],
        max_error=row["max_error"],
        tolerance=row["tolerance"],
        overran=row["overran"],
    )
