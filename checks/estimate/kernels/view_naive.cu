// One thread, one element, through views. The lanes of a warp stand side by side in a row of C. TILE x TILE threads.
#include "view.cuh"

extern "C" __global__ void gemm(View A, View B, View C)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= C.rows || col >= C.cols)
        return;
    float acc = 0.0f;
    for (int k = 0; k < A.cols; k++)
        acc += A(row, k) * B(k, col);
    C(row, col) = acc;
}
