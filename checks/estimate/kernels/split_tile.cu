// As thread_tile.cu with float4, but A transposed in shared memory and each thread's 8 x 8 in pieces of 4 x 4, half a
// tile apart. STAGES 2: the next tile is fetched into registers before this one's arithmetic, stored after it.
#define BM 128
#define BN 128
#define BK 8

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[STAGES][BK][BM];
    __shared__ __align__(16) float Bs[STAGES][BK][BN];
    const int thread = threadIdx.y * 16 + threadIdx.x;
    const int row_a = thread / 2, col_a = thread % 2 * 4, row_b = thread / 32, col_b = thread % 32 * 4;
    const float *a = A + (blockIdx.y * BM + row_a) * K + col_a;
    const float *b = B + row_b * N + blockIdx.x * BN + col_b;
    float acc[8][8] = {};
    float4 a_next, b_next;

    auto fetch = [&](int k0) {
        a_next = *(const float4 *)(a + k0);
        b_next = *(const float4 *)(b + k0 * N);
    };
    auto store = [&](int buffer) {
        As[buffer][col_a][row_a] = a_next.x;
        As[buffer][col_a + 1][row_a] = a_next.y;
        As[buffer][col_a + 2][row_a] = a_next.z;
        As[buffer][col_a + 3][row_a] = a_next.w;
        *(float4 *)&Bs[buffer][row_b][col_b] = b_next;
    };
    auto multiply = [&](int buffer) {
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[8], y[8];
            *(float4 *)&x[0] = *(const float4 *)&As[buffer][k][threadIdx.y * 4];
            *(float4 *)&x[4] = *(const float4 *)&As[buffer][k][threadIdx.y * 4 + BM / 2];
            *(float4 *)&y[0] = *(const float4 *)&Bs[buffer][k][threadIdx.x * 4];
            *(float4 *)&y[4] = *(const float4 *)&Bs[buffer][k][threadIdx.x * 4 + BN / 2];
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) acc[i][j] += x[i] * y[j];
        }
    };

#if STAGES == 1
    for (int k0 = 0; k0 < K; k0 += BK) {
        fetch(k0);
        store(0);
        __syncthreads();
        multiply(0);
        __syncthreads();
    }
#else
    fetch(0);
    store(0);
    __syncthreads();
    int now = 0;
    for (int k0 = BK; k0 < K; k0 += BK) {
        fetch(k0);
        multiply(now);
        now = 1 - now;
        store(now);
        __syncthreads();
    }
    multiply(now);
#endif
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4) {
            const int row = blockIdx.y * BM + threadIdx.y * 4 + i / 4 * (BM / 2) + i % 4;
            const int col = blockIdx.x * BN + threadIdx.x * 4 + j / 4 * (BN / 2);
            *(float4 *)&C[row * N + col] = *(float4 *)&acc[i][j];
        }
}
