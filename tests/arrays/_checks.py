"""What the tests of array shuffles share: limits that send a few rows through every step, and chi-square tests."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from tombola.arrays._slow import Limits

#: A fair shuffle fails a test with this probability. Seeds are fixed, so a test that passes once passes always.
P_MIN = 1e-4

#: Name → limits so small that six rows are scattered, by several tasks, to several levels.
SMALL = {
    "leaf only": Limits(),
    "two buckets": Limits(1, 1, 1, 1, 1, 1, 10**6),
    "four buckets": Limits(1, 1, 2, 1, 1, 1, 10**6),
    "several tasks": Limits(1, 1, 1, 1, 1, 4, 10**6),
    "eight buckets, two tasks": Limits(2, 1, 3, 1, 1, 2, 10**6),
    "leaves of three": Limits(3, 2, 2, 1, 1, 2, 10**6),
    "a wide margin": Limits(1, 1, 1, 2, 1, 1, 10**6),
}


def key(i: int) -> int:
    """Unrelated 64-bit keys."""
    return (i * 0x9E3779B97F4A7C15 + 12345) % 2**64


def p_of_all_orders(n: int, per_order: int, order_of: Callable[[int], npt.NDArray[np.int64]]) -> float:
    """The p-value of chi-square over all n! orders, for so many draws for each; order_of(i) is the i-th draw."""
    orders = math.factorial(n)
    draws = orders * per_order
    weights = n ** np.arange(n)
    codes = np.array([order_of(i) @ weights for i in range(draws)])
    counts = np.zeros(orders)
    found = np.unique(codes, return_counts=True)[1]
    counts[: found.size] = found
    return p_uniform(counts)


def p_uniform(counts: npt.ArrayLike) -> float:
    """The p-value of counts that should be equal."""
    counts = np.asarray(counts, float).ravel()
    mean = counts.mean()
    return float(chi2.sf(((counts - mean) ** 2).sum() / mean, counts.size - 1))
