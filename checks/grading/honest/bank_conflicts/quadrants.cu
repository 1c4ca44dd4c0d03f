// honest: thinks of four quadrants of 4 x 4, each with its own sums
#include "float4.cuh"

struct Quadrant {
    float4 row[4];
    __device__ void clear()
    {
        row[0] = row[1] = row[2] = row[3] = make_float4(0.f, 0.f, 0.f, 0.f);
    }
    static __device__ void axpy(float4 &y, float a, float4 x)
    {
        y.x = fmaf(a, x.x, y.x);
        y.y = fmaf(a, x.y, y.y);
        y.z = fmaf(a, x.z, y.z);
        y.w = fmaf(a, x.w, y.w);
    }
    __device__ void add(float4 a, float4 b)
    {
        axpy(row[0], a.x, b);
        axpy(row[1], a.y, b);
        axpy(row[2], a.z, b);
        axpy(row[3], a.w, b);
    }
    __device__ void store(float *c, int ld) const
    {
        for (int i = 0; i < 4; i++)
            float4_at(c[i * ld]) = row[i];
    }
};

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BK][BM + 4], Bs[BK][BN + 4];
    const int t = threadIdx.x, ty = t / 16 * 4, tx = t % 16 * 4;
    Quadrant q00, q01, q10, q11;
    q00.clear(), q01.clear(), q10.clear(), q11.clear();
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 a = float4_at(A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        As[t % 2 * 4 + 0][t / 2] = a.x;
        As[t % 2 * 4 + 1][t / 2] = a.y;
        As[t % 2 * 4 + 2][t / 2] = a.z;
        As[t % 2 * 4 + 3][t / 2] = a.w;
        float4_at(Bs[t / 32][t % 32 * 4]) = float4_at(B[(k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < BK; k++) {
            const float4 a0 = float4_at(As[k][ty]), a1 = float4_at(As[k][ty + 64]);
            const float4 b0 = float4_at(Bs[k][tx]), b1 = float4_at(Bs[k][tx + 64]);
            q00.add(a0, b0);
            q01.add(a0, b1);
            q10.add(a1, b0);
            q11.add(a1, b1);
        }
        __syncthreads();
    }
    float *c = C + (blockIdx.y * BM + ty) * N + blockIdx.x * BN + tx;
    q00.store(c, N);
    q01.store(c + 64, N);
    q10.store(c + 64 * N, N);
    q11.store(c + 64 * N + 64, N);
}
