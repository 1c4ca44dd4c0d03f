// The smallest whole CUDA program: y[i] = 2 * x[i], with one thread for each i. Lesson 00 explains it.
//
//   nvcc first.cu -o first && ./first      with a GPU and the CUDA toolkit
//
// A real program checks what each of these calls returns: gemm-lessons export 01 --solution writes one that does.
#include <stdio.h>

enum { N = 256 };
float host_x[N], host_y[N];

extern "C" __global__ void
doubled(const float *x, float *y)
{
    y[threadIdx.x] = 2.0f * x[threadIdx.x];
}

int main()
{
    for (int i = 0; i < N; i++)
        host_x[i] = i;

    const size_t bytes = N * sizeof(float);
    float *x, *y; // addresses in the device's memory
    cudaMalloc(&x, bytes);
    cudaMalloc(&y, bytes);
    cudaMemcpy(x, host_x, bytes, cudaMemcpyHostToDevice);

    doubled<<<1, N>>>(x, y); // 1 block of N threads

    // This copy waits for the kernel.
    cudaMemcpy(host_y, y, bytes, cudaMemcpyDeviceToHost);
    cudaFree(x);
    cudaFree(y);

    const cudaError_t error = cudaGetLastError(); // of any of these calls
    if (error != cudaSuccess) {
        printf("%s\n", cudaGetErrorString(error));
        return 3;
    }
    int right = 0;
    for (int i = 0; i < N; i++)
        right += host_y[i] == 2.0f * i;
    printf("%d of %d numbers are right\n", right, N);
    return right == N ? 0 : 1;
}
