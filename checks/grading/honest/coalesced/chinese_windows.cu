// 第二课：合并访存。相邻的线程负责 C 的相邻列。
// honest: writes on Windows in Chinese: a byte order mark, CRLF line ends, tabs
#include "matrix.cuh"

extern "C" __global__ void
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
	// 本线程负责的元素
	const int hang = blockIdx.y * BM + threadIdx.x / BN;	// 行
	const int lie = blockIdx.x * BN + threadIdx.x % BN;	// 列
	if (hang >= M || lie >= N)
		return;	// 越界

	float he = 0.0f;	// 和
	for (int k = 0; k < K; k++)
		he += A[hang * K + k] * B[k * N + lie];
	C[hang * N + lie] = he;
}
