"""Mixtures: streams by weight at every position, each running through its own passes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tombola import _core
from tombola._ints import Ints, integer
from tombola.errors import OrderError
from tombola.order._keys import derive_key
from tombola.order._lanes import Lanes
from tombola.order._layout import Layout
from tombola.order._nested import base_over, spec_of, spec_to_json
from tombola.order._order import Order, OrderSpec, register
from tombola.order._passes import check_epoch_records
from tombola.order._takes import exact, largest_remainders, shards_by_stream, stream_sizes
from tombola.order._woven import Segment, WovenOrder

DENOMINATOR_MAX = 2**16


@register("mixture")
@dataclass(frozen=True)
class Mixture(OrderSpec):
    """Streams by weight at every position of the run, each going through passes of its own.

    Lane c mixes the lanes c of all streams, along an even sequence that it enters at a place of its own. So it has of
    each stream what it should have to within 2 records at any place, and a rank that reads its own lanes fetches the
    shards that it would fetch if it read the streams one by one.

    weights
        One for each stream, of any scale: whole numbers, or floats, which are read as decimal fractions. Their sum, in
        lowest terms, is kept below 2^16; finer weights are rounded to that.
    schedule
        (position, weights) pairs: from that position on, counted from the start of the run over all epochs, other
        weights hold. What a stream is ahead or behind by then is carried on.
    epoch_records
        Positions in an epoch: as many as the streams in use have records, rounded down to whole rows of lanes, unless
        given.
    base
        The order of each stream. Its lanes hold for all streams; `radius_records` and `memory_bytes` are for all
        streams together.

    >>> layout = Layout.joined([Layout.equal(8, 50), Layout.equal(2, 50)])
    >>> order = Mixture(weights=(0.7, 0.3), base=Lanes(lanes=4)).over(layout, seed=7)
    >>> np.bincount(layout.locate(order.slice(0, 120))[0] // 8).tolist()
    [84, 36]
    """

    weights: tuple[float, ...]
    schedule: tuple[tuple[int, tuple[float, ...]], ...] = ()
    epoch_records: int | None = None
    base: OrderSpec = field(default_factory=Lanes)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _weights(self.weights, "weights"))
        object.__setattr__(self, "base", spec_of(self.base, "base"))
        if self.epoch_records is not None:
            object.__setattr__(self, "epoch_records", check_epoch_records(self.epoch_records))
        if isinstance(self.schedule, (str, Mapping)) or not isinstance(self.schedule, Sequence):
            raise OrderError(f"schedule is {self.schedule!r}; give a list of (position, weights)")
        changes, last = [], 0
        for entry in self.schedule:
            if isinstance(entry, str) or not isinstance(entry, Sequence) or len(entry) != 2:
                raise OrderError(f"schedule has the entry {entry!r}; a change is (position, weights)")
            position = integer(entry[0], "the position of a change of weights", 1, 2**61, OrderError)
            if position <= last:
                raise OrderError(f"the weights change at {last} and then at {position}; positions must rise")
            last, weights = position, _weights(entry[1], f"the weights from position {position} on")
            if len(weights) != len(self.weights):
                raise OrderError(
                    f"there are {len(weights)} weights from position {position} on, and {len(self.weights)} before; "
                    f"give every stream one, 0 for those left out"
                )
            changes.append((position, weights))
        object.__setattr__(self, "schedule", tuple(changes))

    def options(self) -> dict[str, Any]:
        """The options as plain JSON."""
        return {
            "weights": list(self.weights),
            "schedule": [[position, list(weights)] for position, weights in self.schedule],
            "epoch_records": self.epoch_records,
            "base": spec_to_json(self.base),
        }

    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout whose `streams` say which shard is of which stream."""
        return _MixtureOrder(self, layout, seed)

    def changes(self) -> list[tuple[int, tuple[float, ...]]]:
        """(position, weights) from the start of the run on."""
        return [(0, self.weights), *self.schedule]


def _weights(values: Any, what: str) -> tuple[float, ...]:
    """Weights as whole numbers in lowest terms."""
    is_list = isinstance(values, Sequence) or (isinstance(values, np.ndarray) and values.ndim == 1)
    if isinstance(values, (str, bytes, Mapping)) or not is_list or not len(values):
        raise OrderError(f"{what} is {values!r}; give a list with a number for each stream")
    shares = [exact(value, f"weight {stream} of {what}") for stream, value in enumerate(values)]
    if not any(shares):
        raise OrderError(f"{what} are all zero; one at least must be above 0")
    scale = math.lcm(*(share.denominator for share in shares))
    return tuple(_lowest([int(share * scale) for share in shares], what))


def _lowest(weights: list[int], what: str) -> list[int]:
    divisor = math.gcd(*weights)
    weights = [weight // divisor for weight in weights]
    if sum(weights) <= DENOMINATOR_MAX:
        return weights
    rounded = largest_remainders(DENOMINATOR_MAX, [Fraction(weight) for weight in weights])
    for stream, (given, kept) in enumerate(zip(weights, rounded, strict=True)):
        if given and not kept:
            raise OrderError(
                f"weight {stream} of {what} is {given / sum(weights):.3g} of their sum, below the 1/{DENOMINATOR_MAX} "
                f"that can be kept; give it more, or 0"
            )
    divisor = math.gcd(*rounded)
    return [weight // divisor for weight in rounded]


def rounded_weights(values: Sequence[float], what: str = "weights") -> list[int]:
    """Whole weights from whole or decimal ones, their sum at most 2^16."""
    return [int(weight) for weight in _weights(values, what)]


# ---- strands: one order for each stream, all with as many lanes


@dataclass(frozen=True, eq=False)
class Strands:
    """The orders of all streams, and the weights they are to be read with."""

    orders: list[Order | None]
    changes: list[tuple[int, list[int]]]
    lanes: int
    base: OrderSpec
    records: int


def strands_of(layout: Layout, seed: int, spec: Mixture, *, lanes_dividing: int | None = None) -> Strands:
    """The orders of a mixture's streams."""
    changes = [(position, rounded_weights(weights)) for position, weights in spec.changes()]
    sizes = stream_sizes(layout) if layout.records else []
    if len(sizes) > len(spec.weights):
        raise OrderError(f"there are {len(spec.weights)} weights for {len(sizes)} streams; give one for each")
    streams = len(sizes)
    sizes += [0] * (len(spec.weights) - streams)
    used = [any(weights[stream] for _, weights in changes) for stream in range(len(sizes))]
    if any(used[streams:]):
        stream = next(i for i in range(streams, len(sizes)) if used[i])
        raise OrderError(
            f"there are {len(sizes)} weights for {streams} streams; stream {stream} has a weight above 0 but no shard. "
            f"Give each stream one, and 0 to one without records"
        )
    for stream, size in enumerate(sizes):
        if used[stream] and not size:
            raise OrderError(f"stream {stream} holds no records, but has a weight above 0; give it 0")
    of_shards = np.zeros(layout.shards, np.int64) if layout.streams is None else layout.streams
    shards = shards_by_stream(of_shards)
    own_shards = [shards[i] for i in range(len(shards)) if used[i]]
    base, lanes = resolved_base(spec.base, layout, seed, own_shards, lanes_dividing)
    orders: list[Order | None] = [None] * len(sizes)
    for stream in np.flatnonzero(used).tolist():
        # A stream with fewer records than lanes goes through several passes at a time, so that each lane has one.
        own = np.tile(layout.sizes[shards[stream]], -(-lanes // sizes[stream]))
        orders[stream] = strand_of(base, own, derive_key(seed, "mixture/stream", stream))
    records = sum(size for size, is_used in zip(sizes, used, strict=True) if is_used)
    return Strands(orders, changes, lanes, base, records)


def resolved_base(
    base: OrderSpec, layout: Layout, seed: int, shards: list[Ints], lanes_dividing: int | None
) -> tuple[OrderSpec, int]:
    """The base with its number of lanes settled, and that number, for streams that are read side by side."""
    if isinstance(base, Lanes):
        given = {name: getattr(base, name) for name in ("radius_records", "memory_bytes")}
        shared = {name: max(1, value // len(shards)) for name, value in given.items() if value is not None}
        base = dataclasses.replace(base, **shared)
        if lanes_dividing is not None and base.lanes is None and not shared:
            most = min(64, int(layout.sizes[np.concatenate(shards)].sum()))
            base = dataclasses.replace(base, lanes=max(d for d in range(1, most + 1) if lanes_dividing % d == 0))
    order = strand_of(base, layout.sizes[np.concatenate(shards)], seed)
    return order.spec, order.lanes


def strand_of(base: OrderSpec, sizes: Ints, seed: int) -> Order:
    """The order of one stream, by the records of its shards."""
    return base_over(base, Layout(sizes), seed, "streams that are mixed")


# ---- patterns


def sequence_of(weights: Sequence[int]) -> Ints:
    """Streams in proportion to weights, every prefix within one of every share."""
    out = np.empty(sum(weights), np.int64)
    _core.chairman(np.array(weights, np.int64), out)
    return out


def spread_segment(start: int, weights: Sequence[int], lanes: int, seed: int, number: int) -> tuple[Segment, float]:
    """A segment whose lanes enter the sequence at places of their own, and the bound of the error over all lanes."""
    sequence = sequence_of(weights)
    multiplier, deviation = _core.spread_phases(sequence, np.array(weights, np.int64), lanes)
    phase = np.empty(lanes, np.int64)
    _core.phases(multiplier, sequence.size, phase)
    bound = deviation / sequence.size if deviation >= 0 else math.inf
    return Segment(start, sequence, phase, key=entry_key(seed, number), carry=number > 0), bound


def entry_key(seed: int, number: int) -> int:
    """The key whose words say where the sequence of a segment is entered, period after period."""
    return derive_key(seed, "mixture/phase", number)


class _MixtureOrder(WovenOrder):
    def __init__(self, spec: Mixture, layout: Layout, seed: int) -> None:
        strands = strands_of(layout, seed, spec)
        lanes = strands.lanes
        records = spec.epoch_records or strands.records - strands.records % lanes
        if records < lanes:
            raise OrderError(f"epoch_records is {records}, but there are {lanes} lanes and each needs a record")
        made = [
            spread_segment(start, weights, lanes, seed, number)
            for number, (start, weights) in enumerate(strands.changes)
        ]
        resolved = dataclasses.replace(spec, epoch_records=records, base=strands.base)
        segments = [segment for segment, _ in made]
        super().__init__(resolved, layout, seed, strands.orders, segments, epoch_records=records)
        #: How far the count of a stream, over all lanes from the start of the run on, can be from its share at any
        #: position, as long as the first weights hold and an epoch is whole rows of lanes.
        self.deviation_max = made[0][1]
