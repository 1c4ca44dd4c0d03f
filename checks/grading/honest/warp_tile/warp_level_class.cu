// honest: learned from CUTLASS: a warp-level Mma with its own iterators
#include "float4.cuh"

template <int kM, int kN, int kStrideA, int kStrideB>
class WarpMma {
public:
    static int const kThreads = 32;
    __device__ WarpMma(int warp_m, int warp_n, int lane)
        : row_(warp_m * kM + (lane / 16 * 2 + lane % 2) * 4), column_(warp_n * kN + lane / 2 % 8 * 4)
    {
        for (int i = 0; i < 8; ++i)
            for (int j = 0; j < 8; ++j)
                accum_[i][j] = 0.f;
    }
    template <int kDepth>
    __device__ void multiply(float const *smem_A, float const *smem_B)
    {
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
            float a[8], b[8];
            float4_at(a[0]) = float4_at(smem_A[k * kStrideA + row_]);
            float4_at(a[4]) = float4_at(smem_A[k * kStrideA + row_ + kM / 2]);
            float4_at(b[0]) = float4_at(smem_B[k * kStrideB + column_]);
            float4_at(b[4]) = float4_at(smem_B[k * kStrideB + column_ + kN / 2]);
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    accum_[i][j] += a[i] * b[j];
        }
    }
    __device__ void store(float *C, int ldc) const
    {
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int j = 0; j < 8; j += 4)
                float4_at(C[(row_ + i / 4 * (kM / 2) + i % 4) * ldc + column_ + j / 4 * (kN / 2)]) = float4_at(accum_[i][j]);
    }

private:
    int row_, column_;
    float accum_[8][8];
};

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    struct Storage {
        alignas(16) float a[BK][BM + 4];
        alignas(16) float b[BK][BN];
    };
    __shared__ Storage storage;
    int const t = threadIdx.x, warp = __shfl_sync(~0u, t / 32, 0);
    WarpMma<WM, WN, BM + 4, BN> mma(warp / 2, warp % 2, t % 32);
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4 const v = float4_at(A[(blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4]);
        storage.a[t % 2 * 4 + 0][t / 2] = v.x;
        storage.a[t % 2 * 4 + 1][t / 2] = v.y;
        storage.a[t % 2 * 4 + 2][t / 2] = v.z;
        storage.a[t % 2 * 4 + 3][t / 2] = v.w;
        for (int r = 0; r < BK; r += 4)
            float4_at(storage.b[r + t / 32][t % 32 * 4]) = float4_at(B[(k0 + r + t / 32) * N + blockIdx.x * BN + t % 32 * 4]);
        __syncthreads();
        mma.multiply<BK>(&storage.a[0][0], &storage.b[0][0]);
        __syncthreads();
    }
    mma.store(C + blockIdx.y * BM * N + blockIdx.x * BN, N);
}
