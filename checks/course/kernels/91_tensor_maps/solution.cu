// Tiles of A and B come by cp.async.bulk.tensor: thread 0 asks, all wait for the phase of the stage's mbarrier.
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };

__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void expect(unsigned long long *bar, int bytes)
{
    asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(at(bar)), "r"(bytes)
                 : "memory");
}

__device__ void wait(unsigned long long *bar, unsigned parity)
{
    unsigned over = 0;
    while (!over)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(over) : "r"(at(bar)), "r"(parity) : "memory");
}

__device__ void box(void *to, const CUtensorMap *map, int column, int row, unsigned long long *bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(at(to)), "l"(map), "r"(column), "r"(row), "r"(at(bar)) : "memory");
}

extern "C" __global__ void gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap map_B,
                                float *C, int M, int N, int K)
{
    __shared__ alignas(1024) float As[STAGES][BM][BK];
    __shared__ alignas(1024) float Bs[STAGES][BK][BN];
    __shared__ unsigned long long full[STAGES];
    const int tx = threadIdx.x, ty = threadIdx.y, tiles = (K + BK - 1) / BK;
    const int row0 = blockIdx.y * BM, col = blockIdx.x * BN + tx;
    const bool asks = tx == 0 && ty == 0;
    if (asks) {
        for (int s = 0; s < STAGES; ++s)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full[s])) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    auto fetch = [&](int t) {
        const int s = t % STAGES;
        expect(&full[s], sizeof As[s] + sizeof Bs[s]);
        box(As[s], &map_A, t * BK, row0, &full[s]);
        box(Bs[s], &map_B, blockIdx.x * BN, t * BK, &full[s]);
    };
    if (asks)
        for (int t = 0; t < STAGES - 1 && t < tiles; ++t)
            fetch(t);
    float acc[BM / 8] = {};
    for (int t = 0; t < tiles; ++t) {
        const int s = t % STAGES;
        if (asks && t + STAGES - 1 < tiles)
            fetch(t + STAGES - 1);
        wait(&full[s], t / STAGES & 1);
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < BM / 8; ++i) {
                const int r = ty + 8 * i; // pieces of 16 bytes are exchanged by the row's last 3 bits
                acc[i] += As[s][r][k ^ (r % 8) * 4] * Bs[s][k][tx];
            }
        __syncthreads(); // before the stage is filled again
    }
    for (int i = 0; i < BM / 8; ++i) {
        const int row = row0 + ty + 8 * i;
        if (row < M && col < N)
            C[row * N + col] = acc[i];
    }
}
