"""What every order is, the values that describe one, and the registry of names."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, TypeVar, overload

import numpy as np

from tombola._ints import Ints, IntsLike, integer, integers, is_scalar
from tombola.errors import OrderError
from tombola.order._keys import check_seed
from tombola.order._layout import Layout

_EPOCH_MAX = 2**62


@dataclass(frozen=True, eq=False)
class Visits:
    """When each part of each shard is needed in an epoch: one entry a visit, ordered by lane, then by first position.

    A part that is needed at both ends of the epoch, because its lane starts in the middle of it, has two visits.
    Positions are bounds: the part is needed at none outside first…last.
    """

    lane: Ints
    shard: Ints
    #: The part: records record_start…record_stop − 1 of the dataset, all in this shard.
    record_start: Ints
    record_stop: Ints
    #: First and last position of the epoch at which a record of the part is read, both included.
    first: Ints
    last: Ints

    def __len__(self) -> int:
        return self.lane.size


class Order(ABC):
    """Epoch position → record, over one layout with one seed: a pure function, with its inverse.

    Made by `OrderSpec.over`. A new order implements `_at`, and `_find`, or `_find_all` when it does not read every
    record exactly once; the rest follows, slowly, and may be overridden for speed.
    """

    #: Paths through the epoch that are read side by side; position t belongs to lane (t div run) mod lanes.
    lanes: int = 1
    #: Consecutive positions that belong to one lane, and to one rank.
    run: int = 1
    #: The global batch size this order is bound to; None when any will do.
    batch_size: int | None = None

    def __init__(self, spec: OrderSpec, layout: Layout, seed: int) -> None:
        if not isinstance(layout, Layout):
            raise OrderError(f"an order needs a tombola.order.Layout, not {type(layout).__name__}; try Layout(sizes)")
        if layout.records == 0:
            raise OrderError(f"the layout holds no records ({layout.shards} shards); an order needs at least one")
        self._spec = spec
        self._layout = layout
        self._seed = check_seed(seed)

    @property
    def spec(self) -> OrderSpec:
        """The options of this order, with everything resolved to plain numbers."""
        return self._spec

    @property
    def layout(self) -> Layout:
        """The records per shard it runs over."""
        return self._layout

    @property
    def seed(self) -> int:
        """The seed."""
        return self._seed

    def __len__(self) -> int:
        """Positions in an epoch."""
        return self._layout.records

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides the order, as plain JSON: equal fingerprints read equal records at equal positions."""
        return {
            "dataset": self._layout.digest,
            "shards": self._layout.shards,
            "records": self._layout.records,
            "order": self._spec.name,
            "options": _without_paths(self._spec.options()),
            "seed": self._seed,
        }

    # ---- ints → ints

    @abstractmethod
    def _at(self, positions: Ints, epoch: int) -> Ints:
        """The records at the given positions (checked, flat)."""

    def _find(self, records: Ints, epoch: int) -> Ints:
        """The position of each record (checked, flat), for an order that reads each record exactly once."""
        raise NotImplementedError(f"{type(self).__name__} implements neither _find nor _find_all")

    def _find_all(self, records: Ints, epoch: int) -> tuple[Ints, Ints]:
        """What `find_all` gives (records checked, flat): for an order that reads a record several times, or never."""
        return self._find(records, epoch), np.arange(records.size + 1, dtype=np.int64)

    @overload
    def at(self, t: int, epoch: int = ...) -> int: ...
    @overload
    def at(self, t: IntsLike, epoch: int = ...) -> Ints: ...
    def at(self, t: IntsLike, epoch: int = 0) -> int | Ints:
        """The record that position t of an epoch reads: an int for an int, an array for an array."""
        given = integers(t, "position", len(self), OrderError)
        out = self._at(given.reshape(-1), check_epoch(epoch))
        return int(out[0]) if is_scalar(t) else out.reshape(given.shape)

    def find(self, record: int, epoch: int = 0) -> Ints:
        """The positions of an epoch that read a record, in rising order."""
        if not is_scalar(record):
            raise OrderError("find takes one record; use find_all for many")
        return self.find_all([record], epoch)[0]

    def find_all(self, records: IntsLike, epoch: int = 0) -> tuple[Ints, Ints]:
        """The positions of many records: (positions, starts), those of records[i] at positions[starts[i]:starts[i+1]].

        Those of one record come in rising order.
        """
        given = integers(records, "record", self._layout.records, OrderError).reshape(-1)
        return self._find_all(given, check_epoch(epoch))

    def slice(self, start: int, stop: int, epoch: int = 0, *, step: int = 1) -> Ints:
        """The records of positions start, start + step, … below stop: faster than `at` for runs."""
        stop = integer(stop, "stop", 0, len(self), OrderError)
        start = integer(start, "start", 0, stop, OrderError)
        step = integer(step, "step", 1, None, OrderError)
        return self._slice(start, stop, step, check_epoch(epoch))

    def _slice(self, start: int, stop: int, step: int, epoch: int) -> Ints:
        return self._at(np.arange(start, stop, step, dtype=np.int64), epoch)

    # ---- for readers

    def lane_of(self, positions: Ints) -> Ints:
        """The lane of each position."""
        return positions // self.run % self.lanes

    def visits(self, epoch: int = 0) -> Visits:
        """When each part of each shard is needed. This version reads the whole epoch: O(records)."""
        records = self._slice(0, len(self), 1, check_epoch(epoch))
        shard, _ = self._layout.locate(records)
        positions = np.arange(len(self), dtype=np.int64)
        lane = self.lane_of(positions)
        # One group per (lane, shard), its positions rising because lexsort is stable.
        by = np.lexsort((positions, shard, lane))
        fresh = np.append(True, (np.diff(lane[by]) != 0) | (np.diff(shard[by]) != 0))
        heads = np.flatnonzero(fresh)
        first = positions[by][heads]
        last = positions[by][np.append(heads[1:], by.size) - 1]
        start = np.minimum.reduceat(records[by], heads)
        stop = np.maximum.reduceat(records[by], heads) + 1
        out = np.lexsort((first, lane[by][heads]))
        lanes_, shards_ = lane[by][heads], shard[by][heads]
        return Visits(lanes_[out], shards_[out], start[out], stop[out], first[out], last[out])

    # ---- identity

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Order)
            and self._spec == other._spec
            and self._seed == other._seed
            and self._layout == other._layout
        )

    def __hash__(self) -> int:
        return hash((self._spec, self._seed, self._layout))

    def __repr__(self) -> str:
        return f"{self._spec!r}.over({self._layout!r}, seed={self._seed})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self._spec, self._layout, self._seed))


