// honest: takes four elements side by side: one number of A for four of B
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ __align__(16) float As[BM][BK];
    __shared__ __align__(16) float Bs[BK][BN];
    const int t = threadIdx.x;
    const int y = t / 16, x = t % 16 * 4; // of my four
    const int ly = t / 64, lx = t % 64; // of what I copy
    const int row = blockIdx.y * BM, col = blockIdx.x * BN;
    float4 acc = make_float4(0, 0, 0, 0);
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int r = ly; r < 64; r += 16) {
            As[r][lx] = row + r < M && k0 + lx < K ? A[(row + r) * K + k0 + lx] : 0.f;
            Bs[r][lx] = k0 + r < K && col + lx < N ? B[(k0 + r) * N + col + lx] : 0.f;
        }
        __syncthreads();
        for (int k = 0; k < BK; k++) {
            const float a = As[y][k];
            const float4 b = *reinterpret_cast<const float4 *>(&Bs[k][x]);
            acc.x += a * b.x;
            acc.y += a * b.y;
            acc.z += a * b.z;
            acc.w += a * b.w;
        }
        __syncthreads();
    }
    if (row + y < M) {
        float *c = C + (row + y) * N + col + x;
        if (col + x + 0 < N) c[0] = acc.x;
        if (col + x + 1 < N) c[1] = acc.y;
        if (col + x + 2 < N) c[2] = acc.z;
        if (col + x + 3 < N) c[3] = acc.w;
    }
}
