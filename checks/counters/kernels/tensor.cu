// Asynchronous copies, ldmatrix, tensor cores, packed halves and bytes.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

// C = A B with 64x64x16 tiles brought by cp.async, two stages; BYTES a lane and copy.
template <int BYTES>
__global__ void async_tile(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int W = BYTES / 4;
    __shared__ __align__(16) float As[2][64][16];
    __shared__ __align__(16) float Bs[2][16][64];
    const int tx = threadIdx.x % 16;
    const int ty = threadIdx.x / 16;
    auto fetch = [&](int stage, int k0) {
        for (int i = threadIdx.x; i < 64 * 16 / W; i += 256) {
            const int e = i * W;
            __pipeline_memcpy_async(&As[stage][e / 16][e % 16], &A[(blockIdx.y * 64 + e / 16) * K + k0 + e % 16], BYTES);
            __pipeline_memcpy_async(&Bs[stage][e / 64][e % 64], &B[(k0 + e / 64) * N + blockIdx.x * 64 + e % 64], BYTES);
        }
        __pipeline_commit();
    };
    float acc[4][4] = {};
    fetch(0, 0);
    for (int k0 = 0; k0 < K; k0 += 16) {
        const int stage = k0 / 16 % 2;
        if (k0 + 16 < K) {
            fetch(stage ^ 1, k0 + 16);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    acc[i][j] += As[stage][ty * 4 + i][k] * Bs[stage][k][tx * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            C[(blockIdx.y * 64 + ty * 4 + i) * N + blockIdx.x * 64 + tx * 4 + j] = acc[i][j];
}

// One 16x16 tile of C a warp.
__global__ void wmma_tile(const half *A, const half *B, float *C, int M, int N, int K)
{
    using namespace nvcuda;
    __shared__ half As[16][24];
    __shared__ half Bs[16][24];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            As[i / 16][i % 16] = A[(blockIdx.y * 16 + i / 16) * K + k0 + i % 16];
            Bs[i / 16][i % 16] = B[(k0 + i / 16) * N + blockIdx.x * 16 + i % 16];
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, &As[0][0], 24);
        wmma::load_matrix_sync(b, &Bs[0][0], 24);
        wmma::mma_sync(acc, a, b, acc);
        __syncthreads();
    }
    wmma::store_matrix_sync(&C[blockIdx.y * 16 * N + blockIdx.x * 16], acc, N, wmma::mem_row_major);
}

// ldmatrix and mma.sync, one 16x8 tile a warp; the rows of As are swizzled or not.
template <bool SWIZZLE>
__global__ void mma_tile(const half *A, const half *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) half As[16][64];
    __shared__ __align__(16) half Bs[64][8];
    const int lane = threadIdx.x;
    float c[4] = {};
    for (int k0 = 0; k0 < K; k0 += 64) {
        for (int i = lane; i < 16 * 8; i += 32) {
            const int row = i / 8;
            const int chunk = i % 8;
            *reinterpret_cast<int4 *>(&As[row][8 * (SWIZZLE ? chunk ^ row % 8 : chunk)]) =
                *reinterpret_cast<const int4 *>(&A[(blockIdx.y * 16 + row) * K + k0 + 8 * chunk]);
        }
        for (int i = lane; i < 64; i += 32)
            *reinterpret_cast<int4 *>(&Bs[i][0]) = *reinterpret_cast<const int4 *>(&B[(k0 + i) * N + blockIdx.x * 8]);
        __syncthreads();
        for (int k = 0; k < 64; k += 16) {
            unsigned a[4];
            unsigned b[2];
            const int row = lane % 16;
            const int chunk = k / 8 + lane / 16;
            const unsigned a_at = __cvta_generic_to_shared(&As[row][8 * (SWIZZLE ? chunk ^ row % 8 : chunk)]);
            const unsigned b_at = __cvta_generic_to_shared(&Bs[k + lane % 16][0]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(a_at));
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                         : "=r"(b[0]), "=r"(b[1]) : "r"(b_at));
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                         "{%0, %1, %2, %3};"
                         : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
        }
        __syncthreads();
    }
    float *mine = &C[(blockIdx.y * 16 + lane / 4) * N + blockIdx.x * 8 + lane % 4 * 2];
    mine[0] = c[0];
    mine[1] = c[1];
    mine[8 * N] = c[2];
    mine[8 * N + 1] = c[3];
}

// Packed halves: two columns of C a thread.
__global__ void half2_tile(const half *A, const half2 *B, half2 *C, int M, int N, int K)
{
    __shared__ half As[16][16];
    __shared__ half2 Bs[16][16];
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    half2 acc = __float2half2_rn(0.0f);
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[ty][tx] = A[(blockIdx.y * 16 + ty) * K + k0 + tx];
        Bs[ty][tx] = B[((k0 + ty) * N) / 2 + blockIdx.x * 16 + tx];
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            acc = __hfma2(__half2half2(As[ty][k]), Bs[k][tx], acc);
        __syncthreads();
    }
    C[(blockIdx.y * 16 + ty) * N / 2 + blockIdx.x * 16 + tx] = acc;
}

// Bytes in, 32-bit sums out, four products an instruction; B is given transposed.
__global__ void dp4a_tile(const int *A, const int *Bt, int *C, int M, int N, int K4)
{
    __shared__ int As[16][8];
    __shared__ int Bs[16][9];
    const int tx = threadIdx.x % 16;
    const int ty = threadIdx.x / 16;
    int acc = 0;
    for (int k0 = 0; k0 < K4; k0 += 8) {
        if (threadIdx.x < 128)
            As[threadIdx.x / 8][threadIdx.x % 8] = A[(blockIdx.y * 16 + threadIdx.x / 8) * K4 + k0 + threadIdx.x % 8];
        else
            Bs[threadIdx.x / 8 - 16][threadIdx.x % 8] = Bt[(blockIdx.x * 16 + threadIdx.x / 8 - 16) * K4 + k0 + threadIdx.x % 8];
        __syncthreads();
        for (int k = 0; k < 8; ++k)
            acc = __dp4a(As[ty][k], Bs[tx][k], acc);
        __syncthreads();
    }
    C[(blockIdx.y * 16 + ty) * N + blockIdx.x * 16 + tx] = acc;
}
