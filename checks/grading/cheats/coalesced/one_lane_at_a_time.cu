// cheat: diluted mean: lesson 01 with every lane loading and storing in its turn: one sector a request, 32 requests
// expect: gate_missed sectors read per warp and k
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x % BM; // lesson 01's way
    const int col = blockIdx.x * BN + threadIdx.x / BM;
    float acc = 0.0f;
    for (int k = 0; k < K; k++) {
        float a = 0.0f;
#pragma unroll 1
        for (int lane = 0; lane < 32; lane++)
            if (threadIdx.x % 32 == lane && row < M)
                a = *(volatile const float *)&A[row * K + k];
        if (row < M && col < N)
            acc += a * B[k * N + col];
    }
#pragma unroll 1
    for (int lane = 0; lane < 32; lane++)
        if (threadIdx.x % 32 == lane && row < M && col < N)
            C[row * N + col] = acc;
}
