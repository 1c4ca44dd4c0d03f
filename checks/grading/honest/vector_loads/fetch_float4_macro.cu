// honest: learned from Chinese tutorials: FETCH_FLOAT4, OFFSET, r_load_a, s_a
#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define FETCH_FLOAT4(pointer) (reinterpret_cast<float4 *>(&(pointer))[0])
#define FETCH_CONST(pointer) (reinterpret_cast<const float4 *>(&(pointer))[0])

extern "C" __global__ void __launch_bounds__(256)
gemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, const int M, const int N, const int K)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int tid = threadIdx.x;

    __shared__ __align__(16) float s_a[BM][BK];
    __shared__ __align__(16) float s_b[BK][BN];

    float r_c[TM][TN] = {0.0};
    float r_a[TM][4];
    float r_b[TN];

    int load_a_smem_m = tid >> 1;        // tid / 2，s_a 的行
    int load_a_smem_k = (tid & 1) << 2;  // (tid % 2) * 4，s_a 的列
    int load_b_smem_k = tid >> 5;        // tid / 32，s_b 的行
    int load_b_smem_n = (tid & 31) << 2; // (tid % 32) * 4，s_b 的列

    int load_a_gmem_m = by * BM + load_a_smem_m;
    int load_b_gmem_n = bx * BN + load_b_smem_n;

    for (int bk = 0; bk < (K + BK - 1) / BK; bk++) {
        int load_a_gmem_k = bk * BK + load_a_smem_k;
        int load_a_gmem_addr = OFFSET(load_a_gmem_m, load_a_gmem_k, K);
        FETCH_FLOAT4(s_a[load_a_smem_m][load_a_smem_k]) = FETCH_CONST(a[load_a_gmem_addr]);
        int load_b_gmem_k = bk * BK + load_b_smem_k;
        int load_b_gmem_addr = OFFSET(load_b_gmem_k, load_b_gmem_n, N);
        FETCH_FLOAT4(s_b[load_b_smem_k][load_b_smem_n]) = FETCH_CONST(b[load_b_gmem_addr]);

        __syncthreads();

#pragma unroll
        for (int k = 0; k < BK; k++) {
#pragma unroll
            for (int m = 0; m < TM; m++)
                if (k % 4 == 0)
                    FETCH_FLOAT4(r_a[m][0]) = FETCH_FLOAT4(s_a[ty * TM + m][k]);
            FETCH_FLOAT4(r_b[0]) = FETCH_FLOAT4(s_b[k][tx * TN]);
            FETCH_FLOAT4(r_b[4]) = FETCH_FLOAT4(s_b[k][tx * TN + 4]);
#pragma unroll
            for (int m = 0; m < TM; m++) {
#pragma unroll
                for (int n = 0; n < TN; n++) {
                    r_c[m][n] += r_a[m][k % 4] * r_b[n];
                }
            }
        }

        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; i++) {
        int store_c_gmem_m = by * BM + ty * TM + i;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            int store_c_gmem_n = bx * BN + tx * TN + j;
            int store_c_gmem_addr = OFFSET(store_c_gmem_m, store_c_gmem_n, N);
            FETCH_FLOAT4(c[store_c_gmem_addr]) = FETCH_FLOAT4(r_c[i][j]);
        }
    }
}
