"""Several steps of a plan at once: one question to the order instead of one for each batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tombola._ints import Ints
from tombola.plan import Plan


@dataclass(frozen=True, eq=False)
class Stretch:
    """The rows of steps first, first + stride, … of one reader, back to back."""

    epoch: int
    steps: range
    #: The record and the position of each row.
    records: Ints
    positions: Ints
    #: Row bounds of each step: those of steps[i] are bounds[i]…bounds[i + 1] − 1.
    bounds: tuple[int, ...]
    #: False for rows that only pad; None where there are none such.
    mask: npt.NDArray[np.bool_] | None
    #: Positions of the epoch, of all ranks, that these steps span.
    low: int
    high: int

    def __len__(self) -> int:
        return self.records.size

    def part(self, number: int) -> Stretch:
        """The rows of one of its steps."""
        cut = slice(self.bounds[number], self.bounds[number + 1])
        step = self.steps[number]
        mask = None if self.mask is None else self.mask[cut]
        rows = cut.stop - cut.start
        steps = range(step, step + 1)
        return Stretch(self.epoch, steps, self.records[cut], self.positions[cut], (0, rows), mask, self.low, self.high)


def stretches(plan: Plan, epoch: int, first: int, stride: int, rows_max: int) -> Iterator[Stretch]:
    """Steps first, first + stride, … of an epoch, several at a time: one at first, then ever more up to `rows_max`
    rows, so that the first batch is there at once. Equal to `Plan.batch` of each step.
    """
    count, step, rows = plan.steps(epoch), first, 1
    force = _Force(plan, epoch)
    while step < count:
        found = _several(plan, force, step, stride, count, rows)
        yield found
        step = found.steps[-1] + stride
        rows = min(rows_max, max(2 * len(found), 1))


class _Force:
    """Where a step begins and the batch size in force there: asked of the plan once for each batch size."""

    def __init__(self, plan: Plan, epoch: int) -> None:
        self.epoch = epoch
        self._plan = plan
        self._end = len(plan.order)
        self._known: tuple[int, int, int, int] | None = None

    def __call__(self, step: int) -> tuple[int, int, int]:
        """The position of a step, its batch size, and the position up to which that holds in this epoch."""
        if self._known is not None:
            first, position, size, until = self._known
            here = position + (step - first) * size
            if here + size <= until:
                return here, size, until
        start = self._plan.cursor(step, self.epoch)
        size, until = _in_force(start.batch_sizes, self.epoch, start.position, self._end)
        self._known = step, start.position, size, until
        return start.position, size, until


def _several(plan: Plan, force: _Force, step: int, stride: int, count: int, rows_max: int) -> Stretch:
    order, world, epoch = plan.order, plan.world, force.epoch
    position, size, until = force(step)
    full = min((until - position) // size, count - step)
    if order.run > 1 or full == 0:
        return _one(plan, epoch, step)
    share = size // world.readers
    steps = range(step, step + full, stride)[: max(1, rows_max // share)]
    low, high = position, position + (steps[-1] - step + 1) * size
    # Each rank's share of a batch is every readers-th position, and a batch is a whole number of such rounds: the
    # rows of consecutive batches are one arithmetic sequence.
    begin = low + (world.reader - low) % world.readers
    if stride == 1:
        positions = np.arange(begin, high, world.readers, dtype=np.int64)
        records = order.slice(begin, high, epoch, step=world.readers)
    else:
        jumps = [begin + (one - step) * size for one in steps]
        turn = np.arange(share, dtype=np.int64) * world.readers
        positions = (np.array(jumps, np.int64)[:, None] + turn).reshape(-1)
        last = (share - 1) * world.readers + 1
        records = np.concatenate([order.slice(at, at + last, epoch, step=world.readers) for at in jumps])
    bounds = tuple(range(0, len(steps) * share + 1, share))
    return Stretch(epoch, steps, records, positions, bounds, None, low, high)


def _one(plan: Plan, epoch: int, step: int) -> Stretch:
    """The slow twin: one step, as the plan deals it."""
    rows = plan.batch(step, epoch)
    mask = None if rows.mask.all() else rows.mask
    low = plan.cursor(step, epoch).position
    high = max(low, int(rows.positions.max()) if len(rows) else low) + 1
    return Stretch(epoch, range(step, step + 1), rows.records, rows.positions, (0, len(rows)), mask, low, high)


def _in_force(changes: tuple[tuple[int, int, int], ...], epoch: int, position: int, end: int) -> tuple[int, int]:
    """The batch size at a place, and the position up to which it holds in this epoch."""
    here = (epoch, position)
    size = next(size for e, p, size in reversed(changes) if (e, p) <= here)
    until = min((p for e, p, _ in changes if e == epoch and p > position), default=end)
    return size, until
