"""The open shards: opened a little before the plan needs them, closed after their last use."""

from __future__ import annotations

import heapq
import math
from collections import Counter, OrderedDict
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import suppress

import numpy as np

from tombola._hands import Hands
from tombola._ints import THREADS, Ints
from tombola.errors import DataError, StreamError, TombolaError
from tombola.formats import Shard
from tombola.plan import Plan
from tombola.stream._dataset import Dataset
from tombola.stream._options import Reading
from tombola.stream._stats import Counters

# More shards than this are not opened ahead, however small they are.
_AHEAD_SHARDS_MAX = 32


class Shelf:
    """Open shards by number. Used by one thread at a time; its own threads do the opening."""

    def __init__(self, dataset: Dataset, reading: Reading, counters: Counters) -> None:
        self._dataset = dataset
        self._reading = reading
        self._counters = counters
        self._hands = Hands(reading.threads or THREADS, "tombola-open")
        #: Open shards, the one that was used last at the end.
        self.shards: OrderedDict[int, Shard] = OrderedDict()
        self.failed: dict[int, TombolaError] = {}
        self._coming: dict[int, Future[Shard]] = {}
        self._uses = _Uses()

    # ---- along a plan

    def begin(self, plan: Plan, epoch: int, position: int) -> None:
        """Follows an epoch of a plan from a position on."""
        self._uses = _Uses.of(plan, epoch, position)

    def advance(self, low: int, high: int) -> None:
        """Positions low…high−1 are read next: closes what comes no more, begins to open what comes soon."""
        for shard in self._uses.ended(low, high):
            self._close(shard)
        self._look_ahead()

    def _look_ahead(self) -> None:
        sizes, budget = self._dataset.shard_bytes, self._reading.ahead_bytes_max
        for shard in self._uses.coming(min(_AHEAD_SHARDS_MAX, self._reading.open_shards_max)):
            budget -= int(sizes[shard])
            if budget < 0:
                break
            if shard not in self.shards and shard not in self._coming and shard not in self.failed:
                self._coming[shard] = self._hands.submit(_open, self._dataset, shard, True)

    # ---- shards

    def need(self, shards: Iterable[int]) -> dict[int, TombolaError]:
        """Opens shards; the errors of those that cannot be, by number."""
        needed = list(dict.fromkeys(shards))
        if not self.failed and self.shards.keys() >= set(needed):
            # The usual case, many times a second. What was used last matters only where there is a want of room.
            if 2 * len(self.shards) > self._reading.open_shards_max:
                for shard in needed:
                    self.shards.move_to_end(shard)
                self._make_room(set(needed))
            return {}
        missing = [shard for shard in needed if shard not in self.shards and shard not in self.failed]
        if len(missing) == 1 and missing[0] not in self._coming:
            self._take(missing[0], None)
        else:
            for shard in missing:
                if shard not in self._coming:
                    self._coming[shard] = self._hands.submit(_open, self._dataset, shard, False)
            for shard in missing:
                self._take(shard, self._coming.pop(shard))
        for shard in needed:
            if shard in self.shards:
                self.shards.move_to_end(shard)
        self._make_room(set(needed))
        return {shard: self.failed[shard] for shard in needed if shard in self.failed}

    def forget_failures(self) -> None:
        """A shard that could not be opened is tried again."""
        self.failed.clear()

    def _take(self, shard: int, future: Future[Shard] | None) -> None:
        seconds = self._reading.wait_seconds_max
        try:
            opened = self._dataset.open(shard) if future is None else future.result(seconds)
        except Late:
            self.failed[shard] = StreamError(
                f"{self._dataset.describe(shard)} could not be opened within {seconds:g} s: is its file system there?"
            )
        except TombolaError as error:
            self.failed[shard] = error
        else:
            self.shards[shard] = opened
            self._counters.add(shards_opened=1, shards_open=1)

    def _make_room(self, needed: set[int]) -> None:
        most = max(self._reading.open_shards_max, len(needed))
        if len(self.shards) <= most:
            return
        for shard in list(self.shards):
            if len(self.shards) <= most:
                break
            if shard not in needed:
                self._close(shard)

    def _close(self, shard: int) -> None:
        self._coming.pop(shard, None)
        if self.shards.pop(shard, None) is not None:
            self._counters.add(shards_open=-1)

    def close(self) -> None:
        """Closes all shards and ends the threads."""
        self._hands.stop()
        for shard in list(self.shards):
            self._close(shard)
        self._coming.clear()


def _open(dataset: Dataset, shard: int, ahead: bool) -> Shard:
    if ahead:
        with suppress(DataError):  # a hint never fails; opening says what is wrong
            dataset.prefetch(shard)
    return dataset.open(shard)


class _Uses:
    """When the shards of one reader are used in an epoch, walked along with the positions."""

    def __init__(self) -> None:
        empty: Ints = np.empty(0, np.int64)
        self._shard, self._first, self._last = empty, empty, empty
        self._next = 0
        self._open: list[tuple[int, int]] = []
        self._count: Counter[int] = Counter()

    @classmethod
    def of(cls, plan: Plan, epoch: int, position: int) -> _Uses:
        order, world = plan.order, plan.world
        visits = order.visits(epoch)
        mine = visits.last >= position
        # Lane c and reader r meet where r ≡ c modulo their counts' greatest common divisor.
        common = math.gcd(order.lanes, world.readers)
        mine &= visits.lane % common == world.reader % common
        by = np.argsort(visits.first[mine], kind="stable")
        self = cls()
        self._shard, self._first, self._last = (
            values[mine][by] for values in (visits.shard, visits.first, visits.last)
        )
        return self

    def ended(self, low: int, high: int) -> list[int]:
        """Begins the uses before `high` and gives the shards whose last use is before `low`."""
        stop = int(np.searchsorted(self._first, high))
        for shard, last in zip(
            self._shard[self._next : stop].tolist(), self._last[self._next : stop].tolist(), strict=True
        ):
            heapq.heappush(self._open, (last, shard))
            self._count[shard] += 1
        self._next = max(self._next, stop)
        over = []
        while self._open and self._open[0][0] < low:
            shard = heapq.heappop(self._open)[1]
            self._count[shard] -= 1
            if not self._count[shard]:
                del self._count[shard]
                over.append(shard)
        return over

    def coming(self, most: int) -> list[int]:
        """The shards whose use begins next."""
        found: list[int] = self._shard[self._next : self._next + most].tolist()
        return found
