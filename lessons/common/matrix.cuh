// Matrix: a view of numbers that lie somewhere else. It owns nothing and copies nothing.
//
//   data                 the first element of the view
//   rows, cols           its shape
//   row_stride           how many elements further the next row starts
//   col_stride           how many elements further the next column stands
//
// Element (row, col) is at data[row * row_stride + col * col_stride]. The strides alone say what the view is:
//
//   row-major, R x C     Matrix<float>{p, R, C, C, 1}
//   its transpose        Matrix<float>{p, C, R, 1, C}          the same memory, no copy
//   a tile of m          m.tile(row, col, rows, cols)          the same strides, a later start
//
// One logical index counts along the rows of the view: m(0) m(1) ... m(cols - 1) is row 0, m(cols) starts row 1.
// Indices are 32-bit: fine up to 2^31 - 1 elements between the first element and the last. Lesson 01 explains the view.
#pragma once

template <typename T>
struct Matrix {
    T *data;
    int rows;
    int cols;
    int row_stride;
    int col_stride;

    // The element in this row and column.
    __host__ __device__ T &operator()(int row, int col) const
    {
        return data[row * row_stride + col * col_stride];
    }

    // The element with this logical index.
    __host__ __device__ T &operator()(int index) const
    {
        return (*this)(index / cols, index % cols);
    }

    // The tile of this shape whose first element is my element (row, col).
    __host__ __device__ Matrix tile(int row, int col, int tile_rows, int tile_cols) const
    {
        return Matrix{data + row * row_stride + col * col_stride, tile_rows, tile_cols, row_stride, col_stride};
    }
};
