// cheat: hidden loads: a thread brings the block's rows of A by cp.async.bulk, which no load counter sees
// expect: gate_missed sectors_read
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ alignas(16) float rows[BM][4];
    __shared__ alignas(8) unsigned long long bar;
    const int row = blockIdx.y * BM + threadIdx.x % BM; // lesson 01's way
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    const unsigned at = __cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(blockDim.x));
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 4) {
        const unsigned to = __cvta_generic_to_shared(&rows[threadIdx.x % BM][0]);
        const bool whole = K % 4 == 0;
        const bool mine = whole && threadIdx.x < BM && row < M;
        asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1; }" ::"r"(at), "r"(mine ? 16 : 0)
                     : "memory");
        if (mine)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];" ::"r"(to),
                         "l"(&A[row * K + k0]), "r"(at) : "memory");
        unsigned over = 0;
        while (!over)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(over) : "r"(at), "r"(k0 / 4 & 1) : "memory");
        if (row < M && col < N)
            for (int k = k0; k < k0 + 4 && k < K; k++)
                acc += (whole ? rows[threadIdx.x % BM][k - k0] : A[row * K + k]) * B[k * N + col];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
