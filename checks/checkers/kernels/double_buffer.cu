// Two buffers and one barrier per tile are enough; broken: one buffer and one barrier per tile are not.
template <int BUFFERS>
__device__ __forceinline__ void walk(const float *A, float *C, int tiles)
{
    __shared__ float tile[BUFFERS][128];
    const int t = threadIdx.x;
    float acc = 0.0f;
    tile[0][t] = A[t];
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
        if (i + 1 < tiles)
            tile[(i + 1) % BUFFERS][t] = A[(i + 1) * 128 + t];   // here: race
        acc += tile[i % BUFFERS][127 - t];                       // here: race
        __syncthreads();
    }
    C[t] = acc;
}

extern "C" __global__ void broken(const float *A, float *C, int tiles)
{
    walk<1>(A, C, tiles);
}

extern "C" __global__ void fixed(const float *A, float *C, int tiles)
{
    walk<2>(A, C, tiles);
}
