// double2: two doubles that lie side by side, read or written as one 128-bit access.
//
//   double2_at(x) is the double2 that starts at the double x. x must be aligned to 16 bytes, in any memory.
//
//   double2_at(As[k][row]) = double2_at(a_tile(row, k));     one 128-bit load, one 128-bit store
//
// Lesson 24 explains what it saves.
#pragma once

__device__ inline double2 &double2_at(double &first)
{
    return reinterpret_cast<double2 &>(first);
}

__device__ inline const double2 &double2_at(const double &first)
{
    return reinterpret_cast<const double2 &>(first);
}

template <typename Other> // another type would be converted, and the reference would be to that copy
__device__ const double2 &double2_at(const Other &) = delete;
