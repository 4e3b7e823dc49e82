"""What a perfect shuffle of the same data gives: exact expectations, and the spread of a mean over batches.

A perfect shuffle puts the m records in one of the m! orders with equal chance. A batch is then B records drawn without
replacement, and disjoint batches are exchangeable, so everything here is counting.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tombola._ints import Ints

_KINDS_MAX = 256  # different shard sizes up to which the variance of distinct shards is summed over all pairs

Reals = npt.NDArray[np.float64]


class Pairs:
    """Chance that records drawn without replacement come from one group, with the groups' sizes given.

    The groups are shards, or the records that carry one label.
    """

    def __init__(self, sizes: Ints) -> None:
        values, times = np.unique(sizes, return_counts=True)
        groups = [(int(b), int(k)) for b, k in zip(values, times, strict=True)]
        m = sum(b * k for b, k in groups)
        # Python's whole numbers: the variance is a difference of nearly equal ones.
        two = sum(k * b * (b - 1) for b, k in groups)
        three = sum(k * b * (b - 1) * (b - 2) for b, k in groups)
        four = sum(k * b * (b - 1) * (b - 2) * (b - 3) for b, k in groups)
        two_two = four + two * two - sum(k * (b * (b - 1)) ** 2 for b, k in groups)
        self.records = m
        self._two = Fraction(two, m * (m - 1)) if m > 1 else Fraction(0)
        self._three = Fraction(three, m * (m - 1) * (m - 2)) if m > 2 else Fraction(0)
        self._two_two = Fraction(two_two, m * (m - 1) * (m - 2) * (m - 3)) if m > 3 else Fraction(0)

    @property
    def same(self) -> float:
        """P_same: that two records come from one group, Σ b(b−1) / m(m−1)."""
        return float(self._two)

    @property
    def touching(self) -> float:
        """Chance that two pairs with one record in common are both of one group: three records of one group."""
        return float(self._three)

    def spread(self, batch_size: int, batches: int) -> float:
        """Standard deviation of P_same measured over so many disjoint batches.

        E[X²] of the number X of equal pairs in a batch splits into pairs that are one pair, that share a record, and
        that share none; two batches share none.
        """
        pairs = math.comb(batch_size, 2)
        if pairs == 0 or batches == 0:
            return 0.0
        apart = math.comb(batch_size - 2, 2)
        one = pairs * (self._two + 2 * (batch_size - 2) * self._three + apart * self._two_two)
        variance = (one - pairs**2 * self._two**2) / batches
        variance += Fraction(batches - 1, batches) * pairs**2 * (self._two_two - self._two**2)
        return math.sqrt(max(0.0, float(variance))) / pairs


def absent(size: Ints | Reals, records: int, batch_size: int) -> Reals:
    """Chance that a batch holds none of `size` records out of `records`, for an array of sizes."""
    drawn = np.arange(batch_size, dtype=np.float64)
    flat = np.asarray(size, np.float64).reshape(-1)
    out = np.empty(flat.size)
    rows = max(1, (1 << 22) // max(1, batch_size))
    for start in range(0, flat.size, rows):
        piece = flat[start : start + rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log1p(-np.minimum(1.0, piece[:, None] / (records - drawn)[None, :])).sum(1)
        out[start : start + rows] = np.exp(logs)
    return out


def distinct(sizes: Ints, batch_size: int, batches: int) -> tuple[float, float]:
    """Expected number of distinct shards in a batch, and the spread of its mean over so many batches.

    With more than 256 different sizes the spread is an upper bound: shards hit each other's chances only downwards.
    Batches are taken as independent, which also errs to the wide side.
    """
    values, times = np.unique(sizes, return_counts=True)
    m = int(sizes.sum())
    none = absent(values, m, batch_size)
    mean = float((times * (1 - none)).sum())
    variance = float((times * none * (1 - none)).sum())
    if values.size <= _KINDS_MAX:
        held = values.astype(np.float64)  # two shards of 2^62 records do not fit 64 bits
        both = absent((held[:, None] + held[None, :]).reshape(-1), m, batch_size).reshape(values.size, -1)
        joint = both - none[:, None] * none[None, :]
        count = times[:, None] * times[None, :] - np.diag(times)
        variance += float((count * joint).sum())
    return mean, math.sqrt(max(0.0, variance) / max(1, batches))


def counts_in_batch(size: int, records: int, batch_size: int) -> tuple[Ints, Reals]:
    """How many of `size` records a batch holds: the possible numbers and their chances (hypergeometric)."""
    low, high = max(0, batch_size - (records - size)), min(batch_size, size)
    k = np.arange(low, high + 1, dtype=np.int64)
    here = k[:-1].astype(np.float64)
    ratio = (size - here) * (batch_size - here) / ((here + 1) * (records - size - batch_size + here + 1))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratio))])
    weights = np.exp(logs - logs.max())
    return k, weights / weights.sum()


def entropy(counts: Ints, batch_size: int) -> float:
    """Expected entropy, in nats, of the labels in a batch; the expectation is a sum over labels, so it is exact."""
    records = int(counts.sum())
    total = 0.0
    for size, times in zip(*np.unique(counts[counts > 0], return_counts=True), strict=True):
        k, chance = counts_in_batch(int(size), records, batch_size)
        share = k[k > 0] / batch_size
        total -= float(times) * float((chance[k > 0] * share * np.log(share)).sum())
    return total


def displacement(positions: int) -> tuple[float, float]:
    """Mean |record − position| ÷ positions, and its spread, from the moments of Spearman's footrule."""
    n = float(positions)
    return (n * n - 1) / (3 * n * n), math.sqrt((n + 1) * (2 * n * n + 7) / 45) / (n * n)


def distance_at(chance: float, records: int) -> float:
    """The distance in storage that two records stay within with a given chance: 1 − (1 − d/m)² for large m."""
    return records * (1 - math.sqrt(1 - chance))


def within(distance: int, records: int) -> float:
    """Chance that two different records lie at most a whole distance apart in storage, exactly."""
    d = min(distance, records - 1)
    return d * (2 * records - d - 1) / (records * (records - 1))


def worst_gap(sizes: Ints, positions: int) -> float:
    """About the longest stretch without a record of some shard.

    The gaps after each of the b reads of a shard are nearly geometric with mean m/b. The longest over all shards is
    where their expected number falls to e^−γ: the median-like centre of an extreme-value law.
    """
    values, times = np.unique(sizes[sizes > 0], return_counts=True)
    share = np.minimum(values / sizes.sum(), 1 - 1e-12)
    low, high = 0.0, float(positions)
    for _ in range(100):
        middle = (low + high) / 2
        expected = float((times * (values + 1) * np.exp(middle * np.log1p(-share))).sum())
        low, high = (middle, high) if expected > math.exp(-0.5772156649015329) else (low, middle)
    return min(float(positions), high)
