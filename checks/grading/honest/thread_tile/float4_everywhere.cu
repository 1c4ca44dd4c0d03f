// honest: is a lesson ahead: float4 for copies, fragments and sums
extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float4 As[BK][BM / 4]; // transposed
    __shared__ float4 Bs[BK][BN / 4];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    float4 acc[8][2];
    for (int i = 0; i < 8; i++)
        acc[i][0] = acc[i][1] = make_float4(0, 0, 0, 0);
    for (int k0 = 0; k0 < K; k0 += BK) {
        const float4 a = *reinterpret_cast<const float4 *>(A + (blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4);
        float *as = reinterpret_cast<float *>(As);
        as[(t % 2 * 4 + 0) * BM + t / 2] = a.x;
        as[(t % 2 * 4 + 1) * BM + t / 2] = a.y;
        as[(t % 2 * 4 + 2) * BM + t / 2] = a.z;
        as[(t % 2 * 4 + 3) * BM + t / 2] = a.w;
        Bs[t / 32][t % 32] = *reinterpret_cast<const float4 *>(B + (k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4);
        __syncthreads();
        for (int k = 0; k < BK; k++) {
            float4 a4[2] = {As[k][ty * 2], As[k][ty * 2 + 1]};
            float4 b4[2] = {Bs[k][tx * 2], Bs[k][tx * 2 + 1]};
            const float *x = &a4[0].x;
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    acc[i][j].x += x[i] * b4[j].x;
                    acc[i][j].y += x[i] * b4[j].y;
                    acc[i][j].z += x[i] * b4[j].z;
                    acc[i][j].w += x[i] * b4[j].w;
                }
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 2; j++)
            *reinterpret_cast<float4 *>(C + (blockIdx.y * BM + ty * 8 + i) * N + blockIdx.x * BN + tx * 8 + j * 4) = acc[i][j];
}
