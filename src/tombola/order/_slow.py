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

import itertools
import math
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
    for lane in range(lanes):
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
