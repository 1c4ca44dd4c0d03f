// 128 x 128 x 8 tiles, 8 x 8 neighbouring elements per thread, 16 x 16 threads, through views. A thread copies four
// neighbours of each tile, one by one. STAGES 2: the next tile is copied after this one's arithmetic, into the other
// buffer.
#include "view.cuh"
#define BM 128
#define BN 128
#define BK 8
#define TM 8
#define TN 8

extern "C" __global__ void gemm(View A, View B, View C)
{
    __shared__ float As[STAGES][BM][BK];
    __shared__ float Bs[STAGES][BK][BN];
    float acc[TM][TN] = {};
    const int each = BM * BK / (blockDim.x * blockDim.y); // known only when the kernel runs
    const int first = each * (threadIdx.y * blockDim.x + threadIdx.x);

    const auto copy = [&](int buffer, int k0) {
        const View a = A.tile(blockIdx.y * BM, k0, BM, BK);
        const View b = B.tile(k0, blockIdx.x * BN, BK, BN);
        for (int i = first; i < first + each; i++) {
            As[buffer][i / BK][i % BK] = a(i / BK, i % BK);
            Bs[buffer][i / BN][i % BN] = b(i / BN, i % BN);
        }
    };
    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[TM], y[TN];
            for (int i = 0; i < TM; i++)
                x[i] = As[buffer][threadIdx.y * TM + i][k];
            for (int j = 0; j < TN; j++)
                y[j] = Bs[buffer][k][threadIdx.x * TN + j];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    acc[i][j] += x[i] * y[j];
        }
    };

#if STAGES == 1
    for (int k0 = 0; k0 < A.cols; k0 += BK) {
        copy(0, k0);
        __syncthreads();
        multiply(0);
        __syncthreads();
    }
#else
    copy(0, 0);
    __syncthreads();
    int now = 0;
    for (int k0 = BK; k0 < A.cols; k0 += BK) {
        multiply(now);
        now = 1 - now;
        copy(now, k0);
        __syncthreads();
    }
    multiply(now);
#endif
    const View c = C.tile(blockIdx.y * BM + threadIdx.y * TM, blockIdx.x * BN + threadIdx.x * TN, TM, TN);
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            c(i, j) = acc[i][j];
}