def _without_paths(options: Any) -> Any:
    """The options without the paths of files that have a digest: a file that has moved is still the same order."""
    if isinstance(options, dict):
        return {k: _without_paths(v) for k, v in options.items() if k != "path" or "digest" not in options}
    return [_without_paths(value) for value in options] if isinstance(options, list) else options


def _rebuild(spec: OrderSpec, layout: Layout, seed: int) -> Order:
    return spec.over(layout, seed=seed)


@dataclass(frozen=True)
class OrderSpec(ABC):
    """The options of an order, as a small frozen value. Subclass it as a frozen dataclass and `register` a name."""

    name: ClassVar[str] = ""

    @abstractmethod
    def over(self, layout: Layout, *, seed: int = 0) -> Order:
        """The order over a layout with a seed."""

    def options(self) -> dict[str, Any]:
        """The options as plain JSON."""
        found = dataclasses.asdict(self)
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in found.items()}


_REGISTRY: dict[str, type[OrderSpec]] = {}
# Orders of ours whose file is loaded when the name is first asked for.
_LATER = {
    "concatenation": "tombola.order._concatenation",
    "device_per_stream": "tombola.order._batching",
    "mixture": "tombola.order._mixture",
    "passes": "tombola.order._passes",
    "per_stream": "tombola.order._batching",
    "stratified": "tombola.order._batching",
    "subset": "tombola.order._subset",
    **{f"mosaic/{name}": "tombola.order.mosaic" for name in ("naive", "py1b", "py1br", "py1e", "py1s", "py2s")},
}
_Spec = TypeVar("_Spec", bound=type[OrderSpec])


def register(name: str) -> Callable[[_Spec], _Spec]:
    """Class decorator that gives an `OrderSpec` its name. A name is a promise: it means the same records for ever."""

    if not isinstance(name, str) or not name:
        raise OrderError(f"the name of an order is {name!r}; give a text that is not empty")

    def add(spec: _Spec) -> _Spec:
        if not (isinstance(spec, type) and issubclass(spec, OrderSpec) and dataclasses.is_dataclass(spec)):
            raise OrderError(f"{spec!r} cannot be named {name!r}: give a frozen dataclass that is an OrderSpec")
        taken = _REGISTRY.get(name)
        if name in _LATER and not spec.__module__.startswith(_LATER[name]):
            raise OrderError(f"the order name {name!r} belongs to tombola already; choose another")
        if taken is not None and taken.__qualname__ != spec.__qualname__:
            raise OrderError(f"the order name {name!r} belongs to {taken.__qualname__} already; choose another")
        spec.name = name
        _REGISTRY[name] = spec
        return spec

    return add


def order_names() -> tuple[str, ...]:
    """The names that `make_spec` knows, sorted.

    >>> "lanes" in order_names()
    True
    """
    return tuple(sorted({*_REGISTRY, *_LATER}))


def option_names(name: str) -> tuple[str, ...]:
    """The options that an order has, by its name.

    >>> option_names("passes")
    ('epoch_records', 'base')
    """
    return tuple(_fields(_spec_class(name)))


def _fields(spec: type[OrderSpec]) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(spec) if field.init}


def _spec_class(name: str) -> type[OrderSpec]:
    if not isinstance(name, str):
        raise OrderError(f"the name of an order is {name!r}; known are {', '.join(order_names())}")
    if name in _LATER and name not in _REGISTRY:
        import_module(_LATER[name])
    spec = _REGISTRY.get(name)
    if spec is None:
        raise OrderError(f"there is no order named {name!r}; known are {', '.join(order_names())}")
    return spec


def make_spec(name: str, **options: Any) -> OrderSpec:
    """The options of an order by name, as a command line or a configuration file gives them.

    >>> make_spec("lanes", lanes=16).options()["lanes"]
    16
    """
    spec = _spec_class(name)
    known = _fields(spec)
    for option in options:
        if option not in known:
            has = f"it has {', '.join(sorted(known))}" if known else "it has none"
            raise OrderError(f"the order {name!r} has no option {option!r}; {has}")
    for option, field in known.items():
        if option not in options and field.default is field.default_factory is dataclasses.MISSING:
            raise OrderError(f"the order {name!r} needs the option {option!r}")
    return spec(**options)


def check_epoch(epoch: Any) -> int:
    """The epoch as an int from 0 on."""
    return integer(epoch, "epoch", 0, _EPOCH_MAX, OrderError)
