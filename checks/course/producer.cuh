// gemm_by_tma of common/turned.cuh, but a warp more asks for all tiles, and does nothing else. Included behind turned.cuh.

extern "C" __global__ void __launch_bounds__(THREADS + 32, BLOCKS_PER_SM)
gemm_by_producer(const __grid_constant__ CUtensorMap map_At, const __grid_constant__ CUtensorMap map_B, float *C, float *P,
                 int M, int N, int K)
{
    struct Stage {
        float a[BK][BM], b[BK][BN];
    };
    extern __shared__ __align__(128) float shared[];
    Stage *stages = reinterpret_cast<Stage *>(shared);
    __shared__ Barrier full[STAGES], left[STAGES]; // the tiles of a stage have arrived; all warps have read them

    const Tiles tiles(N, K);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            init(full[stage], 1);
            init(left[stage], THREADS / 32);
        }
        barriers_are_ready();
    }
    __syncthreads();

    int done = 0; // K tiles. Number n goes to stage n % STAGES, in its phase n / STAGES.
    int unit = tiles.begin(blockIdx.x);
    const int end = tiles.begin(blockIdx.x + 1);
    if (threadIdx.x >= THREADS) {
        if (threadIdx.x > THREADS)
            return;
        while (unit < end) {
            const Piece piece = tiles.piece(unit, end);
            for (int k_tile = piece.first; k_tile < piece.last; k_tile++, done++) {
                Stage &stage = stages[done % STAGES];
                Barrier &come = full[done % STAGES];
                await(left[done % STAGES], done / STAGES % 2 ^ 1); // the phase before the first counts as over
                arrive_for(come, sizeof(Stage));
                copy_box(stage.a, map_At, tiles.row(piece.tile), k_tile * BK, come);
                copy_box(stage.b, map_B, tiles.col(piece.tile), k_tile * BK, come);
            }
            unit += piece.last - piece.first;
        }
        return;
    }

    const Place mine(threadIdx.x);
    while (unit < end) {
        const Piece piece = tiles.piece(unit, end);
        const int length = piece.last - piece.first;
        unit += length;
        float acc[TM][TN] = {};
        for (int k_tile = 0; k_tile < length; k_tile++, done++) {
            const int now = done % STAGES;
            await(full[now], done / STAGES % 2);
#pragma unroll UNROLL
            for (int k = 0; k < BK; k++) {
                float a_frag[TM];
                float b_frag[TN];
                for (int j = 0; j < TN; j += 4)
                    float4_at(b_frag[j]) = float4_at(stages[now].b[k][mine.col(j)]);
                for (int i = 0; i < TM; i += 4)
                    float4_at(a_frag[i]) = float4_at(stages[now].a[k][mine.row(i)]);
                for (int j = 0; j < TN; j++)
                    for (int n = 0; n < TM; n++) {
                        const int i = DOWN == (j % 2 == 0) ? n : TM - 1 - n;
                        acc[i][j] += a_frag[i] * b_frag[j];
                    }
            }
            __syncwarp();
            if (threadIdx.x % 32 == 0)
                arrive(left[now]);
        }
        settle(acc);
        store_sums(C, P, N, tiles, piece, acc);
    }
}
