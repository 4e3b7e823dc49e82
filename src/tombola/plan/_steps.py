"""Which positions make up which batch, when the batch size may change in mid-run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from tombola._ints import integer
from tombola.errors import PlanError

Tail = Literal["drop", "pad", "short"]
#: (epoch, position, batch size): from that position of that epoch on, batches have that size.
Change = tuple[int, int, int]
_SIZE_MAX = 2**40  # rows of one batch: their numbers alone are 8 TB
_EPOCH_MAX = 2**62


@dataclass(frozen=True)
class Span:
    """The positions start…stop−1 of one batch, and its nominal size: below it the batch is short or padded."""

    start: int
    stop: int
    size: int


@dataclass(frozen=True)
class _Segment:
    """A run of batches of one size within an epoch."""

    first_step: int
    steps: int
    start: int
    stop: int
    size: int


class Steps:
    """Batches of every epoch, from the length of an epoch, the tail policy and the changes of the batch size.

    >>> steps = Steps(100, "short", [(0, 0, 32), (0, 64, 18)])
    >>> [(span.start, span.stop) for span in map(lambda s: steps.span(0, s), range(steps.count(0)))]
    [(0, 32), (32, 64), (64, 82), (82, 100)]
    >>> steps.count(1)
    6
    """

    def __init__(self, records: int, tail: Tail, changes: Sequence[Change]) -> None:
        self.records = records
        self.tail = tail
        merged: list[Change] = []
        for change in changes:
            if not merged or merged[-1][2] != change[2]:
                merged.append(change)
        self.changes = tuple(merged)
        self._at_start = [change[:2] for change in self.changes]
        self._of_epoch: dict[int, list[tuple[int, int]]] = {}
        for epoch, position, size in self.changes:
            self._of_epoch.setdefault(epoch, []).append((position, size))
        self._known: dict[int, list[_Segment]] = {}
        self._check()
        # Batches before each epoch that sees a change: between two of them all epochs are alike.
        self._epochs = sorted(self._of_epoch)
        self._before = [0]
        for here, there in pairwise(self._epochs):
            between = (there - here - 1) * self.count(here + 1) if there > here + 1 else 0
            self._before.append(self._before[-1] + self.count(here) + between)

    def _check(self) -> None:
        if not self.changes or self.changes[0][:2] != (0, 0):
            raise PlanError("the first batch size must hold from position 0 of epoch 0 on")
        for before, after in pairwise(self.changes):
            if after[:2] <= before[:2]:
                raise PlanError(f"the batch-size changes at {before[:2]} and {after[:2]} are not in rising order")
        for epoch, position, _ in self.changes:
            if position >= self.records:
                raise PlanError(
                    f"the batch size changes at position {position} of epoch {epoch}, past the {self.records} records "
                    f"of an epoch"
                )
        for epoch in self._of_epoch:
            self._segments(epoch)
        if self.tail != "drop":
            return
        for (epoch, position, size), following in zip(self.changes, [*self._at_start[1:], None], strict=True):
            holds_at_a_start = position == 0 or following is None or following > (epoch + 1, 0)
            if size > self.records and holds_at_a_start:
                raise PlanError(
                    f"batch_size is {size}, but an epoch has only {self.records} records, so that tail='drop' would "
                    f"drop them all; use a smaller batch or tail='pad' or 'short'"
                )

    def _segments(self, epoch: int) -> list[_Segment]:
        known = self._known.get(epoch)
        if known is None:
            known = self._new_segments(epoch)
            self._known = {**dict(list(self._known.items())[-3:]), epoch: known}
        return known

    def _new_segments(self, epoch: int) -> list[_Segment]:
        size = self.changes[bisect_right(self._at_start, (epoch, 0)) - 1][2]
        marks = [(0, size)] + [(p, b) for p, b in self._of_epoch.get(epoch, []) if p > 0]
        segments: list[_Segment] = []
        step = 0
        for (start, size), (end, _) in pairwise([*marks, (self.records, 0)]):
            steps, over = divmod(end - start, size)
            if end < self.records and over:
                raise PlanError(
                    f"the batch size changes at position {end} of epoch {epoch}, in the middle of a batch of {size} "
                    f"that starts at {start + steps * size}"
                )
            if over and self.tail != "drop":
                steps += 1
            segments.append(_Segment(step, steps, start, min(end, start + steps * size), size))
            step += steps
        return segments

    def count(self, epoch: int) -> int:
        """Batches in an epoch, the same on every rank."""
        last = self._segments(epoch)[-1]
        return last.first_step + last.steps

    def end(self, epoch: int) -> int:
        """The first position of an epoch that is not read: the length of the epoch, or less with tail="drop"."""
        return self._segments(epoch)[-1].stop

    def span(self, epoch: int, step: int) -> Span:
        """The positions of a batch."""
        segments = self._segments(epoch)
        step = integer(step, f"step (of {self.count(epoch)} in epoch {epoch})", 0, self.count(epoch) - 1, PlanError)
        # Of segments that begin at one step only the last has batches: the others are empty.
        segment = segments[bisect_right(segments, step, key=_first_step) - 1]
        start = segment.start + (step - segment.first_step) * segment.size
        return Span(start, min(start + segment.size, self.records), segment.size)

    def step_of(self, epoch: int, position: int) -> int | None:
        """The step that reads a position; None for one that tail="drop" leaves out."""
        segments = self._segments(epoch)
        segment = segments[bisect_right(segments, position, key=_start) - 1]
        step = (position - segment.start) // segment.size
        return segment.first_step + step if step < segment.steps else None

    def size_at(self, epoch: int, position: int) -> int:
        """The batch size in force at a position."""
        return self.changes[bisect_right(self._at_start, (epoch, position)) - 1][2]

    def before(self, epoch: int) -> int:
        """Batches in all epochs before this one."""
        last = bisect_right(self._epochs, epoch) - 1
        here = self._epochs[last]
        if epoch == here:
            return self._before[last]
        return self._before[last] + self.count(here) + (epoch - here - 1) * self.count(here + 1)

    def locate(self, run_step: int) -> tuple[int, int]:
        """(epoch, step in the epoch) of the batch that comes after `run_step` others, counted from epoch 0 on."""
        run_step = integer(run_step, "step of the run", 0, None, PlanError)
        last = bisect_right(self._before, run_step) - 1
        epoch, left = self._epochs[last], run_step - self._before[last]
        if left < self.count(epoch):
            return epoch, left
        further, step = divmod(left - self.count(epoch), self.count(epoch + 1))
        return epoch + 1 + further, step


def _first_step(segment: _Segment) -> int:
    return segment.first_step


def _start(segment: _Segment) -> int:
    return segment.start


def check_changes(batch_size: Any) -> list[Change]:
    """The user's batch size, one number or a list of (epoch, position, size), as changes."""
    if isinstance(batch_size, (list, tuple)):
        if not batch_size:
            raise PlanError("batch_size is an empty list; give a number or (epoch, position, size) entries")
        changes = []
        for entry in batch_size:
            if not isinstance(entry, (list, tuple)) or len(entry) != 3:
                raise PlanError(f"batch_size has the entry {entry!r}; a change is (epoch, position, size)")
            epoch, position, size = entry
            changes.append(
                (
                    integer(epoch, "the epoch of a batch-size change", 0, _EPOCH_MAX, PlanError),
                    integer(position, "the position of a batch-size change", 0, None, PlanError),
                    integer(size, "batch_size", 1, _SIZE_MAX, PlanError),
                )
            )
        return changes
    return [(0, 0, integer(batch_size, "batch_size", 1, _SIZE_MAX, PlanError))]
