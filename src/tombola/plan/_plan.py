"""The plan: an order, dealt to the ranks of a world in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tombola._ints import Ints, integer
from tombola.errors import CursorError, PlanError
from tombola.order import Order
from tombola.plan import _needs
from tombola.plan._cursor import Cursor, frozen
from tombola.plan._needs import Locality, Needs
from tombola.plan._steps import Change, Span, Steps, Tail, check_changes
from tombola.plan._world import World

BatchSize = int | Sequence[tuple[int, int, int]]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one batch: of one rank, or of all of them."""

    epoch: int
    step: int
    #: The record of each row.
    records: Ints
    #: The position of the epoch each row comes from.
    positions: Ints
    #: The lane of each row.
    lanes: Ints
    #: False for rows that only pad the last batch.
    mask: npt.NDArray[np.bool_]
    #: Where to go on after this batch.
    cursor: Cursor

    def __len__(self) -> int:
        return self.records.size


@dataclass(frozen=True)
class Place:
    """Where a record is read: a position, and the batch, rank and row it falls to."""

    epoch: int
    position: int
    #: The batch, counted from the start of the epoch; None when tail="drop" leaves the position out.
    step: int | None
    #: The rank (the first one of its replicas) in this plan's world.
    rank: int
    #: The row within that rank's batch; None when the position is left out.
    row: int | None
    #: True for a row that only pads the last batch of the epoch.
    padding: bool = False


