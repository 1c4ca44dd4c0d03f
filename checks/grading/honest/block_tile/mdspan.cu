// honest: cuda::std::mdspan for the matrices, cuda::std::array for the tiles, ranges by lambdas
#include <cuda/std/array>
#include <cuda/std/mdspan>
using cuda::std::array;
template <typename T> using Mat = cuda::std::mdspan<T, cuda::std::dextents<int, 2>>;
extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const Mat<const float> a(A, M, K), b(B, K, N);
    const Mat<float> c(C, M, N);
    __shared__ array<array<float, BK>, BM> at;
    __shared__ array<array<float, BN>, BK> bt;
    const int ty = threadIdx.x / BN, tx = threadIdx.x % BN;
    const int i = blockIdx.y * BM + ty, j = blockIdx.x * BN + tx;
    const auto value = [](const auto &m, int r, int q) { return r < m.extent(0) && q < m.extent(1) ? m(r, q) : 0.f; };
    float sum = 0;
    for (int t = 0; t < (K + BK - 1) / BK; ++t) {
        for (int k = tx; k < BK; k += BN) at[ty][k] = value(a, i, t * BK + k);
        for (int k = ty; k < BK; k += BM) bt[k][tx] = value(b, t * BK + k, j);
        __syncthreads();
        for (int k = 0; k < BK; ++k) sum += at[ty][k] * bt[k][tx];
        __syncthreads();
    }
    if (i < c.extent(0) && j < c.extent(1)) c(i, j) = sum;
}
