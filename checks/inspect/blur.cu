// y = scale * (three neighbours, weighted); middle points at the second element of x.
__constant__ float weights[3];
namespace ns { __constant__ float scale; }
__device__ int total = 100;
__device__ int seen[2];

extern "C" __global__ void blur(const float *x, float *y, const float *middle)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float sum = weights[0] * middle[i - 1] + weights[1] * middle[i] + weights[2] * x[i + 2];
    y[i] = ns::scale * sum;
    atomicAdd(&total, 1);
    if (threadIdx.x == 0)
        atomicMax(&seen[1], blockIdx.x);
}
