"""Rows to columns, and what to do about rows that cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tombola import _core
from tombola._ints import THREADS, Ints
from tombola.errors import DataError, ShardError, StreamError, TombolaError
from tombola.formats import Ragged, gather
from tombola.order import Order, Permutation
from tombola.stream._batch import Column, Slab
from tombola.stream._dataset import Dataset
from tombola.stream._options import OnError, Reading
from tombola.stream._shelf import Shelf
from tombola.stream._stats import Counters, Substitution
from tombola.stream._stretch import Stretch

_log = logging.getLogger("tombola.stream")

# A substitute comes from the same stretch of an epoch: one round of the lanes, but not fewer positions than this.
_NEIGHBOURS_LEAST = 64


class Reader:
    """Gathers the rows of a stretch out of the shards of a shelf."""

    def __init__(
        self,
        dataset: Dataset,
        order: Order,
        columns: Sequence[str] | None,
        reading: Reading,
        on_error: OnError,
        counters: Counters,
        pool: _core.Pool,
    ) -> None:
        self._dataset = dataset
        self._order = order
        self._pool = pool
        self._names = columns
        self._threads = reading.threads or THREADS
        self._skip = on_error == "skip"
        self._counters = counters
        self.shelf = Shelf(dataset, reading, counters)
        self._bad: set[int] = set()  # records that are known to be unreadable

    def read(self, stretch: Stretch) -> Iterator[Slab]:
        """The rows, in as few slabs as can be. An error is raised where its batch would come, after those before it."""
        self.shelf.advance(stretch.low, stretch.high)
        if self._skip:
            yield self._with_substitutes(stretch)
            return
        try:
            slab = self._slab(stretch)
        except DataError:
            if len(stretch.steps) == 1:
                raise
        else:
            yield slab
            return
        # Somewhere in it a row cannot be read: batches before that one are still good.
        for number in range(len(stretch.steps)):
            yield self._slab(stretch.part(number))

    def _slab(self, stretch: Stretch) -> Slab:
        columns = self.columns(stretch.records)
        return Slab(
            columns, stretch.records, stretch.positions, stretch.mask, stretch.epoch, stretch.steps, stretch.bounds
        )

    def columns(self, records: Ints) -> dict[str, Column]:
        """The columns of records, in that order; an error for the first one that cannot be read."""
        if not records.size:
            return self._empty()
        shards, places, distinct = self._locate(records)
        failed = self.shelf.need(distinct)
        if failed:
            row = int(np.flatnonzero(np.isin(shards, list(failed)))[0])
            raise self._error(failed[int(shards[row])], int(shards[row]), int(places[row]))
        return self._gather(shards, places)

    def _gather(self, shards: Ints, places: Ints) -> dict[str, Column]:
        return gather(self.shelf.shards, shards, places, self._names, threads=self._threads, pool=self._pool)

    def _locate(self, records: Ints) -> tuple[Ints, Ints, list[int]]:
        """The shard of each record and its place there, as `Layout.locate` has them, and the shards without repeats."""
        found: Any = _core.locate(self._dataset.layout.starts, records)
        shards, places, distinct = found
        return shards, places, distinct.tolist()

    def _empty(self) -> dict[str, Column]:
        kinds, out = self._dataset.columns, {}
        for place in kinds.places(self._names):
            kind = kinds.encodings[place]
            column: Column
            if kind.size is None or kind.dtype is None:
                column = Ragged(np.empty(0, np.uint8), np.zeros(1, np.int64), kind)
            else:
                column = np.empty((0, *kind.shape), kind.dtype)
            out[kinds.names[place]] = column
        return out

    @staticmethod
    def _error(error: TombolaError, shard: int, place: int) -> TombolaError:
        """The error of a shard as that of a record in it: a fresh one, for it may be raised more than once."""
        if isinstance(error, DataError):
            found = type(error)(str(error), uri=error.uri, shard=shard, record=place)
            found.__cause__ = error.__cause__
            return found
        return type(error)(str(error))

    # ---- on_error="skip"

    def _with_substitutes(self, stretch: Stretch) -> Slab:
        records = stretch.records
        while True:
            records = self._replace_bad(stretch, records)
            try:
                return self._slab(replace(stretch, records=records))
            except ShardError as error:
                # Every round finds one more bad record, so there is an end to it.
                if error.record is None or error.shard is None:
                    raise
                record = int(self._dataset.layout.starts[error.shard]) + error.record
                if record in self._bad:
                    raise
                self._bad.add(record)

    def _replace_bad(self, stretch: Stretch, records: Ints) -> Ints:
        if not records.size:
            return records
        shards, places, distinct = self._locate(records)
        failed = self.shelf.need(distinct)
        bad = np.isin(shards, list(failed))
        if self._bad:
            bad |= np.isin(records, list(self._bad))
        if not bad.any():
            return records
        records = records.copy()
        for row in np.flatnonzero(bad).tolist():
            reason = failed.get(int(shards[row]))
            if isinstance(reason, StreamError):
                raise reason
            position, record = int(stretch.positions[row]), int(records[row])
            substitute = self._substitute(stretch.epoch, position)
            if substitute is None:
                raise (
                    self._error(reason, int(shards[row]), int(places[row]))
                    if reason
                    else ShardError(
                        f"record {record} cannot be read, nor can any of its neighbours in the epoch", record=record
                    )
                )
            records[row] = substitute
            text = str(reason or "its bytes are damaged")
            self._counters.substituted(Substitution(stretch.epoch, position, record, substitute, text))
            _log.warning(
                "record %d at position %d of epoch %d cannot be read, record %d comes in its place: %s",
                record,
                position,
                stretch.epoch,
                substitute,
                text,
            )
        return records

    def _substitute(self, epoch: int, position: int) -> int | None:
        """Another record of the same round of lanes, the same in any world and for any batch size."""
        order = self._order
        width = order.lanes * -(-_NEIGHBOURS_LEAST // order.lanes)
        begin = min(position // width * width, max(0, len(order) - width))
        neighbours = order.slice(begin, min(begin + width, len(order)), epoch)
        turn = Permutation(len(neighbours), order.seed, "stream/substitute", epoch, position)
        shards, places = self._dataset.layout.locate(neighbours)
        for place in turn.slice(0, len(neighbours)).tolist():
            record, shard = int(neighbours[place]), int(shards[place])
            if record in self._bad or self.shelf.need([shard]):
                continue
            try:
                self._gather(shards[place : place + 1], places[place : place + 1])
            except ShardError:
                self._bad.add(record)
                continue
            return record
        return None

    def close(self) -> None:
        """Lets go of the shards."""
        self.shelf.close()
