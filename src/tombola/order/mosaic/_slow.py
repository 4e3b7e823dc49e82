"""The slow twins: the exact MosaicML orders step by step, in plain Python, to be compared with the C++ core.

>>> from tombola.order.mosaic import shuffle
>>> slow = slow_shuffle("py1e", [5, 4, 3], canonical_nodes=2, seed=7, epoch=1, block_records=6)
>>> slow == shuffle("py1e", [5, 4, 3], canonical_nodes=2, seed=7, epoch=1, block_records=6).tolist()
True
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Any

import numpy as np

_M32, _M64, _M128 = 2**32 - 1, 2**64 - 1, 2**128 - 1
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645


class SlowDraws:
    """`Draws`, one number at a time.

    >>> SlowDraws(7).permutation(5) == np.random.default_rng(7).permutation(5).tolist()
    True
    """

    def __init__(self, seed: int) -> None:
        words = _seed_words(seed)
        self.increment = ((words[2] << 64 | words[3]) << 1 | 1) & _M128
        self.state = self._after(self.increment + (words[0] << 64 | words[1]))
        self.half: int | None = None

    def _after(self, state: int) -> int:
        return (state * _MULTIPLIER + self.increment) & _M128

    def next64(self) -> int:
        """A word: the halves of the state folded, rotated by its top bits."""
        self.state = self._after(self.state)
        folded, turn = (self.state >> 64) ^ (self.state & _M64), self.state >> 122
        return (folded >> turn | folded << (64 - turn)) & _M64

    def next32(self) -> int:
        """The low half of a word, and the next time its high half."""
        if self.half is not None:
            half, self.half = self.half, None
            return half
        word = self.next64()
        self.half = word >> 32
        return word & _M32

    def interval(self, most: int) -> int:
        """0 … most by masking and rejection."""
        mask = (1 << most.bit_length()) - 1
        while most:
            value = (self.next32() if most <= _M32 else self.next64()) & mask
            if value <= most:
                return value
        return 0

    def bounded(self, most: int) -> int:
        """0 … most by multiplication."""
        if most == 0:
            return 0
        bits = 32 if most <= _M32 else 64
        draw = self.next32 if bits == 32 else self.next64
        if most == (1 << bits) - 1:
            return draw()
        threshold = ((1 << bits) - most - 1) % (most + 1)
        while True:
            product = draw() * (most + 1)
            if product & ((1 << bits) - 1) >= threshold:
                return product >> bits

    def uniform(self, low: float, high: float) -> float:
        """One number between low and high."""
        return low + (high - low) * ((self.next64() >> 11) * 2.0**-53)

    def shuffle(self, values: MutableSequence[Any]) -> None:
        """From the end, each with one that is not behind it."""
        for i in range(len(values) - 1, 0, -1):
            j = self.interval(i)
            values[i], values[j] = values[j], values[i]

    def permutation(self, n: int) -> list[int]:
        """0 … n−1 shuffled."""
        values = list(range(n))
        self.shuffle(values)
        return values

    def choice(self, n: int, k: int) -> list[int]:
        """k of 0 … n−1."""
        if n > 10000 and k > n // 50:
            values = list(range(n))
            self._shuffle_from(values, max(n - k, 1))
            return values[n - k :]
        taken: list[int] = []
        for j in range(n - k, n):
            value = self.bounded(j)
            taken.append(j if value in taken else value)
        self._shuffle_from(taken, 1)
        return taken

    def _shuffle_from(self, values: list[int], stop: int) -> None:
        for i in range(len(values) - 1, stop - 1, -1):
            j = self.bounded(i)
            values[i], values[j] = values[j], values[i]


def _seed_words(seed: int) -> list[int]:
    constant = 0x43B0D7E5

    def mixed(value: int) -> int:
        nonlocal constant
        value ^= constant
        constant = constant * 0x931E8875 & _M32
        value = value * constant & _M32
        return value ^ value >> 16

    pool = [mixed(seed >> 32 * i & _M32) for i in range(4)]
    for source in range(4):
        for target in range(4):
            if source != target:
                value = (0xCA01F9DD * pool[target] - 0x4973F715 * mixed(pool[source])) & _M32
                pool[target] = value ^ value >> 16
    halves, constant = [], 0x8B51F9DD
    for i in range(8):
        value = pool[i % 4] ^ constant
        constant = constant * 0x58F38DED & _M32
        value = value * constant & _M32
        halves.append(value ^ value >> 16)
    return [halves[i] | halves[i + 1] << 32 for i in range(0, 8, 2)]


# ---- shuffles

_Parts = list[list[int]]


def slow_shuffle(
    name: str, units: Sequence[int], *, canonical_nodes: int, seed: int, epoch: int, block_records: int
) -> list[int]:
    """`shuffle`, on lists of record numbers."""
    run, draws = SlowDraws(seed), SlowDraws(seed + epoch)
    if name == "naive":
        return draws.permutation(sum(units))
    starts = np.cumsum([0, *units]).tolist()
    line = [list(range(starts[u], starts[u] + size)) for u, size in enumerate(units)]
    run.shuffle(line)
    if name == "py2s":
        for unit in line:
            run.shuffle(unit)
    nodes = _cut(line, sum(units), canonical_nodes)
    out: list[int] = []
    if name == "py2s":
        for parts in nodes:
            draws.shuffle(parts)
            for part in parts:
                draws.shuffle(part)
                out += part
        return out
    for parts in nodes:
        draws.shuffle(parts)
    stagger = [0] * canonical_nodes
    if name == "py1br":
        stagger = [draws.bounded(int(0.75 * block_records) - 1) for _ in nodes]
    for node, parts in enumerate(nodes):
        match name:
            case "py1s":
                out += _each_part(parts, draws)
            case "py1b":
                out += _fixed_blocks(_joined(parts), block_records, draws)
            case "py1br":
                out += _random_blocks(_joined(parts), block_records, stagger[node], draws)
            case "py1e":
                out += _moved(parts, block_records, draws)
    return out


def _cut(line: _Parts, records: int, canonical_nodes: int) -> list[_Parts]:
    queue, nodes, filled = list(line), [], 0
    for node in range(canonical_nodes):
        border, parts = records * (node + 1) // canonical_nodes, []
        while queue and (filled < border or not queue[0]):
            head = queue.pop(0)
            part, rest = head[: border - filled], head[border - filled :]
            if rest:
                queue.insert(0, rest)
            parts.append(part)
            filled += len(part)
        nodes.append(parts)
    return nodes


def _each_part(parts: _Parts, draws: SlowDraws) -> list[int]:
    out: list[int] = []
    for part in parts:
        draws.shuffle(part)
        out += part
    return out


def _joined(parts: _Parts) -> list[int]:
    return [value for part in parts for value in part]


def _shuffle_range(values: list[int], start: int, stop: int, draws: SlowDraws) -> None:
    block = values[start:stop]
    draws.shuffle(block)
    values[start:stop] = block


def _fixed_blocks(values: list[int], block_records: int, draws: SlowDraws) -> list[int]:
    for start in range(0, len(values), block_records):
        _shuffle_range(values, start, start + block_records, draws)
    return values


def _random_blocks(values: list[int], block_records: int, stagger: int, draws: SlowDraws) -> list[int]:
    low, high = int(0.75 * block_records), int(1.25 * block_records)
    ranges, at = [], 0
    while at < len(values):
        size = low + draws.bounded(high - low - 1)
        start, stop = max(at - stagger, 0), min(at + size - stagger, len(values))
        ranges.append((start, stop))
        at += stop - start
    for start, stop in ranges:
        _shuffle_range(values, start, stop, draws)
    return values


def _moved(parts: _Parts, block_records: int, draws: SlowDraws) -> list[int]:
    low, high = int(0.75 * block_records), int(1.25 * block_records)
    values = _each_part(parts, draws)
    keys: list[float] = []
    for part in parts:
        reach = max((low + draws.bounded(high - low - 1) - len(part)) / 2, 0)
        offset = len(keys)
        back, forth = max(-reach, -offset), min(reach, len(values) - offset - len(part))
        keys += [offset + k + draws.uniform(back, forth) for k in range(len(part))]
    return [values[k] for k in sorted(range(len(values)), key=keys.__getitem__)]


# ---- sampling


def slow_sample_shards(sizes: Sequence[int], choose: int, *, granularity: int, seed: int) -> list[int]:
    """`sample_shards`, pick by pick."""
    records = sum(sizes)
    counts = [size * (choose // records) for size in sizes]
    picks: list[tuple[int, int]] = []
    for shard, size in enumerate(sizes):
        per_pick = [granularity] * -(-size // granularity)
        if per_pick:
            per_pick[-1] = size - granularity * (len(per_pick) - 1)
        elif picks and shard:
            picks[-1] = (
                picks[-1][0],
                granularity,
            )  # the peer's slip: an empty shard's last pick is the one before
        picks += [(shard, pick) for pick in per_pick]
    rest = choose % records
    for pick in SlowDraws(seed).permutation(len(picks)) if rest else []:
        shard, size = picks[pick]
        counts[shard] += min(rest, size)
        rest -= min(rest, size)
    return counts


def slow_sample_records(sizes: Sequence[int], counts: Sequence[int], *, seed: int) -> tuple[list[int], list[int]]:
    """The units and records of `sample`, for shards laid end to end and the records each gives."""
    draws, units, records, start = SlowDraws(seed), [], [], 0
    for size, count in zip(sizes, counts, strict=True):
        passes, rest = divmod(count, size) if size else (0, 0)
        units += [size] * passes
        records += list(range(start, start + size)) * passes
        if rest:
            units.append(rest)
            records += [start + place for place in sorted(draws.choice(size, rest))]
        start += size
    return units, records


# ---- dealing


def slow_deal(
    records: int, *, canonical_nodes: int, nodes: int, ranks: int, workers: int, batch: int, drop_first: int
) -> list[Any]:
    """`deal` by the rule "orig", row by row; nested lists of the same shape."""
    short = -(-records // canonical_nodes)
    ratio = nodes // canonical_nodes if canonical_nodes < nodes else 1
    pad = -short % ratio
    length = short + pad
    if records > canonical_nodes or (records == canonical_nodes and canonical_nodes >= nodes):
        rows = []
        for node in range(canonical_nodes):
            start, stop = (records * (node + k) // canonical_nodes for k in (0, 1))
            row = list(range(start, start + length))
            if stop - start < short:
                row[short - 1] -= 1
            if pad:
                source = row[max(short - pad - ratio + 1, 0) : max(short - ratio + 1, 0)]
                if len(source) not in (1, pad):
                    raise ValueError("too few records to pad from")
                row[short:] = source * (pad if len(source) == 1 else 1)
            rows.append(row)
    else:
        flat = [k % records for k in range(canonical_nodes * length)]
        rows = [flat[node * length : (node + 1) * length] for node in range(canonical_nodes)]
    line = [row[place] for place in range(length) for row in rows][drop_first - drop_first % nodes :]
    out = []
    for node in range(nodes):
        own = line[node::nodes]
        under = -len(own) % ranks
        if ranks + under - 1 <= len(own):
            own += own[len(own) - ranks - under + 1 : len(own) - ranks + 1] if under else []
        else:
            own = [own[k % len(own)] for k in range(len(own) + under)]
        of_node = []
        for rank in range(ranks):
            mine = own[rank::ranks]
            mine += [-1] * (-len(mine) % (workers * batch))
            batches = [mine[k : k + batch] for k in range(0, len(mine), batch)]
            of_node.append([batches[worker::workers] for worker in range(workers)])
        out.append(of_node)
    return out
