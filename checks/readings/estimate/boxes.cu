// What a copy by TMA and a wait at an mbarrier cost: clocks of one thread, which boxes.py launches in several ways.
#include "tma.cuh"

#define BOX (ROWS * 128) // bytes of a box: rows of 128 bytes
#define TURNS 64

extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, long long *clocks, unsigned *sink, int apart, int rows,
                             int cols)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ Barrier full[STAGES];
    for (int i = threadIdx.x; i < STAGES * COPIES * BOX / 4; i += blockDim.x)
        reinterpret_cast<unsigned *>(room)[i] = 0;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++)
            init(full[stage], 1);
        barriers_are_ready();
    }
    __syncthreads();
    const long long begin = clock64();
#if WAY == 0 // a stage is asked for again as soon as it has arrived
    if (threadIdx.x == 0) {
        const auto ask = [&](int turn) {
            const int stage = turn % STAGES;
            arrive_for(full[stage], COPIES * BOX);
            for (int copy = 0; copy < COPIES; copy++)
                copy_box(room + (stage * COPIES + copy) * BOX, map, turn * 32 % cols,
                         (blockIdx.x * apart + copy * ROWS) % rows, full[stage]);
        };
        for (int turn = 0; turn < STAGES; turn++)
            ask(turn);
        for (int turn = 0; turn < TURNS; turn++) {
            await(full[turn % STAGES], turn / STAGES % 2);
            if (turn + STAGES < TURNS)
                ask(turn + STAGES);
        }
    }
#elif WAY == 1 // arrives, and waits for the phase that this ends
    if (threadIdx.x == 0)
        for (int turn = 0; turn < TURNS; turn++) {
            arrive(full[0]);
            await(full[0], turn % 2);
        }
#else // looks at a phase that is over
    if (threadIdx.x == 0)
#pragma unroll 1
        for (int turn = 0; turn < TURNS; turn++)
            await(full[0], 1);
#endif
    const long long end = clock64();
    if (threadIdx.x == 0)
        clocks[blockIdx.x] = end - begin;
    sink[threadIdx.x] = room[threadIdx.x];
}
