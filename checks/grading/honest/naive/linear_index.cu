// honest: numbers the block's elements through and divides
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const unsigned tid = threadIdx.x;
    const unsigned r = blockIdx.y * BM + tid / BN, c = blockIdx.x * BN + tid % BN;
    const unsigned id = r * N + c;
    const bool mine = r < unsigned(M) && c < unsigned(N);
    if (mine) {
        const unsigned ri = id / N, ci = id % N;
        float value = 0;
#pragma unroll 8
        for (int k = 0; k < K; ++k)
            value += A[ri * K + k] * B[k * N + ci];
        C[id] = value;
    }
}
