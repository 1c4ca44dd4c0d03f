// Neighbouring threads of different warps write neighbouring bytes: clean, although a word holds both.
// broken: 16-bit stores, so that each thread also writes its neighbour's byte.
extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ __align__(4) unsigned char bytes[130];
    const int t = threadIdx.x, place = t % 32 * 4 + t / 32;
    *(unsigned short *)&bytes[place / 2 * 2] = (unsigned short)(A[t] + t);   // here: race
    __syncthreads();
    C[t] = (float)bytes[127 - place];
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ __align__(4) unsigned char bytes[130];
    const int t = threadIdx.x, place = t % 32 * 4 + t / 32;
    bytes[place] = (unsigned char)(A[t] + t);
    __syncthreads();
    C[t] = (float)bytes[127 - place];
}
