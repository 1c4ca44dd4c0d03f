"""Cases of ``ldmatrix`` for the simulator and a GPU: one kernel, its inputs, and the expected results."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.simulator.semantics_cases import stream

Array = np.ndarray[Any, Any]

FORMS = tuple(f"x{count}{how}" for count in (1, 2, 4) for how in ("", ".trans"))
THREADS = 96
ROWS = 64  # of shared memory, 16 bytes each
SOURCE = """
__device__ void load(unsigned (&out)[4], unsigned at)
{
    FORM
}

extern "C" __global__ void k(const uint4 *in, const int *rows, unsigned *out)
{
    __shared__ __align__(16) uint4 tile[64];
    const int t = threadIdx.x;
    if (t < 64) tile[t] = in[64 * blockIdx.x + t];
    __syncthreads();
    unsigned found[4] = {0, 0, 0, 0};
    load(found, (unsigned)__cvta_generic_to_shared(&tile[rows[t]]));
    for (int i = 0; i < 4; ++i) out[4 * (blockIdx.x * blockDim.x + t) + i] = found[i];
}
"""


def statement(form: str, space: str = "shared") -> str:
    """The inline assembly of one form, into ``out`` from ``at``."""
    count = int(form[1])
    places = ", ".join(f"%{i}" for i in range(count))
    results = ", ".join(f'"=r"(out[{i}])' for i in range(count))
    name = f"ldmatrix.sync.aligned.m8n8.{form}.{space}.b16"
    return f'asm volatile("{name} {{{places}}}, [%{count}];" : {results} : "r"(at) : "memory");'


def kernel(form: str, space: str = "shared") -> str:
    """CUDA C++ for one form."""
    return SOURCE.replace("FORM", statement(form, space))


def given(blocks: int = 2) -> tuple[Array, Array, Array]:
    """Arguments of the kernel: contents of shared memory, the row that each thread addresses, and the output."""
    words = (stream(8, blocks * ROWS * 4) >> np.uint64(7)).astype(np.uint32)
    rows = (stream(9, THREADS) % np.uint64(ROWS)).astype(np.int32)
    return words, rows, np.zeros(4 * blocks * THREADS, np.uint32)


def answer(form: str, blocks: int = 2) -> Array:
    """The expected output, element by element as in PTX ISA 9.7.14.5.15."""
    count, words, rows, out = int(form[1]), *given(blocks)
    halves = words.view(np.uint16).reshape(blocks, ROWS, 8)
    result = out.reshape(blocks, THREADS, 4)
    for block in range(blocks):
        for thread in range(THREADS):
            warp, lane = thread // 32 * 32, thread % 32
            for matrix in range(count):
                both = []
                for place in (2 * (lane % 4), 2 * (lane % 4) + 1):
                    row, column = (place, lane // 4) if "trans" in form else (lane // 4, place)
                    both.append(int(halves[block, rows[warp + 8 * matrix + row], column]))
                result[block, thread, matrix] = both[0] | both[1] << 16
    return out
