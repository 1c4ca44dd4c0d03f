// Lesson 00: first kernel
// New idea: each thread adds one pair of elements, so there is no loop.
// Launch:   grid ceil(M*N/THREADS), block THREADS; THREADS = 256 from lesson.toml.
extern "C" __global__ void
add(const float *A, const float *B, float *C, int M, int N)
{
    // Which element is mine?
    // (1) My thread's number in the whole grid.
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    // Add.
    // (2) Threads beyond the last element do nothing.
    if (i < M * N)
        C[i] = A[i] + B[i];
}
