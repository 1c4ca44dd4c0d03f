"""Counters by their short names, and the names that Nsight Compute has for them."""

from __future__ import annotations

from collections.abc import Mapping

# Short names used in lesson.toml gates and in hints -> the metric name of Nsight Compute (2025.3).
METRICS: Mapping[str, str] = {
    "shared_wavefronts": "memory_l1_wavefronts_shared",
    "shared_wavefronts_ideal": "memory_l1_wavefronts_shared_ideal",
    "shared_load_instructions": "smsp__inst_executed_op_shared_ld.sum",
    "shared_store_instructions": "smsp__inst_executed_op_shared_st.sum",
    "global_load_instructions": "smsp__inst_executed_op_global_ld.sum",
    "global_store_instructions": "smsp__inst_executed_op_global_st.sum",
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "warp_instructions": "smsp__inst_executed.sum",  # of the machine code, all kinds
    "ffma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    # Counters without a single deterministic metric in Nsight Compute; their names have the prefix "simulator__".
    "shared_load_bytes": "simulator__shared_load_bytes.sum",
    "shared_store_bytes": "simulator__shared_store_bytes.sum",
    "global_load_bytes": "simulator__global_load_bytes.sum",
    "global_store_bytes": "simulator__global_store_bytes.sum",
    "shared_instructions_128": "simulator__inst_executed_op_shared_128bit.sum",
    "global_instructions_128": "simulator__inst_executed_op_global_128bit.sum",
    "barriers": "simulator__barriers_per_block.max",
    "instructions": "simulator__ptx_inst_executed.sum",
    "blocks": "simulator__blocks.sum",
}


