"""What a kernel is asked to compute: fresh seeded A, B, C, the answer by NumPy, and how far off an answer may be.

    Problem(kernel, shape, seed)  --trial()-->  Trial: the device's own copies --launch--> answer, damage

Inputs are a random sign times a uniform number in [0.5, 1) (integers: any but 0). No product of two inputs is then
smaller than 1/4 in magnitude, so that a kernel which loses a single product is caught at the very element where it
happens (see ``Problem.tolerance``), and none is so large that it hides the others. The seed is fresh for every run and
reported, so nothing can be hard-coded and everything can be repeated.

C starts poisoned: a NaN with a bit pattern that no arithmetic produces, so "never written" and "computed NaN" are told
apart. Where a lesson passes leading dimensions, rows are longer than they need to be and the gap is poisoned as well:
reading it spoils the answer, writing it is found after the launch. Around a buffer the simulator checks every access
exactly; a GPU cannot, so ``Guarded`` lays guard zones around its copy that are compared after the launch.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gemm_lessons.course.lesson import ElementType, KernelSpec, Shape
from gemm_lessons.launch import Argument, Buffer, Finding, Scalar

Array = np.ndarray[Any, Any]

# How each element type is stored. NumPy has no bfloat16: raw bits in uint16.
STORAGE: Mapping[ElementType, type[np.generic]] = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": np.uint16,
    "int32": np.int32,
    "int8": np.int8,
}
C_NAMES: Mapping[ElementType, str] = {
    "float64": "double",
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int32": "int",
    "int8": "signed char",
}
# Unit roundoff: half the distance from 1 to the next number.
ROUNDOFF: Mapping[ElementType, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "int32": 0.0,
    "int8": 0.0,
}
# Quiet NaNs (or, for integers, an unlikely number) with a payload: arithmetic yields only the canonical NaN.
POISON: Mapping[ElementType, int] = {
    "float64": 0x7FF8_DEAD_BEEF_DEAD,
    "float32": 0x7FC0_DEAD,
    "float16": 0x7EAD,
    "bfloat16": 0x7FED,
    "int32": 0x7EAD_BEEF,
    "int8": 0x5A,
}
GUARD_BYTE = 0xA5
GUARD_BYTES = 4096
PROBABLE = 8.0  # standard deviations of accumulated rounding that no honest sum exceeds: 1 in 10**15, two-sided
ROW_GAP = 4  # elements between rows where a lesson passes leading dimensions; keeps rows of 4 aligned for float4
INT_SIZE = 4
POINTER_SIZE = 8


def fresh_seed() -> int:
    """A seed nobody could know beforehand: 32 bits from the operating system."""
    return secrets.randbits(32)


def poison(shape: tuple[int, ...], kind: ElementType) -> Array:
    """An array whose every element has the bits ``POISON[kind]``."""
    storage = np.dtype(STORAGE[kind])
    return np.full(shape, POISON[kind], np.dtype(f"u{storage.itemsize}")).view(storage)


def encode(values: Array, kind: ElementType) -> Array:
    """float64 values -> the storage of ``kind``, rounded to nearest even (bfloat16: raw bits in uint16)."""
    if kind != "bfloat16":
        return values.astype(STORAGE[kind])
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def decode(stored: Array, kind: ElementType) -> Array:
    """The storage of ``kind`` -> float64 values, exactly."""
    if kind == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.float64)


def bits(stored: Array) -> Array:
    """The bit patterns of an array, as unsigned integers of the same size (NaNs compare by payload)."""
    contiguous = np.ascontiguousarray(stored)
    return contiguous.view(f"u{contiguous.dtype.itemsize}")


@dataclass(frozen=True)
class Parameter:
    """One parameter of the kernel as the host passes it: C type, name, bytes."""

    type: str
    name: str
    size: int

    def __str__(self) -> str:
        return f"{self.type}{self.name}" if self.type.endswith("*") else f"{self.type} {self.name}"


def signature(kernel: KernelSpec) -> tuple[Parameter, ...]:
    """The kernel's parameters, in order, as ``lesson.toml`` names them."""
    accumulate = C_NAMES[kernel.accumulate]
    scalar_size = np.dtype(STORAGE[kernel.accumulate]).itemsize
    parameters = {
        "A": Parameter(f"const {C_NAMES[kernel.a]} *", "A", POINTER_SIZE),
        "B": Parameter(f"const {C_NAMES[kernel.b]} *", "B", POINTER_SIZE),
        "C": Parameter(f"{C_NAMES[kernel.c]} *", "C", POINTER_SIZE),
        "bias": Parameter(f"const {C_NAMES[kernel.c]} *", "bias", POINTER_SIZE),
        "alpha": Parameter(accumulate, "alpha", scalar_size),
        "beta": Parameter(accumulate, "beta", scalar_size),
    }
    return tuple(parameters.get(name) or Parameter("int", name, INT_SIZE) for name in kernel.parameters)


