// honest: a warp programmer: the lanes read 32 k of their row of A at once and hand them round by shuffles
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const unsigned full = 0xffffffffu;
    const int lane = threadIdx.x & 31;
    const int row = blockIdx.y * BM + (threadIdx.x >> 5);
    const int col = blockIdx.x * BN + lane;
    if (row >= M) // the whole warp
        return;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 32) {
        const float mine = k0 + lane < K ? A[row * K + k0 + lane] : 0.0f;
        const int here = min(32, K - k0);
        for (int k = 0; k < here; k++) {
            const float a = __shfl_sync(full, mine, k);
            if (col < N)
                acc += a * B[(k0 + k) * N + col];
        }
    }
    if (col < N)
        C[row * N + col] = acc;
}
