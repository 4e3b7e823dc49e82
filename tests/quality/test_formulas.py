"""The numbers a score reports, against counts of every case, scipy, and many shuffles.

Nothing here repeats a formula of the room: the expected value comes from listing every draw, from a distribution of
scipy's, or from how the reported numbers scatter over seeds.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from scipy import stats

from tombola._ints import Ints
from tombola.order import Lanes, Layout, Sequential
from tombola.quality import Number, Score, score

RARE = 1e-6  # false alarms that a bound from sampling theory allows

# ---- design effects, by listing every batch that a pattern allows

SHARDS, SIZE = 6, 8
SMALL = Layout.equal(SHARDS, SIZE)
PATTERNS = [(1, 1, 1, 1), (2, 1, 1), (2, 2), (3, 1), (4,)]
VALUES = np.random.default_rng(3).normal(size=(SHARDS, SIZE)) + np.array([0, 1.5, -2, 0.3, 0, 3])[:, None]


def patterned(pattern: tuple[int, ...]) -> Ints:
    """Batches of 4 in which different shards have as many records as the pattern says; an epoch of 12 batches."""
    left = [list(range(s * SIZE, (s + 1) * SIZE)) for s in range(SHARDS)]
    rows = [left[(k + j) % SHARDS].pop() for k in range(12) for j, n in enumerate(pattern) for _ in range(n)]
    return np.array(rows)


def listed_deff(pattern: tuple[int, ...], values: np.ndarray) -> float:
    """4 × the mean square of a batch's mean ÷ variance, over all ways to choose shards and records for a pattern."""
    centred = values - values.mean()
    sums = {
        (s, n): np.array([sum(c) for c in itertools.combinations(centred[s], n)])
        for s in range(SHARDS)
        for n in set(pattern)
    }
    squares = []
    for shards in itertools.permutations(range(SHARDS), len(pattern)):
        drawn = [sums[s, n] for s, n in zip(shards, pattern, strict=True)]
        whole = sum(d.mean() for d in drawn)
        squares.append(sum(d.var() for d in drawn) + whole**2)  # draws from different shards are independent
    return float(np.mean(squares)) / 4 / float(values.var())


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("zone", ["first", "middle", "last"])
def test_deff_model_is_the_mean_over_every_batch(pattern: tuple[int, ...], zone: str) -> None:
    result = score(patterned(pattern), layout=SMALL, batch_size=4, feature=VALUES.reshape(-1))
    model = result.get("deff_model", zone)  # type: ignore[arg-type]
    assert model.value == pytest.approx(listed_deff(pattern, VALUES), rel=1e-9)


def test_deff_model_of_labels_is_the_mean_over_every_batch() -> None:
    """A label of two values is its indicator: both ways to say it have one design effect."""
    label = (VALUES > 0.5).astype(int)
    for pattern in PATTERNS:
        result = score(patterned(pattern), layout=SMALL, batch_size=4, feature=label.reshape(-1))
        assert result["deff_model"] == pytest.approx(listed_deff(pattern, label), rel=1e-9)


def test_deff_model_of_batches_with_one_record_of_each_shard_has_no_scatter() -> None:
    """With one value a shard such batches are all alike, which only the likeness across shards can say."""
    layout = Layout.equal(8, 16)
    ids = np.arange(layout.records).reshape(8, 16).T.reshape(-1)
    result = score(ids, layout=layout, batch_size=8, feature=np.repeat(np.arange(8.0), 16))
    assert result["deff"] == pytest.approx(0, abs=1e-12)
    assert result["deff_model"] == pytest.approx(0, abs=1e-12)


# ---- likeness within shards


def test_rho_is_that_of_an_analysis_of_variance() -> None:
    result = score(patterned((2, 2)), layout=SMALL, batch_size=4, feature=VALUES.reshape(-1))
    ratio = stats.f_oneway(*VALUES).statistic
    assert result["rho"] == pytest.approx((ratio - 1) / (ratio + SIZE - 1), rel=1e-9)


