// honest: knows split-K only: as many even slices of each tile as there are workers for, a second kernel adds
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
    int thread_row, thread_k;

    __device__ Iterator(Params params, int row0) : p(params), mask(0)
    {
        const int contiguous = threadIdx.x % PER_LINE * W, strided = threadIdx.x / PER_LINE;
        thread_row = row0 + (LINE_IS_K ? strided : contiguous);
        thread_k = LINE_IS_K ? contiguous : strided;
        for (int i = 0; i < COUNT; ++i)
            mask |= unsigned(row(i) < p.extent) << i;
    }
    __device__ int row(int i) const { return thread_row + (LINE_IS_K ? i * (NTHREADS / PER_LINE) : 0); }
    __device__ int depth(int i) const { return thread_k + (LINE_IS_K ? 0 : i * (NTHREADS / PER_LINE)); }
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

struct Walk {
    float accum[64];
    int m, n;
};

// K tile t begins at t * BK: the last one is the short one.
__device__ void walk(Walk &w, float (*smem)[BK * (BM + 4 + BN + 4)], const float *A, const float *B, int M, int N, int K, int lda, int ldb,
                     int row0, int col0, int first, int last)
{
    using IterA = Iterator<BM, !TRANS_A, WIDTH_A>;
    using IterB = Iterator<BN, TRANS_B, WIDTH_B>;
    IterA ia({A, lda, M, K}, row0);
    IterB ib({B, ldb, N, K}, col0);
    Floats<WIDTH_A> fa[IterA::COUNT];
    Floats<WIDTH_B> fb[IterB::COUNT];
    for (int i = 0; i < 64; ++i)
        w.accum[i] = 0.f;
    ia.load(fa, first * BK, min(BK, K - first * BK));
    ib.load(fb, first * BK, min(BK, K - first * BK));
    __syncthreads();
    ia.store(smem[0], fa, row0);
    ib.store(smem[0] + BK * (BM + 4), fb, col0);
    __syncthreads();
    for (int t = first, stage = 0; t < last; ++t, stage ^= 1) {
        const bool more = t + 1 < last;
        if (more) {
            ia.load(fa, (t + 1) * BK, min(BK, K - (t + 1) * BK));
            ib.load(fb, (t + 1) * BK, min(BK, K - (t + 1) * BK));
        }
        const float *sa = smem[stage], *sb = smem[stage] + BK * (BM + 4);
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float4 a[2], b[2];
            for (int h = 0; h < 2; ++h) {
                a[h] = *reinterpret_cast<const float4 *>(sa + k * (BM + 4) + w.m + h * 16);
                b[h] = *reinterpret_cast<const float4 *>(sb + k * (BN + 4) + w.n + h * 32);
            }
            const float *x = &a[0].x, *y = &b[0].x;
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j)
                    w.accum[i * 8 + j] += x[i] * y[j];
        }
        if (more) {
            ia.store(smem[stage ^ 1], fa, row0);
            ib.store(smem[stage ^ 1] + BK * (BM + 4), fb, col0);
            __syncthreads();
        }
    }
}

__device__ void lanes(int thread, int &m, int &n)
{
    const int lane = thread & 31, warp = thread >> 5;
    m = warp / (BN / WN) * WM + ((lane >> 4) * 2 + (lane & 1)) * 4;
    n = warp % (BN / WN) * WN + ((lane >> 1) & 7) * 4;
}

// Even slices of each tile where there are enough workers, else whole tiles in turn: nothing in between.
__device__ int slices_of(int tiles) { return max(1, WORKERS / tiles); }

extern "C" __global__ void __launch_bounds__(NTHREADS)
gemm(const float *A, const float *B, float *C, float *P, int M, int N, int K, int lda, int ldb, int ldc)
{
    __shared__ __align__(16) float smem[2][BK * (BM + 4 + BN + 4)];
    const int across = (N + BN - 1) / BN, tiles = (M + BM - 1) / BM * across, depth = (K + BK - 1) / BK, slices = slices_of(tiles);
    Walk w;
    lanes(threadIdx.x, w.m, w.n);
    for (int job = blockIdx.x; job < tiles * slices; job += WORKERS) {
        const int tile = job / slices, slice = job % slices;
        const int first = depth * slice / slices, last = depth * (slice + 1) / slices;
        walk(w, smem, A, B, M, N, K, lda, ldb, tile / across * BM, tile % across * BN, first, last);
        for (int i = 0; i < 8; ++i)
            for (int j = 0; j < 8; j += 4) {
                const int row = tile / across * BM + w.m + i / 4 * 16 + i % 4, col = tile % across * BN + w.n + j / 4 * 32;
                if (slices > 1)
                    floats_at<4>(P[job * BM * BN + ((i * 8 + j) / 4 * NTHREADS + threadIdx.x) * 4]) = floats_at<4>(w.accum[i * 8 + j]);
                else if (row < M)
                    for (int e = 0; e < 4; e += WIDTH_C)
                        if (col + e < N)
                            floats_at<WIDTH_C>(C[row * ldc + col + e]) = floats_at<WIDTH_C>(w.accum[i * 8 + j + e]);
            }
    }
}

extern "C" __global__ void combine(const float *P, float *C, int M, int N, int K, int ldc)
{
    const int across = (N + BN - 1) / BN, tiles = (M + BM - 1) / BM * across, slices = slices_of(tiles);
    const int quad = blockIdx.x * ADDERS + threadIdx.x, tile = blockIdx.y;
    if (slices == 1 || tile >= tiles || threadIdx.x >= ADDERS)
        return;
    Floats<4> sum = floats_at<4>(P[(tile * slices * BM * BN) + quad * 4]);
    for (int s = 1; s < slices; ++s) {
        const Floats<4> next = floats_at<4>(P[(tile * slices + s) * BM * BN + quad * 4]);
        for (int e = 0; e < 4; ++e)
            sum.at[e] += next.at[e];
    }
    int m, n;
    lanes(quad % NTHREADS, m, n);
    const int at = quad / NTHREADS * 4, i = at / 8, j = at % 8;
    const int row = tile / across * BM + m + i / 4 * 16 + i % 4, col = tile % across * BN + n + j / 4 * 32;
    if (row < M)
        for (int e = 0; e < 4; e += WIDTH_C)
            if (col + e < N)
                floats_at<WIDTH_C>(C[row * ldc + col + e]) = floats_at<WIDTH_C>(sum.at[e]);
}
