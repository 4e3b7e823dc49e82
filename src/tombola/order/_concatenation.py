"""Concatenation: the shards of all streams, repeated as asked, in one line under one order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tombola import _core
from tombola._ints import THREADS, Ints, integer
from tombola.errors import OrderError
from tombola.order._keys import derive_key
from tombola.order._lanes import Lanes
from tombola.order._layout import Layout
from tombola.order._nested import base_over, spec_of, spec_to_json
from tombola.order._order import Order, OrderSpec, Visits, check_epoch, register
from tombola.order._passes import check_epoch_records, in_passes
from tombola.order._takes import Take, exact, largest_remainders, shards_by_stream, stream_sizes

_EPOCHS_KEPT = 2  # the one being read and the one being prepared
_UNITS_MAX = 2**32 - 1


@register("concatenation")
@dataclass(frozen=True)
class Concatenation(OrderSpec):
    """The shards of all streams in one line; each repeat of a shard, the last fractional one included, on its own.

    takes
        How much of each stream an epoch takes, one `Take` a stream; every record once when there are none.
    granularity
        A fraction of a stream is made of picks of so many records from one shard: with as many as a shard holds, half
        a stream is every other shard instead of half of each.
    sampling
        Which records a fraction consists of: "balanced", others in each epoch; "fixed", always the same.
    epoch_records
        An epoch of another length, cut from whole passes: no record of the pass is missed for ever. See `Passes`.
    base
        The order of the line.

    >>> layout = Layout.joined([Layout.equal(4, 10), Layout.equal(2, 10)])
    >>> order = Concatenation(takes=(Take(), Take(repeat=1.5)), base=Lanes(lanes=4)).over(layout, seed=7)
    >>> len(order), len(order.find(0)), 1 <= len(order.find(45)) <= 2
    (70, 1, True)
    """

    takes: tuple[Take, ...] = ()
    granularity: int = 1
    sampling: Literal["balanced", "fixed"] = "balanced"
    epoch_records: int | None = None
    base: OrderSpec = field(default_factory=Lanes)

    def __post_init__(self) -> None:
        if isinstance(self.takes, (str, Mapping)) or not isinstance(self.takes, Sequence):
            raise OrderError(f"takes is {self.takes!r}; give a list with a Take for each stream")
        object.__setattr__(self, "takes", tuple(Take.of(take) for take in self.takes))
        object.__setattr__(self, "base", spec_of(self.base, "base"))
        granularity = integer(self.granularity, "granularity", 1, 2**62, OrderError)
        object.__setattr__(self, "granularity", granularity)
        if self.sampling not in ("balanced", "fixed"):
            raise OrderError(f"sampling is {self.sampling!r}; it must be 'balanced' or 'fixed'")
        relative = [take.proportion is not None for take in self.takes]
        if any(relative) and not all(relative):
            raise OrderError("some streams have a proportion and others do not; give all of them one, or none")
        if any(relative) and not any(take.proportion for take in self.takes):
            raise OrderError("the proportions are all zero; one at least must be above 0")
        if self.epoch_records is not None:
            object.__setattr__(self, "epoch_records", check_epoch_records(self.epoch_records))

    def options(self) -> dict[str, Any]:
        """The options as plain JSON."""
        return {
            "takes": [take.to_json() for take in self.takes],
            "granularity": self.granularity,
            "sampling": self.sampling,
            "epoch_records": self.epoch_records,
            "base": spec_to_json(self.base),
        }

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout whose `streams` say which shard is of which stream."""
        whole = _ConcatenationOrder(dataclasses.replace(self, epoch_records=None), layout, seed)
        if self.epoch_records is None:
            return whole
        spec = dataclasses.replace(self, base=whole.resolved.base)
        return in_passes(spec, whole, self.epoch_records)

    def counts(self, layout: Layout) -> list[int]:
        """How many records of each stream a pass takes.

        >>> layout = Layout([30, 10], streams=[0, 1])
        >>> Concatenation(takes=(Take(proportion=1), Take(proportion=1))).counts(layout)
        [20, 20]
        """
        there = stream_sizes(layout)
        takes = self.takes or (Take(),) * len(there)
        if len(takes) < len(there):
            raise OrderError(f"takes has {len(takes)} entries for {len(there)} streams; give one for each")
        streams = len(there)
        if any(any(take.to_json().values()) for take in takes[streams:]):
            raise OrderError(
                f"takes has {len(takes)} entries for {streams} streams; give each one, and nothing but Take() or "
                f"Take(repeat=0) to one without shards"
            )
        there += [0] * (len(takes) - streams)
        for stream, take in enumerate(takes):
            if not there[stream] and any(take.to_json().values()):
                raise OrderError(f"stream {stream} holds no records, so nothing can be taken of it; leave it out")
        if takes[0].proportion is not None:
            shares = [exact(take.proportion, "proportion") for take in takes]
            counts = largest_remainders(sum(there), shares)
        else:
            counts = [take.records(size) for take, size in zip(takes, there, strict=True)]
        if not 0 < sum(counts) <= 2**62:
            raise OrderError(f"an epoch would have {sum(counts)} records; it must have 1 to 2^62")
        return counts


@dataclass(frozen=True)
class _Line:
    """The units of an epoch: each whole repeat of each shard, then its fraction, shard after shard."""

    base: Order
    native: _core.Units
    starts: Ints
    fractions: Ints


