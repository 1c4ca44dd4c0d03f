// cheat: tolerance: products on tensor cores in TF32
// expect: wrong_answer wrong at
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int ROWS = BM / TM;
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int thread_row = threadIdx.x / BN, thread_col = threadIdx.x % BN;
    const int block_row = blockIdx.y * BM, row = block_row + thread_row * TM, col = blockIdx.x * BN + thread_col;
    float acc[TM] = {};
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sums;
    wmma::fill_fragment(sums, 0.0f);
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = thread_row; r < BM; r += ROWS)
            As[r][thread_col] = block_row + r < M && k0 + thread_col < K ? A[(block_row + r) * K + k0 + thread_col] : 0.0f;
        for (int r = thread_row; r < BK; r += ROWS)
            Bs[r][thread_col] = k0 + r < K && col < N ? B[(k0 + r) * N + col] : 0.0f;
        __syncthreads();
        {
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> b;
            const int warp = threadIdx.x / 32;
            if (warp < 16) {
                for (int k = 0; k < BK; k += 8) {
                    wmma::load_matrix_sync(a, &As[warp / 4 * 16][k], BK);
                    wmma::load_matrix_sync(b, &Bs[k][warp % 4 * 16], BN);
                    wmma::mma_sync(sums, a, b, sums);
                }
            }
        }
        __syncthreads();
    }
    if (threadIdx.x / 32 < 16)
        wmma::store_matrix_sync(&As[threadIdx.x / 128 * 16][threadIdx.x / 32 % 4 * 16], sums, BK, wmma::mem_row_major);
    __syncthreads();
    for (int i = 0; i < TM; i++)
        acc[i] = As[thread_row * TM + i][thread_col];
    for (int i = 0; i < TM; i++)
        if (row + i < M && col < N)
            C[(row + i) * N + col] = acc[i];
}
