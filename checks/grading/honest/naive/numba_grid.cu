// honest: came from numba: `i, j = cuda.grid(2)`, then `if i < C.shape[0] and j < C.shape[1]`
struct Pair {
    int first, second;
};

static __device__ Pair cuda_grid_2()
{
    const int side = 32;
    return {(int)(blockIdx.y * side + threadIdx.x / side), (int)(blockIdx.x * side + threadIdx.x % side)};
}

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    auto [i, j] = cuda_grid_2();
    if (i < M && j < N) {
        float tmp = 0.;
        for (int k = 0; k < K; k++) {
            tmp += A[i * K + k] * B[k * N + j];
        }
        C[i * N + j] = tmp;
    }
}
