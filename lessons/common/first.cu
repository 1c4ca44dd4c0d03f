// The smallest whole CUDA program: sum[i] = x[i] + y[i]. Lesson 01 explains it.
//
//   nvcc first.cu -o first && ./first      with a GPU and the CUDA toolkit
//
// A real program looks at what each of these calls returns: gemm-lessons export 01 --solution writes one that does.
#include <stdio.h>

enum { N = 1000 };
float host_x[N], host_y[N], host_sum[N];

extern "C" __global__ void
add(const float *x, const float *y, float *sum, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] = x[i] + y[i];
}

int main()
{
    for (int i = 0; i < N; i++) {
        host_x[i] = i;
        host_y[i] = 2 * i;
    }

    const size_t bytes = N * sizeof(float);
    float *x, *y, *sum; // addresses in the device's memory
    cudaMalloc(&x, bytes);
    cudaMalloc(&y, bytes);
    cudaMalloc(&sum, bytes);
    cudaMemcpy(x, host_x, bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(y, host_y, bytes, cudaMemcpyHostToDevice);

    add<<<4, 256>>>(x, y, sum, N); // 4 blocks of 256 threads

    // This copy waits for the kernel.
    cudaMemcpy(host_sum, sum, bytes, cudaMemcpyDeviceToHost);
    cudaFree(x);
    cudaFree(y);
    cudaFree(sum);

    const cudaError_t error = cudaGetLastError(); // of any of these calls
    if (error != cudaSuccess) {
        printf("%s\n", cudaGetErrorString(error));
        return 3;
    }
    int right = 0;
    for (int i = 0; i < N; i++)
        right += host_sum[i] == 3.0f * i;
    printf("%d of %d sums are right\n", right, N);
    return right == N ? 0 : 1;
}
