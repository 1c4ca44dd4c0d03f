// honest: read the Fermi paper: 4 x 4 registers in halves, explicit fma, one buffer's worth of registers for the next tile
extern "C" __global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS_PER_SM)
gemm(const double *__restrict__ A, const double *__restrict__ B, double *__restrict__ C, int M, int N, int K)
{
    extern __shared__ __align__(16) unsigned char raw[];
    typedef double TileA[BK][BM + 2];
    typedef double TileB[BK][BN];
    TileA *As = (TileA *)raw;
    TileB *Bs = (TileB *)(raw + 2 * sizeof(TileA));
    const int tid = threadIdx.x, w = tid / 32, l = tid % 32;
    const int ty = w / (BN / WN) * WM + (l / 16 * 2 + l % 2) * 2;
    const int tx = w % (BN / WN) * WN + l / 2 % 8 * 2;
    const double *pa = A + (blockIdx.y * BM + tid / 4) * K + tid % 4 * 2;
    const double *pb = B + tid / 64 * N + blockIdx.x * BN + tid % 64 * 2;
    double2 fa[2], fb[2];
    double rC[8][8];
#pragma unroll
    for (int n = 0; n < 64; n++)
        rC[n / 8][n % 8] = 0.0;

#define FETCH(k)                                                              \
    fa[0] = *(const double2 *)(pa + (k));                                     \
    fa[1] = *(const double2 *)(pa + (k) + 64 * K);                            \
    fb[0] = *(const double2 *)(pb + (k)*N);                                   \
    fb[1] = *(const double2 *)(pb + ((k) + 4) * N);
#define STORE(s, h)                                                           \
    As[s][(h)*8 + tid % 4 * 2][tid / 4] = fa[0].x;                            \
    As[s][(h)*8 + tid % 4 * 2 + 1][tid / 4] = fa[0].y;                        \
    As[s][(h)*8 + tid % 4 * 2][tid / 4 + 64] = fa[1].x;                       \
    As[s][(h)*8 + tid % 4 * 2 + 1][tid / 4 + 64] = fa[1].y;                   \
    *(double2 *)&Bs[s][(h)*8 + tid / 64][tid % 64 * 2] = fb[0];               \
    *(double2 *)&Bs[s][(h)*8 + tid / 64 + 4][tid % 64 * 2] = fb[1];
#define COMPUTE(s, h)                                                         \
    _Pragma("unroll") for (int k = (h)*8; k < (h)*8 + 8; k++) {               \
        double2 a[4], b[4];                                                   \
        for (int i = 0; i < 4; i++) {                                         \
            a[i] = *(double2 *)&As[s][k][ty + i * 8];                         \
            b[i] = *(double2 *)&Bs[s][k][tx + i * 16];                        \
        }                                                                     \
        for (int i = 0; i < 4; i++)                                           \
            for (int j = 0; j < 4; j++) {                                     \
                rC[2 * i][2 * j] = fma(a[i].x, b[j].x, rC[2 * i][2 * j]);     \
                rC[2 * i][2 * j + 1] = fma(a[i].x, b[j].y, rC[2 * i][2 * j + 1]);         \
                rC[2 * i + 1][2 * j + 1] = fma(a[i].y, b[j].y, rC[2 * i + 1][2 * j + 1]); \
                rC[2 * i + 1][2 * j] = fma(a[i].y, b[j].x, rC[2 * i + 1][2 * j]);         \
            }                                                                 \
    }
    FETCH(0) STORE(0, 0) FETCH(8) STORE(0, 1)
    __syncthreads();
    int s = 0;
    for (int k0 = BK; k0 < K; k0 += BK) {
        FETCH(k0) COMPUTE(s, 0) STORE(1 - s, 0)
        FETCH(k0 + 8) COMPUTE(s, 1) STORE(1 - s, 1)
        __syncthreads();
        s = 1 - s;
    }
    COMPUTE(s, 0) COMPUTE(s, 1)
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            *(double2 *)&C[(blockIdx.y * BM + ty + i / 2 * 8 + i % 2) * N + blockIdx.x * BN + tx + j * 16] =
                make_double2(rC[i][2 * j], rC[i][2 * j + 1]);
}
