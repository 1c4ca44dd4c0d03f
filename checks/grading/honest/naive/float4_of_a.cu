// honest: has read that wide loads are good: four k of A at once where K allows it, one by one where not
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x % BM;
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    if (K % 4 == 0) {
        const float4 *a4 = reinterpret_cast<const float4 *>(A + row * K);
        for (int k = 0; k < K; k += 4) {
            const float4 v = a4[k / 4];
            acc += v.x * B[k * N + col];
            acc += v.y * B[(k + 1) * N + col];
            acc += v.z * B[(k + 2) * N + col];
            acc += v.w * B[(k + 3) * N + col];
        }
    } else {
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
    }
    C[row * N + col] = acc;
}