def prototype(kernel: KernelSpec) -> str:
    """The kernel's declaration, to show: ``extern "C" __global__ void gemm(const float *A, ...)``."""
    return f'extern "C" __global__ void {kernel.entry}({", ".join(map(str, signature(kernel)))})'


class Problem:
    """C = alpha A B + beta C + bias on seeded inputs; alpha 1, beta 0, bias 0 where the kernel takes none.

    ``a`` (M, lda), ``b`` (K, ldb) and ``c`` (M, ldc) are as stored; ``bias`` has N elements. Never changed: a launch
    gets the copies of a ``Trial``.
    """

    def __init__(self, kernel: KernelSpec, shape: Shape, seed: int) -> None:
        self.kernel = kernel
        self.shape = shape
        self.seed = seed
        random = np.random.default_rng([seed, shape.m, shape.n, shape.k])
        given = set(kernel.parameters)
        self.a = self._matrix(random, shape.m, shape.k, kernel.a, "lda" in given)
        self.b = self._matrix(random, shape.k, shape.n, kernel.b, "ldb" in given)
        self.alpha = self._scalar(random, "alpha" in given, 1.0)
        self.beta = self._scalar(random, "beta" in given, 0.0)
        self.c = (
            self._matrix(random, shape.m, shape.n, kernel.c, "ldc" in given)
            if "beta" in given
            else poison((shape.m, shape.n + ROW_GAP * ("ldc" in given)), kernel.c)
        )
        self.bias = draw(random, (shape.n,), kernel.c) if "bias" in given else None

    def _matrix(self, random: np.random.Generator, rows: int, cols: int, kind: ElementType, gap: bool) -> Array:
        stored = poison((rows, cols + ROW_GAP * gap), kind)
        stored[:, :cols] = draw(random, (rows, cols), kind)
        return stored

    def _scalar(self, random: np.random.Generator, given: bool, default: float) -> np.generic:
        # Far from 0 and 1, so that leaving it out shows; exact in every type.
        value = float(random.choice([-2.0, -1.5, 1.5, 2.0])) if given else default
        if given and self.kernel.accumulate.startswith("int"):
            value = float(random.choice([-3, -2, 2, 3]))
        scalar = encode(np.array([value]), self.kernel.accumulate)[0]
        assert isinstance(scalar, np.generic)
        return scalar

    @cached_property
    def values(self) -> tuple[Array, Array]:
        """A (M, K) and B (K, N) in float64, exactly as the kernel reads them."""
        a = decode(self.a[:, : self.shape.k], self.kernel.a)
        return a, decode(self.b[:, : self.shape.n], self.kernel.b)

    @cached_property
    def epilogue(self) -> tuple[float, float, Array]:
        """alpha, beta, and beta * C + bias, (M, N) in float64."""
        kind = self.kernel.accumulate
        alpha, beta = (float(decode(np.array([scalar]), kind)[0]) for scalar in (self.alpha, self.beta))
        rest = np.zeros((self.shape.m, self.shape.n))
        if beta:
            rest = rest + beta * decode(self.c[:, : self.shape.n], self.kernel.c)
        if self.bias is not None:
            rest = rest + decode(self.bias, self.kernel.c)
        return alpha, beta, rest

    @cached_property
    def reference(self) -> Array:
        """The right answer, (M, N), in float64 by NumPy from the inputs as stored."""
        a, b = self.values
        alpha, _, rest = self.epilogue
        return np.asarray(alpha * (a @ b) + rest)

    @cached_property
    def tolerance(self) -> Array:
        """The largest error that an honest kernel can have, element by element: (M, N) in float64.

        A sum of K products in floating point, in any order, with or without fused multiply-add, obeys
        ``|error| <= K u / (1 - K u) * sum |a_ik b_kj|`` (Higham, "Accuracy and Stability of Numerical Algorithms",
        section 3.1), u being half the distance from 1 to the next number of the accumulator. That is the worst case,
        all roundings conspiring; as independent roundings they stay within ``lambda sqrt(K) u * sum |a_ik b_kj|`` with
        probability 1 - 2 exp(-lambda^2 / 2) (Higham and Mary, "A new approach to probabilistic rounding error
        analysis", 2019). So, with |A||B| for the sum of magnitudes and lambda = 8:

            tolerance = u * (min(K, 8 sqrt(K)) + 4) * (|alpha| |A||B| + |beta C| + |bias|)  +  rounding to C's type

        The 4 covers second-order terms and the epilogue. Up to K = 64 it is the worst case and no order of summation
        can exceed it; beyond, no honest order will. Since every product is at least 1/4 in magnitude, it stays below
        one product (so a kernel that skips one is caught at that element) up to K = 6000 in fp32; summing in fp16 or
        multiplying in TF32 exceeds it by an order of magnitude.

        - float64: NumPy's sum has the same error as the kernel's, so the tolerance is doubled.
        - float16, bfloat16 into float32: tensor cores truncate instead of rounding to nearest, so u is doubled.
        - rounding to C's type adds half a unit in the last place of the result, and its smallest number.
        - integers are exact: 0.
        """
        a, b = self.values
        alpha, _, rest = self.epilogue
        if self.kernel.c.startswith("int"):
            return np.zeros_like(self.reference)
        k = self.shape.k
        u = ROUNDOFF[self.kernel.accumulate]
        if self.kernel.accumulate == "float64" or ROUNDOFF[self.kernel.a] > u:
            u *= 2
        magnitude = abs(alpha) * (np.abs(a) @ np.abs(b)) + np.abs(rest)
        bound = u * (min(k, PROBABLE * k**0.5) + 4) * magnitude
        if ROUNDOFF[self.kernel.c] > ROUNDOFF[self.kernel.accumulate]:
            smallest = 2.0**-25 if self.kernel.c == "float16" else 0.0  # half of fp16's smallest denormal
            bound = bound + ROUNDOFF[self.kernel.c] * (np.abs(self.reference) + bound) + smallest
        return np.asarray(bound)

    def trial(self) -> Trial:
        """Copies for one launch."""
        return Trial(self)


