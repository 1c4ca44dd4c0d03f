// honest: learned from CuTe: layouts are functions of a coordinate, tensors a pointer and a layout
template <int Stride0, int Stride1>
struct Layout {
    static __device__ constexpr int at(int i, int j) { return i * Stride0 + j * Stride1; }
};

template <typename T, typename L>
struct Tensor {
    T *data;
    __device__ T &operator()(int i, int j) const { return data[L::at(i, j)]; }
    __device__ float4 &vec(int i, int j) const { return *reinterpret_cast<float4 *>(&data[L::at(i, j)]); }
};

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    using SmemA = Layout<1, BM + 4>; // (m, k)
    using SmemB = Layout<1, BN>;     // (n, k)
    __shared__ __align__(16) float smem[BK * (BM + 4) + BK * BN];
    const Tensor<float, SmemA> sA{smem};
    const Tensor<float, SmemB> sB{smem + BK * (BM + 4)};
    const int t = threadIdx.x;
    const int m = t / 16 * 4, n = t % 16 * 4;
    float rC[2][2][4][4] = {};
    for (int k_tile = 0; k_tile < K / BK; ++k_tile) {
        const float4 a = reinterpret_cast<const float4 *>(A + (blockIdx.y * BM + t / 2) * K + k_tile * BK)[t % 2];
        sA(t / 2, t % 2 * 4 + 0) = a.x;
        sA(t / 2, t % 2 * 4 + 1) = a.y;
        sA(t / 2, t % 2 * 4 + 2) = a.z;
        sA(t / 2, t % 2 * 4 + 3) = a.w;
        sB.vec(t % 32 * 4, t / 32) = reinterpret_cast<const float4 *>(B + (k_tile * BK + t / 32) * N + blockIdx.x * BN)[t % 32];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            const float4 av[2] = {sA.vec(m, k), sA.vec(m + 64, k)}, bv[2] = {sB.vec(n, k), sB.vec(n + 64, k)};
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const float x[4] = {av[i].x, av[i].y, av[i].z, av[i].w}, y[4] = {bv[j].x, bv[j].y, bv[j].z, bv[j].w};
#pragma unroll
                    for (int p = 0; p < 4; ++p)
#pragma unroll
                        for (int q = 0; q < 4; ++q)
                            rC[i][j][p][q] += x[p] * y[q];
                }
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int p = 0; p < 4; ++p)
            for (int j = 0; j < 2; ++j)
                *reinterpret_cast<float4 *>(C + (blockIdx.y * BM + m + 64 * i + p) * N + blockIdx.x * BN + n + 64 * j) =
                    *reinterpret_cast<float4 *>(rC[i][j][p]);
}
