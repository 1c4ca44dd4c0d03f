// honest: a C++ programmer: a column of results is a type with operators
template <int Size>
struct Column {
    float element[Size];
    __device__ constexpr float &operator[](int i) { return element[i]; }
    template <typename Of>
    __device__ void add(const Of &of, float factor)
    {
#pragma unroll
        for (int i = 0; i < Size; ++i)
            element[i] += of(i) * factor;
    }
};

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    constexpr auto rounds = BM / TM;
    const auto ty = static_cast<int>(threadIdx.x) / BN, tx = static_cast<int>(threadIdx.x) % BN;
    const auto row = static_cast<int>(blockIdx.y) * BM, col = static_cast<int>(blockIdx.x) * BN + tx;
    Column<TM> acc{};
    for (auto k0 = 0; k0 < K; k0 += BK) {
        for (auto r = ty; r < BM; r += rounds)
            As[r][tx] = (row + r < M and k0 + tx < K) ? A[(row + r) * K + k0 + tx] : 0.f;
        for (auto r = ty; r < BK; r += rounds)
            Bs[r][tx] = (k0 + r < K and col < N) ? B[(k0 + r) * N + col] : 0.f;
        __syncthreads();
        for (auto k = 0; k < BK; ++k)
            acc.add([&](int i) { return As[ty * TM + i][k]; }, Bs[k][tx]);
        __syncthreads();
    }
    for (auto i = 0; i < TM; ++i)
        if (row + ty * TM + i < M and col < N)
            C[(row + ty * TM + i) * N + col] = acc[i];
}
