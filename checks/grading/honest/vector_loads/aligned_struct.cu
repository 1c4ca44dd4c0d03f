// honest: a C++ programmer: an aligned struct of four floats that is copied whole
template <typename T, int N>
struct alignas(sizeof(T) * N) Vector {
    T element[N];
    __device__ T &operator[](int i) { return element[i]; }
    __device__ const T &operator[](int i) const { return element[i]; }
};
using Four = Vector<float, 4>;

template <typename To, typename From>
__device__ To &as(From &x)
{
    return reinterpret_cast<To &>(x);
}

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ Four As[BM][BK / 4], Bs[BK][BN / 4];
    const int t = threadIdx.x, r = t / 16 * TM, c = t % 16 * TN / 4;
    const Four *a = &as<const Four>(A[(blockIdx.y * BM + t / 2) * K + t % 2 * 4]);
    const Four *b = &as<const Four>(B[t / 32 * N + blockIdx.x * BN + t % 32 * 4]);
    Four acc[TM][TN / 4] = {};
    for (int tile = 0; tile < K / BK; ++tile, a += BK / 4, b += BK * N / 4) {
        As[t / 2][t % 2] = *a;
        Bs[t / 32][t % 32] = *b;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            Four x[TM];
#pragma unroll
            for (int i = 0; i < TM; ++i)
                x[i] = As[r + i][k / 4];
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                const Four y[2] = {Bs[k + s][c], Bs[k + s][c + 1]};
#pragma unroll
                for (int i = 0; i < TM; ++i)
#pragma unroll
                    for (int j = 0; j < TN; ++j)
                        acc[i][j / 4][j % 4] += x[i][s] * y[j / 4][j % 4];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            as<Four>(C[(blockIdx.y * BM + r + i) * N + blockIdx.x * BN + c * 4 + j]) = acc[i][j / 4];
}
