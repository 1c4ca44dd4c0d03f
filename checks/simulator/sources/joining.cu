// Products and sums that ptxas fuses, or does not.
#include <cuda_fp16.h>
__device__ float product(float a, float b) { float x; asm("mul.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b)); return x; }
__device__ float sum(float a, float b) { float x; asm("add.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b)); return x; }
extern "C" __global__ void k(const half *A, const half *B, const half *C, half *out, const float *x, float *single)
{
    int i = threadIdx.x;
    half a = A[i], b = B[i], c = C[i], d = A[i + 32], e = B[i + 32];
    out += 13 * i;
    out[0] = a * b + c;
    out[1] = c - a * b;
    out[2] = a * b - c;
    out[3] = a * b + d * e;
    half stored = b * c;
    out[4] = stored, out[5] = stored + a;
    half twice = a * c;
    out[6] = twice + b, out[7] = twice - d;
    half both = b * d, one = d * e;
    out[8] = both + one, out[9] = both + c;
    out[10] = __hadd_rn(a * e, c);
    half later = b * e;
    if (x[i] > 0.5f)
        later = later + c;
    out[11] = later;
    half2 packed = __hmul2(__half2half2(c), __halves2half2(d, e)) + __half2half2(a);
    out[12] = __high2half(packed);
    single[i] = sum(x[i], product(x[i + 32], x[i + 64]));
}
