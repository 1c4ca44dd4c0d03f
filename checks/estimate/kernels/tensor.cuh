// What the kernels of this folder for tensor cores share: tiles of A and B brought by 128-bit copies, STAGES of them in
// flight (1: through registers, two barriers a tile).
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#ifndef STAGES
#define STAGES 1
#endif

template <typename T> __device__ void bring(T *to, const T *from)
{
#if STAGES > 1
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
#else
    *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
#endif
}

__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int LEFT> __device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

// fetch(stage, k0) and multiply(stage) for every tile of K
template <typename Fetch, typename Multiply> __device__ void pipeline(int K, int depth, Fetch fetch, Multiply multiply)
{
#if STAGES == 1
    for (int k0 = 0; k0 < K; k0 += depth) {
        fetch(0, k0);
        __syncthreads();
        multiply(0);
        __syncthreads();
    }
#else
    for (int s = 0; s < STAGES - 1; s++) {
        if (s * depth < K)
            fetch(s, s * depth);
        commit();
    }
    int stage = 0;
    for (int k0 = 0; k0 < K; k0 += depth) {
        wait<STAGES - 2>();
        __syncthreads();
        const int ahead = k0 + (STAGES - 1) * depth;
        if (ahead < K)
            fetch(stage == 0 ? STAGES - 1 : stage - 1, ahead);
        commit();
        multiply(stage);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
#endif
}
