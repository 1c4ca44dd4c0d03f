// honest: knows CUTLASS: LinearCombinationRelu over fragments, a source fragment only if it is needed
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

struct LinearCombinationRelu {
    float alpha, beta;
    __device__ bool is_source_needed() const { return beta != 0.f; }
    template <int W>
    __device__ Floats<W> operator()(Floats<W> accum, Floats<W> source, Floats<W> broadcast) const
    {
        Floats<W> out;
        for (int e = 0; e < W; ++e)
            out.at[e] = fmaxf(0.f, fmaf(alpha, accum.at[e], fmaf(beta, source.at[e], broadcast.at[e])));
        return out;
    }
    template <int W>
    __device__ Floats<W> operator()(Floats<W> accum, Floats<W> broadcast) const
    {
        Floats<W> out;
        for (int e = 0; e < W; ++e)
            out.at[e] = fmaxf(0.f, fmaf(alpha, accum.at[e], broadcast.at[e]));
        return out;
    }
};

extern "C" __global__ void __launch_bounds__(NTHREADS)
gemm(const float *A, const float *B, float *C, const float *bias, int M, int N, int K, int lda, int ldb, int ldc,
     float alpha, float beta)
{
    __shared__ __align__(16) float smem[2][BK * (BM + 4 + BN + 4)];
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    using IterA = Iterator<BM, !TRANS_A, WIDTH_A>;
    using IterB = Iterator<BN, TRANS_B, WIDTH_B>;
    IterA ia({A, lda, M, K}, row0);
    IterB ib({B, ldb, N, K}, col0);
    Floats<WIDTH_A> fa[IterA::COUNT];
    Floats<WIDTH_B> fb[IterB::COUNT];
    float accum[64];
    for (int i = 0; i < 64; ++i)
        accum[i] = 0.f;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int m = warp / (BN / WN) * WM + ((lane >> 4) * 2 + (lane & 1)) * 4;
    const int n = warp % (BN / WN) * WN + ((lane >> 1) & 7) * 4;

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
            float4 a[2], b[2];
            for (int h = 0; h < 2; ++h) {
                a[h] = *reinterpret_cast<const float4 *>(sa + k * (BM + 4) + m + h * 16);
                b[h] = *reinterpret_cast<const float4 *>(sb + k * (BN + 4) + n + h * 32);
            }
            const float *x = &a[0].x, *y = &b[0].x;
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j)
                    accum[i * 8 + j] = __fadd_rn(accum[i * 8 + j], __fmul_rn(x[i], y[j]));
        }
        if (!more)
            break;
        ia.store(smem[stage ^ 1], fa, row0);
        ib.store(smem[stage ^ 1] + BK * (BM + 4), fb, col0);
        __syncthreads();
    }
    const LinearCombinationRelu output_op{alpha, beta};
    for (int j = 0; j < 8; j += WIDTH_C) {
        const int col = col0 + n + j / 4 * 32 + j % 4;
        if (col >= N)
            break;
        const Floats<WIDTH_C> broadcast = floats_at<WIDTH_C>(bias[col]);
        if (output_op.is_source_needed()) {
            Floats<WIDTH_C> source[8];
            for (int i = 0; i < 8; ++i)
                if (row0 + m + i / 4 * 16 + i % 4 < M)
                    source[i] = floats_at<WIDTH_C>(C[(row0 + m + i / 4 * 16 + i % 4) * ldc + col]);
            for (int i = 0; i < 8; ++i)
                if (row0 + m + i / 4 * 16 + i % 4 < M)
                    floats_at<WIDTH_C>(C[(row0 + m + i / 4 * 16 + i % 4) * ldc + col]) =
                        output_op(floats_at<WIDTH_C>(accum[i * 8 + j]), source[i], broadcast);
        } else {
            for (int i = 0; i < 8; ++i)
                if (row0 + m + i / 4 * 16 + i % 4 < M)
                    floats_at<WIDTH_C>(C[(row0 + m + i / 4 * 16 + i % 4) * ldc + col]) =
                        output_op(floats_at<WIDTH_C>(accum[i * 8 + j]), broadcast);
        }
    }
}
