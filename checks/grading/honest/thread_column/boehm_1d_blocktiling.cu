// honest: learned from Simon Boehm's kernel 4: threadResults, Btmp, pointers that advance, a shallow tile
typedef unsigned int uint;
const int DEPTH = 16;

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const uint cRow = blockIdx.y;
    const uint cCol = blockIdx.x;
    const int threadCol = threadIdx.x % BN;
    const int threadRow = threadIdx.x / BN;
    __shared__ float As[BM * DEPTH];
    __shared__ float Bs[DEPTH * BN];

    A += cRow * BM * K;
    B += cCol * BN;
    C += cRow * BM * N + cCol * BN;
    const int rows = M - cRow * BM, cols = N - cCol * BN;

    const uint innerColA = threadIdx.x % DEPTH;
    const uint innerRowA = threadIdx.x / DEPTH;
    const uint innerColB = threadIdx.x % BN;
    const uint innerRowB = threadIdx.x / BN;

    float threadResults[TM] = {0.0};

    for (uint bkIdx = 0; bkIdx < K; bkIdx += DEPTH) {
        const int left = K - bkIdx;
        As[innerRowA * DEPTH + innerColA] = int(innerRowA) < rows && int(innerColA) < left ? A[innerRowA * K + innerColA] : 0;
        Bs[innerRowB * BN + innerColB] = int(innerRowB) < left && int(innerColB) < cols ? B[innerRowB * N + innerColB] : 0;
        __syncthreads();

        A += DEPTH;
        B += DEPTH * N;

        for (uint dotIdx = 0; dotIdx < DEPTH; ++dotIdx) {
            float Btmp = Bs[dotIdx * BN + threadCol];
            for (uint resIdx = 0; resIdx < TM; ++resIdx) {
                threadResults[resIdx] += As[(threadRow * TM + resIdx) * DEPTH + dotIdx] * Btmp;
            }
        }
        __syncthreads();
    }

    for (uint resIdx = 0; resIdx < TM; ++resIdx) {
        if (int(threadRow * TM + resIdx) < rows && threadCol < cols)
            C[(threadRow * TM + resIdx) * N + threadCol] = threadResults[resIdx];
    }
}