def draw(random: np.random.Generator, shape: tuple[int, ...], kind: ElementType) -> Array:
    """Inputs as stored: a random sign times uniform [0.5, 1); integers -127 to 127 but for 0."""
    if kind.startswith("int"):
        return np.asarray(random.integers(1, 128, shape) * random.choice([-1, 1], shape), STORAGE[kind])
    magnitude = random.uniform(0.5, 1.0, shape)
    if kind in ("float16", "bfloat16"):  # on the type's own grid, so that rounding does not reach 1
        steps = 2.0 ** (11 if kind == "float16" else 8)
        magnitude = np.floor(magnitude * steps) / steps
    return encode(magnitude * random.choice([-1.0, 1.0], shape), kind)


class Trial:
    """The copies of a problem's arrays that one launch works on, and what it made of them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.a, self.b, self.c = problem.a.copy(), problem.b.copy(), problem.c.copy()
        self.bias = None if problem.bias is None else problem.bias.copy()

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The kernel's arguments in the lesson's order, for ``Device.launch``.

        Every buffer is handed back by the device, the inputs too: ``damage`` compares them.
        """
        problem = self.problem
        shape = problem.shape
        sizes = {
            "M": shape.m,
            "N": shape.n,
            "K": shape.k,
            "lda": problem.a.shape[1],
            "ldb": problem.b.shape[1],
            "ldc": problem.c.shape[1],
        }
        arguments: dict[str, Argument] = {name: Scalar(name, np.int32(size)) for name, size in sizes.items()}
        given = "beta" in problem.kernel.parameters  # only then may a kernel read C before it has written it
        arguments |= {"A": Buffer("A", self.a), "B": Buffer("B", self.b), "C": Buffer("C", self.c, True, given)}
        arguments |= {"alpha": Scalar("alpha", problem.alpha), "beta": Scalar("beta", problem.beta)}
        if self.bias is not None:
            arguments["bias"] = Buffer("bias", self.bias)
        return tuple(arguments[name] for name in problem.kernel.parameters)

    @property
    def answer(self) -> Array:
        """C as the kernel left it, (M, N), as stored."""
        return self.c[:, : self.problem.shape.n]

    def damage(self) -> tuple[Finding, ...]:
        """What the kernel overwrote and must not: the inputs, and the gap between the rows of C."""
        shape = self.problem.shape
        findings = []
        for name, before, after in (
            ("A", self.problem.a, self.a),
            ("B", self.problem.b, self.b),
            ("bias", self.problem.bias, self.bias),
        ):
            if before is None or after is None:
                continue
            changed = np.argwhere(bits(before) != bits(after))
            if len(changed):
                at = ", ".join(map(str, changed[0]))
                message = (
                    f"the kernel changed its input {name}: {len(changed)} element{'s'[: len(changed) != 1]}, "
                    f"first {name}[{at}]. Only C may be written."
                )
                findings.append(Finding("input_overwritten", "error", message, count=len(changed)))
        gap = np.argwhere(bits(self.problem.c[:, shape.n :]) != bits(self.c[:, shape.n :]))
        if len(gap):
            row, col = gap[0]
            message = (
                f"the kernel wrote C beyond the end of a row: {len(gap)} elements, first row {row}, column "
                f"{shape.n + col} of {shape.n}. Rows are ldc = {self.c.shape[1]} apart, only the first N belong to C."
            )
            findings.append(Finding("row_overrun", "error", message, count=len(gap)))
        return tuple(findings)


