// C = A B by wmma, a warp tile of WM x WN; TYPE of A and B, SUM of C, fragments of FM x FN x FK.
#include "tensor.cuh"
#include <mma.h>
using namespace nvcuda;
#ifndef FM
#define FM 16
#define FN 16
#define FK 16
#endif
#ifndef PAD
#define PAD 8
#endif
#ifndef ACROSS
#define ACROSS T
#endif
typedef TYPE T;
typedef SUM S;
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int CHUNK = 16 / sizeof(T);

extern "C" __global__ void __launch_bounds__(THREADS) gemm(const T *A, const T *B, S *C, int M, int N, int K)
{
    extern __shared__ __align__(128) unsigned char raw[];
    T(*As)[BM][BK + PAD] = reinterpret_cast<T(*)[BM][BK + PAD]>(raw);
    T(*Bs)[BK][BN + PAD] = reinterpret_cast<T(*)[BK][BN + PAD]>(raw + sizeof(T) * STAGES * BM * (BK + PAD));
    const int warp = threadIdx.x / 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
    A += (size_t)blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    wmma::fragment<wmma::accumulator, FM, FN, FK, S> acc[WM / FM][WN / FN];
    for (int i = 0; i < WM / FM; i++)
        for (int j = 0; j < WN / FN; j++)
            wmma::fill_fragment(acc[i][j], S(0));
    auto fetch = [&](int stage, int k0) {
#pragma unroll
        for (int turn = 0; turn < BM * BK / CHUNK / THREADS; turn++) {
            const int i = turn * THREADS + threadIdx.x;
            const int row = i / (BK / CHUNK), col = i % (BK / CHUNK) * CHUNK;
            bring(&As[stage][row][col], &A[(size_t)row * K + k0 + col]);
        }
#pragma unroll
        for (int turn = 0; turn < BK * BN / CHUNK / THREADS; turn++) {
            const int i = turn * THREADS + threadIdx.x;
            const int row = i / (BN / CHUNK), col = i % (BN / CHUNK) * CHUNK;
            bring(&Bs[stage][row][col], &B[(size_t)(k0 + row) * N + col]);
        }
    };
    auto multiply = [&](int stage) {
#pragma unroll
        for (int k = 0; k < BK; k += FK) {
            wmma::fragment<wmma::matrix_a, FM, FN, FK, ACROSS, wmma::row_major> a[WM / FM];
            wmma::fragment<wmma::matrix_b, FM, FN, FK, ACROSS, wmma::row_major> b[WN / FN];
            for (int i = 0; i < WM / FM; i++)
                wmma::load_matrix_sync(a[i], &As[stage][wm + i * FM][k], BK + PAD);
            for (int j = 0; j < WN / FN; j++)
                wmma::load_matrix_sync(b[j], &Bs[stage][k][wn + j * FN], BN + PAD);
            for (int i = 0; i < WM / FM; i++)
                for (int j = 0; j < WN / FN; j++)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
    };
    pipeline(K, BK, fetch, multiply);
    C += (size_t)(blockIdx.y * BM + wm) * N + blockIdx.x * BN + wn;
    for (int i = 0; i < WM / FM; i++)
        for (int j = 0; j < WN / FN; j++)
            wmma::store_matrix_sync(&C[(size_t)i * FM * N + j * FN], acc[i][j], N, wmma::mem_row_major);
}
