// Row<Number, COUNT>: COUNT consecutive numbers, read or written as one access of up to 128 bits.
//
//   row_at<COUNT>(x) is the row that starts at the number x, which must be aligned like the whole row.
//
//   row_at<4>(c(row, col)) = row_at<4>(slab(row, col));     a load and a store of 128 bits, if the numbers have 32
//   row_at<2>(x).at[1]                                      the second of two
//
// It is floats.cuh for any type. Lesson 17 uses it.
#pragma once

template <typename Number, int COUNT>
struct alignas(COUNT * sizeof(Number) < 16 ? COUNT * sizeof(Number) : 16) Row {
    Number at[COUNT];
};

template <int COUNT, typename Number>
__device__ inline Row<Number, COUNT> &row_at(Number &first)
{
    return reinterpret_cast<Row<Number, COUNT> &>(first);
}

template <int COUNT, typename Number>
__device__ inline const Row<Number, COUNT> &row_at(const Number &first)
{
    return reinterpret_cast<const Row<Number, COUNT> &>(first);
}
