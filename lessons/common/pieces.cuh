// Pieces: eight halves, 16 bytes of a line, copied to shared memory without registers and loaded into fragments.
//
//   copy_piece(to, from, halves)    issues a copy of the first `halves` of eight, 0 to 8, and writes zeros for the rest.
//                                   Both addresses must be multiples of 16 bytes; halves that are not copied are not read.
//   load_pieces(to, piece)          ldmatrix (mma.cuh) into a fragment of A or of B
//   load_pieces_trans(to, piece)    the same, and each 8 x 8 halves are transposed on the way
//
// The pipeline of cuda_pipeline.h commits and waits for these copies, too. Lesson 17 uses them.
#pragma once
#include "mma.cuh"

__device__ inline void copy_piece(half *to, const half *from, int halves)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(2 * halves)
                 : "memory");
}

__device__ inline void load_pieces(unsigned (&to)[4], const half *piece)
{
    ldmatrix(to, piece);
}

__device__ inline void load_pieces(unsigned (&to)[2][2], const half *piece)
{
    unsigned four[4];
    ldmatrix(four, piece);
    to[0][0] = four[0], to[0][1] = four[1], to[1][0] = four[2], to[1][1] = four[3];
}

__device__ inline void load_pieces_trans(unsigned (&to)[2][2], const half *piece)
{
    ldmatrix_trans(to, piece);
}

__device__ inline void load_pieces_trans(unsigned (&to)[4], const half *piece)
{
    unsigned two[2][2];
    ldmatrix_trans(two, piece);
    to[0] = two[0][0], to[1] = two[0][1], to[2] = two[1][0], to[3] = two[1][1];
}
