// Fragments<TYPE>: how a warp loads numbers of a type from swizzled tiles, multiplies them and stores the sums.
//
//   Element, Sum        numbers in memory, and what products are summed in
//   DEPTH, COLS         of k and of columns, that one load_b takes
//   PARTS, PASSES       matrices that each of A and B is given as, and products for each pair of fragments: 1 and 1
//   B_FIRST             whether B is the first factor of mma.sync
//   PAD                 numbers after each row of C in shared memory, so that store has no bank conflicts
//   A, B, Sums          a lane's registers: of 16 rows x DEPTH of A, of DEPTH x COLS of B, of 16 rows x COLS of C
//   turn_a, turn_b      what the places of a row's pieces are xored with
//   load_a, load_b      from a tile of WIDTH columns, at (row, k) and at (k, col)
//   multiply_add        sums += a * b; the last argument is the number of the pass
//   settle              after each tile
//   store               to C, at (row, col)
//
// Halves are those of lesson 15, for any type of 16 bits. The other types are not 16 bits wide, so ldmatrix_trans cannot
// transpose them: see "The types" in lesson 16.
#pragma once
#include "floats.cuh"
#include "matrix.cuh"
#include "mma.cuh"
#include "row.cuh"

enum Type { F16 = 1, BF16, TF32, S8, F64, FP32_BY_TF32, FP32_BY_F16 };

template <int>
struct Fragments;

// Where number (row, col) of a tile of COLS columns is stored. A row is pieces of 16 bytes, which change places.
template <int COLS, typename Number>
__device__ inline unsigned swizzled(unsigned row, unsigned col, unsigned turn)
{
    constexpr int PIECE = 16 / sizeof(Number);
    unsigned place = col / PIECE;
    place ^= turn % 8;
    return row * COLS + place * PIECE + col % PIECE;
}

// Numbers of 16 bits. A product of fragments takes 16 of k, and one ldmatrix loads B for two products.
template <typename Number>
struct Halves {
    using Element = Number;
    using Sum = float;
    using A = unsigned[4];    // a lane's share of 16 rows x 16 k
    using B = unsigned[2][2]; // of 16 k x 16 columns, for two products
    using Sums = float[2][4]; // of 16 rows x 16 columns
    static constexpr int DEPTH = 16, COLS = 16, PARTS = 1, PASSES = 1, PAD = 8;
    static constexpr bool B_FIRST = false;

    __device__ static unsigned turn_a(unsigned row) { return row; }
    __device__ static unsigned turn_b(unsigned row) { return row; }

    template <int WIDTH>
    __device__ static void load_a(A &a, const Number *tile, int row, int k)
    {
        const int lane = threadIdx.x % 32;
        row += lane % 16;
        k += lane / 16 * 8;
        ldmatrix(a, &tile[swizzled<WIDTH, Number>(row, k, turn_a(row))]);
    }

    template <int WIDTH>
    __device__ static void load_b(B &b, const Number *tile, int k, int col)
    {
        const int lane = threadIdx.x % 32;
        k += lane % 16;
        col += lane / 16 * 8;
        ldmatrix_trans(b, &tile[swizzled<WIDTH, Number>(k, col, turn_b(k))]);
    }

    __device__ static void store(const Matrix<float> &c, int row, int col, const Sums &sums)
    {
        const int lane = threadIdx.x % 32;
        for (int w = 0; w < 2; w++)
            for (int lower = 0; lower < 2; lower++) {
                const Floats<2> pair = {sums[w][2 * lower], sums[w][2 * lower + 1]};
                floats_at<2>(c(row + 8 * lower + lane / 4, col + 8 * w + lane % 4 * 2)) = pair;
            }
    }

    __device__ static void settle(Sums &) {}
};

template <>
struct Fragments<F16> : Halves<half> {
    __device__ static void multiply_add(Sums &sums, const A &a, const B &b, int = 0)
    {
        for (int w = 0; w < 2; w++)
            mma_f16(sums[w], a, b[w]);
    }
};

