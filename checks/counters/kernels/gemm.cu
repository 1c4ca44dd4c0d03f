// GEMM kernels, C = A B, row-major, fp32: the shapes of loops that ptxas unrolls, widens and pipelines.

__global__ void naive(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N)
        return;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k)
        acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}

// BM x BN block, one element a thread, K tile BK; the edges are filled with zeros.
template <int B_>
__global__ void block_tile(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[B_][B_];
    __shared__ float Bs[B_][B_];
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * B_ + ty;
    const int col = blockIdx.x * B_ + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += B_) {
        As[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;
        Bs[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < B_; ++k)
            acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}

// The same tile with rows padded by PAD floats: alignment of a row decides what ptxas may widen.
template <int PAD>
__global__ void padded_tile(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[32][32 + PAD];
    __shared__ float Bs[32][32 + PAD];
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * 32 + ty;
    const int col = blockIdx.x * 32 + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 32) {
        As[ty][tx] = A[row * K + k0 + tx];
        Bs[tx][ty] = B[(k0 + ty) * N + col];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; ++k)
            acc += As[ty][k] * Bs[tx][k];
        __syncthreads();
    }
    C[row * N + col] = acc;
}

// BM x BN x BK with TM x TN a thread; As as loaded (column walk) or transposed.
template <int BM, int BN, int BK, int TM, int TN, bool TRANSPOSED>
__global__ void thread_tile(const float *A, const float *B, float *C, int M, int N, int K)
{
    constexpr int THREADS = BM * BN / TM / TN;
    __shared__ float As[TRANSPOSED ? BK : BM][TRANSPOSED ? BM : BK];
    __shared__ float Bs[BK][BN];
    const int thread_row = threadIdx.x / (BN / TN) * TM;
    const int thread_col = threadIdx.x % (BN / TN) * TN;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
            const float value = A[(blockIdx.y * BM + i / BK) * K + k0 + i % BK];
            if (TRANSPOSED)
                As[i % BK][i / BK] = value;
            else
                As[i / BK][i % BK] = value;
        }
        for (int i = threadIdx.x; i < BK * BN; i += THREADS)
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + blockIdx.x * BN + i % BN];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_frag[TM];
            float b_frag[TN];
            for (int i = 0; i < TM; ++i)
                a_frag[i] = TRANSPOSED ? As[k][thread_row + i] : As[thread_row + i][k];
            for (int j = 0; j < TN; ++j)
                b_frag[j] = Bs[k][thread_col + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j)
                    acc[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j)
            C[(blockIdx.y * BM + thread_row + i) * N + blockIdx.x * BN + thread_col + j] = acc[i][j];
}

// 128-bit global and shared accesses, As transposed, the 8x8 thread tile split into 4+4; SWIZZLE spreads the stores of A.
template <bool SWIZZLE>
__global__ void vector_tile(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[8][128];
    __shared__ __align__(16) float Bs[8][128];
    const int tx = threadIdx.x % 16;
    const int ty = threadIdx.x / 16;
    const int a_row = threadIdx.x / 2;
    const int a_col = threadIdx.x % 2 * 4;
    const int b_row = threadIdx.x / 32;
    const int b_col = threadIdx.x % 32 * 4;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        const float4 a = *reinterpret_cast<const float4 *>(&A[(blockIdx.y * 128 + a_row) * K + k0 + a_col]);
        const float4 b = *reinterpret_cast<const float4 *>(&B[(k0 + b_row) * N + blockIdx.x * 128 + b_col]);
        const int where = SWIZZLE ? a_row ^ a_col * 4 : a_row;
        As[a_col][where] = a.x;
        As[a_col + 1][where] = a.y;
        As[a_col + 2][where] = a.z;
        As[a_col + 3][where] = a.w;
        *reinterpret_cast<float4 *>(&Bs[b_row][b_col]) = b;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            float a_frag[8];
            float b_frag[8];
            const int turn = SWIZZLE ? k / 4 * 16 : 0;
            *reinterpret_cast<float4 *>(&a_frag[0]) = *reinterpret_cast<float4 *>(&As[k][(ty * 4) ^ turn]);
            *reinterpret_cast<float4 *>(&a_frag[4]) = *reinterpret_cast<float4 *>(&As[k][(64 + ty * 4) ^ turn]);
            *reinterpret_cast<float4 *>(&b_frag[0]) = *reinterpret_cast<float4 *>(&Bs[k][tx * 4]);
            *reinterpret_cast<float4 *>(&b_frag[4]) = *reinterpret_cast<float4 *>(&Bs[k][64 + tx * 4]);
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j)
                    acc[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; j += 4)
            *reinterpret_cast<float4 *>(&C[(blockIdx.y * 128 + i % 4 + i / 4 * 64 + ty * 4) * N + blockIdx.x * 128 + j / 4 * 64 + tx * 4]) =
                make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
}

// Two buffers, one barrier a tile; registers carry the next tile.
__global__ void double_buffer(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[2][8][64];
    __shared__ float Bs[2][8][64];
    const int tx = threadIdx.x % 16;
    const int ty = threadIdx.x / 16;
    const int load_a = (blockIdx.y * 64 + threadIdx.x / 4) * K + threadIdx.x % 4 * 2;
    const int load_b = threadIdx.x / 32 * N + blockIdx.x * 64 + threadIdx.x % 32 * 2;
    float2 a = *reinterpret_cast<const float2 *>(&A[load_a]);
    float2 b = *reinterpret_cast<const float2 *>(&B[load_b]);
    float acc[4][4] = {};
    int stage = 0;
    As[0][threadIdx.x % 4 * 2][threadIdx.x / 4] = a.x;
    As[0][threadIdx.x % 4 * 2 + 1][threadIdx.x / 4] = a.y;
    *reinterpret_cast<float2 *>(&Bs[0][threadIdx.x / 32][threadIdx.x % 32 * 2]) = b;
    __syncthreads();
    for (int k0 = 8; k0 <= K; k0 += 8) {
        if (k0 < K) {
            a = *reinterpret_cast<const float2 *>(&A[load_a + k0]);
            b = *reinterpret_cast<const float2 *>(&B[load_b + k0 * N]);
        }
        for (int k = 0; k < 8; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    acc[i][j] += As[stage][k][ty * 4 + i] * Bs[stage][k][tx * 4 + j];
        if (k0 < K) {
            stage ^= 1;
            As[stage][threadIdx.x % 4 * 2][threadIdx.x / 4] = a.x;
            As[stage][threadIdx.x % 4 * 2 + 1][threadIdx.x / 4] = a.y;
            *reinterpret_cast<float2 *>(&Bs[stage][threadIdx.x / 32][threadIdx.x % 32 * 2]) = b;
            __syncthreads();
        }
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            C[(blockIdx.y * 64 + ty * 4 + i) * N + blockIdx.x * 64 + tx * 4 + j] = acc[i][j];
}

// Other element types in the same 16x16 tile.
template <typename T>
__global__ void typed_tile(const T *A, const T *B, T *C, int M, int N, int K)
{
    __shared__ T As[16][16];
    __shared__ T Bs[16][16];
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty;
    const int col = blockIdx.x * 16 + tx;
    T acc = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[ty][tx] = A[row * K + k0 + tx];
        Bs[ty][tx] = B[(k0 + ty) * N + col];
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[row * N + col] = acc;
}
