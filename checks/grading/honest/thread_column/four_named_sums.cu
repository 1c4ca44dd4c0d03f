// honest: trusts no array: four sums by name, the k loop unrolled by hand
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[64][64];
    __shared__ float Bs[64][64];
    const int ty = threadIdx.x / 64, tx = threadIdx.x % 64;
    const int r0 = blockIdx.y * 64, c = blockIdx.x * 64 + tx;
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int k0 = 0; k0 < K; k0 += 64) {
        for (int r = ty; r < 64; r += 16) {
            As[r][tx] = (r0 + r < M && k0 + tx < K) ? A[(r0 + r) * K + k0 + tx] : 0;
            Bs[r][tx] = (k0 + r < K && c < N) ? B[(k0 + r) * N + c] : 0;
        }
        __syncthreads();
        for (int k = 0; k < 64; k += 2) {
            float b0 = Bs[k][tx], b1 = Bs[k + 1][tx];
            s0 += As[4 * ty + 0][k] * b0; s0 += As[4 * ty + 0][k + 1] * b1;
            s1 += As[4 * ty + 1][k] * b0; s1 += As[4 * ty + 1][k + 1] * b1;
            s2 += As[4 * ty + 2][k] * b0; s2 += As[4 * ty + 2][k + 1] * b1;
            s3 += As[4 * ty + 3][k] * b0; s3 += As[4 * ty + 3][k + 1] * b1;
        }
        __syncthreads();
    }
    int r = r0 + 4 * ty;
    if (c < N) {
        if (r + 0 < M) C[(r + 0) * N + c] = s0;
        if (r + 1 < M) C[(r + 1) * N + c] = s1;
        if (r + 2 < M) C[(r + 2) * N + c] = s2;
        if (r + 3 < M) C[(r + 3) * N + c] = s3;
    }
}
