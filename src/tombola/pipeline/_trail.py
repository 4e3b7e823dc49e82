"""How a step that reads ahead finds its records again.

A state must not hold every record that was read and not yet given out. So a step that reads ahead reads through a
`Trail`, which takes the state of its input every few records. A record is then known by its number, and read again from
the last mark before it. A shuffle's buffer of n records needs about n·(ln s + 0.6) of them for marks s records apart,
since the stretches in which none is left are passed over: a few times the buffer, whatever came before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from tombola.errors import StateError
from tombola.pipeline._step import Run, State

#: Records between two marks where a state is small. More of them cost time, fewer let a resume read more.
EVERY = 256


class Trail(Iterator[Any]):
    """The records of an input, numbered, and where to find them again.

    number
        How many records were read: the number of the next one.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.marks: deque[tuple[int, State]] = deque()
        self.start()

    def start(self, number: int = 0) -> None:
        """Goes on from where the input stands, calling the next record `number`."""
        self.number = number
        self.marks.clear()
        self._next_mark = number
        self._source = self._run.iterator
        # What cannot be read again is kept until it is forgotten.
        self._kept: deque[Any] | None = None if self._run.replayable else deque()

    def __next__(self) -> Any:
        if self.number == self._next_mark:
            self._next_mark = self.mark(self.number)
        record = next(self._source)
        self.number += 1
        if self._kept is not None:
            self._kept.append(record)
        return record

    def mark(self, number: int) -> int:
        """Notes the state of the input before record `number`; returns where the next mark is due."""
        if self._kept is None:
            self.marks.append((number, self._run.state()))
        # A state that holds many records is taken so much more rarely.
        return number + EVERY + self._run.held

    def forget(self, number: int) -> None:
        """No record before `number` will be asked for."""
        marks, kept = self.marks, self._kept
        while len(marks) > 1 and marks[1][0] <= number:
            marks.popleft()
        if kept is not None:
            while len(kept) > self.number - number:
                kept.popleft()

    def at(self, number: int) -> State:
        """The place of the input before a record that was read and not forgotten, or is the next."""
        if number == self.number:
            return [0, self._run.state()]
        if self._kept is not None:
            return [list(self._kept)[number - self.number :], self._run.state()]
        mark, state = self.marks[bisect_right(self.marks, number, key=_number) - 1]
        return [number - mark, state]

    def go(self, place: State) -> None:
        """Sets the input to a place, numbering from 0 on."""
        ahead, state = place
        self._run.load(state)
        self.start()
        if isinstance(ahead, list):
            self._source = chain(ahead, self._run.iterator)
            return
        for _ in range(ahead):
            if next(self, self) is self:
                raise StateError("the data ends before the place that the state names: it has become shorter")

    def find(self, numbers: Sequence[int], marks: Sequence[tuple[int, State]], end: tuple[int, State]) -> list[Any]:
        """Reads records again, by their ascending numbers, and leaves the input at its end."""
        out: list[Any] = []
        run, here, at = self._run, -1, 0
        steps = [mark[0] for mark in marks]
        for number in numbers:
            mark = bisect_right(steps, number) - 1
            # A short way is read on: to begin anew at a place costs about as much as a stretch between marks.
            if here < 0 or (mark > at and run.seeks and steps[mark] - here > EVERY):
                at = mark
                here = steps[at]
                run.load(marks[at][1])
            source = run.iterator
            for _ in range(number - here):
                next(source, None)
            out.append(_found(source, number))
            here = number + 1
        if here < 0 or run.seeks:
            run.load(end[1])
        else:
            for _ in range(end[0] - here):
                next(run.iterator, None)
        self.start(end[0])
        return out


def _number(mark: tuple[int, State]) -> int:
    return mark[0]


def _found(source: Iterator[Any], number: int) -> Any:
    try:
        return next(source)
    except StopIteration:
        raise StateError(
            f"record {number} of the state is not there: the data has become shorter since the state was taken"
        ) from None


def require_replayable(run: Run) -> None:
    """Refuses a state of what cannot be read again."""
    if not run.replayable:
        raise StateError(
            f"{_one_shot(run)} gives each record once, so that no state can tell how to read it again. "
            f"Give something that can be iterated over anew, or from_iterable(…, goes_on=True) and keep='records' in "
            f"steps that read ahead, if at a resume you give an iterator that goes on where this one stopped"
        )


def _one_shot(run: Run) -> str:
    for one in run.inputs:
        if not one.replayable:
            return _one_shot(one)
    return run.step.describe()
