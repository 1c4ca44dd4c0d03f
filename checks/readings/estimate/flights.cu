// Boxes from L2 to shared memory, as many in flight as there are slots: a warp each asks for its next one when the one
// before is there. flights.py launches it in several ways. CLUSTER 2: each block asks for half of a box, for both
// blocks. PRODUCTS: a warpgroup multiplies meanwhile. Block 256, or 384 with PRODUCTS.
#include "hopper.cuh"

#define WARM 32  // turns before those that are timed, and after them
#define SLOTS 8  // at most
#define WIDE 16  // blocks of a row of C

// out: of each slot of each block, the clock and the time in ns before and after its timed turns.
extern "C" __global__ void __launch_bounds__(PRODUCTS ? 384 : 256, 1)
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
flights(const __grid_constant__ CUtensorMap map, long long *out, const uint4 *data, float *sink, int slots, int rows, int turns,
        int share, int cols)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned char *room = shared + PRODUCTS * 40960;
    __shared__ Barrier full[SLOTS], empty[SLOTS];
    __shared__ int ended;
    const int slot = threadIdx.x / 32, block = blockIdx.x;
    const unsigned rank = CLUSTER > 1 ? cluster_rank() : 0;
    for (int i = threadIdx.x; PRODUCTS && i < 2560; i += blockDim.x)
        reinterpret_cast<uint4 *>(shared)[i] = data[(i + 64 * block) % 65536];
    if (threadIdx.x == 0) {
        ended = 0;
        for (int i = 0; i < SLOTS; i++) {
            init(full[i], 1);
            init(empty[i], CLUSTER);
        }
        barriers_are_ready();
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (CLUSTER > 1)
        cluster_barrier();
    else
        __syncthreads();
    if (slot < slots && threadIdx.x % 32 == 0) {
        // share 0: tiles of A and B by turns, as blocks of a product share them; else so many blocks in a row copy the same
        // boxes; below 0, blocks so far from each other
        const int tile = slot % 2 ? WIDE + block % WIDE : block / WIDE;
        const int band = share > 0 ? block / share : share < 0 ? block % -share : tile;
        const int steps = share ? slots : (slots + 1) / 2, step = share ? slot : slot / 2, part = rows / CLUSTER;
        unsigned char *to = room + slot * rows * 128 + rank * part * 128;
        const int row = band * rows + rank * part;
        long long *own = out + (block * SLOTS + slot) * 4;
        for (int turn = 0; turn < turns + 2 * WARM; turn++) {
            if (turn == WARM || turn == WARM + turns) {
                long long now;
                asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
                own[turn == WARM ? 0 : 1] = clock64();
                own[turn == WARM ? 2 : 3] = now;
            }
            if (CLUSTER > 1 && turn)
                await(empty[slot], turn - 1 & 1);
            arrive_for(full[slot], rows * 128);
            const int col = (turn * steps + step & cols - 1) * BK;
            if (CLUSTER > 1)
                copy_box_to_all(to, map, col, row, full[slot], (1 << CLUSTER) - 1);
            else
                copy_box(to, map, col, row, full[slot]);
            await(full[slot], turn & 1);
            for (int to = 0; CLUSTER > 1 && to < CLUSTER; to++)
                arrive_at(empty[slot], to);
        }
        atomicAdd(&ended, 1);
    }
#if PRODUCTS
    if (threadIdx.x >= 256) {
        float d[128] = {};
        long long products = 0;
        const long long begin = clock64();
        while (*(volatile int *)&ended < slots) {
            products_begin();
            for (int i = 0; i < 16; i++)
                multiply(d, descriptor(shared) + i % 4 * 2, descriptor(shared + 8192) + i % 4 * 2);
            products_commit();
            products_left<0>();
            products += 16;
        }
        if (threadIdx.x == 256)
            out[(gridDim.x * SLOTS + block) * 4] = clock64() - begin, out[(gridDim.x * SLOTS + block) * 4 + 1] = products;
        float sum = 0;
        for (int i = 0; i < 128; i++)
            sum += d[i];
        sink[threadIdx.x - 256] = sum;
    }
#endif
    if (CLUSTER > 1)
        cluster_barrier();
}
