// honest: hoists every address: pointers into both matrices and both tiles, 64-bit offsets
extern "C" __global__ void gemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K)
{
    __shared__ float tile[BM * BK + BK * BN];
    float *const as = tile, *const bs = tile + BM * BK;
    const unsigned ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const long long row = (long long)blockIdx.y * BM, col = (long long)blockIdx.x * BN + tx;
    const float *pa = A + (row + ty) * K + tx;
    const float *pb = B + (long long)ty * N + col;
    float acc[TM] = {0, 0, 0, 0};
    for (int left = K; left > 0; left -= BK, pa += BK, pb += (long long)BK * N) {
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int r = ty + i * (BM / TM);
            as[r * BK + tx] = row + r < M && (int)tx < left ? pa[(long long)i * (BM / TM) * K] : 0.0f;
            bs[r * BN + tx] = r < left && col < N ? pb[(long long)i * (BM / TM) * N] : 0.0f;
        }
        __syncthreads();
        const float *sa = as + ty * TM * BK, *sb = bs + tx;
#pragma unroll 4
        for (int k = 0; k < BK; ++k, ++sa, sb += BN) {
            const float b = *sb;
            acc[0] += sa[0 * BK] * b;
            acc[1] += sa[1 * BK] * b;
            acc[2] += sa[2 * BK] * b;
            acc[3] += sa[3 * BK] * b;
        }
        __syncthreads();
    }
    if (col < N)
        for (int i = 0; i < TM; ++i)
            if (row + ty * TM + i < M)
                C[(row + ty * TM + i) * N + col] = acc[i];
}
