"""The methods in plain Python: the definitions of their permutations, and the slow twins of the C++ and GPU code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from itertools import pairwise

from tombola._core import Permutation, child
from tombola.arrays._pov import PovSteps

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_LEAF, _ROUGH, _REST, _BUCKET = range(4)


@dataclass(frozen=True)
class Limits:
    """Where the method goes from one step to the next. The permutation depends on them, so they are fixed by its name.

    >>> Limits().leaf_max
    65536
    """

    leaf_max: int = 1 << 16  #: up to so many rows: Fisher–Yates
    leaf_aim: int = 1 << 15  #: the mean leaf when there are more
    fan_bits_max: int = 8  #: a scatter deals to 2^this buckets at most
    margin: int = 64  #: a scatter ends when a slice has room for fewer rows
    slice_min: int = 1 << 14  #: a scatter has no more tasks than leave this many rows to a slice
    tasks_max: int = 32
    stagger_min: int = 1024  #: from this many rows to a region on, regions begin in different cache sets

    def native(self) -> tuple[int, ...]:
        """As the C++ core takes them."""
        return astuple(self)


def permutation(n: int, key: int, limits: Limits | None = None) -> list[int]:
    """What the exact shuffle of 0…n−1 gives.

    >>> sorted(permutation(5, key=1))
    [0, 1, 2, 3, 4]
    """
    rows = list(range(n))
    _shuffle(rows, 0, n, key, 0, limits or Limits())
    return rows


def _shuffle(rows: list[int], begin: int, n: int, key: int, depth: int, limits: Limits) -> None:
    if n <= limits.leaf_max:
        draws = falling(child(key, _LEAF), n)
        for last in range(n - 1, 0, -1):
            other = next(draws)
            rows[begin + last], rows[begin + other] = rows[begin + other], rows[begin + last]
        return
    part = rows[begin : begin + n]
    borders = _scatter(part, key, depth, limits)
    rows[begin : begin + n] = part
    bucket_key = child(key, _BUCKET)
    for b, (start, stop) in enumerate(pairwise(borders)):
        _shuffle(rows, begin + start, stop - start, child(bucket_key, b), depth + 1, limits)


def _scatter(rows: list[int], key: int, depth: int, limits: Limits) -> list[int]:
    """Deals the rows to buckets that lie one after the other; gives their borders."""
    n = len(rows)
    bits = min(max(((n - 1) // limits.leaf_aim).bit_length(), 1), limits.fan_bits_max)
    fan = 1 << bits
    stride = n // fan
    if stride >= limits.stagger_min:
        stride -= (stride - 17) % 64
    tasks = 1
    while depth == 0 and tasks * 2 <= min(max(stride // limits.slice_min, 1), limits.tasks_max):
        tasks *= 2
    size = stride // tasks

    placed = [[0] * tasks for _ in range(fan)]
    for task in range(tasks):
        starts = [b * stride + task * size for b in range(fan)]
        rough_key = child(child(key, _ROUGH), task)
        for b, count in enumerate(_rough(rows, starts, size, rough_key, bits, limits.margin)):
            placed[b][task] = count

    # The true sizes: what was placed, and what is drawn now for the rows that were not.
    kept = [[(b * stride + t * size, placed[b][t]) for t in range(tasks)] for b in range(fan)]
    stash: list[list[int]] = [[] for _ in range(fan)]
    for b in range(fan):
        places = [
            p for t in range(tasks) for p in range(b * stride + t * size + placed[b][t], b * stride + (t + 1) * size)
        ]
        places += range(b * stride + tasks * size, (b + 1) * stride if b + 1 < fan else n)
        draws = letters(child(child(key, _REST), b), bits, len(places))
        for place, bucket in zip(places, draws, strict=True):
            stash[bucket].append(rows[place])
    borders = [0]
    for b in range(fan):
        borders.append(borders[b] + sum(placed[b]) + len(stash[b]))

    # Rows stay where they lie within their bucket's borders; the rest of them, then the stash, fill what is free.
    new: list[int] = []
    for b in range(fan):
        low, high = borders[b], borders[b + 1]
        mine = [p for start, count in kept[b] for p in range(start, start + count)]
        staying = {p for p in mine if low <= p < high}
        fill = iter([rows[p] for p in mine if p not in staying] + stash[b])
        new += [rows[p] if p in staying else next(fill) for p in range(low, high)]
    rows[:] = new
    return borders


def _rough(rows: list[int], starts: list[int], size: int, key: int, bits: int, margin: int) -> list[int]:
    """Deals rows until a slice is nearly full; gives how many each slice got."""
    fan = len(starts)
    if size == 0:  # fewer rows than buckets: all are left over
        return [0] * fan
    heads, ends = list(starts), [start + size for start in starts]
    ends[-1] -= 1  # the place of the row in hand
    hand = rows[ends[-1]]
    stream = words(key)
    while (room := min(size, *(end - head for head, end in zip(heads, ends, strict=True)))) >= margin:
        left = room
        while left > 0:
            drawn = next(stream)
            for _ in range(min(left, 64 // bits)):
                bucket = drawn & (fan - 1)
                drawn >>= bits
                rows[heads[bucket]], hand = hand, rows[heads[bucket]]
                heads[bucket] += 1
                left -= 1
    rows[ends[-1]] = hand
    return [head - start for head, start in zip(heads, starts, strict=True)]


def gpu1_permutation(n: int, key: int) -> list[int]:
    """Fisher–Yates upwards: place k takes what stands at one of the places k…n−1.

    >>> sorted(gpu1_permutation(5, key=1))
    [0, 1, 2, 3, 4]
    """
    rows = list(range(n))
    for k in range(n - 1):
        attempt, bound = 0, n - k
        while (product := _word(child(key, attempt), k) * bound) & _MASK < 2**64 % bound:
            attempt += 1
        rows[k], rows[k + (product >> 64)] = rows[k + (product >> 64)], rows[k]
    return rows


def pov_permutation(n: int, key: int, steps: PovSteps) -> list[int]:
    """Iterations of: deal physical blocks to virtual ones, sort the rows of each virtual block by random numbers.

    >>> sorted(pov_permutation(5, 1, PovSteps(1, 2, 2, [1])))
    [0, 1, 2, 3, 4]
    """
    rows = list(range(n))
    block, together = steps.physical_block_size, steps.virtual_block_size
    for iteration in range(steps.iterations if n > 1 else 0):
        its_key = child(key, iteration)
        offset = steps.offsets[_word(its_key, 0) * len(steps.offsets) >> 64]
        blocks = -(-n // block)
        deal = Permutation(blocks, child(its_key, 1))
        for virtual in range(-(-blocks // together)):
            bits = _word(child(its_key, 2), virtual)
            drawn = []
            for i in range(virtual * together, min((virtual + 1) * together, blocks)):
                begin = deal.at_one(i) * block
                for place in range(begin, min(begin + block, n)):
                    slot = (i - virtual * together) * block + place - begin
                    number = _mix32(_mix32(slot ^ bits & 0xFFFFFFFF) ^ bits >> 32)
                    drawn.append((number, (place + offset) % n))
            places = [place for _, place in drawn]
            taken = [rows[place] for _, place in sorted(drawn)]
            for place, row in zip(places, taken, strict=True):
                rows[place] = row
    return rows


def words(key: int) -> Iterator[int]:
    """Eight xoshiro256++ generators in turn, seeded with the first 32 words of the key."""
    seeds = [_word(key, i) for i in range(32)]
    lanes = [[seeds[i * 8 + lane] for i in range(4)] for lane in range(8)]
    while True:
        for s in lanes:
            total = (s[0] + s[3]) & _MASK
            yield (_rotated(total, 23) + s[0]) & _MASK
            t = s[1] << 17 & _MASK
            s[2] ^= s[0]
            s[3] ^= s[1]
            s[1] ^= s[2]
            s[0] ^= s[3]
            s[2] ^= t
            s[3] = _rotated(s[3], 45)


def letters(key: int, bits: int, count: int) -> Iterator[int]:
    """Letters of a few bits, low bits of each word first."""
    stream = words(key)
    while count > 0:
        drawn = next(stream)
        for _ in range(min(count, 64 // bits)):
            yield drawn & ((1 << bits) - 1)
            drawn >>= bits
        count -= min(count, 64 // bits)


def falling(key: int, bound: int) -> Iterator[int]:
    """Whole numbers below bound, below bound − 1, …, below 2; drawn in groups of 16 that are refused as one."""
    stream = words(key)
    while bound >= 2:
        halves = [half for _ in range(8) for drawn in [next(stream)] for half in (drawn & 0xFFFFFFFF, drawn >> 32)]
        bounds = range(bound, max(bound - 16, 1), -1)
        products = [half * b for half, b in zip(halves, bounds, strict=False)]
        if all((p & 0xFFFFFFFF) >= 2**32 % b for p, b in zip(products, bounds, strict=True)):
            yield from (p >> 32 for p in products)
            bound -= len(bounds)


def _word(key: int, i: int) -> int:
    z = key + (i + 1) * _GAMMA & _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31


def _mix32(x: int) -> int:
    x = (x ^ x >> 16) * 0x7FEB352D & 0xFFFFFFFF
    x = (x ^ x >> 15) * 0x846CA68B & 0xFFFFFFFF
    return x ^ x >> 16


def _rotated(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _MASK
