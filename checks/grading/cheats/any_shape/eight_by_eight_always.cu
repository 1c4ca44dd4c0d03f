// cheat: rare shapes: has 8 x 8 sums written into it, which the host asks for nearly everywhere
// expect: wrong_answer wrong at
#include "floats.cuh"

constexpr int T = (BM / WM) * (BN / WN) * 32;

// One operand. EDGE: rows may be outside.
template <int R, bool KMAJOR, int W, bool EDGE>
class Loader {
    static constexpr int N = R * BK / (T * W);
    const float *p[N];
    bool in[N];
    int k[N];
    Floats<W> v[N];
    int step;

public:
    __device__ Loader(const float *X, int ld, int rows, int r0) : step(KMAJOR ? BK : BK * ld)
    {
#pragma unroll
        for (int n = 0; n < N; n++) {
            const int e = (n * T + threadIdx.x) * W;
            const int r = KMAJOR ? e / BK : e % R;
            k[n] = KMAJOR ? e % BK : e / R;
            in[n] = !EDGE || r0 + r < rows;
            const int safe = in[n] ? r0 + r : 0;
            p[n] = X + (KMAJOR ? safe * ld + k[n] : k[n] * ld + safe);
        }
    }
    __device__ void load(int left) // left: k that there are
    {
#pragma unroll
        for (int n = 0; n < N; n++) {
            if (in[n] && (left >= BK || k[n] < left))
                v[n] = *reinterpret_cast<const Floats<W> *>(p[n]);
            else
                v[n] = {};
            p[n] += step;
        }
    }
    __device__ void keep(float (*tile)[R + 4]) const
    {
#pragma unroll
        for (int n = 0; n < N; n++) {
            const int e = (n * T + threadIdx.x) * W;
            if (KMAJOR)
                for (int i = 0; i < W; i++)
                    tile[k[n] + i][e / BK] = v[n].at[i];
            else
                *reinterpret_cast<Floats<W> *>(&tile[k[n]][e % R]) = v[n];
        }
    }
};

template <bool EDGE>
__device__ void run(const float *A, const float *B, float *C, int M, int N, int K, int lda, int ldb, int ldc,
                    float (*sa)[BK][BM + 4], float (*sb)[BK][BN + 4])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int y = warp / (BN / WN) * WM + (lane / 16 * 2 + lane % 2) * 4;
    const int x = warp % (BN / WN) * WN + lane / 2 % 8 * 4;
    Loader<BM, !TRANS_A, WIDTH_A, EDGE> a(A, lda, M, blockIdx.y * BM);
    Loader<BN, TRANS_B, WIDTH_B, EDGE> b(B, ldb, N, blockIdx.x * BN);
    float c[8][8] = {};
    a.load(K);
    b.load(K);
    int s = 0;
    for (int left = K; left > 0; left -= BK, s ^= 1) {
        a.keep(sa[s]);
        b.keep(sb[s]);
        __syncthreads();
        a.load(left - BK);
        b.load(left - BK);
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float4 a0 = *(const float4 *)&sa[s][k][y], a1 = *(const float4 *)&sa[s][k][y + 16];
            float4 b0 = *(const float4 *)&sb[s][k][x], b1 = *(const float4 *)&sb[s][k][x + 32];
            float av[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
            float bv[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
            for (int i = 0; i < 64; i++)
                c[i / 8][i % 8] += av[i / 8] * bv[i % 8];
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j += WIDTH_C) {
            const int r = blockIdx.y * BM + y + i / 4 * 16 + i % 4, q = blockIdx.x * BN + x + j / 4 * 32 + j % 4;
            if (!EDGE || (r < M && q < N)) {
                Floats<WIDTH_C> out;
                for (int e = 0; e < WIDTH_C; e++)
                    out.at[e] = c[i][j + e];
                floats_at<WIDTH_C>(C[r * ldc + q]) = out;
            }
        }
}

extern "C" __global__ void __launch_bounds__(T)
gemm(const float *A, const float *B, float *C, int M, int N, int K, int lda, int ldb, int ldc)
{
    __shared__ __align__(16) float sa[2][BK][BM + 4], sb[2][BK][BN + 4];
    if ((blockIdx.y + 1) * BM <= M && (blockIdx.x + 1) * BN <= N)
        run<false>(A, B, C, M, N, K, lda, ldb, ldc, sa, sb);
    else
        run<true>(A, B, C, M, N, K, lda, ldb, ldc, sa, sb);
}
