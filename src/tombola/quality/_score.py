"""`score`: everything put together, and the verdict."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy.typing as npt

from tombola._ints import integer
from tombola.errors import InputError
from tombola.order import Layout
from tombola.quality import _coverage, _measure, _perfect, _relations, _verdict
from tombola.quality._feature import Feature, Kind
from tombola.quality._result import Finding, Number, Score
from tombola.quality._source import BATCH_SIZE_DEFAULT, IdsSource, open_source

_FALSE_ALARM = 1e-3  # chance that a score of a perfect shuffle finds anything at all


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
    drawn = integer(seed, "seed", -(2**62), 2**62, InputError)
    source, own = open_source(
        subject, layout=layout, before=before, epoch=first, epochs=count, readers=dealt, seed=drawn
    )
    size = own or BATCH_SIZE_DEFAULT
    if batch_size is not None:
        size = integer(batch_size, "batch_size", 2, None, InputError)
        if own and size != own:
            raise InputError(f"batch_size is {size}, but the plan or order has {own}; leave batch_size out")
    if size < 2:
        raise InputError("batch_size is 1; a score needs batches of at least 2")
    if size % (source.readers * source.run):
        share = source.readers * source.run
        near = " or ".join(str(n) for n in (size // share * share, -(-size // share) * share) if n >= 2)
        raise InputError(
            f"batch_size {size} cannot be shared out evenly among {source.readers} ranks; the nearest sizes are {near}"
        )
    most = integer(positions_max, "positions_max", 1 << 12, None, InputError)
    grid = _measure.Grid(source, size, drawn, most)
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
        numbers += _relations.mates_numbers(grid)
        biases, more = _relations.bias_numbers(grid, feature, shares)
        tests = _verdict.tests(numbers) + more
        numbers += biases
        alarm = NormalDist().inv_cdf(1 - _FALSE_ALARM / (2 * tests))
        lags, period = _relations.lag_table(grid, read, alarm)
        if _verdict.moves_shards(numbers, lags, period, alarm):
            numbers[:] = _verdict.floored(numbers, source.layout)
            if source.epochs == 1:  # one draw of few shards says nothing about the ends
                numbers[:] = [n for n in numbers if n not in biases]
        uneven = self._uneven(reading)
        if uneven:  # some records by plan more often than others: no choice of ends holds what the data does
            numbers[:] = [n for n in numbers if n not in biases]
        coverage = _coverage.cover(source, reading, feature, numbers, lags, period, alarm)
        found = [*coverage.findings, *_equal(shares)]
        weighing = _verdict.Weighing(grid, feature, numbers, lags, period, read, alarm, found, uneven, source.parts())
        findings, verdict = weighing.verdict()
        tied = source.tied_rows if isinstance(source, IdsSource) else 0.0
        notes = []
        if source.epochs == 1:
            notes.append("one epoch was read: its ends and its order are not compared between epochs")
        if uneven:
            notes.append("some records are read more often than others by plan: ends are not compared with the data")
        if tied:
            notes.append(f"{tied:.3g} of the rows equal another row; which is which was drawn with the seed")
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
            records_missing=coverage.missing,
            records_repeated=coverage.repeated,
            records_missing_always=coverage.missing_always,
            tied_rows=tied,
            over_time=() if reading.opened is None else _measure.open_over_time(grid, reading.opened),
            notes=tuple(notes),
        )

    def _uneven(self, reading: _measure.Reading) -> bool:
        """Whether the order reads, or may read, some records more often than others because its plan says so."""
        source = self.grid.source
        if not source.repeats or reading.missing is None:
            return source.repeats
        return bool(reading.repeated) and (reading.missing > 0 or source.positions % source.layout.records > 0)

    def _storage(self, reading: _measure.Reading) -> list[Number]:
        source = self.grid.source
        mean, spread = _perfect.displacement(source.positions)
        whole = source.positions == source.layout.records and not self._uneven(reading)
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


def _equal(shares: _measure.Shares) -> list[Finding]:
    if not shares.equal:
        return []
    pairs = ", ".join(f"{b} as {a}" for a, b in shares.equal[:4]) + (", …" if len(shares.equal) > 4 else "")
    return [Finding(f"epochs begin and end with the same records in the same order: epoch {pairs}", math.inf, True)]
