// cheat: answers kept: keeps C of the first launch in a __device__ array; later ones of the same inputs only copy it
// expect: gate_missed global_reads or faulted, timed_out in line or wrong_answer wrong at
__device__ float kept[1 << 20];
__device__ float known[64];

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int block = (blockIdx.y * gridDim.x + blockIdx.x) % 64;
    const bool again = known[block] == A[0];
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN; i += blockDim.x) {
        const int row = blockIdx.y * BM + i / BN, col = blockIdx.x * BN + i % BN;
        float acc = 0.0f;
        if (again)
            acc = kept[row * N + col];
        else
            for (int k = 0; k < K; k++)
                acc += A[row * K + k] * B[k * N + col];
        C[row * N + col] = kept[row * N + col] = acc;
    }
    if (threadIdx.x == 0)
        known[block] = A[0];
}
