// broken: rows of a 16 x 16 matrix are written 32 elements apart, half of them far behind its end.
extern "C" __global__ void broken(const float *A, float *C)
{
    const int row = threadIdx.x / 16, col = threadIdx.x % 16;
    C[row * 32 + col] = A[row * 16 + col];   // here: out_of_bounds
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    const int row = threadIdx.x / 16, col = threadIdx.x % 16;
    C[row * 16 + col] = A[row * 16 + col];
}
