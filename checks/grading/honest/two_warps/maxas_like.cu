// honest: follows maxas: indices of textures that move on by addition, three buffers, the warps meet by a named barrier
#include "float4.cuh"

constexpr int S = 8 * TM, PA = S + 4, PB = S | 16, SIZE = BK * (PA + PB), V = TM % 4 ? 2 : 4;
template <int> struct Vec;
template <> struct Vec<2> { using type = float2; };
template <> struct Vec<4> { using type = float4; };
using Quad = Vec<V>::type;

extern "C" __global__ void __launch_bounds__(64, BLOCKS_PER_SM > 5 ? 5 : BLOCKS_PER_SM)
gemm(cudaTextureObject_t texA, cudaTextureObject_t texB, const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float smem[3 * SIZE];
    const int tid = threadIdx.x, bx = blockIdx.x, by = blockIdx.y, lane = tid & 31;
    const bool isB = tid >= 32;
    int track[TM / 2];
    for (int i = 0; i < TM / 2; i++)
        track[i] = isB ? (lane >> 2) * (N >> 2) + bx * (S / 4) + (lane & 3) + i * 4
                       : (by * S + (lane >> 1) + i * 16) * (K >> 2) + (lane & 1);
    const int ldx8 = isB ? 8 * (N >> 2) : 2;
    int writeS = isB ? BK * PA + (lane >> 2) * PB + (lane & 3) * 4 : (lane & 1) * 4 * PA + (lane >> 1);
    const int readAs = ((tid >> 1) & 7) * V;
    const int readBs = BK * PA + (((tid & 0x30) >> 3) | (tid & 1)) * V;
    float cx[TM][TM];
    for (int i = 0; i < TM * TM; i++)
        cx[i / TM][i % TM] = 0.0f;
    float4 load[BK / 8][TM / 2];

    auto fetch = [&]() {
        for (int h = 0; h < BK / 8; h++)
            for (int i = 0; i < TM / 2; i++) {
                load[h][i] = isB ? tex1Dfetch<float4>(texB, track[i]) : tex1Dfetch<float4>(texA, track[i]);
                track[i] += ldx8;
            }
    };
    auto store = [&](int base) {
        for (int h = 0; h < BK / 8; h++)
            for (int i = 0; i < TM / 2; i++) {
                float *s = smem + base + writeS + i * 16 + h * 8 * (isB ? PB : PA);
                if (isB)
                    *(float4 *)s = load[h][i];
                else
                    s[0] = load[h][i].x, s[PA] = load[h][i].y, s[2 * PA] = load[h][i].z, s[3 * PA] = load[h][i].w;
            }
    };
    fetch();
    store(0);
    int read = 0, write = SIZE;
    for (int k = 0; k < K; k += BK) {
        asm volatile("bar.sync 0;" ::: "memory");
        fetch(); // behind the last tile, too: zeros, or numbers that nobody uses
#pragma unroll
        for (int j = 0; j < BK; j++) {
            float a[TM], b[TM];
            for (int x = 0; x < TM; x += V) {
                *(Quad *)&a[x] = *(Quad *)&smem[read + readAs + j * PA + x * 8];
                *(Quad *)&b[x] = *(Quad *)&smem[read + readBs + j * PB + x * 8];
            }
            for (int y = 0; y < TM; y++)
                for (int x = 0; x < TM; x++)
                    cx[x][y] = fmaf(a[x], b[y], cx[x][y]);
        }
        store(write);
        read = write;
        write = write == 2 * SIZE ? 0 : write + SIZE;
    }
    // a warp stores whole rows, out of shared memory
    const int row = ((tid >> 1) & 7) * V, col = (((tid & 0x30) >> 3) | (tid & 1)) * V;
    constexpr int PC = S + 8;
    for (int x = 0; x < TM; x += V) {
        __syncthreads();
        for (int r = 0; r < V; r++)
            for (int y = 0; y < TM; y += V)
                *(Quad *)&smem[(r * 8 + row / V) * PC + col + y * 8] = *(Quad *)&cx[x + r][y];
        __syncthreads();
        for (int n = tid; n < 8 * V * (S / 4); n += 64) {
            const int line = n / (S / 4), q = n % (S / 4) * 4;
            *(float4 *)&C[(by * S + x * 8 + line % 8 * V + line / 8) * N + bx * S + q] = *(float4 *)&smem[line * PC + q];
        }
    }
}
