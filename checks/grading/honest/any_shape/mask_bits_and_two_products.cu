// honest: keeps predicates as bits in a mask, as CUTLASS does, multiplies and adds apart, residue tile first
#include "floats.cuh"

#define NTHREADS ((BM / WM) * (BN / WN) * 32)

struct Params {
    const float *ptr;
    int stride; // between lines
    int extent; // rows
    int k;
};

template <int ROWS, int LINE_IS_K, int W>
struct Iterator {
    enum { PER_LINE = (LINE_IS_K ? BK : ROWS) / W, COUNT = ROWS * BK / W / NTHREADS };
    Params p;
    unsigned mask;
    int first;

    __device__ Iterator(Params params, int row0) : p(params), mask(0), first(row0)
    {
        for (int i = 0; i < COUNT; ++i)
            mask |= unsigned(row(i) < p.extent) << i;
    }
    __device__ int contiguous(int i) const { return (threadIdx.x + i * NTHREADS) % PER_LINE * W; }
    __device__ int strided(int i) const { return (threadIdx.x + i * NTHREADS) / PER_LINE; }
    __device__ int row(int i) const { return first + (LINE_IS_K ? strided(i) : contiguous(i)); }
    __device__ int depth(int i) const { return LINE_IS_K ? contiguous(i) : strided(i); }
    __device__ void load(Floats<W> (&frag)[COUNT], int k0, int limit) const
    {
        for (int i = 0; i < COUNT; ++i) {
            frag[i] = Floats<W>{};
            if ((mask >> i & 1) && depth(i) < limit)
                frag[i] = floats_at<W>(p.ptr[LINE_IS_K ? row(i) * p.stride + k0 + depth(i) : (k0 + depth(i)) * p.stride + row(i)]);
        }
    }
    __device__ void store(float *tile, const Floats<W> (&frag)[COUNT], int row0) const
    {
        for (int i = 0; i < COUNT; ++i)
            if (LINE_IS_K)
                for (int e = 0; e < W; ++e)
                    tile[(depth(i) + e) * (ROWS + 4) + row(i) - row0] = frag[i].at[e];
            else
                floats_at<W>(tile[depth(i) * (ROWS + 4) + row(i) - row0]) = frag[i];
    }
};

extern "C" __global__ void __launch_bounds__(NTHREADS)
gemm(const float *A, const float *B, float *C, int M, int N, int K, int lda, int ldb, int ldc)
{
    __shared__ __align__(16) float smem[2][BK * (BM + 4 + BN + 4)];
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    using IterA = Iterator<BM, !TRANS_A, WIDTH_A>;
    using IterB = Iterator<BN, TRANS_B, WIDTH_B>;
    IterA ia({A, lda, M, K}, row0);
    IterB ib({B, ldb, N, K}, col0);
    Floats<WIDTH_A> fa[IterA::COUNT];
    Floats<WIDTH_B> fb[IterB::COUNT];
    constexpr int L = WN / TN, DOWN = WM / (TM / 4), RIGHT = WN / (TN / 4);
    float accum[TM * TN];
    for (int i = 0; i < TM * TN; ++i)
        accum[i] = 0.f;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int m = warp / (BN / WN) * WM + (lane / (2 * L) * 2 + (lane & 1)) * 4;
    const int n = warp % (BN / WN) * WN + (lane >> 1) % L * 4;

    int residue = K % BK ? K % BK : BK;
    ia.load(fa, 0, residue);
    ib.load(fb, 0, residue);
    ia.store(smem[0], fa, row0);
    ib.store(smem[0] + BK * (BM + 4), fb, col0);
    __syncthreads();
    for (int k0 = residue, stage = 0;; k0 += BK, stage ^= 1) {
        const bool more = k0 < K;
        if (more) {
            ia.load(fa, k0, BK);
            ib.load(fb, k0, BK);
        }
        const float *sa = smem[stage], *sb = smem[stage] + BK * (BM + 4);
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float4 a[TM / 4], b[TN / 4];
            for (int h = 0; h < TM / 4; ++h)
                a[h] = *reinterpret_cast<const float4 *>(sa + k * (BM + 4) + m + h * DOWN);
            for (int h = 0; h < TN / 4; ++h)
                b[h] = *reinterpret_cast<const float4 *>(sb + k * (BN + 4) + n + h * RIGHT);
            const float *x = &a[0].x, *y = &b[0].x;
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j)
                    accum[i * TN + j] = __fadd_rn(accum[i * TN + j], __fmul_rn(x[i], y[j]));
        }
        if (!more)
            break;
        ia.store(smem[stage ^ 1], fa, row0);
        ib.store(smem[stage ^ 1] + BK * (BM + 4), fb, col0);
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; j += WIDTH_C) {
            const int row = row0 + m + i / 4 * DOWN + i % 4, col = col0 + n + j / 4 * RIGHT + j % 4;
            if (row < M && col < N)
                floats_at<WIDTH_C>(C[row * ldc + col]) = floats_at<WIDTH_C>(accum[i * TN + j]);
        }
}
