"""The passes over a source: what batches are made of, in each part of the epoch and over several epochs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tombola import _core
from tombola._ints import Ints
from tombola.errors import InputError
from tombola.order import Permutation
from tombola.quality import _perfect
from tombola.quality._feature import Feature
from tombola.quality._perfect import Pairs, Reals
from tombola.quality._result import Number, Span, share_score
from tombola.quality._source import Source

_BLOCK = 1 << 20  # positions read at a time
_SEGMENTS = 32  # pieces of the middle of the epoch whose means give the error of a mean
_ENDS_MAX = 64  # batches that count as the beginning, and as the end
_STRETCHES = 64  # runs of positions read of an epoch too long to read
_SPANS = 32  # that an epoch is cut into to show its open shards over time
WINDOW_BATCHES = 16
_BITS_FOR_EQUAL = 64  # below, two epochs of few records may begin and end alike by chance
_TALLIES = ("same", "distinct", "window_new", "rank_same", "rank_distinct", "rank_same_worst")


@dataclass
class Grid:
    """How an epoch is cut into batches, its ends and its middle."""

    source: Source
    batch_size: int
    seed: int
    positions_max: int
    batches: int = field(init=False)
    ends: int = field(init=False)

    def __post_init__(self) -> None:
        self.batches = self.source.positions // self.batch_size
        if self.source.positions < 16:
            raise InputError(f"there are {self.source.positions} positions; a score needs at least 16, in 8 batches")
        if self.batches < 8:
            raise InputError(
                f"{self.source.positions} positions hold {self.batches} batches of {self.batch_size}; a score needs at "
                f"least 8: use batch_size={max(2, self.source.positions // 8)} or less"
            )
        self.ends = max(1, min(_ENDS_MAX, self.batches // 8))

    @property
    def whole(self) -> bool:
        """True when every position of an epoch is read."""
        return self.batches * self.batch_size <= self.positions_max

    def stretches(self) -> list[tuple[int, int]]:
        """(first batch, batches) of the runs that are read: the epoch in one, or a seeded sample."""
        if self.whole:
            return [(0, self.batches)]
        windows = (self.batches - 2 * self.ends) // WINDOW_BATCHES - 1
        each = max(1, self.positions_max // (4 * _STRETCHES * WINDOW_BATCHES * self.batch_size))
        places = max(1, windows // each)
        chosen = Permutation(places, self.seed, "quality/stretches").slice(0, min(places, _STRETCHES))
        skip = -(-self.ends // WINDOW_BATCHES)
        return [(WINDOW_BATCHES * (skip + int(p) * each), WINDOW_BATCHES * each) for p in sorted(chosen)]


@dataclass
class Means:
    """Sums over batches, kept apart by zone and segment."""

    names: tuple[str, ...]
    sums: Reals
    counts: Reals
    in_time: bool  # rows follow one another in one epoch, so that neighbours may be alike

    @classmethod
    def empty(cls, names: tuple[str, ...], rows: int, *, in_time: bool = False) -> Means:
        return cls(names, np.zeros((rows, len(names))), np.zeros(rows), in_time)

    def add(self, rows: Ints, values: Reals) -> None:
        """Values: one row a name, one column a batch; `rows` says where each batch belongs."""
        self.counts += np.bincount(rows, minlength=self.counts.size)
        for i, column in enumerate(values):
            self.sums[:, i] += np.bincount(rows, weights=column, minlength=self.counts.size)

    def of(self, name: str) -> tuple[float, float, int]:
        """Mean over batches, its standard error from the scatter of the rows, and that error's degrees of freedom."""
        i, used = self.names.index(name), self.counts > 0
        sums, counts = self.sums[used, i], self.counts[used]
        mean = sums.sum() / counts.sum()
        k = counts.size
        if k < 2:
            return float(mean), 0.0, 0
        # The ratio estimator's linearisation, for rows of unequal length.
        off = sums - mean * counts
        stretch = _dependence(off) if self.in_time else 1.0
        error = float(np.sqrt(stretch * k / (k - 1) * (off**2).sum()) / counts.sum())
        return float(mean), error, max(1, int((k - 1) / stretch))


