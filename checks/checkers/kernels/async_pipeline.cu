// A pipeline of three stages with cp.async. broken: it waits for all but the newest two groups, one too few.
template <int PENDING>
__device__ __forceinline__ void walk(const float *A, float *C, int tiles)
{
    __shared__ __align__(16) float stage[3][256];
    const int t = threadIdx.x;
    float acc = 0.0f;
    auto fetch = [&](int i) {
        const unsigned place = (unsigned)__cvta_generic_to_shared(&stage[i % 3][4 * t]);
        const float *from = &A[i * 256 + 4 * t];
        if (i < tiles)
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" : : "r"(place), "l"(from) : "memory");   // here: async_in_flight
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    fetch(0);
    fetch(1);
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
        asm volatile("cp.async.wait_group %0;" : : "n"(PENDING) : "memory");
        __syncthreads();
        acc += stage[i % 3][255 - 4 * t]; // here: async_in_flight
        fetch(i + 2);
    }
    C[t] = acc;
}

extern "C" __global__ void broken(const float *A, float *C, int tiles)
{
    walk<2>(A, C, tiles);
}

extern "C" __global__ void fixed(const float *A, float *C, int tiles)
{
    walk<1>(A, C, tiles);
}
