"""The texts of advice on findings. ``remedies`` chooses one by a finding's kind and case; ``access_remedies`` and
``order_remedies`` by other facts about the kernel, too."""

from __future__ import annotations

from collections.abc import Mapping

DESCRIPTOR = (
    "compare the descriptor with the tensor map. The address in shared memory and both distances are divided by 16, "
    "and the swizzle is that of the box."
)
NOT_COPIED = f"The products read bytes that no copy has written. Do the copies fill the whole tile? If so, {DESCRIPTOR}"
# Advice by the kind of finding; the finding itself says what happened and where.
REMEDIES: Mapping[str, str] = {
    "out_of_bounds": "Guard the access: a thread whose row, column or k is outside the matrix must not touch it. An "
    "existing guard must test the row, column and k of this access, with <, not <=.",
    "misaligned": "A wide access must start at a multiple of its size (two halves: 4 bytes; float2: 8; float4, "
    "double2, int4: 16): check the index, and the line that computes it.",
    "descriptor": f"{DESCRIPTOR[0].upper()}{DESCRIPTOR[1:]}",
    "race": "A __syncthreads() is missing between the write and the other thread's access.",
    "uninitialised": "This element was never written. Does the copy fill every element of the array (all iterations; "
    "every number of a float4 or double2)? Is there a __syncthreads() between copy and read?",
    "unset": "Give the variable a value where it is declared, such as float acc = 0.0f, and = {} for an array.",
    "divergent_barrier": "Every thread of the block must reach the same __syncthreads(): move it out of the if.",
    "block_order": "Blocks run in any order and at the same time: what one writes, another may read in a later launch.",
    "async_in_flight": "Wait for the copy's group, then __syncthreads(), then read.",
    "async_unfinished": "The kernel never waits for this copy: its source and destination must exist until it "
    "completes.",
    "async_proxy": "A bulk copy sees a thread's stores and mbarrier.init only after that thread's fence.proxy.async "
    "and a barrier.",
    "mbarrier": "Initialise an mbarrier once (mbarrier.init, then a barrier for all threads). Each of its phases needs "
    "exactly the arrivals given to mbarrier.init.",
    "out_of_array": "An index runs past the end of its array, into the next one: check the loop's bound and the order "
    "of the indices.",
    "exited_before_barrier": "Threads that have returned copy nothing for the others and do not wait: no return "
    "before a __syncthreads(); guard the loads and stores instead.",
    "shuffle_source": "Every lane that another lane reads from must execute the shuffle too, and be in its mask.",
    "divergent_warp": "The mask of a warp instruction must name exactly the threads that execute it together.",
    "barrier_count": "A named barrier needs one thread count, a multiple of 32, for all threads that meet there.",
    "deadlock": "Some threads wait at a barrier that others never reach: no return and no if around __syncthreads().",
    "cluster_memory": "A barrier of the cluster is missing, for all threads of all its blocks: __syncthreads() waits "
    "only for those of one block.",
    "illegal_access": "The instruction may not access this address: check the pointer, the coordinates, or the rank "
    "of the block, from the thread that the message names.",
    "warp_mask": "Every thread of the warp must execute this instruction together, for wgmma all four warps of the "
    "warpgroup: take it out of the if.",
    "trap": "The kernel stops itself because one of its own checks fails: find out which one, and why.",
    "timeout": "Which loop never ends? Look at how its counter changes and at its condition.",
    "memory": "Every thread has its own copy of a local array: does it need to be so large?",
    "launch_failed": "The lesson sets threads, blocks and dynamic shared memory: make the kernel fit with fewer "
    "registers, smaller shared arrays, or a __launch_bounds__ that allows its threads.",
    "input_overwritten": "Declare A and B as const float *: then the compiler finds the store.",
}
READ_EARLY = (
    "A thread that reads or refills the tile must first see its mbarrier's phase end (mbarrier.try_wait), or "
    "synchronise with a thread that has."
)
ENDLESS_PHASE = (
    "A phase never ends. Do all threads counted in mbarrier.init arrive? Does expect_tx equal the bytes of the copies? "
    "Does the parity that you wait for change each time the mbarrier is used again?"
)
# Of NaN, where the simulator has seen no read of memory or of a variable that was not set.
ALL_SET = "{count:elements are} NaN, but no thread read C, shared memory or a variable before it was set."
NAN_OF: Mapping[str, str] = {
    "scratch": f"{ALL_SET} So the sum read{{scratch:scratch}} in an earlier launch. Do both launches agree which "
    "pieces exist, at which k each starts and ends, and where in {scratch:and} it is?",
    "gaps": f"{ALL_SET} So the sum read{{gaps:gaps}} where no number is: is a row, a column or k too "
    "large, or does the index lack a stride?",
    "": f"{ALL_SET} So an operation made it: inf - inf, 0 / 0, or bits of two numbers taken for one, such as a half of "
    "bytes from two halves.",
    "both": f"{ALL_SET} So the sum read{{scratch:scratch}} or{{gaps:gaps}} where no number is. Do both "
    "launches agree which pieces exist, at which k each starts and ends, and where in {scratch:and} it is?",
}
# For patterns that suspect a guard: other sentences for kernels without a guard; "size": where a size is known.
UNOWNED = (
    "those that were are right. No block computes them: which tiles does a block take, and how far is its next one?"
)
NOT_READ = {
    "size": "{axis}s from {size} = {length} on are 0, as if {factor} had only {length} {axis}s. Are row and column "
    "exchanged where its box is requested? copy_box takes the column first.",
}
PART_OF_TILE = {
    "": "the same part of every block tile is wrong ({where:part}), so blockIdx and k0 are not to blame. Suspect what "
    "depends on the place in the tile: the boxes, a distance in a descriptor, the swizzle, or an index in the store.",
}
# For kernels with boxes or textures: what they read outside of a matrix is 0.
OUTSIDE = "outside of the matrix, from where zeros arrive"
FIRST_TILE = {
    "": "only the first K tile (k = {first} to {last}) was summed. Does the loop over k0 step by {depth} up to K, or "
    f"does a later iteration read a tile or its scales {OUTSIDE}?",
}
BOUND = {
    "": "in {in_tile:whole} only the products with {in_tile:k} below {end} of {size} were added: does the loop over k "
    f"end at {{end}}{{called:in brackets}}, or is what follows read {OUTSIDE}?",
}
UNWRITTEN_PART = {
    "": f"{{count:,}} of {{total:,}} elements of C were never written ({{where:part}}); {UNOWNED}",
    "size": "{count:,} of {total:,} elements of C were never written ({axis}s {length} to {last}); " + UNOWNED,
    "shared": "{count:,} of {total:,} elements of C were never written ({where:part}), and others were written by "
    "several threads. Which term of the index should tell two threads, or two blocks, apart? Is its factor large "
    "enough?",
}
STEP_OF_K = (
    "A step of k moves both descriptors by the same k: 32 bytes where the k of a row are side by side, the rows of "
    "this step where the tile is transposed. If every step is right, are both tiles of the same stage and the same k0?"
)
BARRIER_OF_ROLE = (
    "A barrier is missing between the write and the other thread's access. __syncthreads() would wait for the other "
    "roles, too: let the threads of this role meet at a numbered barrier (bar.sync number, threads)."
)
AFTER_INIT = (
    "A thread may use an mbarrier only after mbarrier.init: let all threads of the block meet in between, or those of "
    "the whole cluster if its blocks use each other's mbarriers."
)
BARRIER_OF_BRANCHES = (
    "A barrier is missing between the write and the other thread's access: the numbered one of this kernel (bar.sync). "
    "__syncthreads() is undefined in two branches."
)
OTHER_ARRAY = (
    "This line names {named}, but its index is outside of that array, so {hit} gets the arrival. C's remainder of a "
    "negative number is negative: (-1) % 4 is -1."
)
REFILLED = (
    "A stage may be refilled when its previous tile has arrived and every consumer has read it, in all blocks that the "
    "copy goes to. Does mbarrier.init count all of their arrivals at the empty barrier, and does the producer wait?"
)
UNSET_SUMS = (
    "Products that add need sums with a value: give them 0 where they are declared (= {}), or let the first product "
    "replace them, without adding."
)
ACROSS_ROLES = (
    "__syncthreads() waits for all threads of the block, also for those of other roles, which do not reach it. Let the "
    "threads of one role meet at a numbered barrier: bar.sync number, threads."
)
LEFT_OUT = (
    "A phase never ends because bytes are missing. Does the mask of each multicast name every block that waits for "
    "its bytes? Do the blocks of the cluster together request the whole tile? Does expect_tx equal the bytes of all "
    "copies to this block?"
)
PHASE_OF_STEP = (
    "A phase has the parity of its number: if a stage is step % STAGES, its phase is step / STAGES, and the parity "
    "step / STAGES % 2. Does each role count every step once?"
)
ALL_BYTES = (
    "A phase ends when as many bytes have arrived as expect_tx announces: those of all copies that report to this "
    "mbarrier, in bytes, not in elements."
)
ANNOUNCED = f"{ALL_BYTES} Is each of these copies requested?"
UNANNOUNCED = f"{ALL_BYTES} Does it announce each of these copies, as often as it is requested?"
# Advice by a hang's cause, for causes that no missing step can have.
OF_A_CAUSE: Mapping[str, str] = {
    "cause parity": PHASE_OF_STEP,
    "cause skipped": PHASE_OF_STEP,
    "cause several phases": "As many threads arrive as mbarrier.init counts: one of each warp or role that uses the "
    "stage, in each block. Put the arrival into an if, such as if (thread == 0).",
}
# Advice by a hang's cause, or for its cycle, where a missing step may be the reason.
ENDLESS_OF: Mapping[str, str] = {
    "cause count": "Each thread that executes the line of an arrival makes one arrival. Let mbarrier.init count "
    "exactly those of one phase, or let as many threads arrive as it counts.",
    "cause overtaken": "Let mbarrier.init count all arrivals of one use of the stage: those of each role or warp that "
    "uses it, in each block of a cluster.",
    "cause again": "Each use of a stage needs one arrival of each role. Which stage does each line of an arrival name: "
    "that of this step or of the previous one?",
    "cause first wait": "A stage is empty before its first use, so the first wait for it must not block. No phase "
    "has ended yet, and a wait for parity 1 returns at once. From then on, use t of a stage waits for phase t - "
    "1.",
    "cause remote": "A block whose copies go to other blocks may refill a stage only when all of them have read "
    "it. So a thread that releases a stage arrives at the mbarrier of each block that copies to it, its own and "
    "the others'.",
    "cause unawaited": "Some threads let others start by arriving there, but these start without waiting. Which role "
    "must not begin its step before the arrival?",
    "cycle": "Threads of each of these lines wait for an arrival of the others. Start at the phase that misses "
    "all of its arrivals: which line should have made them, before its threads began to wait? Does each use of a "
    "stage end with an arrival, also the last one? Does mbarrier.init count all arrivals of one use?",
}
OF_BYTES: Mapping[str, str] = {
    "cause too few bytes": ANNOUNCED,
    "cause no copy": ANNOUNCED,
    "cause too many bytes": UNANNOUNCED,
    "cause no expect_tx": UNANNOUNCED,
}
UNCHANGED = (
    "The loop never ends. What should change from one iteration to the next? If it is a counter, look at what is added "
    "to it: i += step, not i = step."
)
OF_A_COUNT = (
    "A numbered barrier (bar.sync number, threads) waits until that many threads have arrived. Count the threads of "
    "the roles that meet there, and no others, and let each of them arrive equally often."
)
TWO_STORES = (
    "There is a barrier for every tile, and one more would only decide which of two values remains in this element. Is "
    "one of the two indices wrong?"
)
SEVERAL_PLACES = "__syncthreads() is undefined in two branches: let the threads meet at a numbered barrier (bar.sync)."
# For a thread's own array, as the debug build names it.
OWN_ARRAYS = tuple(("out_of_array", case) for case in ("own", "own end", "one of several"))
# Advice by (kind, case) or (kind, effects of the accesses), where the kind alone does not decide.
SPECIAL_REMEDIES: Mapping[tuple[str, str], str] = {
    ("descriptor", "empty"): NOT_COPIED,
    **dict.fromkeys((("descriptor", case) for case in ("apart", "apart later", "again")), STEP_OF_K),
    ("timeout", "bounds"): "Is a loop endless, or does it only take long? A counter that does not change never reaches "
    "its bound. Divisions, remainders and functions of doubles are dozens of instructions each: use few of them.",
    ("timeout", "in a loop"): "Does this loop end? Look at how its counter changes and at its condition.",
    **dict.fromkeys((("timeout", case) for case in ("same values", "no exit")), UNCHANGED),
    (
        "timeout",
        "starved",
    ): "This says nothing about your kernel. Other programs kept the processor busy: run again when they have ended.",
    ("race", "global store store"): "Two threads write the same element of C. Every element needs one owner: check row "
    "and col, their order, the block's part of them, and the guard of the store.",
    (
        "race",
        "shared store store",
    ): "Two threads write the same element of a shared array. Each element of a tile "
    "needs one owner: check every index of both writes against the array's declared sizes. Only if one write is to "
    "replace the other, put a __syncthreads() between them.",
    ("illegal_access", "copy size"): "A copy reads from 0 to all bytes of its piece, and writes zeros for the rest. It "
    "reads 0 where the whole piece is outside of the matrix: use max and min.",
    ("misaligned", "box"): "A box begins at a multiple of 16 bytes of a row; anywhere else it is an illegal "
    "instruction. Coordinates count elements, the column first: a tile's column is its number times its width.",
    (
        "race",
        "mbarriers",
    ): "One thread initialises an mbarrier: if (threadIdx.x == 0), or the lane that elect.sync picks in one warp.",
    ("async_in_flight", "bulk load"): READ_EARLY,
    ("async_in_flight", "ended before"): "Phase n of an mbarrier has parity n % 2, and each use of a stage is one "
    "phase of it. If the wait names the right phase, the stage was refilled before this thread had read it.",
    ("async_in_flight", "ended without"): "Announce the bytes, not the elements, of all copies that report to this "
    "phase: mbarrier.expect_tx with its last arrival, or before it.",
    ("async_in_flight", "left running"): "A stage may be released, or refilled, only when the group that reads it "
    "is complete. The n newest groups still run after wgmma.wait_group n: with n = 1, release the previous tile's "
    "stage.",
    ("async_in_flight", "not filled"): "Phase n of an mbarrier has parity n % 2. A wait for parity 1 does not wait "
    "while phase 0 runs: only the wait for an empty stage may start with it.",
    ("async_in_flight", "product"): "A tile may be refilled after the products that read it: wgmma.wait_group, then a "
    "barrier or an arrival at the mbarrier of an empty stage. If the products need this very copy, they started too "
    "early: wait for its mbarrier first.",
    ("mbarrier", "arrived"): "More threads arrive than mbarrier.init counts, or one arrives again before the phase has "
    "ended. Only one thread announces a tile, and only after its stage has been released.",
    ("mbarrier", "parity"): "Pass the parity of a phase, not its number: phase n has parity n % 2. C's remainder of a "
    "negative number is negative: (-1) % 2 is -1.",
    ("barrier_count", "roles"): "Give each role a barrier number of its own, 1 to 15.",
    ("async_in_flight", "accumulator"): "Sums of wgmma are complete after wgmma.commit_group and wgmma.wait_group 0.",
    ("async_in_flight", "operand"): "Load the next fragment of A into other registers, or wait for the products first.",
    ("async_proxy", "registers"): "A wgmma.fence orders registers that threads have written before the first wgmma.",
    **dict.fromkeys(
        (("async_proxy", "map release"), ("async_proxy", "map acquire")),
        "The TMA sees a tensor map that the kernel writes only after a release by the block that writes and an acquire "
        "by the block that copies (fence.proxy.tensormap::generic).",
    ),
    ("async_unfinished", "load"): "The block ends without waiting for this copy. Request only tiles that exist, and "
    "wait for each one: shared memory must not be reused before it has arrived.",
    ("async_proxy", "product"): "A wgmma sees a thread's stores only after that thread's fence.proxy.async and a "
    "barrier.",
    ("async_in_flight", "reported load"): READ_EARLY,
    ("async_in_flight", "bulk store"): "The thread that copies must wait for its group (cp.async.bulk.wait_group.read) "
    "before any thread stores there again.",
    ("async_in_flight", "no bulk group"): "The thread that copies must commit its copies to a group "
    "(cp.async.bulk.commit_group), and wait for that before any thread stores there again.",
    ("uninitialised", "own"): "Every element that a product uses must be read from the tile first. Does the loop reach "
    "them all, and does each access read as many as its step (float4_at: four)?",
    **dict.fromkeys(
        OWN_ARRAYS,
        "A thread's own array is too short for this index, or for the four numbers that a float4 reads from there: "
        "check the loop's bound and step.",
    ),
}
