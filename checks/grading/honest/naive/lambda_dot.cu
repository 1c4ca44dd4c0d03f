// honest: a C++ programmer: lambdas for elements, const everywhere, auto
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const auto a = [=](int i, int k) { return A[i * K + k]; };
    const auto b = [=](int k, int j) { return B[k * N + j]; };
    const auto dot = [&](int i, int j) {
        auto sum = 0.f;
        for (auto k = 0; k != K; ++k)
            sum += a(i, k) * b(k, j);
        return sum;
    };
    const auto i = static_cast<int>(blockIdx.y * BM + threadIdx.x / BN);
    const auto j = static_cast<int>(blockIdx.x * BN + threadIdx.x % BN);
    if (i < M and j < N)
        C[i * N + j] = dot(i, j);
}
