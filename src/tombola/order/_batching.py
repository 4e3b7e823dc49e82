"""What a batch is made of: a share of every stream, or one stream alone, for the batch or for each device.

The fourth way, *random*, needs no order of its own: it is the combination itself, whose batches hold what comes next.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tombola._ints import Ints, integer
from tombola.errors import OrderError
from tombola.order._concatenation import Concatenation
from tombola.order._keys import derive_key
from tombola.order._lanes import Lanes
from tombola.order._layout import Layout
from tombola.order._mixture import (
    DENOMINATOR_MAX,
    Mixture,
    Strands,
    entry_key,
    resolved_base,
    rounded_weights,
    sequence_of,
    spread_segment,
    strand_of,
    strands_of,
)
from tombola.order._nested import spec_of, spec_to_json
from tombola.order._order import Order, OrderSpec, register
from tombola.order._permutation import Permutation
from tombola.order._plain import Global, Sequential
from tombola.order._takes import Take, largest_remainders, shards_by_stream
from tombola.order._woven import Segment, WovenOrder

_BATCHES_DEALT = 256

#: (start, weights, number of the segment, lanes, seed) → the segment.
Pattern = Callable[[int, list[int], int, int, int], Segment]


@dataclass(frozen=True)
class _Batching(OrderSpec):
    """What the three have in common: the combination whose streams they arrange."""

    def _set_combination(self, value: Any) -> None:
        spec = spec_of(value, "combination")
        if not isinstance(spec, (Concatenation, Mixture, Lanes, Global, Sequential)):
            raise OrderError(
                f"combination is the order {spec.name!r}; give a Concatenation, a Mixture, or the order that every "
                f"stream is to be read in"
            )
        object.__setattr__(self, "combination", spec)

    def _own_options(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def options(self) -> dict[str, Any]:
        """The options as plain JSON."""
        return {name: spec_to_json(v) if isinstance(v, OrderSpec) else v for name, v in self._own_options().items()}

    def _over(
        self,
        layout: Layout,
        seed: int,
        pattern: Pattern,
        *,
        unit: int,
        run: int = 1,
        blocks: Callable[[int], int] = lambda lanes: 1,
        batch_size: int | None = None,
    ) -> Order:
        """The woven order; epochs are multiples of `unit`, and of a run for each lane."""
        combination: OrderSpec = self.combination  # type: ignore[attr-defined]
        strands = combined(layout, seed, combination, batch_size)
        lanes = strands.lanes
        if batch_size is not None and batch_size % lanes:
            near = [d for d in range(1, batch_size + 1) if batch_size % d == 0 and d <= lanes][-1]
            raise OrderError(
                f"batch_size is {batch_size}, which {lanes} lanes do not divide, so that batches would drift along "
                f"them; use for example lanes={near}"
            )
        records = getattr(combination, "epoch_records", None)
        if records is None:
            whole = math.lcm(unit, run * lanes)
            records = max(strands.records // whole, 1) * whole
        if records % unit or records < run * lanes:
            raise OrderError(
                f"epoch_records is {records}; it must be a multiple of {unit} and at least {run * lanes}, so that "
                f"epochs end where batches do; use {max(-(-records // unit), -(-run * lanes // unit)) * unit}"
            )
        segments = [
            pattern(start, weights, number, lanes, seed) for number, (start, weights) in enumerate(strands.changes)
        ]
        changes = {"base": strands.base, "epoch_records": records}
        resolved = dataclasses.replace(combination, **changes) if hasattr(combination, "base") else strands.base
        spec: OrderSpec = type(self)(**(self._own_options() | {"combination": resolved}))
        return WovenOrder(
            spec,
            layout,
            seed,
            strands.orders,
            segments,
            epoch_records=records,
            run=run,
            block=blocks(lanes),
            batch_size=batch_size,
        )


def combined(layout: Layout, seed: int, combination: OrderSpec, lanes_dividing: int | None) -> Strands:
    """The orders and weights of a combination's streams: a mixture's own, or what a concatenation takes of each."""
    if isinstance(combination, Mixture):
        return strands_of(layout, seed, combination, lanes_dividing=lanes_dividing)
    if not isinstance(combination, Concatenation):
        combination = Concatenation(base=combination)
    counts = combination.counts(layout) if layout.records else [0]
    streams = np.zeros(layout.shards, np.int64) if layout.streams is None else layout.streams
    shards = shards_by_stream(streams)[: len(counts)]
    used = [own for own, count in zip(shards, counts, strict=False) if count]
    if not used:
        raise OrderError(f"the layout holds no records ({layout.shards} shards); an order needs at least one")
    base, lanes = resolved_base(combination.base, layout, seed, used, lanes_dividing)
    orders: list[Order | None] = [None] * len(counts)
    for stream, (own, count) in enumerate(zip(shards, counts, strict=False)):
        if not count:
            continue
        sizes, strand_seed = layout.sizes[own], derive_key(seed, "mixture/stream", stream)
        taken = count * -(-lanes // count)  # at least one for each lane: several passes at a time
        if taken % int(sizes.sum()) == 0:
            orders[stream] = strand_of(base, np.tile(sizes, taken // int(sizes.sum())), strand_seed)
            continue
        one = dataclasses.replace(combination, takes=(Take(choose=taken),), epoch_records=None, base=base)
        orders[stream] = one.over(Layout(sizes), seed=strand_seed)
    return Strands(orders, [(0, rounded_weights(counts, "the records taken of each stream"))], lanes, base, sum(counts))


# ---- a share of every stream in every batch


@register("stratified")
@dataclass(frozen=True)
class Stratified(_Batching):
    """Every batch holds each stream's share; what rounding leaves over goes on to the next batch.

    After any number of batches the count of a stream is less than one record from its share, so that a single batch,
    which lies between two such places, is less than two from its own.

    batch_size
        The global batch; a plan with another is refused. The lanes must divide it.
    combination
        What is read of each stream: a `Concatenation`, a `Mixture`, or an order for all of them.

    >>> layout = Layout.joined([Layout.equal(8, 50), Layout.equal(4, 50)])
    >>> order = Stratified(batch_size=12, combination=Lanes(lanes=4)).over(layout, seed=7)
    >>> [int((order.slice(t, t + 12) < 400).sum()) for t in range(0, 48, 12)]
    [8, 8, 8, 8]
    """

    batch_size: int
    combination: OrderSpec = field(default_factory=Concatenation)

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", integer(self.batch_size, "batch_size", 1, 2**31, OrderError))
        self._set_combination(self.combination)

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout whose `streams` say which shard is of which stream."""
        return self._over(layout, seed, self._pattern, unit=self.batch_size, batch_size=self.batch_size)

    def _pattern(self, start: int, weights: list[int], number: int, lanes: int, seed: int) -> Segment:
        size = self.batch_size
        if start % size:
            raise OrderError(f"the weights change at position {start}, in the middle of a batch of {size}")
        sequence = self._sequence(weights).reshape(-1, size)
        rows = np.arange(size)
        dealt = [
            batch[Permutation(size, seed, "stratified/rows", number, place).at(rows, threads=1)]
            for place, batch in enumerate(sequence)
        ]
        turn = derive_key(seed, "stratified/column", number) * lanes >> 64
        return Segment(
            start,
            np.concatenate(dealt),
            np.zeros(lanes, np.int64),
            columns=lanes,
            column=(np.arange(lanes) + turn) % lanes,
            stride=stride_of(lanes),
        )

    def _sequence(self, weights: list[int]) -> Ints:
        """Streams in proportion over whole batches: as many as it takes for the shares to come out even, if few do.

        Then it is repeated, since each batch has its rows dealt anew: with more ranks than lanes a rank comes to some
        rows of a batch only, and over a few batches those might hold nothing of a rare stream.
        """
        size, total = self.batch_size, sum(weights)
        length = math.lcm(total, size)
        if length <= max(DENOMINATOR_MAX, size):
            most = min(DENOMINATOR_MAX, _BATCHES_DEALT * size)
            return np.tile(sequence_of(weights), max(1, most // length) * length // total)
        length = size * max(1, DENOMINATOR_MAX // size)
        scaled = largest_remainders(length, [Fraction(weight) for weight in weights])
        for stream, (weight, kept) in enumerate(zip(weights, scaled, strict=True)):
            if weight and not kept:
                raise OrderError(
                    f"stream {stream} would have less than one record in {length // size} batches of {size}; "
                    f"give it a larger share, or use larger batches"
                )
        return sequence_of(scaled)


def stride_of(lanes: int) -> int:
    """A step round the lanes that meets all of them and moves far: close to the golden section."""
    return next(step for step in range(max(1, lanes * 618 // 1000), 2 * lanes + 1) if math.gcd(step, lanes) == 1)


# ---- one stream at a time


@register("per_stream")
@dataclass(frozen=True)
class PerStream(_Batching):
    """Every batch comes from one stream; which one follows an even sequence, so that shares hold to within one batch.

    batch_size
        The global batch; a plan with another is refused. The lanes must divide it.
    combination
        What is read of each stream: a `Concatenation`, a `Mixture`, or an order for all of them.

    >>> layout = Layout.joined([Layout.equal(8, 50), Layout.equal(4, 50)])
    >>> order = PerStream(batch_size=20, combination=Lanes(lanes=4)).over(layout, seed=7)
    >>> sorted(int((order.slice(t, t + 20) < 400).sum()) for t in range(0, 120, 20))
    [0, 0, 20, 20, 20, 20]
    """

    batch_size: int
    combination: OrderSpec = field(default_factory=Concatenation)

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", integer(self.batch_size, "batch_size", 1, 2**31, OrderError))
        self._set_combination(self.combination)

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout whose `streams` say which shard is of which stream."""
        size = self.batch_size
        return self._over(layout, seed, self._pattern, unit=size, blocks=lambda lanes: size // lanes, batch_size=size)

    def _pattern(self, start: int, weights: list[int], number: int, lanes: int, seed: int) -> Segment:
        if start % self.batch_size:
            raise OrderError(f"the weights change at position {start}, in the middle of a batch of {self.batch_size}")
        sequence = sequence_of(weights)
        return Segment(start, sequence, np.zeros(lanes, np.int64), key=entry_key(seed, number), carry=number > 0)


@register("device_per_stream")
@dataclass(frozen=True)
class DevicePerStream(_Batching):
    """Every run of so many rows, which one rank reads, comes from one stream, and each batch from many.

    run
        Rows in a run: the batch of one device. The global batch is a multiple of run × ranks; where it is larger, a
        rank has several runs in it.
    combination
        What is read of each stream: a `Concatenation`, a `Mixture`, or an order for all of them.

    >>> layout = Layout.joined([Layout.equal(8, 50), Layout.equal(4, 50)])
    >>> order = DevicePerStream(run=5, combination=Lanes(lanes=4)).over(layout, seed=7)
    >>> sorted({int((order.slice(t, t + 5) < 400).sum()) for t in range(0, 600, 5)})
    [0, 5]
    """

    run: int
    combination: OrderSpec = field(default_factory=Concatenation)

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", integer(self.run, "run", 1, 2**31, OrderError))
        self._set_combination(self.combination)

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout whose `streams` say which shard is of which stream."""
        return self._over(layout, seed, self._pattern, unit=self.run, run=self.run, blocks=lambda lanes: self.run)

    def _pattern(self, start: int, weights: list[int], number: int, lanes: int, seed: int) -> Segment:
        if start % self.run:
            raise OrderError(f"the weights change at position {start}, in the middle of a run of {self.run}")
        return spread_segment(start, weights, lanes, seed, number)[0]