class Plan:
    """An order × a world × a batch size: which records each rank reads in each step, and which shards that takes.

    `batch_size` is the global batch, shared out among the readers of the world, or a list of (epoch, position, size)
    changes. `tail` says what becomes of the last records of an epoch that fill no batch: "drop" leaves them out (in
    the next epoch others are left out), "pad" repeats rows of the batch before under a mask, "short" gives what there
    is, which may be no row at all on some ranks. Every rank has the same number of batches in any case.

    With a `cursor` the plan goes on from there; world and batch size may differ from what they were.

    >>> from tombola.order import Lanes, Layout
    >>> order = Lanes(lanes=4).over(Layout.equal(8, 100), seed=7)
    >>> plan = Plan(order, World(rank=0, ranks=2), batch_size=64)
    >>> plan.steps(), len(plan.batch(0)), len(plan.global_batch(0))
    (12, 32, 64)
    >>> cursor = plan.batch(4).cursor
    >>> plan = Plan(order, World(), batch_size=32, cursor=cursor)
    >>> plan.start
    (0, 5)
    """

    def __init__(
        self,
        order: Order,
        world: World | None = None,
        batch_size: BatchSize | None = None,
        *,
        tail: Tail = "drop",
        cursor: Cursor | None = None,
    ) -> None:
        if not isinstance(order, Order):
            raise PlanError(f"a plan needs an order over a layout, not {order!r}; try Lanes().over(layout, seed=…)")
        if world is not None and not isinstance(world, World):
            raise PlanError(f"world is {world!r}; give a tombola.World(rank=…, ranks=…)")
        if tail not in get_args(Tail):
            raise PlanError(f"tail is {tail!r}; it must be one of {', '.join(get_args(Tail))}")
        if cursor is not None and not isinstance(cursor, Cursor):
            raise CursorError(f"a {type(cursor).__name__} is no cursor; try Cursor.from_dict or Cursor.from_json")
        self._order = order
        self._world = World() if world is None else world
        self._tail: Tail = tail
        self._fingerprint: Mapping[str, Any] = frozen({**order.fingerprint, "tail": tail})
        self._start = (0, 0)
        if cursor is not None:
            self._check_cursor(cursor)
        self._steps = Steps(len(order), tail, _history(batch_size, cursor))
        if cursor is not None:
            step = self._steps.step_of(cursor.epoch, cursor.position)
            # No step: the rest of the epoch is less than a batch, and tail="drop" leaves it out.
            self._start = (cursor.epoch + 1, 0) if step is None else (cursor.epoch, step)
        self._check_sizes()

    def _check_cursor(self, cursor: Cursor) -> None:
        """Refuse a cursor of another order, or one that stands where no batch ends."""
        cursor.check(self.fingerprint)
        epoch, position = cursor.epoch, cursor.position
        if position >= len(self.order):
            raise CursorError(f"the cursor stands at position {position}, past the {len(self.order)} of an epoch")
        try:
            past = Steps(len(self.order), self.tail, cursor.batch_sizes)
        except PlanError as problem:
            raise CursorError(f"the cursor's batch sizes do not fit its order: {problem}") from None
        step = past.step_of(epoch, position)
        if position and (step is None or past.span(epoch, step).start != position):
            raise CursorError(f"the cursor stands at position {position} of epoch {epoch}, where no batch begins")

    def _check_sizes(self) -> None:
        epoch, step = self.start
        here = (epoch, self._steps.span(epoch, step).start)
        current = [self._steps.size_at(*here)] + [size for e, p, size in self._steps.changes if (e, p) > here]
        for size in current:
            if size % self._unit:
                near = [n for n in (size - size % self._unit, size - size % self._unit + self._unit) if n]
                runs = f" in runs of {self.order.run}" if self.order.run > 1 else ""
                raise PlanError(
                    f"batch_size {size} cannot be shared out evenly among {self.world.readers} ranks{runs}; "
                    f"the nearest sizes that can are {' and '.join(map(str, near))}"
                )
            if self.order.batch_size is not None and size != self.order.batch_size:
                raise PlanError(
                    f"the order {self.order.spec.name!r} is made for batches of {self.order.batch_size}, "
                    f"not of {size}; use batch_size={self.order.batch_size}"
                )

    @property
    def _unit(self) -> int:
        """What a batch must be a multiple of for every reader to have the same share."""
        return self.world.readers * self.order.run

    # ---- what it is made of

    @property
    def order(self) -> Order:
        """The order."""
        return self._order

    @property
    def world(self) -> World:
        """The world, and which part of it this plan is for."""
        return self._world

    @property
    def tail(self) -> Tail:
        """What becomes of the last records of an epoch that fill no batch."""
        return self._tail

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What a cursor of this plan must agree with. Read-only."""
        return self._fingerprint

    @property
    def start(self) -> tuple[int, int]:
        """(epoch, step) of the first batch."""
        return self._start

    # ---- batches

    @property
    def batch_size(self) -> int:
        """The global batch size at the start of this plan."""
        epoch, step = self.start
        return self._steps.span(epoch, step).size

    def steps(self, epoch: int | None = None) -> int:
        """How many batches an epoch has, on every rank alike."""
        return self._steps.count(self._epoch(epoch))

    def _epoch(self, epoch: int | None) -> int:
        return self.start[0] if epoch is None else integer(epoch, "epoch", 0, None, PlanError)

    def batch(self, step: int, epoch: int | None = None) -> Rows:
        """This rank's rows of a batch; the epoch is the one the plan starts in unless given."""
        epoch, step, span = self._span(step, epoch)
        if span.size % self._unit:
            raise PlanError(
                f"step {step} of epoch {epoch} was read in a batch of {span.size}, which {self.world.readers} ranks "
                f"cannot share out: it belongs to another world; global_batch and what still answer for it"
            )
        return self._rows(epoch, step, span, self._mine(span.start, span.stop, self.world.reader), self.world.reader)

    def global_batch(self, step: int, epoch: int | None = None) -> Rows:
        """All ranks' rows of a batch, in the order of their positions."""
        epoch, step, span = self._span(step, epoch)
        return self._rows(epoch, step, span, range(span.start, span.stop), None)

    def _span(self, step: int, epoch: int | None) -> tuple[int, int, Span]:
        epoch = self._epoch(epoch)
        count = self._steps.count(epoch)
        step = integer(step, f"step (of {count} in epoch {epoch})", 0, count - 1, PlanError)
        return epoch, step, self._steps.span(epoch, step)

    def _mine(self, start: int, stop: int, reader: int) -> range | Ints:
        """The positions start…stop−1 that a reader reads."""
        readers, run = self.world.readers, self.order.run
        if run == 1:
            return range(start + (reader - start) % readers, stop, readers)
        turns: Ints = np.arange(start, stop, dtype=np.int64)
        mine: Ints = turns[turns // run % readers == reader]
        return mine

    def _rows(self, epoch: int, step: int, span: Span, mine: range | Ints, reader: int | None) -> Rows:
        """Rows at the given positions, with the tail policy applied to those that are missing from the batch."""
        if isinstance(mine, range):
            positions = np.arange(mine.start, mine.stop, mine.step, dtype=np.int64)
            first = min(mine.start, span.stop)
            records = self.order.slice(first, span.stop, epoch, step=mine.step)
        else:
            positions, records = mine, self.order.at(mine, epoch)
        mask = np.ones(positions.size, np.bool_)
        if self.tail == "pad" and span.stop - span.start < span.size:
            missing, source = self._padding(span)
            if reader is not None:
                source = source[missing // self.order.run % self.world.readers == reader]
            positions = np.concatenate([positions, source])
            records = np.concatenate([records, self.order.at(source, epoch)])
            mask = np.concatenate([mask, np.zeros(source.size, np.bool_)])
        cursor = self.cursor(step + 1, epoch)
        return Rows(epoch, step, records, positions, self.order.lane_of(positions), mask, cursor)

    def _padding(self, span: Span) -> tuple[Ints, Ints]:
        """The positions a last batch lacks, and the positions whose records stand in for them.

        They are the same rows of the batch before: their shards are at hand, their readers the same, and the choice
        is the same in any world. A batch with no such batch before it goes round what there is, each reader among
        its own positions if it has any.
        """
        missing = np.arange(span.stop, span.start + span.size, dtype=np.int64)
        if span.start >= span.size:
            return missing, missing - span.size
        whole = span.stop // self._unit * self._unit
        return missing, missing % (whole or span.stop)

    def rows(self, epoch: int | None = None) -> Iterator[Rows]:
        """This rank's batches of an epoch, from the start of the plan on; a worker takes every workers-th.

        >>> from tombola.order import Layout, Sequential
        >>> plan = Plan(Sequential().over(Layout([6])), World(rank=1, ranks=2), batch_size=2)
        >>> [rows.records.tolist() for rows in plan.rows()]
        [[1], [3], [5]]
        """
        epoch = self._epoch(epoch)
        first = self.start[1] if epoch == self.start[0] else 0
        for step in range(first + self.world.worker, self._steps.count(epoch), self.world.workers):
            yield self.batch(step, epoch)

    def cursor(self, step: int = 0, epoch: int | None = None) -> Cursor:
        """The place before a step; after the last step of an epoch that is the start of the next."""
        epoch = self._epoch(epoch)
        count = self._steps.count(epoch)
        step = integer(step, f"step (of {count} in epoch {epoch})", 0, count, PlanError)
        epoch, position = (epoch + 1, 0) if step == count else (epoch, self._steps.span(epoch, step).start)
        return Cursor(epoch, position, self._steps.changes, self.fingerprint)

    # ---- provenance

    def where(self, record: int, epoch: int | None = None) -> list[Place]:
        """Every place an epoch reads a record at, in this plan's world: rows that only pad the last batch come last."""
        epoch = self._epoch(epoch)
        places = []
        for position in self.order.find(record, epoch).tolist():
            step = self._steps.step_of(epoch, position)
            start = None if step is None else self._steps.span(epoch, step).start
            places.append(self._place(epoch, position, position, step, start))
        count = self._steps.count(epoch)
        span = self._steps.span(epoch, count - 1)
        if self.tail == "pad" and span.stop - span.start < span.size:
            missing, source = self._padding(span)
            for again in np.flatnonzero(self.order.at(source, epoch) == record).tolist():
                turn = int(missing[again])
                places.append(self._place(epoch, int(source[again]), turn, count - 1, span.start))
        return places

    def _place(self, epoch: int, position: int, turn: int, step: int | None, start: int | None) -> Place:
        """The place of a position that is read in its own turn, or in a missing one's."""
        reader = turn // self.order.run % self.world.readers
        row = None
        if start is not None:
            row = len(self._mine(start, turn, reader))
        return Place(epoch, position, step, reader * self.world.replication, row, turn != position)

    def what(self, step: int, epoch: int | None = None) -> Ints:
        """The records of a batch, of all ranks, without padding.

        >>> from tombola.order import Layout, Sequential
        >>> Plan(Sequential().over(Layout([6])), batch_size=2).what(2).tolist()
        [4, 5]
        """
        rows = self.global_batch(step, epoch)
        return rows.records[rows.mask]

    def run_step(self, step: int, epoch: int | None = None) -> int:
        """A step of an epoch, counted from the start of the run: the number a training log shows."""
        epoch = self._epoch(epoch)
        self._steps.span(epoch, step)
        return self._steps.before(epoch) + step

    def locate(self, run_step: int) -> tuple[int, int]:
        """(epoch, step) of a step counted from the start of the run.

        >>> from tombola.order import Layout, Sequential
        >>> Plan(Sequential().over(Layout([6])), batch_size=2).locate(4)
        (1, 1)
        """
        return self._steps.locate(run_step)

    # ---- shards

    def needs(self, epoch: int | None = None, *, scope: Literal["rank", "node"] = "rank") -> Needs:
        """The shards this rank, or this node, reads in an epoch, and when."""
        world = self.world
        if scope not in ("rank", "node"):
            raise PlanError(f"scope is {scope!r}; it must be 'rank' or 'node'")
        mine = range(world.reader, world.reader + 1)
        if scope == "node":
            mine = _needs.readers_of_node(world, world.node or 0)
        epoch = self._epoch(epoch)
        now, following = (_needs.uses_of(self._dealt(e), mine) for e in (epoch, epoch + 1))
        return _needs.needs(now, following)

    def locality(self, epoch: int | None = None) -> Locality:
        """Shards fetched, summed over nodes, ÷ shards: for an epoch on empty nodes, and for the one after it."""
        epoch = self._epoch(epoch)
        return _needs.locality(self._dealt(epoch), self._dealt(epoch + 1))

    def _dealt(self, epoch: int) -> _needs.Dealt:
        """The visits of an epoch, and who else reads what to pad its last batch."""
        span = self._steps.span(epoch, self._steps.count(epoch) - 1)
        padding = None
        if self.tail == "pad" and span.stop - span.start < span.size:
            missing, source = self._padding(span)
            shards, _ = self.order.layout.locate(self.order.at(source, epoch))
            reader = missing // self.order.run % self.world.readers
            first = np.full_like(reader, span.start)
            padding = _needs.Uses(reader, shards, first, np.full_like(reader, span.stop - 1))
        return _needs.Dealt(self.order, self.world, self.order.visits(epoch), self._steps.end(epoch), padding)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of this combination: never errors, always about locality or padding."""
        lanes, readers = self.order.lanes, self.world.readers
        notes = []
        if readers > 1 and not _needs.reads_lane(self.order, self.world):
            if lanes < readers:
                notes.append(
                    f"{readers} ranks share {lanes} lanes, so a shard is read by about {readers / lanes:.3g} ranks; "
                    f"use at least {readers} lanes for each rank to have its own"
                )
            else:
                notes.append(
                    f"{readers} ranks do not divide {lanes} lanes, so lanes are shared and nodes fetch more than their "
                    f"share; a multiple of {readers} lanes keeps each lane on one rank"
                )
        return tuple(notes)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fingerprint": None}  # a read-only view cannot be pickled, and follows from the order

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._fingerprint = frozen({**self._order.fingerprint, "tail": self._tail})

    def __repr__(self) -> str:
        return f"Plan({self.order!r}, {self.world!r}, batch_size={self.batch_size}, tail={self.tail!r})"


def _history(batch_size: BatchSize | None, cursor: Cursor | None) -> list[Change]:
    """All changes of the batch size: those of the cursor, and the one that begins there."""
    if cursor is None:
        if batch_size is None:
            raise PlanError("batch_size is missing: give the global batch, over all ranks")
        return check_changes(batch_size)
    past = list(cursor.batch_sizes)
    if batch_size is None:
        return past
    here = (cursor.epoch, cursor.position)
    kept = [change for change in past if change[:2] < here]
    if isinstance(batch_size, int) or not isinstance(batch_size, Sequence):
        size = check_changes(batch_size)[0][2]
        return [*kept, (*here, size)]
    given = check_changes(batch_size)
    in_force = [change for change in given if change[:2] <= here][-1:]
    return [*kept, *[(*here, change[2]) for change in in_force], *[c for c in given if c[:2] > here]]
