// cheat: wrong idea: multiplies on the tensor cores, and adds zeros by as many DFMA as the product would need
// expect: gate_missed fp64_products
#include "double2.cuh"

constexpr int PK = BK / PIECES;
constexpr int PAD = PK < 8 ? 16 / PK : 2;

struct Tiles {
    double a[BK][BM + PAD];
    double b[BK][BN];
};

extern "C" __global__ void __launch_bounds__(256, 1)
gemm(const double *A, const double *B, double *C, int M, int N, int K)
{
    extern __shared__ __align__(16) char memory[];
    Tiles *tiles = reinterpret_cast<Tiles *>(memory);
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    const int wr = warp / 2 * 32, wc = warp % 2 * 64;
    double acc[2][8][4] = {}, waste[8] = {}, zero = C == nullptr ? 1.0 : 0.0;
    double2 an[4], bn[4];
    const auto fetch = [&](int k) {
        for (int r = 0; r < 4; r++) {
            an[r] = double2_at(A[(row0 + t / 4 + r % 2 * 64) * K + k + r / 2 * 8 + t % 4 * 2]);
            bn[r] = double2_at(B[(k + t / 64 + r * 4) * N + col0 + t % 64 * 2]);
        }
    };
    const auto store = [&](int s) {
        for (int r = 0; r < 4; r++) {
            tiles[s].a[r / 2 * 8 + t % 4 * 2][t / 4 + r % 2 * 64] = an[r].x;
            tiles[s].a[r / 2 * 8 + t % 4 * 2 + 1][t / 4 + r % 2 * 64] = an[r].y;
            double2_at(tiles[s].b[t / 64 + r * 4][t % 64 * 2]) = bn[r];
        }
    };
    fetch(0);
    store(0);
    __syncthreads();
    for (int k0 = 0, s = 0; k0 < K; k0 += BK, s ^= 1) {
        if (k0 + BK < K)
            fetch(k0 + BK);
#pragma unroll
        for (int k = 0; k < BK; k += 4) {
            double a[2][2], b[8];
            for (int i = 0; i < 2; i++)
                for (int h = 0; h < 2; h++)
                    a[i][h] = tiles[s].a[k + lane % 4][wr + i * 16 + h * 8 + lane / 4];
            for (int j = 0; j < 8; j++)
                b[j] = tiles[s].b[k + lane % 4][wc + j * 8 + lane / 4];
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 8; j++)
                    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                        : "+d"(acc[i][j][0]), "+d"(acc[i][j][1]), "+d"(acc[i][j][2]), "+d"(acc[i][j][3])
                        : "d"(a[i][0]), "d"(a[i][1]), "d"(b[j]));
            for (int i = 0; i < 256; i++)
                waste[i % 8] = fma(zero, a[i % 2][i / 2 % 2], waste[i % 8]);
        }
        if (k0 + BK < K)
            store(s ^ 1);
        __syncthreads();
    }
    double sum = 0.0;
    for (int i = 0; i < 8; i++)
        sum += waste[i];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 8; j++)
            for (int h = 0; h < 2; h++)
                double2_at(C[(row0 + wr + i * 16 + h * 8 + lane / 4) * N + col0 + wc + j * 8 + lane % 4 * 2]) = {
                    acc[i][j][2 * h] + sum, acc[i][j][2 * h + 1] + sum};
}
