"""`score`: everything put together, and the verdict."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy.typing as npt

from tombola._ints import integer
from tombola.errors import InputError
from tombola.order import Layout
from tombola.quality import _measure, _perfect, _relations
from tombola.quality._feature import Feature, Kind
from tombola.quality._result import Finding, Lag, Number, Score, Verdict, normal_score
from tombola.quality._source import BATCH_SIZE_DEFAULT, Source, open_source

_FALSE_ALARM = 1e-3  # chance that a score of a perfect shuffle finds anything at all

# Numbers whose distance from a perfect shuffle is a bias, not the price of keeping few shards open.
_BIASES = (
    "storage_correlation",
    "epoch_correlation",
    "seed_correlation",
    "seed_epoch_correlation",
    "shard_size",
    "feature ",
)


def score(
    subject: Any,
    *,
    layout: Layout | None = None,
    before: npt.ArrayLike | None = None,
    batch_size: int | None = None,
    feature: npt.ArrayLike | None = None,
    feature_kind: Kind = "auto",
    epoch: int = 0,
    epochs: int = 16,
    ranks: int | None = None,
    seed: int = 0,
    positions_max: int = 1 << 27,
) -> Score:
    """Judge an order, a plan, recorded ids or a shuffled array against a perfect shuffle of the same data.

    subject
        An order; a plan, which adds its ranks and batch size; record ids in reading order, of one epoch or one row an
        epoch, with `layout`; or a shuffled array with `before`, the array it was made from.
    batch_size
        The global batch. A plan and some orders know theirs; else 64.
    feature, feature_kind
        One row per record: labels (whole numbers, booleans, strings), or values (floating point, or two-dimensional for
        an embedding). `feature_kind="value"` reads whole numbers as values, "label" anything one-dimensional as labels.
    epoch, epochs
        The epoch that is read, and how many from there on are compared and have their ends read.
    ranks
        Deal recorded ids or an order to so many ranks, position t to rank t mod ranks.
    seed
        Of all samples; two scores with one seed are equal.
    positions_max
        Read the whole epoch up to here; a longer one is sampled, a quarter of this many positions.

    >>> from tombola.order import Global, Lanes, Layout, Sequential
    >>> layout = Layout.equal(64, 500)
    >>> score(Global().over(layout, seed=7)).verdict
    'perfect'
    >>> score(Sequential().over(layout)).verdict
    'flawed'
    """
    count = integer(epochs, "epochs", 1, 1024, InputError)
    first = integer(epoch, "epoch", 0, None, InputError)
    dealt = None if ranks is None else integer(ranks, "ranks", 1, 2**31, InputError)
    source, own = open_source(subject, layout=layout, before=before, epoch=first, epochs=count, readers=dealt)
    size = own or BATCH_SIZE_DEFAULT
    if batch_size is not None:
        size = integer(batch_size, "batch_size", 2, None, InputError)
        if own and size != own:
            raise InputError(f"batch_size is {size}, but the plan or order has {own}; leave batch_size out")
    if size < 2:
        raise InputError("batch_size is 1; a score needs batches of at least 2")
    if size % (source.readers * source.run):
        raise InputError(f"batch_size {size} cannot be shared out evenly among {source.readers} ranks")
    most = integer(positions_max, "positions_max", 1 << 12, None, InputError)
    grid = _measure.Grid(source, size, integer(seed, "seed", -(2**62), 2**62, InputError), most)
    judged = None if feature is None else Feature(feature, source.layout, feature_kind, grid.seed)
    return _Judge(grid, judged).score()


class _Judge:
    """Gathers the numbers of one score and weighs them."""

    def __init__(self, grid: _measure.Grid, feature: Feature | None) -> None:
        self.grid, self.feature = grid, feature
        self.numbers: list[Number] = []

    def score(self) -> Score:
        grid, source, feature = self.grid, self.grid.source, self.feature
        reading = _measure.read_epoch(grid, feature)
        first, last, shares = _measure.read_ends(grid, feature)
        read = _relations.runs(grid)
        numbers = self.numbers
        numbers += _measure.tally_numbers(grid, reading, first, last)
        numbers += self._storage(reading)
        numbers += _relations.radius_numbers(grid, read)
        opened: list[Number] = [] if reading.opened is None else _measure.opened_numbers(grid, reading.opened)
        numbers += opened
        if feature is not None:
            numbers += _measure.feature_numbers(grid, feature, reading, first, last)
            if opened:
                numbers += _measure.drift_numbers(grid, feature, opened[0].value)
        numbers += _relations.run_numbers(grid)
        tests = max(1, len(numbers))
        biases, more = _relations.bias_numbers(grid, feature, shares)
        numbers += biases
        tests += more
        alarm = NormalDist().inv_cdf(1 - _FALSE_ALARM / (2 * tests))
        lags, period = _relations.lag_table(grid, read, alarm)
        findings, verdict = self._weigh(reading, lags, period, alarm)
        return Score(
            verdict=verdict,
            subject=source.name,
            records=source.layout.records,
            shards=source.layout.filled_starts.size - 1,
            positions=source.positions,
            positions_read=reading.read,
            batch_size=grid.batch_size,
            readers=source.readers,
            epochs=source.epochs,
            numbers=tuple(numbers),
            lags=lags,
            period=period,
            findings=tuple(findings),
            threshold=alarm,
        )

    def _storage(self, reading: _measure.Reading) -> list[Number]:
        source = self.grid.source
        mean, spread = _perfect.displacement(source.positions)
        whole = source.positions == source.layout.records
        value, error, freedom = reading.distance
        scatter = spread * math.sqrt(source.positions / max(1, reading.read))
        # The pieces of an epoch are displaced differently by their place, so their scatter is no error of the whole.
        out = [
            Number("displacement", "epoch", value, mean if whole else None,
                   0.0 if self.grid.whole else error, scatter, 0 if self.grid.whole else freedom)
        ]  # fmt: skip
        if reading.worst_gap is not None:
            perfect = _perfect.worst_gap(source.layout.sizes, source.positions) if whole else None
            out.append(Number("worst_gap", "epoch", float(reading.worst_gap), perfect))
        return out

    def _weigh(
        self, reading: _measure.Reading, lags: tuple[Lag, ...], period: int | None, alarm: float
    ) -> tuple[list[Finding], Verdict]:
        flaws = [*_coverage(self.grid.source, reading), *self._biased(alarm), *self._ends(alarm)]
        p_same = next(n for n in self.numbers if n.name == "p_same" and n.zone == "middle")
        notes: list[Finding] = []
        if abs(p_same.z_perfect) > alarm:
            word = "more" if p_same.z_perfect > 0 else "less"
            notes.append(
                Finding(
                    f"two rows of a batch come from one shard with chance {p_same.value:.3g}: {word} often than in a "
                    f"perfect shuffle ({p_same.perfect:.3g}); z = {p_same.z_perfect:.3g}",
                    p_same.z_perfect,
                    False,
                )
            )
        if period is not None:
            again = next(lag for lag in lags if lag.lag == period)
            notes.append(
                Finding(
                    f"shards come again every {period} positions (chance {again.same_shard:.3g}) and are avoided in "
                    f"between: rows are stratified over {period} lanes",
                    again.z,
                    False,
                )
            )
        elif lags and lags[0].z > alarm and p_same.z_perfect > alarm:
            notes.append(
                Finding(
                    f"neighbouring positions repeat shards (chance {lags[0].same_shard:.3g}, perfect "
                    f"{lags[0].same_shard_perfect:.3g}): repetition, not stratification",
                    lags[0].z,
                    False,
                )
            )
        if flaws:
            return [*flaws, *notes], "flawed"
        if p_same.z_perfect > alarm:
            return notes, "local"
        return notes, "stratified" if notes else "perfect"

    def _biased(self, alarm: float) -> list[Finding]:
        found = []
        for n in self.numbers:
            if n.name.startswith(_BIASES) and abs(n.z_bias) > alarm and abs(n.z_perfect) > alarm:
                where = {"first": " at the beginning of an epoch", "last": " at the end of an epoch"}.get(n.zone, "")
                found.append(
                    Finding(
                        f"{n.name.replace('_', ' ')}{where} is {n.value:.4g} ± {n.error:.2g} over {n.freedom + 1} "
                        f"epochs or seeds, not {n.perfect:.4g}; z = {n.z_bias:.3g}",
                        n.z_bias,
                        True,
                    )
                )
        return found

    def _ends(self, alarm: float) -> list[Finding]:
        """The ends of an epoch that mix less than its middle."""
        found = []
        middle = {n.name: n for n in self.numbers if n.zone == "middle"}
        for n in self.numbers:
            if n.zone not in ("first", "last") or n.name not in ("p_same", "rare_absent"):
                continue
            other = middle[n.name]
            scale = math.hypot(_floor(n), _floor(other))
            z = normal_score((n.value - other.value) / scale, n.freedom) if scale > 0 else 0.0
            if z > alarm:
                end = "beginning" if n.zone == "first" else "end"
                found.append(
                    Finding(
                        f"the {end} of an epoch mixes less than its middle: {n.name.replace('_', ' ')} is "
                        f"{n.value:.3g} there and {other.value:.3g} in the middle; z = {z:.3g}",
                        z,
                        True,
                    )
                )
        return found


def _floor(n: Number) -> float:
    """The error, but never below what independent counts of this size scatter by."""
    if not n.perfect:
        return n.error
    return max(n.error, n.perfect_error * math.sqrt(max(1.0, n.value / n.perfect)))


def _coverage(source: Source, reading: _measure.Reading) -> list[Finding]:
    if not reading.repeated and not reading.missing:
        return []
    if source.positions != source.layout.records and not (reading.missing and reading.repeated):
        return []  # an epoch longer or shorter than the data
    return [
        Finding(f"{reading.missing} records are never read and {reading.repeated} positions repeat one", math.inf, True)
    ]