def test_rho_at_its_limits() -> None:
    ids = patterned((2, 2))
    assert score(ids, layout=SMALL, batch_size=4, feature=np.repeat(np.arange(6.0), 8))["rho"] == pytest.approx(1)
    alike = score(ids, layout=SMALL, batch_size=4, feature=np.tile(np.arange(8.0), 6))
    assert alike["rho"] == pytest.approx(-1 / (SIZE - 1))
    assert alike["shard_deff"] == pytest.approx(0, abs=1e-12)


def test_shard_deff_is_what_drawing_whole_shards_costs() -> None:
    result = score(patterned((2, 2)), layout=SMALL, batch_size=4, feature=VALUES.reshape(-1))
    assert result["shard_deff"] == pytest.approx(VALUES.mean(1).var() / (VALUES.var() / SIZE), rel=1e-9)


# ---- what a perfect shuffle gives, for a feature


@pytest.fixture(scope="module")
def labelled() -> tuple[Score, Ints]:
    label = np.repeat([0, 1, 2], [27, 16, 5])
    label = np.random.default_rng(1).permutation(label)
    return score(patterned((1, 1, 1, 1)), layout=SMALL, batch_size=4, feature=label), np.bincount(label)


def test_perfect_deff_and_effective_batch_of_draws_without_replacement(labelled: tuple[Score, Ints]) -> None:
    result, counts = labelled
    m = int(counts.sum())
    scatter = sum(stats.hypergeom(m, int(n), 4).var() / 16 for n in counts)
    even = sum(n / m * (1 - n / m) for n in counts)
    for zone in ("first", "middle", "last"):
        deff, bare = result.get("deff", zone), result.get("effective_batch", zone)  # type: ignore[arg-type]
        assert deff.perfect == pytest.approx(4 * scatter / even, rel=1e-9)
        # As many records drawn with replacement scatter as much.
        assert bare.perfect == pytest.approx(even / scatter, rel=1e-9)
        assert bare.value * deff.value == pytest.approx(4)
        assert bare.error / bare.value == pytest.approx(deff.error / deff.value)


def test_perfect_entropy_and_absence_over_every_batch(labelled: tuple[Score, Ints]) -> None:
    result, counts = labelled
    every = [np.array(c) for c in itertools.product(range(5), repeat=3) if sum(c) == 4]
    chance = [stats.multivariate_hypergeom.pmf(c, counts, 4) for c in every]
    assert sum(chance) == pytest.approx(1)
    wanted = sum(p * stats.entropy(c / 4) for c, p in zip(every, chance, strict=True))
    assert result.get("entropy", "middle").perfect == pytest.approx(wanted, rel=1e-9)
    none = stats.hypergeom(int(counts.sum()), int(counts.min()), 4).pmf(0)
    assert result.get("rare_absent", "middle").perfect == pytest.approx(none, rel=1e-9)


# ---- drift over a buffer

GROUPS, LONG = 8, 16
TRIPLES = Layout.equal(3 * GROUPS, LONG)


def two_open() -> Ints:
    """Shards in threes, a read first and last, so that 2 shards are open on average."""
    b, out = LONG, []
    for group in range(GROUPS):
        one = [0] * (b - 1) + [1] * (b - 1) + [2] * (b - 1) + [1, 2, 0]
        taken = [0, 0, 0]
        for which in one:
            out.append((3 * group + which) * b + taken[which])
            taken[which] += 1
    return np.array(out)


@pytest.fixture(scope="module")
def drifting() -> tuple[Score, np.ndarray, Ints]:
    rng = np.random.default_rng(5)
    label = (rng.random((3 * GROUPS, LONG)) < rng.random((3 * GROUPS, 1))).astype(int)
    ids = two_open()
    return score(ids, layout=TRIPLES, batch_size=8, feature=label.reshape(-1)), label, ids


