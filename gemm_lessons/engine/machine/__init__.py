"""Executes a kernel's PTX on NumPy: registers, memories, divergence, barriers.

    in    prepared.Program, Grid, Arguments, machine.Setting
    state registers  State.files[width]  (registers of that width, lanes)  bool, uint16, uint32, uint64
          shared     State.shared        uint8, one window of shared_stride bytes per block
          local      State.local         uint8, one window of local_stride bytes per lane
          global     GlobalMemory.arena  uint8, all allocations; Allocation maps virtual addresses to offsets
          control    State.position      int32 (lanes,), basic block that a lane executes next
                     State.alive         bool (lanes,), lanes that have not ended
                     State.active        bool (lanes,) or None for all, lanes that execute now
          barriers   Barriers (16 per block), Phases (mbarriers), Convergence (warp instructions)
    out   events.Record through State.trace to the observers; Fault, Findings, printed text

A lane is a thread of a batch: lane = block_in_batch * padded_threads + thread.

- ``prepared``: a kernel as basic blocks and steps, made once for all launches; ``decode``: instructions as closures,
  bound once per launch
- ``block_classes``: which blocks of a grid take the same branches, from the code alone; ``sizes_alone``: what a kernel
  computes from sizes, in thousands of launches at once
- ``machine``: a launch, batch by batch; ``state``: the arrays of one batch; ``executed``: how often each instruction
  was executed
- ``memory`` with ``paging``, ``access``, ``transfers``, ``copies``, ``bulk``, ``atomics``: loads, stores, copies
  and atomic updates; ``paging``: pages of buffers too large to keep whole;
  ``faults``: accesses out of bounds or misaligned
- ``images`` with ``textures``, ``maps`` with ``tensors``: memory addressed by coordinates; ``map_bytes``,
  ``map_updates``: tensor maps as bytes, and instructions that change them
- ``clusters``: stores to shared memory of other blocks, and barriers of a cluster
- ``barriers`` with ``register_pool``, ``convergence``, ``phases`` with ``mbarriers``,
  ``mbarrier_waits``, ``spin_waits``: threads that wait for other threads, and loops without an end; ``hangs`` with
  ``phase_history``, ``wait_cycles`` and ``source_lines``: threads that wait forever; ``early_arrivals``: threads that
  should have waited
- ``groups``, ``warps``, ``matrices``, ``products``, ``warpgroups``: instructions that use many registers or many
  lanes at once; ``product_tally``: the number of products in one sum
- ``special``, ``symbols``, ``printing``, ``heap``: special registers, variables that the host sets, ``printf``,
  ``malloc``
- ``unset`` with ``undefined_bits`` and ``undefined``: registers that are read before they are written;
  ``undefined_memory``: copies of unwritten memory
"""
