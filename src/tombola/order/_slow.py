"""The slow twins: the definitions of this room written once more in plain NumPy, to be compared with the C++ core.

Clarity is all that counts here. The laws hold for these by inspection; tests hold the fast paths to them bit for bit.

>>> from tombola.order import Lanes, Layout, Permutation
>>> slow = SlowPermutation(1000, derive_key(7, "permutation"))
>>> slow.at(np.arange(3)).tolist() == Permutation(1000, 7).slice(0, 3).tolist()
True
>>> order = Lanes(lanes=2).over(Layout([3, 4]), seed=1)
>>> slow_lanes(order, epoch=2).tolist() == order.slice(0, 7, epoch=2).tolist()
True
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tombola._ints import Ints
from tombola.order._keys import derive_key
from tombola.order._lanes import Lanes
from tombola.order._order import Order

_M64 = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15
_CHILD_SALT = 0xD1B54A32D192ED03
_TABLE_MAX = 128
_ROUNDS = 12
_Words = npt.NDArray[np.uint64]


def mix64(z: int) -> int:
    """The 64-bit finaliser of SplitMix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _M64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _M64
    return z ^ (z >> 31)


def word(key: int, i: int) -> int:
    """The i-th random word of a key."""
    return mix64((key + (i + 1) * _GAMMA) & _M64)


def child(key: int, i: int) -> int:
    """The i-th child of a key."""
    return mix64((mix64(key ^ _CHILD_SALT) + (i + 1) * _GAMMA) & _M64)


