// TILE x TILE tiles in shared memory, one element per thread, through views.
// The tiles start one float behind a 16-byte boundary, so that the compiler cannot join loads; see ../seeds.py.
#include "view.cuh"

extern "C" __global__ void gemm(View A, View B, View C)
{
    __shared__ __align__(16) float memory[1 + 2 * TILE * TILE];
    float(*As)[TILE] = (float(*)[TILE])(memory + 1);
    float(*Bs)[TILE] = As + TILE;
    const int each = TILE * TILE / (blockDim.x * blockDim.y); // known only when the kernel runs
    const int first = each * (threadIdx.y * blockDim.x + threadIdx.x);
    float acc = 0.0f;
    for (int k0 = 0; k0 < A.cols; k0 += TILE) {
        const View a = A.tile(blockIdx.y * TILE, k0, TILE, TILE);
        const View b = B.tile(k0, blockIdx.x * TILE, TILE, TILE);
        for (int i = first; i < first + each; i++) {
            As[i / TILE][i % TILE] = a(i / TILE, i % TILE);
            Bs[i / TILE][i % TILE] = b(i / TILE, i % TILE);
        }
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    C(blockIdx.y * TILE + threadIdx.y, blockIdx.x * TILE + threadIdx.x) = acc;
}
