// mma: a warp multiplies matrices that are in its registers, in fragments. A function for each instruction.
//
//   ldmatrix(to, row)           four matrices of 8 rows of 16 bytes from shared memory. Each lane passes the address
//                               of one row: lanes 0 to 7 those of the first matrix, 8 to 15 of the second, and so on.
//   ldmatrix_trans(to, row)     the same, and transposes each matrix, as 8 x 8 numbers of 16 bits
//   load_two(x, y, from)        two registers that lie side by side in shared memory
//   mma_f16(d, a, b)            d += a * b: d 16 x 8, a 16 x 16 and b 16 x 8 numbers in the registers of 32 lanes
//   mma_bf16, mma_tf32, mma_s8, mma_f64         the same for other types, with 16, 8, 32 and 4 of k
//
// Where a row is a number, it is an address in shared memory. All 32 lanes call them together. Lesson 15 explains which lane holds what.
#pragma once

__device__ inline void ldmatrix(unsigned (&to)[4], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

__device__ inline void ldmatrix_trans(unsigned (&to)[2][2], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0][0]), "=r"(to[0][1]), "=r"(to[1][0]), "=r"(to[1][1])
                 : "r"(row)
                 : "memory");
}

__device__ inline void ldmatrix(unsigned (&to)[4], const void *row)
{
    ldmatrix(to, (unsigned)__cvta_generic_to_shared(row));
}

__device__ inline void ldmatrix_trans(unsigned (&to)[2][2], const void *row)
{
    ldmatrix_trans(to, (unsigned)__cvta_generic_to_shared(row));
}

__device__ inline void load_two(unsigned &first, unsigned &second, unsigned from)
{
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(first), "=r"(second) : "r"(from) : "memory");
}

#define MMA(NAME, FORM, SUM, CONSTRAINT)                                                                               \
    __device__ inline void NAME(SUM(&d)[4], const unsigned(&a)[4], const unsigned(&b)[2])                              \
    {                                                                                                                  \
        asm("mma.sync.aligned." FORM " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                \
            : "+" CONSTRAINT(d[0]), "+" CONSTRAINT(d[1]), "+" CONSTRAINT(d[2]), "+" CONSTRAINT(d[3])                   \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                       \
    }

MMA(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32", float, "f")
MMA(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
MMA(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f")
MMA(mma_s8, "m16n8k32.row.col.s32.s8.s8.s32", int, "r")
#undef MMA

__device__ inline void mma_f64(double (&d)[4], const double (&a)[2], const double (&b)[1])
{
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(b[0]));
}
