// honest: moves bytes as int4 and looks at them as floats only where he multiplies
extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ int4 As[BM * BK / 4];
    __shared__ uint4 Bs[BK * BN / 4];
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        As[t] = __ldg(reinterpret_cast<const int4 *>(A + (blockIdx.y * BM + t / 2) * K + k0) + t % 2);
        Bs[t] = __ldg(reinterpret_cast<const uint4 *>(B + (k0 + t / 32) * N + blockIdx.x * BN) + t % 32);
        __syncthreads();
        for (int k = 0; k < BK; k += 4) {
            int4 x[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                x[i] = As[(r + i) * 2 + k / 4];
#pragma unroll
            for (int s = 0; s < 4; s++) {
                const uint4 v = Bs[(k + s) * 32 + c / 4], w = Bs[(k + s) * 32 + c / 4 + 1];
                const unsigned y[8] = {v.x, v.y, v.z, v.w, w.x, w.y, w.z, w.w};
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const float a = __int_as_float(s == 0 ? x[i].x : s == 1 ? x[i].y : s == 2 ? x[i].z : x[i].w);
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        acc[i][j] = fmaf(a, __uint_as_float(y[j]), acc[i][j]);
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            __stcs(reinterpret_cast<float4 *>(C + (blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c + j),
                   make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]));
}
