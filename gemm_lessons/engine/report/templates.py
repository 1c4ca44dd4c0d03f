"""The sentences of all findings, by kind and case, and the parts that several of them share.

``sentences.py`` describes their syntax. ``first`` and ``other`` are the threads that serve as an example, in the
order in which they came; ``place`` is the memory that they touch.
"""

from __future__ import annotations

from collections.abc import Mapping

TEMPLATES: Mapping[str, str] = {
    # -- parts --------------------------------------------------------------------------------------------------------
    "end": "[ (line {line} is of {file:name}, line {other_line} of {other_file:name})]"
    "[. The same barrier is missing between lines {also:pairs}][ ({calls:calls})]",
    "who": "thread {first.thread} in block {first.block}",
    "whose": "thread {first.thread} of block {first.block}",
    "own_array": "a thread's own array",
    "where shared": "[{array}, byte {byte} of {size}|shared memory, byte {byte}]",
    "where global": "[{array}, byte {byte} of {size}|global address 0x{byte:x}]",
    "mbarrier": "the mbarrier[ at byte {inside:,} of][ {array}][{index:index}][ at byte {byte} of shared memory]"
    "[ of block {block}]",
    # -- races --------------------------------------------------------------------------------------------------------
    "pair_of_a_block": "{place:where}: {first.effect:shared} by thread {first.thread} in {first.line:line} and"
    " {other.effect:shared} by thread {other.thread} in {other.line:line} of block {other.block}",
    "pair_of_the_grid": "{place:where}: {first.effect:global} by {whose} in {first.line:line} and"
    " {other.effect:global} by thread {other.thread} of block {other.block} in {other.line:line}",
    "race shared owner": "{pair_of_a_block}; {so}",
    "so race shared owner": "which value remains is undefined, so give every thread its own element",
    "race shared warp": "{pair_of_a_block}, with no __syncwarp() between them; {so}",
    "so race shared warp": "threads of one warp need not run in step, so put __syncwarp() between the two",
    "race shared next round": "{pair_of_a_block}, with no __syncthreads() between them; {so}",
    "so race shared next round": "the write belongs to the next iteration, which a fast warp starts while a slow one "
    "still reads: put a barrier at the end of the loop too",
    "race shared order": "{pair_of_a_block}, with no __syncthreads() between them; {so}",
    "so race shared order": "their order is undefined, so put a barrier between the two lines",
    "race shared stores": "{pair_of_a_block}, with no __syncthreads() between them; {so}",
    "so race shared stores": "which value remains is undefined",
    "race shared skipped": "{pair_of_a_block}, with no __syncthreads() between them that both threads reach; {so}",
    "so race shared skipped": "some threads of the kernel skip a barrier, which then orders nothing: move it out of its"
    " if or loop before you add another one",
    "race shared cluster": "{place:where} of one block of the cluster: {first.effect:shared} by {whose} in"
    " {first.line:line} and {other.effect:shared} by thread {other.thread} of block {other.block} in {other.line:line},"
    " with nothing that orders them; {so}",
    "so race shared cluster": "put a barrier of the cluster between the two lines, or an arrival at an mbarrier that"
    " the other thread waits for",
    "race shared place": "{pair_of_a_block}, with no __syncthreads() between them",
    "race shared copy": "{early}; thread {first.thread} copied it by cp.async in {first.line:line} and has waited for "
    "it, but a wait covers a thread's own copies only: put a __syncthreads() after the wait",
    "race mbarriers": "{mbarrier:mbarrier} is initialised by thread {first.thread} in {first.line:line} and by thread"
    " {other.thread} of block {other.block} in {other.line:line}, with nothing that orders them; mbarrier.init of an"
    " mbarrier that exists is undefined: let one thread initialise it",
    "race global blocks": "{pair_of_the_grid}; {so}",
    "so race global blocks": "blocks run in any order and at the same time: let one block own the element, or use an"
    " atomic",
    "race global owner": "{pair_of_the_grid}; {so}",
    "so race global owner": "give every thread an element of its own",
    "race global warp": "{pair_of_the_grid}, threads of one warp with no __syncwarp() between them[; {so}]",
    "race global order": "{pair_of_the_grid}, with no __syncthreads() between them[; {so}]",
    "same_value": "all of them store the same value",
    "rounded": "their values differ only in the last bits, so which one remains is undefined: let one thread store it",
    "block_order one line": "{pair_of_the_grid}; {so}",
    "so block_order one line": "blocks run in any order and at the same time: let one block own the element, or use an"
    " atomic",
    "block_order two lines": "{pair_of_the_grid}; {so}",
    "so block_order two lines": "blocks run in any order and at the same time: split the work into two launches",
    # -- memory and registers that were never written ----------------------------------------------------------------
    "uninitialised global": "{place:where}: read by {whose} in {first.line:line} before any thread has written it",
    "uninitialised shared": "{place:where}: read by {whose} in {first.line:line}, but no thread of the block has"
    " written it; shared memory does not start as zeros",
    "uninitialised local": "byte {place.byte} of {own_array}, read by {whose} in {first.line:line}, was never written:"
    " the value is whatever was in memory",
    "uninitialised own": "{place.array}, byte {place.byte} of {place.size}: read by {whose} in {first.line:line}, but "
    "this thread has not given it a value",
    "unset": "{first.line:line} reads a variable that {who} has not given a value: it holds whatever its register held"
    " before",
    "shuffle_source": "the shuffle in {first.line:line} gives {who} the value of lane {lane}, which does not take part "
    "(it has returned, is in another branch, or the mask leaves it out): the value is undefined, and the thread uses "
    "it",
    # -- past the end of an array, inside of the same memory ----------------------------------------------------------
    "past": "byte {place.byte} of {place.size}, {first.effect:past} by {whose} in {first.line:line}, {side}",
    "side past": "past its end",
    "side before": "before its start",
    "out_of_array shared": "{place.array}: {past} (that is {hit:where})",
    "out_of_array local": "{own_array}: {past} (that is in another of its arrays)",
    "out_of_array own": "{place.array}: {past} (that is in another of its arrays)",
    "out_of_array own end": "{place.array}: byte {place.byte} of {place.size}{access}: {far}{likewise}",
    "out_of_array one of several": "[{candidates: or }|{own_array}]: byte {place.byte} of {place.size} of all{access}:"
    " {far}{likewise}",
    # -- outside of all memory, or not aligned: what ends a kernel ----------------------------------------------------
    "access": ", {first.width:byte} {first.effect:fault} by {who}[, line {first.line}]",
    "likewise": "[; {others:more thread} likewise]",
    "far before": "{place.before:,} bytes before its start",
    "far across": "its last {across} bytes are past the end",
    "far at": "just past its end",
    "far past": "{place.past:,} bytes past its end",
    "out_of_bounds array": "[{place.array}|shared memory]: byte {place.byte} of {place.size}{access}: {far}"
    "[; the block has {window:,} bytes of shared memory]{likewise}",
    "out_of_bounds local": "{own_array}s: byte {place.byte} of {place.size}{access}: {far}{likewise}",
    "out_of_bounds nowhere": "address 0x{place.byte:x}{access}: not in any buffer{likewise}",
    "out_of_bounds null": "address 0x{place.byte:x}{access}: not in any buffer, an index into a null pointer{likewise}",
    "out_of_bounds texture": "{who} accesses {name} out of bounds, at ({at:numbers}), x in bytes",
    "out_of_bounds guard after": "{place.array}: written out of bounds, {place.past:,} bytes after its end (the array"
    " has {place.size:,} bytes)",
    "out_of_bounds guard before": "{place.array}: written out of bounds, {place.before:,} bytes before its start (the"
    " array has {place.size:,} bytes)",
    "out_of_bounds measured": "the kernel wrote beyond the ends of {name} at {shape}",
    "must_align": "{first.width:article}-byte access needs an address that is a multiple of {first.width}",
    "misaligned buffer": "{place.array}: byte {place.byte} of {place.size}{access}: {must_align}{likewise}",
    "misaligned window": "[{place.array}: |]byte {place.byte}{access}: {must_align}{likewise}",
    "misaligned box": "{opcode} by {who}: its first coordinate, the column, places the box {value} bytes into a row of "
    "{name}, which is not a multiple of {limit}",
    "misaligned bulk": "{who} copies {value} bytes by {opcode}, which copies a multiple of {limit}",
    "misaligned texture": "{who} accesses {limit} bytes at byte {value} of a row of {name}: x is in bytes, and must be "
    "a multiple of the access size",
    "illegal_access constant load": "{place.array}: byte {place.byte} of {place.size}{access}: the address is not in "
    "constant memory{likewise}",
    "illegal_access constant store": "write to constant memory {name}",
    "illegal_access box": "{opcode} by {who}: the box starts outside {name}, at ({at:numbers}), but a stored box must "
    "not start before it",
    "illegal_access no map": "{opcode} by {who}: the address does not hold a tensor map",
    "illegal_access map dimensions": "{opcode} by {who}: the tensor map {name} has {value} dimensions, not {limit}",
    "illegal_access map field": "{opcode} by {who}: {value} does not fit into {name}",
    "illegal_access map extent": "{opcode} by {who}: the tensor map {name} describes {limit:,} bytes, but only"
    " {value:,} bytes of memory follow its address",
    "illegal_access map alignment": "{opcode} by {who}: a tensor map must be aligned to {limit} bytes",
    "illegal_access other block": "{opcode} by {who} accesses shared memory of block {value} of the cluster: it needs"
    " .shared::cluster, or a generic pointer from map_shared_rank()",
    "illegal_access multicast": "{opcode} by {who}: the mask {value:#x} names a block that the cluster, of {limit}"
    " blocks, does not have",
    "illegal_access no block": "{opcode} by {who} accesses shared memory of block {value} of the cluster, which has"
    " only {limit} blocks",
    "illegal_access copy size": "cp.async of {limit} bytes by {who} has a source size of {value} bytes; it may be"
    " 0 to {limit}",
    "illegal_access atomic vector": "vector atomics need global memory, and this address is in shared memory",
    "illegal_access branch": "{who} takes branch {value} of {limit} (brx.idx)",
    "illegal_access image": "{who} uses {value:#x}, which is not a {name} object: pass a launch.Texture or .Surface",
    # -- asynchronous copies ------------------------------------------------------------------------------------------
    "early": "{place:where}: {other.effect:early} by thread {other.thread} of block {other.block} in {other.line:line}",
    "flying": "while the cp.async of thread {first.thread} in {first.line:line} is still in flight",
    "leaves": "(cp.async.wait_group N leaves the N newest groups in flight[; here N may be {most} at most]), then"
    " synchronise",
    "async_in_flight no group": "{early} {flying}: commit it to a group, wait for that {leaves}",
    "async_in_flight never waited": "{early} {flying}: wait for its group {leaves}",
    "async_in_flight wrong place": "{early} {flying}",
    "async_in_flight waited too little": "{early} {flying}: wait for its group {leaves}",
    "not_seen": "arrive: every thread that accesses the bytes must first see the end of their phase of "
    "{mbarrier:mbarrier}, or synchronise with a thread that has",
    "unseen": "{early}, which has not seen the bulk copy of thread {first.thread} in {first.line:line}",
    "async_in_flight bulk load": "{unseen} {not_seen}",
    "async_in_flight ended before": "{unseen} arrive: its last wait for {mbarrier:mbarrier}, in {waited:line}, was for"
    " {over}",
    "async_in_flight ended without": "{unseen} arrive: {awaited} of {mbarrier:mbarrier}, for which it waited in"
    " {waited:line}, ended without the bytes of this copy",
    "over first": "the phase before phase 0, and returned at once",
    "over phase": "phase {phase}, which ended before this copy was requested",
    "awaited first": "the phase before phase 0",
    "awaited phase": "phase {phase}",
    "async_in_flight reported load": "{early}, which has not seen the bulk copy of thread {first.thread} by cp.async"
    " {not_seen}",
    "async_in_flight bulk store": "{early} while the bulk copy of thread {first.thread} in {first.line:line} may still"
    " read it: let that thread wait for its group (cp.async.bulk.wait_group.read), then synchronise",
    "async_in_flight no bulk group": "{early} while the bulk copy of thread {first.thread} in {first.line:line} may"
    " still read it: the copy is in no group, so no wait covers it; commit it (cp.async.bulk.commit_group)",
    "async_in_flight sent": "{early} while the bulk copy of thread {first.thread} in {first.line:line} may still read"
    " it: a thread must first see the end of the copy's phase of {mbarrier:mbarrier}, then synchronise",
    "async_in_flight product": "{early} while the wgmma in {first.line:line} may still read it: the warps that issued"
    " it must wait for its group (wgmma.wait_group), then synchronise",
    "async_in_flight left running": "{early} while the wgmma in {first.line:line} may still read it: wgmma.wait_group"
    " {pending} in {waited:line} leaves its group running",
    "async_in_flight not filled": "{early} while the wgmma in {first.line:line} may still read it; the wgmma started"
    " before anything had arrived: the last wait for {mbarrier:mbarrier}, in {waited:line}, was for {awaited}",
    "async_unfinished product": "block {first.block} ends while the wgmma in {first.line:line} may still run: its warps"
    " must wait for it (wgmma.wait_group 0)",
    "async_in_flight accumulator": "{line:line} uses the sums of the wgmma in {other_line:line} before they are"
    " complete: commit its group and wait for it (wgmma.wait_group) first",
    "async_in_flight operand": "{line:line} changes a register of A that the wgmma in {other_line:line} may still read:"
    " wait for its group (wgmma.wait_group) first",
    "async_proxy first product": "the wgmma in {line:line} may be the first one, and no wgmma.fence precedes it: put"
    " one before it, even if its sums have no value yet",
    "async_proxy registers": "the wgmma in {line:line} may not see a register written [in line {other_line}|before]:"
    " put wgmma.fence between the two",
    "async_unfinished load": "block {first.block} ends while the bulk copy of thread {first.thread} in "
    "{first.line:line} may still write shared memory: no thread has seen the end of its phase of {mbarrier:mbarrier}",
    "async_unfinished store": "block {first.block} ends while the bulk copy of thread {first.thread} in"
    " {first.line:line} may still read its shared memory: that thread must wait for it (cp.async.bulk.wait_group.read"
    " 0)",
    "async_proxy store": "{place:where}: stored by thread {first.thread} of block {other.block} and then copied by the "
    "bulk copy in {other.line:line}, which may not see it: every thread that stored needs a fence.proxy.async before "
    "the barrier that precedes the copy",
    "async_proxy product": "{place:where}: stored by thread {first.thread} of block {other.block} and then read by the"
    " wgmma in {other.line:line}, which may not see it: every thread that stored needs a fence.proxy.async before the"
    " barrier that precedes the wgmma",
    "elements": "row {row}, columns {col} to {last} of {tensor}",
    "read_by": "the descriptor of {factor} in {line:line}",
    "tile_at": "byte {byte} of its box ({place:where})",
    "likely_cause": "[. Likely cause: {causes: and }]",
    "taken_for": "the copy in {other_line:line} puts {held:elements} at {tile_at}; {read_by} takes these bytes for"
    " {meant:elements}",
    "descriptor mixed": "{taken_for}{likely_cause}",
    "descriptor twice": "{taken_for}, too{likely_cause}",
    "descriptor other": "{taken_for}{likely_cause}",
    "descriptor empty": "{read_by} takes byte {byte} from the start of the box that the copy in {other_line:line}"
    " fills ({place:where}) for {meant:elements}, but no copy has put anything there{likely_cause}",
    "part_of_k": "{axis}s {first} to {last} of {tensor}, which the copy in {line:line} requests",
    "descriptor order of k": "the wgmma in {line:line} multiplies {left:part_of_k}, by {right:part_of_k}, in another"
    " order: both descriptors must take k in the same order",
    "descriptor apart": "the wgmma in {line:line} multiplies {left:part_of_k}, by {right:part_of_k}: these are"
    " different k[. A's descriptor is {moved} bytes further than for the first product of these boxes, B's"
    " {moved_other}]",
    "descriptor apart later": "the wgmma in {line:line} multiplies {left:part_of_k}, by {right:part_of_k}: these are"
    " different k. A's descriptor is {moved} bytes further than for the first product of these boxes, B's"
    " {moved_other}: one of the two steps is wrong",
    "descriptor again": "the wgmma in {line:line} multiplies {left:part_of_k}, by {right:part_of_k}, but an earlier"
    " product has read some of these k: A's descriptor is only {moved} bytes further than for the first product of"
    " these boxes, B's {moved_other}",
    "swizzle": "the copy swizzles by {limit} bytes, the descriptor says {value}",
    "swizzle of the copy": "the copy swizzles by {limit} bytes, the descriptor says no swizzle",
    "swizzle of the descriptor": "the descriptor says a swizzle of {value} bytes, the tensor map has none",
    "stride": "the descriptor's stride is {value:,} bytes, where {limit:,} fit",
    "leading": "the descriptor's leading offset is {value:,} bytes, where {limit:,} fit",
    "corner": "these boxes are not beside each other in the array: look at their coordinates, and at the descriptor's"
    " distance between them",
    "transposed": "the wgmma takes this tile for transposed, and its k are side by side",
    "not transposed": "the wgmma takes the k of this tile to be side by side, and it is transposed",
    "start": "the descriptor starts at byte {value:,} of the box, where {limit:,} fits",
    "async_proxy map release": "{line:line} writes a tensor map in {place.array}, but the bulk copy in"
    " {other.line:line} may not see it: after the write, its block needs a fence.proxy.tensormap::generic.release, or"
    " tensormap.cp_fenceproxy",
    "async_proxy map acquire": "{line:line} writes a tensor map in {place.array}, but the bulk copy in"
    " {other.line:line} may not see it: block {other.block} needs a fence.proxy.tensormap::generic.acquire of the map"
    " between the two",
    "async_proxy init": "the bulk copy in {other.line:line} reports to {mbarrier:mbarrier}, but may not see its "
    "initialisation: put fence.proxy.async (or fence.mbarrier_init) after mbarrier.init, before the barrier",
    # -- mbarriers ----------------------------------------------------------------------------------------------------
    "misused": ", by {who}[ in line {first.line}] ({opcode})",
    "mbarrier arrivals": "{mbarrier:mbarrier} expects {value} arrivals; the count must be 1 to {limit:,}{misused}",
    "mbarrier not made": "{mbarrier:mbarrier} is used before mbarrier.init has initialised it{misused}",
    "mbarrier overwritten": "{mbarrier:mbarrier} was overwritten by another store{misused}",
    "mbarrier arrived": "[{cause:cause}. ]{mbarrier:mbarrier} gets {value:arrival}, but its phase needs {limit}"
    " more{misused}",
    "arrived again": "{line:line} arrives at {mbarrier:mbarrier} in phase {phase}, in which the same thread has arrived"
    " in {before:line}: let it wait first until the stage is free",
    "arrived again unseen": "no line of the kernel waits for the mbarrier {unwaited}: the threads that need what"
    " arrives in its phases must wait for it",
    "arrived again unwaited": "no line of the kernel waits for the mbarrier {unwaited}, at which threads arrive in"
    " {other_line:line}: let {line:line} wait for it first, or the thread arrives twice in one phase",
    "mbarrier completed": "{mbarrier:mbarrier} completes its phase with mbarrier.arrive.noComplete, which must not be "
    "the last arrival{misused}",
    "mbarrier late": "{mbarrier:mbarrier} is told of {value:,} more bytes after the last arrival of its phase, which"
    " may have ended: the copies that have begun may be done. Announce all bytes first{misused}",
    "mbarrier bytes": "{mbarrier:mbarrier} waits for {value:,} bytes; it may be {limit:,} at most{misused}",
    "mbarrier parity": "{mbarrier:mbarrier} is tested for parity {value}; a parity must be 0 or 1{misused}",
    "mbarrier spilled": "in {first.line:line}, threads of one warp arrive at {mbarrier:mbarrier} together, thread"
    " {first.thread} of block {first.block} in one phase and thread {other.thread} in the next: mbarrier.init gives it"
    " fewer arrivals than come",
    "waiting mbarrier": "{who:threads} {waits}[ in line {line}] for the end of phase {phase} of {mbarrier:mbarrier},"
    " which still needs {missing: and }",
    "waits one": "waits",
    "waits many": "wait",
    "threads one": "thread {first} of block {block}",
    "threads row": "threads {first} to {last} of block {block}",
    "threads some": "{count:,} threads of block {block} ({first} to {last})",
    "missing arrivals": "{value} of {limit} arrivals[ ({came:, })]",
    "missing arrivals due": "{value} of {limit} arrivals (arrivals at {array} are in {due:lines})",
    "missing bytes": "{value:,} bytes[ ({came:, })]",
    "missing expect_tx": "mbarrier.expect_tx for {value:,} bytes that arrived[ ({came:, })]",
    "came arrived": "{value} came[ in line {line}]",
    "came announced": "{value:,} announced[ in line {line}]",
    "came reported": "{value:,} arrived by copies[ of line {line}]",
    "cause parity": "in {line:line}, {who:threads} passes phase {phase} of {mbarrier:mbarrier} twice: the parity must"
    " change with every phase",
    "cause skipped": "in {line:line}, {who:threads} {waits} for phase {phase} of {mbarrier:mbarrier}, but never waited"
    " for the phase before: the parity must change with every phase",
    "cause several phases": "in {line:line}, {who:threads} arrive together at {mbarrier:mbarrier}, to which"
    " mbarrier.init gives {expected:arrival} a phase: they end several phases at once, so let fewer threads arrive",
    "cause other array": "{line:line} arrives at {mbarrier:mbarrier}, but names another array: its index is outside of"
    " that array",
    "cause overtaken": "mbarrier.init gives {mbarrier:mbarrier} {expected:arrival} a phase, but {came:, } before the"
    " wait in {line:line}, so more than one phase had ended",
    "cause again": "mbarrier.init gives {mbarrier:mbarrier} {expected:arrival} a phase, but {came:, } before the wait"
    " in {line:line}: the same threads arrived again",
    "cause too few bytes": "the copies for {mbarrier:mbarrier} of block {who.block} bring fewer bytes than"
    " mbarrier.expect_tx announces ({came:, })",
    "cause too many bytes": "the copies for {mbarrier:mbarrier} of block {who.block} bring more bytes than"
    " mbarrier.expect_tx announces ({came:, })",
    "cause no expect_tx": "no mbarrier.expect_tx announces the copies for {mbarrier:mbarrier} ({came:, })",
    "cause no copy": "no copy brings the bytes that {mbarrier:mbarrier} of block {who.block} expects ({came:, })",
    "cause no arrival": "no line of the kernel arrives at {mbarrier:mbarrier}: the threads that it waits for need an"
    " mbarrier.arrive",
    "cause one block": "threads arrive at {mbarrier:mbarrier} of another block of the cluster, but none at that of"
    " block {who.block}: a thread must arrive at the mbarrier of each block whose threads wait (mapa)",
    "cause first wait": "the first wait for {mbarrier:mbarrier}, in {line:line}, blocks although its stage is still"
    " empty: start with parity 1, which stands for the phase before the first",
    "cause count": "mbarrier.init gives {mbarrier:mbarrier} {expected:arrival} a phase, but only {came:, }",
    "cause remote": "mbarrier.init gives {mbarrier:mbarrier} {expected:arrival} a phase, but only {came:, }, all"
    " from block {who.block}: a thread of every block of the cluster must arrive there (mapa)",
    "cause ended": "{who:threads} arrived in the phase before[ ({came:, })] and then ended: compare the number of"
    " iterations of that loop and of the one in {line:line}",
    "cause unawaited": "no line of the kernel waits for the mbarrier {array}, at which threads arrive in {line:line},"
    " so a wait may be missing",
    "cause never came": "barrier {number}, in {line:line}, expects {expected:,} threads, but only {count:,} came:"
    " {who:threads} ended without it[ (line {other_line} arrives there, too)]; let every warp arrive there, even one"
    " without work, or leave it out of the count",
    "cause came before": "barrier {number}, in {line:line}, expects {expected:,} threads, but only {count:,} came:"
    " {who:threads} met there before and then ended; compare the numbers of iterations, and give each role a barrier"
    " number of its own",
    "cause whole block": "barrier {number}, in {line:line}, waits for the whole block, but {who:threads} {waits} in"
    " {other_line:line} and cannot arrive there: give this role a barrier of its own, with a number and a count",
    "cause partner waits": "barrier {number}, in {line:line}, expects {expected:,} threads, but only {count:,} came:"
    " {who:threads}, which arrived there before, wait in {other_line:line} and can no longer arrive; is an"
    " arrival missing?",
    "cause barrier count": "barrier {number}, in {line:line}, expects {expected:,} threads, but only {count:,} came,"
    " and no other thread can arrive there: the count is too high",
    "cause registers": "{line:line} asks for {wanted} registers a thread where {who:threads} have {owned}: {needed:,}"
    " more, but the other warps of the block have given back only {free:,} (setmaxnreg.dec)",
    "cause registers later": "{line:line} asks for {wanted} registers a thread where {who:threads} have {owned}:"
    " {needed:,} more, but the block's pool has {free:,}, and the warps that give some back in {other_line:line} wait"
    " for something else before",
    "cause shared barrier": "threads wait at barrier {number} in {line:line} and in {other_line:line}: threads of one"
    " role count for the other, so give each role a number of its own",
    # -- barriers and warps -------------------------------------------------------------------------------------------
    "divergent_barrier warp": "a warp reaches its barrier in pieces: {whose} waits in {first.line:line} before thread"
    " {other.thread} has come to {other.line:line}; every thread of the block must reach the same __syncthreads()"
    " together, so move it out of the branch or loop",
    "divergent_barrier places": "threads of one block wait at different barriers: {whose} in {first.line:line}, thread"
    " {other.thread} in {other.line:line}; move one __syncthreads() out of the branches",
    "exited_before_barrier": "{ended:thread} of block {other.block} (thread {other.thread} first) returned before the"
    " barrier in {first.line:line} that others wait at: guard the accesses, not the whole thread",
    "exited_before_barrier in an if": "{ended:thread} of block {other.block} (thread {other.thread} first) ended"
    " without the barrier in {first.line:line}, which is inside an if that they skip: move it out of the if",
    "barrier_count expected": "threads that meet at one barrier expect different numbers of threads ({whose}, thread"
    " {other.thread})",
    "barrier_count roles": "{whose} arrives at barrier {number}, in {first.line:line}, but nothing makes it wait until"
    " thread {other.thread} and the others of its role have met there[ in line {other_line}]: threads of one role count"
    " for the other, so give each role a number of its own",
    "barrier_count number": "{who} waits at barrier {number} for {threads} threads: barriers are numbered 0 to 15, and"
    " the count must be a multiple of 32",
    "cluster_memory early": "{first.line:line} accesses shared memory of another block of the cluster ({who} first),"
    " which may not have started: let all threads pass a barrier of the cluster first",
    "cluster_memory ended": "block {other.block} may end while {who} still accesses its shared memory in"
    " {first.line:line}: let all blocks of the cluster meet at its barrier before they end",
    "cluster_barrier not arrived": "{who} waits for the barrier of the cluster without having arrived at it: every"
    " barrier.cluster.wait follows a barrier.cluster.arrive of the same thread",
    "cluster_barrier arrived twice": "{who} arrives twice at the barrier of the cluster: a barrier.cluster.wait must be"
    " between two barrier.cluster.arrive of a thread",
    "register_pool dec": "{opcode} in {who} asks for {value} registers a thread, but its warp has {limit}: dec gives"
    " registers back, inc asks for more",
    "register_pool inc": "{opcode} in {who} asks for {value} registers a thread, but its warp has {limit}: inc asks for"
    " more registers, dec gives some back",
    "register_pool part": "{who} executes {opcode}, but warp {value} of its warpgroup does not: all four warps of a"
    " warpgroup must",
    "registers_ignored": "the compiler leaves setmaxnreg out, because it does not know how many registers a thread"
    " has at launch: give __launch_bounds__ the blocks per multiprocessor, too, or use __maxnreg__",
    "divergent_warp": "thread {other.thread} does not take part with {whose} in {first.line:line}, though the member"
    " mask names it or the whole warp must: all of them must execute the same instruction together",
    "warp_mask own": "{who} executes {opcode}, but its member mask leaves it out",
    "warp_mask row": "{who} executes {opcode}, but lane {value} of its warp, which gives the address of a row, does"
    " not: the whole warp must",
    "warp_mask matrix": "{who} executes {opcode}, but lane {value} of its warp, which holds a part of the matrix, does"
    " not: the whole warp must",
    "warp_mask matrices": "{who} executes {opcode}, but lane {value} of its warp, which holds a part of the matrices,"
    " does not: the whole warp must",
    "deadlock hang": "[{cause:cause}. ][{cycle:, and }: a cycle. ]{waiting:; }[; and {more:more wait}]; no running"
    " thread can arrive",
    "link": "threads in {line:line} wait for those in {other_line:line}",
    "link of one line": "in {line:line}, {who:threads} {waits} for {other:threads}",
    "waiting here": "{count:,} of {threads:,} threads[ of block {block}] wait at barrier {number}[ in line {line}],"
    " which expects [{expected}|the whole block]",
    "waiting cluster": "{count:,} of {threads:,} threads[ of block {block}] wait[ in line {line}] for the barrier of"
    " the cluster",
    "waiting registers": "{count:,} of {threads:,} threads[ of block {block}] wait[ in line {line}] for {number}"
    " registers each",
    "waiting ended": "{ended:,} have ended",
    # -- the kernel stopped, or was stopped ---------------------------------------------------------------------------
    "trap stop": "the kernel stopped itself (trap) in {who}[: {reason}]",
    "trap assert": "assertion failed in {who}: {text}",
    "timeout budget": "still running after {budget:,} instructions (first: {who}); is there a loop that never ends?",
    "timeout in a loop": "still running after {budget:,} instructions (first: {who}), in the loop"
    "[ around lines {line} to {last_line}| in line {line}]",
    "timeout no exit": "still running after {budget:,} instructions (first: {who}): once entered, the loop around"
    "[ lines {line} to {last_line}| line {line}] never ends",
    "timeout same values": "still running after {budget:,} instructions (first: {who}): the condition of the loop"
    "[ in line {line}] compares the same values in each iteration",
    "timeout loop": "{who}[ and {others:more thread} wait| waits] in a loop for something that no thread will do:"
    " a lock that is not released, or a flag that is not set",
    "timeout bounds": "{text}[, in line {line}]{advice}",
    "timeout starved": "{text}[, in line {line}]{advice}",
    "memory bounds": "{text}[, in line {line}]{advice}",
    "crash bounds": "{text}",
    # -- the launch ---------------------------------------------------------------------------------------------------
    "launch_failed refused": "a GPU refuses this launch: {reasons:; }",
    "refused few": "{value} {name} along {axis}, but at least 1 is needed",
    "refused many": "{value:,} {name} along {axis}, at most {limit:,}",
    "refused threads": "{value:,} threads per block, at most {limit:,}",
    "refused shared": "{value:,} bytes of shared memory per block ({static:,} of them in the code), at most {limit:,}"
    " on {arch}",
    "refused registers": "{value:,} threads of {registers} registers each, but a block has {limit:,} registers",
    "refused bounds": "{value:,} threads per block, but the kernel's __launch_bounds__ allows {limit:,}",
    "refused block": "blocks of {sizes:sizes} threads, but the kernel is compiled for {wanted:sizes}",
    "refused cluster": "clusters of {sizes:sizes} blocks, but the kernel is compiled for {wanted:sizes}",
    "refused cluster arch": "clusters, which {arch} does not support (sm_{limit} or newer does)",
    "refused cluster size": "clusters of {value} blocks, at most {limit}",
    "refused cluster grid": "a grid of {sizes:sizes} blocks cannot be cut into clusters of {wanted:sizes}",
    "launch_failed no room": "no block of this kernel fits on a multiprocessor of an {gpu}: {threads:,} threads x"
    " {registers} registers (it has {most_registers:,}), {shared:,} bytes of shared memory (a block may have"
    " {most_shared:,})",
    "machine_dependent": "the kernel reads {name}, which differs between GPUs or runs; a graded kernel must not depend "
    "on it",
    "machine_dependent clock": "your kernel reads the clock ({name}), and its results or its path depend on it:"
    " a graded kernel must do the same at any time",
    "machine_dependent choice": "your kernel reads {name}, which the GPU chooses, and its results or its path depend"
    " on it: a graded kernel must do the same on every GPU",
    "machine_dependent address": "where buffers are in memory decides what your kernel computes or which path it"
    " takes: a graded kernel must do the same at all addresses",
    "machine_dependent launches": "what an earlier launch left in a __device__ variable changes what your kernel"
    " does: a graded kernel must do the same at each launch",
    "machine_dependent macro": "your kernel depends on {name}: a graded kernel must be the same on every day and in"
    " every folder",
    "clock": "the simulator has no clock: what the kernel reads counts instructions, so times mean nothing",
    "guessed": "which multiprocessor or warp slot a thread gets, and how many there are, is the GPU's choice: the "
    "simulator answers as an H200 could, and results that depend on it may differ elsewhere",
    "not_simulated": "no counters: {text}",
    "not_sampled": "single blocks of a far shape tell nothing here ({text}): whole shapes were checked instead",
    "not_finished": "not every shape was checked: the kernel missed a gate, and then took too much time or memory",
    # -- buffers after a launch ---------------------------------------------------------------------------------------
    "input_overwritten": "the kernel changed its input {name}: {elements:element}, first {name}{at:index}. Only"
    " {writable} may be written.",
    "input_overwritten restored": "the kernel stores to its input {name}, and leaves each number as it was: another"
    " block may read it in between. Only {writable} may be written.",
    "row_overrun row": "the kernel wrote {name} beyond the end of a row: {elements:,} elements, first row {across},"
    " column {along} of {length}. Rows are ld{name:lower} = {leading} apart, only the first {first_of} belong to"
    " {name}.",
    "row_overrun column": "the kernel wrote {name} beyond the end of a column: {elements:,} elements, first column"
    " {across}, row {along} of {length}. Columns are ld{name:lower} = {leading} apart, only the first {first_of} belong"
    " to {name}.",
    # -- what a GPU tells ---------------------------------------------------------------------------------------------
    "launch_refused": "the GPU refused the launch[ of {grid} blocks of {block} threads with {shared:,} bytes of dynamic"
    " shared memory]: {text}",
    "timeout gpu": "the kernel did not end within {seconds:.3g} s; it was stopped",
    "by_cuda": ", CUDA error {code}. The GPU cannot say where; --device sim names line, block and thread.",
    "out_of_bounds cuda 700": "the kernel touched memory that does not belong to it (illegal address){by_cuda}",
    "timeout cuda 702": "the kernel ran longer than the display's watchdog allows{by_cuda}",
    "trap cuda 710": "an assert() in the kernel failed{by_cuda}",
    "out_of_bounds cuda 714": "the kernel overran its stack (hardware stack error){by_cuda}",
    "trap cuda 715": "the kernel ran into an illegal instruction, or __trap(){by_cuda}",
    "misaligned cuda 716": "a load or store was not aligned to its size{by_cuda}",
    "out_of_bounds cuda 717": "the kernel used an address that belongs to another kind of memory{by_cuda}",
    "trap cuda 718": "the kernel jumped to an invalid address{by_cuda}",
    "out_of_bounds cuda 719": "the kernel was stopped: an access outside shared memory, or __trap(){by_cuda}",
}
# Verbs for an access, by the kind of sentence.
VERBS: Mapping[str, Mapping[str, str]] = {
    "shared": {"load": "read", "store": "written", "atomic": "updated", "copy": "written by cp.async"},
    "global": {"load": "read", "store": "written", "atomic": "updated", "copy": "read by cp.async"},
    "fault": {"load": "read", "store": "written", "atomic": "updated", "copy": "copied"},
    "early": {"load": "read", "store": "overwritten", "atomic": "overwritten", "copy": "overwritten"},
    "past": {"load": "read", "store": "written", "atomic": "written", "copy": "written"},
}
