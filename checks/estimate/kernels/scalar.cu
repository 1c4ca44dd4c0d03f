// C = A B in registers, TM x TN a thread: TYPE of a number in memory, SUM of a sum; int8 (PACKED) four along K at a time, B then
// given column by column. SPLIT: along blockIdx.z too, added up by atomics (ATOMIC) or left to reduce(). RAGGED: any shape.
#ifndef PACKED
#define PACKED 1
#endif
#ifndef SPLIT
#define SPLIT 1
#endif
typedef TYPE T;
typedef SUM S;
constexpr int THREADS = BM / TM * (BN / TN);

__device__ void multiply_add(double &sum, double a, double b) { sum += a * b; }
__device__ void multiply_add(float &sum, float a, float b) { sum += a * b; }
__device__ void multiply_add(int &sum, int a, int b) { sum = __dp4a(a, b, sum); }

extern "C" __global__ void __launch_bounds__(THREADS) gemm(const T *A, const T *B, S *C, int M, int N, int K)
{
    __shared__ __align__(16) T As[BK][BM + 16 / sizeof(T)], Bs[BK][BN + 16 / sizeof(T)];
    constexpr int W = 16 / sizeof(T);
    const int tx = threadIdx.x % (BN / TN), ty = threadIdx.x / (BN / TN);
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, words = K / PACKED;
    const int share = words / SPLIT, first = SPLIT > 1 ? blockIdx.z * share : 0;
    S acc[TM][TN] = {};
    for (int k0 = first; k0 < first + share; k0 += BK) {
#pragma unroll
        for (int turn = 0; turn < BM * BK / THREADS; turn++) {
            const int i = turn * THREADS + threadIdx.x;
            const int row = i / BK, k = i % BK;
#ifdef RAGGED
            As[k][row] = row0 + row < M && k0 + k < words ? A[(size_t)(row0 + row) * words + k0 + k] : T(0);
#else
            As[k][row] = A[(size_t)(row0 + row) * words + k0 + k];
#endif
        }
#pragma unroll
        for (int turn = 0; turn < BK * BN / THREADS; turn++) {
            const int i = turn * THREADS + threadIdx.x;
            const int k = PACKED > 1 ? i % BK : i / BN, col = PACKED > 1 ? i / BK : i % BN;
            const size_t from = PACKED > 1 ? (size_t)(col0 + col) * words + k0 + k : (size_t)(k0 + k) * N + col0 + col;
#ifdef RAGGED
            Bs[k][col] = col0 + col < N && k0 + k < words ? B[from] : T(0);
#else
            Bs[k][col] = B[from];
#endif
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            __align__(16) T a[TM], b[TN];
            for (int i = 0; i < TM; i += W)
                *reinterpret_cast<uint4 *>(&a[i]) = *reinterpret_cast<const uint4 *>(&As[k][ty * W + i * (BM / TM)]);
            for (int j = 0; j < TN; j += W)
                *reinterpret_cast<uint4 *>(&b[j]) = *reinterpret_cast<const uint4 *>(&Bs[k][tx * W + j * (BN / TN)]);
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    multiply_add(acc[i][j], a[i], b[j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++) {
            const int row = row0 + ty * W + i / W * W * (BM / TM) + i % W;
            const int col = col0 + tx * W + j / W * W * (BN / TN) + j % W;
#ifdef RAGGED
            if (row >= M || col >= N)
                continue;
#endif
#ifdef ATOMIC
            atomicAdd(&C[(size_t)row * N + col], acc[i][j]);
#else
            C[((size_t)(SPLIT > 1 ? blockIdx.z : 0) * M + row) * N + col] = acc[i][j];
#endif
        }
}

extern "C" __global__ void reduce(const S *parts, S *C, int M, int N)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    S sum = 0;
    for (int part = 0; part < SPLIT; part++)
        sum += parts[(size_t)part * M * N + i];
    C[i] = sum;
}
