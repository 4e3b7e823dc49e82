"""The two orders without lanes: none at all, and one permutation of all records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tombola._ints import Ints
from tombola.order._layout import Layout
from tombola.order._order import Order, OrderSpec, Visits, check_epoch, register
from tombola.order._permutation import Permutation


@register("sequential")
@dataclass(frozen=True)
class Sequential(OrderSpec):
    """Records as they are stored, in every epoch.

    >>> Sequential().over(Layout([2, 2])).slice(0, 4).tolist()
    [0, 1, 2, 3]
    """

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout; the seed plays no part."""
        return _SequentialOrder(self, layout, seed)


class _SequentialOrder(Order):
    def _at(self, positions: Ints, epoch: int) -> Ints:
        return positions.copy()

    def _find(self, records: Ints, epoch: int) -> Ints:
        return records.copy()

    def visits(self, epoch: int = 0) -> Visits:
        check_epoch(epoch)
        starts, shards = self.layout.filled_starts, self.layout.filled
        if shards is None:
            shards = np.arange(self.layout.shards, dtype=np.int64)
        return Visits(np.zeros_like(shards), shards, starts[:-1], starts[1:], starts[:-1], starts[1:] - 1)


@register("global")
@dataclass(frozen=True)
class Global(OrderSpec):
    """One permutation of all records, new each epoch: for data in memory or on a disk that seeks for nothing.

    >>> order = Global().over(Layout([5, 5]), seed=1)
    >>> sorted(order.slice(0, 10).tolist()) == list(range(10))
    True
    """

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout with a seed."""
        return _GlobalOrder(self, layout, seed)


class _GlobalOrder(Order):
    def _permutation(self, epoch: int) -> Permutation:
        return Permutation(len(self), self.seed, "global", epoch)

    def _at(self, positions: Ints, epoch: int) -> Ints:
        return self._permutation(epoch).at(positions)

    def _find(self, records: Ints, epoch: int) -> Ints:
        return self._permutation(epoch).find(records)

    def _slice(self, start: int, stop: int, step: int, epoch: int) -> Ints:
        if step == 1:
            return self._permutation(epoch).slice(start, stop)
        return super()._slice(start, stop, step, epoch)

    def visits(self, epoch: int = 0) -> Visits:
        """Every shard may be needed at any time: the bounds are the whole epoch."""
        check_epoch(epoch)
        starts, shards = self.layout.filled_starts, self.layout.filled
        if shards is None:
            shards = np.arange(self.layout.shards, dtype=np.int64)
        first = np.zeros_like(shards)
        return Visits(np.zeros_like(shards), shards, starts[:-1], starts[1:], first, first + (len(self) - 1))
