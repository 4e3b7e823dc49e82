"""What is judged, brought to one shape: runs of records by position, for as many epochs as there are."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tombola._ints import Ints, check_bounds
from tombola.errors import InputError
from tombola.order import Layout, Order, OrderSpec, Permutation
from tombola.plan import Plan

BATCH_SIZE_DEFAULT = 64
READ_AT_ONCE = 1 << 20  # positions of recorded ids that are converted to 64 bits at a time
_SHARDS_A_LANE = 2  # fewer than this, and lanes read parts of shards more than shards
SHARDS_DRAWN_MAX = 1 << 24  # over all epochs, and over all seeds


class Source(Protocol):
    """Positions → records of one epoch after another. `stretches` says which shards are open when, if it is known."""

    name: str
    layout: Layout
    positions: int
    epochs: int
    readers: int
    run: int
    lanes: int
    #: False where shards are only a scale that was chosen to look at, so that they explain nothing.
    shards_given: bool
    #: True for an order that may read a record several times in an epoch, or not at all, because its plan says so.
    repeats: bool

    def read(self, start: int, stop: int, epoch: int) -> Ints:
        """The records at positions start … stop − 1."""

    def places(self, records: Ints, epoch: int) -> Ints | None:
        """A position of each record; None when that cannot be told."""

    def stretches(self, epoch: int) -> tuple[Ints, Ints, Ints] | None:
        """(size in records, first position, last position) of each stretch a shard is open for, if known cheaply."""

    def parts(self) -> Layout | None:
        """The layout with its shards cut as the lanes cut them, where lanes cut so many that shards say little."""

    def reseeded(self, by: int) -> Source | None:
        """The same with another seed; None when there is none."""


@dataclass
class OrderSource:
    """An order, or the order of a plan dealt to the plan's ranks."""

    order: Order
    first_epoch: int
    epochs: int
    readers: int = 1
    shards_given: bool = True

    def __post_init__(self) -> None:
        self.name = f"{_title(self.order.spec)}, seed {self.order.seed}"
        self.layout = self.order.layout
        self.positions = len(self.order)
        self.run = self.order.run
        self.lanes = self.order.lanes
        self.repeats = type(self.order)._find_all is not Order._find_all

    def read(self, start: int, stop: int, epoch: int) -> Ints:
        return self.order.slice(start, stop, self.first_epoch + epoch)

    def places(self, records: Ints, epoch: int) -> Ints | None:
        positions, starts = self.order.find_all(records, self.first_epoch + epoch)
        times = np.diff(starts)
        if (times == 0).any():
            return None
        if (times == 1).all():
            return positions
        # One of its positions, drawn anew for each epoch and seed: the first of three comes earlier than the only one.
        rng = np.random.default_rng([self.order.seed % (1 << 63), self.first_epoch + epoch])
        drawn: Ints = positions[starts[:-1] + rng.integers(0, times)]
        return drawn

    def stretches(self, epoch: int) -> tuple[Ints, Ints, Ints] | None:
        if type(self.order).visits is Order.visits:  # the slow one reads the whole epoch
            return None
        v = self.order.visits(self.first_epoch + epoch)
        return v.record_stop - v.record_start, v.first, v.last

    def parts(self) -> Layout | None:
        if self.layout.filled_starts.size - 1 >= _SHARDS_A_LANE * self.lanes or self.stretches(0) is None:
            return None
        cuts = np.unique(np.concatenate([self.layout.starts, self.order.visits(self.first_epoch).record_start]))
        sizes = np.diff(cuts)
        if sizes.size == self.layout.filled_starts.size - 1:
            return None
        streams = self.layout.streams
        return Layout(sizes, streams=None if streams is None else streams[self.layout.locate(cuts[:-1])[0]])

    def reseeded(self, by: int) -> Source | None:
        other = self.order.spec.over(self.layout, seed=self.order.seed + by)
        return OrderSource(other, self.first_epoch, self.epochs, self.readers)


def _title(spec: OrderSpec) -> str:
    """The options that were given, as they were written; what stayed as it was is left out."""
    given = (f for f in dataclasses.fields(spec) if f.repr and getattr(spec, f.name) != f.default)
    return f"{type(spec).__name__}({', '.join(f'{f.name}={getattr(spec, f.name)!r}' for f in given)})"


class IdsSource:
    """Recorded ids: one row an epoch."""

    run = 1
    lanes = 1
    repeats = False

    def __init__(self, ids: Ints, layout: Layout, name: str, readers: int, *, shards_given: bool = True) -> None:
        self.shards_given = shards_given
        self.tied_rows = 0.0
        self.ids = ids
        self.layout = layout
        self.name = name
        self.epochs, self.positions = ids.shape
        self.readers = readers

    def read(self, start: int, stop: int, epoch: int) -> Ints:
        return np.ascontiguousarray(self.ids[epoch, start:stop], np.int64)

    def places(self, records: Ints, epoch: int) -> Ints | None:
        wanted = np.zeros(self.layout.records, np.bool_)
        wanted[records] = True
        rising = np.unique(records)
        out = np.full(rising.size, -1, np.int64)
        # In pieces, for ids may fill most of the memory; from the end, so that the first of several positions stays.
        for start in reversed(range(0, self.positions, READ_AT_ONCE)):
            row = self.ids[epoch, start : start + READ_AT_ONCE]
            at = np.flatnonzero(wanted[row])[::-1]
            out[np.searchsorted(rising, row[at])] = start + at
        found = out[np.searchsorted(rising, records)]
        return None if (found < 0).any() else found

    def stretches(self, epoch: int) -> tuple[Ints, Ints, Ints] | None:
        return None

    def parts(self) -> Layout | None:
        return None

    def reseeded(self, by: int) -> Source | None:
        return None


