// Lesson 05: thread tiles
// New idea: one thread computes TM x TN elements, an outer product in registers for every k.
// Before:   lesson 04, TM + 1 shared floats for TM multiply-adds. Now: TM + TN for TM * TN.
// Shapes:   M, N, K are multiples of BM, BN, BK, so the kernel needs no guards. Lesson 10 brings them back.
// Launch:   grid (N/BN, M/BM), block (BM/TM)*(BN/TN) threads; BM = BN = 128, BK = TM = TN = 8 from lesson.toml.
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN))
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = (BM / TM) * (BN / TN);
    static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "every thread copies the same number of elements");
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    const Matrix<const float> a{A, M, K, K, 1};
    const Matrix<const float> b{B, K, N, N, 1};
    const Matrix<float> c{C, M, N, N, 1};

    // Which elements of C are mine? A TM x TN tile that starts at (thread_row, thread_col) of the block tile.
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int thread_row = threadIdx.x / (BN / TN) * TM;
    const int thread_col = threadIdx.x % (BN / TN) * TN;

    // Walk along K, one tile at a time.
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const Matrix<const float> a_tile = a.tile(block_row, k0, BM, BK);
        const Matrix<const float> b_tile = b.tile(k0, block_col, BK, BN);
        // TODO(1): which elements of a_tile and b_tile do I copy, and where do they go in As and Bs?
        __syncthreads();

#pragma unroll 2
        for (int k = 0; k < BK; k++) {
            float a_frag[TM];
            float b_frag[TN];
            // TODO(2): which floats of As and Bs does my tile need for this k? Read each of them once.

            // TODO(3): which product belongs to which element of acc?
        }
        __syncthreads();
    }

    // Write my elements back.
    // TODO(4): where does each element of acc go in C?
}
