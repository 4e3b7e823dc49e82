"""The slow twins of the orders that combine streams: their definitions in plain Python, for tests.

>>> from tombola.order import Concatenation, Layout, Take
>>> layout = Layout([4, 6], streams=[0, 1])
>>> order = Concatenation(takes=(Take(), Take(repeat=1.5))).over(layout, seed=3)
>>> slow_concatenation(order, epoch=2).tolist() == order.slice(0, 13, epoch=2).tolist()
True
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from tombola._ints import Ints
from tombola.order._batching import DevicePerStream, PerStream, Stratified, combined, stride_of
from tombola.order._concatenation import Concatenation
from tombola.order._keys import derive_key
from tombola.order._layout import Layout
from tombola.order._mixture import Mixture, Strands, strands_of
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
    """The multiplier that keeps the counts over all, every 2nd, 3rd, 4th, … position closest to the shares."""
    sequence, total = slow_chairman(list(weights)), sum(weights)
    levels = [2**k for k in range(lanes.bit_length()) if k == 0 or (lanes % 2**k == 0 and lanes >= 2 ** (k + 1))]
    levels += [every for every in (3, 5, 7) if total % every == 0 and lanes % every and lanes // every >= 2]
    costs: dict[int, int] = {}
    for k in range(max(1, min(48, 2**25 // (lanes * total * len(levels))))):
        multiplier = word(_GOLDEN, k) | 1 if k else _GOLDEN
        phases = [_phase(lane, multiplier, total) for lane in range(lanes)]
        cost = 0
        for every in levels:
            widest = []
            for first in range(every):
                read = [sequence[(p + row) % total] for row in range(total) for p in phases][first::every]
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
    spec, lanes, records, seed = order.spec, order.lanes, len(order), order.seed
    if not isinstance(spec, Mixture):
        raise TypeError(f"{order!r} is no mixture")
    strands = strands_of(order.layout, seed, spec)

    def blocks(lane: int, count: int) -> list[int]:
        starts = [_before(position, lane, lanes, records) for position, _ in strands.changes]
        return _blocks(strands.changes, starts, _spread(strands.changes, lane, lanes), count, seed)

    return _written_out(order, strands, blocks, epoch)


def slow_batching(order: Order, epoch: int) -> Ints:
    """The same for the three ways of making up batches."""
    spec, lanes, records, seed = order.spec, order.lanes, len(order), order.seed
    if not isinstance(spec, Stratified | PerStream | DevicePerStream):
        raise TypeError(f"{order!r} makes up no batches")
    strands = combined(order.layout, seed, spec.combination, None)
    changes = strands.changes

    def stratified(lane: int, count: int) -> list[int]:
        return [_stratum(order, changes, lane, place) for place in range(count)]

    def per_stream(lane: int, count: int) -> list[int]:
        starts = [position // len_of_batch for position, _ in changes]
        return _blocks(changes, starts, [0] * len(changes), count, seed)

    def device_per_stream(lane: int, count: int) -> list[int]:
        starts = [_before(position // order.run, lane, lanes, records // order.run) for position, _ in changes]
        return _blocks(changes, starts, _spread(changes, lane, lanes), count, seed)

    if isinstance(spec, DevicePerStream):
        return _written_out(order, strands, device_per_stream, epoch, order.run)
    len_of_batch = spec.batch_size
    if isinstance(spec, PerStream):
        return _written_out(order, strands, per_stream, epoch, len_of_batch // lanes)
    return _written_out(order, strands, stratified, epoch)


def _stratum(order: Order, changes: list[tuple[int, list[int]]], lane: int, place: int) -> int:
    """The stream that a lane of a stratified order reads at a place of the run."""
    spec, lanes, seed = order.spec, order.lanes, order.seed
    if not isinstance(spec, Stratified):
        raise TypeError(f"{order!r} is not stratified")
    size = spec.batch_size
    per_batch = size // lanes
    number = max(n for n, (position, _) in enumerate(changes) if position // lanes <= place)
    sequence = _strata(spec, tuple(changes[number][1]))
    batch, row = divmod(place - changes[number][0] // lanes, per_batch)
    period, batch = divmod(batch, len(sequence) // size)
    turn = derive_key(seed, "stratified/column", number) * lanes >> 64
    column = (lane + turn + period * stride_of(lanes)) % lanes
    key = derive_key(seed, "permutation", "stratified/rows", number, batch)
    return sequence[batch * size + int(SlowPermutation(size, key).at(np.array([row * lanes + column]))[0])]


@functools.cache
def _strata(spec: Stratified, weights: tuple[int, ...]) -> list[int]:
    length = math.lcm(sum(weights), spec.batch_size)
    if length > max(2**16, spec.batch_size):
        raise ValueError("too long for the slow twin")
    repeats = max(1, min(2**16, 256 * spec.batch_size) // length)
    return slow_chairman(list(weights)) * (repeats * length // sum(weights))


def _written_out(
    order: Order, strands: Strands, blocks: Callable[[int, int], list[int]], epoch: int, block: int = 1
) -> Ints:
    """An epoch of woven strands, from the streams that each lane reads block by block from the start of the run on."""
    lanes, run, records, streams = order.lanes, order.run, len(order), order.layout.streams
    of_shard = np.zeros(order.layout.shards, np.int64) if streams is None else streams
    originals = [
        np.concatenate([np.empty(0, np.int64), *(np.arange(*order.layout.starts[s : s + 2]) for s in shards)])
        for shards in ([s for s in range(order.layout.shards) if of_shard[s] == i] for i in range(len(strands.orders)))
    ]
    out = np.empty(records, np.int64)
    for lane in range(lanes):
        places = (records // run // lanes + (lane < records // run % lanes)) * run
        read = np.repeat(blocks(lane, -(-(epoch + 1) * places // block)), block)[: (epoch + 1) * places]
        done = [0] * len(strands.orders)
        for place, stream in enumerate(read.tolist()):
            strand = strands.orders[stream]
            if strand is not None and place >= epoch * places:
                length = len(strand) // lanes + (lane < len(strand) % lanes)
                turn, at = divmod(done[stream], length)
                own = place - epoch * places
                position = (own // run * lanes + lane) * run + own % run
                out[position] = originals[stream][strand.at(at * lanes + lane, turn) % originals[stream].size]
            done[stream] += 1
    return out


def _before(position: int, lane: int, lanes: int, records: int) -> int:
    """How many places of a lane come before a position of the run."""
    epoch, t = divmod(position, records)
    return epoch * (records // lanes + (lane < records % lanes)) + t // lanes + (lane < t % lanes)


def _spread(changes: list[tuple[int, list[int]]], lane: int, lanes: int) -> list[int]:
    """Where a lane enters each sequence, before the keyed turn of a period."""
    return [_phase(lane, slow_multiplier(tuple(weights), lanes), sum(weights)) for _, weights in changes]


def _blocks(
    changes: list[tuple[int, list[int]]], starts: list[int], phases: list[int], length: int, seed: int
) -> list[int]:
    """The streams that a lane reads, block by block, from the start of the run on."""
    one = 2**32
    read: list[int] = []
    count = [0] * len(changes[0][1])
    due = [0] * len(count)
    for number, (_, weights) in enumerate(changes):
        total, sequence = sum(weights), slow_chairman(weights)
        key = derive_key(seed, "mixture/phase", number)
        debts = [0] * len(count)
        if number:
            before = changes[number - 1][1]
            for i, weight in enumerate(before):
                due[i] += (starts[number] - starts[number - 1]) * weight * one // sum(before)
            debts = _debts(count, due, weights)
        end = min(length, starts[number + 1]) if number + 1 < len(changes) else length
        while len(read) < end:
            period, place = divmod(len(read) - starts[number], total)
            stream = sequence[(phases[number] + (word(key, period) * total >> 64) + place) % total]
            if debts[stream] < 0 and max(debts) > 0:
                owed = debts.index(max(debts))
                debts[stream] += 1
                debts[owed] -= 1
                stream = owed
            read.append(stream)
            count[stream] += 1
    return read


def _debts(count: list[int], due: list[int], weights: list[int]) -> list[int]:
    """Whole records that each stream is to get (or, below 0, to give) at the start of a segment."""
    one = 2**32
    errors = {i: count[i] * one - due[i] for i, weight in enumerate(weights) if weight}
    debts = [0] * len(weights)
    for i, error in errors.items():
        debts[i] = -(error // one) - 1
    by = sorted(errors, key=lambda i: (errors[i] % one, i))
    each, over = divmod(-sum(debts), len(by))
    for k, i in enumerate(by):
        debts[i] += each + (k < over)
    return debts
