"""Streams woven together lane by lane, each running through its own passes: what mixtures and batchings share.

Lane c of the whole reads lane c of one stream after the other, so a shard is open in as few places as it would be if
its stream were read alone. Which stream a place reads repeats with a pattern; the core counts along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tombola import _core
from tombola._ints import THREADS, Ints
from tombola.errors import OrderError
from tombola.order._lanes import LanesOrder
from tombola.order._layout import Layout
from tombola.order._order import Order, OrderSpec, Visits, check_epoch
from tombola.order._takes import shards_by_stream

_PASSES_AT_ONCE = 256
_PASSES_LISTED_MAX = 2**20  # each takes tables of its own


@dataclass(frozen=True, eq=False)
class Segment:
    """A pattern of streams that holds from a position of the run on."""

    start: int
    #: The stream of each cell: rows of `columns` cells.
    pattern: Ints
    #: The row each lane starts at, in every period when there is no key; with one it is turned on by a word of the key.
    phase: Ints
    columns: int = 1
    #: The column each lane starts with, and how many columns on it goes in the next period.
    column: Ints | None = None
    stride: int = 1
    key: int | None = None
    carry: bool = False


class WovenOrder(Order):
    """Several orders of as many lanes each, woven into one.

    `strands[i]` is the order of stream i over a layout of that stream's shards alone, listed once or several times
    over; None for a stream that is never read. Without streams there is one strand, over the layout itself.
    """

    def __init__(
        self,
        spec: OrderSpec,
        layout: Layout,
        seed: int,
        strands: Sequence[Order | None],
        segments: Sequence[Segment],
        *,
        epoch_records: int,
        run: int = 1,
        block: int = 1,
        batch_size: int | None = None,
    ) -> None:
        super().__init__(spec, layout, seed)
        self._strands = list(strands)
        used = [strand for strand in strands if strand is not None]
        self.lanes, self.run, self.batch_size = used[0].lanes, run, batch_size
        self._records = epoch_records
        lengths = [self.lanes if strand is None else len(strand) for strand in strands]
        self._weave = _core.Weave(self.lanes, run, block, epoch_records, lengths)
        lane = np.arange(self.lanes)
        self._kept: dict[tuple[int, int], _core.LaneEpoch] = {}
        #: Places in a pass: a row a lane, a column a stream.
        self._pass_places: Ints = np.stack([n // self.lanes + (lane < n % self.lanes) for n in lengths], axis=1)
        self._set_shards()
        for segment in segments:
            self._weave.add_segment(
                np.ascontiguousarray(segment.pattern, np.int64).reshape(-1),
                columns=segment.columns,
                stride=segment.stride,
                start=self._blocks_before(segment.start, block),
                phase=segment.phase,
                column=np.zeros(self.lanes, np.int64) if segment.column is None else segment.column,
                key=segment.key,
                carry=segment.carry,
            )

    def _set_shards(self) -> None:
        """Which shards each stream has, and what its records are called in its own layout."""
        layout, starts = self._layout, self._layout.starts
        if len(self._strands) == 1:
            self._shards = [np.arange(layout.shards)]
        else:
            streams = np.zeros(layout.shards, np.int64) if layout.streams is None else layout.streams
            self._shards = shards_by_stream(streams)
            self._shards += [np.empty(0, np.int64)] * (len(self._strands) - len(self._shards))
        self._own_start: Ints = np.zeros(layout.shards, np.int64)
        self._stream_records = []
        for stream, own in enumerate(self._shards):
            ends = np.cumsum(layout.sizes[own])
            self._own_start[own] = ends - layout.sizes[own]
            self._stream_records.append(int(ends[-1]) if ends.size else 0)
            filled = own[layout.sizes[own] > 0]
            if self._strands[stream] is not None:
                records = self._stream_records[stream]
                self._weave.set_shards(stream, self._own_start[filled], starts[filled], records)

    def _blocks_before(self, position: int, block: int) -> Ints:
        """How many blocks each lane reads before a position of the run."""
        epoch, t = divmod(position, self._records)
        run, lanes = self.run, self.lanes
        whole, over = divmod(self._records // run, lanes)
        runs, inside = divmod(t, run)
        places = []
        for lane in range(lanes):
            of_epoch = (whole + (lane < over)) * run
            rest = (runs // lanes + (lane < runs % lanes)) * run + (inside if lane == runs % lanes else 0)
            places.append(epoch * of_epoch + rest)
        if any(place % block for place in places):
            raise OrderError(
                f"the weights change at position {position}, in the middle of what has to come from one stream; "
                f"use a multiple of {block * lanes if run == 1 else run}"
            )
        if max(places) >= 2**62:
            raise OrderError(f"the weights change at position {position}; it must be below 2^62")
        return np.array([place // block for place in places], np.int64)

    def __len__(self) -> int:
        return self._records

    def _epoch(self, epoch: int) -> int:
        if (check_epoch(epoch) + 1) * self._records > 2**62:
            raise OrderError(f"epoch is {epoch}; with {self._records} positions each, the run is over 2^62 by then")
        return epoch

    # ---- positions → records

    def _at(self, positions: Ints, epoch: int) -> Ints:
        stream, turn, at = (np.empty_like(positions) for _ in range(3))
        self._weave.map(positions, self._epoch(epoch), stream, turn, at, THREADS)
        out = np.empty_like(positions)
        by = np.lexsort((turn, stream))
        new = np.flatnonzero(np.append(True, (np.diff(stream[by]) != 0) | (np.diff(turn[by]) != 0)))
        for group in np.split(by, new[1:]) if by.size else ():
            number = int(stream[group[0]])
            out[group] = self._records_of(number, self._strand(number)._at(at[group], int(turn[group[0]])))
        return out

    def _strand(self, stream: int) -> Order:
        strand = self._strands[stream]
        if strand is None:
            raise OrderError(f"stream {stream} is never read")
        return strand

    def _records_of(self, stream: int, own: Ints) -> Ints:
        values = np.ascontiguousarray(own)
        self._weave.to_records(stream, values)
        return values

    def _slice(self, start: int, stop: int, step: int, epoch: int) -> Ints:
        native = all(strand is None or isinstance(strand, LanesOrder) for strand in self._strands)
        count = len(range(start, stop, step))
        if not native or self.run > 1 or self.lanes % step or not count:
            return super()._slice(start, stop, step, epoch)
        first, end = self._spans(start, stop, self._epoch(epoch))
        # Two passes of each stream there may be in any slice, however short.
        passes_max = max(_PASSES_AT_ONCE, 2 * len(self._strands))
        if int((end - first).max(axis=0).sum()) > passes_max and count > self.lanes:
            middle = start + count // 2 * step  # small streams: not all of their passes at the same time
            halves = self._slice(start, middle, step, epoch), self._slice(middle, stop, step, epoch)
            return np.concatenate(halves)
        kept: dict[tuple[int, int], _core.LaneEpoch] = {}
        sources = []
        for stream, (strand, turns) in enumerate(zip(self._strands, _met(first, end), strict=True)):
            if isinstance(strand, LanesOrder):
                for turn in turns:
                    kept[stream, turn] = self._kept.get((stream, turn)) or strand._epoch(turn)
                sources.append((turns, [kept[stream, turn] for turn in turns]))
            else:
                sources.append(([], []))
        # What the next slice of a run will want too: in small streams the lanes stand in many different passes.
        self._kept = kept
        out = np.empty(count, np.int64)
        self._weave.slice(start, step, epoch, sources, out, THREADS)
        return out

    def _counts(self, epoch: int, position: int) -> Ints:
        """Places of each stream's lanes that are read before a position: a row a lane, a column a stream."""
        out = np.empty(self.lanes * len(self._strands), np.int64)
        self._weave.counts(epoch, position, out)
        return out.reshape(self.lanes, -1)

    def _spans(self, start: int, stop: int, epoch: int) -> tuple[Ints, Ints]:
        """The pass of each stream (a column) that each lane (a row) begins with here, and the one after its last."""
        before, after = self._counts(epoch, start), self._counts(epoch, stop)
        first = before // self._pass_places
        end = np.where(after > before, (after - 1) // self._pass_places + 1, first)
        return first, end

    # ---- records → positions

    def _turns(self, epoch: int) -> list[list[int]]:
        """For each stream, the passes that an epoch meets."""
        first, end = self._spans(0, self._records, epoch)
        most = int((end.max(axis=0) - first.min(axis=0)).sum())
        if most > _PASSES_LISTED_MAX:
            raise OrderError(
                f"an epoch of {self._records} positions goes through some {most} passes of its streams, and what it "
                f"reads when cannot be listed for more than {_PASSES_LISTED_MAX}; choose shorter epochs (at and slice "
                f"answer for any)"
            )
        return _met(first, end)

    def _find_all(self, records: Ints, epoch: int) -> tuple[Ints, Ints]:
        shard, place = self._layout.locate(records)
        own = self._own_start[shard] + place
        streams = self._layout.streams
        stream = np.zeros_like(shard) if streams is None or len(self._strands) == 1 else streams[shard]
        turns = self._turns(self._epoch(epoch))
        asked, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for number in np.unique(stream).tolist():
            strand = self._strands[number]
            if strand is None:
                continue
            mine = np.flatnonzero(stream == number)
            copies = strand.layout.records // self._stream_records[number]
            many = (own[mine, None] + np.arange(copies) * self._stream_records[number]).reshape(-1)
            for turn in turns[number]:
                at, starts = strand.find_all(many, turn)
                position = self._positions(number, at % self.lanes, at // self.lanes, turn, epoch)
                asked.append(np.repeat(np.repeat(mine, copies), np.diff(starts))[position >= 0])
                found.append(position[position >= 0])
        of, positions = np.concatenate(asked), np.concatenate(found)
        by = np.lexsort((positions, of))
        return positions[by], np.append(0, np.cumsum(np.bincount(of, minlength=records.size)))

    def _positions(self, stream: int, lane: Ints, place: Ints, turn: int, epoch: int) -> Ints:
        """Where the places of a stream's lanes in one of its passes come in an epoch; −1 when they do not."""
        out = np.empty(lane.size, np.int64)
        places = turn * self._pass_places[lane, stream] + place
        self._weave.unmap(stream, np.ascontiguousarray(lane), np.ascontiguousarray(places), epoch, out)
        return out

    # ---- for readers

    def visits(self, epoch: int = 0) -> Visits:
        """When each part of each shard is needed: a visit for each pass of its stream that the epoch meets."""
        begin = self._counts(self._epoch(epoch), 0)
        end = self._counts(epoch, self._records)
        turns = self._turns(epoch)
        parts = [
            self._visits_of_pass(stream, turn, epoch, begin[:, stream], end[:, stream])
            for stream, strand in enumerate(self._strands)
            if strand is not None
            for turn in turns[stream]
        ]
        joined = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
        by = np.lexsort((joined[4], joined[0]))
        return Visits(*(column[by] for column in joined))

    def _visits_of_pass(self, stream: int, turn: int, epoch: int, begin: Ints, end: Ints) -> tuple[Ints, ...]:
        """Those parts of a pass that lie in the epoch, as the columns of Visits."""
        found = self._strand(stream).visits(turn)
        before = turn * self._pass_places[found.lane, stream]
        first = np.maximum(before + found.first // self.lanes, begin[found.lane])
        last = np.minimum(before + found.last // self.lanes, end[found.lane] - 1)
        met = first <= last
        lane, own = found.lane[met], found.shard[met] % self._shards[stream].size
        shard = self._shards[stream][own]
        start = found.record_start[met]
        start = start % self._stream_records[stream] - self._own_start[shard] + self._layout.starts[shard]
        stop = start + (found.record_stop - found.record_start)[met]
        ends = []
        for places in (first[met], last[met]):
            out = np.empty(lane.size, np.int64)
            self._weave.unmap(stream, np.ascontiguousarray(lane), np.ascontiguousarray(places), epoch, out)
            ends.append(out)
        return lane, shard, start, stop, ends[0], ends[1]


def _met(first: Ints, end: Ints) -> list[list[int]]:
    """For each stream, the passes that some lane meets, from those that each lane begins and ends with."""
    found = []
    for stream, (low, high) in enumerate(zip(first.min(axis=0).tolist(), end.max(axis=0).tolist(), strict=True)):
        if high - low <= 2:  # nearly always: lanes go through their passes side by side
            found.append(list(range(low, high)))
            continue
        edges, change = np.unique(np.concatenate([first[:, stream], end[:, stream]]), return_inverse=True)
        steps = np.bincount(change[: len(first)], minlength=edges.size) - np.bincount(change[len(first) :])
        is_open = np.cumsum(steps)[:-1] > 0
        spans = zip(edges[:-1][is_open].tolist(), edges[1:][is_open].tolist(), strict=True)
        found.append([turn for begin, close in spans for turn in range(begin, close)])
    return found
