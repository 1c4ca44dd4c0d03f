// honest: reads the next number of Bs and the next four of As before using these
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN + tx;
    float acc[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = ty; r < BM; r += BM / TM)
            As[r][tx] = row + r < M && k0 + tx < K ? __ldg(&A[(row + r) * K + k0 + tx]) : 0.f;
        for (int r = ty; r < BK; r += BM / TM)
            Bs[r][tx] = k0 + r < K && col < N ? __ldg(&B[(k0 + r) * N + col]) : 0.f;
        __syncthreads();
        float a[2][TM], b[2];
        b[0] = Bs[0][tx];
#pragma unroll
        for (int i = 0; i < TM; i++)
            a[0][i] = As[ty * TM + i][0];
#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k + 1 < BK) {
                b[(k + 1) % 2] = Bs[k + 1][tx];
#pragma unroll
                for (int i = 0; i < TM; i++)
                    a[(k + 1) % 2][i] = As[ty * TM + i][k + 1];
            }
#pragma unroll
            for (int i = 0; i < TM; i++)
                acc[i] = __fmaf_rn(a[k % 2][i], b[k % 2], acc[i]);
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        if (row + ty * TM + i < M && col < N)
            C[(row + ty * TM + i) * N + col] = acc[i];
}