# Sums over every kind of access, for gates: Nsight Compute's own names leave out atomics, cp.async or ldmatrix. An
# atomic reads and writes; a cp.async reads global and writes shared memory.
TOTALS: Mapping[str, str] = {
    "global_accesses": "simulator__requests_global_all.sum",  # warps with an active lane
    "global_bytes_read": "simulator__global_bytes_read_all.sum",
    "global_bytes_written": "simulator__global_bytes_written_all.sum",
    "global_sectors_read": "simulator__global_sectors_read_all.sum",
    "global_sectors_written": "simulator__global_sectors_written_all.sum",
    "shared_accesses": "simulator__requests_shared_all.sum",  # warps with an active lane
    "shared_bytes_read": "simulator__shared_bytes_read_all.sum",
    "shared_bytes_written": "simulator__shared_bytes_written_all.sum",
    "global_bytes_waited_for": "simulator__global_bytes_waited_for.sum",  # fewer than 128 multiply-adds before use
    # Copies and loads by warps that had issued products (wgmma), and so came after them (``counters/overlap.py``).
    "global_bytes_after_products": "simulator__global_bytes_read_after_own_products.sum",
    "global_bytes_copied_alone": "simulator__global_bytes_copied_alone.sum",  # in bulk, one K tile in flight at a time
    # Products of warpgroups (wgmma), without the first ones, issued when all others are known to be complete.
    "products_on_idle_units": "simulator__wgmma_on_idle_units.sum",
    "operations": "simulator__operations_floating_point.sum",  # of threads, a multiply-add two; in fp32 and fp64
    "shuffles": "simulator__inst_executed_shuffle.sum",  # warps; each brings a lane 4 bytes of another's
    # Values between loads and stores (``sass/useful_work.py``).
    "exchanges": "simulator__inst_executed_exchange_useful.sum",  # of loaded numbers between lanes, by any instruction
    "products": "simulator__products_useful.sum",  # of two loaded numbers, by whichever unit; of threads
    "useful_operations": "simulator__operations_useful.sum",  # on loaded numbers; of threads, a multiply-add two
    # Products that a tensor core accumulates before ordinary additions take over (``machine/product_tally.py``).
    "products_in_a_sum": "simulator__products_in_a_tensor_core_sum.max",
    # Of units other than fp32; in warps, except for dfma and sectors.
    "dfma": "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",  # threads
    "fp64_instructions": "smsp__inst_executed_pipe_fp64.sum",
    "dot_products": "simulator__inst_executed_dot_product.sum",  # dp4a, dp2a
    "hmma": "smsp__inst_executed_pipe_tensor_op_hmma.sum",  # tensor cores: f16, bf16, tf32; and some of half2
    "imma": "smsp__inst_executed_pipe_tensor_op_imma.sum",
    "dmma": "smsp__inst_executed_pipe_tensor_op_dmma.sum",
    "tensor_products": "simulator__multiply_adds_tensor.sum",  # of tensor cores, whatever the form
    "ldmatrix": "smsp__inst_executed_op_ldsm.sum",
    "stmatrix": "smsp__inst_executed_op_shared_stsm.sum",
    "async_copies": "smsp__inst_executed_op_ldgsts.sum",  # cp.async
    "copy_source_wavefronts": "simulator__ldgsts_wavefronts_beyond_stores.sum",  # part of shared_wavefronts
    "copy_groups": "simulator__ldgsts_groups.sum",  # groups of cp.async, warps: those issued after the first product
    "copy_groups_span": "simulator__ldgsts_groups_span.sum",  # multiply-adds between their first and last copies
    "global_reductions": "smsp__inst_executed_op_global_red.sum",  # atomics whose result is unused
    "global_reduction_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    # Loads, stores and atomics in shared memory of another block of the cluster, warps; and what copies for several
    # blocks (multicast) bring to each of them.
    **{
        f"remote_{what}_{short}": f"l1tex__t_{short}_pipe_lsu_mem_dshared_op_{name}.sum"
        for what, name in (("load", "ld"), ("store", "st"), ("atomic", "atom"))
        for short in ("requests", "sectors")
    },
    "multicast_sectors": "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld_dest_multicast.sum",
    "remote_arrivals": "simulator__remote_arrivals.sum",  # threads, at mbarriers of another block of the cluster
    "texture_requests": "l1tex__t_requests_pipe_tex_mem_texture.sum",  # fetches from textures, warps
    "texture_sectors": "l1tex__t_sectors_pipe_tex_mem_texture.sum",
    "texture_bytes": "simulator__texture_bytes.sum",  # part of global_bytes_read
    "thread_instructions": "simulator__thread_inst_executed.sum",  # of the machine code, all kinds
    # The totals if every thread of a launch did as much as the busiest one.
    "thread_instructions_if_equal": "simulator__thread_inst_executed_if_equal.sum",
    "products_if_equal": "simulator__products_useful_if_equal.sum",
    "useful_operations_if_equal": "simulator__operations_useful_if_equal.sum",
    "textures_of_a_warp": "simulator__textures_per_warp.max",  # of the warp that fetches from most textures
    # Register reads of multiply-adds in fp32, as ptxas scheduled them (``sass/registers.py``), in warps.
    "reuse_flags": "simulator__operands_kept_for_reuse.sum",
    "register_bank_conflicts": "simulator__register_bank_conflicts.sum",  # clocks
}


COUNTED: Mapping[str, str] = {**METRICS, **TOTALS}  # what gates may name


# Totals that tables show only if they are not zero.
BESIDE = (
    "texture_requests", "texture_sectors", "reuse_flags", "register_bank_conflicts", "multicast_sectors",
    *(name for name in TOTALS if name.startswith("remote_")),
)  # fmt: skip


TABLED: Mapping[str, str] = {**METRICS, **{name: TOTALS[name] for name in BESIDE}}


# Counted on PTX in any case, so available even if the machine code cannot be followed.
ON_PTX = frozenset(("barriers", "blocks", "instructions", "global_bytes_after_products", "global_bytes_copied_alone",
                    "products_on_idle_units", "remote_arrivals", "products_in_a_sum"))  # fmt: skip


# Absent unless a gate names it: to count it, some blocks run once more.
ON_REQUEST = frozenset(("products_in_a_sum",))
