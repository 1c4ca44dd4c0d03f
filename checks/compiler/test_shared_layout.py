"""Where shared arrays lie, against the addresses in the machine code (a cubin names no shared arrays).

Random arrays, in random order of use, some at file scope, some kernels with dynamic shared memory behind them. Each
kernel stores a marked value through the address of each array, so an offset that ptxas does not use shows.
"""

import random
import re
from functools import cache

import numpy as np
import pytest

from checks.compiling import must_compile
from gemm_lessons import engine
from gemm_lessons.engine.compiler.compile import Compiled, SharedSass
from gemm_lessons.engine.compiler.diagnostics import plain_name

MANY = 8
SIZES = {"char": 1, "short": 2, "float": 4, "double": 8, "float4": 16}


def kernel(seed: int) -> tuple[str, list[tuple[str, int]]]:
    """A source and its static arrays as (name, bytes); all sizes differ, so no two can be mistaken."""
    rng = random.Random(seed)
    arrays = [(f"s{i}", rng.choice(list(SIZES)), 7 * i + rng.randint(1, 7)) for i in range(rng.randint(2, 5))]
    outside = [a for a in arrays if rng.random() < 0.25]
    lines = [f"__shared__ {kind} {name}[{count}];" for name, kind, count in outside]
    lines.append("__global__ void gemm(unsigned *x, int n, int m)\n{")
    lines += [
        f"__shared__ {kind} {name}[{count}];" for name, kind, count in arrays if (name, kind, count) not in outside
    ]
    if rng.random() < 0.5:
        lines.append("extern __shared__ float dynamic[]; dynamic[n] = 1;")
    for name, _, _ in rng.sample(arrays, len(arrays)):
        lines.append(f"x[{name[1:]}] = (unsigned)__cvta_generic_to_shared(&{name}[0]);")
        lines.append(f"*(volatile char *)&{name}[n] = m;")
    return "\n".join([*lines, "}"]), [(name, SIZES[kind] * count) for name, kind, count in arrays]


@cache
def kernels() -> list[Compiled]:
    """All of them, with one disassembly."""
    made = [must_compile(kernel(seed)[0], entry="gemm") for seed in range(MANY)]
    shared = SharedSass(lambda: made)
    for it in made:
        it.share_sass(shared)
    return made


@pytest.mark.parametrize("seed", range(MANY))
def test_offsets_are_those_in_the_machine_code(seed):
    _, arrays = kernel(seed)
    it = kernels()[seed]
    found = {plain_name(name): (offset, size) for name, offset, size in it.shared_layout}
    assert {name: size for name, (_, size) in found.items()} == dict(arrays)
    constants = {int(value, 16) for i in it.sass for value in re.findall(r"0x([0-9a-f]+)", i.text)}
    for offset, _ in found.values():
        # Hopper keeps the first 0x400 bytes to itself.
        assert offset == 0 or offset in constants or offset + 0x400 in constants


def test_one_array_and_none(compiled):
    one = "__global__ void gemm(int *x) { __shared__ int s[5]; s[x[1]] = x[2]; __syncthreads(); x[0] = s[x[3]]; }"
    assert compiled(one).shared_layout == (("_ZZ4gemmPiE1s", 0, 20),)
    assert compiled("__global__ void gemm(int *x) { x[0] = 1; }").shared_layout == ()


def test_only_arrays_of_this_kernel(compiled):
    body = "{{ __shared__ int {0}[{1}]; {0}[x[1]] = x[2]; __syncthreads(); x[0] = {0}[x[3]]; }}\n"
    source = "__shared__ int w[9];\n" + "".join(
        f"__global__ void {name}(int *x) " + body.format(name + "s", count) for name, count in (("a", 3), ("b", 5))
    )
    source += "__global__ void c(int *x) { w[x[1]] = 1; __syncthreads(); x[0] = w[x[3]]; }"
    assert compiled(source, "b").shared_layout == (("_ZZ1bPiE2bs", 0, 20),)
    assert compiled(source, "c").shared_layout == (("w", 0, 36),)


def test_nothing_is_claimed_when_the_total_is_not_ptxas(compiled):
    """A shared array inside a function that is not inlined is not among the kernel's own declarations."""
    source = """__device__ __noinline__ float f(float *x)
    {
        __shared__ float hidden[11];
        hidden[threadIdx.x] = x[1];
        __syncthreads();
        return hidden[int(x[2])];
    }
    __global__ void gemm(float *x)
    {
        __shared__ float s[5];
        s[threadIdx.x] = x[0];
        __syncthreads();
        x[0] = f(x) + s[int(x[1])];
    }"""
    it = compiled(source)
    assert it.resources.shared_bytes >= 64
    assert it.shared_layout == ()


@pytest.mark.parametrize("kernels", [1, 2])
def test_what_several_kernels_use_lies_behind_the_own_arrays(kernels):
    other = "__global__ void other(float *x) { x[threadIdx.x] = turned(x[threadIdx.x]); }"
    source = f"""
        __device__ float turned(float v) {{
            __shared__ float all[32];
            all[threadIdx.x & 31] = v;
            __syncthreads();
            return all[(threadIdx.x + 1) & 31];
        }}
        {other if kernels == 2 else ""}
        __global__ void gemm(float *x) {{
            __shared__ float first;
            float v = turned(x[threadIdx.x]);
            if (threadIdx.x == 0)
                first = v;
            __syncthreads();
            x[threadIdx.x] = v + first;
        }}"""
    kernel = engine.compile(source, "gemm")
    x = np.arange(32, dtype=np.float32)
    assert not kernel.launch(1, 32, [x]).findings  # machine code would touch other bytes than PTX
    assert (x == np.roll(np.arange(32), -1) + 1).all()
