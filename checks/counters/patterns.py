"""Address patterns for the micro-kernels of kernels/shared_probes.cu and kernels/global_probes.cu.

A pattern gives every lane of one warp a byte offset, or -1 for a lane that does not take part. Each structured pattern
tests one question (which lanes form a group? what joins two groups?); random ones test combinations. Only
``random.Random`` of the standard library is used, whose integer stream is the same on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

WARP = 32
OFF = -1
PROBES = 256  # accesses in one launch of a shared-memory probe: the -DPROBES of shared_probes.cu
PER_LAUNCH = 3  # patterns in one launch of a global-memory probe

Pattern = tuple[int, ...]

# probe kernel -> (bytes per lane, launches)
SHARED_PROBES: dict[str, tuple[int, int]] = {
    "load_1": (1, 1),
    "load_2": (2, 1),
    "load_4": (4, 2),
    "load_8": (8, 6),
    "load_16": (16, 6),
    "partial_16": (16, 24),
    "store_1": (1, 1),
    "store_2": (2, 1),
    "store_4": (4, 2),
    "store_8": (8, 3),
    "store_16": (16, 3),
    "matrix_1": (16, 1),
    "matrix_2": (16, 1),
    "matrix_4": (16, 1),
    "matrix_4t": (16, 1),
    "atomic_4": (4, 1),
    "reduce_4": (4, 1),
}
COPY_PROBES: dict[str, tuple[int, int]] = {"copy_4": (4, 2), "copy_8": (8, 2), "copy_16": (16, 2)}
BYPASS, BYPASSES = "bypass_16", 120  # cp.async past L1, and its patterns: each in a launch of its own
# cp.async that writes zeros, by a number of bytes or by a predicate; line: with .L2::128B. Bytes per lane, launches.
ZERO_PROBES: dict[str, tuple[int, int]] = {
    "zeros_4": (4, 30),
    "zeros_8": (8, 30),
    "zeros_16": (16, 30),
    "zeros_bypass_16": (16, 200),
    "zeros_bypass_line_16": (16, 80),
    "ignored_bypass_16": (16, 60),
    "ignored_bypass_line_16": (16, 60),
}
# Their machine code names the predicate P0, which the profiler overlooks.
BY_P0 = ("zeros_bypass_16", "zeros_bypass_line_16")
ZEROS_PER_LAUNCH = 4
# The -DBASE of zero_probes.cu. Pattern p of a launch runs in ZEROS_BASE ** p blocks, so that a sum tells them apart.
ZEROS_BASE = 64
GLOBAL_PROBES: dict[str, tuple[int, int]] = {
    **{f"global_load_{w}": (w, 20) for w in (1, 2, 4, 8, 16)},
    **{f"cached_load_{w}": (w, 12) for w in (4, 16)},
    **{f"global_store_{w}": (w, 20) for w in (1, 2, 4, 8, 16)},
}
# Probes that run other patterns on another probe's kernel.
KERNEL: dict[str, str] = {"partial_16": "load_16"}
NEEDS_ALL_LANES = ("matrix_1", "matrix_2", "matrix_4", "matrix_4t")
WINDOW = 8192  # bytes of shared memory the probes address
GLOBAL_WINDOW = 1 << 16
COPIED = 4096  # bytes of the window that one cp.async of a probe reads from; the next one's window follows it


def _lanes(rule: Callable[[int], int]) -> list[int]:
    return [rule(lane) for lane in range(WARP)]


def _structured(width: int, window: int) -> Iterator[list[int]]:
    """Slots (units of ``width``), not yet masked."""
    slots = window // width
    for stride in (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 32, 33):
        yield _lanes(lambda n, s=stride: n * s % slots)  # type: ignore[misc]
    for group in (2, 4, 8, 16):
        for stride in (1, 2, 3, 4, 8, 9, 16, 32):
            yield _lanes(lambda n, g=group, s=stride: n // g * s % slots)  # type: ignore[misc]
    for distance in (1, 2, 4, 8, 16):
        for stride in (1, 2, 3, 4, 8):
            yield _lanes(lambda n, d=distance, s=stride: (n & ~d) * s % slots)  # type: ignore[misc]
    # A rule for each half warp: 1 = n and n^1 equal, 2 = n and n^2 equal, 4 = n and n^4 equal, 0 = all different.
    for first in (0, 1, 2, 4):
        for second in (0, 1, 2, 4):
            for stride in (1, 2):
                yield _lanes(lambda n, a=first, b=second, s=stride: (n & ~(a if n < 16 else b)) * s % slots)  # type: ignore[misc]
    # A rule for each quarter warp.
    for rules in ((1, 0, 0, 0), (1, 1, 0, 1), (1, 2, 1, 2), (2, 1, 1, 2), (0, 1, 1, 0), (2, 2, 0, 2), (3, 1, 3, 2)):
        yield _lanes(lambda n, r=rules: n & ~r[n // 8])  # type: ignore[misc]
    # One pair broken, in each quarter, of each kind of pairing.
    for distance in (1, 2):
        for broken in range(0, WARP, 5):
            yield _lanes(lambda n, d=distance, b=broken: (n & ~d) + (64 if n == b else 0))  # type: ignore[misc]
    # Across pairs: lanes n and n^1 share only their 32-byte sector, or lanes are exchanged.
    yield _lanes(lambda n: n ^ 1)
    yield _lanes(lambda n: n ^ 2)
    yield _lanes(lambda n: WARP - 1 - n)
    yield _lanes(lambda n: n * 32 % slots + n // 8)
    # Same quarter repeated: quarters 0 and 1 equal, halves equal.
    yield _lanes(lambda n: n % 8)
    yield _lanes(lambda n: n % 16)
    yield _lanes(lambda n: n % 4 * 8 + n // 16)


def _random(width: int, window: int, rng: random.Random) -> list[int]:
    slots = window // width
    spread = rng.choice([2, 4, 8, 16, 32, 64, 128, slots])
    values = [rng.randrange(min(spread, slots)) for _ in range(WARP)]
    kind = rng.randrange(10)
    if kind < 2:  # linear with a random step and start
        step, start = rng.randrange(1, 40), rng.randrange(slots)
        values = [(start + n * step) % slots for n in range(WARP)]
    elif kind < 4:
        values = [values[n & ~1] for n in range(WARP)]
    elif kind < 6:
        values = [values[n & ~2] for n in range(WARP)]
    elif kind == 6:
        values = [values[n & ~(1 if n < 16 else 2)] for n in range(WARP)]
    elif kind == 7:
        group = rng.choice([2, 4, 8, 16])
        values = [values[n // group] for n in range(WARP)]
    elif kind == 8:  # a permutation of neighbours
        values = rng.sample(range(WARP), WARP)
    if kind in (2, 4, 6) and rng.random() < 0.5:  # break one pair
        values[rng.randrange(WARP)] = rng.randrange(slots)
    return values


def _mask(rng: random.Random) -> int:
    full = (1 << WARP) - 1
    kind = rng.randrange(8)
    if kind == 0:
        return full >> rng.randrange(WARP)  # a partial warp
    if kind == 1:
        return full << rng.randrange(WARP) & full
    if kind == 2:
        return rng.choice([0x55555555, 0xAAAAAAAA, 0x33333333, 0x0F0F0F0F, 0x00FF00FF, 0x0000FFFF, 0xFF0000FF])
    if kind == 3:
        return full & ~(1 << rng.randrange(WARP))
    if kind == 4:
        return 1 << rng.randrange(WARP) | 1 << rng.randrange(WARP)
    if kind == 5:
        return rng.getrandbits(WARP) & rng.getrandbits(WARP)
    if kind == 6:
        return rng.getrandbits(WARP) | rng.getrandbits(WARP)
    return rng.getrandbits(WARP)


def _patterns(name: str, width: int, count: int, window: int, masks: bool) -> list[Pattern]:
    rng = random.Random(f"gemm-lessons {name}")
    chosen: list[Pattern] = [(OFF,) * WARP] if masks else []
    structured = list(_structured(width, window))
    rng.shuffle(structured)
    for slots in structured:
        chosen.append(tuple(slot * width % window for slot in slots))
    while len(chosen) < count:
        base = rng.choice(structured) if rng.random() < 0.3 else _random(width, window, rng)
        mask = _mask(rng) if masks and rng.random() < 0.6 else (1 << WARP) - 1
        chosen.append(tuple(slot * width % window if mask >> n & 1 else OFF for n, slot in enumerate(base)))
    return chosen[:count]


def _partial(width: int, count: int) -> list[Pattern]:
    """Loads with inactive lanes: mostly of addresses that never conflict, so that only the lanes' order matters."""
    rng = random.Random("gemm-lessons partial")
    full = (1 << WARP) - 1
    pairs = [(i, j) for i in range(WARP) for j in range(i + 1, WARP)]
    chosen: list[tuple[list[int], int]] = []
    for i, j in rng.sample(pairs, 160):  # two lanes, one address or two
        chosen += [([3] * WARP, 1 << i | 1 << j), ([n % 8 for n in range(WARP)], 1 << i | 1 << j)]
        chosen.append(([2 if n == i else 5 for n in range(WARP)], 1 << i | 1 << j))
    bases = [
        [0] * WARP,
        [n // 16 for n in range(WARP)],
        [n // 8 for n in range(WARP)],
        [n % 8 for n in range(WARP)],
        [n // 2 % 8 for n in range(WARP)],
        [n // 4 * 2 % 8 + n % 2 for n in range(WARP)],
        [n // 2 for n in range(WARP)],
        list(range(WARP)),
    ]
    for base in bases:
        for n in range(1, WARP):
            chosen += [(base, full >> n), (base, full << n & full), (base, full & ~(1 << n))]
        chosen.append((base, full & ~1))
        for mask in (0x0000FFFF, 0xFFFF0000, 0x00FF00FF, 0xFF00FF00, 0x55555555, 0xAAAAAAAA, 0x33333333, 0x0F0F0F0F):
            chosen.append((base, mask))
    while len(chosen) < count:
        span = rng.choice([1, 2, 3, 4, 8, 8, 8, 16])
        values = [rng.randrange(span) for _ in range(WARP)]
        kind = rng.randrange(4)
        if kind == 1:
            values = [values[n & ~1] for n in range(WARP)]
        elif kind == 2:
            values = [values[n & ~2] for n in range(WARP)]
        mask = rng.getrandbits(WARP)
        for _ in range(rng.randrange(4)):
            mask = mask | rng.getrandbits(WARP) if rng.random() < 0.6 else mask & rng.getrandbits(WARP)
        if rng.random() < 0.3:  # one half whole
            mask |= rng.choice([0xFFFF, 0xFFFF0000])
        chosen.append((values, mask))
    return [tuple(v * width if mask >> n & 1 else OFF for n, v in enumerate(values)) for values, mask in chosen[:count]]


def shared_patterns(probe: str) -> list[Pattern]:
    """Every pattern of one shared-memory probe, ``PROBES`` per launch."""
    width, launches = SHARED_PROBES[probe]
    if probe == "partial_16":
        return _partial(width, launches * PROBES)
    return _patterns(probe, width, launches * PROBES, WINDOW, masks=probe not in NEEDS_ALL_LANES)


def _sources(width: int, rng: random.Random) -> list[int]:
    """Source offsets of the lanes of a cp.async, in units of ``width``: rows of some lanes each, or random orders."""
    slots = COPIED // width
    kind = rng.randrange(8)
    start = rng.choice([0, 0, 1, 2, 3, 5])
    if kind < 4:
        lanes, step = rng.choice([1, 2, 4, 8, 16, 32]), rng.choice([128, 128, 256, 64, 32, 144, 160]) // width
        values = [start + n // lanes * max(step, 1) + n % lanes for n in range(WARP)]
    elif kind == 4:
        values = [start + n for n in rng.sample(range(WARP), WARP)]
    elif kind == 5:
        values = [rng.randrange(rng.choice([8, 32, 64, slots])) for _ in range(WARP)]
    elif kind == 6:
        group = rng.choice([2, 4, 8, 16, 32])
        values = [start + n // group for n in range(WARP)]
    else:
        values = [start + n for n in range(WARP)]
    return [value % slots for value in values]


def copy_patterns(probe: str) -> tuple[list[Pattern], list[Pattern]]:
    """Patterns of one probe of cp.async: the lanes' offsets in shared memory, and in global memory."""
    width, launches = COPY_PROBES.get(probe, (16, 1))
    rng = random.Random(f"gemm-lessons sources of {probe}")
    targets: list[Pattern] = []
    sources: list[Pattern] = []
    for other in _patterns(probe, width, launches * PROBES, WINDOW, masks=True):
        plain = rng.random() < 0.5  # no bank conflict, so that only the sources matter
        mask = _mask(rng) if rng.random() < 0.25 else (1 << WARP) - 1
        target = tuple(n * width if mask >> n & 1 else OFF for n in range(WARP)) if plain else other
        targets.append(target)
        first = len(sources) % PROBES * COPIED
        sources.append(tuple(first + value * width for value in _sources(width, rng)))
    if probe == BYPASS:
        return targets[:BYPASSES], [tuple(source % COPIED for source in one) for one in sources[:BYPASSES]]
    return targets, sources


def _zero_targets(lanes: int) -> list[Callable[[int], int]]:
    """Slots of shared memory. ``lanes``: how many of them have the width of all banks."""
    return [
        lambda n: n,
        lambda n: n // lanes * lanes + (n % lanes ^ n // lanes % lanes),  # swizzled rows
        lambda n: n // lanes * (lanes + 1) + n % lanes,  # padded rows
        lambda n: n // 16 * 24 + n % 16,
        lambda n: n * lanes,  # all lanes at the same banks
        lambda n: n // 8 * 2 * lanes + n % 8,
        lambda n: WARP - 1 - n,
        lambda n: n + lanes // 2,  # rows that begin in the middle of a line
    ]


ZERO_SOURCES: list[Callable[[int], int]] = [
    lambda n: n,
    lambda n: n // 8 * 64 + n % 8,
    lambda n: n // 16 * 64 + n % 16,
    lambda n: n // 4 * 40 + n % 4,
    lambda n: n // 16 * 65 + n % 16,
    lambda n: n + 1,
    lambda n: WARP - 1 - n,
    lambda n: 2 * n,
]
# Lanes that write zeros.
ZERO_LANES = (
    0x00000000, 0xFFFFFFFF, 0x0000FFFF, 0xFFFF0000, 0x000000FF, 0x0000FF00, 0xFF000000, 0x55555555, 0xAAAAAAAA,
    0x33333333, 0xCCCCCCCC, 0x0F0F0F0F, 0xF0F0F0F0, 0x00FF00FF, 0x80000000, 0x00000001, 0x7FFFFFFF, 0xFFFFFFFE,
    0xC000C000, 0x80808080, 0xFEFEFEFE, 0xFFFCFFFC,
)  # fmt: skip


def zero_patterns(probe: str) -> tuple[list[Pattern], list[Pattern], list[Pattern]]:
    """Patterns of copies that write zeros: offsets in shared memory, in global memory, and bytes that are copied."""
    width, launches = ZERO_PROBES[probe]
    rng = random.Random(f"gemm-lessons {probe}")
    targets = _zero_targets(4 * WARP // width)
    plans: list[tuple[list[int], list[int], int, int, int]] = []  # slots, slots, lanes without bytes, their bytes, off
    full = (1 << WARP) - 1
    for zeros in ZERO_LANES:
        plans.append((_lanes(targets[0]), _lanes(ZERO_SOURCES[0]), zeros, 0, 0))
        plans.append((_lanes(targets[1]), _lanes(ZERO_SOURCES[1]), zeros, 0, 0))
        plans.append((_lanes(targets[0]), _lanes(ZERO_SOURCES[0]), zeros, width // 2, 0))
    every = range(len(targets)), range(len(ZERO_SOURCES)), range(len(ZERO_LANES))
    structured = [(t, s, z) for t in every[0] for s in every[1] for z in every[2]]
    for t, s, z in rng.sample(structured, 5 * launches // 4):
        plans.append((_lanes(targets[t]), _lanes(ZERO_SOURCES[s]), ZERO_LANES[z], 0, 0))
    slots = 1024 // width
    while len(plans) < launches * ZEROS_PER_LAUNCH:
        to, source = _lanes(rng.choice(targets)), _lanes(rng.choice(ZERO_SOURCES))
        if rng.random() < 0.3:
            to = rng.sample(range(rng.choice([WARP, slots]) if slots >= WARP else WARP), WARP)
        if rng.random() < 0.2:
            source = rng.sample(range(64), WARP)
        zeros = rng.choice([rng.choice(ZERO_LANES), _mask(rng)])
        bytes_of_zeros = rng.choice([0, 0, 0, 0, rng.randrange(width)])
        plans.append((to, source, zeros, bytes_of_zeros, full & ~_mask(rng) if rng.random() < 0.25 else 0))
    found: tuple[list[Pattern], list[Pattern], list[Pattern]] = ([], [], [])
    for to, source, zeros, count, off in plans[: launches * ZEROS_PER_LAUNCH]:
        found[0].append(tuple(OFF if off >> n & 1 else to[n] * width % WINDOW for n in range(WARP)))
        found[1].append(tuple(source[n] * width for n in range(WARP)))
        if probe.startswith("ignored"):  # a predicate: all bytes or none
            count = 0
        found[2].append(tuple(count if zeros >> n & 1 else width for n in range(WARP)))
    return found


def global_patterns(probe: str) -> list[Pattern]:
    """Every pattern of one global-memory probe, ``PER_LAUNCH`` per launch."""
    width, launches = GLOBAL_PROBES[probe]
    return _patterns(probe, width, launches * PER_LAUNCH, GLOBAL_WINDOW, masks=True)


def as_array(patterns: list[Pattern]) -> npt.NDArray[np.int32]:
    """int32 (patterns, 32)."""
    return np.array(patterns, dtype=np.int32)
