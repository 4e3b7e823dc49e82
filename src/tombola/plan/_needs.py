"""Which shards each reader needs and when: the visits of an order dealt to the ranks of a world."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tombola._ints import Ints
from tombola.order import Order, Visits
from tombola.plan._world import World


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
class Uses:
    """Entry i says that a reader needs a shard from one position to another."""

    reader: Ints
    shard: Ints
    first: Ints
    last: Ints


class Dealt:
    """The visits of an epoch among positions 0…end−1, dealt to the readers of a world.

    Lane c holds the runs of positions ≡ c (mod lanes), reader r those ≡ r (mod readers): they meet where r ≡ c modulo
    the greatest common divisor, at every (readers ÷ divisor)-th run of the lane.
    """

    def __init__(self, order: Order, world: World, visits: Visits, end: int, padding: Uses | None) -> None:
        read = visits.first < end
        self.lane, self.shard, self.first = visits.lane[read], visits.shard[read], visits.first[read]
        self.last = np.minimum(visits.last[read], end - 1)
        self.world, self.run, self.lanes = world, order.run, order.lanes
        self.shards = order.layout.shards
        self.filled = order.layout.filled_starts.size - 1
        self.padding = padding
        self.divisor = math.gcd(self.lanes, world.readers)
        self.every = world.readers // self.divisor

    def of(self, reader: int) -> Uses:
        """What one reader needs."""
        mine = np.flatnonzero(self.lane % self.divisor == reader % self.divisor)
        return self._met(reader, mine)

    def _met(self, reader: int, visits: Ints) -> Uses:
        """Those of the given visits, all of lanes that the reader meets, in which it has a turn: first and last."""
        lane, first, last = self.lane[visits], self.first[visits], self.last[visits]
        low, high = first // self.run // self.lanes, (last // self.run - lane) // self.lanes
        if self.every > 1:
            # turn · lanes + lane ≡ reader (mod readers), solved for the turn of the lane.
            inverse = pow(self.lanes // self.divisor, -1, self.every)
            wanted = (reader - lane) // self.divisor % self.every * inverse % self.every
            low = low + (wanted - low) % self.every
            high = high - (high - wanted) % self.every
        met = low <= high
        lane, shard = lane[met], self.shard[visits][met]
        begin = np.maximum(first[met], (low[met] * self.lanes + lane) * self.run)
        end = np.minimum(last[met], (high[met] * self.lanes + lane + 1) * self.run - 1)
        return Uses(np.full_like(shard, reader), shard, begin, end)

    def shards_of_nodes(self) -> Iterator[npt.NDArray[np.bool_]]:
        """For each node in turn, which shards it needs.

        A visit of at least `every` runs of a lane is met by all readers that meet the lane, so most of the work is
        done once for each class of lanes; only shorter visits are solved reader by reader.
        """
        turns = (self.last // self.run - self.lane) // self.lanes - self.first // self.run // self.lanes + 1
        whole = turns >= self.every
        kind = self.lane % self.divisor
        known: dict[int, Ints] = {}
        short = np.flatnonzero(~whole)
        for node in range(self.world.nodes):
            held = np.zeros(self.shards, np.bool_)
            readers = readers_of_node(self.world, node)
            for reader in readers:
                mine = reader % self.divisor
                if mine not in known:
                    known[mine] = np.unique(self.shard[whole & (kind == mine)])
                held[known[mine]] = True
                if short.size:
                    held[self._met(reader, short[kind[short] == mine]).shard] = True
            if self.padding is not None:
                pads = self.padding
                held[pads.shard[(pads.reader >= readers.start) & (pads.reader < readers.stop)]] = True
            yield held


def reads_lane(order: Order, world: World) -> bool:
    """True when each lane is read by one reader only, so that a node touches its own lanes' shards alone."""
    return order.lanes % world.readers == 0


def readers_of_node(world: World, node: int) -> range:
    """The readers with a rank on a node."""
    first = node * world.ranks_per_node
    return range(first // world.replication, (first + world.ranks_per_node - 1) // world.replication + 1)


def uses_of(dealt: Dealt, wanted: range) -> tuple[Ints, Ints, Ints]:
    """Shards that a group of readers needs, rising, each with its first and last position."""
    parts = [dealt.of(reader) for reader in wanted]
    if (pads := dealt.padding) is not None:
        mine = (pads.reader >= wanted.start) & (pads.reader < wanted.stop)
        parts.append(Uses(pads.reader[mine], pads.shard[mine], pads.first[mine], pads.last[mine]))
    shard, first, last = (np.concatenate([getattr(part, n) for part in parts]) for n in ("shard", "first", "last"))
    by = np.argsort(shard, kind="stable")
    shard, first, last = shard[by], first[by], last[by]
    if not shard.size:
        return shard, first, last
    heads = np.flatnonzero(np.append(True, np.diff(shard) != 0))
    return shard[heads], np.minimum.reduceat(first, heads), np.maximum.reduceat(last, heads)


def needs(now: tuple[Ints, Ints, Ints], following: tuple[Ints, Ints, Ints]) -> Needs:
    """What is needed in an epoch, and when it is needed next in the one that follows."""
    shard, first, last = now
    later_shard, later_first, _ = following
    comes = np.full(shard.shape, -1, np.int64)
    if later_shard.size:
        at = np.minimum(np.searchsorted(later_shard, shard), later_shard.size - 1)
        known = later_shard[at] == shard
        comes[known] = later_first[at[known]]
    by = np.argsort(first, kind="stable")
    return Needs(shard[by], first[by], last[by], comes[by])


def locality(now: Dealt, following: Dealt) -> Locality:
    """Shards fetched over all nodes ÷ shards, in a first epoch and in one that follows it."""
    fetched = fresh = 0
    for held, wanted in zip(now.shards_of_nodes(), following.shards_of_nodes(), strict=True):
        fetched += int(np.count_nonzero(held))
        fresh += int(np.count_nonzero(wanted & ~held))
    return Locality(fetched / now.filled, fresh / now.filled)
