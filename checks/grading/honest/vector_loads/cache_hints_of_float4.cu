// honest: __ldg, __ldcg and __stcs of float4, wide indices, typed shared arrays of float4
extern "C" __global__ void __launch_bounds__(256) gemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K)
{
    __shared__ float4 As[BM][BK / 4];
    __shared__ float4 Bs[BK][BN / 4];
    const float4 *a = reinterpret_cast<const float4 *>(A) + (long long)blockIdx.y * BM * (K / 4);
    const float4 *b = reinterpret_cast<const float4 *>(B) + blockIdx.x * (BN / 4);
    float4 *c = reinterpret_cast<float4 *>(C) + (long long)blockIdx.y * BM * (N / 4) + blockIdx.x * (BN / 4);
    const int t = threadIdx.x, tx = t & 15, ty = t >> 4;
    float acc[TM][TN] = {};
    for (long long k = 0; k < K; k += BK) {
        As[t / 2][t % 2] = __ldg(&a[(long long)(t / 2) * (K / 4) + k / 4 + t % 2]);
        Bs[t / 32][t % 32] = __ldcg(&b[(k + t / 32) * (N / 4) + t % 32]);
        __syncthreads();
#pragma unroll 1
        for (int half = 0; half < 2; half++) {
            float4 rows[TM];
#pragma unroll
            for (int i = 0; i < TM; i++) rows[i] = As[ty * TM + i][half];
#pragma unroll
            for (int step = 0; step < 4; step++) {
                const float4 left = Bs[half * 4 + step][tx * 2], right = Bs[half * 4 + step][tx * 2 + 1];
                const float cols[TN] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
#pragma unroll
                for (int i = 0; i < TM; i++) {
                    const float x = step == 0 ? rows[i].x : step == 1 ? rows[i].y : step == 2 ? rows[i].z : rows[i].w;
#pragma unroll
                    for (int j = 0; j < TN; j++) acc[i][j] += x * cols[j];
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN / 4; j++)
            __stcs(&c[(long long)(ty * TM + i) * (N / 4) + tx * 2 + j], make_float4(acc[i][4 * j], acc[i][4 * j + 1], acc[i][4 * j + 2], acc[i][4 * j + 3]));
}
