"""The slow twins of the orders that combine streams: their definitions in plain Python, for tests.

>>> from tombola.order import Concatenation, Layout, Take
>>> layout = Layout([4, 6], streams=[0, 1])
>>> order = Concatenation(takes=(Take(), Take(repeat=1.5))).over(layout, seed=3)
>>> slow_concatenation(order, epoch=2).tolist() == order.slice(0, 13, epoch=2).tolist()
True
"""

from __future__ import annotations

import functools

import numpy as np

from tombola._ints import Ints
from tombola.order._concatenation import Concatenation
from tombola.order._keys import derive_key
from tombola.order._layout import Layout
from tombola.order._mixture import Mixture, rounded_weights, strands_of
from tombola.order._order import Order
from tombola.order._slow import SlowPermutation, child, word

_GOLDEN = 0x9E3779B97F4A7C15


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


def slow_passes(base: Order, epoch_records: int, epoch: int) -> Ints:
    """An epoch cut from whole passes: each lane written out from the start of the run on."""
    out = np.empty(epoch_records, np.int64)
    for lane in range(base.lanes):
        length, places = (n // base.lanes + (lane < n % base.lanes) for n in (len(base), epoch_records))
        for place in range(places):
            turn, own = divmod(epoch * places + place, length)
            out[place * base.lanes + lane] = base.at(own * base.lanes + lane, turn)
    return out


def slow_chairman(weights: list[int]) -> list[int]:
    """At each turn, of the streams that would not get ahead of their share by one, the one that is due first."""
    total, count = sum(weights), [0] * len(weights)
    sequence = []
    for turn in range(1, total + 1):
        ready = [i for i, weight in enumerate(weights) if count[i] * total < turn * weight]
        chosen = min(ready, key=lambda i: (-(-(count[i] + 1) * total // weights[i]), i))
        sequence.append(chosen)
        count[chosen] += 1
    return sequence


@functools.cache
def slow_multiplier(weights: tuple[int, ...], lanes: int) -> int:
    """The multiplier that keeps the counts over all, every 2nd, 4th, … lane closest to the shares."""
    sequence, total = slow_chairman(list(weights)), sum(weights)
    levels = [1]
    while lanes % (2 * levels[-1]) == 0 and lanes // (2 * levels[-1]) >= 2:
        levels.append(2 * levels[-1])
    costs: dict[int, int] = {}
    for k in range(max(1, min(48, 2**25 // (lanes * total * len(levels))))):
        multiplier = word(_GOLDEN, k) | 1 if k else _GOLDEN
        phases = [_phase(lane, multiplier, total) for lane in range(lanes)]
        cost = 0
        for every in levels:
            widest = []
            for first in range(every):
                read = [sequence[(p + row) % total] for row in range(total) for p in phases[first::every]]
                for stream, weight in enumerate(weights):
                    counts = np.append(0, np.cumsum(np.array(read) == stream)) * total
                    errors = counts - np.arange(len(read) + 1) * weight
                    widest.append(int(errors.max() - errors.min()))
            cost += max(widest)
        costs.setdefault(cost, multiplier)
    return costs[min(costs.keys())]


def _phase(lane: int, multiplier: int, length: int) -> int:
    return (lane * multiplier % 2**64) * length >> 64


def slow_mixture(order: Order, epoch: int) -> Ints:
    """A whole epoch, each lane written out from the start of the run on."""
    spec, lanes, records = order.spec, order.lanes, len(order)
    if not isinstance(spec, Mixture):
        raise TypeError(f"{order!r} is no mixture")
    strands = strands_of(order.layout, order.seed, spec)
    streams = order.layout.streams
    own = [order.layout.starts[:-1][streams == i] for i in range(len(strands.orders))] if streams is not None else []
    sizes = [order.layout.sizes[streams == i] for i in range(len(strands.orders))]
    originals = [
        np.concatenate([first + np.arange(size) for first, size in zip(*both, strict=True)] or [np.empty(0, np.int64)])
        for both in zip(own, sizes, strict=True)
    ]
    out = np.empty(records, np.int64)
    for lane in range(lanes):
        places = records // lanes + (lane < records % lanes)
        read = slow_lane(order, strands.changes, lane, (epoch + 1) * places)
        done = [0] * len(strands.orders)
        for place, stream in enumerate(read):
            strand = strands.orders[stream]
            if strand is not None and place >= epoch * places:
                length = len(strand) // lanes + (lane < len(strand) % lanes)
                turn, at = divmod(done[stream], length)
                value = originals[stream][strand.at(at * lanes + lane, turn) % originals[stream].size]
                out[(place - epoch * places) * lanes + lane] = value
            done[stream] += 1
    return out


def slow_lane(order: Order, changes: list[tuple[int, list[int]]], lane: int, length: int) -> list[int]:
    """The streams that a lane reads, from the start of the run on."""
    lanes, records, one = order.lanes, len(order), 2**32
    places = records // lanes + (lane < records % lanes)
    starts = []
    for position, _ in changes:
        epoch, t = divmod(position, records)
        starts.append(epoch * places + t // lanes + (lane < t % lanes))
    read: list[int] = []
    count = [0] * len(changes[0][1])
    due = [0] * len(count)
    for number, (_, given) in enumerate(changes):
        weights = rounded_weights(given)
        total, sequence = sum(weights), slow_chairman(weights)
        turn = derive_key(order.seed, "mixture/phase", number) * total >> 64
        phase = (_phase(lane, slow_multiplier(tuple(weights), lanes), total) + turn) % total
        debts = [0] * len(count)
        if number:
            before = rounded_weights(changes[number - 1][1])
            for i, weight in enumerate(before):
                due[i] += (starts[number] - starts[number - 1]) * weight * one // sum(before)
            debts = _debts(count, due, weights, sequence[:phase])
        end = min(length, starts[number + 1]) if number + 1 < len(changes) else length
        while len(read) < end:
            stream = sequence[(len(read) - starts[number] + phase) % total]
            if debts[stream] < 0 and max(debts) > 0:
                owed = debts.index(max(debts))
                debts[stream] += 1
                debts[owed] -= 1
                stream = owed
            read.append(stream)
            count[stream] += 1
    return read


def _debts(count: list[int], due: list[int], weights: list[int], skipped: list[int]) -> list[int]:
    """Whole records that each stream is to get (or, below 0, to give) at the start of a segment."""
    one, total = 2**32, sum(weights)
    errors = {}
    for i, weight in enumerate(weights):
        if weight:
            entered = (skipped.count(i) * one) - len(skipped) * weight * one // total
            errors[i] = count[i] * one - due[i] - entered
    debts = [0] * len(weights)
    for i, error in errors.items():
        debts[i] = -(error // one) - 1
    by = sorted(errors, key=lambda i: (errors[i] % one, i))
    each, over = divmod(-sum(debts), len(by))
    for k, i in enumerate(by):
        debts[i] += each + (k < over)
    return debts
