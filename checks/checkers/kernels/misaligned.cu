// broken: four floats at once from an address that is a multiple of 4 bytes, not of 16.
extern "C" __global__ void broken(const float *A, float *C, int shift)
{
    const float4 v = *(const float4 *)&A[4 * threadIdx.x + shift];   // here: misaligned
    C[threadIdx.x] = v.x + v.y + v.z + v.w;
}

extern "C" __global__ void fixed(const float *A, float *C, int shift)
{
    const float *p = &A[4 * threadIdx.x + shift];
    C[threadIdx.x] = p[0] + p[1] + p[2] + p[3];
}
