"""The slow twins of the orders that combine streams: their definitions in plain Python, for tests.

>>> from tombola.order import Concatenation, Layout, Take
>>> layout = Layout([4, 6], streams=[0, 1])
>>> order = Concatenation(takes=(Take(), Take(repeat=1.5))).over(layout, seed=3)
>>> slow_concatenation(order, epoch=2).tolist() == order.slice(0, 13, epoch=2).tolist()
True
"""

from __future__ import annotations

import numpy as np

from tombola.order._concatenation import Concatenation
from tombola.order._ints import Ints
from tombola.order._keys import derive_key
from tombola.order._layout import Layout
from tombola.order._order import Order
from tombola.order._slow import SlowPermutation, child, word


def slow_fractions(sizes: list[int], total: int, granularity: int, key: int) -> list[int]:
    """How many records each shard gives to a fractional repeat: picks at even distances along a line of shards."""
    offset = word(key, 0) * sum(sizes) >> 64
    line = SlowPermutation(len(sizes), child(key, 0)).at(np.arange(len(sizes))).tolist()
    given = [0] * len(sizes)
    passed = 0
    for shard in line:
        picks = -(-sizes[shard] // granularity)
        # Pick k of the line is taken when a multiple of sum(sizes) lies in (total·k + offset, total·(k + 1) + offset].
        before = (total * passed + offset) // sum(sizes)
        passed += picks
        taken = (total * passed + offset) // sum(sizes) - before
        given[shard] = taken * granularity
        if word(child(key, 1), shard) * picks >> 64 < taken:  # the short pick is one of them
            given[shard] -= picks * granularity - sizes[shard]
    for shard in line:
        given[shard] += max(-given[shard], min(sizes[shard] - given[shard], total - sum(given)))
    return given


def slow_concatenation(order: Order, epoch: int) -> Ints:
    """A whole epoch: the repeats of every shard written out one after the other, then read in the order of the base."""
    spec, layout, seed = order.spec, order.layout, order.seed
    if not isinstance(spec, Concatenation):
        raise TypeError(f"{order!r} is no concatenation")
    word_of_epoch = (epoch,) if spec.sampling == "balanced" else ()
    streams = np.zeros(layout.shards, np.int64) if layout.streams is None else layout.streams
    units: list[Ints] = []
    filled = [shard for shard in range(layout.shards) if layout.sizes[shard]]
    rest: dict[int, int] = {}
    for stream, count in enumerate(spec.counts(layout)):
        own = [shard for shard in filled if streams[shard] == stream]
        sizes = [int(layout.sizes[shard]) for shard in own]
        if own and count % sum(sizes):
            key = derive_key(seed, "concatenation/fraction", stream, *word_of_epoch)
            given = slow_fractions(sizes, count % sum(sizes), spec.granularity, key)
            rest.update(zip(own, given, strict=True))
    key = derive_key(seed, "concatenation/records", *word_of_epoch)
    counts = spec.counts(layout)
    for place, shard in enumerate(filled):
        stream = int(streams[shard])
        size = int(layout.sizes[shard])
        whole = np.arange(layout.starts[shard], layout.starts[shard + 1])
        units += [whole] * (counts[stream] // int(layout.sizes[streams == stream].sum()))
        if shard in rest:
            units.append(whole[SlowPermutation(size, child(key, place)).at(np.arange(rest[shard]))])
    base = spec.base.over(Layout._of_units(np.array([unit.size for unit in units])), seed=seed)
    return np.concatenate(units)[base.slice(0, len(base), epoch)]
