"""The default order: C lanes read side by side, one shard open in each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tombola import _core
from tombola._ints import THREADS, Ints, integer
from tombola.errors import OrderError
from tombola.order._keys import derive_key
from tombola.order._layout import Layout
from tombola.order._order import Order, OrderSpec, Visits, check_epoch, register

LANES_DEFAULT = 64
# A lane keeps its records in every epoch (homes="fixed"), so a default lane should have some to shuffle.
_LANE_RECORDS_LEAST = 4
_LANES_MAX = 2**24  # their tables take some 50 bytes a lane
_EPOCHS_KEPT = 2  # the one being read and the one being prepared


@register("lanes")
@dataclass(frozen=True)
class Lanes(OrderSpec):
    """C lanes, each walking its own shards one after the other; a batch takes from each lane in turn.

    At any moment one shard a lane is open (2·window shards a lane with a window), whatever the number of ranks.

    lanes
        C. Give at most one of `lanes`, `radius_records` and `memory_bytes`; the default is 64. What is not
        given outright is kept so low that a lane has at least 4 records to shuffle.
    radius_records
        How many records the open shards should hold together: C follows from the mean shard.
    memory_bytes, record_bytes
        How many bytes the open shards may hold together: C is the largest number for which even the largest shards,
        of records of `record_bytes`, fit.
    homes
        "fixed": the lane a shard belongs to never changes, so a node that keeps its share fetches nothing in later
        epochs. "fresh": drawn anew each epoch.
    phase
        Every lane starts at a keyed place of its ring, so that no record is more likely than another at either end
        of the epoch. "spread": lane c besides about c/C of a shard ahead, so that equal shards do not all end together.
        "none": without that.
    window
        Mix this many consecutive shards of a lane: for shards whose neighbours are alike.
    window_records
        The same with a fixed number of records instead of shards.

    >>> order = Lanes(lanes=4).over(Layout.equal(8, 100), seed=7)
    >>> batch = order.slice(0, 4)
    >>> len(set(order.layout.locate(batch)[0].tolist()))
    4
    >>> order.find(order.at(123, epoch=2), epoch=2).tolist()
    [123]
    """

    lanes: int | None = None
    radius_records: int | None = None
    memory_bytes: int | None = None
    record_bytes: int | None = None
    homes: Literal["fixed", "fresh"] = "fixed"
    phase: Literal["spread", "none"] = "spread"
    window: int | None = None
    window_records: int | None = None

    def __post_init__(self) -> None:
        for name in ("lanes", "window"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, integer(getattr(self, name), name, 1, _LANES_MAX, OrderError))
        for name in ("radius_records", "memory_bytes", "record_bytes", "window_records"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, integer(getattr(self, name), name, 1, 2**62, OrderError))
        ways = [name for name in ("lanes", "radius_records", "memory_bytes") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise OrderError(f"{' and '.join(ways)} each decide the number of lanes; give one of them")
        if (self.memory_bytes is None) != (self.record_bytes is None):
            raise OrderError("memory_bytes and record_bytes go together: the budget and the size of one record")
        if self.window is not None and self.window_records is not None:
            raise OrderError("window counts shards and window_records counts records; give one of them")
        if self.homes not in ("fixed", "fresh"):
            raise OrderError(f"homes is {self.homes!r}; it must be 'fixed' or 'fresh'")
        if self.phase not in ("spread", "none"):
            raise OrderError(f"phase is {self.phase!r}; it must be 'spread' or 'none'")

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout with a seed; the number of lanes becomes a plain integer."""
        return LanesOrder(self, layout, seed)

    def _resolved(self, layout: Layout) -> Lanes:
        return Lanes(
            lanes=self._count(layout),
            homes=self.homes,
            phase=self.phase,
            window=self.window,
            window_records=self.window_records,
        )

    def _count(self, layout: Layout) -> int:
        records, most = layout.records, min(layout.records, _LANES_MAX)
        if self.lanes is not None:
            if self.lanes > most:
                raise OrderError(
                    f"lanes is {self.lanes}, but there are only {records} records and a lane needs one; "
                    f"use lanes={most} or fewer"
                )
            return self.lanes
        filled = layout.filled_starts.size - 1
        wanted = LANES_DEFAULT
        if self.radius_records is not None:
            reach = 2 * self.window_records if self.window_records else self._open_shards(layout) * records / filled
            wanted = min(math.ceil(self.radius_records / reach), filled)
        elif self.memory_bytes is not None and self.record_bytes is not None:
            wanted = self._fitting(layout, filled, self.memory_bytes, self.record_bytes)
        return max(1, min(wanted, most // _LANE_RECORDS_LEAST))

    def _open_shards(self, layout: Layout) -> int:
        """How many shards one lane may hold open."""
        if self.window_records is not None:
            filled = layout.filled_starts.size - 1
            return max(2, math.ceil(2 * self.window_records * filled / layout.records) + 1)
        return 2 * self.window if self.window else 1

    def _fitting(self, layout: Layout, filled: int, memory_bytes: int, record_bytes: int) -> int:
        """The most lanes for which even the largest shards fit the memory together."""
        each = self._open_shards(layout)
        largest = np.sort(layout.sizes)[::-1]
        fit = int(np.searchsorted(np.cumsum(largest, dtype=np.float64) * record_bytes, memory_bytes, side="right"))
        if fit < min(each, filled):
            raise OrderError(
                f"memory_bytes is {memory_bytes}, but one lane needs {int(largest[:each].sum()) * record_bytes} bytes "
                f"to hold its {min(each, filled)} largest shard(s); give more memory or write smaller shards"
            )
        return fit // each if fit < filled else filled


class LanesOrder(Order):
    """What `Lanes.over` makes."""

    _spec: Lanes

    def __init__(self, spec: Lanes, layout: Layout, seed: int) -> None:
        super().__init__(spec, layout, seed)
        self._spec = spec._resolved(layout)
        self.lanes = self._spec.lanes or 1
        self._home_line: _core.Line | None = None
        self._epochs: dict[int, _core.LaneEpoch] = {}

    def _epoch(self, epoch: int) -> _core.LaneEpoch:
        """The tables of an epoch: O(shards), made on first use, the last two kept.

        No lock, which a fork could leave held: the dictionary is only ever replaced, never changed. Two threads that
        want a new epoch at once both make it.
        """
        made = self._epochs.get(epoch)
        if made is None:
            spec, seed = self._spec, self._seed
            made = _core.LaneEpoch(
                self._line(epoch),
                parts_key=derive_key(seed, "lanes/parts", epoch),
                records_key=derive_key(seed, "lanes/records", epoch),
                window_key=derive_key(seed, "lanes/window", epoch),
                phase_key=derive_key(seed, "lanes/phase", epoch),
                window_shards=spec.window or 0,
                window_records=spec.window_records or 0,
                spread_phases=spec.phase == "spread",
                threads=THREADS,
            )
            kept = [*self._epochs.items(), (epoch, made)]
            self._epochs = dict(kept[-_EPOCHS_KEPT:])
        return made

    def _line(self, epoch: int) -> _core.Line:
        if self._spec.homes == "fresh":
            return self._new_line(derive_key(self._seed, "lanes/home", epoch))
        line = self._home_line
        if line is None:
            line = self._home_line = self._new_line(derive_key(self._seed, "lanes/home"))
        return line

    def _new_line(self, key: int) -> _core.Line:
        return _core.Line(self._layout.filled_starts, self.lanes, key, THREADS)

    def _at(self, positions: Ints, epoch: int) -> Ints:
        out = np.empty_like(positions)
        self._epoch(epoch).at(positions, out, THREADS)
        return out

    def _find(self, records: Ints, epoch: int) -> Ints:
        out = np.empty_like(records)
        self._epoch(epoch).find(records, out, THREADS)
        return out

    def _slice(self, start: int, stop: int, step: int, epoch: int) -> Ints:
        if self.lanes % step:
            return super()._slice(start, stop, step, epoch)
        out = np.empty(len(range(start, stop, step)), np.int64)
        self._epoch(epoch).slice(start, step, out, THREADS)
        return out

    def visits(self, epoch: int = 0) -> Visits:
        lane, unit, start, stop, first, last = self._epoch(check_epoch(epoch)).visits()
        shard = unit if self._layout.filled is None else self._layout.filled[unit]
        return Visits(lane, shard, start, stop, first, last)
