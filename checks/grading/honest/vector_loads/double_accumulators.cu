// honest: sums in double, and still moves four floats at a time
extern "C" __global__ void __launch_bounds__(256, 1)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float4 As[BM][2], Bs[BK][32];
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 2;
    double acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        As[t / 2][t % 2] = *reinterpret_cast<const float4 *>(A + (blockIdx.y * BM + t / 2) * K + k0 + t % 2 * 4);
        Bs[t / 32][t % 32] = *reinterpret_cast<const float4 *>(B + (k0 + t / 32) * N + blockIdx.x * BN + t % 32 * 4);
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < 2; k++) {
            float a[8][4];
            for (int i = 0; i < 8; i++)
                *reinterpret_cast<float4 *>(a[i]) = As[r + i][k];
#pragma unroll
            for (int s = 0; s < 4; s++) {
                float b[8];
                *reinterpret_cast<float4 *>(b) = Bs[k * 4 + s][c];
                *reinterpret_cast<float4 *>(b + 4) = Bs[k * 4 + s][c + 1];
                for (int i = 0; i < 8; i++)
                    for (int j = 0; j < 8; j++)
                        acc[i][j] += (double)a[i][s] * (double)b[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            *reinterpret_cast<float4 *>(C + (blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c * 4 + j) =
                make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
}