def test_two_shards_are_open(drifting: tuple[Score, np.ndarray, Ints]) -> None:
    assert drifting[0]["open_shards"] == 2


def test_drift_model_is_the_mean_over_every_pair_of_shards(drifting: tuple[Score, np.ndarray, Ints]) -> None:
    result, label, _ = drifting
    pairs = np.array([label[[i, j]].mean() for i, j in itertools.combinations(range(3 * GROUPS), 2)])
    assert result["buffer_drift_model"] == pytest.approx(pairs.var() / label.var(), rel=1e-9)


def test_drift_of_a_perfect_shuffle_is_that_of_draws_without_replacement(
    drifting: tuple[Score, np.ndarray, Ints],
) -> None:
    result, label, ids = drifting
    span = 2 * LONG
    law = stats.hypergeom(label.size, int(label.sum()), span)
    drift = result.get("buffer_drift")
    assert drift.perfect == pytest.approx((law.std() / span) ** 2 / label.var(), rel=1e-9)
    means = label.reshape(-1)[ids].reshape(-1, span).mean(1)
    assert drift.value == pytest.approx(((means - label.mean()) ** 2).mean() / label.var(), rel=1e-9)


# ---- likeness at a lag


def test_storage_at_a_lag_of_no_shuffle_is_one() -> None:
    result = score(Sequential().over(Layout.equal(256, 1024)), epochs=1)
    assert {lag.lag: lag for lag in result.lags}[1].storage == pytest.approx(1, abs=0.1)  # the ends are not looked at


def test_storage_at_a_lag_of_sweeps_up_and_down() -> None:
    """Sweeps of 128 records over all of the storage: after 128 positions its mirror image is read."""
    layout, sweep = Layout.equal(128, 512), np.arange(128)
    ids = np.concatenate([(sweep if turn % 2 == 0 else sweep[::-1]) * 512 + turn for turn in range(512)])
    lags = {lag.lag: lag for lag in score(ids, layout=layout).lags}
    assert lags[1].storage == pytest.approx(1, abs=0.02)
    assert lags[128].storage == pytest.approx(-1, abs=0.02)
    assert lags[256].storage == pytest.approx(1, abs=0.02)
    for k in (2, 4, 8, 16, 32, 64):
        assert lags[k].storage == pytest.approx(np.corrcoef(ids[k:], ids[:-k])[0, 1], abs=0.02), k


# ---- scatter over perfect shuffles

# Half of the records in one shard: two pairs with a record in common are then much alike.
UNEVEN = Layout([50_000, *[100] * 500])
SHUFFLES = 300


@cache
def perfect_scores() -> tuple[Score, ...]:
    """Scores of the beginnings of perfect shuffles, so short that records are as good as independent."""
    label = np.random.default_rng(8).choice(4, UNEVEN.records, p=[0.6, 0.25, 0.1, 0.05])
    rng = np.random.default_rng(9)
    drawn = (rng.choice(UNEVEN.records, 1024, replace=False) for _ in range(SHUFFLES))
    return tuple(score(ids, layout=UNEVEN, batch_size=8, feature=label) for ids in drawn)


def like_normal_scores(z: np.ndarray) -> None:
    """Mean 0 and variance 1, within what so many normal variables leave open."""
    assert abs(z.mean()) < stats.norm.isf(RARE / 2) / z.size**0.5
    low, high = stats.chi2(z.size).ppf([RARE / 2, 1 - RARE / 2]) / z.size
    assert low < (z**2).mean() < high


@pytest.mark.parametrize("lag", [1, 2, 16, 128])
def test_the_normal_score_of_a_lag_is_one(lag: int) -> None:
    like_normal_scores(np.array([next(x.z for x in s.lags if x.lag == lag) for s in perfect_scores()]))


