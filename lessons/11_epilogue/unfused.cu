// The second kernel that lesson 11 saves: it reads all of C, adds the bias, applies ReLU and writes all of C again.
// N is a multiple of 4.
// Launch:   grid (ceil(N/(4*THREADS)), ceil(M/ROWS)), block THREADS
#include "float4.cuh"
#include "matrix.cuh"

constexpr int ROWS = 4; // per thread, all in flight at once

extern "C" __global__ void bias_relu(float *C, const float *bias, int M, int N, int ldc)
{
    const Matrix<float> c{C, M, N, ldc, 1};
    const int col = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (col >= N)
        return;
    const float4 b = float4_at(bias[col]);
    float4 x[ROWS] = {};
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (blockIdx.y * ROWS + i < M)
            x[i] = float4_at(c(blockIdx.y * ROWS + i, col));
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (blockIdx.y * ROWS + i < M)
            float4_at(c(blockIdx.y * ROWS + i, col)) = make_float4(max(x[i].x + b.x, 0.0f), max(x[i].y + b.y, 0.0f),
                                                                   max(x[i].z + b.z, 0.0f), max(x[i].w + b.w, 0.0f));
}
