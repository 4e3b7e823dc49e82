"""How much of each stream an epoch takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tombola._ints import Ints, integer
from tombola.errors import OrderError
from tombola.order._layout import Layout

NUMBER_MAX = 2**62
STREAMS_MAX = 2**20  # a list of weights has one for each


@dataclass(frozen=True)
class Take:
    """How much of a stream an epoch takes; once, when nothing is given.

    proportion
        A share of the epoch, relative to the other streams' proportions; the epoch is as long as all streams together.
    repeat
        So many times each record; 2.5 is twice and a half.
    choose
        So many records.

    >>> Take(repeat=2.5).records(10)
    25
    """

    proportion: float | None = None
    repeat: float | None = None
    choose: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("proportion", "repeat", "choose") if getattr(self, name) is not None]
        if len(given) > 1:
            raise OrderError(f"{' and '.join(given)} each decide how much of a stream is taken; give one of them")
        for name in ("proportion", "repeat"):
            if getattr(self, name) is not None:
                exact(getattr(self, name), name)
                object.__setattr__(self, name, plain(getattr(self, name)))
        if self.choose is not None:
            object.__setattr__(self, "choose", integer(self.choose, "choose", 0, 2**62, OrderError))

    def records(self, there: int) -> int:
        """How many records that is, of a stream that has so many; not for a proportion, which depends on the others."""
        if self.choose is not None:
            return self.choose
        if self.repeat is None:
            return there
        return math.floor(exact(self.repeat, "repeat") * there + Fraction(1, 2))

    def to_json(self) -> dict[str, float | int]:
        """The option that was given, as plain JSON."""
        values = {"proportion": self.proportion, "repeat": self.repeat, "choose": self.choose}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def of(cls, value: Any) -> Take:
        """A Take, from one or from its JSON."""
        if isinstance(value, Take):
            return value
        known = {"proportion", "repeat", "choose"}
        if value is None or (isinstance(value, Mapping) and set(value) <= known):
            return cls(**(value or {}))
        raise OrderError(f"{value!r} does not say how much of a stream to take; give Take(repeat=2) or the like")


def exact(value: Any, what: str) -> Fraction:
    """The fraction a user means by a number: 0.7 is 7/10, not the nearest binary fraction."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise OrderError(f"{what} is {value!r}; it must be a number")
    number = plain(value)
    if isinstance(number, int) and number > NUMBER_MAX:
        raise OrderError(f"{what} is a number of {number.bit_length()} bits; it must be at most 2^62")
    if not 0 <= number < math.inf:
        raise OrderError(f"{what} is {value}; it must be a finite number, not below 0")
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def plain(value: Any) -> int | float:
    """A number as Python's own; np.float32(0.7) is meant as 0.7 and not as the double next to it."""
    if isinstance(value, np.floating):
        return float(str(value))
    return float(value) if isinstance(value, float) else int(value)


def largest_remainders(total: int, shares: Sequence[Fraction]) -> list[int]:
    """Whole numbers that add up to a total, in proportion to shares: what is left goes to the largest remainders."""
    whole = sum(shares)
    parts = [total * share / whole for share in shares]
    counts = [math.floor(part) for part in parts]
    by = sorted(range(len(parts)), key=lambda i: (counts[i] - parts[i], i))
    for i in by[: total - sum(counts)]:
        counts[i] += 1
    return counts


def stream_sizes(layout: Layout) -> list[int]:
    """Records per stream."""
    if layout.streams is None:
        return [layout.records]
    last = int(layout.streams.max(initial=0))
    if last >= STREAMS_MAX:
        raise OrderError(f"there is a stream {last}; number streams from 0 on, {STREAMS_MAX} of them at most")
    totals = np.zeros(last + 1, np.int64)
    np.add.at(totals, layout.streams, layout.sizes)
    return [int(total) for total in totals]


def shards_by_stream(streams: Ints) -> list[Ints]:
    """The shards of each stream, rising."""
    by = np.argsort(streams, kind="stable")
    borders = np.searchsorted(streams[by], np.arange(1, int(streams.max(initial=0)) + 1))
    return np.split(by, borders)
