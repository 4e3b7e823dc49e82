"""The keyed permutation looks drawn at random: a battery with fixed keys and a tiny false-alarm rate.

Every test is a chi-square or normal test at ALARM, so that all of them together would fail a perfect source of
permutations less than once in ten thousand choices of keys. Parity is left out: a Feistel network on many bits makes
even permutations only, and nothing that reads records can see it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from tombola import _core
from tombola.order import Permutation, derive_key
from tombola.order._slow import child

ALARM = 1e-7

# Sequential keys are the hardest: nothing but the permutation's own key schedule keeps them apart.
FAMILIES: dict[str, Callable[[int], int]] = {
    "sequential": lambda i: i,
    "children": lambda i: child(derive_key(1, "battery"), i),
    "seeds": lambda i: derive_key(i, "permutation"),
}


def drawn(n: int, keys: int, family: str) -> np.ndarray:
    """One permutation a row."""
    out, key = np.empty((keys, n), np.int64), FAMILIES[family]
    for i in range(keys):
        _core.Permutation(n, key(i)).run(0, out[i], 1)
    return out


def check(statistic: float, freedom: int) -> None:
    """Neither too far from the expected counts nor too close to them."""
    assert ALARM < stats.chi2.sf(statistic, freedom) < 1 - ALARM, (statistic, freedom)


def chi_square(seen: np.ndarray, expected: np.ndarray | float) -> float:
    return float(((seen - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_all_permutations_are_equally_likely(n: int, family: str) -> None:
    keys = 30_000
    code = drawn(n, keys, family) @ n ** np.arange(n)
    every = np.array(list(itertools.permutations(range(n)))) @ n ** np.arange(n)
    seen = (code[:, None] == every[None, :]).sum(0) if n < 5 else np.array([np.count_nonzero(code == c) for c in every])
    assert seen.sum() == keys
    check(chi_square(seen, keys / every.size), every.size - 1)


# 128 is the last size of the table, 129 the first of the network; 129, 257 and 65537 walk cycles the most.
SIZES = {64: 8000, 128: 8000, 129: 8000, 130: 8000, 200: 6000, 256: 6000, 257: 6000, 1000: 2000, 4096: 600, 65537: 40}


@pytest.mark.parametrize("family", ["sequential", "children"])
@pytest.mark.parametrize("n", SIZES)
def test_battery(n: int, family: str) -> None:
    keys = SIZES[n]
    rows = drawn(n, keys, family)
    _positions(rows)
    _pairs(rows)
    _differences(rows)
    _flipped_bits(rows)
    _correlations(rows)


def _positions(rows: np.ndarray) -> None:
    """Where each place goes: every cell of (place, value) as often as every other, on a grid of at most 64 × 64."""
    keys, n = rows.shape
    cells = min(n, 64)
    group = np.arange(n) * cells // n
    wide = np.bincount(group)
    seen = np.zeros(cells * cells)
    for row in rows:
        seen += np.bincount(group * cells + group[row], minlength=cells * cells)
    expected = keys * np.outer(wide, wide) / n
    # Rows and columns are fixed sums; the factor makes the sum of squares exact for permutations.
    check(chi_square(seen.reshape(cells, cells), expected) * (n - 1) / n, (cells - 1) ** 2)


def _pairs(rows: np.ndarray) -> None:
    """Where two places go together: neighbours, the two ends, the middle, and places one half-word apart."""
    keys, n = rows.shape
    cells = 12
    group = np.arange(n) * cells // n
    wide = np.bincount(group).astype(float)
    ways = np.outer(wide, wide) - np.diag(wide)
    for i, j in ((0, 1), (0, n - 1), (n // 2 - 1, n // 2), (3, 3 + 2 ** (((n - 1).bit_length() + 1) // 2))):
        seen = np.bincount(group[rows[:, i]] * cells + group[rows[:, j]], minlength=cells * cells)
        check(chi_square(seen.reshape(cells, cells), keys * ways / (n * (n - 1))), cells * cells - 1)


def _differences(rows: np.ndarray) -> None:
    """at(i + d) − at(i) modulo n, for one pair of places a key, so that the draws are independent."""
    keys, n = rows.shape
    cells = min(n - 1, 64)
    for lag in (1, 2, n // 2):
        place = np.arange(keys) * 7919 % (n - lag)
        step = (rows[np.arange(keys), place + lag] - rows[np.arange(keys), place]) % n
        group = (np.arange(1, n) * cells - 1) // (n - 1)
        seen = np.bincount(group[step - 1], minlength=cells)
        check(chi_square(seen, keys * np.bincount(group, minlength=cells) / (n - 1)), cells - 1)


def _flipped_bits(rows: np.ndarray) -> None:
    """at(i) xor at(i xor bit): what a differential attack looks at, on the sizes that fill their bits."""
    keys, n = rows.shape
    if n & (n - 1):
        return
    cells = min(n, 64)
    for bit in (1, 1 << ((n - 1).bit_length() // 2), n >> 1):
        place = np.arange(keys) * 7919 % n
        change = rows[np.arange(keys), place] ^ rows[np.arange(keys), place ^ bit]
        seen = np.bincount(change * cells // n, minlength=cells).astype(float)
        expected = np.full(cells, keys * (n // cells) / (n - 1))
        expected[0] -= keys / (n - 1)  # no change at all cannot be
        kept = expected > 0
        check(chi_square(seen[kept], expected[kept]), int(kept.sum()) - 1)


def _correlations(rows: np.ndarray) -> None:
    """Neighbouring keys, and neighbouring places, as rank correlations: their mean and their scatter."""
    keys, n = rows.shape
    centred = rows - (n - 1) / 2
    unit = n * (n * n - 1) / 12
    between = (centred[1::2] * centred[:-1:2][: keys // 2]).sum(1) / unit * math.sqrt(n - 1)  # variance exactly 1
    _normal(between, 0.0, 1.0)
    along = (centred[:, 1:] * centred[:, :-1]).sum(1) / unit
    # Over all permutations the mean is −1/n; the scatter is checked by its mean alone.
    _normal(along, -1 / n, None)
    agree = (rows[1::2] == rows[:-1:2][: keys // 2]).sum(1)
    _normal(agree.astype(float), 1.0, 1.0)


def _normal(values: np.ndarray, mean: float, variance: float | None) -> None:
    far = -stats.norm.ppf(ALARM)
    spread = values.std(ddof=1)
    assert abs(values.mean() - mean) < far * spread / math.sqrt(values.size)
    if variance is not None:
        fourth = ((values - values.mean()) ** 4).mean()
        error = math.sqrt((fourth - spread**4) / values.size)
        assert abs(spread**2 - variance) < far * error


@pytest.mark.parametrize("n", [2**30, 2**31 + 1, 10**12, 2**62])
def test_neighbouring_outputs_are_unrelated(n: int) -> None:
    """Runs from the start, the middle and the end: a weak round function shows in consecutive outputs first."""
    far = -stats.norm.ppf(ALARM)
    for seed in range(3):
        shuffle = Permutation(n, seed)
        for start in (0, n // 2 - 50_000, n - 100_000):
            unit = (shuffle.slice(start, start + 100_000) / n - 0.5) * math.sqrt(12)
            for lag in (1, 2, 256):
                assert abs((unit[lag:] * unit[:-lag]).mean()) < far / math.sqrt(100_000 - lag)
            check(chi_square(np.bincount(((unit / math.sqrt(12) + 0.5) * 100).astype(int), minlength=100), 1000), 99)
            other = (Permutation(n, seed + 1).slice(start, start + 100_000) / n - 0.5) * math.sqrt(12)
            assert abs((unit * other).mean()) < far / math.sqrt(100_000)


def test_the_battery_finds_a_weak_permutation() -> None:
    """Four rounds with halves of the wrong width and one multiply: the kind of network that has been shipped."""
    n, keys = 256, 6000

    def weak(i: np.ndarray, key: int) -> np.ndarray:
        left, right = i >> 4, i & 15
        for turn in range(3):
            left, right = right, left ^ ((right * 0x9E3779B1 + key * (turn + 1)) >> 3 & 15)
        return left << 4 | right

    rows = np.array([weak(np.arange(n), key) for key in range(keys)])
    assert (np.sort(rows, axis=1) == np.arange(n)).all()
    for part in (_positions, _pairs, _differences, _flipped_bits, _correlations):
        with pytest.raises(AssertionError):
            part(rows)