def _dependence(series: Reals) -> float:
    """How many times the variance of a mean is what it would be if the terms were independent; at least 1.

    Shards stay open for longer than a piece of the epoch lasts, so neighbouring pieces are alike. Geyer's initial
    positive sequence: autocovariances are summed in pairs as long as a pair is positive.
    """
    k, centred = series.size, series - series.mean()
    gamma = np.array([(centred[lag:] * centred[: k - lag]).sum() for lag in range(k)]) / k
    if gamma[0] <= 0:
        return 1.0
    total = -gamma[0]
    for lag in range(0, k - 1, 2):
        pair = gamma[lag] + gamma[lag + 1]
        if pair <= 0:
            break
        total += 2 * pair
    return float(min(k / 2, max(1.0, total / gamma[0])))


@dataclass
class Reading:
    """What one pass over an epoch found."""

    means: Means  # rows: segments of the middle
    windows: Means  # shards new in their window, over whole windows
    read: int
    batches_middle: int
    opened: tuple[Ints, Ints, Ints] | None  # size, first, last of each stretch a shard is open for
    worst_gap: int | None
    missing: int | None
    repeated: int | None
    distance: tuple[float, float, int]  # mean |record − position| ÷ positions


def _names(feature: Feature | None) -> tuple[str, ...]:
    return (*_TALLIES, *(feature.columns if feature else ()))


