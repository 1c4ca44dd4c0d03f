// A matrix as a view, handed over by value: its strides are known only when the kernel runs.
struct View {
    float *data;
    int rows, cols, row_stride, col_stride;
    __device__ float &operator()(int row, int col) const { return data[row * row_stride + col * col_stride]; }
    __device__ View tile(int row, int col, int height, int width) const
    {
        return View{data + row * row_stride + col * col_stride, height, width, row_stride, col_stride};
    }
};
