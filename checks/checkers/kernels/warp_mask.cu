// broken: half a warp calls a shuffle whose mask names all 32 lanes; the others never do.
extern "C" __global__ void broken(const float *A, float *C)
{
    const int lane = threadIdx.x;
    float v = A[lane];
    if (lane < 16)
        v += __shfl_xor_sync(0xffffffffu, v, 8);   // here: divergent_warp
    C[lane] = v;
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    const int lane = threadIdx.x;
    float v = A[lane];
    if (lane < 16)
        v += __shfl_xor_sync(0x0000ffffu, v, 8);
    C[lane] = v;
}
