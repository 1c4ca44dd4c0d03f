// honest: quien escribe en español y guarda con CRLF; y con #pragma unroll en todas partes
#include "matrix.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * BN)
gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
	constexpr int FILAS = BM / TM; // filas de hilos
	__shared__ float As[BM][BK];
	__shared__ float Bs[BK][BN];
	const Matrix<const float> a{A, M, K, K, 1};
	const Matrix<const float> b{B, K, N, N, 1};
	const Matrix<float> c{C, M, N, N, 1};
	const int fila_hilo = threadIdx.x / BN, columna_hilo = threadIdx.x % BN;
	const int fila_bloque = blockIdx.y * BM;
	const int columna = blockIdx.x * BN + columna_hilo;
	float suma[TM] = {};
	for (int k0 = 0; k0 < K; k0 += BK) {
		/* ¿Dónde estoy? Copio mi parte; fuera de la matriz, ceros. */
#pragma unroll
		for (int f = 0; f < BM; f += FILAS)
			As[f + fila_hilo][columna_hilo] =
			    fila_bloque + f + fila_hilo < M && k0 + columna_hilo < K ? a(fila_bloque + f + fila_hilo, k0 + columna_hilo) : 0.0f;
#pragma unroll
		for (int f = 0; f < BK; f += FILAS)
			Bs[f + fila_hilo][columna_hilo] = k0 + f + fila_hilo < K && columna < N ? b(k0 + f + fila_hilo, columna) : 0.0f;
		__syncthreads();
#pragma unroll
		for (int k = 0; k < BK; k++) {
			const float numero = Bs[k][columna_hilo];
#pragma unroll
			for (int i = 0; i < TM; i++)
				suma[i] += As[fila_hilo * TM + i][k] * numero;
		}
		__syncthreads();
	}
#pragma unroll
	for (int i = 0; i < TM; i++)
		if (fila_bloque + fila_hilo * TM + i < M && columna < N)
			c(fila_bloque + fila_hilo * TM + i, columna) = suma[i];
}
