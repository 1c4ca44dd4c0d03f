// honest: a C++ programmer: a row of sums is a struct, the outer product an operator, index sequences instead of loops
template <int... I>
struct Indices {};
template <int N, int... I>
struct Make : Make<N - 1, N - 1, I...> {};
template <int... I>
struct Make<0, I...> {
    using type = Indices<I...>;
};
using Eight = Make<8>::type;

struct Row {
    float x[8];
};

template <int... I>
__device__ void axpy(Row &sum, float a, const Row &b, Indices<I...>)
{
    ((sum.x[I] += a * b.x[I]), ...);
}

template <int... I>
__device__ Row row_at(const float *p, Indices<I...>)
{
    return {p[I]...};
}

template <int... I>
__device__ void outer(Row (&sum)[8], const float *a, int ld, const Row &b, Indices<I...>)
{
    (axpy(sum[I], a[I * ld], b, Eight{}), ...);
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM * BK], Bs[BK * BN];
    const int t = threadIdx.x, r = t / 16 * 8, c = t % 16 * 8;
    Row sum[8] = {};
    for (int k0 = 0; k0 != K; k0 += BK) {
        for (int n = 0; n < BM * BK; n += 256) {
            As[n + t] = A[(blockIdx.y * BM + (n + t) / BK) * K + k0 + t % BK];
            Bs[n + t] = B[(k0 + (n + t) / BN) * N + blockIdx.x * BN + t % BN];
        }
        __syncthreads();
        for (int k = 0; k < BK; ++k)
            outer(sum, As + r * BK + k, BK, row_at(Bs + k * BN + c, Eight{}), Eight{});
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j)
            C[(blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c + j] = sum[i].x[j];
}
