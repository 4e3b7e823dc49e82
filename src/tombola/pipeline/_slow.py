"""The slow twin of the native shuffle buffer: the same records in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tombola._ints import Ints

_WORD = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15


def word(key: int, number: int) -> int:
    """The number-th random word of a key: SplitMix64 at any point."""
    z = (key + (number + 1) * _GAMMA) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return z ^ (z >> 31)


def below(random_word: int, end: int) -> int:
    """A number below `end` from a random word."""
    return (random_word * end) >> 64


class SlowShuffleBuffer(Iterator[Any]):
    """What `_core.ShuffleBuffer` does, step by step."""

    def __init__(
        self,
        source: Iterable[Any],
        key: int,
        records_max: int,
        bytes_max: int,
        initial: int,
        size_of: Callable[[Any], int] | None,
        mark: Callable[[int], int] | None,
    ) -> None:
        self._source = iter(source)
        self._key = key
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._initial = initial
        self._size_of = size_of
        self._mark = mark
        self._slots: list[tuple[Any, int, int]] = []
        self.emitted = 0
        self.pulled = 0
        self.done = False
        self._next_mark = 0

    def __next__(self) -> Any:
        self._fill()
        if not self._slots:
            raise StopIteration
        slot = below(word(self._key, self.emitted), len(self._slots))
        self.emitted += 1
        record = self._slots[slot][0]
        self._slots[slot] = self._slots[-1]
        self._slots.pop()
        return record

    def _fill(self) -> None:
        pulls = 0
        while not self.done and not self._full():
            if self._initial and self.emitted and pulls == 2 and self._slots:
                return
            if self._initial and not self.emitted and len(self._slots) >= self._initial:
                return
            self._pull()
            pulls += 1

    def _full(self) -> bool:
        if not self._slots:
            return False
        if self._records_max and len(self._slots) >= self._records_max:
            return True
        return bool(self._bytes_max) and sum(size for _, _, size in self._slots) >= self._bytes_max

    def _pull(self) -> None:
        if self._mark is not None and self.pulled == self._next_mark:
            self._next_mark = self._mark(self.pulled)
        try:
            record = next(self._source)
        except StopIteration:
            self.done = True
            return
        size = 0 if self._size_of is None else self._size_of(record)
        self._slots.append((record, self.pulled, size))
        self.pulled += 1

    def ordinals(self) -> Ints:
        """By slot: the number of the record in the source."""
        return np.array([number for _, number, _ in self._slots], np.int64)

    def records(self) -> list[Any]:
        """By slot: the record."""
        return [record for record, _, _ in self._slots]

    def load(
        self, records: Sequence[Any], ordinals: Ints, emitted: int, pulled: int, done: bool, next_mark: int
    ) -> None:
        """Sets what is in the buffer and how far it is."""
        sizes = [0 if self._size_of is None else self._size_of(record) for record in records]
        self._slots = list(zip(records, ordinals.tolist(), sizes, strict=True))
        self.emitted, self.pulled, self.done, self._next_mark = emitted, pulled, done, next_mark