def open_source(
    subject: Any,
    *,
    layout: Layout | None,
    before: npt.ArrayLike | None,
    epoch: int,
    epochs: int,
    readers: int | None,
    seed: int = 0,
) -> tuple[Source, int]:
    """The source of whatever a user may pass, and its own batch size (0 when it has none)."""
    if isinstance(subject, (Plan, Order)):
        if layout is not None or before is not None:
            raise InputError("an order or plan knows its layout; leave out layout and before")
        shards = subject.layout.shards if isinstance(subject, Order) else subject.order.layout.shards
        epochs = min(epochs, max(2, SHARDS_DRAWN_MAX // max(1, shards)))  # each epoch draws the order of all shards
        if isinstance(subject, Order):
            return OrderSource(subject, epoch, epochs, readers or 1), subject.batch_size or 0
        if readers is not None:
            raise InputError("a plan knows its ranks; leave out ranks")
        return OrderSource(subject.order, epoch, epochs, subject.world.readers), subject.batch_size
    if isinstance(subject, OrderSpec):
        raise InputError(
            f"{_title(subject)} has no layout yet; score({type(subject).__name__}(…).over(layout, seed=…))"
        )
    if epoch:
        raise InputError("epoch chooses an epoch of an order or plan; recorded ids have one row for each epoch")
    if layout is not None and not isinstance(layout, Layout):
        raise InputError(f"layout is a {type(layout).__name__}; give a Layout: Layout(sizes), the records per shard")
    tied, shards_given = 0.0, layout is not None
    if before is not None:
        ids, tied = _matched(_array(before, "before"), _array(subject, "after"), seed)
        if layout is None:
            # An array in memory has no shards. Neighbourhoods of √n take their place: they show what is left of the
            # old order at the scale where a partial shuffle leaves most of it.
            size = max(1, round(ids.size**0.5))
            layout = Layout([*[size] * (ids.size // size), *([ids.size % size] if ids.size % size else [])])
        name = f"array of {ids.size} rows, before and after"
    else:
        given = _array(subject, "ids")
        if given.ndim not in (1, 2) or given.size == 0:
            raise InputError(
                f"score takes an order, a plan, ids of one epoch (or one row an epoch), or an array with before=; "
                f"got {type(subject).__name__} of shape {given.shape}"
            )
        ids = given if given.ndim == 2 else given[None, :]
        if ids.dtype.kind not in "iu":
            raise InputError(f"ids have dtype {ids.dtype}; they must be whole numbers: the records in reading order")
        if layout is None:
            raise InputError("recorded ids need layout=, the records per shard they were read from: Layout(sizes)")
        for row in ids:
            check_bounds(row, "record", layout.records, InputError)
        name = f"{ids.shape[1]} recorded ids" + (f", {ids.shape[0]} epochs" if ids.shape[0] > 1 else "")
    rows = ids if ids.ndim == 2 else ids[None, :]
    if rows.shape[1] and layout.records != rows.shape[1] and before is not None:
        raise InputError(f"the layout has {layout.records} records, the arrays {rows.shape[1]}; they must agree")
    source = IdsSource(rows, layout, name, readers or 1, shards_given=shards_given)
    source.tied_rows = tied
    return source, 0


def _array(given: Any, name: str) -> npt.NDArray[Any]:
    if isinstance(given, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array; fill or leave out what is masked: a shuffle reads every row")
    try:
        return np.asarray(given)
    except ValueError as problem:
        raise InputError(f"{name} is no array: its rows differ in length ({problem}); give rows of one shape") from None


def _matched(before: npt.NDArray[Any], after: npt.NDArray[Any], seed: int) -> tuple[Ints, float]:
    """Where each row of `after` was in `before`, and the share of rows that equal another.

    Equal rows are matched in a random order, drawn with the seed: their own order would look like what is left of it.
    """
    if before.shape != after.shape or before.dtype != after.dtype or before.ndim == 0:
        raise InputError(
            f"before ({before.dtype}, shape {before.shape}) and after ({after.dtype}, shape {after.shape}) differ in "
            f"kind; give the same array twice, unshuffled and shuffled"
        )
    if before.ndim > 1:
        before, after = (_rows_as_one(a) for a in (before, after))
    try:
        old, new = np.argsort(before, kind="stable"), np.argsort(after, kind="stable")
    except TypeError as problem:
        raise InputError(
            f"the rows of before and after cannot be compared ({problem}); give rows of one kind"
        ) from None
    ordered, nan = before[old], before.dtype.kind in "fc"
    if not np.array_equal(ordered, after[new], equal_nan=nan):
        raise InputError("after is no permutation of before: some rows are only in one of them, or not as often")
    differs = ordered[1:] != ordered[:-1]
    if nan:
        differs &= ~(np.isnan(ordered[1:]) & np.isnan(ordered[:-1]))
    group = np.concatenate([[0], np.cumsum(np.asarray(differs, np.bool_))])
    counts = np.bincount(group)
    if before.size > 1 and counts.size == 1:
        raise InputError(f"all {before.size} rows of before are equal; no shuffle of them can be told from another")
    tied = float(counts[counts > 1].sum() / before.size) if before.size else 0.0
    if tied:
        drawn = Permutation(before.size, seed, "quality/ties").slice(0, before.size)
        new = new[np.lexsort((drawn, group))]
    out = np.empty(before.size, np.int64)
    out[new] = old
    return out, tied


def _rows_as_one(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    flat = np.ascontiguousarray(array.reshape(array.shape[0], -1))
    if flat.dtype.kind == "O":
        raise InputError("rows of Python objects cannot be compared byte for byte; give numbers or one column")
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).reshape(-1)