class Guarded:
    """A copy of an array between two guard zones, for devices that do not check bounds themselves (a GPU).

    ``padded`` is bytes: ``GUARD_BYTES`` of ``GUARD_BYTE``, the array, and as many again; the array starts at byte
    ``GUARD_BYTES``, a multiple of 256 as from the CUDA allocators. Upload it whole, launch, download it into
    ``padded``, then ask for ``damage``.
    """

    def __init__(self, name: str, array: Array) -> None:
        self.name = name
        self.padded = np.full(2 * GUARD_BYTES + array.nbytes, GUARD_BYTE, np.uint8)
        self.inner = self.padded[GUARD_BYTES : GUARD_BYTES + array.nbytes].view(array.dtype).reshape(array.shape)
        self.inner[...] = array

    def damage(self) -> Finding | None:
        """The guard byte nearest to the array that was overwritten, in the words of a bounds fault."""
        size = self.inner.nbytes
        before = np.flatnonzero(self.padded[:GUARD_BYTES] != GUARD_BYTE)
        after = np.flatnonzero(self.padded[GUARD_BYTES + size :] != GUARD_BYTE)
        if not len(before) and not len(after):
            return None
        where = (
            f"{after[0]} bytes after its end" if len(after) else f"{GUARD_BYTES - before[-1]} bytes before its start"
        )
        message = f"{self.name}: written out of bounds, {where} (the array has {size} bytes)"
        return Finding("out_of_bounds", "error", message, count=len(before) + len(after))
