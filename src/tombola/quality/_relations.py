"""How records relate over time: at fixed lags, from epoch to epoch, from seed to seed, and in storage."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from tombola._ints import Ints
from tombola.order import Layout, Permutation
from tombola.quality import _perfect
from tombola.quality._feature import Feature
from tombola.quality._measure import Grid, Shares
from tombola.quality._perfect import Pairs, Reals
from tombola.quality._result import Lag, Number, Zone, share_score
from tombola.quality._source import SHARDS_DRAWN_MAX, Source

_RUNS = 64
_RUN_LENGTH = 4096
_RUN_LENGTH_MAX = 1 << 16
_LAGS = 1024  # lags searched for a period, one by one
_RECORDS = 4096  # followed from epoch to epoch
_SEED_PAIRS = 12
_MATES = 4096  # rows of whole batches that are looked for in the next epoch


def runs(grid: Grid, epoch: int = 0) -> list[Ints]:
    """Seeded runs of consecutive positions out of the middle of an epoch, each from the start of a batch."""
    source, size = grid.source, grid.batch_size
    wanted = min(_RUN_LENGTH_MAX, max(_RUN_LENGTH, 4 * source.lanes))
    batches = max(2, min(wanted // size, (grid.batches - 2 * grid.ends) // 2))
    places = max(1, (grid.batches - 2 * grid.ends) // batches)
    chosen = Permutation(places, grid.seed, "quality/runs").slice(0, min(places, _RUNS))
    starts = (grid.ends + chosen * batches) * size
    return [source.read(int(a), int(a) + batches * size, epoch) for a in starts]


def lag_table(grid: Grid, read: list[Ints], alarm: float) -> tuple[tuple[Lag, ...], int | None]:
    """Likeness at a choice of lags, and the period: the first lag at which shards come again though nearer ones do not.

    `alarm` is the normal score for one test; the search over many lags raises it by Bonferroni's rule.
    """
    layout, source = grid.source.layout, grid.source
    shards = [layout.locate(r)[0] for r in read]
    length = min(s.size for s in shards)
    pairs = Pairs(layout.sizes)
    longest = min(_LAGS, length // 2)
    extra = [k for k in (source.lanes, 2 * source.lanes) if longest < k < length] if source.lanes > 1 else []
    lags = np.array([*range(1, longest + 1), *extra])
    same = np.array([np.mean([np.count_nonzero(s[k:] == s[:-k]) / (s.size - k) for s in shards]) for k in lags])
    count = np.array([sum(s.size - k for s in shards) for k in lags])
    # Pairs at one lag share records with two others; each adds the covariance of touching pairs.
    p, touch = pairs.same, max(0.0, pairs.touching - pairs.same**2)
    inflated = 1 + 2 * touch / max(1e-300, p * (1 - p))
    z = _binomial_score(same * count, count, p) / math.sqrt(inflated)
    raised = math.hypot(alarm, math.sqrt(2 * math.log(max(2, lags.size))))
    period = None
    again = np.flatnonzero(z > raised)
    if again.size and lags[again[0]] > 1:
        head = int(again[0])
        near = (same[:head] * count[:head]).sum()
        if _binomial_score(np.array([near]), np.array([count[:head].sum()]), p)[0] <= alarm * math.sqrt(inflated):
            # Shards that are cut between two lanes come again earlier than all others: the rhythm is that of most.
            period = int(lags[again[same[again] - p >= (same[again].max() - p) / 2][0]])
    m, centre = layout.records, (layout.records - 1) / 2
    shown = sorted({1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, *extra} | _around(period))
    out = []
    for k in (k for k in shown if k in set(lags.tolist())):
        i = int(np.searchsorted(lags, k))
        products = [((r[k:] - centre) * (r[:-k] - centre)).mean() for r in read]
        storage = float(np.mean(products)) / ((float(m) ** 2 - 1) / 12) if m > 1 else 0.0
        out.append(Lag(int(k), float(same[i]), p, float(z[i]), storage, storage * math.sqrt(count[i])))
    return tuple(out), period


def _binomial_score(hits: Reals, trials: Ints | Reals, chance: float) -> Reals:
    """Normal score of so many hits: the signed root of the deviance, right also where hits are few."""
    if not 0 < chance < 1:
        return np.zeros(hits.shape)
    expected, misses = trials * chance, trials - hits

    def part(seen: Any, wanted: Any) -> Reals:
        return np.asarray(np.where(seen > 0, seen * np.log(np.where(seen > 0, seen, 1) / wanted), 0.0))

    deviance = 2 * (part(hits, expected) + part(misses, trials - expected))
    return np.asarray(np.sign(hits - expected) * np.sqrt(np.maximum(0.0, deviance)))


def _around(period: int | None) -> set[int]:
    return set() if period is None else {period - 1, period, period + 1, 2 * period}


def apart(records: Ints, batch_size: int, seed: int) -> Ints:
    """Distances in storage between rows of a batch, each row paired with one other.

    Pairs are drawn: rows half a batch apart, say, are in one lane whenever the lanes divide that.
    """
    rows = records[: records.size // batch_size * batch_size].reshape(-1, batch_size)
    drawn = np.random.default_rng(seed % (1 << 63)).permuted(rows, axis=1)
    half = batch_size // 2
    away: Ints = np.abs(drawn[:, :half] - drawn[:, half : 2 * half]).reshape(-1)
    return away


def radius_numbers(grid: Grid, read: list[Ints]) -> list[Number]:
    """Quantiles of the distance in storage between two rows of a batch, as a share of all records."""
    m = grid.source.layout.records
    by_run = [apart(r, grid.batch_size, grid.seed + number) for number, r in enumerate(read)]
    away, out = np.concatenate(by_run), []
    for chance in (0.05, 0.5, 0.95):
        value = float(np.quantile(away, chance)) / m
        reach = round(_perfect.distance_at(chance, m))
        perfect = _perfect.distance_at(chance, m) / m
        slope = 2 * (1 - perfect)
        spread = math.sqrt(chance * (1 - chance) / away.size) / slope
        shares = np.array([(a <= value * m).mean() for a in by_run])
        error = float(shares.std(ddof=1) / math.sqrt(shares.size)) / slope if shares.size > 1 else 0.0
        # Counted at a whole distance: exact for little data as well. Nearer than in a perfect shuffle is negative.
        exact = _perfect.within(reach, m)
        near = float((away <= reach).mean())
        z = -share_score(near, exact, math.sqrt(exact * (1 - exact) / away.size))
        name = f"radius_{round(100 * chance)}"
        out.append(Number(name, "middle", value, perfect, error, spread, max(0, shares.size - 1), z))
    return out


def whole_shards(layout: Layout) -> float:
    """How many shards of equal size would scatter as these do when they move as a whole."""
    sizes = layout.sizes.astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def _mean(name: str, values: Reals, perfect: float, spread: float) -> Number:
    k = values.size
    error = float(values.std(ddof=1) / math.sqrt(k)) if k > 1 else 0.0
    return Number(name, "run", float(values.mean()), perfect, error, spread / math.sqrt(k), max(0, k - 1))


def _ranks(source: Source, records: Ints, epoch: int) -> Reals | None:
    places = source.places(records, epoch)
    if places is None:
        return None
    return _standard(places)


def _standard(places: Ints) -> Reals:
    centred = places - places.mean()
    scale = float(centred.std())
    return np.asarray(centred / scale if scale > 0 else centred, np.float64)


def run_numbers(grid: Grid) -> list[Number]:
    """Rank correlation of where records are read: with storage, with the next epoch, and with other seeds.

    Each is a mean over epochs or seeds, and its error comes from their scatter: whole shards moving together make one
    correlation scatter more than for a perfect shuffle, but not its mean.
    """
    source, m = grid.source, grid.source.layout.records
    records = np.sort(Permutation(m, grid.seed, "quality/records").slice(0, min(m, _RECORDS)))
    own = _standard(records)
    spread = 1 / math.sqrt(records.size)
    ranks = []
    for epoch in range(source.epochs):
        here = _ranks(source, records, epoch)
        if here is None:
            return []
        ranks.append(here)
    out = [_mean("storage_correlation", np.array([(own * r).mean() for r in ranks]), 0.0, spread)]
    if len(ranks) > 1:
        pairs = np.array([(a * b).mean() for a, b in itertools.pairwise(ranks)])
        out.append(_mean("epoch_correlation", pairs, 0.0, spread))
    for name, ahead in (("seed_correlation", 0), ("seed_epoch_correlation", 1)):
        others = _seeds(source, records, ahead)
        if others:
            out.append(_mean(name, np.array(others), 0.0, spread))
    return out


def _seeds(source: Source, records: Ints, ahead: int) -> list[float]:
    """Correlations of neighbouring seeds, the lower one so many epochs ahead; no seed serves twice.

    Where a seed is added to the epoch, seed s one epoch ahead is seed s + 1.
    """
    found = []
    pairs = max(2, min(_SEED_PAIRS, SHARDS_DRAWN_MAX // max(1, source.layout.shards)))
    for pair in range(pairs):
        one, two = source.reseeded(2 * pair), source.reseeded(2 * pair + 1)
        here = None if one is None else _ranks(one, records, ahead)
        there = None if two is None else _ranks(two, records, 0)
        if here is None or there is None:
            return []
        found.append(float((here * there).mean()))
    return found


def mates_numbers(grid: Grid) -> list[Number]:
    """Chance that two rows of a batch, from different shards where there are several, share one in the next epoch too.

    A fixed permutation read from another place, or fixed batches in another order, correlate with no epoch by rank.
    """
    source, size = grid.source, grid.batch_size
    n, shards = source.positions, source.layout.filled_starts.size - 1
    if source.epochs < 2 or n != source.layout.records:
        return []
    whole, rest = grid.batches, n - grid.batches * size
    chance = (whole * size * (size - 1) + rest * (rest - 1)) / (n * (n - 1))
    met, pairs = np.zeros(source.epochs - 1), np.zeros(source.epochs - 1)
    for epoch in range(source.epochs - 1):
        drawn = Permutation(whole, grid.seed, "quality/mates", epoch)
        chosen = drawn.slice(0, min(whole, max(2, _MATES // size)))
        rows = np.stack([source.read(int(b) * size, (int(b) + 1) * size, epoch) for b in chosen])
        places = source.places(rows.reshape(-1), epoch + 1)
        if places is None:
            return []
        shard = source.layout.locate(rows)[0]
        later = places.reshape(rows.shape) // size
        step = max(1, (1 << 24) // (size * size))
        for at in range(0, len(rows), step):
            apart = np.triu(np.ones((size, size), np.bool_), 1)[None]
            if shards > 1:
                apart = apart & (shard[at : at + step, :, None] != shard[at : at + step, None, :])
            again = later[at : at + step, :, None] == later[at : at + step, None, :]
            met[epoch] += np.count_nonzero(again & apart)
            pairs[epoch] += np.count_nonzero(np.broadcast_to(apart, again.shape))
    if not pairs.all():
        return []
    value = float(met.sum() / pairs.sum())
    k = met.size
    error = float((met / pairs).std(ddof=1) / math.sqrt(k)) if k > 1 else 0.0
    scatter = math.sqrt(chance * (1 - chance) / pairs.sum())
    z = share_score(value, chance, scatter)
    return [Number("mates_again", "run", value, chance, error, scatter, max(0, k - 1), z)]


def bias_numbers(grid: Grid, feature: Feature | None, shares: Shares) -> tuple[list[Number], int]:
    """Whether the ends of an epoch hold what the whole holds, on average over epochs; and how many tests that took.

    Few open shards make few independent draws an epoch, so the scatter between epochs may by chance look too small:
    the error is never taken below what whole shards drawn at random would give. Of a feature's many labels or
    components only the most deviant one is kept for each end.
    """
    source = grid.source
    out: list[Number] = []
    epochs, rows = source.epochs, grid.ends * grid.batch_size
    sizes = source.layout.sizes.astype(np.float64)
    mean = float((sizes**2).sum() / sizes.sum())
    variance = float((sizes**3).sum() / sizes.sum()) - mean**2
    zones: tuple[tuple[Zone, int], ...] = (("first", 0), ("last", grid.batches - grid.ends))
    if variance > 1e-9 * mean**2:
        for which, (zone, values) in enumerate(zip(("first", "last"), shares.shard_size, strict=True)):
            n = _mean("shard_size", values, mean, math.sqrt(variance / rows))
            error = max(n.error, math.sqrt(variance * (shares.excess(which) + 1 / rows) / epochs))
            out.append(replace(n, zone=zone, error=error))  # type: ignore[arg-type]
    if feature is None:
        return out, len(out)
    watched, rho = feature.watched(), min(1.0, max(0.0, feature.rho.finite))
    for which, (zone, begin) in enumerate(zones):
        at = [begin * grid.batch_size, (begin + grid.ends) * grid.batch_size]
        means = np.array([feature.mean_of(source.read(at[0], at[1], e))[watched] for e in range(epochs)])
        shrink = (rho * shares.excess(which) + 1 / rows) / epochs
        numbers = []
        for column, component in zip(means.T, watched, strict=True):
            variance = feature.component_variance(component)
            if epochs == 1 and not feature.is_label:  # one far value must not look like a bias
                held = feature.values[source.read(at[0], at[1], 0)][:, component]
                variance = max(variance, float(held.var(dtype=np.float64)))
            n = _mean("", column, float(feature.mean[component]), math.sqrt(variance / rows))
            if feature.is_label:  # a share above its expectation scatters more than one at it
                variance = max(variance, n.value * (1 - n.value))
            error = max(n.error, math.sqrt(variance * shrink))
            numbers.append(replace(n, name=f"feature {feature.describe(component)}", zone=zone, error=error))
        out.append(max(numbers, key=lambda n: abs(n.z_bias)))
    return out, len(out) - 2 + 2 * len(watched)