template <>
struct Fragments<BF16> : Halves<__nv_bfloat16> {
    __device__ static void multiply_add(Sums &sums, const A &a, const B &b, int = 0)
    {
        for (int w = 0; w < 2; w++)
            mma_bf16(sums[w], a, b[w]);
    }
};

// tf32 are floats, of which the tensor core reads the first 19 bits. A row of 16 bytes is four of them, so ldmatrix serves
// for A. Of B a lane takes two columns side by side. They are rows of the other factor: the tensor core multiplies the
// transposed matrices, B^T A^T, and what it calls its first factor, with 16 rows, is 16 columns of B.
template <>
struct Fragments<TF32> {
    using Element = float;
    using Sum = float;
    static constexpr int DEPTH = 8, COLS = 16, PARTS = 1, PASSES = 1, PAD = 4;
    static constexpr bool B_FIRST = true;
    using A = unsigned[2][2];
    using B = unsigned[4];
    using Sums = float[2][4];

    __device__ static unsigned turn_a(unsigned row) { return row; }
    __device__ static unsigned turn_b(unsigned row) { return row; }

    template <int WIDTH>
    __device__ static void load_a(A &a, const float *tile, int row, int k)
    {
        const int lane = threadIdx.x % 32;
        const int mine = lane / 16 * 8 + lane % 8;
        unsigned to[4];
        ldmatrix(to, &tile[swizzled<WIDTH, float>(row + mine, k + lane / 8 % 2 * 4, turn_a(mine))]);
        for (int i = 0; i < 4; i++)
            a[i / 2][i % 2] = to[i];
    }

    // The first of my two columns. 16 lanes load at a time: four rows, and groups 0 to 3 or 4 to 7. Xor with 0 to 3 takes
    // piece 0 of a row to places 0 to 3 and piece 4 to the others, so groups 0 to 3 take those two, half a piece each;
    // groups 4 to 7 take pieces 1 and 5, and the next 16 columns pieces 2 and 6, 3 and 7.
    __device__ static int my_col(int col)
    {
        const int group = threadIdx.x % 32 / 4;
        return col / 32 * 32 + col % 32 / 2 + group / 2 % 2 * 16 + group / 4 * 4 + group % 2 * 2;
    }

    template <int WIDTH>
    __device__ static void load_b(B &b, const float *tile, int k, int col)
    {
        for (int part = 0; part < 2; part++) {
            const int row = part * 4 + threadIdx.x % 4;
            const auto x = row_at<2>(tile[swizzled<WIDTH, float>(k + row, my_col(col), turn_b(row))]);
            b[2 * part] = __float_as_uint(x.at[0]);
            b[2 * part + 1] = __float_as_uint(x.at[1]);
        }
    }

    __device__ static void multiply_add(Sums &sums, const A &a, const B &b, int = 0)
    {
        for (int w = 0; w < 2; w++)
            mma_tf32(sums[w], b, a[w]);
    }

    __device__ static void settle(Sums &) {}

    __device__ static void store(const Matrix<float> &c, int row, int col, const Sums &sums)
    {
        for (int w = 0; w < 2; w++)
            for (int e = 0; e < 2; e++) {
                const bool odd = e ^ threadIdx.x % 4 / 2; // so rows 0 2 5 7 go together, and no banks meet
                row_at<2>(c(row + w * 8 + threadIdx.x % 4 * 2 + odd, my_col(col))) = {odd ? sums[w][1] : sums[w][0],
                                                                                      odd ? sums[w][3] : sums[w][2]};
            }
    }
};

// int8: ldmatrix_trans transposes pairs of columns. A lane picks k = 4q to 4q + 3 of one column out of two registers.
template <>
struct Fragments<S8> {
    using Element = signed char;
    using Sum = int;
    static constexpr int DEPTH = 32, COLS = 16, PARTS = 1, PASSES = 1, PAD = 16;
    static constexpr bool B_FIRST = false;
    using A = unsigned[4];
    using B = unsigned[2][2];
    using Sums = int[2][4];

    __device__ static unsigned turn_a(unsigned row) { return row; }
    __device__ static unsigned turn_b(unsigned row) { return row; }

