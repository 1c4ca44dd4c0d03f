// honest: knows that a double2 is 128 bits, too
static __device__ __forceinline__ void split(double2 v, float *f)
{
    f[0] = __int_as_float(__double2loint(v.x));
    f[1] = __int_as_float(__double2hiint(v.x));
    f[2] = __int_as_float(__double2loint(v.y));
    f[3] = __int_as_float(__double2hiint(v.y));
}

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ double2 As[BM * BK / 4], Bs[BK * BN / 4];
    const int t = threadIdx.x, ty = t / 16, tx = t % 16;
    const double2 *a = reinterpret_cast<const double2 *>(A) + (blockIdx.y * BM + t / 2) * (K / 4) + t % 2;
    const double2 *b = reinterpret_cast<const double2 *>(B) + t / 32 * (N / 4) + blockIdx.x * 32 + t % 32;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        As[t] = a[k0 / 4];
        Bs[t] = b[k0 * (N / 4)];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 2; k++) {
            float x[8][4], y[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                split(As[(ty * 8 + i) * 2 + k], x[i]);
#pragma unroll
            for (int s = 0; s < 4; s++) {
                split(Bs[(k * 4 + s) * 32 + tx * 2], y);
                split(Bs[(k * 4 + s) * 32 + tx * 2 + 1], y + 4);
#pragma unroll
                for (int i = 0; i < 8; i++)
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        acc[i][j] += x[i][s] * y[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            *reinterpret_cast<float4 *>(C + (blockIdx.y * BM + ty * 8 + i) * N + blockIdx.x * BN + tx * 8 + j) =
                make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
}
