// honest: a C++17 programmer: a static assertion on the type, a lambda, a range of k to walk along
struct Range {
    struct Iterator {
        int i;
        __device__ int operator*() const { return i; }
        __device__ Iterator &operator++() { ++i; return *this; }
        __device__ bool operator!=(Iterator other) const { return i != other.i; }
    };
    int last;
    __device__ Iterator begin() const { return {0}; }
    __device__ Iterator end() const { return {last}; }
};

template <typename T>
__device__ T dot(const T *x, int dx, const T *y, int dy, int n)
{
    static_assert(sizeof(T) == 4);
    T sum{};
    for (const int i : Range{n})
        sum += x[i * dx] * y[i * dy];
    return sum;
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const auto place = [](int block, int size, int thread) { return block * size + thread; };
    const int row = place(blockIdx.y, BM, threadIdx.x / BN);
    const int col = place(blockIdx.x, BN, threadIdx.x % BN);
    if (row < M && col < N)
        C[row * N + col] = dot(A + row * K, 1, B + col, N, K);
}
