// honest: gives the first workers one unit more, numbers tiles by columns, lets the last K tile be short
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

// Tiles are numbered column by column here, and shares are handed out from the remainder: the first ones get one more.
__device__ void share(int worker, int units, int &begin, int &end)
{
    const int each = units / WORKERS, more = units % WORKERS;
    begin = worker * each + min(worker, more);
    end = begin + each + (worker < more);
}

// Of few tiles the number along the row of pieces, of many the two that a worker can have.
__device__ int slot_of(int worker, int tile, int first) { return WHOLE ? 2 * worker + (first == 0) : worker + tile; }

extern "C" __global__ void __launch_bounds__(NTHREADS)
gemm(const float *A, const float *B, float *C, float *P, int M, int N, int K, int lda, int ldb, int ldc)
{
    __shared__ __align__(16) float smem[2][BK * (BM + 4 + BN + 4)];
    const int down = (M + BM - 1) / BM, depth = (K + BK - 1) / BK, tiles = down * ((N + BN - 1) / BN);
    Walk w;
    lanes(threadIdx.x, w.m, w.n);
    int begin, end;
    share(blockIdx.x, tiles * depth, begin, end);
    while (begin < end) {
        const int tile = begin / depth, first = begin % depth, last = min(depth, first + end - begin);
        const int row0 = tile % down * BM, col0 = tile / down * BN;
        walk(w, smem, A, B, M, N, K, lda, ldb, row0, col0, first, last);
        begin += last - first;
        if (last - first == depth) {
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; j += WIDTH_C) {
                    const int row = row0 + w.m + i / 4 * 16 + i % 4, col = col0 + w.n + j / 4 * 32 + j % 4;
                    if (row < M && col < N)
                        floats_at<WIDTH_C>(C[row * ldc + col]) = floats_at<WIDTH_C>(w.accum[i * 8 + j]);
                }
        } else { // a slot for each piece
            float *to = P + slot_of(blockIdx.x, tile, first) * BM * BN;
            for (int i = 0; i < 16; ++i)
                reinterpret_cast<float4 *>(to)[i * NTHREADS + threadIdx.x] = *reinterpret_cast<float4 *>(&w.accum[i * 4]);
        }
    }
}

extern "C" __global__ void combine(float *P, float *C, int M, int N, int K, int ldc)
{
    const int down = (M + BM - 1) / BM, depth = (K + BK - 1) / BK, tiles = down * ((N + BN - 1) / BN);
    if (threadIdx.x >= ADDERS)
        return; // one team is enough
    const int quad = blockIdx.x * ADDERS + threadIdx.x;
    for (int tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
        float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
        bool cut = false;
        int begin, end;
        // whose share has the tile's first K tile?
        const int units = tiles * depth, each = units / WORKERS, more = units % WORKERS, u = tile * depth;
        int worker = u < more * (each + 1) ? u / (each + 1) : more + (u - more * (each + 1)) / max(each, 1);
        for (; worker < WORKERS; ++worker) {
            share(worker, units, begin, end);
            if (begin >= (tile + 1) * depth)
                break;
            if (begin <= u && end >= u + depth)
                break; // one worker had all of it
            cut = true;
            const float4 x = reinterpret_cast<const float4 *>(P + slot_of(worker, tile, max(0, begin - u)) * BM * BN)[quad];
            sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
        }
        if (!cut)
            continue;
        int m, n;
        lanes(quad % NTHREADS, m, n);
        const int i = quad / NTHREADS / 2, j = quad / NTHREADS % 2 * 4;
        const int row = tile % down * BM + m + i / 4 * 16 + i % 4, col = tile / down * BN + n + j / 4 * 32;
        const float *x = &sum.x;
        if (row < M)
            for (int e = 0; e < 4; e += WIDTH_C)
                if (col + e < N)
                    floats_at<WIDTH_C>(C[row * ldc + col + e]) = floats_at<WIDTH_C>(x[e]);
    }
}
