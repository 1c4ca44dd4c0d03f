// cp.async: threads read what other threads copied. broken: they wait for their own copies only.
__device__ __forceinline__ void copy(float *to, const float *from)
{
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" : : "r"(place), "l"(from) : "memory");   // here: race
}

extern "C" __global__ void broken(const float *A, float *C)
{
    __shared__ __align__(16) float tile[256];
    const int t = threadIdx.x;
    copy(&tile[4 * t], &A[4 * t]);
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    C[t] = tile[255 - 4 * t];             // here: race
}

extern "C" __global__ void fixed(const float *A, float *C)
{
    __shared__ __align__(16) float tile[256];
    const int t = threadIdx.x;
    copy(&tile[4 * t], &A[4 * t]);
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    C[t] = tile[255 - 4 * t];
}
