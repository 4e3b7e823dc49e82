"""How many records each stream and shard gives to an epoch, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola._ints import Ints, IntsLike, integer
from tombola.errors import OrderError
from tombola.order._layout import Layout
from tombola.order._order import check_epoch
from tombola.order.mosaic._draws import Draws, check_seed, width
from tombola.order.mosaic._shuffle import unit_sizes

_RECORDS_MAX = 2**61
_FLOAT_MAX = float(np.finfo(np.float64).max)
SAMPLINGS = ("balanced", "fixed")


@dataclass(frozen=True)
class Weights:
    """What each stream gives to an epoch: made by `weigh`."""

    #: Records of an epoch, per stream.
    choose: tuple[int, ...]
    #: The same as a share of the whole, as the peer computes it; it decides blocks and shares of a batch.
    proportion: tuple[float, ...]

    @property
    def records(self) -> int:
        """Records of an epoch."""
        return sum(self.choose)


def weigh(
    stream_records: IntsLike,
    *,
    proportion: Sequence[float | None] | None = None,
    repeat: Sequence[float | None] | None = None,
    choose: Sequence[int | None] | None = None,
    epoch_records: int | None = None,
    seed: int = 9176,
) -> Weights:
    """How many records of each stream an epoch reads, rounded as the peer rounds.

    Either `proportion` for every stream, or per stream a `repeat`, a `choose` or None (all of it once). With
    `proportion`, or without any, an epoch has `epoch_records` records; what rounding down leaves over goes to
    streams drawn with the seed.

    >>> weigh([60, 100], proportion=[1, 2], epoch_records=120).choose
    (40, 80)
    """
    sizes = unit_sizes(stream_records)
    count = sizes.size
    if count == 0:
        raise OrderError("there are no streams to weigh; give the records of at least one")
    seed = check_seed(seed)
    for what, given in (("proportion", proportion), ("repeat", repeat), ("choose", choose)):
        if given is not None and not is_list(given):
            raise OrderError(f"{what} is {given!r}; give a list with a number for each stream, or None")
        if given is not None and len(given) != count:
            raise OrderError(f"{what} has {len(given)} entries for {count} streams; give one for each, or None")
    absolute = any(v is not None for given in (repeat, choose) if given is not None for v in given)
    if proportion is not None and any(p is not None for p in proportion):
        if absolute:
            raise OrderError("some streams have a proportion and others repeat or choose; weigh all in the same way")
        shares = _proportions(proportion)
    elif absolute:
        if epoch_records is not None:
            raise OrderError("epoch_records goes with proportions; with repeat or choose the epoch is their sum")
        nothing = [None] * count
        return _absolute(sizes, nothing if repeat is None else repeat, nothing if choose is None else choose)
    elif epoch_records is None:
        if not sizes.any():
            raise OrderError("no stream holds a record; an epoch needs at least one")
        return _resolved(sizes)
    else:
        if not sizes.any():
            raise OrderError("no stream holds a record; an epoch needs at least one")
        shares = sizes / sizes.sum()
    total = int(sizes.sum()) if epoch_records is None else integer(epoch_records, "epoch_records", 1, 2**61, OrderError)
    chosen = (total * shares).astype(np.int64)
    chosen[Draws(seed).choice(count, total - int(chosen.sum()))] += 1
    for stream in np.flatnonzero((chosen > 0) & (sizes == 0)):
        raise OrderError(
            f"stream {stream} holds no records, but {chosen[stream]} are wanted of it; give it proportion 0"
        )
    return Weights(tuple(chosen.tolist()), tuple(shares.tolist()))


def is_list(value: Any) -> bool:
    """Whether a value can list something for each stream."""
    listed = isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
    return listed or (isinstance(value, np.ndarray) and value.ndim == 1)


def _is_amount(value: Any) -> bool:
    """Whether a value is a finite number from 0 on that fits a double."""
    known = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return known and 0 <= value <= _FLOAT_MAX


def _proportions(proportion: Sequence[float | None]) -> npt.NDArray[np.float64]:
    for stream, share in enumerate(proportion):
        if not _is_amount(share):
            raise OrderError(f"the proportion of stream {stream} is {share!r}; it must be a number from 0 on")
    shares = np.array(proportion, np.float64)
    if not shares.any():
        raise OrderError("every proportion is 0; give at least one stream a weight")
    if sum(map(float, shares)) == np.inf:
        raise OrderError(f"the proportions are too large to be added up ({shares.max():.3g} is one); use smaller ones")
    normed: npt.NDArray[np.float64] = shares / shares.sum()
    return normed


def _absolute(sizes: Ints, repeat: Sequence[float | None], choose: Sequence[int | None]) -> Weights:
    chosen = sizes.copy()
    for stream, (times, count) in enumerate(zip(repeat, choose, strict=True)):
        if times is not None and count is not None:
            raise OrderError(f"stream {stream} has both repeat={times!r} and choose={count!r}; give one of them")
        if times is not None:
            if not _is_amount(times):
                raise OrderError(f"repeat of stream {stream} is {times!r}; it must be a number from 0 on")
            # A float that overflows here is infinite, which no count of records is either.
            if times * int(sizes[stream]) > _RECORDS_MAX:
                raise OrderError(f"repeat of stream {stream} is {times!r}: more than 2^61 records; use a smaller one")
            chosen[stream] = int(times * int(sizes[stream]))
        elif count is not None:
            chosen[stream] = integer(count, f"choose of stream {stream}", 0, 2**61, OrderError)
        if chosen[stream] > 0 and sizes[stream] == 0:
            raise OrderError(f"stream {stream} holds no records, but {chosen[stream]} are wanted of it; leave it out")
    if not chosen.any():
        raise OrderError("no record is chosen of any stream; an epoch needs at least one")
    return _resolved(chosen)


def _resolved(chosen: Ints) -> Weights:
    total = int(chosen.sum())
    return Weights(tuple(chosen.tolist()), tuple(count / total for count in chosen.tolist()))


def sample_shards(
    sizes: IntsLike, choose: int, *, granularity: int = 1, seed: int, epoch: int = 0, fresh: bool = True
) -> Ints:
    """How many records each shard gives when `choose` are wanted of all: the peer's get_sampling.

    Whole passes first; the rest is picked `granularity` records at a time from the shards in a random order, which is
    new each epoch if `fresh`.

    Kept as it is: with a granularity, the last pick of a shard that is followed by an empty one counts as a full pick,
    so that the shard may give more records than it holds.

    >>> sample_shards([10, 20, 30], 15, seed=0).tolist()
    [3, 6, 6]
    """
    given = unit_sizes(sizes)
    choose = integer(choose, "choose", 0, 2**61, OrderError)
    granularity = integer(granularity, "granularity", 1, 2**61, OrderError)
    seed, epoch = check_seed(seed), check_epoch(epoch)
    out = np.zeros_like(given)
    if not given.any():
        if choose:
            raise OrderError(f"{choose} records are wanted of shards that hold none; choose 0 or give records")
        return out
    _core.mosaic_sample_shards(given, choose, granularity, seed + epoch if fresh else seed, out)
    return out


@dataclass(frozen=True)
class Sample:
    """What an epoch reads before it is shuffled: virtual records, laid end to end in units."""

    #: Records per unit: each whole pass over a shard, and the rest of one, is a unit of its own.
    units: Ints
    #: The record each virtual record stands for; None when each stands for itself.
    records: npt.NDArray[Any] | None


def sample(
    layout: Layout,
    choose: Sequence[int],
    *,
    seed: int,
    epoch: int = 0,
    sampling: str = "balanced",
    granularity: int = 1,
    fresh: bool = True,
    stream: int | None = None,
) -> Sample:
    """The units and records of an epoch, of all streams or of one: the peer's resample_streams.

    sampling
        "balanced" draws which records of a partly read shard are read anew each epoch, "fixed" draws once.
    fresh
        Whether the records per shard are drawn anew each epoch too; the peer does so only with a shuffle.

    Kept as it is: each call draws from the same seed, so streams of equal layout that are sampled one by one give
    the same places, and so does the shuffle's first use of that seed.

    >>> sample(Layout([4, 4]), [6], seed=0).units.tolist()
    [3, 3]
    """
    streams = stream_ranges(layout)
    if len(choose) != len(streams):
        raise OrderError(f"choose has {len(choose)} entries for {len(streams)} streams; give one for each")
    if sampling not in SAMPLINGS:
        raise OrderError(f"sampling is {sampling!r}; it must be one of {', '.join(SAMPLINGS)}")
    seed, epoch = check_seed(seed), check_epoch(epoch)
    wanted = range(len(streams)) if stream is None else [integer(stream, "stream", 0, len(streams) - 1, OrderError)]
    sizes, starts = layout.sizes, layout.starts[:-1]
    counts = [
        sample_shards(
            sizes[slice(*streams[s])], choose[s], granularity=granularity, seed=seed, epoch=epoch, fresh=fresh
        )
        for s in wanted
    ]
    first, end = streams[wanted[0]][0], streams[wanted[-1]][1]
    sizes, starts, taken = sizes[first:end], starts[first:end], np.concatenate(counts)
    if stream is None and np.array_equal(taken, sizes):
        return Sample(sizes[sizes > 0], None)
    records = np.empty(int(taken.sum()), width(max(layout.records, int(taken.sum()))))
    draw_seed = seed + epoch if sampling == "balanced" else seed
    units = _core.mosaic_sample_records(starts, sizes, taken, draw_seed, records)
    return Sample(np.array(units, np.int64), records)


def stream_ranges(layout: Layout) -> list[tuple[int, int]]:
    """First and end shard of each stream. The peer lays streams one after the other."""
    if layout.streams is None:
        return [(0, layout.shards)]
    if layout.streams.size and (np.diff(layout.streams) < 0).any():
        raise OrderError("the shards of the streams are mixed; an exact MosaicML order needs stream after stream")
    count = int(layout.streams[-1]) + 1 if layout.streams.size else 0
    edges = np.searchsorted(layout.streams, np.arange(count + 1))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def stream_records(layout: Layout) -> Ints:
    """Records of each stream."""
    edges = stream_ranges(layout)
    return np.array([layout.starts[end] - layout.starts[first] for first, end in edges], np.int64)
