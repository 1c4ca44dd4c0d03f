// Lesson 92: row softmax
// New idea: one launch reduces each row to two numbers, a second one uses them for every element.
// Before:   an element of C needed nothing of its neighbours' results.
// Launch:   grid ceil(M/THREADS), block THREADS; then grid ceil(M*N/256), block 256.

// The largest number of each row, and the sum of exp(x - largest).
extern "C" __global__ void row_sums(const float *X, float *largest, float *sums, int M, int N)
{
    // Which row is mine?
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M)
        return;

    float top = X[row * N];
    for (int col = 1; col < N; col++)
        top = fmaxf(top, X[row * N + col]);

    // Walk along the row once more.
    float sum = 0.0f;
    // (1) Add up exp(x - top) of the row.
    for (int col = 0; col < N; col++)
        sum += expf(X[row * N + col] - top);

    largest[row] = top;
    sums[row] = sum;
}

// Each element by the sum of its row.
extern "C" __global__ void divide(const float *X, const float *largest, const float *sums, float *C, int M, int N)
{
    // Which element is mine?
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M * N)
        return;

    // Write my element back.
    float result = 0.0f;
    // (2) The element's exp, divided by the sum of its row.
    result = expf(X[i] - largest[i / N]) / sums[i / N];
    C[i] = result;
}
