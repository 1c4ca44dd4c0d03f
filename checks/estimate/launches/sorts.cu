// Bitonic sort: of 1024 elements in shared memory, and one step of an array.

extern "C" __global__ void in_shared(const unsigned *x, unsigned *y)
{
    __shared__ unsigned part[1024];
    const unsigned *own = x + blockIdx.x * 1024;
    int tid = threadIdx.x;
    part[tid] = own[tid];
    part[tid + 512] = own[tid + 512];
    for (int size = 2; size <= 1024; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int at = 2 * tid - (tid & (stride - 1));
            bool up = (at & size) == 0;
            unsigned a = part[at], b = part[at + stride];
            if ((a > b) == up)
                part[at] = b, part[at + stride] = a;
        }
    __syncthreads();
    y[blockIdx.x * 1024 + tid] = part[tid];
    y[blockIdx.x * 1024 + tid + 512] = part[tid + 512];
}

extern "C" __global__ void step(int stride, int size, unsigned *x)
{
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    int at = 2 * tid - (tid & (stride - 1));
    unsigned a = x[at], b = x[at + stride];
    bool up = (at & size) == 0;
    x[at] = (a > b) == up ? b : a;
    x[at + stride] = (a > b) == up ? a : b;
}
