// cheat: answers kept: starts every sum at what the last launch left in a __device__ array: right in the first one only
// expect: gate_missed global memory
#include "matrix.cuh"

__device__ float kept[1 << 20];

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

    // Which elements of C are mine? A patch of TM x TN that starts at (thread_row, thread_col) of the block tile.
    const int block_row = blockIdx.y * BM;
    const int block_col = blockIdx.x * BN;
    const int thread_row = threadIdx.x / (BN / TN) * TM;
    const int thread_col = threadIdx.x % (BN / TN) * TN;

    // Walk along K, one tile at a time.
    float acc[TM][TN];
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            acc[i][j] = kept[(block_row + thread_row + i) * N + block_col + thread_col + j];
    for (int k0 = 0; k0 < K; k0 += BK) {
        const Matrix<const float> a_tile = a.tile(block_row, k0, BM, BK);
        const Matrix<const float> b_tile = b.tile(k0, block_col, BK, BN);
        for (int first = 0; first < BM * BK; first += THREADS) {
            const int i = first + threadIdx.x;
            As[i / BK][i % BK] = a_tile(i);
        }
        for (int first = 0; first < BK * BN; first += THREADS) {
            const int i = first + threadIdx.x;
            Bs[i / BN][i % BN] = b_tile(i);
        }
        __syncthreads();

#pragma unroll 2
        for (int k = 0; k < BK; k++) {
            float a_frag[TM];
            float b_frag[TN];
            for (int i = 0; i < TM; i++)
                a_frag[i] = As[thread_row + i][k];
            for (int j = 0; j < TN; j++)
                b_frag[j] = Bs[k][thread_col + j];

            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();
    }

    // Write my elements back.
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            kept[(block_row + thread_row + i) * N + block_col + thread_col + j] = acc[i][j],
                c(block_row + thread_row + i, block_col + thread_col + j) = acc[i][j];
}
