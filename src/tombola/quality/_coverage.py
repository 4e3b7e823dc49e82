"""Which records the epochs leave out, and which they read more than once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tombola._ints import Ints
from tombola.quality._feature import Feature
from tombola.quality._measure import Reading
from tombola.quality._perfect import Pairs
from tombola.quality._result import Finding, Lag, Number, share_score
from tombola.quality._source import READ_AT_ONCE, IdsSource, Source
from tombola.quality._verdict import moves_shards

_RECORDS_MAX = 1 << 28  # beyond, only the epoch that is read is counted
_LEFT_OUT_MAX = 1 << 22  # missing records that are looked at


@dataclass
class Coverage:
    """Counts of each epoch read whole, of all of them, and what they say."""

    missing: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()
    missing_always: int | None = None
    findings: list[Finding] = field(default_factory=list)


def cover(
    source: Source,
    reading: Reading,
    feature: Feature | None,
    numbers: list[Number],
    lags: tuple[Lag, ...],
    period: int | None,
    alarm: float,
) -> Coverage:
    """Counts reads. Orders are read for one epoch, recorded ids for all."""
    if reading.missing is None or reading.repeated is None:
        return Coverage()
    out = Coverage((reading.missing,), (reading.repeated,), reading.missing)
    m, n = source.layout.records, source.positions
    if reading.repeated and reading.missing:
        what = f"{reading.missing} records are never read and {reading.repeated} positions repeat one"
        if source.repeats:  # a stream with a large weight comes round while another is not through yet
            what = f"by plan {what} in this epoch"
        out.findings.append(Finding(what, math.inf, not source.repeats))
    if not isinstance(source, IdsSource) or m > _RECORDS_MAX:
        return out
    never, missing, repeated, uneven = np.ones(m, np.bool_), [], [], 0
    left_out: Ints | None = None
    for epoch in range(source.epochs):
        row = source.ids[epoch]
        pieces = [row[start : start + READ_AT_ONCE] for start in range(0, n, READ_AT_ONCE)]
        seen = np.zeros(m, np.bool_)
        for piece in pieces:
            seen[piece] = True
        missing.append(m - int(np.count_nonzero(seen)))
        repeated.append(n - m + missing[-1])
        if n > m and repeated[-1]:
            times = np.zeros(m, np.int64)
            for piece in pieces:
                np.add.at(times, piece, 1)
            uneven = max(uneven, int(times.max() - times.min()))
        if epoch == 0:
            left_out = np.flatnonzero(~seen)
        never &= ~seen
    out.missing, out.repeated, out.missing_always = tuple(missing), tuple(repeated), int(np.count_nonzero(never))
    if not out.findings and any(a and b for a, b in zip(missing, repeated, strict=True)):
        out.findings.append(
            Finding("an epoch leaves records out and reads others twice; records_missing counts them", math.inf, True)
        )
    if uneven > 1:
        out.findings.append(Finding(f"one record is read {uneven} times more often than another", math.inf, True))
    out.findings += _always(out, m, alarm)
    if left_out is not None and left_out.size and not repeated[0]:
        # Windows meet fewer shards where some are left out, which is the question here.
        whole = moves_shards([n for n in numbers if n.name == "p_same"], lags, period, alarm)
        out.findings += _which(source, feature, left_out, alarm, whole=whole)
    return out


def _always(out: Coverage, m: int, alarm: float) -> list[Finding]:
    """Records that no epoch reads, beyond what short epochs leave out by chance."""
    always = out.missing_always or 0
    if len(out.missing) < 2 or not always:
        return []
    chance = math.exp(sum(math.log(max(k, 1e-300) / m) for k in out.missing))
    z = share_score(always / m, chance, math.sqrt(chance * (1 - chance) / m)) if chance > 1e-280 else math.inf
    if z <= alarm:
        return []
    return [
        Finding(
            f"{always} records are read in none of {len(out.missing)} epochs; chance would leave out "
            f"{chance * m:.3g}; z = {z:.3g}",
            z,
            True,
        )
    ]


def _which(source: Source, feature: Feature | None, left_out: Ints, alarm: float, *, whole: bool) -> list[Finding]:
    """Whether the records that one epoch leaves out are a random choice: their places, shards and labels."""
    layout, k = source.layout, left_out.size
    m = layout.records
    if k == m or k > _LEFT_OUT_MAX:
        return []
    rest = (m - k) / (m - 1)  # drawn without replacement
    shard, _ = layout.locate(left_out)
    times = np.unique(shard, return_counts=True)[1].astype(np.float64)
    pairs = Pairs(layout.sizes)
    together = float((times**2).sum()) / k**2
    # What an epoch of whole shards leaves out is whole shards too.
    excess = max(0.0, together - 1 / k - pairs.same) if whole else 0.0
    scatter = rest / k + excess
    scores = {"storage place": (left_out.mean() - (m - 1) / 2) / math.sqrt((m * m - 1) / 12 * scatter)}
    if not whole and k > 1:
        same = float((times * (times - 1)).sum()) / (k * (k - 1))
        scores["shards"] = share_score(same, pairs.same, pairs.spread(k, 1))
    sizes = layout.sizes.astype(np.float64)
    mean = float((sizes**2).sum() / m)
    variance = float((sizes**3).sum() / m) - mean**2
    if variance > 1e-9 * mean**2:
        scores["shard size"] = (float(sizes[shard].mean()) - mean) / math.sqrt(variance * scatter)
    if feature is not None and feature.is_label:
        scores["labels"] = _labels(feature, feature.mean_of(left_out), k, scatter, rest)
    return [
        Finding(f"the {k} records that an epoch leaves out are no random choice: their {name}; z = {z:.3g}", z, True)
        for name, z in scores.items()
        if abs(z) > alarm
    ]


def _labels(feature: Feature, share: npt.NDArray[np.float64], k: int, scatter: float, rest: float) -> float:
    scores = []
    for c in feature.watched():
        p = float(feature.mean[c])
        z = share_score(float(share[c]), p, math.sqrt(p * (1 - p) * scatter))
        scores.append(z / math.sqrt(1 + math.log(len(share)) / 4))  # the most deviant of many labels
    return max(scores, key=abs, default=0.0)
