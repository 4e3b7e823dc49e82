"""Which shards each reader needs and when: the visits of an order dealt to the ranks of a world."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tombola._ints import Ints
from tombola.order import Order, Visits
from tombola.plan._world import World


@dataclass(frozen=True)
class Needs:
    """The shards that are read, in the order of their first use. Positions are bounds: no use lies outside them."""

    shard: Ints
    #: First and last position of this epoch that may read the shard.
    first: Ints
    last: Ints
    #: First position of the next epoch that may read it; −1 when that epoch does not.
    next: Ints

    def __len__(self) -> int:
        return self.shard.size


@dataclass(frozen=True)
class Locality:
    """Shards fetched, summed over the nodes, divided by the shards of the dataset."""

    #: An epoch on nodes that hold nothing.
    first: float
    #: The next epoch, on nodes that kept every shard they read.
    later: float


@dataclass(frozen=True)
class Uses:
    """Visits dealt to readers: entry i says that a reader needs a shard from one position to another."""

    reader: Ints
    shard: Ints
    first: Ints
    last: Ints


def reads_lane(order: Order, world: World) -> bool:
    """True when each lane is read by one reader only, so that a node touches its own lanes' shards alone."""
    return order.lanes % (world.readers * order.run) == 0


def uses(order: Order, world: World, epoch: int, end: int) -> Uses:
    """Every reader's uses of every shard among positions 0…end−1."""
    visits = order.visits(epoch)
    visits = Visits(*(getattr(visits, name)[visits.first < end] for name in visits.__dataclass_fields__))
    last = np.minimum(visits.last, end - 1)
    lanes, readers = order.lanes, world.readers
    if order.run > 1:
        return _uses_of_runs(order, world, visits, last)
    # Lane c holds the positions ≡ c (mod lanes), reader r those ≡ r (mod readers): they meet where r ≡ c modulo the
    # greatest common divisor, every (readers / divisor)-th place of the lane. The first and last such place inside
    # the visit follow from the inverse of lanes / divisor.
    divisor = math.gcd(lanes, readers)
    every = readers // divisor
    inverse = pow(lanes // divisor, -1, every) if every > 1 else 0
    low, high = visits.first // lanes, (last - visits.lane) // lanes
    parts: list[Uses] = []
    for turn in range(every):
        reader = visits.lane % divisor + turn * divisor
        wanted = (reader - visits.lane) // divisor % every * inverse % every
        begin = low + (wanted - low) % every
        end_place = high - (high - wanted) % every
        met = begin <= end_place
        parts.append(
            Uses(
                reader[met],
                visits.shard[met],
                (begin * lanes + visits.lane)[met],
                (end_place * lanes + visits.lane)[met],
            )
        )
    return parts[0] if len(parts) == 1 else _joined(parts)


def _uses_of_runs(order: Order, world: World, visits: Visits, last: Ints) -> Uses:
    """The same for an order whose ranks read runs of positions: exact when a lane has one reader, else a bound."""
    if reads_lane(order, world):
        reader = visits.lane // order.run % world.readers
        return Uses(reader, visits.shard, visits.first, last)
    every = [
        Uses(np.full_like(visits.shard, reader), visits.shard, visits.first, last) for reader in range(world.readers)
    ]
    return _joined(every)


def _joined(parts: list[Uses]) -> Uses:
    return Uses(*(np.concatenate([getattr(part, name) for part in parts]) for name in Uses.__dataclass_fields__))


def of_readers(found: Uses, wanted: range, following: Uses) -> Needs:
    """The needs of a group of readers, from everybody's uses in this epoch and the next."""
    shard, first, last = _by_shard(found, wanted)
    later_shard, later_first, _ = _by_shard(following, wanted)
    comes = np.full(shard.shape, -1, np.int64)
    if later_shard.size:
        at = np.minimum(np.searchsorted(later_shard, shard), later_shard.size - 1)
        known = later_shard[at] == shard
        comes[known] = later_first[at[known]]
    by = np.argsort(first, kind="stable")
    return Needs(shard[by], first[by], last[by], comes[by])


def _by_shard(found: Uses, wanted: range) -> tuple[Ints, Ints, Ints]:
    mine = (found.reader >= wanted.start) & (found.reader < wanted.stop)
    shard, first, last = found.shard[mine], found.first[mine], found.last[mine]
    by = np.argsort(shard, kind="stable")
    shard, first, last = shard[by], first[by], last[by]
    if not shard.size:
        return shard, first, last
    heads = np.flatnonzero(np.append(True, np.diff(shard) != 0))
    return shard[heads], np.minimum.reduceat(first, heads), np.maximum.reduceat(last, heads)


def readers_of_node(world: World, node: int) -> range:
    """The readers with a rank on a node."""
    first = node * world.ranks_per_node
    return range(first // world.replication, (first + world.ranks_per_node - 1) // world.replication + 1)


def locality(world: World, shards: int, found: Uses, following: Uses) -> Locality:
    """Shards fetched over all nodes ÷ shards, in a first epoch and in one that follows it."""
    before, after = _held(world, shards, found), _held(world, shards, following)
    fresh = np.setdiff1d(after, before, assume_unique=True)
    return Locality(before.size / shards, fresh.size / shards)


def _held(world: World, shards: int, found: Uses) -> Ints:
    """The distinct (node, shard) pairs, each as one number."""
    most = int(found.shard.max()) + 1 if found.shard.size else 1
    first_rank = found.reader * world.replication
    low = first_rank // world.ranks_per_node
    high = (first_rank + world.replication - 1) // world.ranks_per_node
    held = [np.empty(0, np.int64)]
    for further in range(int((high - low).max()) + 1 if low.size else 0):
        node = low + further
        there = node <= high
        held.append(np.unique(node[there] * most + found.shard[there]))
    return np.unique(np.concatenate(held))
