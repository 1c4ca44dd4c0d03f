// honest: learned from Simon Boehm's article: BLOCKSIZE, x for rows and y for columns, `tmp`
#define BLOCKSIZE 32
typedef unsigned int uint;

extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const uint cRow = blockIdx.y * BLOCKSIZE + (threadIdx.x / BLOCKSIZE);
    const uint cCol = blockIdx.x * BLOCKSIZE + (threadIdx.x % BLOCKSIZE);

    if (cRow < M && cCol < N) {
        float tmp = 0.0;
        for (int i = 0; i < K; ++i) {
            tmp += A[cRow * K + i] * B[i * N + cCol];
        }
        C[cRow * N + cCol] = tmp;
    }
}
