"""Every formula about a perfect shuffle, against all orders of a few records, scipy, or a simulation."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from tombola.order import Layout
from tombola.quality import _perfect
from tombola.quality._feature import Feature
from tombola.quality._measure import rho_between

SIZES = np.array([3, 2, 2])
SHARD = np.repeat(np.arange(3), SIZES)
EVERY = np.array(list(itertools.permutations(range(7))))  # all 5,040 orders


def same_pairs(rows: np.ndarray) -> np.ndarray:
    """Equal pairs in each row, counted pair by pair."""
    pairs = itertools.combinations(range(rows.shape[-1]), 2)
    return sum((rows[..., i] == rows[..., j]).astype(int) for i, j in pairs)


@pytest.mark.parametrize(("batch_size", "batches"), [(2, 1), (2, 3), (3, 1), (3, 2), (7, 1)])
def test_same_shard_over_all_orders(batch_size: int, batches: int) -> None:
    pairs = _perfect.Pairs(SIZES)
    rows = SHARD[EVERY[:, : batch_size * batches]].reshape(-1, batches, batch_size)
    seen = same_pairs(rows).mean(1) / math.comb(batch_size, 2)
    assert seen.mean() == pytest.approx(pairs.same, abs=1e-12)
    assert seen.std() == pytest.approx(pairs.spread(batch_size, batches), abs=1e-7)


def test_three_of_one_shard_over_all_orders() -> None:
    rows = SHARD[EVERY[:, :3]]
    seen = ((rows[:, 0] == rows[:, 1]) & (rows[:, 1] == rows[:, 2])).mean()
    assert seen == pytest.approx(_perfect.Pairs(SIZES).touching, abs=1e-12)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 7])
def test_distinct_shards_over_all_orders(batch_size: int) -> None:
    seen = np.array([len(set(row)) for row in SHARD[EVERY[:, :batch_size]].tolist()])
    mean, spread = _perfect.distinct(SIZES, batch_size, 1)
    assert seen.mean() == pytest.approx(mean, abs=1e-9)
    assert seen.std() == pytest.approx(spread, abs=1e-6)


def test_many_shard_sizes_bound_the_spread() -> None:
    sizes = np.arange(1, 401)
    shard = np.repeat(np.arange(400), sizes)
    rng = np.random.default_rng(3)
    seen = [np.unique(rng.choice(shard, 200, replace=False)).size for _ in range(400)]
    mean, spread = _perfect.distinct(sizes, 200, 1)
    assert np.mean(seen) == pytest.approx(mean, abs=5 * np.std(seen) / 20)
    assert spread > np.std(seen)


@pytest.mark.parametrize("batch_size", [2, 3, 6])
def test_entropy_over_all_orders(batch_size: int) -> None:
    def entropy(row: list[int]) -> float:
        return -sum(k / batch_size * math.log(k / batch_size) for k in Counter(row).values())

    seen = np.mean([entropy(row) for row in SHARD[EVERY[:, :batch_size]].tolist()])
    assert seen == pytest.approx(_perfect.entropy(SIZES, batch_size), abs=1e-9)


@pytest.mark.parametrize(("size", "records", "batch_size"), [(1, 10, 3), (9, 10, 3), (5, 5, 5), (300, 100_000, 512)])
def test_counts_in_a_batch_are_hypergeometric(size: int, records: int, batch_size: int) -> None:
    k, chance = _perfect.counts_in_batch(size, records, batch_size)
    law = stats.hypergeom(records, size, batch_size)
    np.testing.assert_allclose(chance, law.pmf(k), rtol=1e-7, atol=1e-300)
    assert chance.sum() == pytest.approx(1)
    assert _perfect.absent(np.array([size]), records, batch_size)[0] == pytest.approx(law.pmf(0), rel=1e-7, abs=1e-15)


@pytest.mark.parametrize("n", [2, 5, 7])
def test_displacement_over_all_orders(n: int) -> None:
    seen = np.array([sum(abs(i - r) for i, r in enumerate(p)) for p in itertools.permutations(range(n))]) / n**2
    mean, spread = _perfect.displacement(n)
    assert seen.mean() == pytest.approx(mean)
    # The textbook variance is of the sum of |i − p(i)|, exact for every n > 1.
    assert seen.std() == pytest.approx(spread)


def test_distance_of_two_records_by_simulation() -> None:
    rng = np.random.default_rng(1)
    away = np.abs(rng.integers(0, 10_000, 200_000) - rng.integers(0, 10_000, 200_000))
    for chance in (0.05, 0.5, 0.95):
        share = (away <= _perfect.distance_at(chance, 10_000)).mean()
        assert share == pytest.approx(chance, abs=5 * math.sqrt(chance * (1 - chance) / 200_000) + 1e-4)


def test_worst_gap_by_simulation() -> None:
    rng = np.random.default_rng(2)
    sizes = np.full(50, 40)
    worst = []
    for _ in range(200):
        shard = rng.permutation(np.repeat(np.arange(50), sizes))
        by = np.argsort(shard, kind="stable").reshape(50, 40)
        worst.append(max(int(np.diff(row, prepend=-1, append=2000).max()) for row in by))
    assert np.mean(worst) == pytest.approx(_perfect.worst_gap(sizes, 2000), rel=0.1)


# ---- formulas with a feature, on arbitrary data with likeness inside shards

N, SIZE = 6, 4
VALUES = np.random.default_rng(5).normal(size=(N, SIZE)) + np.random.default_rng(6).normal(size=(N, 1)) * 2


def pairwise_rho() -> float:
    off = (VALUES - VALUES.mean()) / VALUES.std()
    return float(((off.sum(1) ** 2).sum() - (off**2).sum()) / (N * SIZE * (SIZE - 1)))


def test_correlation_within_shards_is_that_of_all_pairs() -> None:
    feature = Feature(VALUES.reshape(-1), Layout.equal(N, SIZE), "auto", 0)
    assert feature.rho.finite == pytest.approx(pairwise_rho(), abs=1e-12)


def test_correlation_between_shards_is_that_of_all_pairs() -> None:
    off = ((VALUES - VALUES.mean()) / VALUES.std()).reshape(-1)
    shard = np.repeat(np.arange(N), SIZE)
    apart = shard[:, None] != shard[None, :]
    rho0 = (off[:, None] * off[None, :])[apart].mean()
    m, rho = N * SIZE, pairwise_rho()
    assert rho_between(rho, (SIZE - 1) / (m - 1), m) == pytest.approx(rho0, abs=1e-12)
    assert rho0 == pytest.approx(-(1 + (SIZE - 1) * rho) / (m - SIZE), abs=1e-12)


@pytest.mark.parametrize("opened", [1, 2, 3, 5])
def test_drift_of_a_buffer_over_all_choices_of_shards(opened: int) -> None:
    means = [VALUES[list(chosen)].mean() for chosen in itertools.combinations(range(N), opened)]
    alpha = (opened - 1) / (N - 1)
    h = 1 + (SIZE - 1) * pairwise_rho()
    formula = (1 - alpha) * h * VALUES.var() / (opened * SIZE)
    assert np.var(means) == pytest.approx(formula, abs=1e-12)


@pytest.mark.parametrize(("opened", "batch_size"), [(2, 3), (3, 6), (6, 8)])
def test_design_effect_by_simulation(opened: int, batch_size: int) -> None:
    """Batches drawn at random from a few shards drawn at random: positions are exchangeable there."""
    rng = np.random.default_rng(opened)
    means = []
    for _ in range(20_000):
        buffer = VALUES[rng.choice(N, opened, replace=False)].reshape(-1)
        means.append(rng.choice(buffer, batch_size, replace=False).mean())
    seen = batch_size * (np.array(means) - VALUES.mean()) ** 2 / VALUES.var()
    same = (SIZE - 1) / (opened * SIZE - 1)
    rho, m = pairwise_rho(), N * SIZE
    rho0 = rho_between(rho, (SIZE - 1) / (m - 1), m)
    formula = 1 + (batch_size - 1) * (same * rho + (1 - same) * rho0)
    assert seen.mean() == pytest.approx(formula, abs=5 * seen.std() / math.sqrt(20_000))


def test_anova_recovers_a_known_correlation_and_its_error() -> None:
    layout, truth, found = Layout.equal(200, 30), 0.2, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(200, 1)) * truth**0.5 + rng.normal(size=(200, 30)) * (1 - truth) ** 0.5
        found.append(Feature(values.reshape(-1), layout, "auto", seed).rho)
    rho, error = np.array([f.rho for f in found]), np.array([f.error for f in found])
    assert rho.mean() == pytest.approx(truth, abs=5 * rho.std() / math.sqrt(60))
    assert error.mean() == pytest.approx(rho.std(), rel=0.4)
    assert np.mean(np.abs(rho - truth) < 2 * error) > 0.8


def test_embeddings_and_labels_have_the_summed_correlation() -> None:
    rng = np.random.default_rng(0)
    layout = Layout.equal(40, 25)
    labels = np.repeat(rng.integers(0, 5, 40), 25)
    labels[rng.random(1000) < 0.3] = 2
    one_hot = np.eye(5)[labels]
    as_label, as_vector = Feature(labels, layout, "auto", 3), Feature(one_hot, layout, "auto", 3)
    assert as_label.rho.rho == pytest.approx(as_vector.rho.rho)
    assert as_label.rho.error == pytest.approx(as_vector.rho.error)
    assert as_label.variance == pytest.approx(as_vector.variance)
    records = rng.permutation(1000)
    np.testing.assert_allclose(as_label.batches(records, 50)[0], as_vector.batches(records, 50)[0])
