// C = alpha a b + beta C with strided views by value, mixed precision, a 2-D block and one element per thread.
struct View {
    const float *data;
    int rows, cols, row_stride, col_stride;
    __device__ float at(int r, int c) const { return data[r * row_stride + c * col_stride]; }
};

extern "C" __global__ void scaled(View a, View b, double *C, float alpha, double beta)
{
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    const int col = threadIdx.x;
    if (row >= a.rows || col >= b.cols)
        return;
    double acc = 0;
    for (int k = 0; k < a.cols; k++)
        acc += static_cast<double>(a.at(row, k)) * b.at(k, col);
    C[row * b.cols + col] = alpha * acc + beta * C[row * b.cols + col];
}
