// honest: copies float4 where rows allow it: half of the block for A, half for B
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BM][BK];
    __shared__ __align__(16) float Bs[BK][BN];
    const int t = threadIdx.x, ty = t / BN, tx = t % BN;
    const int row = blockIdx.y * BM + ty, col = blockIdx.x * BN + tx;
    const bool wide = K % 4 == 0 && N % 4 == 0;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int half = t % 512;
        const bool is_a = t < 512;
        const int r = is_a ? half / (BK / 4) : half / (BN / 4);
        const int c = (is_a ? half % (BK / 4) : half % (BN / 4)) * 4;
        const float *from = is_a ? A + (blockIdx.y * BM + r) * K + k0 + c : B + (k0 + r) * N + blockIdx.x * BN + c;
        float *to = is_a ? &As[r][c] : &Bs[r][c];
        const int rows_left = is_a ? M - int(blockIdx.y * BM) - r : K - k0 - r;
        const int cols_left = is_a ? K - k0 - c : N - int(blockIdx.x * BN) - c;
        if (wide && rows_left > 0 && cols_left >= 4) {
            *reinterpret_cast<float4 *>(to) = *reinterpret_cast<const float4 *>(from);
        } else {
            for (int i = 0; i < 4; i++)
                to[i] = rows_left > 0 && i < cols_left ? from[i] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < BK; k++)
            acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
