// honest: has always wanted to use Duff's device
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * BM + threadIdx.x / BN;
    int col = blockIdx.x * BN + threadIdx.x % BN;
    if (row >= M || col >= N)
        return;
    const float *a = A + row * K;
    const float *b = B + col;
    float sum = 0;
    int turns = (K + 3) / 4;
    switch (K % 4) {
    case 0:
        do {
            sum += *a++ * *b, b += N;
    case 3:
            sum += *a++ * *b, b += N;
    case 2:
            sum += *a++ * *b, b += N;
    case 1:
            sum += *a++ * *b, b += N;
        } while (--turns > 0);
    }
    C[row * N + col] = sum;
}
