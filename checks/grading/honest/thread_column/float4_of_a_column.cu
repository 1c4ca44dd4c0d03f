// honest: keeps A transposed, so that the four rows of a thread are one float4
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float At[BK][BM + 4];
    __shared__ float Bs[BK][BN];
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN + tx;
    union { float4 v; float f[4]; } acc, a;
    acc.v = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = ty; r < BM; r += BM / TM)
            At[tx][r] = row + r < M && k0 + tx < K ? A[(row + r) * K + k0 + tx] : 0.f;
        for (int r = ty; r < BK; r += BM / TM)
            Bs[r][tx] = k0 + r < K && col < N ? B[(k0 + r) * N + col] : 0.f;
        __syncthreads();
        for (int k = 0; k < BK; k++) {
            const float b = Bs[k][tx];
            a.v = *(const float4 *)&At[k][ty * TM];
            for (int i = 0; i < 4; i++)
                acc.f[i] = fmaf(a.f[i], b, acc.f[i]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        if (row + ty * TM + i < M && col < N)
            C[(row + ty * TM + i) * N + col] = acc.f[i];
}
