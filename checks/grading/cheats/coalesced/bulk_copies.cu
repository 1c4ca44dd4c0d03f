// cheat: hidden loads: each thread brings its row of A to shared memory by cp.async.bulk, which no load counter sees
// expect: unsupported, gate_missed mbarrier
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ alignas(16) float rows[BM][64];
    __shared__ alignas(8) unsigned long long bar;
    const int row = blockIdx.y * BM + threadIdx.x % BM; // lesson 01's way
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    const unsigned at = __cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at));
    __syncthreads();
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 4) {
        const unsigned to = __cvta_generic_to_shared(&rows[threadIdx.x % BM][0]);
        if (threadIdx.x < BM && row < M)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];" ::"r"(to),
                         "l"(&A[row * K + k0]), "r"(at) : "memory");
        __syncthreads();
        if (row < M && col < N)
            for (int k = k0; k < k0 + 4 && k < K; k++)
                acc += rows[threadIdx.x % BM][k - k0] * B[k * N + col];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
