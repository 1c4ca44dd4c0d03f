// honest: fetches quarters of a tile and turns A by xor instead of padding it
#include "double2.cuh"
#include "matrix.cuh"

__device__ __forceinline__ int twist(int k, int row) { return row ^ (k / 2 % 2 * 8); }

extern "C" __global__ void __launch_bounds__(256)
gemm(const double *A, const double *B, double *C, int M, int N, int K)
{
    extern __shared__ __align__(16) double smem[];
    constexpr int SIZE = BK * (BM + BN), Q = BK / 4;
    const Matrix<const double> a = Matrix<const double>{A, M, K, K, 1}.tile(blockIdx.y * BM, 0, BM, K);
    const Matrix<const double> b = Matrix<const double>{B, K, N, N, 1}.tile(0, blockIdx.x * BN, K, BN);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int r0 = warp / 2 * 32 + (lane / 16 * 2 + lane % 2) * 2, c0 = warp % 2 * 64 + lane / 2 % 8 * 2;
    const int ar = threadIdx.x / 2, ak = threadIdx.x % 2 * 2, bk = threadIdx.x / 64, bc = threadIdx.x % 64 * 2;
    double acc[64] = {};
    double2 na, nb;

    const auto piece_in = [&](int k) {
        na = double2_at(a(ar, k + ak));
        nb = double2_at(b(k + bk, bc));
    };
    const auto piece_out = [&](double *s, int p) {
        s[(p * Q + ak) * BM + twist(p * Q + ak, ar)] = na.x;
        s[(p * Q + ak + 1) * BM + twist(p * Q + ak, ar)] = na.y;
        double2_at(s[BK * BM + (p * Q + bk) * BN + bc]) = nb;
    };
    const auto products = [&](const double *s, int p) {
#pragma unroll
        for (int k = p * Q; k < p * Q + Q; k++) {
            double x[8], y[8];
            for (int i = 0; i < 8; i += 2) {
                double2_at(x[i]) = double2_at(s[k * BM + twist(k, r0 + i * 4)]);
                double2_at(y[i]) = double2_at(s[BK * BM + k * BN + c0 + i * 8]);
            }
            for (int j = 0; j < 8; j++)
                for (int i = 0; i < 8; i++)
                    acc[i * 8 + j] += x[i] * y[j];
        }
    };
    for (int p = 0; p < 4; p++) {
        piece_in(p * Q);
        piece_out(smem, p);
    }
    __syncthreads();
    for (int k0 = BK, s = 0; k0 <= K; k0 += BK, s ^= 1) {
        const bool more = k0 < K;
#pragma unroll
        for (int p = 0; p < 4; p++) {
            if (more)
                piece_in(k0 + p * Q);
            __syncwarp();
            products(smem + s * SIZE, p);
            if (more)
                piece_out(smem + (s ^ 1) * SIZE, p);
        }
        __syncthreads();
    }
    const Matrix<double> c = Matrix<double>{C, M, N, N, 1}.tile(blockIdx.y * BM, blockIdx.x * BN, BM, BN);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 2)
            double2_at(c(r0 + i / 2 * 8 + i % 2, c0 + j * 8)) = double2_at(acc[i * 8 + j]);
}