class _Counter:
    """A tally and a feature, applied to whole batches."""

    def __init__(self, grid: Grid, feature: Feature | None, readers: int) -> None:
        source = grid.source
        self.size, self.feature = grid.batch_size, feature
        starts = np.ascontiguousarray(source.layout.filled_starts)
        gap = max(1, source.positions // 4)
        self.tally = _core.BatchTally(starts, grid.batch_size, readers, source.run, WINDOW_BATCHES, gap)

    def count(self, first: int, records: Ints) -> Reals:
        table = np.empty((len(_TALLIES), records.size // self.size), np.int64)
        self.tally.add(first, records, table)
        if self.feature is None:
            return table.astype(np.float64)
        return np.concatenate([table.astype(np.float64), self.feature.batches(records, self.size)])


def _blocks(grid: Grid, first: int, count: int, epoch: int, width: int = 1) -> Iterator[tuple[int, Ints]]:
    """(batch, records) of runs of whole batches, and of whole windows where they are long enough."""
    step = max(1, _BLOCK // (grid.batch_size * width))
    for batch in range(first, first + count, step):
        stop = min(batch + step, first + count)
        yield batch, grid.source.read(batch * grid.batch_size, stop * grid.batch_size, epoch)


def read_epoch(grid: Grid, feature: Feature | None, epoch: int = 0) -> Reading:
    """One pass over an epoch, or over a sample of it."""
    source, size = grid.source, grid.batch_size
    counter = _Counter(grid, feature, source.readers)
    names, stretches, whole = _names(feature), grid.stretches(), grid.whole
    rows = _SEGMENTS if whole else len(stretches)
    middle = Means.empty(names, rows, in_time=whole)
    windows, displaced = Means.empty(("new",), rows, in_time=whole), Means.empty(("d",), rows)
    seen = np.zeros(source.layout.records, np.bool_) if whole else None
    read, width = 0, 1 if feature is None or feature.is_label else feature.values.shape[1]
    for number, (first, count) in enumerate(stretches):
        for batch, records in _blocks(grid, first, count, epoch, width):
            values = counter.count(batch * size, records)
            positions = np.arange(batch * size, batch * size + records.size, dtype=np.int64)
            away = np.abs(records - positions).reshape(-1, size).mean(1)
            batches = np.arange(batch, batch + away.size, dtype=np.int64)
            inside = (batches >= grid.ends) & (batches < grid.batches - grid.ends)
            row = np.full(batches.size, number)
            if whole:
                span = max(1, grid.batches - 2 * grid.ends)
                row = np.clip((batches - grid.ends) * _SEGMENTS // span, 0, _SEGMENTS - 1)
            middle.add(row[inside], values[:, inside])
            full = batches // WINDOW_BATCHES < grid.batches // WINDOW_BATCHES
            piece = row
            if whole:  # pieces that end where windows end: the first batches of a window find most of its shards
                whole_windows = max(1, grid.batches // WINDOW_BATCHES)
                piece = batches // WINDOW_BATCHES * _SEGMENTS // whole_windows
            windows.add(piece[full], values[2:3, full])
            displaced.add(row, away[None, :] / source.positions)
            if seen is not None:
                seen[records] = True
            read += records.size
    missing = repeated = None
    if seen is not None:  # the rows behind the last whole batch belong to the epoch too
        rest = source.read(grid.batches * size, source.positions, epoch)
        seen[rest] = True
        visited = int(np.count_nonzero(seen))
        missing, repeated = source.layout.records - visited, source.positions - visited
    return Reading(
        middle,
        windows,
        read,
        int(middle.counts.sum()),
        _opened(source, counter, epoch, whole),
        int(counter.tally.worst_gap(grid.batches * size)) if whole else None,
        missing,
        repeated,
        displaced.of("d"),
    )


def _opened(source: Source, counter: _Counter, epoch: int, whole: bool) -> tuple[Ints, Ints, Ints] | None:
    known = source.stretches(epoch)
    if known is not None or not whole:
        return known
    unit, first, last = counter.tally.stretches()
    return np.diff(source.layout.filled_starts)[unit], first, last


@dataclass
class Shares:
    """How the records of an epoch's ends lie in shards: both arrays are 2 × epochs, first and last."""

    #: Mean, over the records, of the size of their shard.
    shard_size: Reals
    #: Σ w², w the share of the records that comes from each shard: 1 ÷ this many shards count as independent.
    together: Reals
    #: Σ w² of a perfect shuffle's ends, Σ over shards of E[w²].
    together_perfect: float
    #: The epochs whose ends hold the same records in the same order: pairs, counted from the first epoch read.
    equal: list[tuple[int, int]]

    def excess(self, which: int) -> float:
        """How much less independent than records one by one the draws at an end are: 0 in a perfect shuffle."""
        return max(0.0, float(self.together[which].mean()) - self.together_perfect)


def read_ends(grid: Grid, feature: Feature | None) -> tuple[Means, Means, Shares]:
    """The first and the last batches of every epoch: one row an epoch; and how their records lie in shards.

    With a single epoch the ends are cut into pieces instead, which tells less: their batches share open shards.
    """
    source, size, names = grid.source, grid.batch_size, _names(feature)
    epochs = source.epochs
    pieces = min(8, grid.ends) if epochs == 1 else 1
    first, last = Means.empty(names, epochs * pieces), Means.empty(names, epochs * pieces)
    rows = grid.ends * size
    chance = Pairs(source.layout.sizes).same
    shares = Shares(np.empty((2, epochs)), np.empty((2, epochs)), 1 / rows + (1 - 1 / rows) * chance, [])
    met_before: dict[bytes, int] = {}
    counter = _Counter(grid, feature, source.readers)
    for epoch in range(epochs):
        digest = hashlib.blake2b(digest_size=16)
        for which, (means, begin) in enumerate(((first, 0), (last, grid.batches - grid.ends))):
            records = source.read(begin * size, (begin + grid.ends) * size, epoch)
            digest.update(np.ascontiguousarray(records).tobytes())
            # Numbered on from end to end, so that the counter takes no two batches for one.
            values = counter.count((2 * epoch + which) * grid.ends * size, records)
            means.add(epoch * pieces + np.arange(grid.ends) * pieces // grid.ends, values)
            shard, _ = source.layout.locate(records)
            met, times = np.unique(shard, return_counts=True)
            shares.shard_size[which, epoch] = (
                (source.layout.starts[met + 1] - source.layout.starts[met]) @ times / times.sum()
            )
            shares.together[which, epoch] = ((times / times.sum()) ** 2).sum()
        if 2 * rows * math.log2(max(2, source.layout.records)) >= _BITS_FOR_EQUAL:
            first_met = met_before.setdefault(digest.digest(), epoch)
            if first_met != epoch:
                shares.equal.append((first_met, epoch))
    return first, last, shares


def opened_numbers(grid: Grid, opened: tuple[Ints, Ints, Ints]) -> list[Number]:
    """Open shards, the records they hold, and how often a shard is opened, in the middle of the epoch."""
    sizes, first, last = opened
    n = grid.source.positions
    times = np.concatenate([first, last + 1])
    order = np.argsort(times, kind="stable")
    times = times[order]
    ones = np.concatenate([np.ones(first.size), -np.ones(first.size)])[order].cumsum()
    held = np.concatenate([sizes, -sizes])[order].cumsum()
    lengths = np.diff(np.append(times, n))
    low, high = n // 4, n - n // 4
    weight = np.clip(np.minimum(times + lengths, high) - np.maximum(times, low), 0, None)
    settled = lengths > 0
    total = max(1.0, float(weight.sum()))
    opens = first[(first >= low) & (first < high)] // grid.batch_size
    worst = int(np.unique(opens, return_counts=True)[1].max(initial=0))
    return [
        Number("open_shards", "middle", float((ones * weight).sum() / total)),
        Number("open_shards_most", "epoch", float(ones[settled].max(initial=0))),
        Number("open_records_most", "epoch", float(held[settled].max(initial=0))),
        Number("openings_per_batch", "middle", opens.size * grid.batch_size / (high - low)),
        Number("openings_in_one_batch_most", "middle", float(worst)),
    ]


def open_over_time(grid: Grid, opened: tuple[Ints, Ints, Ints]) -> tuple[Span, ...]:
    """Open shards and how many are opened, span by span."""
    n, spans_max = grid.source.positions, min(_SPANS, grid.source.positions)
    edges = np.array([k * n // spans_max for k in range(spans_max + 1)])  # Python's: 32 · n may exceed 64 bits
    first, end = np.sort(opened[1]), np.sort(opened[2]) + 1
    # Positions times open shards before each edge: in floating point, for 10^12 positions of 10^7 shards.
    used = np.zeros(edges.size)
    for sign, times in ((1, first), (-1, end)):
        before = np.searchsorted(times, edges)
        sums = np.append(0.0, np.cumsum(times, dtype=np.float64))[before]
        used += sign * (edges.astype(np.float64) * before - sums)
    mean = np.diff(used) / np.diff(edges)
    openings = np.diff(np.searchsorted(first, edges))
    spans = zip(edges[:-1].tolist(), mean.tolist(), openings.tolist(), strict=True)
    return tuple(Span(position, max(0.0, open_shards), count) for position, open_shards, count in spans)


def tally_numbers(grid: Grid, reading: Reading, first: Means, last: Means) -> list[Number]:
    """Pairs from one shard and distinct shards: per batch, per window and per rank, in each zone."""
    source, size = grid.source, grid.batch_size
    sizes, readers = source.layout.sizes[source.layout.sizes > 0], source.readers
    pairs, per_rank = Pairs(sizes), size // readers
    zones = (
        ("first", first, grid.ends * source.epochs),
        ("middle", reading.means, reading.batches_middle),
        ("last", last, grid.ends * source.epochs),
    )
    out: list[Number] = []
    for zone, means, batches in zones:
        wanted = [("p_same", "same", math.comb(size, 2), pairs.same, pairs.spread(size, batches))]
        mean, spread = _perfect.distinct(sizes, size, batches)
        wanted.append(("shards_per_batch", "distinct", 1, mean, spread))
        if readers > 1 and per_rank > 1:
            wanted.append(
                ("p_same_rank", "rank_same", math.comb(per_rank, 2) * readers, pairs.same,
                 pairs.spread(per_rank, batches * readers))
            )  # fmt: skip
            mean, spread = _perfect.distinct(sizes, per_rank, batches * readers)
            wanted.append(("shards_per_rank_batch", "rank_distinct", readers, mean, spread))
        for name, column, unit, perfect, scatter in wanted:
            value, error, freedom = means.of(column)
            if name.startswith("p_same"):
                z = share_score(value / unit, perfect, scatter)
            else:
                z = distinct_score(value / unit, perfect, scatter, size if unit == 1 else per_rank, sizes.size)
            out.append(Number(name, zone, value / unit, perfect, error / unit, scatter, freedom, z))  # type: ignore[arg-type]
    if readers > 1 and per_rank > 1:
        value, error, freedom = reading.means.of("rank_same_worst")
        unit = math.comb(per_rank, 2)
        out.append(Number("p_same_worst_rank", "middle", value / unit, None, error / unit, 0.0, freedom))
    windows = int(reading.windows.counts.sum()) // WINDOW_BATCHES
    in_window = WINDOW_BATCHES * size
    if windows >= 1 and in_window <= source.positions:
        mean, spread = _perfect.distinct(sizes, in_window, windows)
        value, error, freedom = reading.windows.of("new")
        value, error = value * WINDOW_BATCHES, error * WINDOW_BATCHES
        z = distinct_score(value, mean, spread, in_window, sizes.size)
        out.append(Number("shards_per_window", "epoch", value, mean, error, spread, freedom, z))
    return out


def distinct_score(value: float, perfect: float, spread: float, rows: int, shards: int) -> float:
    """Normal score of a number of distinct shards, as a share of the rows and as a share of the shards.

    What is rare, a repeated shard or a shard that is not met, comes in counts; the smaller score is right for it.
    """
    both = [share_score(value / most, perfect / most, spread / most) for most in (rows, shards)]
    return min((z for z in both if z), key=abs, default=0.0)


def feature_numbers(grid: Grid, feature: Feature, reading: Reading, first: Means, last: Means) -> list[Number]:
    """Design effect, label entropy and absences in each zone, measured and by the formula of exchangeable positions."""
    size, rho = grid.batch_size, feature.rho
    b = rho.records_per_shard
    reach = Number("rho", "epoch", rho.rho, None, rho.error, 0.0, max(0, rho.shards - 1))
    out = [reach, Number("shard_deff", "epoch", rho.shard_deff, None, (b - 1) * rho.error, 0.0, reach.freedom)]
    perfect, control = feature.perfect(size), feature.control(size, grid.seed)
    pairs = Pairs(feature.layout.sizes)
    apart = rho_between(rho.finite, pairs.same, feature.layout.records)
    zones = (
        ("first", first, grid.ends * grid.source.epochs),
        ("middle", reading.means, reading.batches_middle),
        ("last", last, grid.ends * grid.source.epochs),
    )
    for zone, means, batches in zones:
        for i, name in enumerate(feature.columns):
            value, error, freedom = means.of(name)
            spread = control[i] / math.sqrt(batches)
            z = share_score(value, float(perfect[i]), spread) if name == "rare_absent" else None
            out.append(Number(name, zone, value, float(perfect[i]), error, spread, freedom, z))  # type: ignore[arg-type]
            if name == "deff":
                same = means.of("same")[0] / math.comb(size, 2)
                model = 1 + (size - 1) * (same * rho.finite + (1 - same) * apart)
                slope = (size - 1) * abs(same - pairs.same) / max(1e-300, 1 - pairs.same)
                out.append(Number("deff_model", zone, model, float(perfect[i]), slope * rho.error, 0.0, rho.shards - 1))  # type: ignore[arg-type]
                deff = max(value, 1e-12)
                bare, ideal = size / deff, size / max(float(perfect[i]), 1e-12)
                out.append(
                    Number("effective_batch", zone, bare, ideal, bare * error / deff, ideal * spread, freedom)  # type: ignore[arg-type]
                )
    return out


def rho_between(rho: float, same: float, records: int) -> float:
    """Correlation of two records from different shards.

    Over all pairs the correlation is −1/(m−1) whatever the data, so what pairs within shards have in excess the others
    lack. With equal shards this is −(1 + (b−1)ρ)/(m−b).
    """
    return (-1 / (records - 1) - same * rho) / (1 - same) if same < 1 else 0.0


def drift_numbers(grid: Grid, feature: Feature, open_shards: float, epoch: int = 0) -> list[Number]:
    """Variance of the mean over a buffer's worth of positions (open shards × records per shard), against the formula
    for n random whole shards, (1 − α) h_D σ² / (n b) with α = (n − 1)/(N − 1). In units of σ²."""
    source, layout = grid.source, grid.source.layout
    shards = layout.filled_starts.size - 1
    b, n = layout.records / shards, max(1.0, min(float(shards), open_shards))
    span = round(n * b)
    windows = source.positions // span if span else 0
    if windows < 8 or shards < 2:
        return []
    windows = min(windows, 512, max(8, grid.positions_max // (4 * span)))
    places = source.positions // span
    chosen = Permutation(places, grid.seed, "quality/drift").slice(0, windows)
    off = np.empty(windows)
    for i, place in enumerate(chosen.tolist()):
        total, done = np.zeros(feature.mean.size), 0
        for start in range(place * span, (place + 1) * span, _BLOCK):
            stop = min(start + _BLOCK, (place + 1) * span)
            total += feature.mean_of(source.read(start, stop, epoch)) * (stop - start)
            done += stop - start
        off[i] = ((total / done - feature.mean) ** 2).sum() / feature.variance
    h = feature.rho.shard_deff
    alpha = (n - 1) / (shards - 1)
    m = layout.records
    error = float(off.std(ddof=1) / math.sqrt(windows))
    perfect = (m - span) / (m - 1) / span
    scatter = perfect * math.sqrt(2 / windows)
    return [
        Number("buffer_drift", "epoch", float(off.mean()), perfect, error, scatter, windows - 1),
        Number("buffer_drift_model", "epoch", (1 - alpha) * h / (n * b), perfect, (1 - alpha) * feature.rho.error / n),
    ]
