// honest: copies all by cp.async, as wide as a copy need not be turned, zeros where nothing is, over three buffers
#include "floats.cuh"

constexpr int NT_ = (BM / WM) * (BN / WN) * 32;

template <int BYTES>
__device__ __forceinline__ void cp(void *to, const void *from, bool there)
{
    unsigned s = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(s), "l"(from), "n"(BYTES), "r"(there ? BYTES : 0) : "memory");
}

// Rows that lie along k are turned through registers, four at a time; the others are copied as they lie.
template <int R, bool ALONG_K, int W>
struct Side {
    static constexpr int N = R * BK / NT_ / W;
    const float *X;
    int ld, rows, K, r0;
    Floats<W> reg[N];

    __device__ void start(float (*t)[R + 4 * ALONG_K], int k0)
    {
#pragma unroll
        for (int n = 0; n < N; n++) {
            const int e = (n * NT_ + threadIdx.x) * W;
            const int r = r0 + (ALONG_K ? e / BK : e % R), k = k0 + (ALONG_K ? e % BK : e / R);
            const bool in = r < rows && k < K;
            if (ALONG_K) {
                reg[n] = {};
                if (in)
                    reg[n] = floats_at<W>(X[r * ld + k]);
            } else {
                cp<4 * W>(&t[e / R][e % R], in ? &X[k * ld + r] : X, in);
            }
        }
    }
    __device__ void finish(float (*t)[R + 4 * ALONG_K])
    {
        if (ALONG_K)
#pragma unroll
            for (int n = 0; n < N; n++) {
                const int e = (n * NT_ + threadIdx.x) * W;
                for (int i = 0; i < W; i++)
                    t[e % BK + i][e / BK] = reg[n].at[i];
            }
    }
};

extern "C" __global__ void __launch_bounds__(NT_)
gemm(const float *A, const float *B, float *C, int M, int N, int K, int lda, int ldb, int ldc)
{
    __shared__ __align__(16) float sa[3][BK][BM + 4 * !TRANS_A];
    __shared__ __align__(16) float sb[3][BK][BN + 4 * TRANS_B];
    Side<BM, !TRANS_A, WIDTH_A> a{A, lda, M, K, int(blockIdx.y * BM)};
    Side<BN, TRANS_B, WIDTH_B> b{B, ldb, N, K, int(blockIdx.x * BN)};
    constexpr int L = WN / TN, DOWN = WM / (TM / 4), RIGHT = WN / (TN / 4);
    const int w = threadIdx.x / 32, l = threadIdx.x % 32;
    const int r0 = w / (BN / WN) * WM + (l / (2 * L) * 2 + l % 2) * 4, c0 = w % (BN / WN) * WN + l / 2 % L * 4;
    float acc[TM][TN] = {};

    a.start(sa[0], 0);
    b.start(sb[0], 0);
    a.finish(sa[0]);
    b.finish(sb[0]);
    asm volatile("cp.async.commit_group;" ::: "memory");
    int now = 0, next = 1;
    for (int k0 = 0; k0 < K; k0 += BK) {
        a.start(sa[next], k0 + BK); // behind K all is zero
        b.start(sb[next], k0 + BK);
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float p[TM], q[TN];
#pragma unroll
            for (int h = 0; h < TM / 4; h++)
                *reinterpret_cast<float4 *>(p + 4 * h) = *reinterpret_cast<float4 *>(&sa[now][k][r0 + DOWN * h]);
#pragma unroll
            for (int h = 0; h < TN / 4; h++)
                *reinterpret_cast<float4 *>(q + 4 * h) = *reinterpret_cast<float4 *>(&sb[now][k][c0 + RIGHT * h]);
#pragma unroll
            for (int j = 0; j < TN; j++)
#pragma unroll
                for (int i = 0; i < TM; i++)
                    acc[i][j] += p[i] * q[j];
        }
        a.finish(sa[next]);
        b.finish(sb[next]);
        now = next;
        next = next == 2 ? 0 : next + 1;
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += WIDTH_C) {
            const int r = blockIdx.y * BM + r0 + i / 4 * DOWN + i % 4, c = blockIdx.x * BN + c0 + j / 4 * RIGHT + j % 4;
            if (r < M && c < N)
                floats_at<WIDTH_C>(C[r * ldc + c]) = floats_at<WIDTH_C>(acc[i][j]);
        }
}
