// broken: one row too many of As is read; what lies there is Bs, so no address is outside of shared memory.
extern "C" __global__ void broken(const float *A, float *C, int rows)
{
    __shared__ float As[8][32];
    __shared__ float Bs[8][32];
    const int t = threadIdx.x;
    for (int r = 0; r < 8; ++r) {
        As[r][t] = A[r * 32 + t];
        Bs[r][t] = -A[r * 32 + t];
    }
    __syncthreads();
    float acc = 0.0f;
    for (int r = 0; r < rows; ++r)
        acc += As[r][31 - t];             // here: out_of_array
    C[t] = acc + Bs[rows - 2][t];
}

extern "C" __global__ void fixed(const float *A, float *C, int rows)
{
    __shared__ float As[8][32];
    __shared__ float Bs[8][32];
    const int t = threadIdx.x;
    for (int r = 0; r < 8; ++r) {
        As[r][t] = A[r * 32 + t];
        Bs[r][t] = -A[r * 32 + t];
    }
    __syncthreads();
    float acc = 0.0f;
    for (int r = 0; r < rows - 1; ++r)
        acc += As[r][31 - t];
    C[t] = acc + Bs[rows - 2][t];
}
