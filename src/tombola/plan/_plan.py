"""The plan: an order, dealt to the ranks of a world in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tombola._ints import Ints, integer
from tombola.errors import CursorError, PlanError
from tombola.order import Order
from tombola.plan import _needs
from tombola.plan._cursor import Cursor
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
        if tail not in get_args(Tail):
            raise PlanError(f"tail is {tail!r}; it must be one of {', '.join(get_args(Tail))}")
        self.order = order
        self.world = World() if world is None else world
        self.tail: Tail = tail
        self.fingerprint: dict[str, Any] = {**order.fingerprint, "tail": tail}
        if cursor is not None:
            cursor.check(self.fingerprint)
        self._steps = Steps(len(order), tail, _history(batch_size, cursor))
        #: (epoch, step) of the first batch.
        self.start: tuple[int, int] = (0, 0) if cursor is None else self._place(cursor)
        self._check_sizes()

    def _place(self, cursor: Cursor) -> tuple[int, int]:
        if cursor.position >= len(self.order):
            raise CursorError(
                f"the cursor stands at position {cursor.position}, past the {len(self.order)} of an epoch"
            )
        step = self._steps.step_of(cursor.epoch, cursor.position)
        if step is None:  # the rest is less than a batch and tail="drop" leaves it out
            return cursor.epoch + 1, 0
        if self._steps.span(cursor.epoch, step).start != cursor.position:
            raise CursorError(f"the cursor stands at position {cursor.position}, in the middle of a batch")
        return cursor.epoch, step

    def _check_sizes(self) -> None:
        unit = self.world.readers * self.order.run
        fixed = self.order.batch_size
        current = [size for epoch, position, size in self._steps.changes if (epoch, position) >= self._since()]
        for size in current:
            if size % unit:
                near = [n for n in (size - size % unit, size - size % unit + unit) if n]
                runs = f" in runs of {self.order.run}" if self.order.run > 1 else ""
                raise PlanError(
                    f"batch_size {size} cannot be shared out evenly among {self.world.readers} ranks{runs}; "
                    f"the nearest sizes that can are {' and '.join(map(str, near))}"
                )
            if fixed is not None and size != fixed:
                raise PlanError(
                    f"the order {self.order.spec.name!r} is made for batches of {fixed}, not of {size}; "
                    f"use batch_size={fixed}"
                )

    def _since(self) -> tuple[int, int]:
        """Where the size in force at the start was set: earlier ones belong to worlds of the past."""
        epoch, step = self.start
        here = (epoch, self._steps.span(epoch, step).start)
        return max(change[:2] for change in self._steps.changes if change[:2] <= here)

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
        world, run = self.world, self.order.run
        epoch = self._epoch(epoch)
        span = self._steps.span(epoch, step)
        if run == 1:
            first = span.start + (world.reader - span.start) % world.readers
            return self._rows(epoch, step, span, first, world.readers, None)
        turn = np.arange(span.start, span.start + span.size, dtype=np.int64)
        return self._rows(epoch, step, span, 0, 0, turn[turn // run % world.readers == world.reader])

    def global_batch(self, step: int, epoch: int | None = None) -> Rows:
        """All ranks' rows of a batch, in the order of their positions."""
        epoch = self._epoch(epoch)
        span = self._steps.span(epoch, step)
        return self._rows(epoch, step, span, span.start, 1, None)

    def _rows(self, epoch: int, step: int, span: Span, first: int, stride: int, turns: Ints | None) -> Rows:
        """Rows at positions first, first + stride, …, or at `turns`, with the tail policy applied."""
        if turns is None:
            positions = np.arange(first, span.stop, stride, dtype=np.int64)
            records = self.order.slice(min(first, span.stop), span.stop, epoch, step=stride)
            missing = np.arange(first + positions.size * stride, span.start + span.size, stride, dtype=np.int64)
        else:
            positions, missing = turns[turns < span.stop], turns[turns >= span.stop]
            records = self.order.at(positions, epoch)
        mask = np.ones(positions.size, np.bool_)
        if missing.size and self.tail == "pad":
            # The same rows of the batch before: their shards are still at hand, and the choice is the same in any
            # world. A first batch that is not full repeats itself.
            source = missing - span.size if span.start >= span.size else missing % len(self.order)
            positions = np.concatenate([positions, source])
            records = np.concatenate([records, self.order.at(source, epoch)])
            mask = np.concatenate([mask, np.zeros(source.size, np.bool_)])
        return Rows(epoch, step, records, positions, positions % self.order.lanes, mask, self.cursor(step + 1, epoch))

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
        integer(step, f"step (of {count} in epoch {epoch})", 0, count, PlanError)
        epoch, position = (epoch + 1, 0) if step == count else (epoch, self._steps.span(epoch, step).start)
        return Cursor(epoch, position, self._steps.changes, self.fingerprint)

    # ---- provenance

    def where(self, record: int, epoch: int | None = None) -> list[Place]:
        """Every place an epoch reads a record at."""
        epoch = self._epoch(epoch)
        places = []
        for position in self.order.find(record, epoch).tolist():
            reader = position // self.order.run % self.world.readers
            step, row = self._steps.step_of(epoch, position), None
            if step is not None:
                before = np.arange(self._steps.span(epoch, step).start, position)
                row = int(np.count_nonzero(before // self.order.run % self.world.readers == reader))
            places.append(Place(epoch, position, step, reader * self.world.replication, row))
        return places

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
        return _needs.of_readers(*self._uses(epoch, mine))

    def _uses(self, epoch: int | None, mine: range) -> tuple[_needs.Uses, range, _needs.Uses]:
        epoch = self._epoch(epoch)
        now, then = (_needs.uses(self.order, self.world, e, self._steps.end(e)) for e in (epoch, epoch + 1))
        return now, mine, then

    def locality(self, epoch: int | None = None) -> Locality:
        """Shards fetched, summed over nodes, ÷ shards: for an epoch on empty nodes, and for the one after it."""
        now, _, then = self._uses(epoch, range(0))
        shards = self.order.layout.filled_starts.size - 1
        return _needs.locality(self.world, shards, now, then)

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