class _ConcatenationOrder(Order):
    _spec: Concatenation

    def __init__(self, spec: Concatenation, layout: Layout, seed: int) -> None:
        super().__init__(spec, layout, seed)
        self._streams_of_units(spec.counts(layout))
        self._lines: dict[int | None, _Line] = {}
        base = self._line(0).base
        self.resolved = self._spec = dataclasses.replace(spec, base=base.spec)
        self.lanes, self.run, self.batch_size = base.lanes, base.run, base.batch_size

    def _streams_of_units(self, counts: list[int]) -> None:
        """What is the same in every epoch. Only shards that hold records have units: the *filled* ones."""
        layout = self._layout
        filled = np.arange(layout.shards) if layout.filled is None else layout.filled
        streams = np.zeros(layout.shards, np.int64) if layout.streams is None else layout.streams
        self._filled: Ints = filled
        self._sizes: Ints = layout.sizes[filled]
        wholes, self._fraction_of_stream = np.zeros(filled.size, np.int64), []
        has_fraction = np.zeros(filled.size, bool)
        units = 0
        for stream, (count, own) in enumerate(zip(counts, shards_by_stream(streams[filled]), strict=False)):
            if not own.size:
                continue
            repeats, rest = divmod(count, int(self._sizes[own].sum()))
            units += own.size * (repeats + (rest > 0))
            if units > _UNITS_MAX:
                raise OrderError(f"stream {stream} comes {repeats} times: more than 2^32 repeats of shards in all")
            wholes[own], has_fraction[own] = repeats, rest > 0
            if rest:
                self._fraction_of_stream.append((stream, own, rest))
        per_shard = wholes + has_fraction
        self._wholes: Ints = wholes
        self._first_unit: Ints = np.append(0, np.cumsum(per_shard))
        self._unit_shard: Ints = np.repeat(np.arange(filled.size), per_shard)
        self._fraction_unit: Ints = (self._first_unit[:-1] + wholes)[has_fraction]
        self._records = sum(counts)

    def __len__(self) -> int:
        return self._records

    # ---- the line of an epoch

    def _line(self, epoch: int) -> _Line:
        changes = bool(self._fraction_of_stream) and self._spec.sampling == "balanced"
        at = epoch if changes else None
        made = self._lines.get(at)
        if made is None:  # no lock, which a fork could leave held: the dictionary is replaced, never changed
            made = self._made(() if at is None else (at,))
            self._lines = dict([*self._lines.items(), (at, made)][-_EPOCHS_KEPT:])
        return made

    def _made(self, epoch: tuple[int, ...]) -> _Line:
        fractions = np.zeros(self._filled.size, np.int64)
        for stream, own, rest in self._fraction_of_stream:
            key = derive_key(self._seed, "concatenation/fraction", stream, *epoch)
            out = np.empty(own.size, np.int64)
            _core.deal_fractions(self._sizes[own], rest, self._spec.granularity, key, out)
            fractions[own] = out
        sizes = self._sizes[self._unit_shard]
        sizes[self._fraction_unit] = fractions[self._unit_shard[self._fraction_unit]]
        whole = np.ones(sizes.size, np.uint8)
        whole[self._fraction_unit] = 0
        layout = Layout._of_units(sizes)
        key = derive_key(self._seed, "concatenation/records", *epoch)
        native = _core.Units(layout.starts, self._unit_shard, whole, self._layout.filled_starts, key)
        base = base_over(self._spec.base, layout, self._seed, "a concatenation")
        return _Line(base, native, layout.starts, fractions)

    # ---- ints → ints

    def _at(self, positions: Ints, epoch: int) -> Ints:
        line = self._line(epoch)
        return self._records_of(line, line.base._at(positions, epoch))

    def _slice(self, start: int, stop: int, step: int, epoch: int) -> Ints:
        line = self._line(epoch)
        return self._records_of(line, line.base._slice(start, stop, step, epoch))

    def _records_of(self, line: _Line, on_line: Ints) -> Ints:
        out = np.empty_like(on_line)
        line.native.at(on_line, out, THREADS)
        return out

    def _find_all(self, records: Ints, epoch: int) -> tuple[Ints, Ints]:
        line = self._line(epoch)
        shard = np.searchsorted(self._layout.filled_starts, records, side="right") - 1
        offset = records - self._layout.filled_starts[shard]
        place = np.empty_like(records)
        line.native.find_in_fraction(shard, offset, place)
        taken = place < line.fractions[shard]
        counts = self._wholes[shard] + taken
        ends = np.cumsum(counts)
        turn = np.arange(counts.sum()) - np.repeat(ends - counts, counts)
        asked = np.repeat(np.arange(records.size), counts)
        is_whole = turn < self._wholes[shard[asked]]
        on_line = line.starts[self._first_unit[shard[asked]] + turn] + np.where(is_whole, offset[asked], place[asked])
        positions, starts = line.base.find_all(on_line, epoch)
        starts = starts[np.append(0, ends)]
        by = np.lexsort((positions, np.repeat(np.arange(records.size), np.diff(starts))))
        return positions[by], starts

    # ---- for readers

    def visits(self, epoch: int = 0) -> Visits:
        """When each repeat of each shard is needed; of a fraction the bounds are those of its shard."""
        line = self._line(check_epoch(epoch))
        of_units = line.base.visits(epoch)
        used = of_units.record_start < of_units.record_stop
        unit = of_units.shard[used]
        shard = self._unit_shard[unit]
        shift = self._layout.filled_starts[shard] - line.starts[unit]
        start, stop = of_units.record_start[used] + shift, of_units.record_stop[used] + shift
        if self._fraction_unit.size:
            is_fraction = self._first_unit[shard] + self._wholes[shard] == unit
            start = np.where(is_fraction, self._layout.filled_starts[shard], start)
            stop = np.where(is_fraction, self._layout.filled_starts[shard + 1], stop)
        lane, first, last = of_units.lane[used], of_units.first[used], of_units.last[used]
        return Visits(lane, self._filled[shard], start, stop, first, last)
