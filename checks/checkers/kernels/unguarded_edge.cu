// A ragged matrix, 20 x 20 by 16 x 16 blocks. broken: the loads at its edges are not guarded.
extern "C" __global__ void broken(const float *A, float *C, int M, int N)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    const float value = A[row * N + col]; // here: out_of_bounds
    if (row < M && col < N)
        C[row * N + col] = 2.0f * value;
    else if (value == 12345.0f)
        C[0] = value;
}

extern "C" __global__ void fixed(const float *A, float *C, int M, int N)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row < M && col < N)
        C[row * N + col] = 2.0f * A[row * N + col];
}
