// What blocks of a cluster wait for each other: clocks of one thread, which clusters.py launches in several ways.
#include "hopper.cuh"

#define SHARE (ROWS / CLUSTER) // rows of 128 bytes that a block copies for all
#define BOX (SHARE * 128)
#define TURNS 64

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
k(const __grid_constant__ CUtensorMap map, long long *clocks, unsigned *sink, int apart, int rows, int cols)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ Barrier full[STAGES], empty[STAGES];
    const unsigned rank = cluster_rank(), other = rank ^ 1;
    for (int i = threadIdx.x; i < STAGES * ROWS * 32; i += blockDim.x)
        reinterpret_cast<unsigned *>(room)[i] = 0;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            init(full[stage], 1);
            init(empty[stage], WAY == 0 ? CLUSTER : 1);
        }
        barriers_are_ready();
    }
    cluster_barrier();
    unsigned found = 0;
    const long long begin = clock64();
#if WAY == 0 // thread 0 asks for a stage as soon as it has been left by all; thread 32 leaves it as soon as it is there
    if (threadIdx.x == 0)
        for (int turn = 0; turn < TURNS; turn++) {
            const int stage = turn % STAGES;
            await(empty[stage], turn / STAGES % 2 ^ 1);
            arrive_for(full[stage], CLUSTER * BOX);
            copy_box_to_all(room + stage * ROWS * 128 + rank * BOX, map, turn * 32 % cols,
                            (blockIdx.x / CLUSTER * apart + rank * SHARE) % rows, full[stage], (1 << CLUSTER) - 1);
        }
    else if (threadIdx.x == 32)
        for (int turn = 0; turn < TURNS; turn++) {
            await(full[turn % STAGES], turn / STAGES % 2);
            for (unsigned to = 0; to < CLUSTER; to++)
                arrive_at(empty[turn % STAGES], to);
        }
    __syncthreads();
#elif WAY == 1 // an arrival at the other block, and its answer
    if (threadIdx.x == 0)
        for (int turn = 0; turn < TURNS; turn++) {
            if (rank == 0)
                arrive_at(empty[0], other);
            await(empty[0], turn % 2);
            if (rank == 1)
                arrive_at(empty[0], other);
        }
#elif WAY == 2 // the barrier of the cluster
    for (int turn = 0; turn < TURNS; turn++)
        cluster_barrier();
#elif WAY == 3 // a load from the other block whose address is what the load before found
    if (threadIdx.x == 0) {
        unsigned at;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(room)), "r"(other));
        for (int turn = 0; turn < TURNS; turn++) {
            unsigned value;
            asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(at + found));
            found = value;
        }
    }
#else
    unsigned at, barrier;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(room)), "r"(other));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier) : "r"(shared_address(&empty[0])), "r"(other));
    const auto send = [&](unsigned to) {
#if WAY == 4 || WAY == 6
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes." FORM " [%0], " VALUES ", [%2];" ::"r"(to), "r"(0),
                     "r"(barrier)
                     : "memory");
#elif WAY == 5 || WAY == 7
        asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add." FORM
                     " [%0], " VALUES ", [%2];" ::"r"(to),
                     "r"(0), "r"(barrier)
                     : "memory");
#else
        asm volatile("st.shared::cluster." FORM " [%0], " VALUES ";" ::"r"(to), "r"(0) : "memory");
#endif
    };
#if WAY <= 5 // one to the other block that reports to its mbarrier, and its answer
    if (threadIdx.x == 0)
        for (int turn = 0; turn < TURNS; turn++) {
            arrive_for(empty[0], 4);
            if (rank == 0)
                send(at);
            await(empty[0], turn % 2);
            if (rank == 1)
                send(at);
        }
#else // both send to each other without a pause, and wait for all that comes
    if (threadIdx.x == 0 && WAY < 8)
        arrive_for(empty[0], TURNS * BYTES * (blockDim.x / 32 * LANES));
    if (threadIdx.x % 32 < LANES)
        for (int turn = 0; turn < TURNS; turn++)
            send(at + threadIdx.x * BYTES);
    if (WAY < 8)
        await(empty[0], 0);
    else
        cluster_barrier();
#endif
#endif
    const long long end = clock64();
    if (threadIdx.x == 0)
        clocks[blockIdx.x] = end - begin;
    sink[threadIdx.x] = room[threadIdx.x] + found;
    cluster_barrier();
}
