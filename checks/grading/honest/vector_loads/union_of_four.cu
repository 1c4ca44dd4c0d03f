// honest: a C programmer: a union of float4 and float[4]
typedef union {
    float4 v;
    float f[4];
} quad;

extern "C" __global__ void __launch_bounds__(256) gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ quad As[BM * BK / 4], Bs[BK * BN / 4];
    const quad *a = (const quad *)(A + (blockIdx.y * BM + threadIdx.x / 2) * K) + threadIdx.x % 2;
    const quad *b = (const quad *)(B + threadIdx.x / 32 * N + blockIdx.x * BN) + threadIdx.x % 32;
    const int y = threadIdx.x >> 4, x = threadIdx.x & 15;
    quad sum[8][2], p[8], q;
    int i, j, k, s, left;

    for (i = 0; i < 8; i++)
        for (j = 0; j < 8; j++)
            sum[i][j / 4].f[j % 4] = 0;
    for (left = K; left; left -= BK) {
        As[threadIdx.x].v = a->v;
        Bs[threadIdx.x].v = b->v;
        a += BK / 4;
        b += BK * N / 4;
        __syncthreads();
#pragma unroll
        for (k = 0; k < 2; k++) {
#pragma unroll
            for (i = 0; i < 8; i++)
                p[i].v = As[(y * 8 + i) * 2 + k].v;
#pragma unroll
            for (s = 0; s < 4; s++)
#pragma unroll
                for (j = 0; j < 2; j++) {
                    q.v = Bs[(k * 4 + s) * 32 + x * 2 + j].v;
#pragma unroll
                    for (i = 0; i < 8; i++) {
                        sum[i][j].f[0] += p[i].f[s] * q.f[0];
                        sum[i][j].f[1] += p[i].f[s] * q.f[1];
                        sum[i][j].f[2] += p[i].f[s] * q.f[2];
                        sum[i][j].f[3] += p[i].f[s] * q.f[3];
                    }
                }
        }
        __syncthreads();
    }
    for (i = 0; i < 8; i++)
        for (j = 0; j < 2; j++)
            ((quad *)(C + (blockIdx.y * BM + y * 8 + i) * N + blockIdx.x * BN))[x * 2 + j].v = sum[i][j].v;
}
