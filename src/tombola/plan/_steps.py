"""Which positions make up which batch, when the batch size may change in mid-run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tombola._ints import integer
from tombola.errors import PlanError

Tail = Literal["drop", "pad", "short"]
#: (epoch, position, batch size): from that position of that epoch on, batches have that size.
Change = tuple[int, int, int]


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
        self._check()

    def _check(self) -> None:
        if self.changes[0][:2] != (0, 0):
            raise PlanError("the first batch size must hold from position 0 of epoch 0 on")
        for before, after in zip(self.changes, self.changes[1:], strict=False):
            if after[:2] <= before[:2]:
                raise PlanError(f"the batch-size changes at {before[:2]} and {after[:2]} are not in rising order")
        for epoch, position, size in self.changes:
            if position >= self.records:
                raise PlanError(f"the batch size changes at position {position}, past the {self.records} of an epoch")
            if position and position not in {s.start for s in self._segments(epoch)}:
                raise PlanError(
                    f"the batch size cannot change to {size} at position {position} of epoch {epoch}: "
                    f"no batch ends there"
                )
            if self.tail == "drop" and position == 0 and size > self.records:
                raise PlanError(
                    f"batch_size is {size}, but an epoch has only {self.records} records, so that tail='drop' would "
                    f"drop them all; use a smaller batch or tail='pad' or 'short'"
                )

    def _segments(self, epoch: int) -> list[_Segment]:
        size = next(change[2] for change in reversed(self.changes) if change[:2] <= (epoch, 0))
        marks = [(0, size)] + [(p, b) for e, p, b in self.changes if e == epoch and p > 0]
        segments: list[_Segment] = []
        step = 0
        for i, (start, size) in enumerate(marks):
            end = marks[i + 1][0] if i + 1 < len(marks) else None
            if end is not None:
                steps, over = divmod(end - start, size)
                if over:
                    raise PlanError(
                        f"the batch size changes at position {end} of epoch {epoch}, in the middle of a batch of "
                        f"{size} that starts at {start + steps * size}"
                    )
                stop = end
            else:
                steps, over = divmod(self.records - start, size)
                if over and self.tail != "drop":
                    steps += 1
                stop = min(self.records, start + steps * size)
            segments.append(_Segment(step, steps, start, stop, size))
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
        count = segments[-1].first_step + segments[-1].steps
        step = integer(step, f"step (of {count} in epoch {epoch})", 0, count - 1, PlanError)
        segment = next(s for s in reversed(segments) if s.first_step <= step and s.steps)
        start = segment.start + (step - segment.first_step) * segment.size
        return Span(start, min(start + segment.size, self.records), segment.size)

    def step_of(self, epoch: int, position: int) -> int | None:
        """The step that reads a position; None for one that tail="drop" leaves out."""
        for segment in reversed(self._segments(epoch)):
            if segment.start <= position:
                step = (position - segment.start) // segment.size
                return segment.first_step + step if step < segment.steps else None
        return None

    def before(self, epoch: int) -> int:
        """Batches in all epochs before this one."""
        total, done = 0, 0
        # Between two epochs that see a change all epochs are alike.
        for change_epoch in sorted({e for e, _, _ in self.changes if e < epoch}):
            total += (change_epoch - done) * (self.count(done) if change_epoch > done else 0)
            total += self.count(change_epoch)
            done = change_epoch + 1
        return total + (epoch - done) * (self.count(done) if epoch > done else 0)

    def locate(self, run_step: int) -> tuple[int, int]:
        """(epoch, step in the epoch) of the batch that comes after `run_step` others, counted from epoch 0 on."""
        epoch, left = 0, integer(run_step, "step of the run", 0, None, PlanError)
        last_change = self.changes[-1][0]
        while epoch <= last_change:
            count = self.count(epoch)
            if left < count:
                return epoch, left
            left -= count
            epoch += 1
        further, step = divmod(left, self.count(epoch))
        return epoch + further, step


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
                    integer(epoch, "the epoch of a batch-size change", 0, None, PlanError),
                    integer(position, "the position of a batch-size change", 0, None, PlanError),
                    integer(size, "batch_size", 1, None, PlanError),
                )
            )
        return changes
    return [(0, 0, integer(batch_size, "batch_size", 1, None, PlanError))]
