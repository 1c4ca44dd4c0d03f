// A file of another project: a kernel with its host code.
#include <cstdio>
#include <vector>
#include "sizes.h"
typedef float real;

__global__ void scale(real *x, const real *y, real factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = factor * y[i];
}

template <int WIDTH> __global__ void total(int *out, const int *in)
{
    __shared__ int part[WIDTH];
    part[threadIdx.x] = in[blockIdx.x * WIDTH + threadIdx.x];
    __syncthreads();
    for (int half = WIDTH / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}

int main()
{
    std::vector<float> host(LENGTH);
    total<128><<<4, 128>>>(nullptr, nullptr);
    printf("%d", (int)host.size());
}
