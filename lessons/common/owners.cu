// Which lanes hold a row of a fragment's 16 x 16 sums? Lesson 13 runs this.
//
// Each lane sets all of its elements to its own number, and the warp stores the fragment. -D ROW=0 selects the row.
#include <mma.h>

using namespace nvcuda;

__device__ int lanes[16];

extern "C" __global__ void owners()
{
    __shared__ __align__(32) float stored[16][16];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
    for (int e = 0; e < sums.num_elements; e++)
        sums.x[e] = threadIdx.x;
    wmma::store_matrix_sync(&stored[0][0], sums, 16, wmma::mem_row_major);
    __syncwarp();
    if (threadIdx.x < 16)
        lanes[threadIdx.x] = stored[ROW][threadIdx.x];
}