@pytest.mark.parametrize("name", ["p_same", "shards_per_batch", "deff", "entropy", "rare_absent"])
def test_the_distance_from_a_perfect_shuffle_is_a_normal_score(name: str) -> None:
    like_normal_scores(np.array([s.get(name, "middle").z_perfect for s in perfect_scores()]))


@pytest.mark.parametrize("name", ["p_same", "shards_per_batch", "deff", "entropy"])
def test_intervals_of_perfect_shuffles_hold_the_truth(name: str) -> None:
    numbers = [s.get(name, "middle") for s in perfect_scores()]
    assert numbers[0].perfect is not None
    assert_covered(numbers, numbers[0].perfect)


# ---- intervals of local orders


def assert_covered(numbers: list[Number], truth: float) -> None:
    """The 95 % intervals hold the truth in a share of cases that is not below 95 % by more than chance."""
    held = sum(low <= truth <= high for low, high in (n.interval for n in numbers))
    assert stats.binom.cdf(held, len(numbers), 0.95) > RARE


@cache
def grouped_scores() -> tuple[Score, ...]:
    """Four whole shards at a time, in perfect order: each group lasts for two of the pieces an error is made from."""
    shards, size, opened = 64, 64, 4
    layout = Layout.equal(shards, size)
    label = np.random.default_rng(0).integers(0, 4, shards).repeat(size)
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        groups = layout.starts[rng.permutation(shards)].reshape(-1, opened, 1) + np.arange(size)
        ids = rng.permuted(groups.reshape(shards // opened, -1), axis=1).reshape(-1)
        found.append(score(ids, layout=layout, batch_size=16, feature=label))
    return tuple(found)


@pytest.mark.parametrize("name", ["p_same", "shards_per_batch", "deff", "entropy", "rare_absent"])
def test_intervals_of_grouped_shards_hold_the_truth(name: str) -> None:
    numbers = [s.get(name, "middle") for s in grouped_scores()]
    assert_covered(numbers, float(np.mean([n.value for n in numbers])))


def test_intervals_of_grouped_shards_hold_the_modelled_design_effect() -> None:
    assert_covered(
        [s.get("deff", "middle") for s in grouped_scores()],
        float(np.mean([s["deff_model"] for s in grouped_scores()])),
    )


def test_the_model_of_grouped_shards_is_what_is_measured() -> None:
    off = np.array([s["deff"] - s["deff_model"] for s in grouped_scores()])
    assert stats.ttest_1samp(off, 0).pvalue > RARE
    assert abs(off.mean()) < 0.1 * np.mean([s["deff"] for s in grouped_scores()])


@cache
def lane_scores() -> tuple[Score, ...]:
    layout = Layout.equal(128, 64)
    label = np.arange(layout.records) * 4 // layout.records
    orders = (Lanes(lanes=8).over(layout, seed=seed) for seed in range(100))
    return tuple(score(order, batch_size=16, feature=label, epochs=1) for order in orders)


@pytest.mark.parametrize("name", ["deff", "entropy"])
def test_intervals_of_lanes_hold_the_truth(name: str) -> None:
    numbers = [s.get(name, "middle") for s in lane_scores()]
    assert_covered(numbers, float(np.mean([n.value for n in numbers])))


# ---- few degrees of freedom


def test_normal_scores_have_the_tail_of_students_t() -> None:
    seen = 0
    for seed in range(16):
        result = score(Lanes(lanes=2).over(Layout.equal(64, 64), seed=seed), batch_size=16, epochs=4)
        for n in result.numbers:
            if n.perfect is None or n.error <= n.perfect_error or not 2 <= n.freedom <= 8:
                continue
            t = (n.value - n.perfect) / n.error
            if abs(t) > 8:  # the approximation is good to a few parts in a hundred up to here
                continue
            exact = np.sign(t) * stats.norm.isf(stats.t.sf(abs(t), n.freedom))
            assert n.z_bias == pytest.approx(exact, rel=0.03, abs=0.01), n
            seen += 1
    assert seen >= 12