    template <int WIDTH>
    __device__ static void load_a(A &a, const Element *tile, int row, int k)
    {
        const int lane = threadIdx.x % 32;
        ldmatrix(a, &tile[swizzled<WIDTH, Element>(row + lane % 16, k + lane / 16 * 16, turn_a(lane))]);
    }

    // Two matrices of k = 0 1, 4 5, 10 11, 14 15 and 2 3, 6 7, 8 9, 12 13, and two more 16 further down: eight rows that
    // are eight different numbers but for multiples of 8. A lane's four k are two of one matrix and two of the other.
    __device__ static int my_row()
    {
        const int lane = threadIdx.x % 32;
        const int second = lane / 8 % 2 ^ lane % 8 / 4; // in the upper half of a matrix it is the other way round
        return lane / 16 * 16 + lane % 8 / 2 * 4 + second * 2 + lane % 2;
    }

    __device__ static void pick(B &b, const unsigned (&pairs)[2][2])
    {
        const unsigned mine = threadIdx.x % 4 < 2 ? 0x6420 : 0x2064;
        for (int part = 0; part < 2; part++) {
            b[0][part] = __byte_perm(pairs[part][0], pairs[part][1], mine);
            b[1][part] = __byte_perm(pairs[part][0], pairs[part][1], mine + 0x1111);
        }
    }

    template <int WIDTH>
    __device__ static void load_b(B &b, const Element *tile, int k, int col)
    {
        unsigned pairs[2][2];
        ldmatrix_trans(pairs, &tile[swizzled<WIDTH, Element>(k + my_row(), col, turn_b(my_row()))]);
        pick(b, pairs);
    }

    __device__ static void multiply_add(Sums &sums, const A &a, const B &b, int = 0)
    {
        for (int w = 0; w < 2; w++)
            mma_s8(sums[w], a, b[w]);
    }

    __device__ static void settle(Sums &) {}

    // Product 0 has the even columns, product 1 the odd ones.
    __device__ static void store(const Matrix<int> &c, int row, int col, const Sums &sums)
    {
        const int lane = threadIdx.x % 32;
        for (int lower = 0; lower < 2; lower++)
            row_at<4>(c(row + lower * 8 + lane / 4, col + lane % 4 * 4)) = {
                sums[0][lower * 2], sums[1][lower * 2], sums[0][lower * 2 + 1], sums[1][lower * 2 + 1]};
    }
};

// float64: a number is two registers, and each lane loads its own.
template <>
struct Fragments<F64> {
    using Element = double;
    using Sum = double;
    static constexpr int DEPTH = 4, COLS = 8, PARTS = 1, PASSES = 1, PAD = 8;
    static constexpr bool B_FIRST = false;
    using A = double[2];
    using B = double[1];
    using Sums = double[4];

    __device__ static unsigned turn_a(unsigned row) { return row * 2; }
    __device__ static unsigned turn_b(unsigned row) { return row * 2; }

    template <int WIDTH>
    __device__ static void load_a(A &a, const double *tile, int row, int k)
    {
        const int lane = threadIdx.x % 32;
        for (int lower = 0; lower < 2; lower++)
            a[lower] = tile[swizzled<WIDTH, double>(row + lower * 8 + lane / 4, k + lane % 4, turn_a(lane / 4))];
    }

    template <int WIDTH>
    __device__ static void load_b(B &b, const double *tile, int k, int col)
    {
        const int lane = threadIdx.x % 32;
        b[0] = tile[swizzled<WIDTH, double>(k + lane % 4, col + lane / 4, turn_b(lane % 4))];
    }

    __device__ static void multiply_add(Sums &sums, const A &a, const B &b, int = 0) { mma_f64(sums, a, b); }

    __device__ static void settle(Sums &) {}

    __device__ static void store(const Matrix<double> &c, int row, int col, const Sums &sums)
    {
        const int lane = threadIdx.x % 32;
        for (int lower = 0; lower < 2; lower++)
            row_at<2>(c(row + lower * 8 + lane / 4, col + lane % 4 * 2)) = {sums[lower * 2], sums[lower * 2 + 1]};
    }
};