class SlowPermutation:
    """The keyed permutation of 0…n−1, for a 64-bit key."""

    def __init__(self, n: int, key: int) -> None:
        self.n = n
        self._table: Ints | None = None
        if n <= _TABLE_MAX:
            table = list(range(n))
            for i in range(n - 1, 0, -1):
                j = word(key, i) * (i + 1) >> 64
                table[i], table[j] = table[j], table[i]
            self._table = np.array(table, np.int64)
            return
        bits = (n - 1).bit_length()
        self._right_bits = np.uint64(bits - bits // 2)
        self._masks = np.uint64(2 ** (bits // 2) - 1), np.uint64(2 ** (bits - bits // 2) - 1)
        words = [word(key, i) for i in range(_ROUNDS // 2)]
        self._round_keys = [np.uint64(half) for w in words for half in (w & 0xFFFFFFFF, w >> 32)]

    @staticmethod
    def _mix32(x: _Words) -> _Words:
        low = np.uint64(0xFFFFFFFF)
        x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x7FEB352D)) & low
        x = ((x ^ (x >> np.uint64(15))) * np.uint64(0x846CA68B)) & low
        return x ^ (x >> np.uint64(16))

    def _network(self, values: _Words, forward: bool) -> _Words:
        halves = [values >> self._right_bits, values & self._masks[1]]
        for r in range(_ROUNDS) if forward else range(_ROUNDS - 1, -1, -1):
            into = r % 2  # even rounds change the left half, odd ones the right
            halves[into] ^= self._mix32(halves[1 - into] ^ self._round_keys[r]) & self._masks[into]
        return (halves[0] << self._right_bits) | halves[1]

    def _walk(self, values: Ints, forward: bool) -> Ints:
        out = self._network(values.astype(np.uint64), forward)
        while (outside := out >= self.n).any():
            out[outside] = self._network(out[outside], forward)
        return out.astype(np.int64)

    def at(self, i: Ints) -> Ints:
        """Where each i goes."""
        return self._walk(i, True) if self._table is None else self._table[i]

    def find(self, j: Ints) -> Ints:
        """The i that goes to each j."""
        return self._walk(j, False) if self._table is None else np.argsort(self._table)[j]


def slow_lanes(order: Order, epoch: int) -> Ints:
    """A whole epoch of the lanes order, record by record, as its definition says."""
    spec, seed = order.spec, order.seed
    if not isinstance(spec, Lanes) or spec.lanes is None:
        raise TypeError(f"{order!r} has no lanes")
    starts, lanes, total = order.layout.filled_starts, spec.lanes, len(order)
    home = (epoch,) if spec.homes == "fresh" else ()
    shards = starts.size - 1
    shard_at = SlowPermutation(shards, derive_key(seed, "lanes/home", *home)).at(np.arange(shards))
    # The line: every record, shard after shard, and where on it each shard begins and the last one ends.
    line = np.concatenate([np.arange(starts[s], starts[s + 1]) for s in shard_at])
    edges = np.append(0, np.cumsum(np.diff(starts)[shard_at]))
    parts_key, records_key, window_key, phase_key = (
        derive_key(seed, f"lanes/{purpose}", epoch) for purpose in ("parts", "records", "window", "phase")
    )
    mean = Fraction(spec.window_records or Fraction(total * (spec.window or 1), shards))
    out = np.empty(total, np.int64)
    begin = parts_before = 0
    for lane in line_order(lanes):
        end = begin + total // lanes + (lane < total % lanes)
        inner = edges[(edges > begin) & (edges < end)].tolist()  # twice the same where a shard is empty
        parts = [line[a:b] for a, b in itertools.pairwise([begin, *inner, end])]
        cut_head, cut_tail = begin not in edges, end not in edges
        slots = _slots(len(parts), bool(cut_head and cut_tail and len(parts) > 1), child(parts_key, lane))
        if spec.window is None and spec.window_records is None:
            ring = np.concatenate([_shuffled(parts[p], child(records_key, parts_before + p)) for p in slots])
        else:
            stored = np.concatenate([parts[p] for p in slots])
            blocks = _blocks(spec, [parts[p].size for p in slots])
            ring = _mixed(stored, blocks, child(window_key, lane))
        phase = _phase(spec, lane, ring.size, mean, phase_key)
        out[lane::lanes] = np.roll(ring, -phase)
        begin, parts_before = end, parts_before + len(parts)
    return out


def line_order(lanes: int) -> list[int]:
    """The lanes in the order in which their pieces lie on the line: by their numbers read backwards, bit by bit."""
    width = (lanes - 1).bit_length()
    return sorted(range(lanes), key=lambda lane: int(f"{lane:0{width}b}"[::-1], 2))


def slow_lanes_at(order: Order, position: int, epoch: int) -> int:
    """One position of the lanes order, as its definition says, in whole numbers of Python: O(shards), of any size.

    >>> from tombola.order import Layout
    >>> order = Lanes(lanes=8).over(Layout.equal(300, 2**53), seed=1)
    >>> slow_lanes_at(order, 10**18, epoch=2) == order.at(10**18, epoch=2)
    True
    """
    spec, seed = order.spec, order.seed
    if not isinstance(spec, Lanes) or spec.lanes is None:
        raise TypeError(f"{order!r} has no lanes")
    starts, lanes, total = order.layout.filled_starts.tolist(), spec.lanes, len(order)
    parts_key, records_key, window_key, phase_key = (
        derive_key(seed, f"lanes/{purpose}", epoch) for purpose in ("parts", "records", "window", "phase")
    )
    home = (epoch,) if spec.homes == "fresh" else ()
    shards = len(starts) - 1
    shard_at = SlowPermutation(shards, derive_key(seed, "lanes/home", *home)).at(np.arange(shards)).tolist()
    line = [0, *itertools.accumulate(starts[s + 1] - starts[s] for s in shard_at)]  # where each shard begins on it
    # The pieces lie on the line one after the other; each border between two shards inside one makes one part more.
    lane = position % lanes
    lying = line_order(lanes)
    pieces = [0, *itertools.accumulate(total // lanes + (c < total % lanes) for c in lying)]
    piece = lying.index(lane)
    begin, end = pieces[piece], pieces[piece + 1]
    parts_before = sum(len(_borders(line, a, b)) - 1 for a, b in itertools.pairwise(pieces[: piece + 1]))
    parts = list(itertools.pairwise(_borders(line, begin, end)))
    seam = len(parts) > 1 and begin not in line and end not in line
    slots = _slots(len(parts), seam, child(parts_key, lane))
    sizes = [parts[p][1] - parts[p][0] for p in slots]
    ring = [0, *itertools.accumulate(sizes)]
    mean = Fraction(spec.window_records or Fraction(total * (spec.window or 1), shards))
    place = (position // lanes + _phase(spec, lane, end - begin, mean, phase_key)) % (end - begin)
    if spec.window or spec.window_records:
        place = _mixed_at(spec, place, sizes, child(window_key, lane))
    slot = bisect.bisect_right(ring, place) - 1
    into = place - ring[slot]
    if not (spec.window or spec.window_records):
        into = _one(sizes[slot], child(records_key, parts_before + slots[slot]), into)
    offset = parts[slots[slot]][0] + into
    shard = bisect.bisect_right(line, offset) - 1
    return int(starts[shard_at[shard]] + offset - line[shard])


def _borders(line: list[int], begin: int, end: int) -> list[int]:
    """The ends of a lane and the borders between shards inside it."""
    return [begin, *line[bisect.bisect_right(line, begin) : bisect.bisect_left(line, end)], end]


def _one(size: int, key: int, i: int) -> int:
    return int(SlowPermutation(size, key).at(np.array([i]))[0])


def _mixed_at(spec: Lanes, place: int, sizes: list[int], key: int) -> int:
    """The place of a ring that is stored where a window reads `place`: back through both of its passes."""
    length = sum(sizes)
    around = _block_around(spec, sizes)
    block, (a, b) = around(place)
    middle = a + (b - a) // 2
    if place < middle:
        place += length if block == 0 else 0
        block, (a, b) = around((a - 1) % length)
        middle = a + (b - a) // 2
    _, (c, d) = around(b % length)
    size = (b - middle) + (d - c) // 2
    place = (middle + _one(size, child(key, 2 * block + 1), place - middle)) % length
    block, (a, b) = around(place)
    return a + _one(b - a, child(key, 2 * block), place - a)


def _block_around(spec: Lanes, sizes: list[int]) -> Callable[[int], tuple[int, tuple[int, int]]]:
    """A function that gives the number and the bounds of the block in which a place lies."""
    if not spec.window_records:
        borders = _blocks(spec, sizes)

        def by_shards(place: int) -> tuple[int, tuple[int, int]]:
            block = bisect.bisect_right(borders, place) - 1
            return block, (borders[block], borders[block + 1])

        return by_shards
    length = sum(sizes)
    count = -(-length // spec.window_records)

    def by_records(place: int) -> tuple[int, tuple[int, int]]:
        block = place * count // length
        block += (block + 1) * length // count <= place  # rounding down may have begun the next block before it
        return block, (block * length // count, (block + 1) * length // count)

    return by_records


def _shuffled(values: Ints, key: int) -> Ints:
    return values[SlowPermutation(values.size, key).at(np.arange(values.size))]


def _slots(parts: int, seam: bool, key: int) -> list[int]:
    """The parts of a lane in the order of an epoch; two cut ends travel together, tail then head."""
    items = SlowPermutation(parts - seam, key).at(np.arange(parts - seam)).tolist()
    if not seam:
        return [int(item) for item in items]
    slots: list[int] = []
    for item in items:
        slots += [parts - 1, 0] if item == 0 else [item]
    return slots


def _phase(spec: Lanes, lane: int, length: int, mean: Fraction, key: int) -> int:
    """Where on its ring a lane starts: a turn common to all lanes, whole means of its own, and its c/C of a mean."""
    means = max(1, math.floor(length / mean + Fraction(1, 2)))
    turn = word(key, 0) * length >> 64
    whole = word(key, lane + 1) * means >> 64
    ahead = Fraction(lane, spec.lanes or 1) if spec.phase == "spread" else 0
    return (turn + math.floor((whole + ahead) * mean)) % length


def _blocks(spec: Lanes, sizes: list[int]) -> list[int]:
    """Where the blocks of a ring begin, and its end."""
    if spec.window_records is not None:
        length = sum(sizes)
        count = -(-length // spec.window_records)
        return [g * length // count for g in range(count)] + [length]
    parts = len(sizes)
    count = -(-parts // (spec.window or 1))
    firsts = [-(-g * parts // count) for g in range(count)]
    return [sum(sizes[:slot]) for slot in firsts] + [sum(sizes)]


def _mixed(stored: Ints, borders: list[int], key: int) -> Ints:
    """Each block permuted, then each block shifted by half, round the ring."""
    once = np.concatenate(
        [_shuffled(stored[a:b], child(key, 2 * g)) for g, (a, b) in enumerate(itertools.pairwise(borders))]
    )
    middles = [a + (b - a) // 2 for a, b in itertools.pairwise(borders)]
    rolled = np.roll(once, -middles[0])
    shifted = [m - middles[0] for m in middles] + [stored.size]
    twice = np.concatenate(
        [_shuffled(rolled[a:b], child(key, 2 * g + 1)) for g, (a, b) in enumerate(itertools.pairwise(shifted))]
    )
    return np.roll(twice, middles[0])
