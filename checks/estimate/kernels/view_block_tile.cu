// TILE x TILE tiles in shared memory, one element per thread, through views.
#include "view.cuh"

extern "C" __global__ void gemm(View A, View B, View C)
{
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];
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
