"""One feature per record: its variance, its likeness within shards, and what batches make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tombola import _core
from tombola._ints import Ints
from tombola.errors import InputError
from tombola.order import Layout, Permutation
from tombola.quality import _perfect
from tombola.quality._perfect import Reals

Kind = Literal["auto", "label", "value"]

_SHARDS_SAMPLED = 2048
_RECORDS_SAMPLED = 64  # of each shard
_CONTROL_BATCHES = 2000
_CONTROL_BATCHES_MIN = 500
_LABELS_WATCHED = 32  # labels whose share at the ends of the epoch is tested, the most frequent ones


class Feature:
    """Labels, or one or several values per record. Deviations are summed over labels or components.

    A label stands for its indicator vector, so that a mean is the vector of shares and the variance is 1 − Σ p².
    """

    def __init__(self, given: npt.ArrayLike, layout: Layout, kind: Kind, seed: int) -> None:
        if isinstance(given, np.ma.MaskedArray):
            raise InputError("the feature is a masked array; fill what is masked, or leave such records out")
        try:
            array = np.asarray(given)
        except ValueError as problem:
            raise InputError(f"the feature is no array ({problem}); give one row of one shape per record") from None
        if kind not in get_args(Kind):
            raise InputError(f"feature_kind is {kind!r}; it must be one of {', '.join(get_args(Kind))}")
        if array.ndim not in (1, 2) or array.shape[0] != layout.records:
            raise InputError(
                f"the feature has shape {array.shape}; it needs one row for each of the {layout.records} records"
            )
        if array.ndim == 2 and kind == "label":
            raise InputError("labels are one per record; a feature with several columns is of kind 'value'")
        if array.dtype.kind not in "iubfUSO":
            raise InputError(f"the feature has dtype {array.dtype}; give numbers, booleans or strings")
        self.layout = layout
        self.is_label = kind == "label" or (kind == "auto" and array.ndim == 1 and array.dtype.kind != "f")
        if not self.is_label and array.dtype.kind not in "iubf":
            raise InputError(f"the feature has dtype {array.dtype}, which has no mean; use feature_kind='label'")
        if self.is_label:
            self.names, self.codes = _coded(array)
            counts = np.zeros(self.names.size, np.int64)
            for start in range(0, layout.records, 1 << 20):
                counts += np.bincount(self.codes[start : start + (1 << 20)], minlength=counts.size)
            self.counts: Ints = counts
            self.mean: Reals = counts / layout.records
            self.variance = float(1 - (self.mean**2).sum())
            self.rare = int(np.where(counts > 0, counts, np.iinfo(np.int64).max).argmin())
            self.columns: tuple[str, ...] = ("deff", "entropy", "rare_absent")
        else:
            self.values = _scaled(array.reshape(layout.records, -1))
            self.mean = self.values.mean(0, dtype=np.float64)
            blocks = range(0, layout.records, 1 << 20)
            sums = sum(((self.values[a : a + (1 << 20)] - self.mean) ** 2).sum(dtype=np.float64) for a in blocks)
            self.variance = float(sums / layout.records)
            self.columns = ("deff",)
        if self.variance <= 0:
            raise InputError("the feature is the same for every record; there is nothing to compare")
        self.rho = intra_shard_correlation(self, seed)

    def batches(self, records: Ints, batch_size: int) -> Reals:
        """One row for each of `columns`, one column for each batch."""
        if not self.is_label:
            means = self.values[records].reshape(-1, batch_size, self.values.shape[1]).mean(1, dtype=np.float64)
            return np.asarray(batch_size * ((means - self.mean) ** 2).sum(1) / self.variance, np.float64)[None, :]
        codes = self.codes[records].astype(np.int32)
        count = codes.size // batch_size
        entropy, table = np.empty(count), np.empty((2, count), np.int64)
        _core.label_batches(codes, batch_size, self.names.size, self.rare, entropy, table)
        share = self.mean[codes].reshape(count, batch_size).mean(1)
        squares = (batch_size + 2 * table[0]) / batch_size**2 - 2 * share + float((self.mean**2).sum())
        return np.stack([batch_size * squares / self.variance, entropy, (table[1] == 0).astype(np.float64)])

    def mean_of(self, records: Ints) -> Reals:
        """The mean of some records: shares for labels."""
        if self.is_label:
            return np.asarray(np.bincount(self.codes[records], minlength=self.names.size) / records.size)
        return np.asarray(self.values[records].mean(0, dtype=np.float64))

    def watched(self) -> list[int]:
        """The components worth a test at the ends of the epoch."""
        order = np.argsort(-self.mean if self.is_label else np.zeros(self.mean.size), kind="stable")
        return [int(c) for c in order[:_LABELS_WATCHED] if not self.is_label or self.mean[c] < 1]

    def describe(self, component: int) -> str:
        """What the mean of a component is called."""
        if self.is_label:
            return f"share of {self.names[component]}"
        return "mean" if self.mean.size == 1 else f"mean of component {component}"

    def component_variance(self, component: int) -> float:
        """The variance of one component."""
        if self.is_label:
            return float(self.mean[component] * (1 - self.mean[component]))
        return float(self.values[:, component].var(dtype=np.float64))

    def perfect(self, batch_size: int) -> Reals:
        """Expected `columns` in a perfect shuffle."""
        m = self.layout.records
        deff = (m - batch_size) / (m - 1) if m > 1 else 0.0
        if not self.is_label:
            return np.array([deff])
        none = float(_perfect.absent(self.counts[self.rare : self.rare + 1], m, batch_size)[0])
        return np.array([deff, _perfect.entropy(self.counts, batch_size), none])

    def control(self, batch_size: int, seed: int) -> Reals:
        """Standard deviation of one batch's `columns`, from batches of a perfect shuffle drawn with a seed."""
        m = self.layout.records
        count = max(1, min(_CONTROL_BATCHES, m // batch_size))
        times = -(-_CONTROL_BATCHES_MIN // count)  # little data is shuffled several times
        shuffles = (Permutation(m, seed, "quality/control", k) for k in range(times))
        drawn = np.concatenate([self.batches(s.slice(0, count * batch_size), batch_size) for s in shuffles], axis=1)
        sd = np.asarray(drawn.std(1, ddof=1), np.float64)
        if self.is_label:
            chance = self.perfect(batch_size)[2]
            sd[2] = np.sqrt(chance * (1 - chance))
        return sd


def _scaled(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values as they are, or a copy divided by their largest deviation where squares would not be representable.

    No number of a score depends on the unit of a feature, except its mean at the ends of an epoch.
    """
    if not values.size:
        raise InputError(f"the feature has shape {values.shape}, without values; give at least one per record")
    low, high = np.asarray(values.min(0), np.float64), np.asarray(values.max(0), np.float64)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InputError("the feature has values that are not finite; leave such records out or fill them")
    size = float(np.maximum(np.abs(low), np.abs(high)).max())
    spread = float((high / 2 - low / 2).max()) * 2
    unit = np.finfo(values.dtype).eps if values.dtype.kind == "f" else 0.0
    if spread <= 4 * unit * size:
        raise InputError("the feature is the same for every record; there is nothing to compare")
    if spread > 1e-100 and size < 1e100:
        return values
    return np.asarray(values, np.float64) / size


def _coded(array: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The labels, and the number of each record's label among them."""
    if array.dtype.kind in "iub":
        low, high = int(array.min()), int(array.max())
        if high - low < 1 << 16 and high < 1 << 63:  # small whole numbers are codes already: no need to sort them
            codes = np.empty(array.size, np.uint16)
            for start in range(0, array.size, 1 << 20):  # in blocks: the array may fill most of the memory
                codes[start : start + (1 << 20)] = array[start : start + (1 << 20)].astype(np.int64) - low
            return np.arange(low, high + 1), codes
    names, inverse = np.unique(array.astype(str) if array.dtype.kind == "O" else array, return_inverse=True)
    return names, inverse.astype(np.int32)


@dataclass(frozen=True)
class Correlation:
    """Intra-shard correlation of a feature: the ANOVA estimate from a sample, and its standard error (jackknife)."""

    rho: float
    error: float
    shards: int
    #: Mean records per shard that the estimate speaks of.
    records_per_shard: float
    #: How many shards there are in all.
    shards_total: int

    @property
    def finite(self) -> float:
        """ρ over exactly these shards, mean of all pairs within them: what sampling without replacement is about.

        The estimate speaks of shards to come. With N shards the mean square between them is smaller by (N − 1)/N.
        """
        b, n = self.records_per_shard, self.shards_total
        if b <= 1 or n < 2:
            return self.rho
        between = (1 + (b - 1) * self.rho) * (n - 1) / n
        return (between * b / (between + (b - 1) * (1 - self.rho)) - 1) / (b - 1)

    @property
    def shard_deff(self) -> float:
        """h_D = 1 + (b − 1) ρ: how many times the variance of a mean grows when whole shards are drawn."""
        return 1 + (self.records_per_shard - 1) * self.finite


def intra_shard_correlation(feature: Feature, seed: int) -> Correlation:
    """One-way analysis of variance over a seeded sample of shards and of records in them.

    ρ = (MSB − MSW) / (MSB + (n₀ − 1) MSW). Deviations are summed over components, which gives the correlation of
    vectors. The error is a delete-one-shard jackknife, so it needs no normal distribution.
    """
    layout = feature.layout
    able = np.flatnonzero(layout.sizes >= 2)
    if able.size < 2:
        return Correlation(0.0, 0.0, able.size, float(layout.sizes.max(initial=0)), able.size)
    # With many labels or components fewer shards, so that the table of sums stays below 256 MB.
    take = min(able.size, _SHARDS_SAMPLED, max(2, (1 << 25) // feature.mean.size))
    chosen = able[Permutation(able.size, seed, "quality/anova").slice(0, take)]
    counts, squares, sums = np.empty(take), np.empty(take), np.empty((take, feature.mean.size))
    for i, shard in enumerate(chosen.tolist()):
        size = int(layout.starts[shard + 1] - layout.starts[shard])
        k = min(size, _RECORDS_SAMPLED)
        records = layout.starts[shard] + Permutation(size, seed, "quality/anova", shard).slice(0, k)
        counts[i] = k
        mean = feature.mean_of(records) - feature.mean
        sums[i] = mean * k
        if feature.is_label:
            # Σ|1_l − p|² = k − 2 Σ p_l + k Σ p²
            p = feature.mean
            squares[i] = k - 2 * float(p[feature.codes[records]].sum()) + k * float((p**2).sum())
        else:
            squares[i] = float(((feature.values[records] - feature.mean) ** 2).sum(dtype=np.float64))
    value, left_out = _anova(counts, sums, squares)
    g = counts.size
    error = float(np.sqrt((g - 1) / g * ((left_out - left_out.mean()) ** 2).sum()))
    return Correlation(value, error, g, float(layout.sizes[able].mean()), able.size)


def _anova(counts: Reals, sums: Reals, squares: Reals) -> tuple[float, Reals]:
    """The estimate from all shards, and those with each shard left out."""
    own = (sums**2).sum(1) / counts  # |sum|²/k of each shard

    def rho(g: Any, n: Any, n2: Any, total: Any, within_left: Any, between: Any) -> Any:
        ssb = between - total / n
        n0 = (n - n2 / n) / (g - 1)
        msb, msw = ssb / (g - 1), within_left / np.maximum(n - g, 1)
        low = msb + (n0 - 1) * msw
        return np.where(low > 0, (msb - msw) / np.where(low > 0, low, 1), 0.0)

    n, n2, all_sum = counts.sum(), (counts**2).sum(), sums.sum(0)
    total, within, between = float((all_sum**2).sum()), float((squares - own).sum()), float(own.sum())
    g = counts.size
    value = float(rho(g, n, n2, total, within, between))
    if g < 3:
        return value, np.full(g, value)
    totals = total - 2 * sums @ all_sum + (sums**2).sum(1)
    rest = rho(g - 1, n - counts, n2 - counts**2, totals, within - (squares - own), between - own)
    return value, np.asarray(rest, np.float64)
