// honest: learned from CUTLASS: Fragment, Tile, thread-level Mma as templates
namespace mini {
template <typename T, int N>
struct Array {
    T storage[N];
    __device__ T &operator[](int i) { return storage[i]; }
    __device__ T const &operator[](int i) const { return storage[i]; }
    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < N; ++i)
            storage[i] = T(0);
    }
};

template <int M_, int N_, int K_>
struct GemmShape {
    static int const kM = M_;
    static int const kN = N_;
    static int const kK = K_;
};

template <typename Shape>
struct ThreadMma {
    using FragmentA = Array<float, Shape::kM>;
    using FragmentB = Array<float, Shape::kN>;
    using FragmentC = Array<float, Shape::kM * Shape::kN>;

    __device__ void operator()(FragmentC &D, FragmentA const &A, FragmentB const &B, FragmentC const &C) const
    {
        D = C;
#pragma unroll
        for (int m = 0; m < Shape::kM; ++m)
#pragma unroll
            for (int n = 0; n < Shape::kN; ++n)
                D[m * Shape::kN + n] = A[m] * B[n] + D[m * Shape::kN + n];
    }
};

template <int Rows, int Cols>
struct SharedTile {
    float storage[Rows * Cols];
    __device__ float &at(int row, int col) { return storage[row * Cols + col]; }
};
} // namespace mini

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    using Mma = mini::ThreadMma<mini::GemmShape<TM, TN, 1>>;
    struct SharedStorage {
        mini::SharedTile<BM, BK> a;
        mini::SharedTile<BK, BN> b;
    };
    __shared__ SharedStorage shared;
    Mma mma;
    Mma::FragmentC accumulators;
    accumulators.clear();
    int const row = threadIdx.x / (BN / TN) * TM, column = threadIdx.x % (BN / TN) * TN;

#pragma unroll 1
    for (int k = 0; k < K; k += BK) {
#pragma unroll
        for (int i = 0; i < BM * BK / 256; ++i) {
            int const index = i * 256 + threadIdx.x;
            shared.a.at(index / BK, index % BK) = A[(blockIdx.y * BM + index / BK) * K + k + index % BK];
        }
#pragma unroll
        for (int i = 0; i < BK * BN / 256; ++i) {
            int const index = i * 256 + threadIdx.x;
            shared.b.at(index / BN, index % BN) = B[(k + index / BN) * N + blockIdx.x * BN + index % BN];
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < BK; ++kk) {
            Mma::FragmentA a;
            Mma::FragmentB b;
#pragma unroll
            for (int i = 0; i < TM; ++i)
                a[i] = shared.a.at(row + i, kk);
#pragma unroll
            for (int j = 0; j < TN; ++j)
                b[j] = shared.b.at(kk, column + j);
            mma(accumulators, a, b, accumulators);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j)
            C[(blockIdx.y * BM + row + i) * N + blockIdx.x * BN + column + j] = accumulators[i * TN + j];
}
