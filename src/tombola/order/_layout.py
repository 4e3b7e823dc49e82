"""The layout: only the integers of a dataset, records per shard."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from tombola._ints import Ints, IntsLike, flat_array, integer, integers
from tombola.errors import LayoutError

_RECORDS_MAX = 2**62
_SHARDS_MAX = 2**32 - 1


class Layout:
    """Records per shard, and the stream each shard belongs to when there are several.

    Record r of the dataset lies in the shard s with ``starts[s] <= r < starts[s + 1]``. Empty shards are legal.
    Kept as one array of 64-bit running sums, whatever the number of shards.

    >>> layout = Layout([3, 0, 2])
    >>> layout.shards, layout.records
    (3, 5)
    >>> layout.locate([2, 3])[0].tolist()
    [0, 2]
    """

    def __init__(self, sizes: IntsLike, *, streams: IntsLike | None = None) -> None:
        given = flat_array(sizes, "shard size", LayoutError)
        if given.ndim != 1:
            raise LayoutError(f"the shard sizes have {given.ndim} dimensions; give a flat list or array")
        if given.size > _SHARDS_MAX:
            raise LayoutError(f"{given.size} shards are more than the {_SHARDS_MAX} a layout can hold")
        starts = np.zeros(given.size + 1, np.int64)
        self._all_filled = False
        if given.size:
            low, high = int(given.min()), int(given.max())
            if low < 0:
                raise LayoutError(f"shard {int(given.argmin())} has {low} records; give 0 for an empty shard")
            # The float sum guards the exact one against wrapping round; most layouts cannot.
            if high * given.size > _RECORDS_MAX and float(given.sum(dtype=np.float64)) > 1.001 * _RECORDS_MAX:
                raise LayoutError(f"the shards hold more than 2^62 = {_RECORDS_MAX} records")
            np.cumsum(given, out=starts[1:], dtype=np.int64)
            if starts[-1] > _RECORDS_MAX:
                raise LayoutError(f"the shards hold {starts[-1]} records, more than 2^62 = {_RECORDS_MAX}")
            self._all_filled = low > 0
        starts.flags.writeable = False
        self._starts: Ints = starts
        self._streams: Ints | None = None
        if streams is not None:
            of_shard = integers(streams, "stream", 2**31, LayoutError)
            if of_shard.shape != given.shape:
                raise LayoutError(f"{of_shard.size} streams were given for {given.size} shards; give one for each")
            self._streams = of_shard.copy()
            self._streams.flags.writeable = False

    @classmethod
    def equal(cls, shards: int, records_per_shard: int) -> Layout:
        """A layout of equal shards.

        >>> Layout.equal(4, 100).records
        400
        """
        count = integer(shards, "shards", 0, _SHARDS_MAX, LayoutError)
        size = integer(records_per_shard, "records_per_shard", 0, _RECORDS_MAX, LayoutError)
        return cls(np.full(count, size, np.int64))

    @classmethod
    def joined(cls, layouts: Iterable[Layout]) -> Layout:
        """Several datasets as the streams of one: the records of each come after those of the ones before it.

        A part that has streams of its own keeps them, numbered on.

        >>> layout = Layout.joined([Layout([5, 5]), Layout([3])])
        >>> layout.records, layout.streams.tolist()
        (13, [0, 0, 1])
        """
        if isinstance(layouts, Layout) or not isinstance(layouts, Iterable):
            raise LayoutError(f"joined takes a list of layouts, not {layouts!r}")
        layouts = list(layouts)
        streams, count = [np.empty(0, np.int64)], 0
        for part in layouts:
            if not isinstance(part, Layout):
                raise LayoutError(f"a part is a {type(part).__name__}; joined takes a list of layouts")
            own = np.zeros(part.shards, np.int64) if part.streams is None else part.streams
            streams.append(own + count)
            count += int(own.max(initial=0)) + 1
        sizes = [np.empty(0, np.int64), *(part.sizes for part in layouts)]
        return cls(np.concatenate(sizes), streams=np.concatenate(streams))

    @classmethod
    def _of_units(cls, sizes: Ints) -> Layout:
        """A layout whose empty shards count as filled: they keep their place among the others."""
        layout = cls(sizes)
        layout._all_filled = True
        return layout

    @property
    def shards(self) -> int:
        """How many shards there are, the empty ones included."""
        return self._starts.size - 1

    @property
    def records(self) -> int:
        """How many records there are in all."""
        return int(self._starts[-1])

    @property
    def starts(self) -> Ints:
        """The first record of each shard, and one more entry for the end. Read-only."""
        return self._starts

    @property
    def sizes(self) -> Ints:
        """Records per shard."""
        return np.diff(self._starts)

    @property
    def streams(self) -> Ints | None:
        """The stream of each shard; None when there is only one."""
        return self._streams

    @cached_property
    def filled(self) -> Ints | None:
        """The shards that hold records; None when all of them do."""
        return None if self._all_filled else np.flatnonzero(self.sizes)

    @cached_property
    def filled_starts(self) -> Ints:
        """`starts` without the empty shards."""
        if self.filled is None:
            return self._starts
        kept = np.append(self._starts[self.filled], self._starts[-1])
        kept.flags.writeable = False
        return kept

    def locate(self, records: IntsLike) -> tuple[Ints, Ints]:
        """The shard of each record, and the record's place in that shard."""
        given = integers(records, "record", self.records, LayoutError)
        shard = np.searchsorted(self._starts, given, side="right") - 1
        return shard, given - self._starts[shard]

    @cached_property
    def digest(self) -> str:
        """A hash of the sizes and streams: equal layouts have equal digests."""
        state = hashlib.blake2b(b"tombola:layout:1:", digest_size=16)
        state.update(np.ascontiguousarray(self._starts, "<i8").data)
        if self._streams is not None:
            state.update(b":streams:" + np.ascontiguousarray(self._streams, "<i8").tobytes())
        return state.hexdigest()

    def __len__(self) -> int:
        return self.shards

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Layout) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Layout of {self.records} records in {self.shards} shards>"

    def __getstate__(self) -> dict[str, Any]:
        return {"_starts": self._starts, "_streams": self._streams, "_all_filled": self._all_filled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for array in (self._starts, self._streams):
            if array is not None:
                array.flags.writeable = False
