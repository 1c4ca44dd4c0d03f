// broken: half a warp calls __syncwarp(), whose mask names all 32 lanes, inside an if.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ float tile[32];
    const int t = threadIdx.x;
    if (t < 16) {
        tile[t] = A[t];
        __syncwarp();                     // here: divergent_warp
        C[t] = tile[15 - t];
    }
    C[t + 32] = A[t];
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ float tile[32];
    const int t = threadIdx.x;
    if (t < 16) {
        tile[t] = A[t];
        __syncwarp(0x0000ffffu);
        C[t] = tile[15 - t];
    }
    C[t + 32] = A[t];
}
